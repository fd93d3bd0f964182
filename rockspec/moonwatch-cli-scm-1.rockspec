rockspec_format = "3.0"
package = "moonwatch-cli"
version = "scm-1"
source = { url = "git+file://." } -- `make rock` puts the folder's path there
description = {
  summary = "The command moonwatch",
  detailed = [[
    Runs a Lua program unchanged and shows what happened, tells what varies
    between examples, and what differs between two values.]],
  license = "MIT",
  labels = { "commandline", "tracing" },
}
dependencies = { "lua >= 5.4", "moonwatch", "argparse >= 0.7" }
build = {
  type = "none",
  install = {
    lua = {
      ["moonwatch.command.diff"] = "command/moonwatch/command/diff.lua",
      ["moonwatch.command.dynamism"] = "command/moonwatch/command/dynamism.lua",
      ["moonwatch.command.globals"] = "command/moonwatch/command/globals.lua",
      ["moonwatch.command.progress"] = "command/moonwatch/command/progress.lua",
      ["moonwatch.command.read"] = "command/moonwatch/command/read.lua",
      ["moonwatch.command.report"] = "command/moonwatch/command/report.lua",
      ["moonwatch.command.run"] = "command/moonwatch/command/run.lua",
      ["moonwatch.command.undo"] = "command/moonwatch/command/undo.lua",
      ["moonwatch.command.version"] = "command/moonwatch/command/version.lua",
      ["moonwatch.command.why"] = "command/moonwatch/command/why.lua",
    },
    bin = { moonwatch = "command/main.lua" },
  },
}

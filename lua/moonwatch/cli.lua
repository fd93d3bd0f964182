#!/usr/bin/env lua5.4
--- The `moonwatch` command.
-- Its exit status is 0, 1 when something failed, 2 when the arguments are
-- wrong.
-- SPDX-License-Identifier: MIT

local USAGE = [[
usage: moonwatch version
       moonwatch --help
]]

local commands = {}

function commands.version()
  print("moonwatch " .. require "moonwatch".version)
  return 0
end

commands["--help"] = function()
  io.write(USAGE)
  return 0
end

if ... == "moonwatch.cli" then return commands end -- required, not run

local command = commands[arg[1] or ""]
if not command or arg[2] then
  io.stderr:write(USAGE)
  os.exit(2)
end
os.exit(command())

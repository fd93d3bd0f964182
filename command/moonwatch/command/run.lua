--- moonwatch run: runs a script as Lua does, and keeps what the script does.
-- SPDX-License-Identifier: MIT

local mw = require "moonwatch"
local globals = require "moonwatch.command.globals"
local undo = require "moonwatch.command.undo"
local why = require "moonwatch.command.why"

local run = {
  summary = "Run a script, and show or take back what it does.",
  description = "Run a script as Lua does: the same arguments, the same " ..
    "messages,\nthe same exit status.",
  example = [[
   moonwatch run --report page.html game.lua --level 3

runs game.lua with the arguments --level 3.  When game.lua ends or fails, the
page has its measured scopes, watched writes, transactions and hierarchies.

   moonwatch run --why game.player.hp game.lua

says who wrote this field last, where, and because of what.]],
  -- with an argument: what the option does
  options = {
    ["--policy"] = "Use the policy in this file.",
    ["--trace"] = "Write a trace to this file (opens in Perfetto).",
    ["--report"] = "Write a page with the trace to this file.",
    ["--why"] = "When the script ends or fails, say who wrote this field\n" ..
      "last: a global, or a field below globals, as game.list[1].hp.",
  },
}

function run.define(parser)
  parser:option("--policy", run.options["--policy"]):argname "<file>"
  parser:option("--trace", run.options["--trace"]):argname "<file>"
  parser:option("--report", run.options["--report"]):argname "<file>"
  parser:option("--why", run.options["--why"]):argname "<field>"
    :convert(why.keys)
  parser:flag("--transaction", "If the script fails, take back what it " ..
    "wrote: to globals,\nto tables below them, and to what it tracks.")
  parser:argument("script", "The script.")
  parser:argument("args", "The script's arguments."):args "*"
end

local function complain(...) io.stderr:write("moonwatch: ", ..., "\n") end

-- {======================================================
-- As Lua does it
-- =======================================================

-- Returns the name with which Lua was called.
local function interpreter()
  local i = 0
  while arg[i - 1] do i = i - 1 end
  return arg[i]
end

-- Returns the number of functions that are active below the caller.
local function depth()
  local n = 0
  while debug.getinfo(n + 2, "l") do n = n + 1 end
  return n
end

-- Removes the functions of the command from a traceback: `n` lines above the
-- last.
local function cut(text, n)
  local last = text:match "[^\n]*$"
  for _ = 0, n do text = text:gsub("\n[^\n]*$", "") end
  return text .. "\n" .. last
end

-- Returns the traceback of the caller's caller without the `base` functions at
-- its end.  Of many functions, Lua shows the first ten and the last eleven.
local function traceback(base)
  local text = debug.traceback("", 3)
  local head, n = text:match "^(.*)\n\t%.%.%.\t%(skipping (%d+) levels%)"
  if head then
    local skipped, from = n - base, 13 -- the first that `head` lacks
    if skipped > 0 then
      head = ("%s\n\t...\t(skipping %d levels)"):format(head, skipped)
      from = skipped + 14
    end
    text = head .. debug.traceback("", from):match ":(\n.*)"
  end
  return cut(text, base)
end

-- Returns a message handler as Lua's own, for functions that are called by a
-- function at `base`.
local function handler(base)
  return function(err)
    if type(err) ~= "string" and type(err) ~= "number" then
      local mt = debug.getmetatable(err)
      local has_text, text = pcall(tostring, err)
      if mt and mt.__tostring and has_text then return text end
      err = ("(error object is a %s value)"):format(type(err))
    end
    return err .. traceback(base)
  end
end

-- Calls a script with its arguments.  Returns true, or false and the message.
local function call(script, ...)
  local ok, message = xpcall(script, handler(depth()), ...)
  return ok, message -- no tail call, so that `depth` has counted this function
end

local function set_arg(args, name)
  arg = table.move(args.args, 1, #args.args, 1, { -- luacheck: globals arg
    [0] = args.script, [-1] = name })
end

-- }======================================================

-- {======================================================
-- What is kept
-- =======================================================

local SOURCES = { "watch", "epoch", "transaction", "hierarchy" }

local function write(trace, path, format)
  local ok, message = true, nil
  if path then ok, message = trace:write(path, format) end
  if not ok then complain(message) end
  return ok
end

-- Says who wrote a field.
local function tell(text, message)
  if text then io.stdout:write(text, "\n") else complain(message) end
end

-- Begins what the options ask for.  Returns the function that ends it, once:
-- finish(did the script succeed) -> whether all was written.
local function begin(args)
  local trace, scope, done
  if args.trace or args.report then
    trace = mw.trace { sources = SOURCES }:start()
    scope = mw.timed(args.script)
  end
  local untrack = (args.why or args.transaction) and globals()
  local ask = args.why and why.begin(args.why)
  if args.transaction then done = undo(args.script) end
  local finished = false
  return function(ok)
    if finished then return true end
    finished = true
    if ok and done then done(true) end
    if ask then tell(ask(not ok and done)) end
    if not ok and done then
      local is_back, err = pcall(done, false)
      if not is_back then complain(tostring(err)) end -- of a guard
    end
    if untrack then untrack() end
    if not trace then return true end
    scope:close()
    trace:stop()
    local written = write(trace, args.trace, "chrome")
    return write(trace, args.report, "html") and written
  end
end

-- A script that calls os.exit ends here, too.
local function finish_at_exit(finish)
  local exit = os.exit
  function os.exit(code, ...) -- luacheck: globals os.exit
    finish(code == nil or code == true or code == 0)
    exit(code, ...)
  end
end

-- }======================================================

local function use_policy(path)
  local policy, message = mw.load_policy(path)
  if policy then policy:use() else complain(message) end
  return policy ~= nil
end

function run.run(args)
  if args.policy and not use_policy(args.policy) then return 1 end
  local name = interpreter()
  local script, message = loadfile(args.script ~= "-" and args.script or nil)
  if not script then
    io.stderr:write(name, ": ", message, "\n")
    return 1
  end
  set_arg(args, name)
  local finish = begin(args)
  finish_at_exit(finish)
  local ok, err = call(script, table.unpack(args.args))
  if not ok then io.stderr:write(name, ": ", err, "\n") end
  return finish(ok) and ok and 0 or 1
end

return run

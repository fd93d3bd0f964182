--- The tape of a hierarchy: objects that executed, for a visit in reverse.
-- SPDX-License-Identifier: MIT
--
-- Each object that was left is an entry: its name, the names of the objects on
-- the stack, the last of which is its own, and its coroutine.  The tape holds
-- objects weakly.

local core = require "moonwatch.core"

local tapes = {}

--- Returns an empty tape.
function tapes.new()
  return { objects = setmetatable({}, { __mode = "v" }) }
end

--- Adds an object that is left; `path` has the names of the objects on the
-- stack.
function tapes.add(tape, obj, path)
  local i = #tape + 1
  tape[i] = { path = path, name = path[#path], thread = tapes.thread() }
  tape.objects[i] = obj
end

--- Returns the number of the running coroutine.
function tapes.thread() return core.id((coroutine.running())) end

-- A pass has the entries that were entered in reverse and not left (`open`),
-- the `entry` for the hooks, and the function `fire` that calls the hooks.
local Pass = {}
Pass.__index = Pass

local function leave(pass)
  local item = table.remove(pass.open)
  pass.entry = item.entry
  pass.fire("reverse_leave", item.obj, item.entry.name)
end

local function leave_to(pass, entry)
  local open, depth = pass.open, #entry.path
  while #open > 0 and (#open[#open].entry.path >= depth or
    open[#open].entry.thread ~= entry.thread) do
    leave(pass)
  end
end

local function visit(pass, obj, entry, fn)
  leave_to(pass, entry)
  pass.entry, pass.obj = entry, obj
  pass.fire("reverse_enter", obj, entry.name)
  pass.open[#pass.open + 1] = { obj = obj, entry = entry }
  fn(obj, entry.name)
end

local function leave_all(pass)
  while #pass.open > 0 do leave(pass) end
end

function Pass:__close()
  local ok, err = pcall(leave_all, self)
  self.finish()
  if not ok then error(err, 0) end
end

--- Visits the objects on the tape, the last first.  Calls `start` with the pass
-- before the first visit, and `finish` at the end, also after an error.
function tapes.run(tape, fn, fire, start, finish)
  local pass <close> = setmetatable(
    { open = {}, fire = fire, finish = finish }, Pass)
  for i = #tape, 1, -1 do
    local obj = tape.objects[i]
    if obj ~= nil then
      pass.entry, pass.obj = tape[i], obj
      if not pass.started then start(pass) end
      pass.started = true
      visit(pass, obj, tape[i], fn)
    end
  end
end

return tapes

--- What was executed, visited in reverse: the tape of a hierarchy.
-- SPDX-License-Identifier: MIT
--
-- Each object that was left is an entry: its name, the names of those that were
-- executing, itself included, and its coroutine.  Objects are held weakly.

local core = require "moonwatch.core"

local reverse = {}

--- A tape with nothing on it.
function reverse.new_tape()
  return { objects = setmetatable({}, { __mode = "v" }) }
end

--- Adds an object that is left: `path` are the names of those executing.
function reverse.add(tape, obj, path)
  local i = #tape + 1
  tape[i] = { path = path, name = path[#path], thread = reverse.thread() }
  tape.objects[i] = obj
end

--- The number of the running coroutine.
function reverse.thread() return core.id((coroutine.running())) end

-- A pass: `open` are the entries that were entered in reverse and not left,
-- `entry` is the one of which hooks are told, `fire` tells them.
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

--- Visits what is on the tape, the last first.  The state of the pass is given
-- to `start`; `finish` is called at the end, whatever happens.
function reverse.run(tape, fn, fire, start, finish)
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

return reverse

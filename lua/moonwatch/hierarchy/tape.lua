--- What a hierarchy records, and the passes back over it.
-- SPDX-License-Identifier: MIT
--
--     tape { left   steps whose frames were left as they should be, in order
--            open   order of a frame that is entered -> its step }
--     step { site, name, outer = the step of the frame outside, depth, thread,
--            wanted }
--
-- A step has the site of its object, which the tape does not hold, and the name
-- from then.  A pass has taken what was left, and visits it last first; steps
-- that it has entered and not left are `open`.

local private = require("moonwatch.core").private
local naming = require "moonwatch.hierarchy.naming"
local places = require "moonwatch.hierarchy.places"

local tapes = {}

function tapes.new() return { left = {}, open = {} } end

local function new_step(its, i, wanted)
  local obj, order, thread = its.engine.frame(i)
  local site = obj ~= nil and places.settle(its, obj) or nil
  local _, outside = its.engine.frame(i - 1)
  local step = { site = site, name = site and naming.name(its, site),
    outer = outside and its.tape.open[outside], depth = i, thread = thread,
    wanted = wanted }
  its.tape.open[order] = step
end

--- The frame at a depth has been entered: gives it a step, and those below it
-- that are from before the record.
function tapes.entered(its, depth, obj)
  local first = depth
  while first > 1 and
    not its.tape.open[select(2, its.engine.frame(first - 1))] do
    first = first - 1
  end
  for i = first, depth - 1 do new_step(its, i, true) end
  local only = its.only
  new_step(its, depth, not only or only(obj))
end

--- The frame on the top is left, perhaps as it should be.
function tapes.left(its, depth, completed)
  local _, order = its.engine.frame(depth)
  local step = its.tape.open[order]
  its.tape.open[order] = nil
  if step and step.wanted and completed and not tapes.pass(its) then
    table.insert(its.tape.left, step)
  end
end

--- Returns the pass of the running coroutine, or nil.
function tapes.pass(its) return its.passes[(coroutine.running())] end

local function visit(its, pass, step)
  pass.step = step
  its.engine.renamed()
  return its.objects[step.site], naming.text(its, step.name)
end

--- Returns the names of the steps on the way to where a pass is.
function tapes.path(its, pass)
  local names, step = {}, pass.step
  while step do
    names[step.depth] = step.name and naming.text(its, step.name) or "?"
    step = step.outer
  end
  return names
end

-- Tells the hooks; keeps the first error.
local function tell(its, pass, event, step)
  local obj, name = visit(its, pass, step)
  if obj == nil then return end
  local problem = its.fire(its, event, obj, obj, name)
  pass.problem = pass.problem or problem
end

-- Leaves the steps that are not around the next one.
local function leave_open(its, pass, step)
  local open = pass.open
  local last = open[#open]
  while last and not its.closed and
    (not step or last.depth >= step.depth or last.thread ~= step.thread) do
    open[#open] = nil
    tell(its, pass, "reverse_leave", last)
    last = open[#open]
  end
end

--- Raises the first error of hooks, in a table, if there is one; but never in
-- the place of an error `err` that is under way.
function tapes.raise(problem, err)
  if problem and err == nil then error(problem[1], 0) end
  if problem then private.late_error(problem[1], "hierarchy") end
end

-- The pass ends, perhaps for an error.
local function close(pass, err)
  local its = pass.its
  leave_open(its, pass)
  its.passes[pass.co] = pass.former
  its.engine.renamed()
  tapes.raise(pass.problem, err)
end

local Pass = { __close = close }

--- Visits what is on the tape.
function tapes.backward(its, fn)
  local left = its.tape.left
  if #left == 0 then return end
  local co = coroutine.running()
  its.tape = tapes.new()
  local pass <close> = setmetatable({ its = its, co = co, open = {},
    former = its.passes[co], first = its.engine.depth(),
    order = its.engine.order() }, Pass)
  pass.step = left[#left]
  its.passes[co] = pass
  for i = #left, 1, -1 do
    local step = left[i]
    if its.closed then break end
    if its.objects[step.site] ~= nil then
      leave_open(its, pass, step)
      tell(its, pass, "reverse_enter", step)
      pass.open[#pass.open + 1] = step
      fn(visit(its, pass, step))
    end
  end
end

return tapes

--- Runs of a history that are merged into one step.
-- SPDX-License-Identifier: MIT
--
-- A stroke has the effects of its runs, in order, and knows of each field the
-- first old value and the last new one, so that to add a run costs what the run
-- wrote.  When a run is taken out, all are counted anew: `is_counted` says that
-- `fields` and `changed` are right.  The effects of the whole are made when
-- somebody asks for them.  The history notes in a stroke whether it `is_out` of
-- the steps, and after which step it stood `before`.

local core = require "moonwatch.core"
local name_of = require "moonwatch.effects.name_of"
local state = require "moonwatch.effects.state"

local private = core.private
local get = private.entry

local stroke = {}

local Stroke = {}
Stroke.__index = Stroke

-- Does the field hold another value than before the stroke?
local function is_changed(field)
  return field.was ~= field.is or
    not state.same_value(field, field.old, field.new)
end

-- Adds an entry; `field.was` and `field.is` tell whether there is a value.
local function add_entry(self, object, key, old, new, kind)
  local of_object, name = self.fields[object] or {}, name_of(key, kind)
  self.fields[object] = of_object
  local field = of_object[name]
  if not field then
    field = {
      old = old, kind = kind,
      was = kind ~= "insert" and (kind ~= "raw" or old ~= nil),
    }
    of_object[name] = field
  elseif is_changed(field) then
    self.changed = self.changed - 1
  end
  field.new = new
  field.is = kind ~= "delete" and (kind ~= "raw" or new ~= nil)
  if is_changed(field) then self.changed = self.changed + 1 end
end

local function add_all(self, fx)
  for i = 1, #fx do
    local object, key, old, new, kind = get(fx, i)
    if object ~= nil then add_entry(self, object, key, old, new, kind) end
  end
end

-- Counts the changed fields of all runs.
local function count_all(self)
  self.fields, self.changed = setmetatable({}, { __mode = "k" }), 0
  for _, fx in ipairs(self.parts) do add_all(self, fx) end
  self.is_counted = true
end

local function new(parts)
  local self = setmetatable({
    parts = parts, is_counted = false, is_out = false, before = false,
  }, Stroke)
  count_all(self)
  return self
end

local function is_stroke(step) return getmetatable(step) == Stroke end

--- Returns a stroke for a step: a stroke, or the effects of one run.
function stroke.of(step)
  return is_stroke(step) and step or new { step }
end

--- Returns a stroke of the runs of the steps in an array.
function stroke.join(steps)
  local parts = {}
  for _, step in ipairs(steps) do
    local its = is_stroke(step) and step.parts or { step }
    table.move(its, 1, #its, #parts + 1, parts)
  end
  return new(parts)
end

local function place_of(self, fx)
  for i = #self.parts, 1, -1 do
    if rawequal(self.parts[i], fx) then return i end
  end
end

--- Tells whether a step is a stroke with the effects of this run.
function stroke.has(step, fx)
  return is_stroke(step) and place_of(step, fx) ~= nil
end

--- Adds the effects of a run.  If there is no memory, nothing is added.
function Stroke:add(fx)
  if not self.is_counted then count_all(self) end
  self.is_counted, self.whole = false, nil
  add_all(self, fx)
  self.parts[#self.parts + 1] = fx
  self.is_counted = true
end

--- Takes the effects of a run out, which are there.
function Stroke:take_out(fx)
  table.remove(self.parts, place_of(self, fx))
  self.is_counted, self.whole = false, nil
end

--- Returns the number of runs.
function Stroke:count() return #self.parts end

--- Tells whether the runs have cancelled out.
function Stroke:is_empty()
  if not self.is_counted then count_all(self) end
  return self.changed == 0
end

-- Returns the effects of the runs one after the other.
local function joined(parts)
  local list = {}
  for _, fx in ipairs(parts) do
    for e in fx:entries() do
      if e.object ~= nil then list[#list + 1] = e end
    end
  end
  return private.effects(list)
end

--- Returns the effects of a step.
function stroke.effects(step)
  if not is_stroke(step) then return step end
  step.whole = step.whole or joined(step.parts):squash()
  return step.whole
end

--- Tells whether all objects are after the effects as they were before.
function stroke.changes_nothing(fx)
  local changes = private.changes(fx)
  return not changes or changes == "state" and new({ fx }).changed == 0
end

return stroke

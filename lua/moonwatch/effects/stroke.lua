--- Runs of a history that are merged into one step.
-- SPDX-License-Identifier: MIT
--
-- A stroke has the effects of its runs, in order, and knows of each field the
-- first old value and the last new one, so that to add a run costs what the run
-- wrote.  The effects of the whole are made when somebody asks for them.

local core = require "moonwatch.core"
local state = require "moonwatch.effects.state"
local same = require "moonwatch.same"

local private = core.private
local get = private.entry

local stroke = {}

local Stroke = {}
Stroke.__index = Stroke

local CLASS = {} -- stands for the key of a change of class
local STATE = {} -- stands for the keys of calls of mutators
local NAN = {}

local function name_of(key, kind)
  if kind == "call" then return STATE end
  if key == nil then return CLASS end
  return key == key and key or NAN
end

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

local function new(parts)
  local self = setmetatable({ parts = {}, fields = {}, changed = 0 }, Stroke)
  for _, fx in ipairs(parts) do
    add_all(self, fx)
    self.parts[#self.parts + 1] = fx
  end
  return self
end

--- Returns a stroke for a step: a stroke, or the effects of one run.
function stroke.of(step)
  if getmetatable(step) == Stroke then return step end
  return new { step }
end

--- Adds the effects of a run.  Returns a function that takes them out again.
function Stroke:add(fx)
  local n = #self.parts
  add_all(self, fx)
  self.parts[n + 1], self.whole = fx, nil
  return function()
    local former = new(table.move(self.parts, 1, n, 1, {}))
    self.parts, self.fields, self.changed = former.parts, former.fields,
      former.changed
    self.whole = nil
  end
end

--- Tells whether the runs have cancelled out.
function Stroke:is_empty() return self.changed == 0 end

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
  if getmetatable(step) ~= Stroke then return step end
  step.whole = step.whole or joined(step.parts):squash()
  return step.whole
end

--- Tells whether all objects are after the effects as they were before.
function stroke.changes_nothing(fx)
  if #fx == 1 then
    local _, _, old, value, kind = get(fx, 1)
    return kind == "update" and same(old, value) or
      kind == "call" and state.same(old, value)
  end
  return new({ fx }).changed == 0
end

return stroke

--- The steps that perform effects in a program that has only some objects.
-- SPDX-License-Identifier: MIT
--
--     script.classes  classes that are known by name: { object, name }
--     script.places   existing objects, each with the way to it:
--                     { object, root = name, keys... }
--     script.tables   new tables, each with its contents:
--                     { object, class = , fields = { { key, value }... } }
--     script.calls    { object, method, arguments..., n = }, before the writes
--     script.writes   { object, key, value, kind }, in the order of the program
--
-- Ways are those before the effects, as they will be when the script runs.  A
-- key of a way may be an object that stands in the lists before.  The order of
-- all lists depends on the contents alone.

local core = require "moonwatch.core"
local named = require "moonwatch.policy.named"
local before_after = require "moonwatch.effects.before_after"
local new_ways = require "moonwatch.effects.ways"
local recorded = require "moonwatch.effects.recorded"

local private = core.private
local is_object = private.is_object

local Script = {}
Script.__index = Script

local function fail(message, ...) error { message = message:format(...) } end

function Script:add_place(object, way)
  for _, key in ipairs(way) do self:need(key) end
  local place = { object = object, root = way.root }
  self.places[#self.places + 1] = table.move(way, 1, #way, 1, place)
end

-- Returns what stands for the class of an object in the script.
function Script:class_of(object, class)
  if class == nil or not self.by_name then return class end
  return named.of(object, class) or class
end

-- Makes sure that the script can have a class, by its name or by a way.
function Script:need_class(class)
  if class == nil or self.known[class] then return end
  local name = self.by_name and named.name(class)
  local way = not self.by_name and self.ways:of_class(class)
  if name then
    self.known[class] = true
    self.classes[#self.classes + 1] = { object = class, name = name }
  elseif way then
    self.known[class] = true
    self:add_place(class, way)
  elseif self.by_name then
    fail "a class has no name: see mw.name_class"
  elseif type(class) == "table" and not private.is_class(class) then
    self:need(class)
  else
    fail "there is no way to a class"
  end
end

-- Makes sure that the script can have a value: the value is plain, or there is
-- a way to it, or it is a new table.  A new table in a field of a `parent` that
-- is tracked is tracked, too.
function Script:need(value, parent)
  if parent and type(value) == "table" and private.intercepts(parent) then
    self.below[value] = true
  end
  if not is_object(value) or self.known[value] then return end
  local is_table = type(value) == "table"
  if is_table and (private.is_class(value) or named.name(value)) then
    return self:need_class(value)
  end
  local way = self.ways:of(value)
  if not way and not is_table then
    fail("there is no way to a %s", type(value))
  end
  self.known[value] = true
  if way then
    self:add_place(value, way)
  else
    self.tables[#self.tables + 1] = { object = value, fields = {} }
  end
end

-- Tells whether a value does not belong to the state, and cannot be said.  The
-- policy decides about tables that have no way.
function Script:is_outside(parent, key, value)
  return type(value) == "table" and not self.known[value] and
    private.enters(self.ways.root, parent, key, value) == false and
    not self.ways:of(value)
end

-- Adds the contents of a new table.
function Script:fill(its)
  local object = its.object
  if self.after:is_weak(object) then
    fail "a weak table cannot be written down"
  end
  if not self.after:fresh(object) or
    self.below[object] and self.after:is_gone(object) then
    fail "a new table has changed since the effects were made"
  elseif self.ways:has_moved(object) then
    fail "a table has moved since the effects were made"
  end
  local held = self.after:contents(object)
  its.class = self:class_of(object, self.after:class(object))
  self:need_class(its.class)
  for _, key in ipairs(self.ways:sorted_keys(held)) do
    local value = held[key]
    if not self:is_outside(object, key, value) then
      self:need(key)
      self:need(value, object)
      its.fields[#its.fields + 1] = { key, value }
    end
  end
end

function Script:write(e)
  if not self.ways:of(e.object) then
    self.unplaced[#self.unplaced + 1] = e
    return
  end
  local value = e.new
  if e.kind == "call" then
    fail("a call of the mutator '%s' cannot be written down", tostring(e.key))
  elseif e.kind == "metatable" then
    self:need(e.object)
    value = self:class_of(e.object, e.new)
    self:need_class(value)
  elseif self:is_outside(e.object, e.key, e.new) then
    return
  else
    if e.old ~= nil and is_object(e.key) and not self.ways:of(e.key) then
      fail "there is no way to an object that is a key"
    end
    self:need(e.object)
    self:need(e.key)
    self:need(e.new, e.object)
  end
  self.writes[#self.writes + 1] = {
    object = e.object, key = e.key, value = value, kind = e.kind,
  }
end

local function make(fx, names, calls, by_name)
  local first, last = before_after(fx, names)
  local self = setmetatable({
    ways = new_ways(names, first), after = last, known = {},
    by_name = by_name, classes = {}, places = {}, tables = {}, writes = {},
    unplaced = {}, below = {}, calls = calls or {},
  }, Script)
  for _, call in ipairs(self.calls) do
    for i = 1, call.n do self:need(call[i]) end
  end
  for _, e in ipairs(recorded.list(fx:squash())) do self:write(e) end
  for _, its in ipairs(self.tables) do self:fill(its) end -- which grows
  -- The contents of new tables include the writes to them; and what came and
  -- went within the effects is left out.  No other write may be without a way.
  local loose = {}
  for _, e in ipairs(self.unplaced) do
    if not self.known[e.object] then loose[#loose + 1] = e end
  end
  self.ways:check_loose(loose, self.after)
  return self
end

--- Returns the script for effects; `names` has the objects that will exist, by
-- name; `calls`, if any, come before the writes.  With `by_name`, classes are
-- those with names of their own.  Returns nil and a message if the script
-- cannot have some value.
return function(fx, names, calls, by_name)
  local ok, result = pcall(make, fx, names, calls, by_name)
  if ok then return result end
  if type(result) ~= "table" then error(result, 0) end
  return nil, result.message
end

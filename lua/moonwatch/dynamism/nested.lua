--- mw.to_nested: an object as nested tables of its shaped values and numbers.
-- SPDX-License-Identifier: MIT
--
--     { _parameters = { name = value... },     values that have a shape
--       _modules = { name = nested... },       objects
--       field = number... }                    public fields
--
-- A field is public unless its name begins with "_".  The fields of an object
-- are its own and those of the classes that it inherits from; they are read as
-- the program reads them.  The tables in the fields `_parameters`, `_buffers`
-- and `_modules` are taken for what these names say.  A list of objects counts
-- as an object.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local path = require "moonwatch.path"
local shape = require "moonwatch.dynamism.shape"

local metatable, raw = core.private.metatable, core.private.raw

local DEPTH = 100 -- of inheritance, at most

-- Returns the set of the names of an object's fields.
local function names_of(obj)
  local names = {}
  for name in next, shape.contents(obj) or {} do names[name] = true end
  for _ = 1, DEPTH do
    local mt = metatable(obj)
    obj = type(mt) == "table" and rawget(mt, "__index")
    if type(obj) ~= "table" then break end
    for name in next, raw(obj) do names[name] = true end
  end
  return names
end

local function is_public(name)
  return type(name) ~= "string" or name:sub(1, 1) ~= "_"
end

local function may_be_object(value)
  return type(value) == "table" or type(value) == "userdata"
end

local function is_object(value, wanted)
  if not may_be_object(value) then return false end
  if not wanted then
    return type(value) == "table" and metatable(value) ~= nil
  end
  return select(2, shape.call(wanted, value))
end

-- Tells whether a value is an object, or a plain table with an object below it.
local function has_object(value, wanted)
  local seen, stack = {}, { value }
  while #stack > 0 do
    value = table.remove(stack)
    if is_object(value, wanted) then return true end
    if type(value) == "table" and metatable(value) == nil and not seen[value]
    then
      seen[value] = true
      for _, field in next, raw(value) do stack[#stack + 1] = field end
    end
  end
  return false
end

-- One conversion: `known` has the nested form of each object, and nested forms
-- as their own; `queue` has the objects whose nested form is still empty.
local Nesting = {}
Nesting.__index = Nesting

function Nesting:nested(obj)
  local nested = self.known[obj]
  if not nested then
    local parameters, modules = {}, {}
    nested = { _parameters = parameters, _modules = modules }
    self.known[obj] = nested
    for _, its in ipairs { nested, parameters, modules } do
      self.known[its] = its
    end
    self.queue[#self.queue + 1] = obj
  end
  return nested
end

-- Calls `add(name, value)` for the contents of a table of parameters or modules
-- that the object has itself.
local function each(obj, field, add)
  local list = shape.read(obj, field)
  if type(list) ~= "table" then return end
  for name, value in next, shape.contents(list) or {} do
    if path.is_key(name) then add(name, value) end
  end
end

function Nesting:field(obj, nested, name)
  local value = shape.read(obj, name)
  if math.type(value) then
    nested[name] = value
  elseif may_be_object(value) then
    if shape.of(value, self.opts.shape) then
      nested._parameters[name] = value
    elseif has_object(value, self.opts.objects) then
      nested._modules[name] = self:nested(value)
    end
  end
end

function Nesting:fill(obj)
  local nested = self.known[obj]
  local function parameter(name, value) nested._parameters[name] = value end
  each(obj, "_buffers", parameter)
  each(obj, "_parameters", parameter)
  for _, name in ipairs(path.sorted_keys(names_of(obj))) do
    if is_public(name) then self:field(obj, nested, name) end
  end
  each(obj, "_modules", function(name, value)
    if may_be_object(value) then
      nested._modules[name] = self:nested(value)
    end
  end)
end

-- Returns the nested form of an object; the options must be good, and `known`
-- has the nested forms of other objects.
local function nested_with(obj, opts, known)
  local self = setmetatable({ opts = opts, known = known, queue = {} }, Nesting)
  local result = self:nested(obj)
  for _, its in ipairs(self.queue) do self:fill(its) end -- which grows
  return result
end

local nested = {}

--- Returns a value as examples are looked at: the nested form of what
-- `opts.objects` takes for an object, others as they are.
function nested.opened(value, opts, known)
  if not may_be_object(value) then return value end
  local _, wanted = shape.call(opts.objects, value)
  return wanted and nested_with(value, opts, known) or value
end

local OPTIONS = { shape = "function", objects = "function" }

--- Returns the nested form of an object, without fields that raise when they
-- are read.  `opts.objects(value)` tells whether the value of a field is an
-- object; by default a table with a metatable is.
function nested.to_nested(obj, opts)
  check.argument(may_be_object(obj), 1, "to_nested", "table or userdata", obj)
  return nested_with(obj, check.options(opts, OPTIONS, 2, "to_nested"), {})
end

return nested

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
local function names_of(obj, trouble)
  local names = {}
  local held, message = shape.contents(obj)
  if message then trouble(nil, message) end
  for name in next, held or {} do names[name] = true end
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

local function is_object(value, wanted)
  if type(value) ~= "table" and type(value) ~= "userdata" then return false end
  if not wanted then
    return type(value) == "table" and metatable(value) ~= nil
  end
  local ok, result = shape.call(wanted, value)
  return ok and result
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

-- One conversion: `known` has the nested form of each object, `queue` the
-- objects whose nested form is still empty.
local Nesting = {}
Nesting.__index = Nesting

function Nesting:nested(obj)
  local nested = self.known[obj]
  if not nested then
    nested = { _parameters = {}, _modules = {} }
    self.known[obj] = nested
    self.queue[#self.queue + 1] = obj
  end
  return nested
end

function Nesting:trouble(obj, name, message)
  local key = name == nil and "" or path.step(name)
  self.left_out[self.paths[obj] .. key] = message
end

function Nesting:child(obj, into, name, value)
  if not self.known[value] then
    self.paths[value] = self.paths[obj] .. path.step(name)
  end
  into[name] = self:nested(value)
end

-- Adds the contents of a table of parameters or modules that the object has
-- itself.
function Nesting:own(obj, field, add)
  local list, message = shape.read(obj, field)
  if message then return self:trouble(obj, field, message) end
  if type(list) ~= "table" then return end
  local held
  held, message = shape.contents(list)
  if message then return self:trouble(obj, field, message) end
  for name, value in next, held do
    if path.is_key(name) then add(name, value) end
  end
end

function Nesting:field(obj, nested, name)
  local value, message = shape.read(obj, name)
  if message then return self:trouble(obj, name, message) end
  if math.type(value) then
    nested[name] = value
  elseif type(value) == "table" or type(value) == "userdata" then
    if shape.of(value, self.opts.shape) then
      nested._parameters[name] = value
    elseif has_object(value, self.opts.objects) then
      self:child(obj, nested._modules, name, value)
    end
  end
end

function Nesting:fill(obj)
  local nested = self.known[obj]
  local function parameter(name, value) nested._parameters[name] = value end
  local function module(name, value)
    if type(value) == "table" or type(value) == "userdata" then
      self:child(obj, nested._modules, name, value)
    end
  end
  self:own(obj, "_buffers", parameter)
  self:own(obj, "_parameters", parameter)
  local names = names_of(obj, function(...) self:trouble(obj, ...) end)
  for _, name in ipairs(path.sorted_keys(names)) do
    if is_public(name) then self:field(obj, nested, name) end
  end
  self:own(obj, "_modules", module)
end

local nested = {}

--- Returns the nested form of an object; the options must be good, and `known`
-- has the nested forms of other objects.  Returns also what cannot be read:
-- path -> message.
function nested.with(obj, opts, known)
  local self = setmetatable({ opts = opts, known = known, queue = {},
    left_out = {}, paths = { [obj] = "L" } }, Nesting)
  local result, i = self:nested(obj), 1
  while self.queue[i] do
    self:fill(self.queue[i])
    i = i + 1
  end
  return result, self.left_out
end

local OPTIONS = { shape = "function", objects = "function" }

--- Returns the nested form of an object, and what cannot be read: path ->
-- message.  `opts.objects(value)` tells whether the value of a field is an
-- object; by default a table with a metatable is.
function nested.to_nested(obj, opts)
  check.argument(type(obj) == "table" or type(obj) == "userdata", 1,
    "to_nested", "table or userdata", obj)
  return nested.with(obj, check.options(opts, OPTIONS, 2, "to_nested"), {})
end

return nested

--- mw.to_nested: an object as nested tables of what has a size or is a number.
-- SPDX-License-Identifier: MIT
--
--     { _parameters = { name = value... },     what has a shape
--       _modules = { name = nested... },       the objects below
--       field = number... }                    the public ones
--
-- Fields are public unless their name begins with "_".  An object's fields are
-- its own and those of the classes from which it inherits, and are read as the
-- program reads them; what is called `_parameters`, `_buffers` and `_modules`
-- is taken as what it says.  Lists of objects count as objects.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local path = require "moonwatch.path"
local shape = require "moonwatch.dynamism.shape"

local metatable, raw = core.private.metatable, core.raw

local DEPTH = 100 -- of inheritance

-- The names of an object's fields, a set.
local function names_of(obj, trouble)
  local names = {}
  local held, message = shape.contents(obj)
  if message then trouble(nil, message) end
  for name in next, held or {} do names[name] = true end
  for _ = 1, DEPTH do
    local mt = metatable(obj)
    obj = type(mt) == "table" and rawget(raw(mt), "__index")
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
  local ok, answer = shape.call(wanted, value)
  return ok and answer
end

-- Is it an object, or a plain table with one in it, however deep?
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

-- One conversion: `known` has what became of objects, `queue` those that are to
-- be filled.
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

-- What is in a table of parameters or modules that the object has by itself.
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

--- The nested form of an object, by options that are known to be good; `known`
-- has that of others.  Answers also what could not be read: path -> message.
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

--- The nested form of an object, and what could not be read: path -> message.
-- `opts.objects(value)` says what is an object in a field; without it, that are
-- tables with a metatable.
function nested.to_nested(obj, opts)
  check.argument(type(obj) == "table" or type(obj) == "userdata", 1,
    "to_nested", "table or userdata", obj)
  return nested.with(obj, check.options(opts, OPTIONS, 2, "to_nested"), {})
end

return nested

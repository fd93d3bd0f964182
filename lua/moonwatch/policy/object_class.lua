--- The class of an object, as the program names the class.
-- SPDX-License-Identifier: MIT
--
-- The class is the metatable, with two exceptions.  If the metatable has
-- metamethods only, the class is the table in its `__index`.  If the object has
-- a field `class` or `_class`, a table that holds the metatable in one of its
-- fields, the class is that table (as in middleclass).

local core = require "moonwatch.core"

local raw, metatable = core.private.raw, core.private.metatable

local object_class = {}

local function is_anonymous(mt)
  for key in next, raw(mt) do
    if type(key) ~= "string" or key:sub(1, 2) ~= "__" then return false end
  end
  return true
end

local function holds(t, value)
  for _, field in next, raw(t) do
    if rawequal(field, value) then return true end
  end
  return false
end

-- Class -> the metatable for which the class stands.
local metatables = setmetatable({}, { __mode = "k" })

--- Returns the table that stands for a metatable, as far as the metatable says.
function object_class.of_metatable(mt)
  local index = rawget(mt, "__index")
  if type(index) == "table" and is_anonymous(mt) then
    metatables[index] = mt
    return index
  end
  return mt
end

--- Returns the metatable for which a class stands; the class itself where the
-- library has seen no such metatable.
function object_class.metatable(class) return metatables[class] or class end

-- Metamethods, and what was put raw into an object, are in the object itself.
local function class_field(obj, name)
  local field = rawget(obj, name)
  if field == nil then field = rawget(raw(obj), name) end
  return field
end

local FIELDS = { "class", "_class" }

local function find(obj, mt)
  for i = 1, type(obj) == "table" and #FIELDS or 0 do
    local field = class_field(obj, FIELDS[i])
    if type(field) == "table" and holds(field, mt) then
      metatables[field] = mt
      return field
    end
  end
  return object_class.of_metatable(mt)
end

local known = setmetatable({}, { __mode = "k" }) -- metatable -> class

--- Returns the class of an object, or nil; `mt` is the metatable that the
-- object had before, `false` for none, or nil.
function object_class.of(obj, mt)
  if mt == nil then mt = metatable(obj) end
  if not mt then return nil end
  local its = known[mt]
  if not its then
    its = find(obj, mt)
    known[mt] = its
  end
  return its
end

--- Returns the name in one of the usual fields of a class, or nil.
function object_class.name(c)
  for _, field in ipairs { "__name", "name", "_name" } do
    local name = type(c) == "table" and class_field(c, field)
    if type(name) == "string" then return name end
  end
end

local DEPTH = 100 -- of inheritance, at most

--- Returns a field of an object or of a table that the object inherits from,
-- without calling a function; nil if there is no such field.
function object_class.lookup(obj, key)
  for _ = 1, DEPTH do
    if type(obj) == "table" then
      local value = class_field(obj, key)
      if value ~= nil then return value end
    end
    local mt = metatable(obj)
    obj = type(mt) == "table" and rawget(mt, "__index")
    if type(obj) ~= "table" then return nil end
  end
end

return object_class

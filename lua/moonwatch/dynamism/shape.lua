--- The contents and the shape of objects of any class.
-- The classes may raise when they are asked; the functions here contain that.
-- SPDX-License-Identifier: MIT

local core = require "moonwatch.core"

local metatable, raw = core.private.metatable, core.private.raw
local getmetatable, math_type, type = getmetatable, math.type, type

local shape = {}

--- Calls a function of the program.  Returns true and its result, or false.  An
-- error for want of memory goes on.
function shape.call(f, ...)
  local ok, result = pcall(f, ...)
  if ok then return true, result end
  if result == "not enough memory" then error(result, 0) end
  return false
end

local call = shape.call

local function index(value, key) return value[key] end

--- Returns a field, nil if reading the field raises.
function shape.read(value, key)
  local _, result = call(index, value, key)
  return result
end

local function gather(value)
  local held = {}
  for key, field in pairs(value) do held[key] = field end
  return held
end

-- Returns a metamethod or nil without calling a function.
local function metamethod(value, name)
  local mt = metatable(value)
  return type(mt) == "table" and rawget(mt, name) or nil
end

--- Returns a table with the contents of a table or userdata, as `pairs` shows
-- them; the table must not be written to.  Returns nil if there are no
-- contents, and true if `pairs` raises.
function shape.contents(value)
  if type(value) == "table" and getmetatable(value) == nil then return value end
  if metamethod(value, "__pairs") == nil then
    return type(value) == "table" and raw(value) or nil
  end
  local ok, held = call(gather, value)
  return held, not ok
end

-- Returns the plain array of a list of sizes; nil if the value is no such list.
local function sizes(list)
  if type(list) ~= "table" then return nil end
  local copy = metatable(list) ~= nil and {} or nil
  list = raw(list)
  local n = 0
  for key, size in next, list do
    n = n + 1
    if math_type(key) ~= "integer" or not math_type(size) then return nil end
    if copy then copy[key] = size end
  end
  list = copy or list
  for i = 1, n do if list[i] == nil then return nil end end
  return list
end

--- Returns the sizes of a table or userdata, an array of numbers that must not
-- be written to, or nil.  The sizes are the result of `get(value)` or, without
-- `get`, the field `shape`.
function shape.of(value, get)
  local list, _
  if get then
    _, list = call(get, value)
  elseif type(value) == "table" and getmetatable(value) == nil then
    list = value.shape
  else
    list = shape.read(value, "shape")
  end
  return sizes(list)
end

return shape

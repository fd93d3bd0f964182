--- The contents and the shape of objects of any class.
-- The classes may raise when they are asked; the functions here contain that.
-- SPDX-License-Identifier: MIT

-- What the source of a specialisation needs, too, is text (see guard.lua).

local core = require "moonwatch.core"

local metatable, raw = core.private.metatable, core.private.raw
local getmetatable, type = getmetatable, type

local shape = {}

--- The source of functions that contain what the classes raise, but for want of
-- memory, with `null` as it is outside.
--     try(f, ...)        -> true and a result, or false
--     index(t, key)      -> a field, as the class answers
--     gather(t)          -> what `pairs` shows of a table
--     sizes_by(get, v)   -> the sizes of a value, an array of numbers that must
--                           not be written to, or nil; they are `get(v)` or,
--                           without `get`, the field `shape`
shape.SOURCE = [==[
local getmetatable, math_type, type = getmetatable, math.type, type

local function try(f, ...)
  local ok, result = pcall(f, ...)
  if not ok and result == "not enough memory" then error(result, 0) end
  return ok, ok and result or nil
end

local function index(t, key) return t[key] end

local function gather(t)
  local held = {}
  for key, value in pairs(t) do held[key] = value end
  return held
end

local function sizes_by(get, v)
  if v == null or type(v) ~= "table" and type(v) ~= "userdata" then
    return nil
  end
  local _, list
  if get then
    _, list = try(get, v)
  elseif type(v) == "table" and getmetatable(v) == nil then
    list = v.shape
  else
    _, list = try(index, v, "shape")
  end
  if type(list) ~= "table" then return nil end
  if getmetatable(list) ~= nil then _, list = try(gather, list) end
  local n = 0
  for key, size in next, list or {} do
    n = n + 1
    if math_type(key) ~= "integer" or not math_type(size) then return nil end
  end
  for i = 1, n do if list[i] == nil then return nil end end
  return list
end
]==]

local try, index, gather, sizes_by = assert(load("local null = ... " ..
  shape.SOURCE .. "return try, index, gather, sizes_by",
  "=(shapes)"))(core.null)

shape.call = try

--- Returns a field, nil if reading the field raises.
function shape.read(value, key)
  local _, result = try(index, value, key)
  return result
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
  local ok, held = try(gather, value)
  return held, not ok
end

--- Returns the sizes of a value: see above.
function shape.of(value, get) return sizes_by(get, value) end

return shape

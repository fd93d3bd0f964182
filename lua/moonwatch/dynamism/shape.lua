--- What objects of any class say of themselves: their contents, their shape.
-- Their classes may raise when they are asked, and that is contained.
-- SPDX-License-Identifier: MIT

local core = require "moonwatch.core"

local metatable, raw = core.private.metatable, core.raw
local getmetatable, math_type, type = getmetatable, math.type, type

local shape = {}

--- Calls a function of the program.  Answers true and its result; or false and
-- the text of its error, unless that is want of memory, which goes on.
function shape.call(f, ...)
  local ok, result = pcall(f, ...)
  if ok then return true, result end
  if result == "not enough memory" then error(result, 0) end
  local is_text, text = pcall(tostring, result)
  return false, is_text and text or "an error that cannot be shown"
end

local call = shape.call

local function index(value, key) return value[key] end

--- A field, or nil; and a message if reading it raises.
function shape.read(value, key)
  local ok, result = call(index, value, key)
  if ok then return result end
  return nil, result
end

local function gather(value)
  local held = {}
  for key, field in pairs(value) do held[key] = field end
  return held
end

-- A function or nil, without a call.
local function metamethod(value, name)
  local mt = metatable(value)
  return type(mt) == "table" and rawget(raw(mt), name) or nil
end

--- A table, not to be written to, with the contents of a table or userdata: the
-- fields that it shows to `pairs`.  Nil if there are none, and a message if it
-- raises.
function shape.contents(value)
  if type(value) == "table" and getmetatable(value) == nil then return value end
  if metamethod(value, "__pairs") == nil then
    return type(value) == "table" and raw(value) or nil
  end
  local ok, held = call(gather, value)
  if ok then return held end
  return nil, held
end

-- The plain array of a list of sizes; nil if it is none.
local function sizes(list)
  if type(list) ~= "table" then return nil end
  list = raw(list)
  local n = 0
  for key, size in next, list do
    n = n + 1
    if math_type(key) ~= "integer" or not math_type(size) then return nil end
  end
  return n == #list and list or nil
end

--- The sizes of a table or userdata, an array of numbers not to be written to,
-- or nil.  `get(value)` answers them; without it they are the field `shape`.
-- When that raises, there is a message, too.
function shape.of(value, get)
  local list, message
  if get then
    local ok
    ok, list = call(get, value)
    if not ok then return nil, list end
  elseif type(value) == "table" and getmetatable(value) == nil then
    list = value.shape
  else
    list, message = shape.read(value, "shape")
  end
  if list == nil then return nil, message end
  return sizes(list)
end

return shape

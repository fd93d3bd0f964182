-- Converts JSON text to values and back, for specs.  Arrays and objects are
-- marked; null is mw.null.

local mw = require "moonwatch"
local kind_of = require("moonwatch.json").kind
local raw_of = require "spec.support.raw_of"

local json = {}

local ESCAPES = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t" }
local WORDS = { ["true"] = true, ["false"] = false, null = mw.null }

-- Returns the place of the next token.
local function skip(text, at) return text:find("[^ \t\r\n]", at) end

local function expect(text, at, char)
  if text:sub(at, at) ~= char then
    error(("%s expected at %d"):format(char, at))
  end
  return skip(text, at + 1)
end

local function unescape(s)
  s = s:gsub("\\u(%x%x%x%x)", function(hex)
    return utf8.char(tonumber(hex, 16))
  end)
  return (s:gsub("\\(.)", function(c) return ESCAPES[c] or c end))
end

local function read_string(text, at)
  local stop = at + 1
  while text:sub(stop, stop) ~= '"' do
    stop = stop + (text:sub(stop, stop) == "\\" and 2 or 1)
  end
  return unescape(text:sub(at + 1, stop - 1)), skip(text, stop + 1)
end

local read

-- Calls `member(at)` for each member after the bracket at `at`.
local function read_members(text, at, closing, member)
  at = skip(text, at + 1)
  if text:sub(at, at) == closing then return skip(text, at + 1) end
  while true do
    at = member(at)
    if text:sub(at, at) == closing then return skip(text, at + 1) end
    at = expect(text, at, ",")
  end
end

local function read_array(text, at)
  local array = mw.array {}
  at = read_members(text, at, "]", function(from)
    local value, stop = read(text, from)
    array[#array + 1] = value
    return stop
  end)
  return array, at
end

local function read_object(text, at)
  local object = mw.object_like {}
  at = read_members(text, at, "}", function(from)
    local key, stop = read_string(text, from)
    object[key], stop = read(text, expect(text, stop, ":"))
    return stop
  end)
  return object, at
end

local READERS = { ["{"] = read_object, ["["] = read_array, ['"'] = read_string }

function read(text, at)
  local reader = READERS[text:sub(at, at)]
  if reader then return reader(text, at) end
  local word = text:match("^[%w.+-]+", at)
  local value = WORDS[word]
  if value == nil then value = assert(tonumber(word), word) end
  return value, skip(text, at + #word)
end

-- Returns the value of a text.
function json.decode(text)
  local value, stop = read(text, skip(text, 1))
  assert(stop == nil, "something follows")
  return value
end

local function quote(s)
  return '"' .. s:gsub('[%c"\\]', function(c)
    return ("\\u%04x"):format(c:byte())
  end) .. '"'
end

-- Returns the text of a value, with sorted keys; an empty table is an object.
function json.encode(value)
  if value == mw.null then return "null" end
  if type(value) == "string" then return quote(value) end
  if type(value) ~= "table" then return tostring(value) end
  local parts, held = {}, raw_of(value)
  for i, member in ipairs(held) do parts[i] = json.encode(member) end
  if #parts > 0 then return "[" .. table.concat(parts, ",") .. "]" end
  for key, member in pairs(held) do
    parts[#parts + 1] = quote(key) .. ":" .. json.encode(member)
  end
  table.sort(parts)
  return "{" .. table.concat(parts, ",") .. "}"
end

-- Tells whether two documents are equal; one of them must have no cycles.  An
-- empty table that may be either equals the empty array and the empty object.
function json.equal(a, b)
  local left, right = { a }, { b }
  while #left > 0 do
    local x, y = table.remove(left), table.remove(right)
    if type(x) ~= "table" or type(y) ~= "table" then
      if not rawequal(x, y) then return false end
    elseif not rawequal(x, y) then
      local kind, other = kind_of(x), kind_of(y)
      if kind ~= other and kind ~= "either" and other ~= "either" then
        return false
      end
      local held = raw_of(y)
      for key, value in next, raw_of(x) do
        if held[key] == nil then return false end
        left[#left + 1], right[#left + 1] = value, held[key]
      end
      for key in next, held do
        if raw_of(x)[key] == nil then return false end
      end
    end
  end
  return true
end

return json

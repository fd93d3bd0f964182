--- Paths: the keys that lead from a value to a value below it, as text.
-- SPDX-License-Identifier: MIT
--
-- The text is a Lua expression of a variable `L`: L['x'][1][true][0.5]. Strings
-- are in single quotes; quotes, backslashes, control bytes and bytes that are
-- not UTF-8 are escaped as in Lua.  So each sequence of keys has one text, and
-- each text stands for one sequence.

local check = require "moonwatch.check"
local literal = require "moonwatch.literal"

local path = {}

local RANK = { boolean = 1, number = 2, string = 3 }

--- Tells whether a key can be part of a path; objects cannot.
function path.is_key(key) return RANK[type(key)] ~= nil end

--- Compares two keys, for table.sort.
function path.before(a, b)
  local x, y = type(a), type(b)
  if x ~= y then return RANK[x] < RANK[y] end
  if x == "boolean" then return not a and b end
  return a < b
end

--- Returns the keys of a table that can be part of a path, in order.
function path.sorted_keys(t)
  local keys = {}
  for key in next, t do
    if path.is_key(key) then keys[#keys + 1] = key end
  end
  table.sort(keys, path.before)
  return keys
end

local ESCAPES = {
  ["'"] = "\\'", ["\\"] = "\\\\", ["\n"] = "\\n", ["\r"] = "\\r",
  ["\t"] = "\\t",
}

local function escaped(byte)
  return ESCAPES[byte] or ("\\%03d"):format(byte:byte())
end

local function quoted(s)
  s = s:gsub("[\0-\31\127'\\]", escaped)
  if not utf8.len(s) then s = s:gsub("[\128-\255]", escaped) end
  return "'" .. s .. "'"
end

--- Returns the text of one key.
function path.step(key)
  return "[" .. (type(key) == "string" and quoted(key) or literal.of(key)) ..
    "]"
end

--- Returns the text of an array of keys.
function path.text(keys)
  local steps = { "L" }
  for i, key in ipairs(keys) do steps[i + 1] = path.step(key) end
  return table.concat(steps)
end

--- Returns the keys that lead to a node.  A node has the last key in `key`, and
-- the node above it in `up`; a root has no key.
function path.keys(node)
  local keys = {}
  while node and node.key ~= nil do
    keys[#keys + 1], node = node.key, node.up
  end
  for i = 1, #keys // 2 do
    keys[i], keys[#keys + 1 - i] = keys[#keys + 1 - i], keys[i]
  end
  return keys
end

-- Returns a table that calls `make(value)` once for each value.
local function remembering(make)
  return setmetatable({}, { __index = function(made, value)
    made[value] = make(value)
    return made[value]
  end })
end

--- Returns a function from a node to its text, which is fast for many nodes.
function path.namer()
  local above = remembering(function(node)
    return path.text(path.keys(node))
  end)
  local steps = remembering(path.step)
  return function(node)
    return node.up and above[node.up] .. steps[node.key] or "L"
  end
end

-- Returns the place where the quoted string that begins at `at` ends, or nil.
local function quote_end(text, at)
  local quote = text:sub(at, at)
  local i = at + 1
  while true do
    i = text:find("[\\'\"]", i)
    if not i then return nil end
    local byte = text:sub(i, i)
    if byte == quote then return i end
    i = i + (byte == "\\" and 2 or 1)
  end
end

-- Returns the end of a part whose dots name no fields: a string in quotes, or a
-- number in brackets.
local function verbatim_end(text, at)
  if text:find("^['\"]", at) then return quote_end(text, at) or #text end
  local number, last = text:match("^%[([%w.+-]+)%]()", at)
  return number and tonumber(number) and last - 1
end

--- Returns the path with each field that is written with a dot, `.x`, written
-- as `['x']`.  Text in quotes stays as it is, and so does text that is no path.
function path.normalize_name(text)
  check.argument(type(text) == "string", 1, "normalize_name", "string", text)
  local pieces, at = {}, 1
  while at <= #text do
    local last = verbatim_end(text, at)
    local name, after = text:match("^%.([%a_][%w_]*)()", at)
    if last then
      pieces[#pieces + 1] = text:sub(at, last)
    elseif name then
      pieces[#pieces + 1], last = "['" .. name .. "']", after - 1
    else
      last = (text:find("[.%['\"]", at + 1) or #text + 1) - 1
      pieces[#pieces + 1] = text:sub(at, last)
    end
    at = last + 1
  end
  return table.concat(pieces)
end

return path

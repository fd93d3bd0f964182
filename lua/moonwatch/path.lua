--- Paths: the keys that lead from a value to one below it, as text and back.
-- SPDX-License-Identifier: MIT
--
-- The text is an expression in Lua, of a variable `L`: L['x'][1][true][0.5].
-- Strings are in single quotes; in them, quotes, backslashes, control bytes,
-- and what is not UTF-8 are escaped as Lua does it, so that each sequence of
-- keys has a text of its own, and each text one sequence.

local check = require "moonwatch.check"
local literal = require "moonwatch.literal"

local path = {}

-- {======================================================
-- Keys
-- =======================================================

local RANK = { boolean = 1, number = 2, string = 3 }

--- Can a key be part of a path?  Not if it is an object.
function path.is_key(key) return RANK[type(key)] ~= nil end

--- An order of keys, for table.sort.
function path.before(a, b)
  local x, y = type(a), type(b)
  if x ~= y then return RANK[x] < RANK[y] end
  if x == "boolean" then return not a and b end
  return a < b
end

--- The keys of a table that can be part of a path, in order.
function path.sorted_keys(t)
  local keys = {}
  for key in next, t do
    if path.is_key(key) then keys[#keys + 1] = key end
  end
  table.sort(keys, path.before)
  return keys
end

-- }======================================================

-- {======================================================
-- To text
-- =======================================================

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

--- The text of one key.
function path.step(key)
  return "[" .. (type(key) == "string" and quoted(key) or literal.of(key)) ..
    "]"
end

--- The text of an array of keys.
function path.text(keys)
  local steps = { "L" }
  for i, key in ipairs(keys) do steps[i + 1] = path.step(key) end
  return table.concat(steps)
end

--- The keys that lead to a node, which has the last in `key` and the node of
-- the others in `up`.
function path.keys(node)
  local keys = {}
  while node.up do
    keys[#keys + 1] = node.key
    node = node.up
  end
  for i = 1, #keys // 2 do
    keys[i], keys[#keys + 1 - i] = keys[#keys + 1 - i], keys[i]
  end
  return keys
end

-- What `make` makes of each value, made once.
local function remembering(make)
  return setmetatable({}, { __index = function(made, value)
    made[value] = make(value)
    return made[value]
  end })
end

--- A function that answers the texts of nodes, and is fast for many.
function path.namer()
  local above = remembering(function(node)
    return path.text(path.keys(node))
  end)
  local steps = remembering(path.step)
  return function(node)
    return node.up and above[node.up] .. steps[node.key] or "L"
  end
end

-- }======================================================

-- {======================================================
-- From text
-- =======================================================

-- Where a string in quotes that begins at `at` ends; nil if it does not.
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

local MEANINGS = { n = "\n", r = "\r", t = "\t" }

local function unquoted(s)
  return (s:gsub("\\(.)(%d?%d?)", function(byte, digits)
    if not byte:find "%d" then return (MEANINGS[byte] or byte) .. digits end
    local code = tonumber(byte .. digits)
    return code < 256 and string.char(code) or nil
  end))
end

local CONSTANTS = { ["true"] = true, ["false"] = false }

-- Reads what is in brackets from `at` on.  Answers the key and what is next,
-- or nil.
local function bracketed(text, at)
  if text:find("^['\"]", at) then
    local last = quote_end(text, at)
    if not last or text:sub(last + 1, last + 1) ~= "]" then return nil end
    return unquoted(text:sub(at + 1, last - 1)), last + 2
  end
  local word, after = text:match("^([%w.+-]+)%]()", at)
  local key = word and tonumber(word)
  if CONSTANTS[word] ~= nil then key = CONSTANTS[word] end
  return key, after
end

--- The keys of a path as an array; fields can be written with a dot, too.  Nil
-- and a message if it is no path.
function path.parse(text)
  local keys, at = {}, 2
  if text:sub(1, 1) ~= "L" then return nil, "a path begins with L" end
  while at <= #text do
    local key, after = text:match("^%.([%a_][%w_]*)()", at)
    if not key and text:sub(at, at) == "[" then
      key, after = bracketed(text, at + 1)
    end
    if key == nil then return nil, ("no key at byte %d"):format(at) end
    keys[#keys + 1], at = key, after
  end
  return keys
end

-- What has dots that are not fields': strings in quotes, numbers in brackets.
local function verbatim_end(text, at)
  if text:find("^['\"]", at) then return quote_end(text, at) or #text end
  local number, last = text:match("^%[([%w.+-]+)%]()", at)
  return number and tonumber(number) and last - 1
end

--- The same path with each field that is written with a dot, `.x`, written as
-- `['x']`.  What is in quotes stays, and so does what is no path.
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

-- }======================================================

return path

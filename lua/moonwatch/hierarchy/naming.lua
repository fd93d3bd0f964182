--- The names of the objects of a hierarchy: what programs and policies say, and
-- the objects of names.
-- SPDX-License-Identifier: MIT
--
-- The core knows where each object is, and makes the texts: see name.c.  A root
-- is named here; `by_name` has the roots of names, weakly, and other objects
-- whose names a function of the program has made.

local named = require "moonwatch.policy.named"
local object_class = require "moonwatch.policy.object_class"
local core = require "moonwatch.core"
local policy = require "moonwatch.policy"

local metatable, raw = core.private.metatable, core.private.raw

local naming = {}

-- {======================================================
-- Children
-- =======================================================

local RANK = { number = 1, string = 2, boolean = 3 }

local function precedes(a, b)
  local of_a, of_b = RANK[type(a)], RANK[type(b)]
  if of_a ~= of_b then return of_a < of_b end
  if of_a == 3 then return not a and b end
  return a < b
end

--- Sorts keys: numbers, strings, booleans.
function naming.sort(keys) table.sort(keys, precedes) end

-- Returns the keys of a table: the sequence, then the other keys, sorted.
local function keys_of(t)
  local keys, n = {}, 0
  while rawget(t, n + 1) ~= nil do
    n = n + 1
    keys[n] = n
  end
  local others = {}
  for key in next, t do
    local in_sequence = math.type(key) == "integer" and key > 0 and key <= n
    if RANK[type(key)] and not in_sequence then others[#others + 1] = key end
  end
  naming.sort(others)
  return table.move(others, 1, #others, n + 1, keys)
end

--- Returns the children that the program's own function returns, in a table or
-- by an iterator of keys and children: an array of child, key, child, ...
function naming.told(its, obj)
  local list = {}
  local function add(key, child)
    if (type(child) == "table" or type(child) == "userdata") and
      RANK[type(key)] then
      list[#list + 1] = child
      list[#list + 1] = key
    end
  end
  local result, state, first = its.children(obj)
  if type(result) == "function" then
    for key, child in result, state, first do add(key, child) end
  elseif type(result) == "table" then
    local fields = raw(result)
    for _, key in ipairs(keys_of(fields)) do add(key, rawget(fields, key)) end
  end
  return list
end

local NONE = {}

--- Returns what a walk needs: the names of methods that make an object a child,
-- the names of instrumented methods, their wrappers, and the classes.
function naming.prepare(its)
  return policy.entries() or NONE, its.methods, its.wrappers, its.classes
end

naming.class_of = object_class.of

-- }======================================================

-- {======================================================
-- Names
-- =======================================================

--- Tells whether a function of the program makes names.
function naming.is_custom(its) return its.name ~= nil or policy.has "name" end

--- Returns the name of a child, nil for the usual one.  The key of a child in a
-- plain table is the path to the child.
function naming.name(its, parent_name, key, child)
  local name = its.name and its.name(parent_name, key, child)
  if type(name) == "string" then return name end
  local _
  _, name = policy.ask("name", parent_name, key, child)
  return type(name) == "string" and name or nil
end

--- Returns the name of an object's class.
function naming.class_name(its, obj)
  local name = its.class_name and its.class_name(obj)
  if type(name) == "string" then return name end
  local _
  _, name = policy.ask("class_name", obj)
  if type(name) == "string" then return name end
  local class = object_class.of(obj)
  return named.name(class) or object_class.name(class) or
    object_class.name(metatable(obj)) or type(obj)
end

-- Returns class name -> number of roots of that name.  A collection, which may
-- free names, empties the table, and so does the core when it frees one.
local function hints(its)
  its.hints[1] = its.hints[1] or {}
  return its.hints[1]
end

--- Returns a free name for a root.
function naming.root(its, obj)
  local base = naming.class_name(its, obj)
  local known, by_name = hints(its), its.by_name
  local n = known[base] or 1
  local name = n == 1 and base or base .. "#" .. n
  while by_name[name] ~= nil and not rawequal(by_name[name], obj) do
    n = n + 1
    name = base .. "#" .. n
  end
  known[base] = n
  return name
end

-- }======================================================

-- {======================================================
-- Objects of names
-- =======================================================

local WORDS = { ["true"] = true, ["false"] = false }

local function unescape(digits_or_char)
  local code = tonumber(digits_or_char)
  return code and string.char(code) or digits_or_char
end

-- Returns the key at a place in a name, and the place behind it; nil if there
-- is none.
local function key_at(name, i)
  local word, after = name:match("^%.([^.%[]+)()", i)
  if word then
    if word:find "^%-?%d+$" then return math.tointeger(word), after end
    if WORDS[word] ~= nil then return WORDS[word], after end
    return word, after
  end
  local number
  number, after = name:match("^%[([^%]\"]+)%]()", i)
  if number then return tonumber(number), after end
  if name:sub(i, i + 1) ~= '["' then return nil end
  local j = i + 2
  while name:sub(j, j) ~= '"' do
    if j > #name then return nil end
    j = j + (name:sub(j, j) == "\\" and 2 or 1)
  end
  if name:sub(j + 1, j + 1) ~= "]" then return nil end
  return name:sub(i + 2, j - 1):gsub("\\(%d%d%d)", unescape)
    :gsub("\\([\\\"])", unescape), j + 2
end

-- Follows the keys in a name from a root on; returns what is there.
local function follow(value, name, i)
  while i <= #name do
    local key
    if type(value) ~= "table" then return nil end
    key, i = key_at(name, i)
    if key == nil then return nil end
    value = rawget(raw(value), key)
  end
  return value
end

--- Returns the live object of a name, or nil.  The way that the name tells is
-- tried first; an object that has been taken away from there is searched for.
function naming.object(its, name)
  local obj = its.by_name[name]
  if obj ~= nil then return obj end
  for i = #name, 2, -1 do
    local char = name:byte(i)
    if char == 46 or char == 91 then -- a dot, a bracket
      local root = its.by_name[name:sub(1, i - 1)]
      local found = root ~= nil and follow(root, name, i)
      if found and its.engine.name_of(found) == name then return found end
    end
  end
  return its.engine.find(name)
end

-- }======================================================

return naming

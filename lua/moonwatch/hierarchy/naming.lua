--- The names of the objects of a hierarchy, and the objects of names.
-- SPDX-License-Identifier: MIT
--
--     name { the keys from the parent on, unless a function tells the children
--            up    the parent's name; nil for a root
--            place where the object was (see places.lua); nil for a root
--            text  of a root, and where a function of the program made it;
--                  else nil until somebody asks }
--
-- A name never changes.  An object gets another one when its place, or the name
-- of its parent, is another: so the names of what has been is still there.
-- `by_name` has the roots of names, weakly, and other objects whose names a
-- function of the program has made.

local named = require "moonwatch.policy.named"
local object_class = require "moonwatch.policy.object_class"
local core = require "moonwatch.core"
local policy = require "moonwatch.policy"

local contents, metatable = core.private.raw, core.private.metatable

local naming = {}

local SHORT = 200 -- a text that is kept

-- {======================================================
-- Keys
-- =======================================================

local RANK = { number = 1, string = 2, boolean = 3 }

--- May a key stand in a name?
function naming.is_key(key) return RANK[type(key)] ~= nil end

--- The order of keys: numbers, strings, booleans.
function naming.precedes(a, b)
  local of_a, of_b = RANK[type(a)], RANK[type(b)]
  if of_a ~= of_b then return of_a < of_b end
  if of_a == 3 then return not a and b end
  return a < b
end

--- Returns the sorted keys of a table outside of its sequence of `n`.
function naming.other_keys(t, n)
  local keys = {}
  for key in next, t do
    local in_sequence = math.type(key) == "integer" and key > 0 and key <= n
    if RANK[type(key)] and not in_sequence then keys[#keys + 1] = key end
  end
  table.sort(keys, naming.precedes)
  return keys
end

-- Returns the keys of a table: the sequence, then the other keys, sorted.
local function keys_of(t)
  local keys, n = {}, 0
  while rawget(t, n + 1) ~= nil do
    n = n + 1
    keys[n] = n
  end
  local others = naming.other_keys(t, n)
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
    local fields = contents(result)
    for _, key in ipairs(keys_of(fields)) do add(key, rawget(fields, key)) end
  end
  return list
end

-- }======================================================

-- {======================================================
-- Texts
-- =======================================================

local function escape(char) return ("\\%03d"):format(char:byte()) end

-- Returns the text of a key in a name: ".key", or ["a.b"].
local function step(key)
  if math.type(key) == "float" then return "[" .. tostring(key) .. "]" end
  if type(key) ~= "string" then return "." .. tostring(key) end
  if key == "true" or key == "false" or key:find "^%-?%d*$" or
    key:find "[%c.\"'%[%]\\]" then
    return '["' .. key:gsub('["\\]', "\\%0"):gsub("[%z\1-\31]", escape) .. '"]'
  end
  return "." .. key
end

--- Returns the keys from the parent on.
function naming.keys(place)
  local keys, n = {}, 0
  while place do
    n = n + 1
    keys[n], place = place.key, place.up
  end
  for i = 1, n // 2 do keys[i], keys[n - i + 1] = keys[n - i + 1], keys[i] end
  return keys
end

-- Returns the text of the keys from the parent on.
local function way(place)
  if not place.up then return step(place.key) end
  local list = naming.keys(place)
  for i, key in ipairs(list) do list[i] = step(key) end
  return table.concat(list)
end

--- Returns the text of a name.  Short ones are kept, and the last long one,
-- which is the begin of the next where objects are entered one in another.
function naming.text(its, name)
  if name.text then return name.text end
  local parts, n, above = {}, 0, name
  while not above.text do
    n = n + 1
    parts[n], above = way(above.place), above.up
  end
  parts[n + 1] = above.text
  for i = 1, (n + 1) // 2 do
    parts[i], parts[n + 2 - i] = parts[n + 2 - i], parts[i]
  end
  name.text = table.concat(parts)
  if #name.text > SHORT then
    if its.long then its.long.text = nil end
    its.long = name
  end
  return name.text
end

--- Tells whether a function of the program makes names.
function naming.is_custom(its) return its.name ~= nil or policy.has "name" end

-- Returns the text that a function of the program makes for a child, or nil.
-- The key of a child in a plain table is the path to the child.
local function custom_text(its, up, place, child)
  local parent_name, key = naming.text(its, up), place.key
  if place.up then key = way(place):gsub("^%.", "") end
  local name = its.name and its.name(parent_name, key, child)
  if type(name) == "string" then return name end
  local _
  _, name = policy.ask("name", parent_name, key, child)
  if type(name) == "string" then return name end
  return parent_name .. way(place)
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
-- free names, empties the table, and so does a root that is none any more.
local function hints(its)
  its.hints[1] = its.hints[1] or {}
  return its.hints[1]
end

-- Returns a free name for a root.
local function root_text(its, obj)
  local base = naming.class_name(its, obj)
  local known, by_name = hints(its), its.by_name
  local n = known[base] or 1
  local text = n == 1 and base or base .. "#" .. n
  while by_name[text] ~= nil and not rawequal(by_name[text], obj) do
    n = n + 1
    text = base .. "#" .. n
  end
  known[base] = n
  return text
end

-- }======================================================

-- {======================================================
-- Names
-- =======================================================

--- The place of an object is another: it gets another name, and so does what is
-- below it.
function naming.rename(its, site, obj)
  local name = site.name
  if name and its.by_name[name.text] ~= nil and
    rawequal(its.by_name[name.text], obj) then
    its.by_name[name.text] = nil
    its.hints[1] = nil
  end
  if name or site.is_parent then
    its.epoch = its.epoch + 1
    its.engine.renamed(obj)
  end
  site.name, site.epoch = nil, 0
end

-- Gives a site its name, whose parent has one.
local function give(its, site, obj)
  local place, former = site.place, site.name
  local up = place and place.of.name
  site.epoch = its.epoch
  if former and former.up == up and former.place == place then return end
  local name = place and not place.told and naming.keys(place) or {}
  name.up, name.place = up, place
  if not place then
    name.text = root_text(its, obj)
  elseif naming.is_custom(its) then
    name.text = custom_text(its, up, place, obj)
  end
  if name.text and its.by_name[name.text] == nil then
    its.by_name[name.text] = obj
  end
  site.name = name
end

-- The name of a parent that is dead, and had none.
local UNKNOWN = { text = "?" }

--- Returns the name of a site whose place is settled, and those of its parents.
function naming.name(its, site)
  local stale, n = {}, 0
  local above = site
  while above and above.epoch ~= its.epoch do
    n = n + 1
    stale[n], above = above, above.place and above.place.of
  end
  for i = n, 1, -1 do
    local obj = its.objects[stale[i]]
    if obj ~= nil then
      give(its, stale[i], obj)
    else
      stale[i].name, stale[i].epoch = stale[i].name or UNKNOWN, its.epoch
    end
  end
  return site.name
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
    value = rawget(contents(value), key)
  end
  return value
end

--- Returns the live object of a name that is where the name says, or nil.
-- `name_of(obj)` returns the text of an object's name.
function naming.object(its, name, name_of)
  local obj = its.by_name[name]
  if obj ~= nil then return obj end
  for i = #name, 2, -1 do
    local char = name:byte(i)
    if char == 46 or char == 91 then -- a dot, a bracket
      local root = its.by_name[name:sub(1, i - 1)]
      local found = root ~= nil and follow(root, name, i)
      if found and name_of(found) == name then return found end
    end
  end
end

-- }======================================================

return naming

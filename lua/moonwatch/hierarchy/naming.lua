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

local core = require "moonwatch.core"
local label = require "moonwatch.trace.label"
local object_class = require "moonwatch.policy.object_class"
local path = require "moonwatch.path"
local policy = require "moonwatch.policy"

local contents, metatable = core.private.raw, core.private.metatable

local naming = {}

local SHORT = 200 -- a text that is kept

local function may_be_child(value)
  return type(value) == "table" or type(value) == "userdata"
end

--- Returns the fields of a table that may lead to children, in order: the
-- sequence, then the others; of a table that an earlier walk has looked
-- through, what the sequence has behind the length from then, `known`.  The
-- keys and values are in one array; the length comes second.
function naming.fields(t, known)
  local held, list, n = contents(t), {}, known or 0
  local function add(key, value)
    if may_be_child(value) then
      list[#list + 1], list[#list + 2] = key, value
    end
  end
  while rawget(held, n + 1) ~= nil do
    n = n + 1
    add(n, rawget(held, n))
  end
  if known then return list, n end
  local others = {}
  for key, value in next, held do
    if math.type(key) ~= "integer" or key < 1 or key > n then
      others[key] = value
    end
  end
  for _, key in ipairs(path.sorted_keys(others)) do add(key, others[key]) end
  return list, n
end

--- Returns the children that the program's own function returns, in a table or
-- by an iterator of keys and children: an array of key, child, key, ...
function naming.told(its, obj)
  local result, state, first = its.children(obj)
  if type(result) == "table" then return (naming.fields(result)) end
  local list = {}
  if type(result) ~= "function" then return list end
  for key, child in result, state, first do
    if may_be_child(child) and path.is_key(key) then
      list[#list + 1], list[#list + 2] = key, child
    end
  end
  return list
end

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

-- Returns the text of the keys from the parent on.
local function way(place)
  if not place.up then return step(place.key) end
  local list = path.keys(place)
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

-- Returns the text that the hierarchy's function returns, or else that of the
-- policy; or nil.
local function asked(f, question, ...)
  local name = f and f(...)
  if type(name) == "string" then return name end
  name = select(2, policy.ask(question, ...))
  return type(name) == "string" and name or nil
end

-- Returns the text of a child's name where a function of the program makes it.
-- The key of a child in a plain table is the path to the child.
local function custom_text(its, up, place, child)
  local above, key = naming.text(its, up), place.key
  if place.up then key = way(place):gsub("^%.", "") end
  return asked(its.name, "name", above, key, child) or above .. way(place)
end

--- Returns the name of an object's class.
function naming.class_name(its, obj)
  return asked(its.class_name, "class_name", obj) or
    label.class(object_class.of(obj), metatable(obj)) or type(obj)
end

-- Returns a free name for a root.  `hints` has class name -> number of roots of
-- that name: a collection, which may free names, empties the table, and so does
-- a root that is none any more.
local function root_text(its, obj)
  local base, by_name = naming.class_name(its, obj), its.by_name
  local known = its.hints[1] or {}
  its.hints[1] = known
  local n = known[base] or 1
  local text = n == 1 and base or base .. "#" .. n
  while by_name[text] ~= nil and not rawequal(by_name[text], obj) do
    n = n + 1
    text = base .. "#" .. n
  end
  known[base] = n
  return text
end

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
  local name = place and not place.told and path.keys(place) or {}
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

return naming

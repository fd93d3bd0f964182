--- Where the objects of a hierarchy are: whose child, and under which keys.
-- SPDX-License-Identifier: MIT
--
--     sites[object] --> site { of the object, which it does not hold }
--       place    where the object is below another; nil for a root
--       others   parent's site -> such a place below another parent
--       name     the name (see naming.lua); nil until somebody asks
--       way      what executed when nobody was found to hold the object
--       lists    places of plain tables in which children were found lately
--       is_parent, walked
--
--     place { of = the parent's site, key, up = the place of the plain table
--             that holds the object, nil if the parent does }
--
-- An object that is entered is the child of the innermost executing object that
-- holds it.  This is found out when somebody asks: the object is looked for
-- where it was last, at the ends of lists, and then by a scan.  The first enter
-- of an object walks through what is below it, once.

local core = require "moonwatch.core"
local object_class = require "moonwatch.policy.object_class"
local policy = require "moonwatch.policy"
local naming = require "moonwatch.hierarchy.naming"
local path = require "moonwatch.path"

local private = core.private
local contents, metatable = private.raw, private.metatable
local class_of, lookup = object_class.of, object_class.lookup
local rawequal, rawget, type = rawequal, rawget, type

local NEAREST = 24 -- objects that execute and are looked at
local AGAIN = 256  -- fields that are looked at in a search that is repeated
local LISTS = 4

local WEAK, NONE = { __mode = "k" }, {}

local places = {}

--- Returns the site of an object, made if need be.
function places.site(its, obj)
  local site = its.sites[obj]
  if not site then
    site = { walked = false, is_parent = false }
    its.sites[obj], its.objects[site] = site, obj
  end
  return site
end

local function fields(t) return type(t) == "table" and contents(t) or nil end

local function is_plain(value)
  return type(value) == "table" and metatable(value) == nil
end

-- {======================================================
-- Places
-- =======================================================

-- Returns what is in a place now.
local function value_at(its, place)
  local value = its.objects[place.of]
  if not place.up then
    local held = fields(value)
    return held and rawget(held, place.key)
  end
  for i, key in ipairs(path.keys(place)) do
    local held = (i == 1 or is_plain(value)) and fields(value)
    if not held then return nil end
    value = rawget(held, key)
  end
  return value
end

--- Tells whether an object is in a place now.
function places.is_there(its, place, obj)
  if place.told then return its.objects[place.of] ~= nil end
  return rawequal(value_at(its, place), obj)
end

local is_there = places.is_there

-- Is a site that of the parent of another, or the parent's parent, and so on?
local function is_above(site, other)
  if not site.is_parent then return false end
  local n = 0
  while other and n < 1e6 do
    if other == site then return true end
    other, n = other.place and other.place.of, n + 1
  end
  return false
end

-- Remembers the list in which a child was found.
local function remember(place)
  if math.type(place.key) ~= "integer" then return end
  local lists, up = place.of.lists or {}, place.up
  place.of.lists = lists
  local i = 1
  while i < LISTS and lists[i] and lists[i].up ~= up do i = i + 1 end
  table.move(lists, 1, i - 1, 2)
  lists[1] = { up = up }
end

-- Notes that the object of a site was seen in a place.
local function note(site, place)
  site.others = site.others or setmetatable({}, WEAK)
  site.others[place.of] = place
end

-- Returns the known place of an object below a parent, if it is there.
local function known_place(its, site, obj, parent)
  local place = site.place
  if place and place.of == parent and is_there(its, place, obj) then
    return place
  end
  place = site.others and site.others[parent]
  return place and is_there(its, place, obj) and place or nil
end

-- }======================================================

-- {======================================================
-- What is a child?
-- =======================================================

-- Is it an object that runs: with one of the policy's methods, or one that is
-- instrumented?
local function runs(its, entries, value)
  if type(value) ~= "table" and type(value) ~= "userdata" then return false end
  for i = 1, #entries do
    if type(lookup(value, entries[i])) == "function" then return true end
  end
  for _, name in ipairs(its.methods) do
    local method = lookup(value, name)
    if method ~= nil and its.wrappers[method] then return true end
  end
  if not next(its.classes) or metatable(value) == nil then return false end
  local class = class_of(value)
  return class ~= nil and its.classes[class] ~= nil
end

-- A class has the methods of its objects, but is no child.
local function is_class(value, obj)
  return type(value) == "table" and
    (rawget(value, "__index") == value or
      rawequal(metatable(obj), value) or rawequal(class_of(obj), value))
end

-- }======================================================

-- {======================================================
-- The walk of the first enter
-- =======================================================

-- Does a child get its place below this parent?  Else it keeps its own.
local function may_move(its, site, obj, parent)
  local _, frames = its.engine.inside(obj)
  if frames > 0 then return false end
  local place = site.place
  if place and place.of == parent then return not is_there(its, place, obj) end
  if not place and not site.name then return true end
  return not is_above(site, parent) and
    not (place and is_there(its, place, obj))
end

-- One walk: the sites that got places, in order; those that were made; and the
-- objects that are still to be walked through.
local function new_walk(its)
  return { its = its, entries = policy.entries() or {}, seen = {}, queue = {},
    placed = {}, made = {} }
end

local function meet(walk, obj, place, caller)
  local its, parent = walk.its, place.of
  if not its.sites[obj] then walk.made[#walk.made + 1] = obj end
  local site = places.site(its, obj)
  local is_new = not walk.seen[obj]
  walk.seen[obj] = true
  if caller and is_above(site, caller) or is_above(site, parent) then return end
  if not is_new or not may_move(its, site, obj, parent) then
    if not site.place or site.place.of ~= parent then note(site, place) end
    return
  end
  site.place, parent.is_parent = place, true
  naming.rename(its, site, obj)
  walk.placed[#walk.placed + 1] = obj
  if not site.walked then walk.queue[#walk.queue + 1] = obj end
end

-- Goes through the fields of an object and the plain tables below.  The stack
-- has places of tables, keys and values, the next ones last.  What many share
-- is not looked through again for each of them.
local function look_through(walk, obj, parent, caller)
  local its, seen, stack = walk.its, walk.seen, {}
  local function push(t, up)
    local list, length = naming.fields(t, its.known[t])
    for i = #list, 1, -2 do
      local n = #stack
      stack[n + 1], stack[n + 2], stack[n + 3] = up or false, list[i - 1],
        list[i]
    end
    if up then its.known[t] = length end
  end
  push(obj)
  while #stack > 0 do
    local n = #stack
    local up, key, value = stack[n - 2] or nil, stack[n - 1], stack[n]
    stack[n], stack[n - 1], stack[n - 2] = nil, nil, nil
    local is_child = runs(its, walk.entries, value)
    if (is_child or is_plain(value) and not seen[value]) and
      not is_class(value, obj) then
      local place = { of = parent, key = key, up = up }
      if is_child then
        meet(walk, value, place, caller)
      else
        seen[value] = true
        push(value, place)
      end
    end
  end
end

-- Calls `visit(child, place)` for the children that the program's function
-- tells.
local function each_told(its, obj, parent, visit)
  local told = naming.told(its, obj)
  for i = 1, #told, 2 do
    visit(told[i + 1], { of = parent, key = told[i], told = true })
  end
end

--- Walks through what is below an object that is entered for the first time,
-- and places what runs there.  `caller` is the site of what executes outside.
-- Returns the objects that were placed, in order, and those that were unknown.
function places.walk(its, obj, caller)
  local walk, i = new_walk(its), 0
  if not its.sites[obj] then walk.made[1] = obj end
  local site = places.site(its, obj)
  walk.seen[obj] = true
  while obj ~= nil do
    if its.children then
      each_told(its, obj, site, function(child, place)
        meet(walk, child, place, i == 0 and caller)
      end)
    elseif type(obj) == "table" then
      look_through(walk, obj, site, i == 0 and caller)
    end
    site.walked = true
    i = i + 1
    obj = walk.queue[i]
    site = obj ~= nil and its.sites[obj]
  end
  return walk.placed, walk.made
end

-- }======================================================

-- {======================================================
-- Searches
-- =======================================================

-- The ways to look for an object below one that executes, the cheapest first;
-- each returns a place or nil.
local looks = { known_place }

-- Looks at the ends of the lists in which children were found lately.
looks[2] = function(its, _, obj, parent, holder)
  for _, list in ipairs(parent.lists or NONE) do
    local t = holder
    if list.up then t = value_at(its, list.up) end
    local held = (not list.up or is_plain(t)) and fields(t)
    local n = held and #held
    local key = held and (rawequal(rawget(held, n), obj) and n or
      rawequal(rawget(held, 1), obj) and 1)
    if key then return { of = parent, key = key, up = list.up } end
  end
end

-- Notes where the known objects of a table are, so that they need no search.
local function note_all(its, held, of, up)
  for key, value in next, held do
    local kind = type(value)
    local site = (kind == "table" or kind == "userdata") and its.sites[value]
    if site and path.is_key(key) and not known_place(its, site, value, of) then
      note(site, { of = of, key = key, up = up })
    end
  end
end

-- Looks at so many fields; `budget` { left }.  Of the places in one table, that
-- with the first key is returned.
looks[3] = function(its, _, obj, parent, holder, budget)
  if its.children then
    local found
    each_told(its, holder, parent, function(child, place)
      if rawequal(child, obj) then found = found or place end
    end)
    return found
  end
  if not fields(holder) or next(contents(holder)) == nil then return nil end
  local queue, seen, i = { { t = holder } }, { [holder] = true }, 1
  while queue[i] and budget.left > 0 do
    local held, up, best = contents(queue[i].t), queue[i].place, nil
    for key, value in next, held do
      budget.left = budget.left - 1
      if budget.left < 0 then break end
      if rawequal(value, obj) then
        if path.is_key(key) and (best == nil or path.before(key, best)) then
          best = key
        end
      elseif is_plain(value) and not seen[value] and path.is_key(key) then
        seen[value] = true
        queue[#queue + 1] = { t = value,
          place = { of = parent, key = key, up = up } }
      end
    end
    if best ~= nil then
      if budget.left > AGAIN then note_all(its, held, parent, up) end
      return { of = parent, key = best, up = up }
    end
    i = i + 1
  end
end

-- Returns the objects below which one is looked for, the innermost first: what
-- executes outside its frame; if it executes no more, what executed outside and
-- what is above that.
local function callers(its, frame, caller)
  local list = {}
  if frame > 0 then
    for i = frame - 1, math.max(1, frame - NEAREST), -1 do
      list[#list + 1] = its.engine.frame(i)
    end
    return list
  end
  while #list < NEAREST and caller ~= nil do
    list[#list + 1] = caller
    local site = its.sites[caller]
    caller = site and site.place and its.objects[site.place.of]
  end
  return list
end

-- Returns the place of an object below one of others, or nil.
local function search(its, site, obj, holders, repeats)
  local budget = { left = repeats and AGAIN or math.huge }
  for _, look in ipairs(looks) do
    local last = obj
    for _, holder in ipairs(holders) do
      if not rawequal(holder, obj) and not rawequal(holder, last) then
        last = holder
        local parent = places.site(its, holder)
        local place = not is_above(site, parent) and
          look(its, site, obj, parent, holder, budget)
        if place then return place end
      end
    end
  end
end

-- Returns the place of an object: where it was if that is below the caller, or
-- below what executes, or else where it was, if it is there still.
local function find(its, site, obj, frame, caller)
  local place = site.place
  if place and not is_there(its, place, obj) then place = nil end
  if frame == 1 or caller == nil or
    place and place.of == its.sites[caller] then return place end
  local way = frame > 0 and its.engine.way(frame - 1)
  local found = search(its, site, obj, callers(its, frame, caller),
    way and site.way == way)
  if way and not found then site.way = way end
  return found or place
end

-- Returns the number behind the frame of the caller, if that has been executing
-- since before an enter; else 0.
local function behind_caller(its, order, caller)
  local i = caller ~= nil and its.engine.inside(caller) or 0
  local _, its_order = its.engine.frame(i)
  return its_order and its_order < order and i + 1 or 0
end

--- Finds out where an object is that may have been entered since.  Returns its
-- site; nil if the object was never entered or placed.
function places.settle(its, obj)
  local order, frame, caller, settled = its.engine.where(obj)
  local site = its.sites[obj]
  if order == 0 or settled and site then return site end
  site = site or places.site(its, obj)
  if frame == 0 then frame = behind_caller(its, order, caller) end
  local former, place = site.place, find(its, site, obj, frame, caller)
  its.engine.settled(obj)
  if place == former and place then return site end
  site.place = place
  if place then
    if former and former.of ~= place.of then note(site, former) end
    place.of.is_parent = true
    remember(place)
  end
  if not (site.name and site.name.place == place) then
    naming.rename(its, site, obj)
  end
  return site
end

-- }======================================================

return places

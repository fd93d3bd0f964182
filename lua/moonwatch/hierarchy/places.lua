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
local DEEPEST = 8  -- of these, objects that are scanned as a whole
local AGAIN = 256  -- fields that are looked at in the others
local NESTED = 8   -- objects that are looked for in a search for another
local LISTS = 4

local WEAK = { __mode = "k" }

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
  local up, of = place.up, place.of
  if math.type(place.key) ~= "integer" then return end
  of.lists = of.lists or {}
  for i, list in ipairs(of.lists) do
    if list.up == up then
      table.remove(of.lists, i)
      break
    end
  end
  table.insert(of.lists, 1, { up = up })
  of.lists[LISTS + 1] = nil
end

-- Notes that the object of a site was seen in a place.
local function note(site, place)
  if site.place and site.place.of == place.of then return end
  site.others = site.others or setmetatable({}, WEAK)
  site.others[place.of] = place
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
  for name in next, its.methods do
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

local function meet(walk, obj, place, caller)
  local its, parent = walk.its, place.of
  if not its.sites[obj] then walk.made[#walk.made + 1] = obj end
  local site = places.site(its, obj)
  local is_new = not walk.seen[obj]
  walk.seen[obj] = true
  if caller and is_above(site, caller) or is_above(site, parent) then return end
  if not is_new or not may_move(its, site, obj, parent) then
    note(site, place)
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

local function listen(walk, obj, parent, caller)
  local told = naming.told(walk.its, obj)
  for i = 1, #told, 2 do
    local place = { of = parent, key = told[i], told = true }
    meet(walk, told[i + 1], place, caller)
  end
end

--- Walks through what is below an object that is entered for the first time,
-- and places what runs there.  `caller` is the site of what executes outside.
-- Returns the objects that were placed, in order, and those that were unknown.
function places.walk(its, obj, caller)
  local walk, i = { its = its, entries = policy.entries() or {}, seen = {},
    placed = {}, made = {}, queue = {} }, 0 -- of objects to be walked through
  if not its.sites[obj] then walk.made[1] = obj end
  local site = places.site(its, obj)
  walk.seen[obj] = true
  while obj ~= nil do
    if its.children then
      listen(walk, obj, site, i == 0 and caller)
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

-- Looks for an object among the children that the program's function tells.
local function scan_told(its, parent, holder, obj)
  local told = naming.told(its, holder)
  for i = 1, #told, 2 do
    if rawequal(told[i + 1], obj) then
      return { of = parent, key = told[i], told = true }
    end
  end
end

-- Notes where the other known objects of a table are, so that they need no
-- search.
local function note_others(its, held, of, up)
  for key, value in next, held do
    local kind = type(value)
    local site = (kind == "table" or kind == "userdata") and its.sites[value]
    if site and path.is_key(key) and not (site.place and
      site.place.of == of and is_there(its, site.place, value)) then
      local place = { of = of, key = key, up = up }
      if site.place and site.place.of == of and
        select(2, its.engine.inside(value)) == 0
      then
        site.place = place
        naming.rename(its, site, value)
      elseif not is_above(site, of) then
        note(site, place)
      end
    end
  end
end

-- Looks for an object below another, at so many fields; `budget` { left }.
-- Returns its place: of those in one table, that with the first key.
local function scan(its, holder, obj, budget)
  local parent = places.site(its, holder)
  if its.children then return scan_told(its, parent, holder, obj) end
  if type(holder) ~= "table" then return nil end
  local queue, seen, i = { { t = holder } }, { [holder] = true }, 1
  while queue[i] and budget.left > 0 do
    local held, up, best = contents(queue[i].t), queue[i].place, nil
    for key, value in next, held do
      budget.left = budget.left - 1
      if budget.left < 0 then break end
      if rawequal(value, obj) then
        if path.is_key(key) and (best == nil or path.before(key, best))
        then
          best = key
        end
      elseif type(value) == "table" and not seen[value] and
        path.is_key(key) and is_plain(value) then
        seen[value] = true
        queue[#queue + 1] = { t = value,
          place = { of = parent, key = key, up = up } }
      end
    end
    if best ~= nil then
      if budget.left > AGAIN then note_others(its, held, parent, up) end
      return { of = parent, key = best, up = up }
    end
    i = i + 1
  end
end

-- Looks for an object at the ends of the lists in which children of this parent
-- were found lately.
local function at_ends(its, parent, obj)
  for _, list in ipairs(parent.lists or {}) do
    local holder
    if list.up then
      holder = value_at(its, list.up)
      holder = is_plain(holder) and holder
    else
      holder = its.objects[parent]
    end
    local held = fields(holder)
    if held then
      for _, key in ipairs { #held, 1 } do
        if rawequal(rawget(held, key), obj) then
          return { of = parent, key = key, up = list.up }
        end
      end
    end
  end
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

-- Is an object above another that executes?  What is above that one may have
-- been entered elsewhere, which nobody has asked for: it is asked now, but not
-- without end.
local function is_above_caller(its, site, other, nested)
  if not other or not is_above(site, other) then return false end
  local above = nested < NESTED and other or nil
  while above and above ~= site do
    local obj = its.objects[above]
    if obj ~= nil then places.settle(its, obj, nested + 1) end
    above = above.place and above.place.of
  end
  return is_above(site, other)
end

-- Returns the place of an object below one of the callers, the innermost
-- first, or nil.  `caller(i)` returns an object, false for a dead one, or nil
-- at the end.
local function search(its, site, obj, caller, repeats, nested)
  local few = { left = AGAIN }
  local function each(n, look)
    local last
    for i = 1, n do
      local holder = caller(i)
      if holder == nil then return nil end
      if holder and not rawequal(holder, obj) and not rawequal(holder, last) and
        not is_above_caller(its, site, its.sites[holder], nested) then
        last = holder
        local place = look(holder, its.sites[holder], i)
        if place then return place end
      end
    end
  end
  return each(NEAREST, function(_, parent)
    return parent and known_place(its, site, obj, parent)
  end) or each(3, function(_, parent)
    return parent and at_ends(its, parent, obj)
  end) or each(NEAREST, function(holder, _, i)
    local whole = not repeats and i <= DEEPEST
    if not whole and few.left <= 0 then return nil end
    return scan(its, holder, obj, whole and { left = math.huge } or few)
  end)
end

-- The callers of an object that executes in this frame.
local function callers_on_stack(its, frame)
  return function(i)
    if i >= frame then return nil end
    local obj = its.engine.frame(frame - i)
    return obj == nil and false or obj
  end
end

-- The object that executed outside, and what is above it.
local function callers_above(its, caller)
  local list, site = {}, its.sites[caller]
  while #list < DEEPEST and caller ~= nil do
    list[#list + 1] = caller
    local place = site and site.place
    site = place and place.of
    caller = site and its.objects[site]
  end
  return function(i) return list[i] end
end

-- Returns the place of an object: below what executes and holds it, else the
-- one where it still is; or nil.
local function find(its, site, obj, frame, caller, nested)
  local place = site.place
  if frame ~= 1 and caller ~= nil then
    if place and place.of == its.sites[caller] and
      is_there(its, place, obj) then
      return place
    end
    local way = frame > 0 and select(4, its.engine.frame(frame - 1)) or caller
    local found = search(its, site, obj, frame > 0 and
      callers_on_stack(its, frame) or callers_above(its, caller),
      frame > 0 and site.way == way, nested)
    if found then return found end
    if frame > 0 then site.way = way end
  end
  return place and is_there(its, place, obj) and place or nil
end

--- Finds out where an object is that may have been entered since.  Returns its
-- site; nil if the object was never entered or placed.  `nested`: so many
-- others are being looked for.
function places.settle(its, obj, nested)
  local order, frame, caller, settled = its.engine.where(obj)
  local site = its.sites[obj]
  if order == 0 or settled and site then return site end
  site = site or places.site(its, obj)
  if frame == 0 and caller ~= nil then -- does the caller execute since before?
    local i = its.engine.inside(caller)
    local _, its_order = its.engine.frame(i)
    frame = its_order and its_order < order and i + 1 or 0
  end
  local place = find(its, site, obj, frame, caller, nested or 0)
  its.engine.settled(obj)
  if place ~= site.place or not place then
    local former = site.place
    site.place = place
    if place then
      if former then note(site, former) end
      place.of.is_parent = true
      remember(place)
    end
    if not (site.name and site.name.place == place) then
      naming.rename(its, site, obj)
    end
  end
  return site
end

-- }======================================================

return places

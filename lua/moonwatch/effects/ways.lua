--- The ways from roots to the objects below them, at the time of a view.
-- SPDX-License-Identifier: MIT
--
-- A way is an array of keys with the `root`'s name.  Its keys are plain values,
-- or objects that have ways of their own.  The way of an object is the first of
-- the shortest ones, in the order of their keys: so it is the same in all
-- programs that do the same.
--
-- A search climbs from an object to what held it, by three sorts of steps:
--
--     links   of the core, below roots that are tracked deeply.  One counts if
--             it has been there since the effects
--     held    by the fields that the effects wrote, as the view says
--     found   by one walk down from all roots, as things are now: of all, if a
--             root is not tracked deeply; else of what no link leads to:
--             functions, coroutines, userdata and classes

local core = require "moonwatch.core"
local path = require "moonwatch.path"
local recorded = require "moonwatch.effects.recorded"

local private = core.private
local enters, parents = private.enters, private.parents
local intercepts, is_object = private.intercepts, private.is_object

local Ways = {}
Ways.__index = Ways

-- Compares two keys; objects come last, in the order of their ways, short ones
-- first, and those without a way in the order in which they were made.
local function before(self, a, b)
  local plain = path.is_key(a)
  if plain ~= path.is_key(b) then return plain end
  if plain then return path.before(a, b) end
  local asks = not self.by_any_key
  local x = asks and is_object(a) and self:of(a) or nil
  local y = asks and is_object(b) and self:of(b) or nil
  if not x or not y then
    if x or y then return x ~= nil end
    return is_object(a) and (not is_object(b) or core.id(a) < core.id(b))
  end
  if #x ~= #y then return #x < #y end
  if x.root ~= y.root then return x.root < y.root end
  for i, key in ipairs(x) do
    if not rawequal(key, y[i]) then return before(self, key, y[i]) end
  end
  return false
end

--- Returns the keys of a table in order.
function Ways:sorted_keys(t)
  local keys, objects = {}, {}
  for key in next, t do
    local list = path.is_key(key) and keys or objects
    list[#list + 1] = key
  end
  table.sort(keys, path.before)
  if #objects > 1 then
    table.sort(objects, function(a, b) return before(self, a, b) end)
  end
  return table.move(objects, 1, #objects, #keys + 1, keys)
end

-- Notes in a map that a field holds an object.
local function note(map, object, parent, key)
  local its = map[object] or {}
  map[object] = its
  its[#its + 1], its[#its + 2] = parent, key
end

-- Walks down from all roots.  Tables that are intercepted have links, unless a
-- root is not tracked deeply.
function Ways:walk()
  local queue, seen = {}, {}
  local function add(t)
    if not seen[t] then queue[#queue + 1] = t end
    seen[t] = true
  end
  self.found = {}
  for _, name in ipairs(self.names) do add(self.roots[name]) end
  for _, t in ipairs(queue) do -- which grows
    for key, value in next, self.view:contents(t) do
      local is_table = type(value) == "table"
      local is_inside -- nil for a class
      if is_table then is_inside = enters(self.root, t, key, value) end
      local has_links = is_inside and not self.walks and intercepts(value)
      if is_object(value) and is_inside ~= false and not has_links then
        note(self.found, value, t, key)
      end
      if is_inside then add(value) end
    end
  end
end

-- Can a key be part of a way now?  The way to an object must not lead over a
-- field that has the object itself as its key.
function Ways:is_usable(key)
  if self.by_any_key or not is_object(key) then return true end
  if self.busy[key] then
    self.cut = true
    return false
  end
  return self:of(key) ~= nil
end

-- Returns the fields that held the object, as an array of parents, each with
-- the key.
function Ways:holders(object)
  local list, seen, view = {}, {}, self.view
  local function add(parent, key)
    if parent == nil or key == nil then return end
    local keys = seen[parent] or {}
    seen[parent] = keys
    if keys[key] or view:get(parent, key) ~= object then return end
    keys[key] = true
    list[#list + 1] = parent
    list[#list + 1] = key
  end
  for _, root in ipairs(self.linked) do
    local its = parents(root, object, view.fx)
    for i = 1, #its, 2 do add(its[i], its[i + 1]) end
  end
  local held = self.held[object] or {}
  for i = 1, #held, 2 do
    if enters(self.root, held[i], held[i + 1], object) then
      add(held[i], held[i + 1])
    end
  end
  local found = self.found and self.found[object] or {}
  for i = 1, #found, 2 do add(found[i], found[i + 1]) end
  return list
end

-- Searches upwards for a root: `down` has, for each object above, the key and
-- the object that it leads to, and how long the way is from there.
function Ways:climb(object)
  local down, queue, root = { [object] = { length = 0 } }, { object }, nil
  for _, at in ipairs(queue) do -- which grows
    local length, name = down[at].length, self.name_of[at]
    if root and length > down[root].length then break end
    if name and (not root or name < self.name_of[root]) then root = at end
    local list = root and {} or self:holders(at)
    for i = 1, #list, 2 do
      local parent, key = list[i], list[i + 1]
      local known = down[parent]
      if (not known or known.length > length) and self:is_usable(key) and
        (not known or before(self, key, known.key)) then
        if not known then queue[#queue + 1] = parent end
        down[parent] = { key = key, object = at, length = length + 1 }
      end
    end
  end
  local way, at = { root = self.name_of[root] }, down[root]
  while at and at.object do
    way[#way + 1], at = at.key, down[at.object]
  end
  return root and way
end

-- Does no link lead to an object now?
function Ways:is_loose(object)
  for _, root in ipairs(self.linked) do
    if object == root or parents(root, object)[1] ~= nil then return false end
  end
  return true
end

-- No links lead on from what the effects took out.  So this function looks into
-- that, for what it held.  What was taken out later may have changed, unseen.
function Ways:look_into_loose()
  local queue, seen, view = {}, {}, self.view
  local function add(object)
    if seen[object] or not self:is_loose(object) then return end
    seen[object] = true
    queue[#queue + 1] = object
  end
  for object in next, self.held do add(object) end
  while #queue > 0 do
    local t = table.remove(queue)
    if not (view.ends[t] and view:is_gone(t)) then
      for key, value in next, view:contents(t) do
        if type(value) == "table" then
          note(self.held, value, t, key)
          add(value)
        end
      end
    end
  end
end

--- Tells whether an object without a way may have had one: the object, or one
-- above it, or one that is a key on the way, may have moved since the effects.
function Ways:has_moved(object)
  local queue, seen = { object }, {}
  if not self.linked[1] then return false end
  for _, at in ipairs(queue) do -- which grows
    if self:has_left(at) then return true end
    for _, its in ipairs(self:holders(at)) do -- parents and keys
      if is_object(its) and not seen[its] then queue[#queue + 1] = its end
      seen[its] = true
    end
  end
  return false
end

--- Tells whether a field below the roots may have held an object, and has
-- stopped holding it since the effects.
function Ways:has_left(object)
  for _, root in ipairs(self.linked) do
    if private.has_left(root, object, self.view.fx) then return true end
  end
  return false
end

--- Returns the way to an object, or nil.
function Ways:of(object)
  local way = self.ways[object]
  if way ~= nil then return way or nil end
  local outer = self.cut
  self.cut = false
  self.busy[object] = true
  if not (self.found or self.name_of[object]) and
    (self.walks or type(object) ~= "table") then
    self:walk()
  end
  way = self:climb(object)
  self.busy[object] = nil
  if way or not self.cut then self.ways[object] = way or false end
  self.cut = outer or self.cut and not way
  return way
end

--- Returns the way to a class, to which no link leads.
function Ways:of_class(class)
  if not self.found then self:walk() end
  self.ways[class] = self.ways[class] or nil
  return self:of(class)
end

--- Returns the set of the tables that the effects wrote, put somewhere or took
-- out, as far as they were below the roots at some time within the effects;
-- `after` is the view after the effects.
function Ways:reached(after)
  local links, set, seen, queue = recorded.links(self.view.fx), {}, {}, {}
  local function add(id)
    if seen[id] then return end
    seen[id] = true
    queue[#queue + 1] = id
  end
  for id in next, links do
    local object = core.object(id)
    if object and self:of(object) then add(id) end
  end
  for _, id in ipairs(queue) do -- which grows
    local object = core.object(id)
    for _, below in ipairs(links[id] or {}) do add(below) end
    if object then set[object] = true end
    if object and not self:of(object) then -- new, with all that is in it
      for _, value in next, after:contents(object) do
        if type(value) == "table" then add(core.id(value)) end
      end
    end
  end
  return set
end

--- Raises unless the objects of the entries, which have no ways, came or went
-- within the effects.
function Ways:check_loose(entries, after)
  local set = entries[1] and self:reached(after)
  for _, e in ipairs(entries) do
    local message = self:has_moved(e.object) and
      "the object whose field '%s' was written has moved since" or
      not set[e.object] and
      "there is no way to the object whose field '%s' was written"
    if message then error { message = message:format(tostring(e.key)) } end
  end
end

--- Returns the ways from `roots`, name -> object, at the time of a view.  With
-- `by_any_key`, objects that are keys need no ways of their own.
return function(roots, view, by_any_key)
  local self = setmetatable({
    roots = roots, view = view, by_any_key = by_any_key,
    names = path.sorted_keys(roots), name_of = {},
    linked = {}, held = {}, found = nil, ways = {}, busy = {}, walks = false,
    cut = false,
  }, Ways)
  for _, name in ipairs(self.names) do
    local root = roots[name]
    self.root = self.root or root
    self.name_of[root] = self.name_of[root] or name
    if private.has_below(root) then
      self.linked[#self.linked + 1] = root
    else
      self.walks = true
    end
  end
  for _, e in ipairs(view.list) do
    local its, value = view.changed[e.object], nil
    if its and its[e.key] ~= nil then value = view:get(e.object, e.key) end
    if type(value) == "table" then note(self.held, value, e.object, e.key) end
  end
  self:look_into_loose()
  return self
end

--- effects:to_patch: effects as a JSON patch.
-- SPDX-License-Identifier: MIT
--
--     root          way of the table `units`: no effect has changed a step,
--      | units      so its place is the same before and after
--     units *       changed: an anchor
--      | 3
--     unit *        changed, below a changed step: belongs to that anchor
--
-- The patch is made of the differences of the anchors' changed fields.  Tables
-- in these fields that hold no change, and are the same table before and after,
-- are equal without a look at their contents.
--
-- That needs the ways of all changed tables.  If one of them is in two places,
-- or no links know the ways, both documents are compared as a whole.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local json = require "moonwatch.json"
local before_after = require "moonwatch.effects.before_after"
local diff = require "moonwatch.json.diff"
local new_ways = require "moonwatch.effects.ways"
local pointer = require "moonwatch.json.pointer"
local recorded = require "moonwatch.effects.recorded"

local private = core.private
local raw = private.raw

local Patch = {}
Patch.__index = Patch

local function fail(message) error { message = message } end

local STALE = "a table in the patch has changed since the effects were made"

-- {======================================================
-- Contents: what belongs to the state
-- =======================================================

function Patch:belongs(parent, key, value)
  if type(value) ~= "table" then return true end
  if self.after:is_weak(value) then fail "a weak table is no document" end
  return private.enters(self.root, parent, key, value) == true
end

-- Returns the contents of a table without the tables that do not belong to the
-- state.
function Patch:limited(view, t)
  local held, limited = view:contents(t), nil
  for key, value in next, held do
    if not self:belongs(t, key, value) then
      if not limited then
        limited = {}
        for name, member in next, held do limited[name] = member end
      end
      limited[key] = nil
    end
  end
  return limited or held
end

-- Returns the values of a field before and after, as far as they belong to the
-- state.
function Patch:values(t, key)
  local old, new = self.before:get(t, key), self.after:get(t, key)
  if old ~= nil and not self:belongs(t, key, old) then old = nil end
  if new ~= nil and not self:belongs(t, key, new) then new = nil end
  return old, new
end

-- Returns the functions that return the contents of tables before and after.
function Patch:contents()
  local function of(view)
    return function(t)
      if self.parts[t] then return t end
      if not view:fresh(t) or view == self.after and view:is_gone(t) then
        fail(STALE)
      end
      return self:limited(view, t)
    end
  end
  return of(self.before), of(self.after)
end

-- }======================================================

-- {======================================================
-- Anchors
-- =======================================================

-- Returns object -> key -> true for the fields that the effects have changed,
-- and an array of an entry for each object.
local function changed_fields(fx)
  local fields, entries = {}, {}
  for _, e in ipairs(recorded.list(fx:squash())) do
    if e.kind ~= "metatable" then
      if not fields[e.object] then
        fields[e.object] = {}
        entries[#entries + 1] = e
      end
      fields[e.object][e.key] = true
    end
  end
  return fields, entries
end

-- Returns the kind of a table that may have the key, or nil.
local function kind_by(key)
  return type(key) == "string" and "object" or
    math.type(key) == "integer" and key > 0 and "array" or nil
end

-- Returns the kind of a table by its changed keys, or nil.
local function kind_of(keys)
  local kind
  for key in next, keys do
    local its = kind_by(key)
    if not its or kind and kind ~= its then return nil end
    kind = its
  end
  return kind
end

-- Returns the first and the last changed element of a list whose length may be
-- another one, so that all from the first one on are compared; else nil.
function Patch:span(t, keys)
  if kind_of(keys) ~= "array" then return nil end
  local first, last, stays = math.maxinteger, 0, true
  for key in next, keys do
    local old, new = self:values(t, key)
    first, last = math.min(first, key), math.max(last, key)
    stays = stays and old ~= nil and new ~= nil
  end
  return not stays and { first = first, last = last } or nil
end

-- Tells whether a table is in two places.  If it may have been in another one
-- that is not known any more, the patch is refused.
local function is_in_two(ways, t)
  local list, n, moved = ways:holders(t), 0, ways:has_left(t)
  for k = 1, #list, 2 do
    if ways:of(list[k]) then
      n = n + 1
    else
      moved = moved or ways:has_moved(list[k])
    end
  end
  if moved then fail "a table has moved since" end
  return n > 1
end

-- Tells whether a table on a way, or the object at its end, is in two places.
function Patch:is_shared_on(ways, way, view)
  local at = self.root
  for _, key in ipairs(way) do
    at = view:get(at, key)
    if is_in_two(ways, at) then return true end
  end
  return false
end

-- Does a step lead over a field that the patch of its table deals with?
function Patch:is_changed(t, key)
  local its, span = self.fields[t], self.spans[t]
  return its and its[key] or span and math.type(key) == "integer" and
    span.first <= key
end

-- Finds the anchor of a changed object: the table with the first changed step
-- on the object's way, or the object itself.  The objects from that step on
-- hold changes.
function Patch:anchor(object, way)
  local at, anchor = self.root, nil
  for _, key in ipairs(way) do
    if not anchor and self:is_changed(at, key) then anchor = at end
    at = self.before:get(at, key)
    if anchor then self.dirty[at] = true end
  end
  self.anchors[anchor or object] = true
end

-- Finds all anchors, and whether the documents must be compared as a whole.
function Patch:find_anchors(entries)
  local after_ways = new_ways({ root = self.root }, self.after)
  local loose = {}
  for object, keys in next, self.fields do
    self.spans[object] = self:span(object, keys)
  end
  for _, e in ipairs(entries) do
    local object = e.object
    local way, now = self.ways:of(object), after_ways:of(object)
    if way then self:anchor(object, way) else loose[#loose + 1] = e end
    if way and self:is_shared_on(self.ways, way, self.before) or
      now and self:is_shared_on(after_ways, now, self.after) then
      self.whole = true
    end
  end
  self.ways:check_loose(loose, self.after)
  self.whole = self.whole or self.ways.walks
end

-- }======================================================

-- {======================================================
-- Operations
-- =======================================================

-- Returns the pointer of a way that JSON can say, and its last node.
local function pointer_of(way)
  local node = {}
  for _, key in ipairs(way) do
    local what = type(key) ~= "string" and math.type(key) ~= "integer" and
      json.NO_KIND or type(key) == "string" and not utf8.len(key) and
      "a key that is not UTF-8"
    if what then fail(json.message(what, node)) end
    node = { up = node, key = key }
  end
  return pointer.text(way, #way), node
end

-- Adds the operations that make one part of a table equal to another.  `place`
-- returns the pointer of a place in the parts.
function Patch:add(old, new, place)
  self.parts[old], self.parts[new] = true, true
  local before, after = self:contents()
  local list, message = diff.operations(old, new, before, after, self.same,
    self.is_shared)
  if not list then
    local what, at = message:match "^(.*) at '(.*)'$"
    fail(what and ("%s at '%s'"):format(what, place(at)) or message)
  end
  for _, operation in ipairs(list) do
    operation.path = place(operation.path)
    self.list_of[#self.list_of + 1] = operation
  end
end

-- Would mw.patch take a step into the table, which was empty, for one into an
-- array?
function Patch:misleads(t, keys)
  if json.mark(t) or not (keys["0"] or keys["-"]) then return false end
  if not self.after:fresh(t) then fail(STALE) end
  for key in next, raw(t) do
    if not keys[key] or self.before:get(t, key) ~= nil then return false end
  end
  return true
end

-- A table that has become another kind is replaced.
function Patch:other(t, path)
  self.dirty[t] = true
  self:add(json.array { t }, json.array { t }, function(at)
    return path .. at:sub(3)
  end)
end

function Patch:object(t, keys, path)
  if self:misleads(t, keys) then return self:other(t, path) end
  local old, new = json.object_like {}, json.object_like {}
  for key in next, keys do old[key], new[key] = self:values(t, key) end
  self:add(old, new, function(at) return path .. at end)
end

-- Returns the length of a list at the time of a view.
local function length(view, t, last)
  local n = #raw(t)
  if last > n then n = last end
  while n > 0 and view:get(t, n) == nil do n = n - 1 end
  while view:get(t, n + 1) ~= nil do n = n + 1 end
  return n
end

-- Adds the operations for the elements from `first` to `last`; the other
-- elements are the same.
function Patch:run(t, first, last_old, last_new, path)
  local old, new = json.array {}, json.array {}
  for i = first, math.max(last_old, last_new) do
    local was, is = self:values(t, i)
    if (was == nil) ~= (i > last_old) or (is == nil) ~= (i > last_new) then
      fail(STALE)
    end
    old[i - first + 1], new[i - first + 1] = was, is
  end
  self:add(old, new, function(at)
    local index, rest = at:match "^/(%d+)(.*)$"
    if not index then return path .. at end
    return ("%s/%d%s"):format(path, index + first - 1, rest)
  end)
end

-- If others have written to the list since, then only the changed elements are
-- known, and not the length.
function Patch:array(t, keys, path)
  local span, sorted, i = self.spans[t], self.ways:sorted_keys(keys), 1
  if span then
    if not self.after:fresh(t) then fail(STALE) end
    return self:run(t, span.first, length(self.before, t, span.last),
      length(self.after, t, span.last), path)
  end
  while sorted[i] do
    local first, last = sorted[i], sorted[i]
    while sorted[i + 1] == last + 1 do i, last = i + 1, last + 1 end
    self:run(t, first, last, last, path)
    i = i + 1
  end
end

local LOOK = 32 -- keys

-- Is one of the first members, which no effect has changed, not of that kind?
function Patch:is_mixed(t, keys, kind)
  local n = 0
  for key, value in next, raw(t) do
    n = n + 1
    if n > LOOK then return false end
    if not keys[key] and kind_by(key) ~= kind and
      type(value) ~= "function" and self:belongs(t, key, value) then
      return true
    end
  end
  return false
end

function Patch:anchor_operations(t)
  local keys, path, node = self.fields[t], pointer_of(self.ways:of(t))
  local kind = kind_of(keys)
  if not kind then return self:other(t, path) end
  if self:is_mixed(t, keys, kind) then
    fail(json.message(json.NO_KIND, node))
  end
  self[kind](self, t, keys, path)
end

-- }======================================================

local function run(fx, root)
  local before, after = before_after(fx, { root })
  local fields, entries = changed_fields(fx)
  local self = setmetatable({
    root = root, before = before, after = after, fields = fields,
    ways = new_ways({ root = root }, before), dirty = {}, anchors = {},
    spans = {},
    parts = {}, list_of = json.array {}, whole = false,
  }, Patch)
  function self.same(t) return not self.dirty[t] end
  function self.is_shared(t)
    return not self.parts[t] and is_in_two(self.ways, t)
  end
  self:find_anchors(entries)
  if self.whole then
    local old, new = self:contents()
    local operations, message = diff.operations(root, root, old, new)
    if not operations then fail(message) end
    self.list_of = operations
  else
    local ordered = self.ways:sorted_keys(self.anchors)
    for _, t in ipairs(ordered) do self:anchor_operations(t) end
  end
  return self.list_of
end

--- Returns an array of RFC 6902 operations that do what the effects have done,
-- for a copy of `root` from before the effects.  Returns nil and a message if
-- JSON cannot say that.
return function(self, root)
  recorded.check(self, "to_patch")
  check.argument(type(root) == "table", 1, "to_patch", "table", root)
  local ok, result = pcall(run, self, root)
  if ok then return result end
  return nil, json.problem(result)
end

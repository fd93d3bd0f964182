--- Which object of a second pass stands for which of the first.
-- SPDX-License-Identifier: MIT
--
-- An object that was below the root before the passes stands for itself.  Any
-- other object stands for the one that the other pass has in the same place,
-- from its first occurrence on.  Such a pair is also compared: tables by class
-- and fields, functions by their code, userdata by class and, where the policy
-- has a rule for it, by state.
--
-- To be asked while the root is as it was before both passes.

local core = require "moonwatch.core"
local path = require "moonwatch.path"
local policy = require "moonwatch.policy"
local same = require "moonwatch.same"
local state = require "moonwatch.effects.state"

local private = core.private
local metatable, raw = private.metatable, private.raw

local Matching = {}
Matching.__index = Matching

-- Returns the set of all that can be reached from the root, but for tables in
-- tables that are not tracked: what a pass has put into such a table, a class
-- perhaps, is still there.
local function reached(root)
  local set, seen, queue = { [root] = true }, { [root] = true }, { root }
  while #queue > 0 do
    local t = table.remove(queue)
    local contents = raw(t)
    local is_tracked = not rawequal(t, contents)
    local function add(value)
      if value ~= value then return end
      if is_tracked or type(value) ~= "table" then set[value] = true end
      if type(value) == "table" and not seen[value] then
        seen[value] = true
        queue[#queue + 1] = value
      end
    end
    for key, value in next, contents do
      add(key)
      add(value)
    end
  end
  return set
end

-- Was the object there before the passes?
local function is_old(self, object)
  self.old = self.old or reached(self.root)
  return self.old[object] ~= nil
end

-- The function for each type tells whether two new objects of that type may
-- stand for each other.
local alike = {}

function alike.table() return true end
function alike.thread() return true end

alike["function"] = function(a, b)
  if private.same_code(a, b) then return true end
  local is_lua, code = pcall(string.dump, a)
  local is_other, other = pcall(string.dump, b)
  return is_lua and is_other and code == other
end

function alike.userdata(a, b)
  local class = metatable(a) -- a light userdata has none
  if class == nil or not rawequal(class, metatable(b)) then return false end
  return not policy.states.has(a) or
    state.same(private.state(a), private.state(b))
end

--- Tells whether two values are the same, or objects of which one stands for
-- the other.
function Matching:same(a, b)
  local kind = type(a)
  if not alike[kind] or kind ~= type(b) then return same(a, b) end
  local its = self.to[a]
  if its ~= nil or self.from[b] ~= nil then return rawequal(its, b) end
  if not rawequal(a, b) then
    if is_old(self, a) or is_old(self, b) or not alike[kind](a, b) then
      return false
    end
    if kind == "table" then self.queue[#self.queue + 1] = a end
  end
  self.to[a], self.from[b] = b, a
  return true
end

--- Returns what stands for a value in the other pass (`known` is `to` or
-- `from`), or the value itself.
function Matching.counterpart(known, value)
  local its = value ~= nil and known[value] or nil
  if its == nil then return value end
  return its
end

local counterpart = Matching.counterpart

--- Returns the object of the first pass for which an object of the second
-- stands, or the object itself.
function Matching:first(object) return counterpart(self.from, object) end

--- Notes where an object of the first pass was put, if it has been matched.
function Matching:put(object, holder, key)
  if key ~= nil and object ~= nil and self.to[object] ~= nil then
    self.holder[object] = { holder, key }
  end
end

-- May the key be a new object that stands for nothing yet?
local function is_loose(self, key, known)
  return not path.is_key(key) and known[key] == nil and not is_old(self, key)
end

-- Compares the fields of two tables.  Returns the keys that differ, as the
-- first table has them.  Of loose keys only the numbers are compared.
local function differing_keys(self, a, b)
  local its, other, keys, more, loose = raw(a), raw(b), {}, 0, nil
  for key, value in next, its do
    local there = rawget(other, counterpart(self.to, key))
    if there == nil and is_loose(self, key, self.to) then
      more, loose = more + 1, key
    elseif self:same(value, there) then
      self:put(value, a, key)
    else
      keys[#keys + 1] = key
    end
  end
  for key in next, other do
    if rawget(its, self:first(key)) == nil then
      if is_loose(self, key, self.from) then
        more, loose = more - 1, key
      else
        keys[#keys + 1] = self:first(key)
      end
    end
  end
  if more ~= 0 then keys[#keys + 1] = loose end
  return keys
end

-- Returns the smallest of the keys, so that a report is the same each time.
local function least(keys)
  local it = keys[1]
  for _, key in ipairs(keys) do
    if path.is_key(key) and (not path.is_key(it) or path.before(key, it)) then
      it = key
    end
  end
  return it
end

--- Tells whether two classes are the same, or new ones with the same fields.
function Matching:same_class(a, b)
  if rawequal(a, b) then return true end
  local queue, at = self.queue, self.at
  self.queue, self.at = {}, 1
  local is_same = self:same(a, b) and self:difference() == nil
  self.queue, self.at = queue, at
  return is_same
end

--- Compares the tables that have been matched since the last call, and all that
-- is new below them.  Returns nil; or the object, the key, and both values of
-- the first field that differs, without a key where it is the class.
function Matching:difference()
  while self.queue[self.at] do
    local a = self.queue[self.at]
    local b = self.to[a]
    self.at = self.at + 1
    local class, other = metatable(a), metatable(b)
    if not self:same_class(class, other) then return a, nil, class, other end
    local keys = differing_keys(self, a, b)
    if keys[1] ~= nil then
      local key = least(keys)
      return a, key, rawget(raw(a), key),
        rawget(raw(b), counterpart(self.to, key))
    end
  end
end

--- Returns the way that `way_of` knows to an object of the first pass; of a new
-- object, the way that it had when it was put somewhere; or nil.
function Matching:way(object, way_of)
  local keys, seen = {}, {}
  while object ~= nil and not seen[object] do
    seen[object] = true
    local way = way_of(object)
    if way then
      for i = #keys, 1, -1 do way[#way + 1] = keys[i] end
      return way
    end
    local its = self.holder[object] or {}
    object, keys[#keys + 1] = its[1], its[2]
  end
end

function Matching.new(root)
  return setmetatable({
    root = root, to = {}, from = {}, holder = {}, queue = {}, at = 1,
  }, Matching)
end

return Matching

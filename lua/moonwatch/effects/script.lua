--- The steps that perform effects in a program that has only some objects.
-- SPDX-License-Identifier: MIT
--
--     script.places   existing objects, each with the path to it:
--                     { object, root = name, keys... }
--     script.tables   new tables, each with its contents:
--                     { object, class = , fields = { { key, value }... } }
--     script.calls    { object, method, arguments..., n = }, before the writes
--     script.writes   { object, key, value, kind }, in the order of the program
--
-- Paths are those before the effects, as they will be when the script runs.
-- The order of all lists depends on the contents alone.

local core = require "moonwatch.core"
local recorded = require "moonwatch.effects.recorded"
local path = require "moonwatch.path"
local before_after = require "moonwatch.effects.before_after"

local Script = {}
Script.__index = Script

-- Returns the keys of a table that are plain values, in order; puts the other
-- keys into `others`.
local function sorted_keys(t, others)
  local keys = {}
  for key in next, t do
    if path.is_key(key) then
      keys[#keys + 1] = key
    elseif others then
      others[#others + 1] = key
    end
  end
  table.sort(keys, path.before)
  return keys
end

local function is_object(value)
  local kind = type(value)
  return kind == "table" or kind == "function" or kind == "thread" or
    kind == "userdata" and value ~= core.null
end

-- {======================================================
-- Paths to objects
-- =======================================================

-- Notes the path to a value, if there is none yet.
local function find(ways, queue, value, way)
  if not is_object(value) or ways[value] then return end
  ways[value] = way
  if type(value) == "table" then queue[#queue + 1] = value end
end

-- Returns object -> { root = name, from = object, key = key }, the shortest
-- paths.
local function find_ways(names, contents)
  local ways, queue = {}, {}
  for _, name in ipairs(sorted_keys(names)) do
    find(ways, queue, names[name], { root = name })
  end
  local i = 1
  while queue[i] do
    local t = queue[i]
    local held = contents(t)
    for _, key in ipairs(sorted_keys(held)) do
      find(ways, queue, held[key], { from = t, key = key })
    end
    i = i + 1
  end
  return ways
end

local function place_of(ways, object)
  local keys, way = {}, ways[object]
  while way.from do
    table.insert(keys, 1, way.key)
    way = ways[way.from]
  end
  keys.object, keys.root = object, way.root
  return keys
end

-- }======================================================

-- {======================================================
-- Values
-- =======================================================

-- Makes sure that the script can have a value: the value is plain, or there is
-- a path to it, or it is a new table.
function Script:need(value)
  if not is_object(value) or self.known[value] then return end
  self.known[value] = true
  if self.ways[value] then
    self.places[#self.places + 1] = place_of(self.ways, value)
  elseif type(value) == "table" then
    self.tables[#self.tables + 1] = { object = value, fields = {} }
  else
    error { ("there is no way to a %s"):format(type(value)) }
  end
end

-- Adds the contents of a new table.
function Script:fill(its)
  local held, others = self.after.contents(its.object), {}
  its.class = self.after.class(its.object)
  self:need(its.class)
  for _, key in ipairs(sorted_keys(held, others)) do
    self:need(held[key])
    its.fields[#its.fields + 1] = { key, held[key] }
  end
  if #others > 1 then
    error { "a new table has several objects as keys, in no order" }
  end
  for _, key in ipairs(others) do
    self:need(key)
    self:need(held[key])
    its.fields[#its.fields + 1] = { key, held[key] }
  end
end

-- }======================================================

function Script:write(e)
  if not self.ways[e.object] then
    self.unplaced[#self.unplaced + 1] = e
    return
  end
  self:need(e.object)
  self:need(e.key)
  self:need(e.new)
  self.writes[#self.writes + 1] = {
    object = e.object, key = e.key, value = e.new, kind = e.kind,
  }
end

-- The contents of new tables include the writes to them.  No other write may be
-- without a path.
function Script:check_unplaced()
  for _, e in ipairs(self.unplaced) do
    if not self.known[e.object] then
      error { ("there is no way to the object whose field '%s' was written")
        :format(tostring(e.key)) }
    end
  end
end

-- Makes sure that the script can make the calls.
function Script:call(calls)
  for _, call in ipairs(calls) do
    for i = 1, call.n do self:need(call[i]) end
  end
end

local function make(fx, names, calls)
  local first, last = before_after(fx)
  local self = setmetatable({
    ways = find_ways(names, first.contents), after = last, known = {},
    places = {}, tables = {}, writes = {}, unplaced = {}, calls = calls or {},
  }, Script)
  self:call(self.calls)
  for _, e in ipairs(recorded.list(fx:squash())) do self:write(e) end
  local i = 1
  while self.tables[i] do
    self:fill(self.tables[i])
    i = i + 1
  end
  self:check_unplaced()
  return self
end

--- Returns the script for effects; `names` has the objects that will exist, by
-- name; `calls`, if any, come before the writes.  Returns nil and a message if
-- the script cannot have some value.
return function(fx, names, calls)
  local ok, result = pcall(make, fx, names, calls)
  if ok then return result end
  if type(result) ~= "table" then error(result, 0) end
  return nil, result[1]
end

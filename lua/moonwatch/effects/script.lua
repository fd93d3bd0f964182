--- What has to be done to perform effects elsewhere, where there are only some
-- objects to begin with.
-- SPDX-License-Identifier: MIT
--
--     plan.places   objects that are there, each with the way to it:
--                   { object, root = name, keys... }
--     plan.tables   new tables, each with what is to be in it:
--                   { object, class = , fields = { { key, value }... } }
--     plan.writes   { object, key, value, kind }, in program order
--
-- The objects are found by the state before the effects, as it will be when the
-- plan is carried out.  All is in an order that depends on contents alone.

local core = require "moonwatch.core"
local recorded = require "moonwatch.effects.recorded"
local path = require "moonwatch.path"
local before_after = require "moonwatch.effects.before_after"

local Script = {}
Script.__index = Script

-- The keys of a table that are values, in order; the others, if any, in
-- `others`.
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
-- Ways to objects
-- =======================================================

-- Notes the way to a value, if it is the first.
local function find(ways, queue, value, way)
  if not is_object(value) or ways[value] then return end
  ways[value] = way
  if type(value) == "table" then queue[#queue + 1] = value end
end

-- object -> { root = name, from = object, key = key }, the shortest ways.
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

-- Makes sure that a value can be had: it is a plain one, or there is a way to
-- it, or it is a table that can be made.
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

-- Says what is to be in a new table.
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

-- Writes to new tables are in what is in these; others cannot be made.
function Script:check_unplaced()
  for _, e in ipairs(self.unplaced) do
    if not self.known[e.object] then
      error { ("there is no way to the object whose field '%s' was written")
        :format(tostring(e.key)) }
    end
  end
end

local function make(fx, names)
  local first, last = before_after(fx)
  local self = setmetatable({
    ways = find_ways(names, first.contents), after = last, known = {},
    places = {}, tables = {}, writes = {}, unplaced = {},
  }, Script)
  for _, e in ipairs(recorded.list(fx:squash())) do self:write(e) end
  local i = 1
  while self.tables[i] do
    self:fill(self.tables[i])
    i = i + 1
  end
  self:check_unplaced()
  return self
end

--- Makes a plan for effects; `names` are the objects that will be there, by
-- name.  Answers nil and a message when there is something that cannot be had.
return function(fx, names)
  local ok, result = pcall(make, fx, names)
  if ok then return result end
  if type(result) ~= "table" then error(result, 0) end
  return nil, result[1]
end

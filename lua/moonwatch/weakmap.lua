--- mw.weakmap: tables with weak keys, and the deaths of keys.
-- SPDX-License-Identifier: MIT
--
--     map --> its: entries: key -> value    (weak keys: ephemerons)
--                  on_death
--
-- In a map with on_death, `entries` has a box in place of a value:
--
--     box: { value, id of the key, on_death, next of the queue }
--
-- A box has a finaliser.  The box is reachable only through its key, so it dies
-- with the key, and the finaliser, which finds the value in the box, puts the
-- box into the queue.  A box dies also with its map, or when its entry is
-- removed; nobody is told then.

local check = require "moonwatch.check"
local core = require "moonwatch.core"

local private = core.private

local type = type

local WEAK_KEYS, WEAK_VALUES = { __mode = "k" }, { __mode = "v" }
local VALUE <const>, ID <const>, ON_DEATH <const>, NEXT <const> = 1, 2, 3, 4

local OBJECTS = { table = true, ["function"] = true, thread = true }

local Map, _, new = check.class("weakmap", "map:set")

local maps = setmetatable({}, WEAK_KEYS) -- map -> its

-- All copies of this file share the queue.
private.dead = private.dead or {}
local dead = private.dead

-- Needs no memory, so that no death gets lost.
local Box = {
  __gc = function(box)
    if not box[ID] or not private.is_dead(box[ID]) then return end
    box[NEXT] = dead.first
    dead.first = box
  end,
}

-- What the core calls for the next death: returns on_death and its arguments,
-- and whether there are more deaths.
private.keep("deaths", function()
  local box = dead.first
  dead.first = box[NEXT]
  return box[ON_DEATH], box[VALUE], box[ID], dead.first ~= nil
end)

local function wrong(self, name) check.self(false, name, "weakmap", self) end

-- Raises unless `key` can be written.
local function check_key(key, name)
  if OBJECTS[type(key)] or private.is_object(key) then return end
  error(("bad argument #1 to '%s' (table, userdata, function or thread \z
    expected, got %s)"):format(name, type(key)), 3)
end

--- Returns the value of a key, or `default`.
function Map:get(key, default)
  local its = maps[self] or wrong(self, "get")
  local value = its.entries[key]
  if value == nil then return default end
  if its.on_death then return value[VALUE] end
  return value
end

--- Tells whether there is an entry for the key.
function Map:has(key)
  local its = maps[self] or wrong(self, "has")
  return its.entries[key] ~= nil
end

local function take_out(its, key)
  local value = its.entries[key]
  if value == nil then return nil end
  its.entries[key] = nil
  its.len = its.len - 1
  if not its.on_death then return value end
  value[ID] = false
  return value[VALUE]
end

--- Stores a value; nil removes the entry.
function Map:set(key, value)
  local its = maps[self] or wrong(self, "set")
  local entries = its.entries
  local former = entries[key]
  if former ~= nil then
    if value == nil then
      take_out(its, key)
    elseif its.on_death then
      former[VALUE] = value
    else
      entries[key] = value
    end
    return
  end
  if not OBJECTS[type(key)] then check_key(key, "set") end
  if value == nil then return end
  if its.on_death then value = { value, core.id(key), its.on_death, false } end
  entries[key] = value
  if its.on_death then setmetatable(value, Box) end -- it has its place
  its.len = its.len + 1
end

--- Removes an entry and returns its value.
function Map:remove(key)
  local its = maps[self] or wrong(self, "remove")
  check_key(key, "remove")
  return take_out(its, key)
end

--- Removes all entries.
function Map:clear(...)
  local its = maps[self] or wrong(self, "clear")
  check.nothing("clear", ...)
  if its.on_death then
    for _, box in next, its.entries do box[ID] = false end
  end
  its.entries, its.len = setmetatable({}, WEAK_KEYS), 0
end

--- Returns the number of entries whose keys are alive.  Counts them again if a
-- collection has ended since the last count.
function Map:len()
  local its = maps[self] or wrong(self, "len")
  local collections = private.collections()
  if its.counted == collections then return its.len end
  its.counted, its.len = collections, 0
  for _ in next, its.entries do its.len = its.len + 1 end
  return its.len
end

Map.__len = Map.len

--- Iterates over the entries that are there from start to end, each once; the
-- loop may add, remove and collect.
function Map:pairs()
  local its = maps[self] or wrong(self, "pairs")
  local keys, n, i = setmetatable({}, WEAK_VALUES), 0, 0
  for key in next, its.entries do
    n = n + 1
    keys[n] = key
  end
  return function()
    while i < n do
      i = i + 1
      local value = keys[i] and its.entries[keys[i]]
      if value ~= nil then
        if its.on_death then value = value[VALUE] end
        return keys[i], value
      end
    end
  end
end

Map.__pairs = Map.pairs

--- Returns a table with weak keys that are compared by identity.  `on_death` is
-- called once for each key that was collected, after the entry is gone.
return function(on_death)
  check.argument(on_death == nil or type(on_death) == "function", 1, "weakmap",
    "function", on_death)
  local its = { entries = setmetatable({}, WEAK_KEYS), on_death = on_death,
    len = 0, counted = private.collections() }
  local map = new(its)
  maps[map] = its
  return map
end

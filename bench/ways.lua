-- Ways to do the same: each is a loop with one call an object, written as a
-- user would write it.

local floor = require "floor"
local mw = require "moonwatch"

local function weak_keys() return setmetatable({}, { __mode = "k" }) end

local ways = {}

-- The floor -------------------------------------------------------------

function ways.none() end

-- A method in C that does nothing.
function ways.floor(list)
  for i = 1, #list do floor:call(list[i]) end
end

-- Pure Lua --------------------------------------------------------------

local weak, n = weak_keys(), 1

local function write(obj)
  weak[obj] = n
  return obj
end

function ways.write(list)
  for i = 1, #list do write(list[i]) end
end

local function read(obj) return weak[obj] end

function ways.read(list)
  for i = 1, #list do read(list[i]) end
end

local ids, last = weak_keys(), 0

local function number(obj)
  local id = ids[obj]
  if id then return id end
  last = last + 1
  ids[obj] = last
  return last
end

function ways.number(list)
  for i = 1, #list do number(list[i]) end
end

-- The obvious design: a userdata with a finaliser for each object.
local records = weak_keys()

function ways.obvious(list)
  for i = 1, #list do records[list[i]] = floor.record() end
end

-- moonwatch -------------------------------------------------------------

function ways.id(list)
  for i = 1, #list do mw.id(list[i]) end
end

local map = mw.weakmap()

function ways.set(list)
  for i = 1, #list do map:set(list[i], n) end
end

function ways.get(list)
  for i = 1, #list do map:get(list[i]) end
end

local clock = mw.clock()

function ways.tag(list)
  for i = 1, #list do clock:tag(list[i]) end
end

function ways.generation(list)
  for i = 1, #list do clock:generation(list[i]) end
end

-- What is new -----------------------------------------------------------

-- Each begins a generation, and returns a function that counts its objects.
ways.newest = {}

function ways.newest.write()
  n = n + 1
  return function()
    local count = 0
    for _, at in pairs(weak) do
      if at >= n then count = count + 1 end
    end
    return count
  end
end

function ways.newest.tag()
  local now = clock:advance()
  return function()
    local count = 0
    for _ in clock:since(now) do count = count + 1 end
    return count
  end
end

-- Policies --------------------------------------------------------------

-- Each returns a function that decides.
ways.policies = {}

local function plain_rule() return nil end

function ways.policies.call()
  return function() return true, "rule" end
end

function ways.policies.call_20()
  return function(obj)
    for _ = 1, 20 do
      local value = plain_rule(obj)
      if value ~= nil then return value end
    end
  end
end

local FILE = [[
local rules = {}
for i = 1, 20 do
  rules[i] = { "rule " .. i, function(obj) return obj.nothing end }
end
return { rules = rules }
]]

function ways.policies.file_20()
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  file:write(FILE)
  file:close()
  assert(mw.load_policy(path)):use()
  os.remove(path)
  return mw.is_dynamic
end

function ways.policies.default() return mw.is_dynamic end

-- Effects ---------------------------------------------------------------

local function nothing() end

local function new_shadow(new_write)
  local shadow = { x = 1, y = 2 }
  local meta = { __index = shadow, __newindex = new_write(shadow) }
  return setmetatable({}, meta)
end

-- Each makes an object, and returns it and what begins and ends a recording.
ways.recorders = {}

function ways.recorders.floor() return ways.new_floor(), nothing, nothing end

-- In pure Lua, as one would write it: an entry a write.
function ways.recorders.undo_log()
  local log
  local obj = new_shadow(function(shadow)
    return function(object, k, v)
      log[#log + 1] = { object = object, key = k, old = shadow[k], new = v }
      shadow[k] = v
    end
  end)
  return obj, function() log = {} end, function() return log end
end

-- The same with as little as can be: no tables, and it cannot be done again.
function ways.recorders.flat_log()
  local objects, keys, olds, count
  local function start() objects, keys, olds, count = {}, {}, {}, 0 end
  local obj = new_shadow(function(shadow)
    return function(object, k, v)
      count = count + 1
      objects[count], keys[count], olds[count] = object, k, shadow[k]
      shadow[k] = v
    end
  end)
  return obj, start, function() return objects, keys, olds end
end

function ways.recorders.tracked()
  local tx
  return mw.track { x = 1, y = 2 }, function() tx = mw.begin() end,
    function() return tx:commit() end
end

-- A recorder with room for all that is measured, or for less, which is full at
-- the begin.
local function by_recorder(opts, full)
  return function()
    local obj, recorder = mw.track { x = 1, y = 2 }, nil
    return obj, function()
      recorder = mw.recorder(opts)
      if not full then return end
      for i = 1, opts.capacity + 300 do obj.y = i end
    end, function() recorder:stop() end
  end
end

ways.recorders.filling = by_recorder { capacity = 200000 }
ways.recorders.full = by_recorder({ capacity = 65536 }, true)
ways.recorders.placed = by_recorder { capacity = 200000, where = true }

-- Functions that write to an object of so many fields, and take that back.
local function new_writes(count, n_fields)
  local obj, keys, tx = {}, {}, nil
  for i = 1, n_fields do
    keys[i] = "field " .. i
    obj[keys[i]] = 0
  end
  mw.track(obj)
  local function fill()
    tx = mw.begin()
    for i = 1, count do obj[keys[i % 10 + 1]] = i end
  end
  return fill, function() tx:rollback() end
end

-- Each returns how many writes there are, what is measured of them, and what
-- goes before and after that.
ways.undo = {}

function ways.undo.writes()
  local fill, rollback = new_writes(1000, 10)
  return 1000, fill, nothing, rollback
end

local function rollback_of(count, n_fields)
  return function()
    local fill, rollback = new_writes(count, n_fields)
    return count, rollback, fill, nothing
  end
end

ways.undo.few = rollback_of(1000, 10)
ways.undo.many = rollback_of(100000, 10)
ways.undo.heavy = rollback_of(1000, 10000)

local function new_rows(count, x)
  local rows = {}
  for i = 1, count do rows[i] = { id = i, x = x } end
  return rows
end

-- Each returns a function that changes the row of that number.
ways.rows = {}

function ways.rows.write()
  local rows = mw.track(new_rows(1000, 0), { deep = true })
  return function(i) rows[i].x = i end
end

function ways.rows.transaction()
  local change = ways.rows.write()
  return function(i) assert(mw.transaction(change, i)) end
end

local function copy(value)
  if type(value) ~= "table" then return value end
  local t = {}
  for k, v in pairs(value) do t[k] = copy(v) end
  return t
end

-- Answers what to go back to.
function ways.rows.copy()
  local rows = new_rows(1000, 0)
  return function(i)
    local former = copy(rows)
    rows[i].x = i
    return former
  end
end

-- A world of 100,000 tables, a quarter of them with a class.
local function new_world()
  local class = { __index = { alive = true } }
  local world = {}
  for i = 1, 25000 do
    world[i] = setmetatable({ id = i, name = "entity", pos = { x = i, y = 0 },
      tags = { "a", "b" }, stats = { hp = 10, mp = 5, xp = 0 } }, class)
  end
  return world
end

local function deep_copy(value, copies)
  if type(value) ~= "table" then return value end
  if copies[value] then return copies[value] end
  local its = {}
  copies[value] = its
  for key, field in next, value do
    its[deep_copy(key, copies)] = deep_copy(field, copies)
  end
  return setmetatable(its, getmetatable(value))
end

-- Each returns a function that copies a world.
ways.copies = {}

function ways.copies.lua()
  local world = new_world()
  return function() return deep_copy(world, {}) end
end

function ways.copies.plain()
  local world = new_world()
  return function() return mw.plain(world) end
end

function ways.copies.plain_tracked()
  local world = mw.track(new_world(), { deep = true })
  return function() return mw.plain(world) end
end

for _, name in ipairs { "watches", "programs", "frames", "growth",
  "documents", "transactions", "recording", "readers", "snapshots" } do
  require("ways_of_" .. name)(ways)
end

return ways

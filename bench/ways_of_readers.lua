-- The ways of those who look at what changed.

local mw = require "moonwatch"

local ways = { looks = {} }

local OBJECTS, CHANGES, STRIDE = 50000, 1000, 37

-- Returns a function that writes 1,000 fields of 50,000 objects.
local function writer(objects)
  local n = 0
  return function()
    for i = 1, CHANGES do
      n = n + 1
      objects[i * STRIDE % OBJECTS + 1].hp = n
    end
  end
end

local function new_objects(watch)
  local objects = {}
  for i = 1, OBJECTS do objects[i] = watch { x = i, y = -i, hp = 10 } end
  return objects
end

function ways.looks.dirty_list()
  local dirty, list = {}, {}
  local objects = new_objects(function(fields)
    return setmetatable({}, { __index = fields,
      __newindex = function(object, key, value)
        local known = dirty[object]
        if not known then
          known = {}
          dirty[object] = known
        end
        if not known[key] then
          known[key] = true
          list[#list + 1] = { object, key, fields[key] }
        end
        fields[key] = value
      end })
  end)
  local function look()
    local its, count = list, 0
    dirty, list = {}, {}
    for i = 1, #its do
      local record = its[i]
      local object, key, old = record[1], record[2], record[3]
      local new = object[key]
      if old ~= new then count = count + 1 end
    end
    return count
  end
  return writer(objects), look, CHANGES
end

local function count_changes(feed)
  local count = 0
  for object, key, old, new in feed:changes() do
    if object and key and old ~= new then count = count + 1 end
  end
  return count
end

function ways.looks.feed_changes()
  local objects, feed = new_objects(mw.track), mw.feed()
  return writer(objects), function() return count_changes(feed) end, CHANGES
end

function ways.looks.feed_changes_below()
  local objects = new_objects(function(fields) return fields end)
  local root = { objects = objects }
  local feed = mw.feed { root = root }
  local function look() return count_changes(feed), root end
  return writer(objects), look, CHANGES
end

function ways.looks.feed_read()
  local objects, feed = new_objects(mw.track), mw.feed()
  local function look()
    local count = 0
    for entry in feed:read() do
      if entry then count = count + 1 end
    end
    return count
  end
  return writer(objects), look, CHANGES
end

local growth = {}

function growth.feed_changes(n)
  local root = {}
  for i = 1, n do root[i] = { x = i } end
  local feed, i = mw.feed { root = root }, 0
  return function()
    for _ = 1, 100 do
      i = i % n + 1
      root[i].x = root[i].x + 1
      count_changes(feed)
    end
    return root
  end, 100
end

function growth.feed_moves(n)
  local root = {}
  for i = 1, n do root[i] = { x = i, { y = i } } end
  local feed, i = mw.feed { root = root }, 0
  return function()
    for _ = 1, 100 do
      i = i % n + 1
      local object = root[i]
      root[i] = nil
      count_changes(feed)
      root[i] = object
      count_changes(feed)
    end
    return root
  end, 100
end

-- A state follows another, with the same list of n tables.
function growth.feed_states(n)
  local list = {}
  for i = 1, n do list[i] = { x = i } end
  local root = { state = { list = list } }
  local feed = mw.feed { root = root }
  return function()
    for i = 1, 100 do
      root.state = { list = list, turn = i }
      assert(count_changes(feed) == 3)
    end
  end, 100
end

-- A table comes, while a transaction is open that has written one of n fields
-- of another.
function growth.feed_beside(n)
  local root = { long = {} }
  for i = 1, n do root.long[i] = i end
  local feed = mw.feed { root = root }
  local co = coroutine.wrap(function()
    local _ <close> = mw.begin()
    root.long[1] = 0
    coroutine.yield()
  end)
  co()
  return function()
    for i = 1, 100 do
      root.its = { i }
      assert(count_changes(feed) == 2)
    end
    return co
  end, 100
end

-- Adds these to the others.
return function(all)
  for name, way in pairs(ways) do all[name] = way end
  for name, way in pairs(growth) do all.growth[name] = way end
end

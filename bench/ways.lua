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

-- Each begins a generation, and answers a function that counts its objects.
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

return ways

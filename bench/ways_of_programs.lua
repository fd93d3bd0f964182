-- The ways of what looks at whole programs: traces, hierarchies, examples.

local floor = require "floor"
local mw = require "moonwatch"

local function nothing() end

local ways = {}

-- Traces ----------------------------------------------------------------

-- Each returns a function that does it n times, what comes before, and what
-- comes after.
ways.scopes = {}

function ways.scopes.call()
  local close = setmetatable({}, { __close = nothing })
  local function scope() return close end
  return function(count)
    for _ = 1, count do local _ <close> = scope "name" end
  end, nothing, nothing
end

function ways.scopes.clocks()
  return function(count)
    local list, size, time = {}, 0, os.clock
    for _ = 1, count do
      list[size + 1] = { phase = "B", name = "name", time = time() }
      list[size + 2] = { phase = "E", name = "name", time = time() }
      size = size + 2
    end
    assert(#list == 2 * count)
  end, nothing, nothing
end

local function timed(count)
  for _ = 1, count do local _ <close> = mw.timed "name" end
end

function ways.scopes.off() return timed, nothing, nothing end

function ways.scopes.on()
  local trace = mw.trace { capacity = 65536 }
  return timed, function() trace:start() end, function() trace:stop() end
end

function ways.scopes.write()
  local object = setmetatable({}, { __newindex = floor.store {} })
  return function(count)
    for i = 1, count do object.x = i end
  end, nothing, nothing
end

function ways.scopes.traced_write()
  local object = mw.track { x = 0 }
  local trace = mw.trace { capacity = 65536, sources = { "watch" } }
  return function(count)
    for i = 1, count do object.x = i end
  end, function() trace:start() end, function() trace:stop() end
end

ways.events = {}

local MILLION = 1000000
local NAMES = { "update", "draw", "collide" }

-- Arrays, which are quicker to read than a table an event.
function ways.events.lua()
  local names, times = {}, {}
  for i = 1, MILLION do
    names[i], times[i] = NAMES[(i + 1) // 2 % 3 + 1], i * 0.3
  end
  return function(path)
    local file = assert(io.open(path, "w"))
    file:write '{"traceEvents":[\n'
    for i = 1, MILLION do
      file:write(('{"ph":"%s","pid":1,"tid":%d,"ts":%.3f,"name":"%s"},\n')
        :format(i % 2 == 1 and "B" or "E", 1, times[i], names[i]))
    end
    file:write "{}]}"
    file:close()
  end
end

function ways.events.engine()
  local trace = mw.trace { capacity = MILLION }:start()
  for i = 1, MILLION // 2 do
    local _ <close> = mw.timed(NAMES[i % 3 + 1])
  end
  trace:stop()
  assert(trace:len() == MILLION)
  return function(path) assert(trace:write(path)) end
end

-- Hierarchies -----------------------------------------------------------

-- A chain of objects whose methods call the next one's, between two functions.
local function new_chain(length, before, after)
  local Node = {}
  Node.__index = Node
  function Node:update()
    before(self)
    if self.next then self.next:update() end
    after(self)
  end
  local node
  for _ = 1, length do node = setmetatable({ next = node }, Node) end
  local name = "Node"
  local at = node
  while at do
    at.name, name, at = name, name .. ".next", at.next
  end
  return node, Node
end

-- Each returns a function that calls methods, and how many.
ways.hierarchies = {}

-- In pure Lua: a stack of names, and how often each is on it.
local function counting(length)
  local stack, counts = {}, {}
  local node = new_chain(length, function(obj)
    local its = obj.name
    stack[#stack + 1] = its
    counts[its] = (counts[its] or 0) + 1
  end, function()
    local its = stack[#stack]
    stack[#stack] = nil
    local count = counts[its] - 1
    counts[its] = count > 0 and count or nil
  end)
  return function() node:update() end, length
end

local function entering(length)
  local h = mw.hierarchy()
  local node = new_chain(length, function(obj) h:enter(obj) end,
    function(obj) h:leave(obj) end)
  return function() node:update() end, length, h
end

function ways.hierarchies.counts() return counting(1) end

function ways.hierarchies.counts_deep() return counting(4) end

function ways.hierarchies.enter() return entering(1) end

function ways.hierarchies.enter_deep() return entering(4) end

function ways.hierarchies.hooks()
  local run, length, h = entering(1)
  h:on { enter = nothing, leave = nothing }
  return run, length
end

function ways.hierarchies.instrument()
  local h = mw.hierarchy()
  local node, Node = new_chain(1, nothing, nothing)
  h:instrument(Node, { "update" })
  return function() node:update() end, 1
end

-- Dynamism --------------------------------------------------------------

-- Fifty things in a game: 20 leaves each, of which 3 vary.
local function new_thing(i, frame)
  return {
    id = i, kind = "troll", name = "troll number " .. i, alive = true,
    health = 10 + frame % 5, level = 3, armour = 0.5, faction = "north",
    transform = { x = i + frame * 0.5, y = i * 0.5, z = 0.0, angle = frame % 4,
      scale = 1.0 },
    inventory = { gold = 3, weapon = "club", shield = false, arrows = 20,
      bread = 2, potions = 0, keys = 1 },
  }
end

function ways.examples(count)
  local list = {}
  for frame = 1, count do
    local things = {}
    for i = 1, 50 do things[i] = new_thing(i, frame) end
    list[frame] = { things = things }
  end
  return list
end

local function step(key)
  return type(key) == "string" and "['" .. key .. "']" or "[" .. key .. "]"
end

-- In pure Lua: calls note(sets, path, value) for each leaf.
local function note_leaves(sets, t, path, note)
  for key, value in pairs(t) do
    local below = path .. step(key)
    if type(value) == "table" then
      note_leaves(sets, value, below, note)
    else
      note(sets, below, value)
    end
  end
end

local function note_value(sets, path, value)
  local set = sets[path]
  if not set then
    set = {}
    sets[path] = set
  end
  set[value] = true
end

-- Tells 1 from 1.0, and takes NaN.
local function note_by_kind(sets, path, value)
  local kinds = sets[path]
  if not kinds then
    kinds = {}
    sets[path] = kinds
  end
  local kind = math.type(value) or type(value)
  local set = kinds[kind]
  if not set then
    set = {}
    kinds[kind] = set
  end
  set[value == value and value or "NaN"] = true
end

local function varies(set) return next(set, next(set)) ~= nil end

local function varies_by_kind(kinds)
  return varies(kinds) or varies(select(2, next(kinds)))
end

local function count_in_lua(note, is_varying)
  return function(list)
    local sets, count = {}, 0
    for _, example in ipairs(list) do note_leaves(sets, example, "L", note) end
    for _, set in pairs(sets) do
      if is_varying(set) then count = count + 1 end
    end
    return count
  end
end

-- Each returns how many leaves of some examples vary.
ways.dims = {
  sets = count_in_lua(note_value, varies),
  kinds = count_in_lua(note_by_kind, varies_by_kind),
}

function ways.dims.report(list)
  local count = 0
  for _, dims in pairs(mw.dynamism(list):dims().things) do
    if dims[1] then count = count + 1 end
  end
  return count
end

-- Each returns a function that takes one more example, after 1,000.
ways.feeds = {}

local function fed(add)
  for _ = 1, 10 do
    for _, example in ipairs(ways.examples(100)) do add(example) end
  end
  return add
end

function ways.feeds.sets()
  local sets = {}
  return fed(function(example) note_leaves(sets, example, "L", note_value) end)
end

function ways.feeds.kinds()
  local sets = {}
  return fed(function(example)
    note_leaves(sets, example, "L", note_by_kind)
  end)
end

function ways.feeds.report()
  local report = mw.dynamism()
  return fed(function(example) report:add(example) end)
end

-- Adds these to the others.
return function(all)
  for name, way in pairs(ways) do all[name] = way end
end

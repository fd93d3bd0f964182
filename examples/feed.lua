-- A renderer and two network clients, each with its own view of what changed in
-- a world, at its own pace.  The second client comes late: it gets a snapshot,
-- and from there on what has changed since.

local mw = require "moonwatch"

local world = { turn = 0, units = {} }
for i = 1, 1000 do
  world.units["orc " .. i] = { hp = 10, at = { x = i, y = 1 } }
end

-- The game writes to the world, and knows of nobody who looks.
local function frame()
  world.turn = world.turn + 1
  for i = 1, 3 do
    local unit = world.units["orc " .. world.turn * 10 + i]
    unit.at.x = unit.at.x + 1
    unit.at.y = unit.at.y + 1
    unit.hp = unit.hp - 1
  end
  world.units["orc " .. world.turn] = nil
  world.units["elf " .. world.turn] = { hp = 5, at = { x = 0, y = 0 } }
end

-- {======================================================
-- A renderer looks at each frame, and has a sprite for each unit
-- =======================================================

local renderer = { feed = mw.feed { root = world }, sprites = {}, of = {} }

function renderer:add(unit)
  self.sprites[unit] = true
  self.of[unit.at] = unit
end

for _, unit in pairs(world.units) do renderer:add(unit) end

function renderer:draw()
  local dirty, made, freed = {}, 0, 0
  for object, _, _, new, kind in self.feed:changes() do
    local unit = self.sprites[object] and object or self.of[object]
    if kind == "detach" then -- a unit, or its place
      freed = freed + (self.sprites[object] and 1 or 0)
      self.sprites[object], self.of[object] = nil, nil
    elseif unit then
      dirty[unit] = true
    elseif object == world.units and kind == "attach" then
      self:add(new)
      made = made + 1
    end
  end
  local drawn = made
  for unit in pairs(dirty) do
    drawn = drawn + (self.sprites[unit] and 1 or 0)
  end
  print(("frame %d: %d sprites drawn, %d made, %d freed"):format(world.turn,
    drawn, made, freed))
end

-- }======================================================

-- {======================================================
-- A link looks at every third frame, and sends what its client does not know
-- =======================================================

-- A value as it is sent: of an object, its number.
local function encode(value)
  return type(value) == "table" and { id = mw.id(value) } or value
end

-- What a client does with a message.  `known` are its objects, by number.
local function apply(known, message)
  for _, change in ipairs(message) do
    local id, key, value = change[1], change[2], change[3]
    if type(value) == "table" then
      if change.kind == "attach" then known[value.id] = {} end
      value = known[value.id]
    end
    if change.kind == "detach" then
      known[id] = nil
    else
      known[id][key] = value
    end
  end
end

local function new_link(name, since)
  return assert(mw.feed { root = world, not_from = name, since = since })
end

local function send(name, feed, known)
  local message = {}
  for object, key, _, new, kind in feed:changes() do
    message[#message + 1] = { mw.id(object), key, encode(new),
      kind = kind }
  end
  apply(known, message)
  print(("  %d changes for %s"):format(#message, name))
end

-- A snapshot has no numbers: they go with it, each for the way to its object.
local function numbers(object, copy, known)
  known[mw.id(object)] = copy
  for key, value in pairs(object) do
    if type(value) == "table" then numbers(value, copy[key], known) end
  end
  return known
end

local function same(known)
  local copy = known[mw.id(world)]
  return (mw.snapshot(copy)) == (mw.snapshot(world))
end

-- A client's own writes are not sent back to it.
local function receive(name, known, f)
  mw.origin(name, f, world)
  f(known[mw.id(world)])
end

-- }======================================================

local function join()
  local bytes, seq = mw.snapshot(world)
  return numbers(world, mw.restore(bytes), {}), seq, #bytes
end

local first, since = join()
local first_link = new_link("first", since)
local second, second_link

for turn = 1, 9 do
  frame()
  if turn == 4 then
    receive("first", first, function(its) its.units["orc 900"].hp = 1 end)
  end
  renderer:draw()
  if turn % 3 == 0 then
    send("the first client", first_link, first)
    if second then send("the second client", second_link, second) end
  end
  if turn == 5 then
    local size
    second, since, size = join()
    frame() -- much may happen before its link is there
    second_link = new_link("second", since)
    print(("  a second client joins with a snapshot of %d bytes")
      :format(size))
  end
end

print("the first client has the same world: " .. tostring(same(first)))
print("the second client has the same world: " .. tostring(same(second)))

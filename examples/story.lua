-- What `make run` shows: a few frames of a small game.

local mw = require "moonwatch"

local function say(format, ...)
  print(format:format(...))
end

local function title(text)
  say("\n%s\n%s", text, ("-"):rep(#text))
end

-- {======================================================
-- Identity
-- =======================================================

title "Who is who"

local hero = { name = "hero" }
say("The hero is object number %d, whatever its fields become.", mw.id(hero))
hero.name = "Hero the Great"
say("Object number %d is called %s.", mw.id(hero), mw.object(mw.id(hero)).name)

-- A sprite costs something on the graphics card, which must be freed when the
-- thing that it shows is gone.
local freed = 0
local sprites = mw.weakmap(function(sprite, id)
  freed = freed + 1
  if freed <= 2 then
    say("  frees sprite %q: object number %d is gone", sprite, id)
  end
end)

sprites:set(hero, "hero.png")
local sparks = {}
for i = 1, 1000 do
  sparks[i] = { brightness = i }
  sprites:set(sparks[i], "spark " .. i)
end
say("A firework: %d sprites are on the card.", #sprites)
sparks = nil -- luacheck: ignore 311
collectgarbage()
repeat until mw.reap(100) == 0 -- a hundred each frame
say("The sparks are out, %d sprites were freed; left: %s.", freed,
  sprites:get(hero))

-- }======================================================

-- {======================================================
-- Clocks
-- =======================================================

title "What is new"

local frames = mw.clock "frames"
local world = {}

local function spawn(name)
  world[#world + 1] = frames:tag { name = name }
end

for i = 1, 100000 do spawn("tree " .. i) end
for _, name in ipairs { "bird", "fox" } do
  frames:advance()
  spawn(name)
  for object, generation in frames:since(frames:now()) do
    say("Frame %d: of %d things, only the %s is new.", generation, #world,
      object.name)
  end
end

-- }======================================================

-- {======================================================
-- Watch
-- =======================================================

title "What has changed"

-- The path to the treasure is computed once, and again when the map changes.
local map = { river = "north", bridge = true }
local path, computed = nil, 0
local valid = mw.guard()
mw.watch(map, valid, { key = "bridge" })

local function treasure()
  if not path or not valid.valid then
    computed = computed + 1
    path = map.bridge and "over the bridge" or "through the water"
    valid:revalidate()
  end
  return path
end

for frame = 1, 1000 do
  if frame == 500 then map.river = "north-west" end
  if frame == 700 then map.bridge = nil end
  treasure()
end
say("A thousand frames, the path computed %d times: %s.", computed, treasure())
say("The map was written %d times.", mw.mutations(map))

-- An editor wants to know of every change, wherever it is.
local level = { rooms = { { door = "open" }, { door = "shut" } } }
mw.watch(level, function(_, keys, _, new)
  if type(new) == "table" then new = "another one" end
  say("  level.%s is now %s", table.concat(keys, "."), new)
end, { deep = true })
level.rooms[2].door = "open"
level.rooms[1], level.rooms[2] = level.rooms[2], level.rooms[1]
level.rooms[1].door = "locked"

-- A rule of the level: a check is asked before a write counts.
mw.watch(level, function(_, keys, _, new)
  if keys[#keys] == "door" and new == "ajar" then
    error("a door is open, shut or locked", 0)
  end
end, { deep = true, phase = "check" })
local _, why = pcall(function() level.rooms[1].door = "ajar" end)
say("No room gets such a door: %s. It is still %s.", why,
  level.rooms[1].door)

-- A printer that knows nothing of watches is given a plain copy.
local doors = {}
for i, room in next, mw.plain(level).rooms do doors[i] = room.door end
say("A copy for printing: %s.", table.concat(doors, ", "))

-- }======================================================

-- {======================================================
-- Policies
-- =======================================================

title "What is dynamic"

local Enemy = { __name = "Enemy" }
Enemy.__index = Enemy
function Enemy.new(hp) return setmetatable({ hp = hp }, Enemy) end

local old = Enemy.new(10)
mw.instrument(Enemy)
local new = Enemy.new(500)
for _, enemy in ipairs { old, new } do
  say("An enemy of %d is dynamic: %s, by rule %q.", enemy.hp,
    mw.is_dynamic(enemy))
end
mw.policy({ rules = {
  { "bosses", function(obj) return obj.hp > 100 or nil end },
} }):use()
say("With another policy, one of %d is: %s, by rule %q.", new.hp,
  mw.is_dynamic(new))

-- }======================================================

-- {======================================================
-- Effects
-- =======================================================

title "What was done"

local knight = mw.track(setmetatable({ name = "knight", hp = 10, gold = 3 },
  { __name = "Knight" }))
local ok, effects = mw.transaction(function()
  knight.hp = knight.hp - 4
  knight.gold = knight.gold + 20
end)
say("The fight went well: %s. It made %d writes.", ok, effects:len())
for entry in effects:entries() do
  say("  %s of %s: %s, was %s", entry.key, entry.object.name, entry.new,
    entry.old)
end
effects:rollback()
say("It never happened: %d hp, %d gold.", knight.hp, knight.gold)
say("A spell: %s, %s.", mw.transaction(function()
  knight.hp, knight.gold = 100, nil
  error("the wand breaks", 0)
end))
say("Nothing of it is left: %d hp, %d gold.", knight.hp, knight.gold)

local history = mw.history()
history:run("rename", function() knight.name = "Sir Robin" end)
history:run("arm", function() knight.weapon = "sword" end)
say("Undone: %s, %s; he is the %s again.", history:undo(), history:undo(),
  knight.name)
say("Done again: %s; meet %s, who has %s sword.", history:redo(), knight.name,
  knight.weapon and "a" or "no")

-- Each coroutine has its own transaction, and takes back what is its own.
local function deal(key, value, is_fair)
  return coroutine.wrap(function()
    mw.transaction(function()
      knight[key] = value
      coroutine.yield()
      if not is_fair then error "stop the thief!" end
    end)
  end)
end

local thief, smith = deal("gold", 0, false), deal("weapon", "axe", true)
thief()
smith()
thief()
smith()
say("Two deals at once, one is off: he has %d gold and an %s.", knight.gold,
  knight.weapon)

-- Who has written it, and because of what?
local recorder = mw.recorder { where = true }
mw.watch(knight, function(_, _, _, hp)
  if hp <= 0 then knight.weapon = nil end
end, { key = "hp" })
mw.origin("the dragon", mw.transaction, "fire", function() knight.hp = 0 end)
say("Where is the axe?\n%s", mw.why(knight, "weapon"))
recorder:stop()

-- }======================================================

-- {======================================================
-- Hierarchy
-- =======================================================

title "What is running"

local Walker = { __name = "Walker" }
Walker.__index = Walker
local running = mw.hierarchy()

function Walker:update()
  say("  %s", table.concat(running:path(), " > "))
  for _, leg in ipairs(self.legs or {}) do leg:update() end
end

local function walker(fields) return setmetatable(fields, Walker) end

running:instrument(Walker, { "update" })
running:record()
local robot = walker { legs = { walker {}, walker {} } }
robot:update()
local backward = {}
running:backward(function(_, name) backward[#backward + 1] = name end)
say("And backward, all %d legs of it: %s.", #robot.legs,
  table.concat(backward, ", "))
running:close()

-- }======================================================

-- {======================================================
-- Dynamism
-- =======================================================

title "What varies"

local seen = mw.dynamism()
for frame = 1, 1000 do
  seen:add { kind = "troll", at = { x = frame % 7, y = 3 } }
end
for _, place in ipairs { "L['kind']", "L['at']['x']", "L['at']['y']" } do
  local change = seen:changes()[place]
  say("  %s is %s: %s", place, change.verdict, table.concat(change.values, " "))
end
local trolls = mw.infer(seen)
say("Like all trolls: %s; not like them: %s, in %s.",
  trolls:matches { kind = "troll", at = { x = 4, y = 3 } },
  trolls:matches { kind = "troll", at = { x = 7, y = 3 } })

-- }======================================================

-- A battle in which the captain's target is nil, and nobody knows why.  A
-- recorder has run from the start, so the program says who wrote the field,
-- where, and because of what.

local mw = require "moonwatch"

local Battle, Unit = { __name = "Battle" }, { __name = "Unit" }
Battle.__index, Unit.__index = Battle, Unit

local function unit(name, hp)
  return setmetatable({ name = name, hp = hp }, Unit)
end

local battle = setmetatable({
  captain = unit("Ann", 30), archer = unit("Bo", 12),
  orcs = { unit("Grub", 9), unit("Mog", 14) },
}, Battle)
mw.track(battle, { deep = true })

local recorder <close> = mw.recorder { where = true, rolled_back = true }

-- Rules -----------------------------------------------------------------

for _, orc in ipairs(battle.orcs) do
  -- who has no hp left falls
  mw.watch(orc, function(_, _, _, hp)
    if hp <= 0 then orc.fallen = true end
  end, { key = "hp", phase = "after" })
  -- nobody aims at who has fallen
  mw.watch(orc, function()
    for _, name in ipairs { "captain", "archer" } do
      if battle[name].target == orc then battle[name].target = nil end
    end
  end, { key = "fallen" })
end

-- The battle ------------------------------------------------------------

local function aim(who, target) who.target = target end

local function shoot(who, damage)
  who.shots = (who.shots or 0) + 1
  local target = who.target
  target.hp = target.hp - damage
end

-- Each order is a transaction of the player.
local function order(player, label, fn, ...)
  return mw.origin(player, mw.transaction, label, fn, ...)
end

local captain, archer, orc = battle.captain, battle.archer, battle.orcs[1]
order("Ann", "aim", aim, captain, orc)
order("Bo", "aim", aim, archer, orc)
order("Bo", "shoot", shoot, archer, 9)
local _, message = order("Ann", "shoot", shoot, captain, 5)
print("Ann's order fails: " .. message:match "^[^\n]*")

-- The questions ---------------------------------------------------------

print "\nWhy has the captain no target?"
print(mw.why(captain, "target"))

local entry = mw.why(captain, "target")
print(("\nThat was an order of %s. Before, the captain aimed at %s."):format(
  entry.origin, recorder:past(captain, entry.seq - 1).target.name))

print "\nWhat was written in the end, and taken back?"
print(mw.why(captain, "shots"))

print "\nAll that happened to the orc:"
for e in recorder:entries() do
  if e.object == orc then print("  " .. tostring(e):match "^[^,]*") end
end

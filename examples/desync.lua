-- A game that runs on two machines must do the same on both.  This one does
-- not, and nobody sees why: a frame has two flaws.  The program runs its frames
-- twice from the same state, and names the first write in which the runs
-- differ.

local mw = require "moonwatch"

local FRAMES, ROUNDS = 8, 100

local function new_world()
  local world = { units = {} }
  for i = 1, 12 do world.units[i] = { hp = 1000 } end
  return world
end

-- Frames ----------------------------------------------------------------

-- Each unit aims at another one.  Returns the shots as an array.
local function aim(world)
  local shots = {}
  for i, unit in ipairs(world.units) do
    local target = world.units[math.random(#world.units)]
    shots[i] = { from = unit, target = target, damage = math.random(9) }
  end
  return shots
end

local function land(shot)
  shot.target.hp = shot.target.hp - shot.damage
  shot.target.hit_by = shot.from
end

-- The shots land in the order of a set: that of their addresses.
local function frame_with_set(world)
  local shots = {}
  for _, shot in ipairs(aim(world)) do shots[shot] = true end
  for shot in pairs(shots) do land(shot) end
end

-- The shots land in the order of the units.
local function frame_with_list(world)
  for _, shot in ipairs(aim(world)) do land(shot) end
end

-- The search ------------------------------------------------------------

-- Runs eight frames, and again, and so on.  Returns a text: the first write
-- that differs.
local function soak(frame, before)
  local world = mw.track(new_world(), { deep = true })
  for _ = 1, ROUNDS do
    local same, report = mw.check_replay(world, function() frame(world) end,
      { frames = FRAMES, before = before })
    if not same then return tostring(report) end
  end
  return ("%d frames, each the same again"):format(FRAMES * ROUNDS)
end

-- What the machines agree on: the seed.
local function agree() math.randomseed(7) end

print "As the game was found:"
print(soak(frame_with_set))
print "\nWith the seed that the machines agree on:"
print(soak(frame_with_set, agree))
print "\nAnd with the shots in a list:"
print(soak(frame_with_list, agree))

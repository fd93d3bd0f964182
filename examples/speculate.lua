-- Three plans for a move in a small game: each is tried out, looked at and
-- rolled back, and the best is what is done.

local mw = require "moonwatch"

local game = mw.track({
  hero = { hp = 10, gold = 5, at = "camp", bag = { "bread" } },
  troll = { hp = 12, gold = 30 },
}, { deep = true })

-- The rules, which know nothing of plans --------------------------------

local function walk(place) game.hero.at = place end

local function fight()
  local hero, troll = game.hero, game.troll
  if not hero.weapon then error("no weapon", 0) end
  while hero.hp > 0 and troll.hp > 0 do
    troll.hp = troll.hp - hero.weapon.damage
    if troll.hp > 0 then hero.hp = hero.hp - 4 end
  end
  if hero.hp <= 0 then return end
  hero.gold, game.troll = hero.gold + troll.gold, nil
end

local function buy(name, price, damage)
  local hero = game.hero
  hero.gold = hero.gold - price
  hero.weapon = { name = name, damage = damage }
  table.insert(hero.bag, name)
end

local plans = {
  { "go and fight", function()
    walk "bridge"
    fight()
  end },
  { "buy a knife, fight", function()
    buy("knife", 2, 3)
    walk "bridge"
    fight()
  end },
  { "buy a sword, fight", function()
    buy("sword", 5, 6)
    walk "bridge"
    fight()
  end },
}

-- Trying ----------------------------------------------------------------

local function show(what)
  local hero = game.hero
  print(("%-19s %2d hp, %2d gold, at the %s with %s, %s"):format(what, hero.hp,
    hero.gold, hero.at, table.concat(hero.bag, " and "),
    game.troll and "and a troll about" or "no troll left"))
end

local function score() return game.hero.hp + game.hero.gold end

-- Answers what the plan would do, and how good that is.
local function try(name, plan)
  local tx <close> = mw.begin()
  local ok, message = pcall(plan)
  if ok then show(name) else print(("%-19s %s"):format(name, message)) end
  local worth = ok and score() or -math.huge
  return tx:rollback(), worth
end

show "now"
local best, best_name, most = nil, nil, -math.huge
for _, plan in ipairs(plans) do
  local effects, worth = try(plan[1], plan[2])
  if worth > most then best, best_name, most = effects, plan[1], worth end
end
show "still"
assert(best, "there is no plan")
print(("best: %s (%d writes)"):format(best_name, best:len()))
assert(best:apply())
show "done"

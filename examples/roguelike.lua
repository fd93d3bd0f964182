-- A small roguelike: monsters think in coroutines, a turn that fails leaves
-- nothing behind, the screen draws only what changed, and each turn is appended
-- to a save file, which begins with a snapshot of the level.

local mw = require "moonwatch"

local WIDTH, HEIGHT = 24, 8

-- The world -------------------------------------------------------------

local Monster = mw.name_class("Monster", { __name = "Monster" })
Monster.__index = Monster

local function new_level(walls)
  local level = { width = WIDTH, height = HEIGHT, walls = {}, monsters = {},
    items = {}, turn = 0, log = {} }
  for i = 1, WIDTH * HEIGHT do level.walls[i] = walls:sub(i, i) == "#" end
  level.player = { x = 2, y = 2, hp = 12, damage = 3, bag = {} }
  return level
end

local MAP = table.concat {
  "########################",
  "#......#.........#.....#",
  "#......#.........#.....#",
  "#......+.........+.....#",
  "#......#.........#.....#",
  "####.###.........###.###",
  "#......................#",
  "########################",
}

local level = mw.track(new_level(MAP), { deep = true })

local function spawn(name, x, y, hp, damage, glyph)
  table.insert(level.monsters, setmetatable({ name = name, x = x, y = y,
    hp = hp, damage = damage, glyph = glyph, paces = 0 }, Monster))
end

local function say(...) table.insert(level.log, string.format(...)) end

local function wall_at(x, y) return level.walls[(y - 1) * WIDTH + x] end

local function monster_at(x, y)
  for i, m in ipairs(level.monsters) do
    if m.x == x and m.y == y then return m, i end
  end
end

-- Actions: they raise when they cannot be done ------------------------------

local function strike(who, whom, name)
  whom.hp = whom.hp - who.damage
  say("%s: %d hp lost", name, who.damage)
end

function Monster:step(dx, dy)
  local x, y = self.x + dx, self.y + dy
  local player = level.player
  if x == player.x and y == player.y then
    strike(self, player, "you")
  elseif not wall_at(x, y) and not monster_at(x, y) then
    self.x, self.y = x, y
  end
end

local function move(dx, dy)
  local player = level.player
  local x, y = player.x + dx, player.y + dy
  if wall_at(x, y) then error("there is a wall", 0) end
  local m, i = monster_at(x, y)
  if m then
    strike(player, m, m.name)
    if m.hp <= 0 then
      say("the %s falls", m.name)
      table.remove(level.monsters, i)
    end
    return
  end
  player.x, player.y = x, y
  for n, item in ipairs(level.items) do
    if item.x == x and item.y == y then
      table.insert(player.bag, table.remove(level.items, n))
      say("you take the %s", item.name)
      if item.damage then player.damage = player.damage + item.damage end
      break
    end
  end
end

-- Monsters think in coroutines ------------------------------------------

-- The place where a coroutine waits is neither saved nor taken back. So what a
-- mind remembers is in fields of the monster, and a mind can begin anew at any
-- time.
local minds = setmetatable({}, { __mode = "k" })

local function sign(n) return n > 0 and 1 or n < 0 and -1 or 0 end

local function hunt(m)
  while m.hp > 0 do
    local dx, dy = level.player.x - m.x, level.player.y - m.y
    if math.abs(dx) > math.abs(dy) then dy = 0 else dx = 0 end
    m:step(sign(dx), sign(dy))
    coroutine.yield()
  end
end

local function patrol(m)
  while not m.awake do
    m:step(m.paces // 3 % 2 == 0 and 1 or -1, 0)
    m.paces = m.paces + 1
    coroutine.yield()
    local player = level.player
    m.awake = math.abs(m.x - player.x) + math.abs(m.y - player.y) < 5
  end
  return hunt(m)
end

local function think(m)
  local mind = minds[m]
  if not mind then
    mind = coroutine.wrap(m.name == "rat" and patrol or hunt)
    minds[m] = mind
  end
  mind(m)
end

-- A turn: all of it or nothing --------------------------------------------

local start -- the save file: a snapshot,
local save = {} -- and turns, which are appended

local function turn(command, ...)
  local ok, effects = mw.transaction(command, function(...)
    level.turn = level.turn + 1
    local actions = { move = move }
    if not actions[command] then error("no such command: " .. command, 0) end
    actions[command](...)
    for _, m in ipairs(level.monsters) do think(m) end
  end, ...)
  if not ok then
    minds = setmetatable({}, { __mode = "k" })
    return nil, effects
  end
  save[#save + 1] = assert(effects:to_bytes(level))
  return true
end

-- The screen draws the rows that changed ------------------------------------

local dirty = {}
for y = 1, HEIGHT do dirty[y] = true end

local function row_changed(_, path, old, new, _, written)
  if path[1] == "walls" then
    dirty[(path[2] - 1) // WIDTH + 1] = true
  elseif path[#path] == "y" then
    dirty[old or new], dirty[new or old] = true, true
  elseif written.y then
    dirty[written.y] = true
  end
  for _, value in pairs { old, new } do
    if type(value) == "table" and value.y then dirty[value.y] = true end
  end
end

mw.watch(level, row_changed, { deep = true })

local function draw()
  local rows = 0
  for y = 1, HEIGHT do
    if dirty[y] then
      rows, dirty[y] = rows + 1, false
      local row = {}
      for x = 1, WIDTH do row[x] = wall_at(x, y) and "#" or "." end
      for _, item in ipairs(level.items) do
        if item.y == y then row[item.x] = "!" end
      end
      for _, m in ipairs(level.monsters) do
        if m.y == y then row[m.x] = m.glyph end
      end
      if level.player.y == y then row[level.player.x] = "@" end
      print(("%2d %s"):format(y, table.concat(row)))
    end
  end
  return rows
end

-- A game --------------------------------------------------------------------

spawn("rat", 4, 2, 3, 1, "r")
spawn("orc", 6, 5, 6, 4, "o")
table.insert(level.items, { name = "sword", x = 3, y = 3, damage = 4 })
start = assert(mw.snapshot(level))
draw()

local MOVES = { { 0, 1 }, { 1, 0 }, { -9, 0 }, { 1, 0 }, { 0, 1 }, { 1, 0 },
  { 1, 0 } }
for _, step in ipairs(MOVES) do
  local ok, message = turn("move", step[1], step[2])
  if not ok then print("-- " .. message) end
  print(("-- turn %d: %d rows drawn, %d hp"):format(level.turn, draw(),
    level.player.hp))
end
for _, line in ipairs(level.log) do print(line) end

-- The save file has what the turns wrote, and so does a level loaded from it.
local loaded, size = assert(mw.restore(start)), 0
for _, bytes in ipairs(save) do
  size = size + #bytes
  assert(mw.patch_bytes(loaded, bytes))
end
local same = mw.hash(level) == mw.hash(loaded)
print(("-- loaded %d turns, %s: %s"):format(#save,
  size < 2000 and "less than 2 KB" or size .. " bytes",
  same and "the same level" or "another level"))

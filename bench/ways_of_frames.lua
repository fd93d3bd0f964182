-- The ways of whole programs that run in frames.

local mw = require "moonwatch"
local proxies = require "proxies"

local ways = { worlds = {} }

local ENTITIES, MOVES, BIRTHS = 50000, 5000, 50

local function new_fields(i)
  return { x = i, y = -i, hp = 10, kind = "troll" }
end

-- Makes a world of entities and returns the function of its next frame, the
-- entities, and the function that makes one more.  In a frame 5,000 entities
-- move, 50 die, 50 are born, and those that have changed are drawn.
-- `watch(fields)` returns an entity that is put into `sets.dirty` when it
-- changes.
local function new_world(watch, sets)
  local random, entities = math.random, {}
  local function birth(i) return watch(new_fields(i)) end
  for i = 1, ENTITIES do entities[i] = birth(i) end

  local function draw()
    local dirty, sum = sets.dirty, 0
    sets.dirty = {}
    for entity in pairs(dirty) do sum = sum + entity.x + entity.y end
    return sum
  end

  local function frame()
    for _ = 1, MOVES do
      local entity = entities[random(ENTITIES)]
      entity.x = entity.x + 1
      entity.y = entity.y + 2
    end
    for i = 1, BIRTHS do entities[random(ENTITIES)] = birth(i) end
    return draw()
  end
  return frame, entities, birth
end

function ways.worlds.proxies()
  local sets = { dirty = {} }
  return new_world(function(fields) return proxies.marked(fields, sets) end,
    sets)
end

-- One listener, which stays.
function ways.worlds.watched()
  local sets, opts = { dirty = {} }, { once = false }
  local function mark(entity) sets.dirty[entity] = true end
  return new_world(function(fields)
    mw.watch(fields, mark, opts)
    return fields
  end, sets)
end

-- Nobody watches: what the frame itself costs.
function ways.worlds.plain()
  return new_world(function(fields) return fields end, { dirty = {} })
end

-- Adds these to the others.
return function(all)
  for name, way in pairs(ways) do all[name] = way end
end

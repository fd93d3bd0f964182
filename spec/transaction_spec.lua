local mw = require "moonwatch"

-- {======================================================
-- Random programs
-- =======================================================

-- All that can be reached from a value, as text: tables have numbers in the
-- order in which they are found, so identity and cycles show.
local function picture(root)
  local numbers, n, out = {}, 0, {}
  local function show(value)
    if type(value) ~= "table" then return type(value) .. tostring(value) end
    local seen = numbers[value]
    if seen then return "#" .. seen end
    n = n + 1
    numbers[value] = n
    local mine, keys = n, {}
    for key in next, mw.raw(value) do keys[#keys + 1] = key end
    table.sort(keys, function(a, b)
      local x, y = type(a) .. tostring(a), type(b) .. tostring(b)
      return x < y
    end)
    for _, key in ipairs(keys) do
      out[#out + 1] = mine .. "." .. type(key) .. tostring(key) .. "=" ..
        show(mw.raw(value)[key])
    end
    out[#out + 1] = mine .. " is a " .. show(getmetatable(value) or false)
    return "#" .. mine
  end
  return show(root) .. "\n" .. table.concat(out, "\n")
end

local function random_world(random)
  local tables = {}
  for i = 1, 8 do tables[i] = { i, i * 10, name = "table " .. i } end
  for i = 2, 8 do tables[random(1, i - 1)]["child " .. i] = tables[i] end
  if random(2) == 1 then tables[8].up = tables[random(8)] end
  return tables
end

local CLASSES = { { __index = { inherited = 1 } }, {} }
CLASSES[3] = { __newindex = function(t, k, v) rawset(t, k, v) end }
CLASSES[4] = {}
CLASSES[4].__index = CLASSES[4]

local function deeds(random)
  local function value(tables)
    local kinds = {
      function() return random(100) end, function() return random() end,
      function() return tables[random(#tables)] end,
      function() return { random(10), inner = { random(10) } } end,
      function() return "string " .. random(5) end, function() return nil end,
      function() return random(2) == 1 end,
    }
    return kinds[random(#kinds)]()
  end
  local function key()
    local keys = { "name", "x", 1, 2, random(6), random(6) + 0.5, true }
    return keys[random(#keys)]
  end
  return {
    function(t, tables) t[key()] = value(tables) end,
    function(t, tables) t[key()] = value(tables) end,
    function(t) table.insert(t, random(1, #t + 1), random(100)) end,
    function(t) if #t > 0 then table.remove(t, random(#t)) end end,
    function(t)
      table.sort(t, function(a, b) return tostring(a) < tostring(b) end)
    end,
    function(t, tables)
      local other = tables[random(#tables)]
      t.moved, other.moved = t.x, t.moved
    end,
    function(t) if #t > 1 then t[1], t[#t] = t[#t], t[1] end end,
    function(t) t.itself = t end,
    function(t)
      mw.setmetatable(t, CLASSES[random(#CLASSES + 1)])
    end,
    function(t) for k in pairs(t) do t[k] = nil end end,
    function() if random(10) == 1 then error("in the middle", 0) end end,
  }
end

local function run(random, tables, n)
  local all = deeds(random)
  for _ = 1, n do all[random(#all)](tables[random(#tables)], tables) end
end

local function track_all(tables, random, how)
  if how == "deep" then
    mw.track(tables[1], { deep = true })
  else
    for _, t in ipairs(tables) do
      if how == "watch" then
        mw.watch(t, function() end, { once = random(2) == 1,
          count = random(2) == 1 })
      else
        mw.track(t)
      end
    end
  end
end

local function random_from(seed)
  math.randomseed(seed)
  return math.random
end

local seed = tonumber(os.getenv "SEED") or os.time()

-- A transaction, perhaps with others in it that fail or not.
local function nested(random, tables, depth)
  run(random, tables, random(8))
  if depth == 0 then return end
  local ok = mw.transaction(nested, random, tables, depth - 1)
  if ok and random(4) == 1 then error("after the inner one", 0) end
  run(random, tables, random(8))
end

describe("a random program in a transaction", function()
  for _, how in ipairs { "track", "watch", "deep" } do
    it("is undone exactly, and done again, when all is to " .. how .. " (seed "
      .. seed .. ")", function()
      for i = 1, 1700 do
        local random = random_from(seed + i)
        local tables = random_world(random)
        local plain = picture(tables)
        track_all(tables, random, how)
        local before = picture(tables)
        assert.equal(plain, before)
        local tx = mw.begin()
        pcall(nested, random, tables, random(0, 2))
        local after = picture(tables)
        local fx = tx:commit()
        local message = "seed " .. seed + i
        fx:rollback()
        assert.equal(before, picture(tables), message)
        assert.is_truthy(fx:apply())
        assert.equal(after, picture(tables), message)
        fx:rollback()
        local squashed = fx:squash()
        assert.is_truthy(squashed:apply())
        assert.equal(after, picture(tables), message)
        assert.is_truthy(squashed:invert():apply())
        assert.equal(before, picture(tables), message)
      end
    end)
  end
end)

-- }======================================================

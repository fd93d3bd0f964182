-- Random worlds of nested tables, and random programs that change them.

local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"

local check = require("moonwatch.core").private.verify
local complaint

-- A library with checks checks itself after each deed, which may be in a
-- protected call.
local function verify()
  if not check or complaint then return end
  local sound, text = pcall(check)
  if not sound then complaint = text:sub(1, 2000) end
end

local worlds = {}

--- Returns eight tables, all below the first one, perhaps with a cycle.
function worlds.new(random)
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

local function value(random, tables)
  local kinds = {
    function() return random(100) end, function() return random() end,
    function() return tables[random(#tables)] end,
    function() return { random(10), inner = { random(10) } } end,
    function() return "string " .. random(5) end, function() return nil end,
    function() return random(2) == 1 end,
  }
  return kinds[random(#kinds)]()
end

local function key(random)
  local keys = { "name", "x", 1, 2, random(6), random(6) + 0.5, true }
  return keys[random(#keys)]
end

local function store(random, t, tables)
  t[key(random)] = value(random, tables)
end

local DEEDS = {
  store, store,
  function(random, t) table.insert(t, random(1, #t + 1), random(100)) end,
  function(random, t) if #t > 0 then table.remove(t, random(#t)) end end,
  function(_, t)
    table.sort(t, function(a, b) return tostring(a) < tostring(b) end)
  end,
  function(random, t, tables)
    local other = tables[random(#tables)]
    t.moved, other.moved = t.x, t.moved
  end,
  function(_, t) if #t > 1 then t[1], t[#t] = t[#t], t[1] end end,
  function(_, t) t.itself = t end,
  function(_, t) for k in pairs(t) do t[k] = nil end end,
  function(random) if random(10) == 1 then error("in the middle", 0) end end,
  function(random, t) mw.setmetatable(t, CLASSES[random(#CLASSES + 1)]) end,
}

--- Changes the tables `n` times; if `plain`, no table gets another class.
function worlds.run(random, tables, n, plain)
  for _ = 1, n do
    local deed = DEEDS[random(plain and #DEEDS - 1 or #DEEDS)]
    deed(random, tables[random(#tables)], tables)
    verify()
  end
end

--- Returns a copy of a table and all tables below it, with the same sharing.
function worlds.copy(t, known)
  known = known or {}
  if type(t) ~= "table" then return t end
  if known[t] then return known[t] end
  local copy = {}
  known[t] = copy
  for k, v in next, raw_of(t) do copy[worlds.copy(k, known)] =
    worlds.copy(v, known) end
  return copy
end

--- Returns a function that makes choices from a number.
function worlds.chooser(number)
  local state = number
  return function(n)
    state = state * 6364136223846793005 + 1442695040888963407
    return (state >> 33) % n + 1
  end
end

worlds.seed = tonumber(os.getenv "SEED") or os.time()

local soak = tonumber(os.getenv "SOAK") or 1

--- Calls f(random, message) n times (SOAK times as often if that is set), each
-- time with other random numbers.
function worlds.each(n, f)
  for i = 1, n * soak do
    math.randomseed(worlds.seed + i)
    local message = "SEED=" .. worlds.seed + i - 1
    f(math.random, message)
    if complaint then error(message .. ": " .. complaint, 0) end
  end
end

return worlds

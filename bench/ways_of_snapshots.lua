-- The ways to write a world as bytes, to read it again, and to hash it.  Each
-- makes its world and returns a function that does what is measured.

local mw = require "moonwatch"

local MANY = 50000

local ways = {}

-- A list of units, each with a name, numbers, and a target: another unit.
local function world_of(n)
  local world = { turn = 1, units = {} }
  for i = 1, n // 2 do
    world.units[i] = {
      id = i, name = "unit" .. i % 100, hp = 100, alive = true,
      pos = { x = i * 0.5, y = -i },
    }
  end
  for i, unit in ipairs(world.units) do
    unit.target = world.units[i * 7 % #world.units + 1]
  end
  return world
end

-- Pure Lua: a serialiser as people write it, with shared tables and cycles, and
-- with sorted keys, so that the same state gives the same text.

local function is_before(a, b)
  if type(a) == type(b) then return a < b end
  return type(a) < type(b)
end

local function literal(value)
  if type(value) == "string" then return ("%q"):format(value) end
  if math.type(value) == "float" then return ("%a"):format(value) end
  return tostring(value)
end

local function write(root)
  local numbers, queue, out = { [root] = 1 }, { root }, {}
  local function said(value)
    if type(value) ~= "table" then return literal(value) end
    local n = numbers[value]
    if not n then
      n = #queue + 1
      queue[n], numbers[value] = value, n
    end
    return "t[" .. n .. "]"
  end
  local i = 1
  while queue[i] do
    local keys = {}
    for key in pairs(queue[i]) do keys[#keys + 1] = key end
    table.sort(keys, is_before)
    local fields = {}
    for j, key in ipairs(keys) do
      fields[j] = said(key) .. "|" .. said(queue[i][key])
    end
    out[i] = table.concat(fields, "|")
    i = i + 1
  end
  return table.concat(out, "\n")
end

-- A loader of that text: no load, which is slow and takes any code.
local function value_of(text, tables)
  local first = text:byte()
  if first == 116 and text:byte(2) == 91 then -- t[
    local n = tonumber(text:sub(3, -2))
    local t = tables[n]
    if not t then
      t = {}
      tables[n] = t
    end
    return t
  elseif first == 34 then
    return text:sub(2, -2)
  elseif text == "true" then
    return true
  elseif text == "false" then
    return false
  end
  return math.tointeger(text) or tonumber(text)
end

local function read(text)
  local tables, n = { {} }, 0
  for line in text:gmatch "[^\n]*" do
    n = n + 1
    local t = tables[n]
    if not t then
      t = {}
      tables[n] = t
    end
    for key, value in line:gmatch "([^|]+)|([^|]+)" do
      t[value_of(key, tables)] = value_of(value, tables)
    end
  end
  return tables[1]
end

function ways.lua_write()
  local world = world_of(MANY)
  return function() assert(write(world)) end
end

function ways.lua_read()
  local text = write(world_of(MANY))
  return function() assert(read(text).units[MANY // 2].target) end
end

-- moonwatch

function ways.snapshot()
  local world = world_of(MANY)
  return function() assert(mw.snapshot(world)) end
end

function ways.restore()
  local bytes = mw.snapshot(world_of(MANY))
  return function() assert(mw.restore(bytes).units[MANY // 2].target) end
end

function ways.hash()
  local world = world_of(MANY)
  return function() assert(mw.hash(world)) end
end

return function(all) all.snapshots = ways end

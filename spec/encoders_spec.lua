local mw = require "moonwatch"
local dkjson = require "dkjson"
local pretty = require "pl.pretty"

local function load_encoders(env)
  return assert(loadfile("spec/support/encoders.lua", "t", env))()
end

local Point = { __name = "Point" }
Point.__index = Point
function Point.__tostring(self) return ("%d;%d"):format(self.x, self.y) end
function Point.__newindex(self, key, value) rawset(self, key, value) end

local Account = { __name = "Account" }
function Account.__index(self, key)
  if key == "total" then return self.price * 2 end
end

-- The worlds have no keys with an order that printers leave open.
local worlds = {}

function worlds.flat() return { name = "ann", hp = 10, dead = false } end
function worlds.array() return { 1, "two", 3.5, { 4 } } end
function worlds.empty() return { list = {}, inner = { {}, {} } } end

function worlds.nested()
  return { player = { hp = 10, bag = { "sword", "bow" } }, level = 3 }
end

function worlds.deep()
  local world = { leaf = true }
  for i = 1, 100 do world = { at = world, depth = i } end
  return world
end

function worlds.classes()
  return { at = setmetatable({ x = 1, y = 2 }, Point),
    list = { setmetatable({ price = 3 }, Account),
      setmetatable({ x = 3, y = 4 }, Point) } }
end

function worlds.shared()
  local item = { "shared" }
  return { a = item, b = item, c = { item } }
end

local ways_in = {
  watched = function(world) mw.watch(world, function() end) end,
  deep = function(world)
    mw.watch(world, function() end, { deep = true, once = false })
  end,
  tracked = function(world) mw.track(world, { deep = true }) end,
}

describe("a printer prints a world as it prints a plain one,", function()
  local encoders = load_encoders(_G)
  local env = setmetatable({}, { __index = _G })
  mw.see_through(env)
  local seeing = load_encoders(env)
  encoders.dkjson = function(value)
    return dkjson.encode(value, { keyorder = { "a", "at", "b", "c", "dead",
      "depth", "hp", "inner", "leaf", "level", "list", "name", "player",
      "price", "x", "y" } })
  end
  encoders.pretty = function(value) return pretty.write(value, "") end

  for world, make in pairs(worlds) do
    for way, take_in in pairs(ways_in) do
      for name, encode in pairs(encoders) do
        it(("given mw.plain (%s, %s, %s)"):format(world, way, name), function()
          local value = make()
          take_in(value)
          assert.equal(encode(make()), encode(mw.plain(value)))
        end)
      end

      for _, name in ipairs { "json", "serpent" } do
        it(("with mw.see_through (%s, %s, %s)"):format(world, way, name),
          function()
            local value = make()
            take_in(value)
            assert.equal(encoders[name](make()), seeing[name](value))
          end)
      end

      for _, name in ipairs { "dkjson", "serpent" } do
        it(("given the world, if it uses pairs (%s, %s, %s)"):format(world, way,
          name), function()
          local value = make()
          take_in(value)
          assert.equal(encoders[name](make()), encoders[name](value))
        end)
      end
    end
  end
end)

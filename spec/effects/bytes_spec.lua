local hostile = require "spec.support.fuzz"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local picture = require "spec.support.picture"
local with_seed = require "spec.support.with_seed"

local function copy()
  return { hero = { hp = 10, pos = { x = 1 } }, items = { "a", "b" } }
end

local function effects_of(world, f)
  mw.track(world, { deep = true })
  local ok, effects = mw.transaction(f, world)
  assert.is_true(ok, effects)
  return effects
end

-- What a world is like after bytes of what the function did to another.
local function sent(f, twin)
  local world = copy()
  local bytes = assert(effects_of(world, f):to_bytes(world))
  twin = twin or copy()
  assert.equal(twin, mw.patch_bytes(twin, bytes))
  return twin, bytes
end

-- The bytes that are made of such a list.
local function bytes_of(list) return "MWE\4" .. mw.snapshot(list) end

describe("the bytes of effects", function()
  it("do elsewhere what was done", function()
    local twin = sent(function(world)
      world.hero.hp, world.hero.pos.x = 7, nil
      table.insert(world.items, 1, "new")
      world.list = { 1, { 2 } }
    end)
    assert.same({ hero = { hp = 7, pos = {} }, items = { "new", "a", "b" },
      list = { 1, { 2 } } }, twin)
  end)

  it("reproduce all values", function()
    local values = { math.mininteger, math.maxinteger, -1, 0, 127, 128, 1 << 40,
      0.5, -0.0, math.huge, -math.huge, "", "\0\255", ("x"):rep(1000), true,
      false, mw.null }
    local twin = sent(function(world) world.values = values end)
    for i, value in ipairs(values) do
      assert.equal(value, twin.values[i])
      assert.equal(math.type(value), math.type(twin.values[i]))
    end
    assert.are_not.equal(twin.values, values)
    twin = sent(function(world) world.nan = 0/0 end)
    assert.is_true(twin.nan ~= twin.nan)
  end)

  it("keep identity, cycles and marks", function()
    local twin = copy()
    local items = twin.items
    sent(function(world)
      local t = mw.array {}
      t[1], world.t, world.again = t, t, t
      world.items, world.bag = nil, world.items
      world.objects = mw.object_like {}
    end, twin)
    assert.equal(twin.t, twin.t[1])
    assert.equal(twin.t, twin.again)
    assert.equal(items, twin.bag)
    assert.same({ { op = "replace", path = "/objects", value = {} } },
      mw.diff({ objects = mw.array {} }, { objects = twin.objects }))
  end)

  it("find what stands under an object", function()
    local function new()
      local world = { units = { { n = 1 }, { n = 2 } }, orders = {} }
      for _, unit in ipairs(world.units) do world.orders[unit] = { x = 0 } end
      return world
    end
    for _, deep in ipairs { true, false } do
      local world, twin = new(), new()
      local second = world.units[2]
      if deep then mw.track(world, { deep = true }) end
      mw.track(world.orders)
      mw.track(world.orders[second])
      local _, fx = mw.transaction(function()
        world.orders[second].x = 5
        world.orders[second].of = second
        world.orders[world.units[1]] = nil
      end)
      assert(mw.patch_bytes(twin, assert(fx:to_bytes(world))))
      local order = twin.orders[twin.units[2]]
      assert.same({ x = 5, of = twin.units[2] }, order)
      assert.equal(order, twin.orders[next(twin.orders)])
      assert.is_nil(twin.orders[twin.units[1]])
    end
  end)

  it("find an object under an object under an object", function()
    local function new()
      local a, b, c = { "a" }, { "b" }, { "c" }
      return { a = a, of = { [a] = b, [b] = c } }, c
    end
    local world, c = new()
    local twin, other = new()
    local effects = effects_of(world, function() c.x = 1 end)
    assert(mw.patch_bytes(twin, assert(effects:to_bytes(world))))
    assert.equal(1, other.x)
    local map = {}
    world.of[c], map[world.of] = map, map
    map.x = {}
    effects = effects_of(world, function() map.x.y = 1 end)
    assert(effects:to_bytes(world))
  end)

  it("say nothing of an object that stands under itself alone", function()
    local world, a, b = { map = {} }, {}, {}
    world.map[a], world.map[b] = b, a
    local effects = effects_of(world, function() a.x = 1 end)
    assert.same({ nil, "there is no way to the object whose field 'x' was " ..
      "written" }, { effects:to_bytes(world) })
    assert.same({ nil, "there is no way to the object whose field 'x' was " ..
      "written" }, { effects:to_lua { world = world } })
  end)

  it("have sets of objects, there before or new", function()
    local function new() return { units = { {}, {}, {} }, set = {} } end
    local twin = new()
    local world = new()
    local effects = effects_of(world, function(w)
      w.set[w.units[2]] = true
      w.new = { [w.units[3]] = true, [w.units[1]] = true }
      w.made = { [{ 1 }] = true, [{ 2 }] = true }
    end)
    local bytes = effects:to_bytes(world)
    for _ = 1, 5 do assert.equal(bytes, effects:to_bytes(world)) end
    assert(mw.patch_bytes(twin, assert(bytes)))
    assert.same({ [twin.units[2]] = true }, twin.set)
    assert.is_true(twin.new[twin.units[1]] and twin.new[twin.units[3]])
    assert.is_nil(twin.new[twin.units[2]])
    local sum = 0
    for key in pairs(twin.made) do sum = sum + key[1] end
    assert.equal(3, sum)
  end)

  it("have no weak table", function()
    local Cache = mw.name_class("Cache of bytes", { __mode = "k" })
    for _, class in ipairs { { __mode = "v" }, Cache } do
      for _, wrap in ipairs { function(t) return t end,
        function(t) return { t } end } do
        local world = {}
        local effects = effects_of(world, function()
          world.cache = wrap(setmetatable({ 1 }, class))
        end)
        assert.same({ nil, "a weak table cannot be written down" },
          { effects:to_bytes(world) })
        assert.same({ nil, "a weak table is no document" },
          { effects:to_patch(world) })
      end
    end
  end)

  it("leave out what was made and dropped", function()
    local twin = sent(function(world)
      world.work = { {} }
      world.work[1].x, world.work.n = 1, 2
      world.work[1].deeper = { f = print }
      world.hero.hp = world.work.n
      world.work = nil
    end)
    local expected = copy()
    expected.hero.hp = 2
    assert.same(expected, twin)
  end)

  it("go the shortest way", function()
    local shared = { x = 0 }
    local world = { b = shared, a = { shared } }
    local effects = effects_of(world, function() shared.x = 1 end)
    local expected = "local t1 = world.b\nt1.x = 1\n"
    assert.equal(expected, effects:to_lua { world = world })
    mw.untrack(world)
    assert.equal(expected, effects:to_lua { world = world })
  end)

  it("do not go where the policy forbids", function()
    local former = mw.policy { descend = function(_, key)
      return key ~= "parent"
    end }:use()
    local function new()
      local world = { units = { { hp = 1 } } }
      world.units[1].parent = world.units
      return world
    end
    local world, twin = new(), new()
    local outside = { x = 1 }
    local effects = effects_of(world, function()
      world.units[2] = { hp = 2, parent = world.units }
      world.units[3] = { hp = 3, parent = outside }
      world.units[1].hp = 5
      world.units[1].parent = outside
    end)
    local ok, message = mw.patch_bytes(twin, effects:to_bytes(world))
    local operations = effects:to_patch(world)
    former:use()
    assert(ok, message)
    assert.equal(twin.units, twin.units[2].parent)
    assert.equal(twin.units, twin.units[1].parent)
    assert.is_nil(twin.units[3].parent)
    assert.equal(5, twin.units[1].hp)
    local document = { units = { { hp = 1 } } }
    assert(mw.patch(document, operations))
    assert.same({ units = { { hp = 5 }, { hp = 2 }, { hp = 3 } } }, document)
  end)

  it("write into no class", function()
    local Class = { __name = "Class" }
    Class.__index = Class
    local Middle = { name = "Middle", dictionary = {} }
    Middle.dictionary.__index = Middle.dictionary
    local Apart, Base = {}, {} -- without metamethods
    local Derived = setmetatable({}, { __index = Base })
    Derived.__index = Derived
    local function root()
      return {
        unit = setmetatable({ x = 1 }, Class), Class = Class,
        other = setmetatable({ class = Middle }, Middle.dictionary),
        Apart = Apart, objects = { setmetatable({}, { __index = Apart }) },
        derived = setmetatable({ base = Base }, Derived),
      }
    end
    local function plain() return { Class = {}, other = { class = {
      dictionary = {} } }, Apart = {}, derived = { base = {} } } end
    for _, write in ipairs {
      function(w) w.Class.update = 1 end,
      function(w) w.other.class.name = "x" end,
      function(w) w.other.class.dictionary.update = 1 end,
      function(w) w.Apart.update = 1 end,
      function(w) w.derived.base.update = 1 end,
    } do
      local world = plain()
      local bytes = assert(effects_of(world, write):to_bytes(world))
      local target = root()
      local result, message = mw.patch_bytes(target, bytes)
      assert.is_nil(result)
      assert.matches("^bad effects: the root has no such object", message)
      mw.track(target, { deep = true })
      assert.is_nil((mw.patch_bytes(target, bytes)))
    end
    assert.is_nil(Class.update)
    assert.equal("Middle", Middle.name)
    assert.same({ {}, {} }, { Apart, Base })
    mw.name_class("Class of bytes", Class)
    assert.same({ nil, "bad effects: it writes to a class" },
      { mw.patch_bytes({}, bytes_of { {}, false, Class, 0, "x", true }) })
    assert.same({ nil, "bad effects: it fills what is no new table" },
      { mw.patch_bytes({}, bytes_of { {}, { Class, "x", true } }) })
    local places = { { "a" } }
    local bytes = bytes_of { places, false, places, 3, places[1] }
    assert.same({ nil, "bad effects: a class is none that has a name" },
      { mw.patch_bytes({ a = {} }, bytes) })
    assert.is_nil(Class.x)
  end)

  it("are the same for the same changes, done or undone", function()
    local world = copy()
    local effects = effects_of(world, function(w) w.hero.hp, w.x = 1, {} end)
    local bytes = effects:to_bytes(world)
    effects:rollback()
    assert.equal(bytes, effects:to_bytes(world))
    assert.is_true(#bytes < 80)
  end)

  it("are heard by who watches", function()
    local twin, heard = copy(), {}
    mw.watch(twin.hero, function(_, key, old, new, kind)
      heard[#heard + 1] = ("%s %s>%s %s"):format(key, old, new, kind)
    end, { once = false })
    sent(function(world) world.hero.hp = 7 end, twin)
    assert.same({ "hp 10>7 apply" }, heard)
  end)

  it("cannot be had of what cannot be sent", function()
    local world = copy()
    local effects = effects_of(world, function(w) w.f = print end)
    assert.same({ nil, "there is no way to a function" },
      { effects:to_bytes(world) })
  end)

  it("change nothing where they do not fit", function()
    local _, bytes = sent(function(world) world.hero.pos.x = 2 end)
    local other = { hero = { pos = 5 } }
    assert.same({ nil, "bad effects: it writes to what is no table" },
      { mw.patch_bytes(other, bytes) })
    other = { x = 1 }
    assert.same(
      { nil, "bad effects: the root has no such object, at key 'hero'" },
      { mw.patch_bytes(other, bytes) })
    assert.same({ x = 1 }, other)
  end)

  it("that are damaged in any place are refused", function()
    local _, bytes = sent(function(world) world.hero.new = { 1, "x", {} } end)
    local world = copy()
    local before = picture(world)
    for i = 1, #bytes do
      for _, damaged in ipairs { bytes:sub(1, i - 1),
        bytes:sub(1, i - 1) .. string.char(bytes:byte(i) ~ 1) ..
        bytes:sub(i + 1) } do
        local result, message = mw.patch_bytes(world, damaged)
        assert.is_nil(result)
        assert.matches("^bad effects: ", message)
      end
    end
    assert.is_nil((mw.patch_bytes(world, bytes .. "\0")))
    assert.equal(before, picture(world))
  end)

  it("that are hostile are refused, or are effects", function()
    for name in io.popen("ls spec/corpus"):lines() do
      local file = assert(io.open("spec/corpus/" .. name, "rb"))
      hostile(file:read "a")
      file:close()
    end
    local _, bytes = sent(function(world) world.hero.new = { 1, "x", {} } end)
    local class = mw.name_class("Hostile", { __name = "Hostile" })
    local world = copy()
    local with_class = assert(effects_of(world, function()
      world.list = setmetatable({ class = class }, class)
      mw.setmetatable(world.hero, class)
      world.set = { [world.hero] = world.hero.pos }
    end):to_bytes(world))
    with_seed(function()
      for _, its in ipairs { bytes, with_class } do
        local body = its:sub(21, 21) .. its:sub(25) -- see spec/support/fuzz.lua
        for _ = 1, 3000 do
          local i, n = math.random(#body), math.random(0, 2)
          hostile("\1" .. body:sub(1, i - 1) ..
            string.char(math.random(0, 255)) .. body:sub(i + n))
        end
      end
    end)
  end)

  it("are asked for with the right arguments", function()
    local effects = effects_of(copy(), function() end)
    misuse("bad argument #1 to 'to_bytes' (table expected, got nil)",
      effects.to_bytes, effects)
    misuse("bad argument #1 to 'patch_bytes' (table expected, got number)",
      mw.patch_bytes, 1, "")
    misuse("bad argument #2 to 'patch_bytes' (string expected, got nil)",
      mw.patch_bytes, {})
    misuse("calling 'to_bytes' on bad self (effects expected, got table)",
      effects.to_bytes, {}, {})
  end)
end)

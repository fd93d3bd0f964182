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

  it("keep identity, cycles, classes that are there, and marks", function()
    local twin = copy()
    local items = twin.items
    sent(function(world)
      local t = mw.array {}
      t[1], world.t, world.again = t, t, t
      world.items, world.bag = nil, world.items
      mw.setmetatable(world.hero, world.hero.pos)
      world.objects = mw.object_like {}
    end, twin)
    assert.equal(twin.t, twin.t[1])
    assert.equal(twin.t, twin.again)
    assert.equal(items, twin.bag)
    assert.equal(twin.hero.pos, getmetatable(twin.hero))
    assert.same({ { op = "replace", path = "/objects", value = {} } },
      mw.diff({ objects = mw.array {} }, { objects = twin.objects }))
  end)

  it("are the same for the same changes, done or undone", function()
    local world = copy()
    local effects = effects_of(world, function(w) w.hero.hp, w.x = 1, {} end)
    local bytes = effects:to_bytes(world)
    effects:rollback()
    assert.equal(bytes, effects:to_bytes(world))
    assert.is_true(#bytes < 60)
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
    local body = bytes:sub(13)
    with_seed(function()
      for _ = 1, 3000 do
        local i, n = math.random(#body), math.random(0, 2)
        hostile("\1" .. body:sub(1, i - 1) ..
          string.char(math.random(0, 255)) .. body:sub(i + n))
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

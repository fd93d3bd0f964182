local as_json = require "spec.support.json"
local mw = require "moonwatch"
local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"

-- A world of its own, with the effects of a function on it.
local function effects_of(world, f)
  mw.track(world, { deep = true })
  local ok, effects = mw.transaction(f, world)
  assert.is_true(ok, effects)
  return effects
end

-- Runs the text in a world where `world` is a global of that name.
local function perform(text, world)
  local env = { world = world, setmetatable = setmetatable }
  assert(load(assert(text), "text", "t", env))()
end

local function copy()
  return { hero = { hp = 10, pos = { x = 1 } }, items = { "a", "b" } }
end

local function text_of(f)
  local world = copy()
  return effects_of(world, f):to_lua { world = world }
end

describe("the source text of effects", function()
  it("says what was done, with ways from the names", function()
    local world = copy()
    local effects = effects_of(world, function()
      world.hero.hp = 7
      world.items[3] = "c"
      world.new = { 1 }
    end)
    assert.equal(table.concat({
      "local t1 = world.hero", "local t2 = world.items", "local t3 = {}",
      "t3[1] = 1", "t1.hp = 7", 't2[3] = "c"', "world.new = t3", "",
    }, "\n"), effects:to_lua { world = world })
  end)

  it("is the same whether the effects are done or undone", function()
    local world = copy()
    local effects = effects_of(world, function()
      world.hero.pos, world.hero.old = { x = 2 }, world.hero.pos
      world.hero.pos.y = 3
    end)
    local text = effects:to_lua { world = world }
    effects:rollback()
    assert.equal(text, effects:to_lua { world = world })
  end)

  it("keeps identity and cycles", function()
    local world = copy()
    local effects = effects_of(world, function()
      local t = { hero = world.hero }
      world.t, world.again = t, t
      world.t.me = t
      world.items, world.bag = nil, world.items
    end)
    local twin = copy()
    local items = twin.items
    perform(effects:to_lua { world = world }, twin)
    assert.equal(twin.t, twin.t.me)
    assert.equal(twin.t, twin.again)
    assert.equal(items, twin.bag)
    assert.equal(twin.hero, twin.t.hero)
  end)

  it("reproduces all bytes, integers, floats, infinities and NaN", function()
    local bytes = {}
    for i = 0, 255 do bytes[i + 1] = string.char(i) end
    local values = {
      table.concat(bytes), "\r\n\\\n", "", "]]", math.maxinteger,
      math.mininteger, 0, -1, 1.0, -0.0, 0.1, 1e100, 2^53, 5e-324, 1/3,
      math.huge, -math.huge, true, false,
    }
    local world = copy()
    local effects = effects_of(world, function()
      for i, value in ipairs(values) do world["v" .. i] = value end
      world.nan = 0/0
      for _, value in ipairs(values) do world[value] = "as a key" end
    end)
    local twin = copy()
    perform(effects:to_lua { world = world }, twin)
    for i, value in ipairs(values) do
      local is = twin["v" .. i]
      assert.equal(value, is)
      assert.equal(math.type(value), math.type(is))
      assert.equal("as a key", twin[value])
    end
    assert.equal(-math.huge, 1 / twin.v10)
    assert.are_not.equal(twin.nan, twin.nan)
  end)

  it("has as many objects as need be", function()
    local world = copy()
    local effects = effects_of(world, function()
      for i = 1, 1000 do world[i] = { i } end
    end)
    local twin = copy()
    perform(effects:to_lua { world = world }, twin)
    assert.equal(1000, twin[1000][1])
  end)

  it("does not use a name that is taken", function()
    local world, t1 = copy(), {}
    local effects = effects_of(world, function() world.hero.hp = 1 end)
    assert.equal("local t2 = world.hero\nt2.hp = 1\n",
      effects:to_lua { world = world, t1 = t1 })
  end)

  it("sets classes that it can find", function()
    local world = copy()
    world.Class = { __name = "Class" }
    local effects = effects_of(world, function()
      mw.setmetatable(world.hero, world.Class)
      world.new = setmetatable({}, world.Class)
    end)
    local twin = copy()
    twin.Class = {}
    perform(effects:to_lua { world = world }, twin)
    assert.equal(twin.Class, getmetatable(twin.hero))
    assert.equal(twin.Class, getmetatable(twin.new))
  end)

  it("finds a class that is tracked, below a root that is tracked deeply",
    function()
      local Class = { __name = "Class" }
      local world = mw.track({ Class = Class, hero = {} }, { deep = true })
      mw.track(Class)
      local _, effects = mw.transaction(function()
        mw.setmetatable(world.hero, Class)
      end)
      assert.equal("local t1 = world.hero\nlocal t2 = world.Class\n" ..
        "setmetatable(t1, t2)\n", effects:to_lua { world = world })
    end)

  it("has null and the marks of arrays and objects", function()
    local json = require "moonwatch.json"
    local world, names = copy(), {}
    local effects = effects_of(world, function()
      world.phone = mw.null
      world.items[1] = mw.null
      world.lists = mw.object_like { a = mw.array {}, b = mw.object_like {},
        c = {}, d = mw.array { mw.array { mw.null } } }
    end)
    for i = 1, 200 do names["mw" .. i] = {} end
    for _, more in ipairs { {}, { mw = {} }, { mw = {}, mww = {} }, names } do
      more.world = world
      local text = assert(effects:to_lua(more))
      for _, env in ipairs { { mw = mw }, { require = require } } do
        local twin = copy()
        env.world, env.setmetatable = twin, setmetatable
        if not more.mw or env.require then
          env.mw = env.mw or more.mw
          assert(load(text, "text", "t", env))()
          assert.same(mw.null, twin.phone)
          assert.is_true(as_json.equal(json.copy(twin.lists), world.lists))
          local lists = twin.lists
          assert.same({ "object", "array", "object", "array", "array" },
            { json.mark(lists), json.mark(lists.a), json.mark(lists.b),
              json.mark(lists.d), json.mark(lists.d[1]) })
          assert.is_nil(json.mark(lists.c))
        end
      end
    end
  end)

  it("does without the library where it can", function()
    assert.is_nil((text_of(function(world)
      world.a, world.hero.b = { {}, { 1 } }, { x = 1 }
    end):find "moonwatch"))
  end)

  it("has null as a key", function()
    local world = copy()
    local effects = effects_of(world, function()
      world.hero[mw.null] = 1
      world.new = { [mw.null] = mw.null }
    end)
    local twin = copy()
    local env = { world = twin, mw = mw, setmetatable = setmetatable }
    local text, message = effects:to_lua { world = world }
    assert(load(assert(text, message), "text", "t", env))()
    assert.equal(1, twin.hero[mw.null])
    assert.equal(mw.null, twin.new[mw.null])
  end)

  it("cannot be had when there is no way to something", function()
    local message = select(2, text_of(function(w) w.f = print end))
    assert.equal("there is no way to a function", message)
    local world, other = copy(), mw.track {}
    local effects = effects_of(world, function() other.x = 1 end)
    assert.same({ nil, "there is no way to the object whose field 'x' was " ..
      "written" }, { effects:to_lua { world = world } })
    effects = effects_of(world, function() world.file = io.stdout end)
    assert.same({ nil, "there is no way to a userdata" },
      { effects:to_lua { world = world } })
  end)

  it("keeps the variable for many objects apart from the names", function()
    local root = mw.track {}
    local _, fx = mw.transaction(function()
      for i = 1, 200 do root[i] = { i } end
    end)
    local copies = { t = {}, tt = {} }
    load(fx:to_lua { t = root, tt = {} }, "text", "t", copies)()
    assert.equal(200, #copies.t)
    assert.same({ 200 }, copies.t[200])
  end)

  it("raises for arguments of wrong types", function()
    local effects = effects_of(copy(), function() end)
    misuse("bad argument #1 to 'to_lua' (table expected, got nil)",
      effects.to_lua, effects)
    for _, name in ipairs { "a b", "end", "1", "" } do
      assert.matches("the keys are not all names",
        error_of(effects.to_lua, effects, { [name] = {} }))
    end
    assert.matches("the values are not all tables",
      error_of(effects.to_lua, effects, { x = 1 }))
  end)
end)

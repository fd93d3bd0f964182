local mw = require "moonwatch"
local error_of = require "spec.support.error_of"
local with_seed = require "spec.support.with_seed"

local DEEP = { deep = true, once = false }

local function dotted(path)
  local words = {}
  for i, key in ipairs(path) do words[i] = tostring(key) end
  return table.concat(words, ".")
end

describe("a deep watch of a path", function()
  local notes, world

  local function guard(obj, path, _, _, kind, written)
    assert.equal(world, obj)
    assert.is_table(written)
    notes[#notes + 1] = dotted(path) .. " " .. kind
  end

  local function heard()
    local text = table.concat(notes, ", ")
    notes = {}
    return text
  end

  local HP = { "enemies", mw.any, "hp" }

  local function watch(path, more)
    local opts = { path = path, once = false }
    for name, value in pairs(more or {}) do opts[name] = value end
    return mw.watch(world, guard, opts)
  end

  before_each(function()
    notes = {}
    world = { enemies = { { hp = 1, pos = { x = 1 } }, { hp = 2 } },
      level = { { hp = 1 } } }
  end)

  it("hears of the way and its end, and of nothing else", function()
    watch(HP)
    local one, two = world.enemies[1], world.enemies[2]
    one.hp = 5
    assert.equal("enemies.1.hp update", heard())
    one.pos.x, one.name, world.level = 2, "x", {}
    one.pos = { x = 3 }
    assert.equal("", heard())
    two.hp = nil
    two.hp = { max = 5 }
    two.hp.max = 6 -- below the end
    assert.equal("enemies.2.hp delete, enemies.2.hp insert", heard())
    world.enemies[3] = { hp = 3 }
    world.enemies[3].hp = 4
    world.enemies.boss = 5
    assert.equal("enemies.3 insert, enemies.3.hp update, enemies.boss insert",
      heard())
    world.enemies[1] = nil
    one.hp = 7
    assert.equal("enemies.1 delete", heard())
    world.enemies = { two, one }
    one.hp = 8
    assert.equal("enemies update, enemies.2.hp update", heard())
    world.enemies = nil
    two.hp, one.hp = 1, 2
    assert.equal("enemies delete", heard())
  end)

  it("enters only what is on the way", function()
    local asked = {}
    local former = mw.policy { descend = function(_, key)
      asked[#asked + 1] = key
      return true
    end }:use()
    watch(HP)
    former:use()
    assert.same({ "enemies", 1, 2 }, asked)
    assert.is_nil(getmetatable(world.level))
    assert.is_nil(getmetatable(world.enemies[1].pos))
    assert.is_true(mw.is_watched(world.enemies[1]))
    world.level = { {} }
    world.enemies[1].pos = { {} }
    assert.is_false(mw.is_watched(world.level))
    assert.is_false(mw.is_watched(world.enemies[1].pos))
    mw.unwatch(world)
    assert.is_nil(getmetatable(world.enemies[1]))
    assert.is_nil(getmetatable(world.enemies))
  end)

  it("has any number of keys, of any type", function()
    local key = {}
    world[key] = { [1.5] = { [true] = 1 } }
    watch { key, 1.5, true }
    watch { mw.any }
    watch { "hp" }
    world[key][1.5][true] = 2
    assert.equal(tostring(key) .. ".1.5.true update", heard())
    world.hp = 5
    assert.equal("hp insert, hp insert", heard())
    local at, way = world, {}
    for i = 1, 200 do
      at.next = {}
      at = at.next
      way[i] = i < 200 and "next" or mw.any
    end
    heard()
    watch(way)
    at.next = 5 -- one too far
    assert.equal("", heard())
  end)

  it("follows objects that are on the way more than once", function()
    local ring = { v = 0 }
    ring.next = ring
    world = { next = ring, v = 0 }
    watch { "next", "next", "v" }
    ring.v = 1
    assert.equal("next.next.v update", heard())
    ring.next = nil
    ring.v = 2
    assert.equal("next.next update", heard():gsub("delete", "update"))
    world.next = world -- the root is below itself
    heard()
    world.v = 3
    assert.equal("next.next.v update", heard())
    world.next = nil
    assert.equal(1, select(2, heard():gsub("delete", "")))
    world.v = 4
    assert.equal("", heard())
  end)

  it("shares the root with other deep watches", function()
    local order = {}
    local function say(name)
      return function() order[#order + 1] = name end
    end
    local flag = mw.guard()
    mw.watch(world, say "deep", DEEP)
    mw.watch(world, say "hp", { path = HP, once = false })
    mw.watch(world, say "again",
      { path = { "enemies", mw.any, "hp" }, once = true })
    mw.watch(world, say "x", { path = { "enemies", 1, "pos", "x" },
      once = false })
    mw.watch(world, flag, { path = { "level", 1, "hp" }, once = true })
    world.enemies[1].hp = 2
    assert.same({ "deep", "hp", "again" }, order)
    order = {}
    world.enemies[1].pos.x = 2
    world.enemies[1].hp = 3
    assert.same({ "deep", "x", "deep", "hp" }, order)
    assert.is_true(flag.valid)
    world.level[1].hp = 2
    assert.is_false(flag.valid)
  end)

  it("ends, and many may begin one after another", function()
    for i = 1, 100 do
      local handle = watch { "enemies", i % 3 == 0 and mw.any or 1, "hp" }
      world.enemies[1].hp = i
      assert.equal("enemies.1.hp update", heard())
      handle:cancel()
      world.enemies[1].hp = 0
      assert.equal("", heard())
    end
    mw.unwatch(world)
    assert.is_nil(getmetatable(world.enemies[1]))
  end)

  it("fires once, after, in batches and in transactions", function()
    watch(HP, { once = true })
    watch(HP, { phase = "after" })
    world.enemies[1].hp = 2
    world.enemies[1].hp = 3
    assert.equal("enemies.1.hp update, enemies.1.hp update, " ..
      "enemies.1.hp update", heard())
    mw.batch(function()
      world.enemies[2].hp = 3
      world.enemies[1].x = 3
    end)
    assert.equal("enemies.2.hp update", heard())
    local tx = mw.begin()
    world.enemies[1].hp = 9
    tx:rollback()
    assert.equal("enemies.1.hp update, enemies.1.hp rollback", heard())
  end)

  it("is told with its path when a guard before begins others", function()
    for _, once in ipairs { true, false } do
      mw.watch(world, function()
        for i = 1, 3 do
          watch({ "level", i, "hp" }, { once = once }):cancel()
          watch({ "level", i, "x" }, { once = once })
        end
      end, { path = HP, once = true })
      watch(HP, { once = once })
      world.enemies[1].hp = world.enemies[1].hp + 1
      assert.equal("enemies.1.hp update", heard())
    end
    world.level[1].x = 1
    assert.equal("level.1.x insert, level.1.x insert", heard())
  end)

  it("tells of what exists at its end", function()
    watch(HP, { existing = true })
    table.sort(notes)
    assert.equal("enemies.1.hp existing, enemies.2.hp existing", heard())
  end)

  it("may skip what leads to the same values", function()
    watch(HP, { equal = "skip" })
    local enemies = world.enemies
    enemies[1].hp = 1
    enemies[1] = { hp = 1, pos = 5 }
    world.enemies = { { hp = 1 }, { hp = 2 } }
    world.enemies = { { hp = 1 }, { hp = 2 }, {}, "x" }
    assert.equal("", heard())
    world.enemies[1] = { hp = 2 }
    assert.equal("enemies.1 update", heard())
    world.enemies = { { hp = 2 }, { hp = 3 } }
    assert.equal("enemies update", heard())
    world.enemies[2] = nil
    assert.equal("enemies.2 delete", heard())
    world.enemies[2] = { pos = {} }
    assert.equal("", heard())
    world.enemies = nil
    assert.equal("enemies delete", heard())
    world.enemies = {}
    assert.equal("", heard())
    world.enemies = { { hp = 0 / 0 } }
    world.enemies = { { hp = 0 / 0 } }
    assert.equal("enemies update", heard())
    world.enemies = { { hp = 0.0 } }
    assert.equal("enemies update", heard())
    world.enemies = { { hp = -0.0 } }
    assert.equal("enemies update", heard())
    world.enemies = { { hp = 0 } }
    assert.equal("enemies update", heard())
  end)

  it("agrees with the paths of a plain deep watch", function()
    local function check_round()
      local objects, log, expected = {}, {}, {}
      for i = 1, 6 do objects[i] = {} end
      local root = objects[1]
      local way = {}
      for i = 1, math.random(4) do
        way[i] = math.random(3) == 1 and mw.any or math.random(2)
      end
      mw.watch(root, function(_, path)
        assert.is_true(#path <= #way)
        for i, key in ipairs(path) do
          assert.is_true(way[i] == mw.any or way[i] == key)
        end
        log[#log + 1] = #path
      end, { path = way, once = false })
      for _ = 1, 80 do
        local obj, key = objects[math.random(6)], math.random(2)
        -- Is the object on the way, before that key?
        local found = false
        local layer = { [root] = true }
        for i = 1, #way do
          if layer[obj] and (way[i] == mw.any or way[i] == key) then
            found = true
          end
          local below = {}
          for at in pairs(layer) do
            for k = 1, 2 do
              if (way[i] == mw.any or way[i] == k) and at[k] then
                below[at[k]] = true
              end
            end
          end
          layer = below
        end
        if found then expected[#expected + 1] = true end
        obj[key] = math.random() < 0.6 and objects[math.random(6)] or nil
        assert.equal(#expected, #log)
      end
      mw.unwatch(root)
      mw.reap()
      for i = 1, 6 do assert.is_nil(getmetatable(objects[i])) end
    end
    for _ = 1, 200 do with_seed(check_round) end
  end)

  it("is refused where it makes no sense", function()
    for _, case in ipairs {
      { { path = {} }, "option 'path' is not an array of keys" },
      { { path = "hp" }, "option 'path' is not an array of keys" },
      { { path = { 0 / 0 } }, "option 'path' is not an array of keys" },
      { { path = HP, key = 1 }, "option 'path' excludes 'key' and 'keys'" },
      { { path = HP, keys = { 1 } },
        "option 'path' excludes 'key' and 'keys'" },
      { { descend = print }, "option 'descend' is for deep watches" },
      { { deep = true, descend = 1 }, "option 'descend' is not a function" },
    } do
      local mistake = error_of(mw.watch, world, guard, case[1])
      assert.truthy(mistake:find("bad argument #3 to 'watch' (" .. case[2],
        1, true))
    end
    assert.truthy(error_of(mw.watch, io.stdout, guard, { path = HP })
      :find("option 'path' is for tables", 1, true))
    assert.truthy(error_of(mw.track, world, { descend = print })
      :find("bad argument #2 to 'track' (option 'descend'", 1, true))
    assert.is_nil(getmetatable(world))
  end)
end)

describe("an object at several places of a path", function()
  -- The ways that a guard has been told, which are forgotten.
  local function begin(root, path, opts)
    local told = {}
    opts.deep, opts.path = true, path
    mw.watch(root, function(_, way)
      told[#told + 1] = table.concat(way, ".")
    end, opts)
    return function()
      local text = table.concat(told, " ")
      for i = #told, 1, -1 do told[i] = nil end
      return text
    end
  end

  it("is told of by a shortest way, whichever came first", function()
    local any = mw.any
    for _, first in ipairs { "near", "far" } do
      local x = {}
      local root = first == "near" and { x } or { { x } }
      local take = begin(root, { any, any, any }, {})
      root[first == "near" and 2 or 3] = first == "near" and { x } or x
      take()
      x.k = 1
      assert.equal((first == "near" and "1" or "3") .. ".k", take())
    end
  end)

  it("counts with equal = \"skip\" by all its places", function()
    for _, first in ipairs { "near", "far" } do
      local x = { k = { 1 } }
      local far = { x = x }
      local root = first == "near" and { a = x } or { b = far }
      local path = { mw.any, mw.any, mw.any }
      local take = begin(root, path, { equal = "skip" })
      root.a, root.b = x, far
      take()
      x.k = { 1 } -- at the end of b.x.k another table
      assert.equal("a.k", take(), first)
      root.b = nil
      take()
      x.k = { 1 }
      assert.equal("", take(), first)
    end
  end)

  it("is told of as existing where that is the root", function()
    local root = { a = {}, hp = 1 }
    root.a.b = root
    local take = begin(root, { "a", mw.any, "hp" }, { existing = true })
    assert.equal("a.b.hp", take())
  end)
end)

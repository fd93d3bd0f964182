local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local support = require "support"
local with_seed = require "spec.support.with_seed"

local random = math.random

-- A class with a name, for one test.
local function class(name)
  local c = { __name = name }
  c.__index = c
  return mw.name_class(name, c, { replace = true })
end

local One, Two = class "hash.One", class "hash.Two"

local function differs(a, b) assert.not_equal(mw.hash(a), mw.hash(b)) end

-- States, each with its hash, which is the same on every machine.
local function fixed()
  local cycle, shared, keys = {}, { n = 1 }, { a = {}, b = {} }
  cycle.self = cycle
  keys.by = { [keys.a] = keys.b, [keys.b] = "b" }
  local unit = setmetatable({ class = One, hp = 3 }, One)
  return {
    { {}, -5075711915158083019 },
    { mw.array {}, -5408058672103347830 },
    { { 1, 2.5, -3, "text", true, false, mw.null }, 625025976857023645 },
    { { [1.5] = 0 / 0, [-1] = -0.0, [true] = 1 / 0, x = math.mininteger },
      4525873200621039161 },
    { { ("long"):rep(100), "", "\0\255" }, 4718485891497668033 },
    { { a = shared, b = { c = shared } }, 5090311472673046559 },
    { cycle, 8570662418303301730 },
    { keys, -8575296055540881039 },
    { { unit, One }, 5921311666139167314 },
  }
end

describe("a hash", function()
  it("is the same on every machine", function()
    for i, case in ipairs(fixed()) do
      assert.equal(case[2], mw.hash(case[1]), "case " .. i)
    end
  end)

  it("is of content, not of identity, and tells apart what differs",
    function()
      local cases = fixed()
      for i, case in ipairs(cases) do
        local copy = mw.restore((mw.snapshot(case[1])))
        assert.equal(mw.hash(case[1]), mw.hash(copy))
        for j = i + 1, #cases do differs(case[1], cases[j][1]) end
      end
      differs({ 1 }, { 1.0 })
      differs({ 0.0 }, { -0.0 })
      differs({ "1" }, { 1 })
      differs({ {}, {} }, { {} })
      differs({ mw.null }, { false })
      differs({ [true] = 1 }, { ["true"] = 1 })
      assert.equal(mw.hash { 0 / 0 }, mw.hash { -(0 / 0) })
      local t = {}
      differs({ t, t }, { {}, {} })
      differs({ a = t, b = { t } }, { a = t, b = { {} } })
      differs({ setmetatable({}, One) }, { setmetatable({}, Two) })
      differs({ setmetatable({}, One) }, { {} })
      differs({ mw.array {} }, { mw.object_like {} })
      differs({ One }, { Two })
    end)

  it("is the same whoever watches, and in whatever order fields were set",
    function()
      local one, two = {}, {}
      for i = 1, 50 do one["k" .. i] = { n = i } end
      for i = 50, 1, -1 do two["k" .. i] = { n = i } end
      local hash = mw.hash(one)
      assert.equal(hash, mw.hash(two))
      mw.watch(two, function() end, { deep = true })
      assert.equal(hash, mw.hash(two))
      mw.track(one, { deep = true })
      assert.equal(hash, mw.hash(one))
      mw.untrack(one)
      assert.equal(hash, mw.hash(one))
    end)

  it("is of what was delivered where nobody watches any more", function()
    local obj = { x = 1, y = 1 }
    local before = mw.hash(obj)
    mw.watch(obj, function() end)
    local tx = mw.begin()
    obj.x, obj.y = 2, nil
    mw.unwatch(obj)
    assert.equal(before, mw.hash(obj))
    assert.same({ x = 1, y = 1 }, mw.restore((mw.snapshot(obj))))
    tx:rollback()
    assert.equal(before, mw.hash(obj))
  end)

  it("is of what was delivered, as a snapshot is", function()
    local world = mw.track({ n = 1, list = { {} } }, { deep = true })
    local before = mw.hash(world)
    local tx = mw.begin()
    world.n, world.list[1], world.new = 2, nil, { print }
    assert.equal(before, mw.hash(world))
    tx:rollback()
    assert.equal(before, mw.hash(world))
    tx = mw.begin()
    world.n, world.list[1] = 2, nil
    tx:commit()
    assert.equal(mw.hash { n = 2, list = {} }, mw.hash(world))
  end)

  it("is refused where a snapshot is, in its words", function()
    local class_of = setmetatable({}, {})
    for _, state in ipairs {
      { a = { print } }, { co = coroutine.create(print) }, { a = { [{}] = 1 } },
      { a = { [print] = 1 } }, { x = class_of }, { g = mw.guard() },
      { f = io.stdout }, { m = mw.memo(print) }, { [One] = 1 },
    } do
      local message = select(2, mw.snapshot(state))
      local hash, why = mw.hash(state)
      assert.is_nil(hash)
      assert.equal(message, why)
      for key in pairs(state) do state[key] = nil end
      assert.equal(mw.hash {}, mw.hash(state))
    end
    misuse("bad argument #1 to 'hash' (table expected, got nil)", mw.hash)
    misuse("bad argument #1 to 'hash' (table expected, got string)", mw.hash,
      "x")
  end)

  it("is of a root that is a class with a name, too", function()
    local root = mw.name_class("hash.Root", { n = 1 })
    for _ = 1, 2 do
      root.me, root.n = root, 1
      local hash = mw.hash(root)
      assert.equal(mw.hash(mw.restore((mw.snapshot(root)))), hash)
      root.n = 2
      assert.not_equal(hash, mw.hash(root))
      mw.track(root, { deep = true })
    end
  end)

  it("has the state of userdata", function()
    local states = {}
    local Box = { __name = "hash.Box" }
    mw.name_class("hash.Box", Box, {
      snapshot = function(box) return states[box] end,
      restore = function(box, state) states[box] = state end,
    })
    local box, other = support.userdata(Box), support.userdata(Box)
    local world = { box = box }
    for _ = 1, 2 do
      for _, state in ipairs { 1, "text", { 1, 2 }, { world } } do
        states[box], states[other] = state, state
        local hash = mw.hash(world)
        states[box] = {}
        assert.not_equal(hash, mw.hash(world))
        world.box = other
        assert.equal(hash, mw.hash(world))
        world.box = box
      end
      mw.track(world, { deep = true })
    end
  end)

  it("leaves out what a policy ignores, and what a rule does", function()
    local Node = class "hash.Node"
    mw.name_class("hash.Node", Node, { ignore = { "cache" } })
    local node = setmetatable({ n = 1 }, Node)
    local root = mw.track({ node }, {
      deep = true, descend = function(_, key) return key ~= "parent" end,
    })
    local hash = mw.hash(root)
    node.cache, node.parent = 5, { print }
    assert.equal(hash, mw.hash(root))
    node.parent = 7
    assert.not_equal(hash, mw.hash(root))
    node.parent = nil
    mw.name_class("hash.Node", Node)
    node.cache = 5
    assert.not_equal(hash, mw.hash(root))
  end)
end)

describe("the hash of a tracked root", function()
  it("is of ways: moved and shared objects", function()
    local world = mw.track({ a = { b = { c = { 1 } } }, list = {} },
      { deep = true })
    local seen = {}
    local function look()
      local hash = mw.hash(world)
      assert.equal(mw.hash(mw.plain(world)), hash)
      seen[#seen + 1] = hash
    end
    look()
    world.list[1] = world.a.b.c
    look()
    world.c = world.a.b.c
    look()
    world.c[1] = world
    look()
    world.a.b.c = nil
    look()
    world.list[1] = nil
    look()
    world.c = nil
    look()
    for i = 1, #seen do
      for j = i + 1, #seen do assert.not_equal(seen[i], seen[j]) end
    end
  end)

  it("hears of rawset, classes, marks and names", function()
    local world = mw.track({ { { n = 1 } } }, { deep = true })
    local object = world[1][1]
    local hash = mw.hash(world)
    local function has_changed()
      local now = mw.hash(world)
      assert.not_equal(hash, now)
      hash = now
    end
    rawset(object, "raw", 1)
    mw.sync(object)
    has_changed()
    object.__index = {}
    has_changed()
    object.__index = nil
    has_changed()
    rawset(world, "raw", 1)
    has_changed()
    local env = {}
    mw.see_through(env)
    env.rawset(object, "seen", 1)
    has_changed()
    mw.setmetatable(object, One)
    has_changed()
    mw.array(object)
    has_changed()
    mw.object_like(object)
    has_changed()
    mw.name_class("hash.OtherOne", One)
    has_changed()
    mw.name_class("hash.One", One)
    has_changed()
  end)

  it("hears of classes on which a rule depends", function()
    local Shut = mw.name_class("hash.Shut", {}, { deep = false })
    local object = { n = 1 }
    local world = mw.track({ a = object }, { deep = true })
    local with, without = mw.hash(world), mw.hash {}
    local function has(hash) assert.equal(hash, mw.hash(world)) end
    mw.setmetatable(object, Shut)
    has(without)
    mw.setmetatable(object, nil)
    has(with)
    object = mw.setmetatable({ n = 1 }, Shut)
    world.a = object
    has(without)
    mw.setmetatable(object, nil)
    has(with)
    mw.name_class("hash.Shut", Shut)
  end)

  it("hears of classes that are found late", function()
    local late = { x = 1 }
    local world = mw.track({ late = late, object = {} }, { deep = true })
    mw.hash(world)
    mw.setmetatable(world.object, late)
    assert.is_nil((mw.hash(world)))
    mw.name_class("hash.Late", late)
    local hash = mw.hash(world)
    late.x = 2
    assert.equal(hash, mw.hash(world))
    mw.setmetatable(world.object, nil)
    assert.not_equal(hash, mw.hash(world))
  end)

  it("hears of what was away", function()
    local world = mw.track({ { x = { y = {} } }, keep = {} }, { deep = true })
    local hash, away = mw.hash(world), world[1]
    world[1] = nil
    mw.reap()
    away.x.y.z = 1
    world[1] = away
    assert.not_equal(hash, mw.hash(world))
    away.x.y.z = nil
    assert.equal(hash, mw.hash(world))
    mw.untrack(world)
    away.x.y.z = 1
    mw.track(world, { deep = true })
    assert.not_equal(hash, mw.hash(world))
    away.x.y.z = nil
    assert.equal(hash, mw.hash(world))
  end)

  it("is asked for by a guard and by a rule, too", function()
    local world, hashes = mw.track({ x = { n = 1 } }, {
      deep = true, descend = function() return true end,
    }), {}
    mw.watch(world, function() hashes[#hashes + 1] = mw.hash(world) end,
      { deep = true, once = false, phase = "after" })
    world.x.n = 2
    rawset(world.x, "raw", {})
    mw.sync(world.x)
    assert.equal(mw.hash(world), hashes[#hashes])
    assert.equal(mw.hash { x = { n = 2 } }, hashes[1])
    local function rule() return mw.hash(world) ~= nil end
    local other = mw.track({ {} }, { deep = true, descend = rule })
    assert.equal(mw.hash { {} }, mw.hash(other))
    local again, asks
    again = mw.track({ {} }, { deep = true, descend = function()
      if again and not asks then
        asks = true
        assert.equal(mw.hash { {} }, mw.hash(again))
        asks = false
      end
      return true
    end })
    assert.equal(mw.hash { {} }, mw.hash(again))
  end)
end)

-- A key that programs use; `objects` are keys as well, if there are any.
local function any_key(objects)
  local what = random(objects and 12 or 11)
  if what <= 5 then return ("abcd"):sub(random(4)):sub(1, 1) end
  if what <= 8 then return random(4) end
  if what == 9 then return random(2) == 1 end
  if what == 10 then return random(3) + 0.5 end
  if what == 11 then return -random(2) end
  return objects[random(#objects)]
end

local VALUES = { 1, 2, 3, 0.5, 1.5, "x", "xyz", true, false, mw.null, One, Two,
  0 / 0, -0.0, 0.0, 1 / 0 }

-- Userdata, and their states.
local states = setmetatable({}, { __mode = "k" })
local Box = { __name = "hash.RandomBox" }
mw.name_class("hash.RandomBox", Box, {
  new = function() return support.userdata(Box) end,
  snapshot = function(box) return states[box] end,
  restore = function(box, state) states[box] = state end,
})

-- A world whose objects are written at random.
local World = {}
World.__index = World

local function new_world(opts)
  local all = { {} }
  for i = 2, random(2, 10) do
    all[i] = {}
    all[random(i - 1)][random(4)] = all[i]
  end
  local world = setmetatable({
    root = all[1], all = all, keys = random(3) == 1 and all or nil,
  }, World)
  mw.track(all[1], { deep = true, descend = opts.descend })
  if not opts.descend then
    if random(3) == 1 then mw.track(all[random(#all)], { deep = true }) end
    if random(3) == 1 then
      mw.watch(all[random(#all)], function() end, { deep = true })
    end
  end
  if random(4) == 1 then world.box = support.userdata(Box) end
  return world
end

function World:end_transaction()
  if random(2) == 1 then self.tx:commit() else self.tx:rollback() end
  self.tx = nil
end

function World:write()
  local all, what = self.all, random(13)
  local object, key = all[random(#all)], any_key(self.keys)
  if self.box and random(6) == 1 then
    states[self.box] = ({ 1, "x", { all[random(#all)] }, all[1], { {} } })[
      random(5)]
    object[key] = self.box
  elseif what <= 3 then
    object[key] = VALUES[random(#VALUES)]
  elseif what <= 5 then
    object[key] = nil
  elseif what <= 8 then
    object[key] = all[random(#all)]
  elseif what == 9 then
    local new = { n = random(3), {} }
    all[random(2, #all)] = new
    all[random(#all)][key] = new
  elseif what == 10 then
    mw.setmetatable(object, ({ One, Two })[random(3)])
  elseif what == 11 then
    (random(2) == 1 and mw.array or mw.object_like)(object)
  elseif what == 12 then
    rawset(object, key, random(4))
    mw.sync(object)
  elseif self.tx then
    self:end_transaction()
  else
    self.tx = mw.begin()
  end
end

-- Checks the hash beside that of what its snapshot holds.
function World:check()
  local hash, why = mw.hash(self.root)
  local bytes, message = mw.snapshot(self.root)
  if bytes then
    local copy = mw.restore(bytes)
    assert.equal(bytes, (mw.snapshot(copy)))
    assert.equal(mw.hash(copy), hash)
  else
    assert.is_nil(hash)
    assert.equal(message, why)
  end
end

local function run(n, opts)
  with_seed(function()
    for _ = 1, n do
      local world = new_world(opts)
      for _ = 1, 40 do
        for _ = 1, random(4) do world:write() end
        if random(20) == 1 then collectgarbage() end
        world:check()
      end
      if world.tx then world:end_transaction() end
    end
  end)
end

describe("the hash of a random world", function()
  it("is that of what a snapshot holds", function()
    run(200, {})
  end)

  it("is that with a rule as well", function()
    run(200, { descend = function(_, key) return key ~= "d" end })
  end)

  it("is equal exactly when snapshots are", function()
    with_seed(function()
      local hash_of, bytes_of = {}, {}
      for _ = 1, 300 do
        local world = new_world {}
        for _ = 1, 8 do
          world.all[random(#world.all)][any_key()] = random(2)
          local bytes, hash = mw.snapshot(world.root), mw.hash(world.root)
          assert.equal(hash, hash_of[bytes] or hash)
          assert.equal(bytes, bytes_of[hash] or bytes)
          hash_of[bytes], bytes_of[hash] = hash, bytes
        end
      end
    end)
  end)
end)

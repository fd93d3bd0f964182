local mw = require "moonwatch"
local error_of = require "spec.support.error_of"
local growth = require "spec.support.growth"
local with_seed = require "spec.support.with_seed"

local ONCE = { once = true }

local DEEP = { deep = true, once = false }

local function dotted(path)
  local words = {}
  for i, key in ipairs(path) do words[i] = tostring(key) end
  return table.concat(words, ".")
end

describe("a deep watch", function()
  local root, notes

  local function guard(obj, path, old, new, kind)
    assert.equal(root, obj)
    notes[#notes + 1] = ("%s:%s>%s %s"):format(dotted(path),
      type(old) == "table" and "table" or old,
      type(new) == "table" and "table" or new, kind)
  end

  -- What the guard has heard since the last time.
  local function heard()
    local list = notes
    notes = {}
    return list
  end

  before_each(function()
    notes = {}
    root = { hp = 1, pos = { x = 1 }, bag = { { n = 1 }, { n = 2 } } }
  end)

  it("hears of writes anywhere below, with the path to the key", function()
    mw.watch(root, guard, DEEP)
    root.hp = 2
    root.pos.x = 3
    root.pos.y = 4
    root.bag[2].n = nil
    assert.same({ "hp:1>2 update", "pos.x:1>3 update", "pos.y:nil>4 insert",
      "bag.2.n:2>nil delete" }, heard())
    assert.equal(1, mw.mutations(root))
    assert.equal(2, mw.mutations(root.pos))
  end)

  it("is called before the value is stored, or after", function()
    local seen = {}
    mw.watch(root, function() seen[#seen + 1] = root.pos.x end,
      { deep = true, once = true })
    mw.watch(root, function() seen[#seen + 1] = root.pos.x end,
      { deep = true, phase = "after", once = true })
    root.pos.x = 5
    root.pos.x = 6
    assert.same({ 1, 5 }, seen)
  end)

  it("includes what is attached later, with all below it", function()
    mw.watch(root, guard, DEEP)
    local new = { deep = { er = {} } }
    root.pos.new = new
    new.deep.er.x = 1
    new.deep.er.most = {}
    new.deep.er.most.of = "all"
    assert.same({ "pos.new:nil>table insert", "pos.new.deep.er.x:nil>1 insert",
      "pos.new.deep.er.most:nil>table insert",
      "pos.new.deep.er.most.of:nil>all insert" }, heard())
  end)

  it("releases what is detached, as it was", function()
    local class = { __index = {} }
    local pos = setmetatable(root.pos, class)
    pos.link = { y = 1 }
    local link = pos.link
    mw.watch(root, guard, DEEP)
    root.pos = nil
    heard()
    pos.x, link.y = 10, 11
    assert.same({}, heard())
    assert.is_false(mw.is_watched(pos))
    assert.is_false(mw.is_watched(link))
    assert.equal(class, getmetatable(pos))
    assert.is_nil(getmetatable(link))
    assert.equal(10, rawget(pos, "x"))
    assert.equal(11, rawget(link, "y"))
    root.pos = pos
    link.y = 12
    assert.same({ "pos:nil>table insert", "pos.link.y:11>12 update" }, heard())
  end)

  it("releases what another value takes the place of", function()
    mw.watch(root, guard, DEEP)
    local old = root.pos
    root.pos = { x = 5 }
    assert.is_false(mw.is_watched(old))
    root.pos = 7
    root.pos = old
    heard()
    root.pos.x = 8
    assert.same({ "pos.x:1>8 update" }, heard())
  end)

  it("follows what moves", function()
    mw.watch(root, guard, DEEP)
    local bag = root.bag
    local one = bag[1]
    bag[1], bag[2] = bag[2], bag[1]
    root.other, root.bag = bag, nil
    heard()
    one.n = 5
    assert.same({ "other.2.n:1>5 update" }, heard())
    for i = 3, 20 do table.insert(bag, 1, { n = i }) end
    heard()
    one.n = 6
    assert.same({ "other.20.n:5>6 update" }, heard())
    table.sort(bag, function(a, b) return a.n < b.n end)
    heard()
    for i = 1, #bag do bag[i].n = 0 end
    for i, note in ipairs(heard()) do
      assert.truthy(note:find("other." .. i .. ".n:", 1, true))
    end
    table.remove(bag, 1)
    for i = 1, #bag do assert.is_true(mw.is_watched(bag[i])) end
  end)

  it("has no trouble with sharing", function()
    root.a = { shared = {} }
    root.b = { shared = root.a.shared }
    local shared = root.a.shared
    mw.watch(root, guard, DEEP)
    shared.x = 1
    assert.equal(1, #heard())
    root.a.shared = nil
    heard()
    shared.x = 2
    assert.same({ "b.shared.x:1>2 update" }, heard())
    root.b = nil
    heard()
    shared.x = 3
    assert.same({}, heard())
    assert.is_nil(getmetatable(shared))
  end)

  it("has no trouble with cycles", function()
    root.pos.parent = root
    root.pos.self = root.pos
    mw.watch(root, guard, DEEP)
    root.pos.parent.pos.self.x = 2
    root.pos.parent.hp = 3
    assert.same({ "pos.x:1>2 update", "hp:1>3 update" }, heard())
    local pos = root.pos
    root.pos = nil
    heard()
    pos.x = 4
    assert.same({}, heard())
    assert.is_false(mw.is_watched(pos))
    pos.parent.hp = 5
    assert.same({ "hp:3>5 update" }, heard())
  end)

  it("lets a list lose its head", function()
    local list
    for i = 100, 1, -1 do
      list = { n = i, next = list }
      if list.next then list.next.prev = list end
    end
    root.list = list
    mw.watch(root, guard, DEEP)
    for i = 2, 50 do
      list = root.list
      root.list = list.next
      root.list.prev = nil
      list.next = nil
      assert.is_false(mw.is_watched(list))
      assert.equal(i, root.list.n)
    end
    heard()
    root.list.next.n = "x"
    assert.same({ "list.next.n:51>x update" }, heard())
  end)

  it("is heard by every root above, each with its own path", function()
    local outer, log = { inner = root }, {}
    mw.watch(outer, function(obj, path)
      assert.equal(outer, obj)
      log[#log + 1] = dotted(path)
    end, DEEP)
    mw.watch(root, guard, DEEP)
    root.pos.x = 9
    assert.same({ "pos.x:1>9 update" }, heard())
    assert.same({ "inner.pos.x" }, log)
    outer.inner = nil
    root.pos.x = 10
    assert.equal(1, #heard())
    assert.same({ "inner.pos.x", "inner" }, log)
    mw.unwatch(root)
    assert.is_nil(getmetatable(root.pos))
  end)

  it("calls those who watch the object itself first", function()
    local order = {}
    local function say(name)
      return function() order[#order + 1] = name end
    end
    mw.watch(root, say "root", { deep = true, once = true })
    mw.watch(root, say "not deep", ONCE)
    mw.watch(root.pos, say "pos", ONCE)
    root.pos.x = 2
    assert.same({ "pos", "root" }, order)
  end)

  it("is called once, or stays", function()
    local n = 0
    mw.watch(root, function() n = n + 1 end, { deep = true, once = true })
    root.pos.x, root.pos.y, root.hp = 2, 3, 4
    assert.equal(1, n)
    mw.watch(root, function() n = n + 1 end, { deep = true, once = true })
    root.pos.x = 5
    assert.equal(2, n)
  end)

  it("hears of the keys of the root that it names, and below them", function()
    mw.watch(root, guard, { deep = true, once = false, keys = { "pos", "hp" } })
    root.pos.x = 2
    root.bag[1].n = 2
    root.bag.pos = 3
    root.hp = 4
    root.pos = nil
    assert.same({ "pos.x:1>2 update", "hp:1>4 update",
      "pos:table>nil delete" }, heard())
  end)

  it("passes over the same values, when told so", function()
    mw.watch(root, guard, { deep = true, once = false, equal = "skip" })
    root.pos.x = 1
    root.pos = root.pos
    root.pos.x = 2
    assert.same({ "pos.x:1>2 update" }, heard())
  end)

  it("takes guards of all kinds", function()
    local flag = mw.guard()
    mw.watch(root, flag, { deep = true, once = true })
    local told
    local object = {}
    function object:invalidate(obj, path)
      assert.equal(object, self)
      told = { obj, path }
    end
    mw.watch(root, object, { deep = true, once = true })
    root.bag[1].n = 5
    assert.is_false(flag.valid)
    assert.equal(root, told[1])
    assert.same({ "bag", 1, "n" }, told[2])
  end)

  it("tells of touches, metatables and what was written raw", function()
    mw.watch(root, guard, DEEP)
    mw.touch(root.pos)
    mw.touch(root.pos, "x")
    rawset(root.pos, "r", { s = 1 })
    assert.is_true(mw.sync(root.pos))
    root.pos.r.s = 2
    mw.setmetatable(root.pos, {})
    assert.same({ "pos:nil>nil touch", "pos.x:1>1 touch", "pos.r:nil>table raw",
      "pos.r.s:1>2 update", "pos:nil>table metatable" }, heard())
  end)

  it("follows what a class stores by itself", function()
    root.pos = setmetatable({}, { __newindex = function(t, k, v)
      rawset(t, k, v)
      rawset(t, k .. "2", { copy = true })
    end })
    mw.watch(root, guard, DEEP)
    root.pos.a = { x = 1 }
    assert.is_true(mw.sync(root.pos))
    heard()
    root.pos.a.x = 2
    root.pos.a2.x = 3
    assert.same({ "pos.a.x:1>2 update", "pos.a2.x:nil>3 insert" }, heard())
  end)

  it("has paths of any keys", function()
    local key = {}
    root[key] = { [1.5] = { [true] = {}, ["a\0b"] = {} } }
    local path
    mw.watch(root, function(_, p) path = p end, DEEP)
    root[key][1.5][true][print] = 1
    assert.same({ key, 1.5, true, print }, path)
    assert.equal(key, path[1])
    root[key][1.5]["a\0b"][2^53] = 1
    assert.equal("integer", math.type(path[4]))
    assert.equal("a\0b", path[3])
  end)

  it("calls once at the end of a batch, with the last write", function()
    mw.watch(root, guard, DEEP)
    mw.batch(function()
      root.pos.x = 2
      root.bag[1].n = 5
      root.bag[1].n = 6
      assert.same({}, heard())
    end)
    assert.same({ "bag.1.n:1>6 update" }, heard())
    mw.batch(function()
      root.bag[1].n = 7
      root.bag = nil
    end)
    assert.same({ "bag:table>nil delete" }, heard())
  end)

  it("leaves clocks and maps alone", function()
    root.clock, root.map = mw.clock(), mw.weakmap()
    mw.watch(root, guard, DEEP)
    root.other = mw.weakmap()
    assert.is_false(mw.is_watched(root.clock))
    assert.is_false(mw.is_watched(root.map))
    assert.is_false(mw.is_watched(root.other))
    root.map:set(root, 1)
  end)

  it("ends with unwatch, and all below is plain again", function()
    local pos, one = root.pos, root.bag[1]
    mw.watch(root, guard, DEEP)
    mw.watch(one, function() end, { once = false })
    mw.unwatch(root)
    pos.x = 5
    assert.same({}, heard())
    assert.is_nil(getmetatable(root))
    assert.is_nil(getmetatable(pos))
    assert.equal(5, rawget(pos, "x"))
    assert.is_true(mw.is_watched(one)) -- by itself
    assert.is_nil(getmetatable(root.bag))
  end)

  it("goes on after unwatch of what is below", function()
    mw.watch(root, guard, DEEP)
    local n = 0
    mw.watch(root.pos, function() n = n + 1 end, { once = false })
    mw.unwatch(root.pos)
    root.pos.x = 2
    assert.equal(0, n)
    assert.same({ "pos.x:1>2 update" }, heard())
  end)

  it("does not hear after cancel", function()
    local handle = mw.watch(root, guard, DEEP)
    handle:cancel()
    root.pos.x = 2
    assert.same({}, heard())
  end)

  it("keeps nothing alive", function()
    local weak = setmetatable({}, { __mode = "k" })
    mw.watch(root, guard, DEEP)
    for i = 1, 100 do
      root.pos["key " .. i] = { { i }, root = root }
      weak[root.pos["key " .. i]] = true
      if i > 10 then root.pos["key " .. i - 10] = nil end
    end
    collectgarbage()
    collectgarbage()
    local n = 0
    for _ in pairs(weak) do n = n + 1 end
    assert.equal(10, n)
    weak[root] = true
    root, notes = nil, {}
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(weak))
  end)

  it("lets go of what outlives its root", function()
    local pos = root.pos
    mw.watch(root, function() error "is dead" end, DEEP)
    root = nil
    collectgarbage()
    collectgarbage()
    pos.x = 5
    mw.reap()
    assert.is_false(mw.is_watched(pos))
    assert.is_nil(getmetatable(pos))
    assert.equal(5, rawget(pos, "x"))
  end)

  it("costs memory for what is there, not for what was", function()
    mw.watch(root, guard, DEEP)
    local function churn()
      for i = 1, 500 do
        root["key " .. i] = { {}, {} }
        root["key " .. i] = nil
      end
      notes = {}
    end
    assert.is_true(growth(churn) < 2)
  end)

  it("has guards whose errors do not stop a thing", function()
    mw.watch(root, function() error("first", 0) end, DEEP)
    mw.watch(root, guard, DEEP)
    local message = error_of(function() root.pos.new = { 1 } end)
    assert.truthy(message:find "^first")
    assert.same({ "pos.new:nil>table insert" }, heard())
    assert.equal(1, root.pos.new[1])
  end)

  it("has guards that detach, attach and write", function()
    local depth = 0
    mw.watch(root, function(obj, path)
      if depth > 3 then return end
      depth = depth + 1
      if path[1] == "pos" then obj.pos = nil end
      obj["new" .. depth] = { depth }
    end, DEEP)
    local pos = root.pos
    pos.x = 7
    assert.equal(7, pos.x)
    assert.is_nil(root.pos)
    assert.is_false(mw.is_watched(pos))
    assert.equal(4, root.new4[1])
  end)

  it("keeps the names of keys apart when some are forgotten", function()
    root = { left = { hp = {} }, right = {} }
    mw.watch(root, guard, DEEP)
    root.left = root.right -- perhaps a move, so `hp` is not forgotten yet
    root.hp = {}
    root.name = {}
    heard()
    root.hp.v, root.name.v = 1, 2
    assert.same({ "name.v:nil>2 insert", "hp.v:nil>1 insert" }, heard())
  end)

  it("loses nothing when an object is let go in the middle of a write",
    function()
      local class = { __newindex = function(t, k, v)
        rawset(t, k, v)
        rawset(t, k .. "2", v)
      end }
      root = { a = setmetatable({ keep = 1 }, class), b = {} }
      local a = root.a
      mw.watch(root, function(_, path)
        if path[2] == "x" then root.a = root.b end
      end, DEEP)
      a.x = 5
      assert.is_false(mw.is_watched(a))
      assert.same({ 1, 5, 5 },
        { rawget(a, "keep"), rawget(a, "x"), rawget(a, "x2") })
    end)

  it("attaches nothing under what is no key", function()
    local asked = 0
    mw.watch(root, guard, DEEP)
    local former = mw.policy { descend = function()
      asked = asked + 1
      return true
    end }:use()
    local value = {}
    assert.matches("index is NaN", error_of(function() root[0 / 0] = value end))
    assert.matches("index is nil", error_of(function() root[nil] = value end))
    assert.equal(0, asked)
    former:use()
    assert.is_false(mw.is_watched(value))
    heard()
    value.x = 1
    assert.same({}, heard())
  end)

  it("hears of what is taken back below it", function()
    mw.watch(root, guard, DEEP)
    local tx = mw.begin()
    root.pos.x = 7
    heard()
    tx:rollback()
    assert.same({ "pos.x:7>" .. tostring(root.pos.x) .. " rollback" }, heard())
  end)

  it("is for tables, and says so", function()
    local mistake = error_of(mw.watch, io.stdout, print, { deep = true })
    assert.truthy(mistake:find("bad argument #3 to 'watch' " ..
      "(option 'deep' is for tables)", 1, true))
    mistake = error_of(mw.watch, root, guard, { deep = 1 })
    assert.truthy(mistake:find("option 'deep' is not a boolean", 1, true))
    assert.is_nil(getmetatable(root))
  end)

  it("agrees with a search from the root, whatever happens", function()
    local objects = {}

    local function reached(from, seen)
      seen[from] = true
      for _, child in pairs(from) do
        if not seen[child] then reached(child, seen) end
      end
      return seen
    end

    local function any() return objects[math.random(#objects)] end

    local function check_round()
      for i = 1, 12 do objects[i] = {} end
      for _ = 1, 20 do any()[math.random(3)] = any() end
      root = objects[1]
      local path
      mw.watch(root, function(_, p) path = p end, DEEP)
      for step = 1, 100 do
        local obj, key = any(), math.random(3)
        local expected = reached(root, {})[obj]
        path = nil
        obj[key] = math.random() < 0.6 and any() or nil
        assert.equal(expected, path and true)
        if path and obj[key] then
          local at = root
          for _, k in ipairs(path) do at = at[k] end
          assert.equal(obj[key], at)
        end
        if step % 7 == 0 then
          local seen = reached(root, {})
          for i = 1, #objects do
            assert.equal(seen[objects[i]] or false, mw.is_watched(objects[i]))
          end
        end
      end
      mw.unwatch(root)
      for i = 1, #objects do assert.is_nil(getmetatable(objects[i])) end
    end

    for _ = 1, 100 do with_seed(check_round) end
  end)
end)

describe("a deep guard", function()
  it("gets the written object, too", function()
    for _, phase in ipairs { "before", "after" } do
      local root, seen = { a = { b = { 1 } }, u = {} }, {}
      local weak = {}
      function weak.invalidate(_, ...) seen[#seen + 1] = { ... } end
      mw.watch(root, function(...) seen[#seen + 1] = { ... } end,
        { deep = true, once = false, phase = phase })
      mw.watch(root, weak, { deep = true, once = false, phase = phase })
      local b = root.a.b
      b[1] = 2
      root.x = 3
      mw.touch(b)
      mw.batch(function() root.u.x = 4 end)
      assert.equal(8, #seen)
      for i, expected in ipairs {
        { root, { "a", "b", 1 }, 1, 2, "update", b },
        { root, { "x" }, nil, 3, "insert", root },
        { root, { "a", "b", nil }, nil, nil, "touch", b },
        { root, { "u", "x" }, nil, 4, "insert", root.u },
      } do
        for j = 2 * i - 1, 2 * i do
          assert.same(expected[2], seen[j][2])
          assert.equal(root, seen[j][1])
          assert.is_true(rawequal(expected[6], seen[j][6]))
          assert.equal(expected[3], seen[j][3])
          assert.equal(expected[4], seen[j][4])
          assert.equal(expected[5], seen[j][5])
        end
      end
    end
  end)

  it("gets a shortest path", function()
    local leaf, path = { x = 0 }, nil
    local root = { a = { b = { leaf = leaf } } }
    mw.watch(root, function(_, p) path = dotted(p) end, DEEP)
    local function way()
      leaf.x = leaf.x + 1
      return path
    end
    assert.equal("a.b.leaf.x", way())
    root.a.short = leaf
    assert.equal("a.short.x", way())
    root.new = { leaf = leaf }
    assert.is_truthy((" a.short.x new.leaf.x "):find(way(), 1, true))
    leaf.root, leaf.self, leaf.a = root, leaf, root.a
    assert.is_truthy((" a.short.x new.leaf.x "):find(way(), 1, true))
    root.a.short = nil
    assert.equal("new.leaf.x", way())
    root.one = leaf
    root.two = leaf
    assert.is_truthy((" one.x two.x "):find(way(), 1, true))
    root.one = nil
    assert.equal("two.x", way())
    local list = { leaf }
    root.list = list
    for i = 1, 5 do table.insert(list, 1, { i }) end
    root.two, root.one = nil, nil
    assert.is_truthy((" list.6.x new.leaf.x "):find(way(), 1, true))
    root.new = nil
    assert.equal("list.6.x", way())
    local tx = mw.begin()
    root.short = leaf
    assert.equal("short.x", way())
    tx:rollback()
    assert.equal("list.6.x", way())
  end)

  it("gets a path as long as it has to be", function()
    for _, depth in ipairs { 1, 15, 16, 17, 1000, 20000 } do
      local root, path, written = {}, nil, nil
      local at = root
      for i = 1, depth do
        at[i] = { up = at } -- also back
        at = at[i]
      end
      mw.watch(root, function(_, p, _, _, _, w) path, written = p, w end, DEEP)
      for _ = 1, 3 do at.x = 1 end
      assert.equal(depth + 1, #path)
      for i = 1, depth do if path[i] ~= i then error(i) end end
      assert.equal("x", path[depth + 1])
      assert.is_true(rawequal(at, written))
      assert.is_true(mw.unwatch(root))
      assert.is_nil(getmetatable(at))
    end
  end)
end)

describe("the option descend", function()
  local function not_parent(_, key) return key ~= "parent" end

  it("decides for one watch", function()
    local world = { name = "world" }
    local a = { parent = world, part = {} }
    world.a = a
    local log = {}
    local function say(name)
      return function(_, path) log[#log + 1] = name .. ":" .. dotted(path) end
    end
    mw.watch(a, say "narrow",
      { deep = true, once = false, descend = not_parent })
    assert.is_nil(getmetatable(world))
    mw.watch(a, say "wide", DEEP)
    world.name = "new"
    assert.same({ "wide:parent.name" }, log)
    log = {}
    a.part.x = 1
    table.sort(log)
    assert.same({ "narrow:part.x", "wide:part.x" }, log)
    log = {}
    a.part.more = { parent = { x = {} }, y = {} }
    a.part.more.parent.x.z = 1
    a.part.more.y.z = 1
    table.sort(log)
    assert.same({ "narrow:part.more", "narrow:part.more.y.z", "wide:part.more",
      "wide:part.more.parent.x.z", "wide:part.more.y.z" }, log)
    mw.unwatch(a)
    assert.is_nil(getmetatable(world))
  end)

  it("is asked about the parent, the key and the child, each once", function()
    local root, asked = { list = { { 1 } } }, {}
    mw.watch(root, mw.guard(), { deep = true, once = false,
      descend = function(parent, key, child)
        assert.equal(parent[key] or child, child)
        asked[#asked + 1] = key
        return true
      end })
    assert.same({ "list", 1 }, asked)
    asked = {}
    root.new = { {} }
    root.x, root.list[1][1] = 1, 2
    assert.same({ "new", 1 }, asked)
    asked = {}
    root.moved, root.new = root.new, nil
    assert.same({ "moved" }, asked)
  end)

  it("takes the place of the policy's", function()
    local former = mw.policy { descend = function() return false end }:use()
    local root, flag = { a = { b = {} } }, mw.guard()
    mw.watch(root, flag,
      { deep = true, descend = function() return true end, once = true })
    former:use()
    root.a.b.x = 1
    assert.is_false(flag.valid)
  end)

  it("decides for a track", function()
    local world = { n = 1 }
    local a = { parent = world, part = {} }
    world.a = a
    mw.track(a, { deep = true, descend = not_parent })
    assert.is_nil(getmetatable(world))
    local _, fx = mw.transaction(function()
      world.n = 2
      a.part.x = 1
      a.part.new = { parent = {}, y = {} }
      a.part.new.y.z = 1
      a.part.new.parent.z = 1
    end)
    assert.equal(3, fx:len())
    mw.untrack(a)
    assert.is_nil(getmetatable(a))
    assert.is_nil(getmetatable(a.part.new.y))
  end)

  it("may move what the parent holds before the write is stored", function()
    for _, how in ipairs { "class", "unwatch" } do
      local root, moves = { a = {} }, false
      local handle
      handle = mw.watch(root, mw.guard(), { deep = true, descend = function(at)
        if moves and how == "class" then
          mw.setmetatable(at, { __index = { level = 1 } })
        elseif moves then
          handle:cancel()
          mw.unwatch(root)
        end
        moves = false
        return true
      end })
      moves = true
      local child = {}
      root.a.child = child
      assert.equal(child, root.a.child)
      assert.equal(how == "class" and 1 or nil, root.a.level)
    end
  end)

  it("raises its errors from the watch or the write", function()
    local root = { a = {} }
    local fail = false
    local opts = { deep = true, once = false, descend = function()
      if fail then error "no" end
      return true
    end }
    fail = true
    assert.matches("no", error_of(mw.watch, root, mw.guard(), opts))
    assert.is_nil(getmetatable(root))
    fail = false
    mw.watch(root, mw.guard(), opts)
    fail = true
    local t = {}
    assert.matches("no", error_of(function() root.a = t end))
    fail = false
    assert.is_true(root.a ~= t and mw.is_watched(root.a))
    assert.is_false(mw.is_watched(t))
  end)

  it("keeps nothing alive", function()
    local weak = setmetatable({}, { __mode = "k" })
    for _ = 1, 10 do
      local root = { {} }
      weak[root] = true
      mw.watch(root, function() return root end,
        { deep = true, once = false, descend = function() return root end })
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(weak))
  end)
end)

describe("descend", function()
  it("is asked when a parent comes to hold a table that is not below it yet",
    function()
      local asked = {}
      local function rule(_, key)
        asked[#asked + 1] = key
        return key ~= "no"
      end
      for _, how in ipairs { "rule", "policy" } do
        local root, child = {}, {}
        local former = mw.policy({
          descend = how == "policy" and rule or nil,
        }):use()
        mw.track(root, { deep = true, descend = how == "rule" and rule or nil })
        asked = {}
        root.no = child
        root.no = child
        root.yes = child
        root.other = child
        assert.same({ "no", "no", "yes" }, asked)
        root.yes = nil
        child.x = 1
        mw.reap()
        local _, fx = mw.transaction(function() child.x = 2 end)
        assert.equal(1, fx:len())
        former:use()
      end
    end)

  it("says yes once for all fields of a parent that hold the table",
    function()
      local function rule(_, key) return key ~= "no" end
      for _, how in ipairs { "rule", "policy", "scan" } do
        local child, told = { x = 0 }, 0
        local root = how == "scan" and { no = child, yes = child } or {}
        local former = mw.policy({
          descend = how == "policy" and rule or nil,
        }):use()
        mw.watch(root, function(_, _, _, _, _, written)
          if written == child then told = told + 1 end
        end, { deep = true, once = false,
          descend = how ~= "policy" and rule or nil })
        local function is_below()
          mw.reap()
          told = 0
          child.x = child.x + 1
          return told == 1
        end
        root.no = child
        assert.equal(how == "scan", is_below())
        root.yes = child
        assert.is_true(is_below())
        root.yes = nil
        assert.is_true(is_below(), how)
        root.no = nil
        assert.is_false(is_below())
        root.no = child
        assert.is_false(is_below())
        former:use()
      end
    end)

  it("of the policy is not asked about what only other rules decide",
    function()
      local asked = {}
      local former = mw.policy { descend = function(_, key)
        asked[#asked + 1] = key
        return true
      end }:use()
      local _ <close> = setmetatable({}, { __close = function()
        former:use()
      end })
      local root, told = { list = {} }, 0
      mw.watch(root, function() told = told + 1 end,
        { deep = true, once = false, descend = function() return true end })
      root.a = { { 1 } }
      root.list[1] = { {} }
      root.a[1][1] = 2
      assert.equal(3, told)
      mw.watch(root, function() end, { path = { "list", mw.any, "hp" } })
      assert.same({ "list", 1 }, asked)
      root.b, root.list[1].pos, root.list[1].hp = { {} }, {}, {}
      assert.same({ "list", 1 }, asked)
      root.list[2] = { pos = {}, hp = {} }
      assert.same({ "list", 1, 2 }, asked)
      mw.track(root, { deep = true })
      asked = {}
      root.c = { {} }
      assert.same({ "c", 1 }, asked)
    end)
end)

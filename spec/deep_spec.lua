local mw = require "moonwatch"
local misuse = require "spec.support.misuse"
local no_class = require "spec.support.no_class"
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

-- Counts of 20,000 end at once when each costs the same, and take minutes when
-- each costs what there are.
local MANY = 20000

-- For loops: luassert takes longer than what is tested.
local function must(ok) if not ok then error("is not so", 2) end end

describe("a list of many nodes below a root", function()
  local root, flag

  -- Silent: nobody hears.  Heard: a flag is raised.
  local ways = {
    silent = function() mw.track(root, { deep = true }) end,
    heard = function()
      flag = mw.guard()
      mw.watch(root, flag, DEEP)
    end,
  }

  local function append(list, node)
    node.prev = list.last
    if list.last then list.last.next = node else list.first = node end
    list.last = node
  end

  local function prepend(list, node)
    node.next = list.first
    if list.first then list.first.prev = node else list.last = node end
    list.first = node
  end

  local function remove(list, node)
    local before, after = node.prev, node.next
    if before then before.next = after else list.first = after end
    if after then after.prev = before else list.last = before end
    node.prev, node.next = nil, nil
  end

  local function fill(list, n, make)
    for i = 1, n do append(list, make and make(i) or { n = i }) end
    return list
  end

  local function check(list, n)
    local seen, before = 0, nil
    local at = list.first
    while at do
      seen = seen + 1
      must(rawequal(before, at.prev))
      before, at = at, at.next
    end
    assert.equal(list.last, before)
    assert.equal(n, seen)
    if list.last then
      list.last.n = "written"
      if flag then
        assert.is_false(flag.valid)
        flag:revalidate()
      end
    end
  end

  for how, begin in pairs(ways) do
    local function with(name, f)
      it(name .. " (" .. how .. ")", function()
        mw.reap() -- what other specs have left
        root, flag = {}, nil
        begin()
        f()
      end)
    end

    with("grows at its end", function()
      check(fill(root, MANY), MANY)
    end)

    with("grows at its front", function()
      for i = 1, MANY do prepend(root, { n = i }) end
      check(root, MANY)
    end)

    with("grows near its front", function()
      fill(root, 3)
      local second = root.first.next
      for i = 1, MANY do
        local node = { n = i, prev = second, next = second.next }
        second.next.prev = node
        second.next = node
      end
      check(root, MANY + 3)
    end)

    with("is emptied from its front", function()
      fill(root, MANY)
      for _ = 1, MANY do
        local node = root.first
        remove(root, node)
        must(not mw.is_watched(node) and getmetatable(node) == nil)
      end
      check(root, 0)
    end)

    with("is emptied from its end", function()
      fill(root, how == "silent" and MANY or 2000) -- heard, each is climbed to
      while root.last do
        local node = root.last
        remove(root, node)
        mw.reap() -- it may have looked like a move
        must(not mw.is_watched(node) and getmetatable(node) == nil)
      end
      check(root, 0)
    end)

    with("is a ring through which the root goes", function()
      fill(root, MANY)
      for _ = 1, MANY do
        local node = root.first
        remove(root, node)
        append(root, node)
      end
      check(root, MANY)
    end)

    with("is reversed", function()
      fill(root, how == "silent" and MANY or 2000)
      local at = root.first
      root.first, root.last = root.last, root.first
      while at do
        at.next, at.prev = at.prev, at.next
        at = at.prev
      end
      check(root, how == "silent" and MANY or 2000)
    end)

    with("comes and goes, each node knowing the list", function()
      for _ = 1, 2 do
        local list = {}
        fill(list, MANY, function(i) return { n = i, list = list } end)
        local last = list.last
        root.list = list
        check(list, MANY)
        root.list = nil
        assert.is_false(mw.is_watched(list) or mw.is_watched(last))
        mw.reap()
        assert.is_nil(getmetatable(list))
        assert.is_nil(getmetatable(last))
      end
    end)

    with("is held by a cursor only", function()
      local list = fill({}, MANY)
      for node in function(_, at) return (at or list).next end do
        node.list = list
      end
      root.cursor = list.first
      for _ = 1, 1000 do root.cursor = root.cursor.next end
      assert.equal(1001, root.cursor.n)
      local first = list.first
      root.cursor = nil
      mw.reap()
      assert.is_nil(getmetatable(first))
    end)
  end
end)

describe("roots above the same tables", function()
  local function nothing() end

  local orders = {
    first_first = function(_, i) return i end,
    last_first = function(n, i) return n + 1 - i end,
    mixed = function(n, i) return i * 7 % n + 1 end, -- 7 is prime to n
  }

  for name, order in pairs(orders) do
    it("come and go in any order (" .. name .. ")", function()
      local n, leaf = 300, { x = 0, more = {} }
      local roots, heard = {}, {}
      local function begin(i)
        if i % 3 == 0 then
          mw.track(roots[i], { deep = true })
        elseif i % 3 == 1 then
          mw.watch(roots[i], function(root, path)
            must(rawequal(root, roots[i]) and path[1] == "leaf")
            heard[i] = (heard[i] or 0) + 1
          end, DEEP)
        else
          -- fires, and is silent
          mw.watch(roots[i], nothing,
            { deep = true, once = true })
        end
      end
      local function finish(i)
        mw.untrack(roots[i])
        mw.unwatch(roots[i])
      end
      for i = 1, n do roots[i] = { leaf = leaf } end
      for i = 1, n do begin(order(n, i)) end
      leaf.more.x = 1
      for i = 1, n do must((heard[i] or 0) == (i % 3 == 1 and 1 or 0)) end
      for i = 1, n, 2 do
        finish(order(n, i))
        begin(order(n, i))
      end
      leaf.more = { y = {} }
      leaf.more.y.x = 2
      for i = 1, n do must((heard[i] or 0) == (i % 3 == 1 and 3 or 0)) end
      for i = 1, n do
        assert.is_table(leaf.more.y)
        assert.equal(no_class, getmetatable(leaf.more.y))
        finish(order(n, i))
      end
      assert.is_nil(getmetatable(leaf))
      assert.is_nil(getmetatable(leaf.more.y))
      leaf.x = 3
      for i = 1, n do must((heard[i] or 0) == (i % 3 == 1 and 3 or 0)) end
    end)
  end

  it("may be parts that lead to each other", function()
    for _, way in ipairs { "watched", "tracked", "mixed" } do
      local scene, n, heard = { children = {} }, 200, 0
      for i = 1, n do scene.children[i] = { parent = scene } end
      for i, child in ipairs(scene.children) do
        if way == "tracked" or way == "mixed" and i % 2 == 0 then
          mw.track(child, { deep = true })
        else
          mw.watch(child, function() heard = heard + 1 end, DEEP)
        end
      end
      local expected = ({ watched = n, tracked = 0, mixed = n // 2 })[way]
      scene.title = "x"
      assert.equal(expected, heard)
      scene.children[7].x = 1
      assert.equal(2 * expected, heard)
      local _, fx = mw.transaction(function() scene.children[n].x = 2 end)
      assert.equal(1, fx:len())
      for i = n, 1, -1 do -- each is a root, and below the others
        local child = scene.children[i]
        mw.untrack(child)
        assert.equal(i == 1, mw.unwatch(child))
      end
      assert.is_nil(getmetatable(scene))
      assert.is_nil(getmetatable(scene.children))
    end
  end)

  it("may be a ring", function()
    local ring, n, heard = {}, 100, {}
    for i = 1, n do ring[i] = { i = i } end
    for i = 1, n do ring[i].next = ring[i % n + 1] end
    for i = 1, n do
      mw.watch(ring[i], function(_, path) heard[i] = #path end, DEEP)
    end
    ring[1].x = 1
    for i = 1, n do must(heard[i] == (n + 1 - i) % n + 1) end
    ring[n // 2].next = nil -- those before hear no more of the first
    heard = {}
    ring[1].x = 2
    for i = 1, n do must((heard[i] ~= nil) == (i == 1 or i > n // 2)) end
    for i = 1, n do mw.unwatch(ring[i]) end
    for i = 1, n do must(getmetatable(ring[i]) == nil) end
  end)

  it("hear in the order in which they were first watched deeply", function()
    local leaf, order = { x = 0 }, {}
    local roots = {}
    for i = 1, 8 do roots[i] = { leaf = leaf } end
    local function say(name)
      return function() order[#order + 1] = name end
    end
    local function heard()
      leaf.x = leaf.x + 1
      local text = table.concat(order, " ")
      order = {}
      return text
    end
    for i = 1, 4 do mw.watch(roots[i], say(i), DEEP) end
    mw.watch(leaf, say "leaf", { once = false })
    mw.watch(roots[2], say "2b", DEEP)
    assert.equal("leaf 1 2 2b 3 4", heard())
    mw.unwatch(roots[1]) -- its place is free for another root
    mw.unwatch(roots[3])
    mw.watch(roots[5], say(5), DEEP)
    mw.watch(roots[6], say(6), DEEP)
    mw.watch(roots[3], say(3), DEEP)
    mw.watch(roots[1], say(1), DEEP)
    assert.equal("leaf 2 2b 4 5 6 3 1", heard())
    roots[2].leaf = nil -- comes below again, but its watches are older
    roots[2].leaf = leaf
    order = {}
    assert.equal("leaf 2 2b 4 5 6 3 1", heard())
    mw.track(roots[7], { deep = true })
    mw.watch(roots[8], say(8), { deep = true, phase = "after", once = true })
    mw.watch(roots[7], say(7), { deep = true, once = true })
    assert.equal("leaf 2 2b 4 5 6 3 1 7 8", heard())
    mw.batch(function() leaf.x = 5 end)
    assert.equal("leaf 2 2b 4 5 6 3 1", heard():sub(1, 19))
  end)

  it("may all have fired, but some", function()
    local leaf, roots, heard = { x = 0, more = {} }, {}, {}
    local function hear(i)
      return function(_, path)
        assert.same({ "leaf", "x" }, path)
        heard[#heard + 1] = i
      end
    end
    for i = 1, 20 do
      roots[i] = { leaf = leaf }
      mw.watch(roots[i], hear(i), { deep = true, once = true })
    end
    leaf.x = 1
    assert.equal(20, #heard)
    for _ = 1, 100 do
      heard = {}
      local expected = {}
      for i = 1, 20 do
        local way = math.random(4)
        if way == 1 then mw.watch(roots[i], hear(i),
          { deep = true, once = true }) end
        if way == 2 then mw.watch(roots[i], hear(i), DEEP):cancel() end
        if way == 1 then expected[#expected + 1] = i end
      end
      leaf.x = 2
      leaf.x = 3
      assert.same(expected, heard)
      assert.is_true(mw.is_watched(leaf.more))
    end
  end)

  it("are silent once nobody waits, and heard again", function()
    local root, n = { a = { b = {} } }, 0
    local function hear() n = n + 1 end
    for _ = 1, 50 do
      mw.watch(root, hear, { deep = true, once = true })
      local handle = mw.watch(root, hear, DEEP)
      root.a.b.x = 1
      handle:cancel()
      root.a.b.x = 2
      root.a.b = {}
      root.a.b.x = 3
    end
    assert.equal(100, n)
    assert.is_true(mw.is_watched(root.a.b))
    assert.is_true(mw.unwatch(root))
    assert.is_false(mw.is_watched(root.a.b))
  end)
end)

describe("a table with much below it that moves", function()
  local function tree(depth)
    if depth == 0 then return { leaf = true } end
    return { tree(depth - 1), tree(depth - 1), up = {} }
  end

  local moves = {
    ["out and in"] = function(root, t)
      root.a.x = nil
      root.b.y = t
    end,
    ["in and out"] = function(root, t)
      root.b.y = t
      root.a.x = nil
    end,
    ["out, counted, and in"] = function(root, t)
      root.a.x = nil
      root.a.n = (root.a.n or 0) - 1
      root.b.y = t
    end,
    ["below a new table"] = function(root, t)
      root.a.x = nil
      root.b.y = { new = { t } }
    end,
    ["by table.remove"] = function(root, t)
      for i = 1, 10 do root.a[i] = { i } end
      table.insert(root.a, 1, t)
      root.a.x = nil
      table.insert(root.b, 1, table.remove(root.a, 1))
    end,
    ["in exchange"] = function(root, t)
      root.b.y = { 1 }
      root.a.x, root.b.y = root.b.y, t
    end,
    ["by a variable"] = function(root, t)
      root.b.y = { 1 }
      local other = root.b.y
      root.b.y, root.a.x = nil, nil
      root.a.x, root.b.y = other, t
    end,
  }

  for _, way in ipairs { "watched", "tracked" } do
    for name, move in pairs(moves) do
      it(("is not looked at again (%s, %s)"):format(way, name), function()
        local root, asked = { a = { x = tree(6) }, b = {} }, 0
        local t = root.a.x
        local leaf = t[1][2][1][2][1][2]
        local flag = mw.guard()
        if way == "watched" then
          mw.watch(root, flag, DEEP)
        else
          mw.track(root, { deep = true })
        end
        for _ = 1, 100 do mw.watch({ {} }, mw.guard(), DEEP) end
        local former = mw.policy { descend = function()
          asked = asked + 1
          return true
        end }:use()
        collectgarbage() -- roots that have died are found meanwhile
        move(root, t)
        former:use()
        assert.is_true(asked < 80, asked) -- there are 190 below
        if way == "watched" then
          flag:revalidate()
          leaf.x = 1
          assert.is_false(flag.valid)
        else
          local _, fx = mw.transaction(function() leaf.x = 1 end)
          assert.equal(1, fx:len())
        end
        mw.untrack(root)
        mw.unwatch(root)
        assert.is_nil(getmetatable(leaf))
      end)
    end

    it("is given back if it does not come back (" .. way .. ")", function()
      for _, wait in ipairs {
        function() mw.reap() end,
        function(root) for i = 1, 100 do root.other, root.other = {}, { i } end
        end,
        function(_, t) t.written = {} end,
        function() for _ = 1, 1000 do mw.id {} end end,
        function() mw.transaction(function() end) end,
      } do
        local root = { x = tree(6) }
        local t = root.x
        mw.watch(root, mw.guard(), DEEP)
        if way == "tracked" then
          mw.unwatch(root)
          mw.track(root, { deep = true })
        end
        root.x = nil
        wait(root, t)
        assert.is_nil(getmetatable(t))
        assert.is_nil(getmetatable(t[1][1][2]))
        local ok = mw.transaction(function()
          t.written = 5
          error "taken back"
        end)
        assert.is_false(ok)
        assert.equal(5, t.written)
        mw.untrack(root)
        mw.unwatch(root)
      end
    end)
  end

  it("does not belong to a transaction if it was out before", function()
    local root = { x = tree(3) }
    local t = root.x
    mw.track(root, { deep = true })
    root.x = nil
    local ok = mw.transaction(function()
      t[1][1].leaf = 5
      error "taken back"
    end)
    assert.is_false(ok)
    assert.equal(5, t[1][1].leaf)
  end)

  it("hears and is heard no more while it is out", function()
    local root, n = { a = { x = { y = {} } } }, 0
    mw.watch(root, function() n = n + 1 end, DEEP)
    local x, y = root.a.x, root.a.x.y
    root.a.x = nil
    n = 0
    y.z = 1
    x.z = 1
    assert.equal(0, n)
    assert.is_nil(getmetatable(x))
    root.a.x = x
    y.z = 2
    assert.equal(2, n)
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
      for i = 1, depth do must(path[i] == i) end
      assert.equal("x", path[depth + 1])
      assert.is_true(rawequal(at, written))
      assert.is_true(mw.unwatch(root))
      assert.is_nil(getmetatable(at))
    end
  end)
end)

describe("mw.paths", function()
  local function show(ways)
    local words = {}
    for i, way in ipairs(ways) do words[i] = dotted(way) end
    return table.concat(words, " ")
  end

  it("returns all ways, the shortest first", function()
    local leaf = {}
    local root = { a = { b = { leaf = leaf } } }
    mw.watch(root, mw.guard(), DEEP)
    assert.equal("a.b.leaf", show(mw.paths(root, leaf)))
    assert.equal("leaf", show(mw.paths(root.a.b, leaf)))
    root.x, root.a.y, leaf.root, leaf.self = leaf, leaf, root, leaf
    assert.equal("x a.y a.b.leaf", show(mw.paths(root, leaf)))
    assert.equal("root", show(mw.paths(leaf, root)))
    root.x = nil
    assert.equal("a.y a.b.leaf", show(mw.paths(root, leaf)))
    local key = {}
    root[key] = { [1.5] = leaf }
    local ways = mw.paths(root, leaf)
    assert.equal(3, #ways)
    for _, way in ipairs(ways) do
      local at = root
      for _, k in ipairs(way) do at = at[k] end
      assert.equal(leaf, at)
    end
    root[key], root.a = nil, nil
    assert.same({}, mw.paths(root, leaf))
    assert.same({ {} }, mw.paths(root, root))
  end)

  it("finds nothing where nothing is tracked, or is no table", function()
    local t = {}
    for _, v in ipairs { t, 1, "x", print, false } do
      assert.same({}, mw.paths({ t }, v))
      assert.same({}, mw.paths(v, {}))
    end
    assert.same({}, mw.paths(nil, nil))
  end)

  it("agrees with a walk over all ways", function()
    local function check_round()
      local objects = {}
      for i = 1, 7 do objects[i] = {} end
      local root = objects[1]
      mw.track(root, { deep = true })
      if math.random(2) == 1 then mw.watch(root, mw.guard(), DEEP) end
      for _ = 1, 60 do
        local obj = objects[math.random(#objects)]
        obj[math.random(3)] = math.random() < 0.7 and
          objects[math.random(#objects)] or nil
      end
      local target = objects[math.random(2, #objects)]
      local expected, seen = {}, {}
      local function walk(at, way)
        if rawequal(at, target) then
          expected[#expected + 1] = way
          return
        end
        seen[at] = true
        for k = 1, 3 do
          local child = at[k]
          if child and not seen[child] then walk(child, way .. k) end
        end
        seen[at] = nil
      end
      walk(root, "")
      local found, last = {}, 0
      for i, way in ipairs(mw.paths(root, target)) do
        found[i] = table.concat(way)
        assert.is_true(#way >= last)
        last = #way
      end
      table.sort(found)
      table.sort(expected)
      assert.same(expected, found)
    end
    for _ = 1, 200 do with_seed(check_round) end
  end)
end)

describe("a weak table", function()
  local function nothing() end
  local modes = { "k", "v", "kv" }
  local function weak_table(mode) return setmetatable({}, { __mode = mode }) end

  it("is not watched or tracked", function()
    local raised = "bad argument #1 to '%s' " ..
      "(a weak table loses entries without a write)"
    for _, mode in ipairs(modes) do
      misuse(raised:format "watch", mw.watch, weak_table(mode), nothing)
      misuse(raised:format "track", mw.track, weak_table(mode))
    end
    assert.is_table(mw.track(setmetatable({}, { __mode = "" })))
  end)

  it("below a root is a field as any, and nothing below it is entered",
    function()
      for _, mode in ipairs(modes) do
        for _, how in ipairs { "watched", "tracked" } do
          local kept, key = {}, {}
          local root = { cache = weak_table(mode), kept = kept }
          root.cache[key] = kept
          if how == "watched" then
            mw.watch(root, nothing, DEEP)
          else
            mw.track(root, { deep = true })
          end
          local later = weak_table(mode)
          root.later = later
          later[key] = kept
          assert.equal(key, next(later))
          assert.equal(key, next(root.cache))
          assert.is_nil(mw.paths(root, kept)[2])
          root.kept = nil
          mw.reap()
          assert.is_nil(getmetatable(kept))
        end
      end
    end)

  it("is what a watched table does not become", function()
    for _, deep in ipairs { false, true } do
      local root, class = { {} }, {}
      mw.track(root, { deep = deep })
      local obj = deep and root[1] or root
      misuse("bad argument #2 to 'setmetatable' (a watched table cannot " ..
        "become weak: it would lose entries without a write)",
        mw.setmetatable, obj, { __mode = "k" })
      mw.setmetatable(obj, class)
      class.__mode = "k"
      misuse("bad argument #1 to 'refresh' (its watched objects cannot " ..
        "become weak)", mw.refresh, class)
      class.__mode = nil
      assert.equal(1, mw.refresh(class))
    end
  end)
end)

describe("classes below a deep root", function()
  local intercepts = require "moonwatch.core".private.intercepts
  local styles = {}
  for name, style in pairs(require "spec.support.styles") do
    styles[name] = style
  end

  -- A class is its own metatable and holds its instances' class.
  styles["30log"] = {}
  styles["30log"].make = function(name, base)
    local class = { name = name, super = base }
    class.__index = class
    return setmetatable(class, {
      __index = base,
      __call = function(_, ...)
        return setmetatable({ class = class, ... }, class)
      end,
    })
  end
  styles["30log"].construct = function(class, ...) return class(...) end

  -- Methods are looked up by a function.
  styles.looked_up = {}
  styles.looked_up.make = function()
    local class = { methods = {} }
    class.__index = function(_, key) return class.methods[key] end
    return class
  end
  styles.looked_up.construct = function(class)
    return setmetatable({ class = class }, class)
  end

  -- A metatable of metamethods alone, and a prototype.
  styles.prototype = {}
  styles.prototype.make = function(name) return { name = name } end
  styles.prototype.construct = function(class)
    return setmetatable({ prototype = class }, { __index = class })
  end

  local function new(style, base)
    local class = style.make("Orc", base)
    local object = style.construct(class)
    rawset(object, "pos", { x = 0 })
    return object, class
  end

  local function assert_plain(class, fields)
    assert.is_false(mw.is_watched(class))
    assert.is_false(intercepts(class))
    local n = 0
    for _ in next, class do n = n + 1 end
    assert.equal(fields, n)
  end

  local function fields_of(class)
    local n = 0
    for _ in next, class do n = n + 1 end
    return n
  end

  local ways = {
    watched = function(obj)
      mw.watch(obj, mw.guard(), { deep = true, once = false })
    end,
    tracked = function(obj) mw.track(obj, { deep = true }) end,
  }

  local function finish(obj)
    mw.untrack(obj)
    mw.unwatch(obj)
    assert.is_nil(getmetatable(rawget(obj, "pos") or {}))
  end

  for name, style in pairs(styles) do
    for way, begin in pairs(ways) do
      local function with(what, f)
        it(("%s (%s, %s)"):format(what, name, way), f)
      end

      with("are not entered", function()
        local object, class = new(style)
        local n = fields_of(class)
        object.class, object.kind = class, class
        begin(object)
        assert_plain(class, n)
        assert.is_true(intercepts(object.pos))
        local ok, fx = mw.transaction(function()
          object.pos.x = 5
          rawset(class, "count", 7)
          class.extra = 1
        end)
        assert.is_true(ok)
        assert.equal(1, fx:len())
        object.later = class
        object.later = { class }
        assert.is_false(intercepts(class))
        finish(object)
      end)

      with("are let go when they are found later", function()
        for order = 1, 2 do
          local object, class = new(style)
          local n = fields_of(class)
          object.class = class
          local root = { order == 1 and class or object,
            order == 1 and object or class, in_a = { list = { class } } }
          begin(root)
          mw.reap()
          assert_plain(class, n)
          assert.is_true(intercepts(object.pos))
          finish(root)
        end
      end)

      with("are let go when their first object comes", function()
        local object, class = new(style)
        local n = fields_of(class)
        object.class = class
        local root = { { class } }
        begin(root)
        assert.is_true(intercepts(class))
        root.object = object
        mw.reap()
        assert_plain(class, n)
        assert.is_true(intercepts(object.pos))
        finish(root)
      end)

      with("may hold their objects", function()
        local object, class = new(style)
        object.class = class
        rawset(class, "instance", object)
        local n = fields_of(class)
        local root = {}
        begin(root)
        root.class = class
        mw.reap()
        assert.equal(class, root.class)
        assert_plain(class, n)
        root.object = object
        assert.is_true(intercepts(object.pos))
        assert_plain(class, n)
        finish(root)
      end)

      with("may be roots themselves", function()
        local object, class = new(style)
        object.class = class
        rawset(class, "instance", object)
        begin(class)
        assert.is_true(intercepts(class))
        assert.is_true(intercepts(object.pos))
        mw.untrack(class)
        mw.unwatch(class)
        assert.is_false(intercepts(object.pos))
      end)
    end
  end

  it("are let go when an object gets the class", function()
    local class = { name = "Class" }
    class.__index = class
    local root = { class = class, object = { pos = {} } }
    mw.watch(root, mw.guard(), DEEP)
    assert.is_true(mw.is_watched(class))
    mw.setmetatable(root.object, class)
    mw.reap()
    assert_plain(class, 2)
    assert.equal("Class", root.object.name)
  end)

  it("may inherit from each other", function()
    local base = { name = "Base" }
    base.__index = base
    local middle = setmetatable({ super = base }, base)
    middle.__index = middle
    local class = setmetatable({ super = middle }, middle)
    class.__index = class
    local root = { base = base, { setmetatable({ class = class }, class) },
      middle = middle }
    mw.watch(root, mw.guard(), DEEP)
    mw.reap()
    assert_plain(base, 2)
    assert_plain(middle, 2)
    assert_plain(class, 2)
    assert.equal("Base", root[1][1].name)
    mw.unwatch(root)
  end)

  it("are the tables of Lua itself, too", function()
    local root = { env = { print = print, _G = _G }, string = string,
      package = package, loaded = package.loaded, search = package.searchers }
    mw.watch(root, mw.guard(), DEEP)
    assert.is_true(mw.is_watched(root.env))
    for _, its in ipairs { _G, string, package, package.loaded,
      package.searchers } do
      assert.is_false(mw.is_watched(its))
      assert.is_not_nil(next(its))
    end
    local ok, message = pcall(require, "no such module")
    assert.is_false(ok)
    assert.matches("module 'no such module' not found", message)
    mw.unwatch(root)
  end)

  it("are what has a name, before there is an object", function()
    local base = { name = "Base" }
    local class = setmetatable({ name = "Named" }, { __index = base })
    local root = { class, base = base, late = { name = "Late" } }
    mw.name_class("deep.Named", class)
    mw.track(root, { deep = true })
    assert_plain(class, 1)
    assert_plain(base, 1)
    mw.name_class("deep.Late", root.late)
    mw.reap()
    assert_plain(root.late, 1)
    mw.untrack(root)
  end)

  it("are not what is merely called so", function()
    local root = { class = { name = "wizard" }, _class = {} }
    mw.watch(setmetatable(root, {}), mw.guard(), DEEP)
    assert.is_true(mw.is_watched(root.class))
    assert.is_true(mw.is_watched(root._class))
    mw.unwatch(root)
  end)
end)

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

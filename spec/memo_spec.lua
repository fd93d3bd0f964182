local mw = require "moonwatch"
local support = require "support"
local error_of = require "spec.support.error_of"
local worlds = require "spec.support.worlds"

local STAY = { once = false }

describe("mw.memo", function()
  it("computes again only after a dependency was written to", function()
    local a, b, n = { x = 1 }, { y = 2 }, 0
    local sum = mw.memo(function()
      n = n + 1
      return a.x + b.y, nil, "more", nil
    end, a, b)
    assert.equal(0, n)
    assert.is_false(sum:valid())
    assert.same({ 3, nil, "more", nil, n = 4 }, table.pack(sum()))
    assert.same({ 3, nil, "more", nil, n = 4 }, table.pack(sum()))
    assert.equal(1, n)
    assert.is_true(sum:valid())
    b.y = 5
    assert.is_false(sum:valid())
    assert.equal(6, (sum()))
    a.x = 2
    assert.equal(7, (sum()))
    assert.equal(3, n)
  end)

  it("can be made invalid by hand", function()
    local n = 0
    local memo = mw.memo(function() n = n + 1 return n end)
    assert.equal(1, memo())
    memo:invalidate()
    assert.is_false(memo:valid())
    assert.equal(2, memo())
  end)

  it("watches again what was unwatched", function()
    local a, b, n = { x = 1 }, { x = 1 }, 0
    local memo = mw.memo(function() n = n + 1 return a.x + b.x end, a, b)
      :on(b, { deep = true })
    assert.equal(2, memo())
    for value = 2, 3 do
      mw.unwatch(a)
      mw.unwatch(b)
      assert.is_false(memo:valid())
      a.x = value
      assert.equal(value + 1, memo())
      assert.equal(value + 1, memo())
      assert.equal(value, n)
    end
    a.x = 7
    assert.equal(8, memo())
    b.x = { 1 }
    assert.is_false(memo:valid())
  end)

  it("watches again what is unwatched while its function runs", function()
    local a, again = { x = 1 }, true
    local memo = mw.memo(function()
      local x = a.x
      if again then mw.unwatch(a) end
      return x
    end, a)
    assert.equal(1, memo())
    assert.is_false(memo:valid())
    a.x, again = 2, false
    assert.equal(2, memo())
    a.x = 3
    assert.equal(3, memo())
  end)

  it("keeps its results when dependencies die", function()
    local n, weak = 0, setmetatable({}, { __mode = "k" })
    local kept, memo = { x = 1 }
    do
      local a, b = { x = 1 }, support.userdata { __newindex = print }
      weak[a], weak[b] = true, true
      memo = mw.memo(function() n = n + 1 return kept.x end, a, kept, b)
      memo:on(a, { when = nil, keys = { "x", a } })
    end
    assert.equal(1, memo())
    collectgarbage()
    collectgarbage()
    mw.reap()
    assert.is_nil(next(weak))
    assert.is_true(memo:valid())
    assert.equal(1, memo())
    assert.equal(1, n)
    kept.x = 2
    assert.equal(2, memo())
    assert.equal(2, memo())
    assert.equal(2, n)
  end)

  it("is up to date within a batch", function()
    local a = { x = 1 }
    local memo = mw.memo(function() return a.x end, a)
    assert.equal(1, memo())
    mw.batch(function()
      a.x = 2
      assert.equal(2, memo())
    end)
  end)

  it("is invalid when its function failed, or wrote to a dependency", function()
    local a = { x = 1 }
    local memo = mw.memo(function()
      if a.x == 1 then error("not yet", 0) end
      a.y = 1
      return a.x
    end, a)
    assert.equal("not yet", error_of(memo))
    assert.is_false(memo:valid())
    a.x = 2
    assert.equal(2, memo())
    assert.is_false(memo:valid())
  end)

  it("goes by userdata as well", function()
    local store = { x = 1 }
    local object = support.userdata {
      __index = store, __newindex = store,
    }
    local memo = mw.memo(function() return object.x end, object)
    assert.equal(1, memo())
    object.x = 2
    assert.equal(2, memo())
    mw.unwatch(object)
  end)

  it("keeps neither its dependencies alive, nor they it", function()
    local weak = setmetatable({}, { __mode = "k" })
    local a = {}
    do
      local b = {}
      weak[b] = true
      weak[mw.memo(function() end, a, b)] = true
    end
    collectgarbage()
    assert.is_nil(next(weak))
    a.x = 1
  end)

  it("takes no arguments", function()
    local memo = mw.memo(function(...) return select("#", ...) end)
    assert.equal(0, memo())
    assert.matches("memo_spec.lua:%d+: bad argument #1 to 'memo' " ..
      "%(no argument expected, got number%)$",
      error_of(function() memo(1) end))
    assert.matches("%(no argument expected, got nil%)$",
      error_of(function() memo(nil) end))
  end)

  it("returns results that its function did not keep, and any error", function()
    local a, err = { x = 1 }, {}
    local memo = mw.memo(function()
      a.x = a.x + 1
      if a.x == 4 then error(err) end
      return a.x
    end, a)
    assert.equal(2, memo())
    assert.equal(3, memo())
    assert.equal(err, error_of(memo))
    assert.equal(5, memo())
    assert.is_false(memo:valid())
  end)

  it("raises for wrong arguments, at the caller's line", function()
    assert.matches("memo_spec.lua:%d+: bad argument #1 to 'memo' " ..
      "%(function expected, got nil%)", error_of(function() mw.memo() end))
    local a = {}
    assert.matches("memo_spec.lua:%d+: bad argument #3 to 'memo' " ..
      "%(table or userdata with a metatable expected, got number%)",
      error_of(function() mw.memo(print, a, 1) end))
    assert.is_false(mw.is_watched(a))
  end)
end)

describe("a memo that a guard asks", function()
  -- Each writes 10 to the field x of an object that has 2 there.
  local ways = {}

  function ways.assignment(o) o.x = 10 end
  function ways.batch(o) mw.batch(function() o.x = 10 end) end
  function ways.transaction(o)
    mw.transaction(function() o.x = 10 end)
  end
  function ways.rollback(o)
    o.x = 10
    mw.transaction(function(tx)
      o.x = 3
      tx:rollback()
    end)
  end
  function ways.undo(o)
    o.x = 10
    local _, fx = mw.transaction(function() o.x = 3 end)
    fx:rollback()
  end
  function ways.apply(o)
    mw.track(o)
    local _, fx = mw.transaction(function() o.x = 10 end)
    fx:rollback()
    fx:apply()
  end

  local objects = {}

  function objects.table() return { x = 2 } end
  function objects.class()
    return setmetatable({}, { __index = { x = 2 } })
  end
  function objects.userdata()
    local store = { x = 2 }
    return support.userdata { __index = store, __newindex = store }
  end
  -- Its class calls the memo before and after storing.
  function objects.asking(ask)
    return setmetatable({}, {
      __index = { x = 2 },
      __newindex = function(t, k, v)
        ask()
        rawset(t, k, v)
        ask()
      end,
    })
  end

  for name, way in pairs(ways) do
    for style, new in pairs(objects) do
      for _, phase in ipairs { "before", "after" } do
        for _, deep in ipairs { false, true } do
          if not (style == "userdata" and (deep or name == "apply")) then
            it(("is right afterwards (%s, %s, %s%s)"):format(name, style,
              phase, deep and ", deep" or ""), function()
                local memos, asked = {}, 0
                local function ask()
                  for _, memo in ipairs(memos) do memo() end
                end
                local o = new(ask)
                local root = { { o } }
                local function read()
                  return o.x
                end
                memos[1] = mw.memo(read, o)
                memos[2] = mw.memo(read):on(root, { deep = true })
                memos[3] = mw.memo(read):on(o, { key = "x" })
                memos[4] = mw.memo(read):on(o, { equal = "skip" })
                for i = 1, 4 do
                  local below = memos[i]
                  memos[i + 4] = mw.memo(function() return below() end, below)
                end
                if style == "userdata" then memos[2] = memos[1] end
                ask()
                mw.watch(deep and root or o, function()
                  asked = asked + 1
                  ask()
                end, { once = false, phase = phase, deep = deep })
                way(o)
                assert.is_true(asked > 0)
                for i, memo in ipairs(memos) do
                  if not (style == "userdata" and (i == 2 or i == 6)) then
                    assert.equal(10, memo(), i)
                  end
                end
                mw.untrack(o)
                mw.unwatch(o)
              end)
          end
        end
      end
    end
  end

  it("is stale before the first guard, and after the store too", function()
    local o = { x = 1 }
    local memo = mw.memo(function() return o.x end, o)
    local seen = {}
    local function see() seen[#seen + 1] = memo() end
    mw.watch(o, see, { once = false })
    mw.watch(o, see, { once = false, phase = "after" })
    memo()
    o.x = 2
    assert.same({ 1, 2 }, seen)
    assert.is_true(memo:valid())
    assert.equal(2, memo())
  end)

  it("is right though the class stores and then raises", function()
    local memo
    local o = setmetatable({ x = nil }, { __newindex = function(t, k, v)
      memo()
      rawset(t, k, v)
      error("stored", 0)
    end })
    memo = mw.memo(function() return o.x end, o)
    assert.is_nil(memo())
    assert.equal("stored", error_of(function() o.x = 1 end))
    assert.equal(1, memo())
  end)


  it("of another object has its restored value", function()
    local a, b = { x = 1 }, { x = 1 }
    local of_a = mw.memo(function() return a.x end, a)
    local of_b = mw.memo(function() return b.x end, b)
    local seen = {}
    for _, o in ipairs { a, b } do
      mw.watch(o, function(_, _, _, _, kind)
        if kind == "rollback" then seen[#seen + 1] = of_a() + of_b() end
      end, { once = false })
    end
    mw.transaction(function(tx)
      a.x, b.x = 5, 5
      assert.equal(10, of_a() + of_b())
      tx:rollback()
    end)
    assert.same({ 2, 2 }, seen)
  end)
end)

describe("a memo in coroutines", function()
  local function wrap(memo)
    return coroutine.wrap(function() return memo() end)
  end

  it("keeps no results of a run that a write has overtaken", function()
    local source = { value = 1 }
    local fetch = mw.memo(function()
      local value = source.value
      coroutine.yield()
      return value
    end, source)
    local first = wrap(fetch)
    first()
    source.value = 2
    local second = wrap(fetch)
    second()
    assert.equal(2, second())
    assert.is_true(fetch:valid())
    assert.equal(1, first())
    assert.equal(2, fetch())
  end)

  it("keeps none when a memo above began anew meanwhile", function()
    local source, n = { value = 1 }, 0
    local fetch = mw.memo(function()
      n = n + 1
      local value = source.value
      if n == 1 then coroutine.yield() end
      return value
    end, source)
    local above = mw.memo(function() return 0 end, fetch)
    local first = wrap(fetch)
    first()
    source.value = 2
    assert.equal(0, above()) -- does not ask for the other one
    assert.equal(1, first())
    assert.equal(2, fetch())
  end)

  it("keeps the results of one of two runs without a write between", function()
    local source, n = { value = 1 }, 0
    local fetch = mw.memo(function()
      n = n + 1
      coroutine.yield()
      return source.value
    end, source)
    local first, second = wrap(fetch), wrap(fetch)
    first()
    second()
    assert.equal(1, first())
    assert.equal(1, second())
    assert.equal(1, fetch())
    assert.equal(2, n)
  end)

  it("is not harmed by a run that never ends", function()
    local source = { value = 1 }
    local stop = true
    local fetch = mw.memo(function()
      if stop then coroutine.yield() end
      return source.value
    end, source)
    wrap(fetch)()
    stop = false
    assert.equal(1, fetch())
    source.value = 2
    assert.equal(2, fetch())
    assert.is_true(fetch:valid())
  end)
end)

describe("memo:on", function()
  local function counted(fn)
    local count = { n = 0 }
    return mw.memo(function()
      count.n = count.n + 1
      return fn and fn()
    end), count
  end

  it("narrows a dependency to a key, or keys", function()
    local o = { a = 1, b = 2, c = 3 }
    local memo, count = counted(function() return o.a end)
    assert.equal(memo, memo:on(o, { key = "a" }))
    assert.equal(1, memo())
    o.b = 5
    assert.is_true(memo:valid())
    o.a = 2
    assert.equal(2, memo())
    memo:on(o, { keys = { "c", 1 } })
    assert.is_false(memo:valid())
    memo()
    o.b = 6
    memo()
    assert.equal(3, count.n)
    o[1] = 1
    assert.is_false(memo:valid())
  end)

  it("widens a dependency to all that is below", function()
    local o = { list = { { x = 1 } } }
    local memo = counted(function() return o.list[1].x end):on(o,
      { deep = true })
    assert.equal(1, memo())
    o.list[1].x = 2
    assert.equal(2, memo())
    o.list = { { x = 3 } }
    assert.equal(3, memo())
    o.list[1].x = 4
    assert.equal(4, memo())
  end)

  it("can leave out writes of the same value, in a batch too", function()
    local o = { x = 1 }
    local memo, count = counted(function() return o.x end)
    memo:on(o, { equal = "skip" })
    memo()
    o.x = 1
    assert.is_true(memo:valid())
    mw.batch(function()
      o.x = 1
      assert.is_true(memo:valid())
      o.x = 2
      assert.equal(2, memo())
      o.x = 1
      assert.equal(1, memo())
    end)
    assert.equal(1, memo())
    assert.equal(3, count.n)
  end)

  it("asks `when`, and is stale at once in a batch", function()
    local o = { x = 1 }
    local memo, count = counted(function() return o.x end)
    local told = {}
    memo:on(o, { when = function(obj, key, old, new, kind)
      told[#told + 1] = ("%s %s>%s %s"):format(key, old, new, kind)
      assert.equal(o, obj)
      return new > 10
    end })
    memo()
    o.x = 5
    assert.is_true(memo:valid())
    o.x = 11
    assert.equal(11, memo())
    mw.batch(function()
      o.x = 7
      assert.is_true(memo:valid())
      o.x = 12
      assert.equal(12, memo())
    end)
    assert.is_true(memo:valid())
    assert.equal(3, count.n)
    assert.same({ "x 1>5 update", "x 5>11 update", "x 11>7 update",
      "x 7>12 update" }, told)
    mw.watch(o, function() memo() end, STAY)
    o.x = 20
    assert.equal(20, memo())
    mw.unwatch(o)
    assert.is_false(memo:valid())
    o.x = 21
    assert.equal(21, memo())
    o.x = 22
    assert.equal(22, memo())
  end)

  it("asks `when` of what is below, too", function()
    local o = { { hp = 3 }, { hp = 4 } }
    local memo = counted(function() return o[1].hp + o[2].hp end):on(o,
      { deep = true, when = function(_, key) return key == "hp" end })
    assert.equal(7, memo())
    o[1].name = "x"
    assert.is_true(memo:valid())
    o[2].hp = 1
    assert.equal(4, memo())
  end)

  it("raises an error of `when` from the write, as one of a guard", function()
    local o = { x = 1 }
    local memo = counted(function() return o.x end):on(o, { when = error })
    memo()
    assert.is_false((pcall(function() o.x = 2 end)))
    assert.equal(2, o.x)
  end)

  it("takes all fields without options", function()
    local o = { x = 1 }
    local memo = counted(function() return o.x end):on(o)
    assert.equal(1, memo())
    o.x = 2
    assert.equal(2, memo())
  end)

  it("does not keep the object, though an option refers to it", function()
    local weak = setmetatable({}, { __mode = "k" })
    local memo = counted()
    do
      local o = {}
      weak[o] = true
      memo:on(o, { keys = { "x", o } })
    end
    memo()
    collectgarbage()
    assert.is_nil(next(weak))
    assert.is_true(memo:valid())
  end)

  it("copies the options", function()
    local o, opts = { x = 1 }, { key = "x" }
    local memo = counted(function() return o.x end):on(o, opts)
    assert.is_nil(opts.once)
    opts.key = "y"
    memo()
    mw.unwatch(o)
    assert.equal(1, memo())
    o.x = 2
    assert.equal(2, memo())
  end)

  it("raises for wrong arguments, at the caller's line", function()
    local memo, o = counted(), {}
    local function misuse(expected, ...)
      local args = table.pack(...)
      local err = error_of(function()
        memo:on(table.unpack(args, 1, args.n))
      end)
      assert.matches("memo_spec.lua:%d+: ", err)
      assert.equal(expected, err:match ": (.*)")
    end
    misuse("bad argument #1 to 'on' (table or userdata with a metatable " ..
      "expected, got nil)", nil)
    misuse("bad argument #1 to 'on' (a memo cannot be watched)", counted())
    misuse("bad argument #2 to 'on' (table expected, got number)", o, 1)
    misuse("bad argument #2 to 'on' (unknown option 'once')", o,
      { once = true })
    misuse("bad argument #2 to 'on' (unknown option 'phase')", o,
      { phase = "after" })
    misuse("bad argument #2 to 'on' (unknown option '(a number)')", o, { 1 })
    misuse("bad argument #2 to 'on' (option 'keys' is not an array of keys)",
      o, { keys = {} })
    misuse("bad argument #2 to 'on' (option 'deep' is for tables)",
      support.userdata { __newindex = print }, { deep = true })
    assert.equal("bad argument #1 to 'on' (clock cannot be watched)",
      error_of(function() memo:on(mw.clock()) end):match ": (.*)")
    assert.matches("calling 'on' on bad self %(memo expected, got table%)",
      error_of(function() memo.on({}, o) end))
    memo()
    assert.is_true(memo:valid())
    assert.is_false(mw.is_watched(o))
  end)
end)

describe("memos of memos", function()
  local function counting(fn, ...)
    local count = { n = 0 }
    return mw.memo(function()
      count.n = count.n + 1
      return fn()
    end, ...), count
  end

  it("are out of date when one of them is, and compute what changed",
    function()
      local a, b = { x = 1 }, { x = 10 }
      local of_a, n_a = counting(function() return a.x end, a)
      local of_b, n_b = counting(function() return b.x end, b)
      local sum, n_sum = counting(function() return of_a() + of_b() end,
        of_a, of_b)
      local top, n_top = counting(function() return -sum() end, sum)
      assert.equal(-11, top())
      assert.equal(-11, top())
      a.x = 2
      assert.is_false(of_a:valid() or sum:valid() or top:valid())
      assert.is_true(of_b:valid())
      assert.equal(-12, top())
      assert.same({ 2, 1, 2, 2 }, { n_a.n, n_b.n, n_sum.n, n_top.n })
      of_b:invalidate()
      assert.is_false(sum:valid() or top:valid())
      assert.equal(12, sum())
      assert.is_false(top:valid())
      assert.equal(-12, top())
      assert.same({ 2, 2, 3, 3 }, { n_a.n, n_b.n, n_sum.n, n_top.n })
    end)

  it("with objects beside them", function()
    local a, o = { x = 1 }, { y = 1 }
    local below = mw.memo(function() return a.x end, a)
    local memo = mw.memo(function() return below() + o.y end, o, below)
    assert.equal(2, memo())
    o.y = 2
    assert.equal(3, memo())
    a.x = 5
    assert.equal(7, memo())
  end)

  it("hear of a memo that they did not ask the last time", function()
    local o, n = { x = 1 }, 0
    local below = counting(function() return o.x end, o)
    local memo = mw.memo(function()
      n = n + 1
      return o.x < 3 and "low" or below()
    end, below)
    assert.equal("low", memo())
    o.x = 2
    assert.equal("low", memo())
    o.x = 3
    assert.equal(3, memo())
    o.x = 4
    assert.equal(4, memo())
    assert.equal(4, n)
  end)

  it("do not compute what nobody asks for", function()
    local o = { x = 1 }
    local below, n = counting(function() return o.x end, o)
    local memo = mw.memo(function() return 1 end, below)
    memo()
    o.x = 2
    memo()
    assert.equal(0, n.n)
  end)

  it("hear of the objects of a memo that is gone", function()
    local o, weak = { x = 1 }, setmetatable({}, { __mode = "k" })
    local memo
    do
      local lowest = mw.memo(function() end, o)
      local middle = mw.memo(function() end, lowest)
      memo = mw.memo(function() return o.x end, middle)
      weak[lowest], weak[middle] = true, true
      assert.equal(1, memo())
    end
    collectgarbage()
    collectgarbage()
    mw.reap()
    assert.is_nil(next(weak))
    for i = 2, 4 do
      assert.is_true(memo:valid())
      o.x = i
      assert.equal(i, memo())
    end
    mw.unwatch(o)
    o.x = 5
    assert.equal(5, memo())
    o.x = 6
    assert.equal(6, memo())
  end)

  it("go when nobody has them, and those below stay", function()
    local o, weak = { x = 1 }, setmetatable({}, { __mode = "k" })
    local below = mw.memo(function() return o.x end, o)
    do
      local above = mw.memo(function() return below() end, below)
      weak[above] = true
      above()
    end
    collectgarbage()
    mw.reap()
    assert.is_nil(next(weak))
    o.x = 2
    assert.equal(2, below())
  end)

  it("are stale at once in a batch", function()
    local o = { x = 1 }
    local below = mw.memo(function() return o.x end, o)
    local memo = mw.memo(function() return below() + 1 end, below)
    memo()
    mw.batch(function()
      o.x = 2
      assert.equal(3, memo())
    end)
    assert.is_true(memo:valid())
  end)

  it("try again after an error below", function()
    local o, n = { x = 1 }, 0
    local below = mw.memo(function()
      n = n + 1
      if o.x == 2 then error("two", 0) end
      return o.x
    end, o)
    local memo = mw.memo(function() return below() end, below)
    assert.equal(1, memo())
    o.x = 2
    for _ = 1, 3 do assert.equal("two", error_of(memo)) end
    assert.equal(4, n)
    o.x = 3
    assert.equal(3, memo())
    assert.equal(5, n)
  end)

  local N = 20000

  it("may be a long chain", function()
    local o, n = { x = 1 }, 0
    local chain = {}
    for i = 1, N do
      local below = chain[i - 1]
      chain[i] = mw.memo(function()
        n = n + 1
        local value = below and below() or o.x
        if value == -i then error("below 0", 0) end
        return value
      end, below or o)
    end
    assert.equal(1, chain[N]())
    assert.equal(N, n)
    o.x = 2
    assert.is_false(chain[N]:valid())
    assert.equal(2, chain[N]())
    assert.equal(2 * N, n)
    n = 0
    chain[N - 10]:invalidate()
    assert.equal(2, chain[N]())
    assert.equal(11, n)
    o.x = -1
    for _ = 1, 3 do assert.equal("below 0", error_of(chain[N])) end
    o.x = -50
    for _ = 1, 3 do assert.equal("below 0", error_of(chain[N])) end
    n = 0
    o.x = 3
    assert.equal(3, chain[N]())
    assert.equal(N, n)
    mw.batch(function()
      o.x = 4
      assert.equal(4, chain[N]())
    end)
  end)

  it("may be a long chain of which each coroutine computes a part", function()
    local o, chain = { x = 1 }, {}
    for i = 1, 200 do
      local below = chain[i - 1]
      chain[i] = mw.memo(function()
        local value = below and below() or o.x
        coroutine.yield()
        return value
      end, below or o)
    end
    local runs = {}
    for i = 1, 10 do
      runs[i] = coroutine.create(function() return chain[200]() end)
    end
    local ended = 0
    for turn = 1, 100000 do
      for i = #runs, 1, -1 do
        local _, value = coroutine.resume(runs[i])
        if coroutine.status(runs[i]) == "dead" then
          table.remove(runs, i)
          ended = ended + 1
          assert.is_true(value >= 1 and value <= 5)
        end
      end
      if turn % 40 == 0 and o.x < 5 then o.x = o.x + 1 end
      if ended == 10 then break end
    end
    assert.equal(10, ended)
    local last = coroutine.wrap(function() return chain[200](), "end" end)
    local value, done
    repeat value, done = last() until done
    assert.equal(5, value)
  end)

  it("may be many above one, and one above many", function()
    local o, all = { x = 1 }, {}
    local source = mw.memo(function() return o.x end, o)
    for i = 1, 1000 do
      all[i] = counting(function() return source() + i end, source)
    end
    local total, n = counting(function()
      local sum = 0
      for i = 1, #all do sum = sum + all[i]() end
      return sum
    end, table.unpack(all))
    assert.equal(501500, total())
    o.x = 2
    assert.is_false(total:valid())
    assert.equal(502500, total())
    all[500]:invalidate()
    assert.equal(502500, total())
    assert.equal(3, n.n)
  end)

  it("may be a tower of diamonds", function()
    local o, n = { x = 1 }, 0
    local top = mw.memo(function() return o.x end, o)
    for _ = 1, 100 do
      local below = top
      local function one()
        n = n + 1
        return below()
      end
      local left, right = mw.memo(one, below), mw.memo(one, below)
      top = mw.memo(function() return (left() + right()) // 2 end, left, right)
    end
    assert.equal(1, top())
    assert.equal(200, n)
    o.x = 7
    assert.equal(7, top())
    assert.equal(400, n)
  end)
end)

describe("memos", function()
  it("are what their functions are, in random programs (SEED=" ..
    worlds.seed .. ")", function()
      worlds.each(150, function(random, message)
        local objects, memos, truths, runs = {}, {}, {}, {}
        for i = 1, 4 do
          objects[i] = { x = i, y = {} }
          if i == 2 then
            local store = { x = i }
            objects[i] = support.userdata { __index = store,
              __newindex = store }
          elseif i == 3 then
            objects[i] = setmetatable({}, { __index = { x = 3 },
              __newindex = function(t, k, v)
                -- a memo that watches `t` from here on does not see the rawset
                if mw.is_watched(t) then memos[1]() end
                rawset(t, k, v)
              end })
          end
        end
        for i = 1, 40 do
          local deps, reads = {}, {}
          for d = 1, random(3) do
            local j = random(#memos + 2)
            local o = objects[random(4)]
            deps[d] = memos[j] or o
            reads[d] = truths[j] and { memos[j], truths[j] } or
              { function() return o.x end, function() return o.x end }
          end
          local function read(which)
            local sum = 0
            for _, two in ipairs(reads) do sum = sum + two[which]() end
            return sum % 1000
          end
          runs[i] = 0
          memos[i] = mw.memo(function()
            runs[i] = runs[i] + 1
            return read(1)
          end, table.unpack(deps))
          truths[i] = function() return read(2) end
        end
        local function ask(always)
          local i = random(#memos)
          local value, n = memos[i](), runs[i]
          if not always then return end
          assert.equal(truths[i](), value, message)
          assert.equal(value, memos[i](), message)
          assert.equal(n, runs[i], message)
        end
        for _ = 1, random(4) do
          mw.watch(objects[random(4)], function() ask(false) end, {
            once = random(2) == 1, phase = random(2) == 1 and "after" or
              "before",
          })
        end
        local function write() objects[random(4)].x = random(1000) end
        for _ = 1, 60 do
          local deed = random(12)
          if deed <= 5 then
            write()
          elseif deed == 6 then
            memos[random(#memos)]:invalidate()
          elseif deed == 7 then
            mw.unwatch(objects[random(4)])
          elseif deed == 8 then
            mw.batch(function()
              for _ = 1, random(3) do
                write()
                ask(true)
              end
            end)
          elseif deed == 9 then
            local o = objects[random(4)]
            mw.track(o)
            mw.transaction(function(tx)
              o.x = random(1000)
              ask(true)
              if random(2) == 1 then tx:rollback() end
            end)
            mw.untrack(o)
          else
            ask(true)
          end
        end
        for _ = 1, 40 do ask(true) end
        for _, o in ipairs(objects) do mw.unwatch(o) end
      end)
    end)
end)

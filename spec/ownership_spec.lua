-- Who owns a write, and what a rollback leaves, where writers take turns.

local raw_of = require "spec.support.raw_of"
local growth = require "spec.support.growth"
local mw = require "moonwatch"
local show = require "spec.support.show"

-- Returns a function that calls its argument in a coroutine, which has a
-- transaction, and a function that ends the transaction.
local function writer()
  local tx
  local co = coroutine.wrap(function()
    tx = mw.begin()
    while true do coroutine.yield()() end
  end)
  co()
  return co, function(how)
    local ending = tx
    tx = nil
    return ending[how](ending)
  end
end

describe("effects of a write to a field whose earlier write is taken back",
  function()
    local values = { 5, "text", ("long "):rep(20), 1.5, false, {}, print }

    it("have the value from before both", function()
      for _, old in ipairs(values) do
        for _, between in ipairs(values) do
          local obj, inner = mw.track { x = old }, nil
          local first, end_first = writer()
          local second, end_second = writer()
          first(function() obj.x = between end)
          second(function()
            inner = mw.begin()
            obj.x = "last"
            inner = inner:commit()
          end)
          end_first "rollback"
          local fx = end_second "commit"
          local e = fx:entries()()
          assert.equal(old, e.old)
          assert.equal("update", e.kind)
          assert.equal(between, inner:entries()().old) -- as it was then
          fx:rollback()
          assert.equal(old, obj.x)
          assert(fx:apply())
          assert.equal("last", obj.x)
        end
      end
    end)

    it("have it, too, where somebody has written for good since", function()
      for _, old in ipairs(values) do
        local obj = mw.track { x = old }
        local writers, ends = {}, {}
        for i = 1, 4 do writers[i], ends[i] = writer() end
        writers[1](function() obj.x = "one" end)
        writers[2](function() obj.x = "two" end)
        writers[3](function() obj.x = "three" end)
        obj.x = "main"
        writers[1](function() obj.x = "one again" end)
        writers[4](function() obj.x = "four" end)
        ends[1] "rollback"
        ends[2] "rollback"
        assert.equal("four", obj.x)
        local fx = ends[3] "commit"
        assert.equal("three", fx:entries()().new)
        assert.equal(old, fx:entries()().old)
        assert.equal("four", obj.x)
        assert.equal("main", ends[4] "commit":entries()().old)
        fx:rollback()
        assert.equal(old, obj.x)
      end
    end)

    it("have what another one has committed since", function()
      local obj = mw.track { x = 0 }
      local writers, ends = {}, {}
      for i = 1, 4 do writers[i], ends[i] = writer() end
      for i = 1, 4 do writers[i](function() obj.x = i end) end
      ends[3] "commit"
      ends[1] "rollback"
      assert.equal(0, ends[2] "rollback":entries()().old)
      assert.equal(3, ends[4] "rollback":entries()().old)
      assert.equal(3, obj.x)
    end)

    it("have its kind, and not what changes nothing by then", function()
      local obj = mw.track { gone = 1, kept = 1 }
      local first, end_first = writer()
      local second, end_second = writer()
      first(function() obj.gone, obj.new, obj.kept = nil, 1, nil end)
      second(function() obj.gone, obj.new, obj.kept = 2, nil, nil end)
      end_first "rollback"
      local fx = end_second "commit"
      assert.equal("delete kept:1>nil, update gone:1>2", show(fx))
      assert.equal(2, fx:len())
    end)

    it("are right for the transaction around as well", function()
      local obj = mw.track { x = 1 }
      local outer = mw.begin()
      obj.x = 2
      local between = mw.begin()
      obj.x = 3
      local inner = mw.begin()
      obj.x = 4
      between:rollback()
      assert.equal("update x:2>4", show(inner:commit()))
      local fx = outer:commit()
      assert.equal("update x:1>2, update x:2>4", show(fx))
      fx:rollback()
      assert(fx:apply())
      assert.equal(4, obj.x)
    end)

    it("are right where the writer has written before, too", function()
      local obj = mw.track { x = 1 }
      local first, end_first = writer()
      local second, end_second = writer()
      first(function() obj.x = "first" end)
      second(function() obj.x = nil end)
      first(function() obj.x = nil end)
      end_second "rollback"
      assert.equal("update x:1>first, delete x:first>nil",
        show(end_first "commit"))
    end)

    it("do not change when they were made before, however many", function()
      for _, n in ipairs { 1, 40 } do
        local obj = mw.track { x = 1 }
        local first, end_first = writer()
        local second, end_second = writer()
        local inner
        first(function() obj.x = 2 end)
        second(function()
          inner = mw.begin()
          obj.x = 3
          for i = 1, n do obj[i] = i end
          inner = inner:commit()
        end)
        end_first "rollback"
        assert.equal(2, inner:entries()().old)
        assert.equal(1, end_second("commit"):entries()().old)
        assert.equal(2, inner:entries()().old)
      end
    end)

    it("know the class from before", function()
      local A, B, C = {}, {}, {}
      local obj = mw.track(setmetatable({}, A))
      local first, end_first = writer()
      local second, end_second = writer()
      first(function() mw.setmetatable(obj, B) end)
      second(function() mw.setmetatable(obj, C) end)
      end_first "rollback"
      local e = end_second("commit"):entries()()
      assert.equal(A, e.old)
      assert.equal(C, e.new)
      assert.equal("metatable", e.kind)
    end)

    it("are what a history undoes", function()
      local obj, history = mw.track { x = 1 }, mw.history()
      local first, end_first = writer()
      first(function() obj.x = 2 end)
      local run = coroutine.wrap(function()
        history:run("three", function()
          obj.x = 3
          coroutine.yield()
        end)
      end)
      run()
      end_first "rollback"
      run()
      assert.equal("three", history:undo())
      assert.equal(1, obj.x)
    end)
  end)

describe("a write of nil to a field that another transaction has deleted",
  function()
    local keys = { "a", ("long "):rep(20), 1, 1.5, true, {} }

    it("stays when the delete is taken back", function()
      for _, key in ipairs(keys) do
        local obj = mw.track { [key] = 1 }
        local first, end_first = writer()
        local second, end_second = writer()
        first(function() obj[key] = nil end)
        second(function() obj[key] = nil end)
        end_first "rollback"
        assert.is_nil(obj[key])
        local fx = end_second "commit"
        assert.equal(("delete %s:1>nil"):format(tostring(key)), show(fx))
        assert.is_nil(obj[key])
        fx:rollback()
        assert.equal(1, obj[key])
      end
    end)

    it("is taken back for what was there before both", function()
      for _, key in ipairs(keys) do
        local obj, heard = mw.track { [key] = 1 }, {}
        local first, end_first = writer()
        local second, end_second = writer()
        first(function() obj[key] = nil end)
        second(function() obj[key] = nil end)
        mw.watch(obj, function(_, _, old, new, kind)
          heard[#heard + 1] = ("%s %s>%s"):format(kind, old, new)
        end, { once = false })
        end_first "rollback"
        assert.same({}, heard)
        assert.equal(1, end_second("rollback"):len())
        assert.equal(1, obj[key])
        assert.same({ "rollback nil>1" }, heard)
      end
    end)

    it("is no entry of effects, however many there are", function()
      for _, n in ipairs { 1, 15, 16, 17, 40 } do
        local obj = mw.track { x = 1 }
        local _, fx = mw.transaction(function()
          obj.x = nil
          local co = coroutine.wrap(function()
            local tx = mw.begin()
            for i = 1, n do
              obj[i] = i
              obj.x = nil
            end
            local inner = mw.begin()
            obj.x, obj.y = nil, 1
            assert.equal("insert y:nil>1", show(inner:commit()))
            assert.equal(n + 1, tx:commit():len())
          end)
          co()
        end)
        assert.equal(n + 2, fx:len())
        fx:rollback()
        assert.same({ x = 1 }, raw_of(obj))
      end
    end)

    it("is final outside of transactions", function()
      local obj = mw.track { x = 1 }
      local first, end_first = writer()
      first(function() obj.x = nil end)
      obj.x = nil
      end_first "rollback"
      assert.is_nil(obj.x)
    end)

    it("may be of a transaction in the other one", function()
      for _, how in ipairs { "commit", "rollback" } do
        local obj = mw.track { x = 1 }
        local outer = mw.begin()
        obj.x = nil
        local inner = mw.begin()
        obj.x = nil
        outer:rollback()
        assert.is_nil(obj.x)
        assert.equal("delete x:1>nil", show(inner[how](inner)))
        assert.equal(how == "rollback" and 1 or nil, obj.x)
      end
    end)
  end)

describe("transactions that end in another order", function()
  it("let go of all that they held", function()
    for _, how in ipairs { "commit", "rollback" } do
      assert.is_true(growth(function()
        local obj = mw.track { x = {} }
        local first = mw.begin()
        obj.x = { ("x"):rep(20000) }
        local second = mw.begin()
        obj.y = { ("y"):rep(20000) }
        first[how](first)
        second:rollback()
      end) < 10)
    end
  end)
end)

describe("coroutines that are lost together", function()
  -- The coroutine that was made last, and is found first, has written first: so
  -- its rollback looks at the entries of others that are lost.
  local function lose(n, begin, returns)
    local obj, cos = mw.track { a = 1, b = {} }, {}
    for i = 1, n do
      cos[i] = coroutine.wrap(function()
        local tx = begin()
        coroutine.yield()
        for _, key in ipairs { "a", ("long "):rep(20), "by " .. i, {} } do
          obj[key] = { i }
        end
        if not returns then coroutine.yield(tx) end
      end)
      cos[i]()
    end
    for i = n, 1, -1 do cos[i]() end
    return obj
  end

  local function check(begin, returns)
    for _, n in ipairs { 1, 2, 5, 20 } do
      local obj = lose(n, begin, returns)
      collectgarbage()
      collectgarbage()
      assert.same({ a = 1, b = {} }, mw.plain(obj))
    end
  end

  it("give all fields back", function()
    check(function() return mw.begin() end)
  end)

  it("do so when their handles are lost before", function()
    check(function() mw.begin() end)
  end)

  it("do so when they have returned", function()
    check(function() return mw.begin() end, true)
  end)

  it("do so in transactions that others hold", function()
    local outer = mw.begin()
    check(function() return mw.begin() end)
    assert.equal(0, outer:commit():len())
  end)
end)

describe("a value that a transaction inherits", function()
  local function write_in(write)
    local co = coroutine.create(function()
      local tx = mw.begin()
      write()
      coroutine.yield(tx)
    end)
    return co, select(2, coroutine.resume(co))
  end

  -- The former values refer to the coroutine of `b`, which writes later than
  -- `a`, or than `a` and `c`, and inherits.
  local function lose(obj, chain)
    local x, y = obj.x, obj.y
    local _, a = write_in(function() obj.x, obj.y = 1, { 1 } end)
    local of_c, c
    if chain then
      of_c, c = write_in(function() obj.x, obj.y = 2, { 2 } end)
    end
    local of_b = write_in(function() obj.x, obj.y = 3, { 3 } end)
    x.co, y.co, x.other = of_b, of_b, of_c
    a:rollback()
    if chain then c:rollback() end
    assert.equal(3, obj.x)
    assert.equal("suspended", coroutine.status(of_b))
  end

  it("does not keep the coroutine of the transaction", function()
    for _, chain in ipairs { false, true } do
      local obj = mw.track { x = { name = "x" }, y = { name = "y" } }
      lose(obj, chain)
      for _ = 1, 3 do collectgarbage() end
      mw.reap()
      assert.same({ "x", "y" }, { obj.x.name, obj.y.name })
    end
  end)
end)

describe("untracking in a transaction", function()
  it("drops what was recorded of the object, and no more is", function()
    for _, how in ipairs { "commit", "rollback" } do
      local obj, other = mw.track { a = 1 }, mw.track { a = 1 }
      local tx = mw.begin()
      obj.a, obj.b, other.a = 2, 2, 2
      mw.setmetatable(obj, { __index = {} })
      mw.untrack(obj)
      obj.c = 3
      assert.equal("update a:1>2", show(tx[how](tx)))
      assert.same({ a = 2, b = 2, c = 3 }, mw.plain(obj))
      assert.is_true(rawequal(obj, raw_of(obj)))
      assert.equal(how == "commit" and 2 or 1, other.a)
    end
  end)

  it("lets go at once of all that only a deep root included", function()
    for _, how in ipairs { "commit", "rollback" } do
      local shared, watched = { hp = 10 }, { hp = 10 }
      local world = mw.track({ hero = { hp = 10, item = { n = 1 } },
        shared = shared, watched = watched, list = { {}, {} } },
        { deep = true })
      local others = mw.track({ shared }, { deep = true })
      mw.watch(watched, function() end, { once = false })
      local hero, item = world.hero, world.hero.item
      local tx = mw.begin()
      hero.hp, item.n, shared.hp, watched.hp = 9, 9, 9, 9
      world.level = 1
      table.insert(world.list, { new = true })
      mw.untrack(world)
      for _, obj in ipairs { world, hero, item, world.list, world.list[3] } do
        assert.is_true(rawequal(obj, raw_of(obj)))
        assert.is_nil(getmetatable(obj))
      end
      hero.hp, shared.hp, watched.hp, world.level = 8, 8, 8, 2
      local fx = tx[how](tx)
      assert.equal("update hp:10>9, update hp:10>9, update hp:9>8, " ..
        "update hp:9>8", show(fx))
      assert.equal(8, hero.hp)
      assert.equal(9, item.n)
      assert.equal(2, world.level)
      assert.equal(3, #world.list)
      assert.equal(how == "commit" and 8 or 10, shared.hp)
      assert.equal(how == "commit" and 8 or 10, watched.hp)
      mw.untrack(others)
    end
  end)

  it("leaves what another root may get back", function()
    local one = mw.track({ x = { n = 1 } }, { deep = true })
    local other = mw.track({ y = { n = 1 } }, { deep = true })
    local x, y = one.x, other.y
    local tx = mw.begin()
    one.x = nil
    mw.untrack(other)
    x.n, y.n = 2, 2
    tx:rollback()
    assert.same({ x = { n = 1 } }, mw.plain(one))
    assert.same({ y = { n = 2 } }, other)
    assert.is_true(rawequal(x, one.x))
  end)

  it("drops entries of all transactions, in turns", function()
    for _, how in ipairs { "commit", "rollback" } do
      local obj, other = mw.track { a = 1 }, mw.track { a = 1 }
      local first, end_first = writer()
      local second, end_second = writer()
      for i = 1, 3 do
        first(function() obj.a, other.a = i, i end)
        second(function() obj.a, other.a = -i, -i end)
      end
      mw.untrack(obj)
      assert.equal(3, end_first(how):len())
      assert.equal(-3, other.a)
      assert.equal(3, end_second(how):len())
      assert.equal(how == "commit" and -3 or 1, other.a)
      assert.equal(-3, obj.a)
    end
  end)

  it("changes no effects", function()
    for _, n in ipairs { 1, 20, 50 } do
      local obj, other = mw.track {}, mw.track {}
      local outer = mw.begin()
      local _, fx = mw.transaction(function()
        for i = 1, n do obj[i], other[i] = i, i end
      end)
      mw.untrack(obj)
      local _, later = mw.transaction(function() other.x = 1 end)
      assert.equal(2 * n, fx:len())
      local sum = 0
      for e in fx:entries() do
        sum = sum + e.new
        assert.is_true(e.object == obj or e.object == other)
      end
      assert.equal(n * (n + 1), sum)
      assert.equal(1, later:len())
      assert.equal(n + 1, outer:commit():len())
      fx:rollback()
      assert.is_nil(next(obj))
    end
  end)

  it("may be followed by tracking", function()
    local obj = mw.track { a = 1 }
    local tx = mw.begin()
    obj.a = 2
    mw.untrack(obj)
    obj.a = 3
    mw.track(obj)
    obj.a = 4
    assert.equal("update a:3>4", show(tx:rollback()))
    assert.equal(3, obj.a)
  end)
end)

describe("tracking in a transaction", function()
  it("records from then on", function()
    local obj = { a = 1 }
    local tx = mw.begin()
    obj.a = 2
    mw.track(obj)
    obj.a = 3
    assert.equal("update a:2>3", show(tx:rollback()))
    assert.equal(2, obj.a)
  end)
end)

describe("unwatching in a transaction", function()
  it("leaves what was recorded to a rollback", function()
    local obj = { a = 1, 1, 2 }
    mw.watch(obj, function() end)
    local tx = mw.begin()
    obj.a, obj.b = 2, { 1 }
    obj[3] = 3
    mw.setmetatable(obj, { __index = {} })
    mw.unwatch(obj)
    assert.is_true(rawequal(obj, raw_of(obj)))
    obj.c = 3
    tx:rollback()
    assert.same({ a = 1, c = 3, 1, 2 }, obj)
    assert.is_nil(getmetatable(obj))
  end)
end)

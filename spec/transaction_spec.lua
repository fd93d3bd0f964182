local raw_of = require "spec.support.raw_of"
local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local no_class = require "spec.support.no_class"
local show = require "spec.support.show"

describe("a transaction", function()
  it("answers true, the effects and all results", function()
    local obj = mw.track { x = 1 }
    local results = table.pack(mw.transaction(function(...)
      obj.x = 2
      return select("#", ...), nil, ..., nil
    end, 1, nil, 3))
    local fx = results[2]
    results[2] = nil
    assert.same({ n = 6, [1] = true, [3] = 3, [5] = 1 }, results)
    assert.equal("update x:1>2", show(fx))
    assert.equal(2, select("#", mw.transaction(function() end)))
  end)

  it("that fails answers false and the error, with nothing changed", function()
    local obj = mw.track { x = 1, 1, 2 }
    local err = setmetatable({}, { __tostring = function() return "e" end })
    for _, value in ipairs { err, "text", 5, false, print } do
      local result = table.pack(mw.transaction(function()
        obj.x, obj.y = 2, 2
        table.insert(obj, 1, "new")
        error(value, 0)
      end))
      assert.equal(2, result.n)
      assert.is_false(result[1])
      assert.is_true(rawequal(value, result[2]))
      assert.same({ x = 1, 1, 2 }, raw_of(obj))
    end
    local result = table.pack(mw.transaction(function()
      obj.x = 2
      error()
    end))
    local _, raised = pcall(error) -- in Lua 5.5, no nil
    assert.same({ n = 2, [1] = false, [2] = raised }, result)
    assert.equal(1, obj.x)
  end)

  it("records watched and tracked objects, and no others", function()
    local tracked, watched, plain = mw.track {}, {}, {}
    mw.watch(watched, function() end)
    local _, fx = mw.transaction(function()
      tracked.a = 1
      watched.b = 1
      watched.c = 1
      plain.d = 1
    end)
    assert.equal(1, plain.d)
    assert.equal("insert a:nil>1, insert b:nil>1, insert c:nil>1", show(fx))
  end)

  it("sees what the functions of the table library do", function()
    local list = mw.track { 3, 1, 2 }
    local tx = mw.begin()
    table.insert(list, 1, "first")
    table.sort(list, function(a, b) return tostring(a) > tostring(b) end)
    table.remove(list, 2)
    table.move({ 7, 8 }, 1, 2, 3, list)
    local after = table.pack(table.unpack(list))
    local fx = tx:rollback()
    assert.same({ 3, 1, 2 }, raw_of(list))
    assert.is_truthy(fx:apply())
    assert.same(after, table.pack(table.unpack(list)))
  end)

  it("records a change of class", function()
    local class = { __index = { y = 1 } }
    local obj = mw.track {}
    local tx = mw.begin()
    mw.setmetatable(obj, class)
    assert.equal(1, obj.y)
    local fx = tx:rollback()
    assert.equal(no_class, getmetatable(obj))
    assert.is_nil(obj.y)
    local entry = fx:entries()()
    assert.equal("metatable", entry.kind)
    assert.is_nil(entry.key)
    assert.is_true(entry.old == nil and entry.new == class)
    fx:apply()
    assert.equal(class, getmetatable(obj))
  end)

  it("records what a class stores, under other keys and not at all", function()
    local class = { __newindex = function(t, key, value)
      if key ~= "none" then rawset(t, "_" .. key, value) end
    end }
    local obj = mw.track(setmetatable({}, class))
    local tx = mw.begin()
    obj.x = 1
    obj.none = 1
    mw.sync(obj)
    local fx = tx:rollback()
    assert.equal("insert _x:nil>1", show(fx))
    assert.same({}, raw_of(obj))
  end)

  it("records what a class stores in another table", function()
    local store = mw.track {}
    local obj = mw.track(setmetatable({}, { __newindex = store }))
    local _, fx = mw.transaction(function() obj.x = 1 end)
    assert.equal(store, fx:entries()().object)
    assert.equal(1, fx:len())
    fx:rollback()
    assert.is_nil(store.x)
  end)

  it("records objects whose watches have fired", function()
    local obj = { x = 1 }
    mw.watch(obj, function() end)
    obj.x = 2 -- fires
    obj.x = 3
    local _, fx = mw.transaction(function() obj.x = 4 end)
    assert.equal("update x:3>4", show(fx))
    obj.x = 5
    local tx = mw.begin()
    obj.y = 1
    tx:rollback()
    assert.same({ x = 5 }, raw_of(obj))
  end)

  it("does not record what a policy ignores", function()
    local class = { __name = "Ignoring" }
    local policy = mw.policy { classes = { Ignoring = { ignore = { "_cache" } }
    } }
    local former = policy:use()
    local obj = mw.track(setmetatable({}, class))
    local tx = mw.begin()
    obj._cache, obj.x = 1, 1
    local fx = tx:rollback()
    former:use()
    assert.equal("insert x:nil>1", show(fx))
    assert.equal(1, obj._cache)
  end)

  it("notes where each write was, when it is asked to", function()
    local obj = mw.track {}
    local tx = mw.begin { where = true }
    obj.x = 1
    local line = debug.getinfo(1, "l").currentline - 1
    obj.y = 1
    table.insert(obj, 1)
    local wheres = {}
    local fx = tx:commit()
    for e in fx:entries() do
      wheres[#wheres + 1] = e.where:match "transaction_spec%.lua:(%d+)$"
    end
    assert.same({ line .. "", line + 2 .. "", line + 3 .. "" }, wheres)
    for e in fx:squash():entries() do assert.is_string(e.where) end
    collectgarbage() -- a recorder of another spec may want places
    collectgarbage()
    mw.reap()
    local _, other = mw.transaction(function() obj.x = 2 end)
    assert.is_nil(other:entries()().where)
  end)
end)

describe("mw.begin", function()
  it("notes the line of the program for what the library writes", function()
    local obj = mw.track { x = 1 }
    local _, fx = mw.transaction(function() obj.x = 2 end)
    fx:rollback()
    local plan = mw.plan()
    plan:track(obj)
    plan:store(obj, "y", 1)
    local tx = mw.begin { where = true }
    local line = debug.getinfo(1, "l").currentline
    fx:apply()
    plan:apply()
    local wheres = {}
    for e in tx:commit():entries() do wheres[#wheres + 1] = e.where end
    assert.same({ line + 1 .. "", line + 2 .. "" }, {
      wheres[1]:match "transaction_spec%.lua:(%d+)$",
      wheres[2]:match "transaction_spec%.lua:(%d+)$",
    })
  end)

  it("records until commit, which answers the effects", function()
    local obj = mw.track {}
    obj.a = 1
    local tx = mw.begin()
    obj.b = 1
    local fx = tx:commit()
    obj.c = 1
    assert.equal("insert b:nil>1", show(fx))
    assert.same({ a = 1, b = 1, c = 1 }, raw_of(obj))
  end)

  it("is taken back by rollback, whose effects can be applied", function()
    local obj = mw.track { x = 1 }
    local tx = mw.begin()
    obj.x, obj.y = 2, 2
    local fx = tx:rollback()
    assert.same({ x = 1 }, raw_of(obj))
    assert.equal(2, fx:len())
    assert.is_truthy(fx:apply())
    assert.same({ x = 2, y = 2 }, raw_of(obj))
  end)

  it("is taken back when it is closed, with an error or not", function()
    local obj = mw.track { x = 1 }
    do
      local tx <close> = mw.begin()
      obj.x = 2
      assert.is_userdata(tx)
    end
    assert.equal(1, obj.x)
    assert.equal("mine", error_of(function()
      local tx <close> = mw.begin()
      obj.x = 3
      error("mine", 0)
      return tx
    end))
    assert.equal(1, obj.x)
  end)

  it("stays when it was committed before it is closed", function()
    local obj = mw.track { x = 1 }
    do
      local tx <close> = mw.begin()
      obj.x = 2
      tx:commit()
      obj.x = 3
    end
    assert.equal(3, obj.x)
  end)

  it("is taken back by the collector when its handle is lost", function()
    local obj = mw.track { x = 1 }
    do
      local tx = mw.begin()
      obj.x = 2
      assert.is_not_nil(tx)
    end
    collectgarbage()
    collectgarbage()
    assert.equal(2, obj.x)
    mw.mutations(obj)
    assert.equal(1, obj.x)
    local _, fx = mw.transaction(function() obj.x = 5 end)
    assert.equal(1, fx:len())
  end)

  it("that is lost is taken back without those in it", function()
    local obj = mw.track { x = 1 }
    local inner
    do
      local outer = mw.begin()
      obj.x = 2
      inner = mw.begin()
      obj.y = 2
      assert.is_not_nil(outer)
    end
    collectgarbage()
    collectgarbage()
    mw.mutations(obj)
    assert.same({ x = 1, y = 2 }, raw_of(obj))
    inner:commit()
    assert.same({ x = 1, y = 2 }, raw_of(obj))
  end)

  it("ends without those in it, in any order", function()
    local obj = mw.track { x = 1 }
    local outer = mw.begin()
    obj.x = 2
    local inner = mw.begin()
    obj.y = 2
    assert.equal(1, outer:commit():len())
    assert.is_true(inner:is_open())
    assert.is_false(outer:is_open())
    inner:rollback()
    assert.same({ x = 2 }, raw_of(obj))
    outer, inner = mw.begin(), mw.begin()
    obj.x = 3
    outer:rollback()
    assert.equal(3, obj.x)
    inner:rollback()
    assert.equal(2, obj.x)
    local _, fx = mw.transaction(function() obj.x = 5 end)
    assert.equal(1, fx:len())
  end)

  it("may be ended by a function in a transaction", function()
    local obj = mw.track { x = 1 }
    local first, second = mw.begin(), mw.begin()
    obj.x = 2
    local ok, fx = mw.transaction(function()
      obj.x = 3
      second:commit()
      obj.x = 4
    end)
    assert.is_true(ok)
    assert.equal("update x:2>3, update x:3>4", show(fx))
    assert.equal("update x:1>2, update x:2>3, update x:3>4",
      show(first:commit()))
    second = mw.begin()
    local err
    ok, err = mw.transaction(function()
      obj.x = 5
      second:rollback()
      error("mine", 0)
    end)
    assert.same({ false, "mine" }, { ok, err })
    assert.equal(4, obj.x)
  end)

  it("that has ended cannot be ended again, but closed", function()
    for _, name in ipairs { "commit", "rollback" } do
      local tx <close> = mw.begin()
      tx[name](tx)
      misuse("calling 'commit' on a transaction that has ended", tx.commit, tx)
      misuse("calling 'rollback' on a transaction that has ended",
        tx.rollback, tx)
    end
  end)
end)

describe("globals", function()
  it("of an environment are recorded, and it is plain afterwards", function()
    local env = setmetatable({ x = 1 }, { __index = _G })
    local mt = getmetatable(env)
    local f = load("x = 2; y = 3; return tostring(x)", "=chunk", "t", env)
    local tx = mw.begin { globals = env }
    assert.equal("2", f())
    local fx = tx:rollback()
    assert.equal("update x:1>2, insert y:nil>3", show(fx))
    assert.equal(env, fx:objects()[1])
    assert.is_true(rawget(env, "x") == 1 and rawget(env, "y") == nil)
    assert.is_true(rawequal(mt, getmetatable(env)))
    fx:apply()
    assert.equal(3, rawget(env, "y"))
  end)

  it("are recorded by two transactions, the outer one ending first", function()
    local env = {}
    local outer, inner = mw.begin { globals = env }, mw.begin { globals = env }
    env.x = 1
    assert.equal(1, inner:commit():len())
    env.x = 2
    assert.equal(2, outer:commit():len())
    outer, inner = mw.begin { globals = env }, mw.begin { globals = env }
    outer:commit()
    env.x = 3
    assert.equal(1, inner:commit():len())
    assert.is_nil(getmetatable(env))
    assert.equal(3, rawget(env, "x"))
  end)

  it("may be recorded with what is read of them", function()
    local tx <close> = mw.begin { globals = _G, reads = true }
    local read = tostring(_G.no_such_global)
    local found = false
    for _, e in ipairs(tx:commit():reads()) do
      found = found or e.object == _G and e.key == "no_such_global"
    end
    assert.equal("nil", read)
    assert.is_true(found)
  end)

  it("that are tracked anyway stay so", function()
    local env = mw.track {}
    mw.begin({ globals = env }):commit()
    local _, fx = mw.transaction(function() env.x = 1 end)
    assert.equal(1, fx:len())
  end)

  it("may be those of the program", function()
    local tx = mw.begin { globals = _G }
    rawset(_G, "hidden", 1)
    mw.sync(_G)
    _G.moonwatch_a_global = 1
    local fx = tx:rollback()
    assert.equal("insert hidden:nil>1, insert moonwatch_a_global:nil>1",
      show(fx))
    assert.is_nil(rawget(_G, "hidden"))
    assert.is_nil(rawget(_G, "moonwatch_a_global"))
  end)
end)

describe("in coroutines", function()
  it("a transaction may yield", function()
    local obj = mw.track { x = 0 }
    local co = coroutine.wrap(function()
      return mw.transaction(function()
        obj.x = 1
        obj.y = coroutine.yield()
        return "done"
      end)
    end)
    co()
    assert.equal(1, obj.x)
    local ok, fx, result = co(5)
    assert.same({ true, "done" }, { ok, result })
    assert.equal("update x:0>1, insert y:nil>5", show(fx))
  end)

  it("a transaction that nobody resumes is taken back", function()
    local obj = mw.track { x = 0 }
    local co = coroutine.wrap(function()
      mw.transaction(function()
        obj.x = 1
        coroutine.yield()
      end)
    end)
    co()
    co = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    mw.reap()
    assert.equal(0, obj.x)
  end)

  it("a transaction ends with the coroutine that is closed", function()
    local obj = mw.track { x = 0 }
    local co = coroutine.create(function()
      local tx <close> = mw.begin()
      obj.x = 1
      coroutine.yield(tx)
    end)
    coroutine.resume(co)
    coroutine.close(co)
    assert.equal(0, obj.x)
  end)

  it("a transaction whose handle is kept stays open when its coroutine closes",
    function()
      local obj, kept = mw.track { x = 0, y = 0 }, {}
      local co = coroutine.create(function()
        kept[1] = mw.begin()
        obj.x = 1
        kept[2] = mw.begin()
        obj.x, obj.y = 2, 2
        coroutine.yield()
      end)
      assert(coroutine.resume(co))
      assert.is_true(coroutine.close(co))
      obj.y = 9
      assert.is_true(kept[1]:is_open() and kept[2]:is_open())
      kept[2]:rollback()
      assert.same({ 1, 9 }, { obj.x, obj.y })
      kept[1]:rollback()
      assert.same({ 0, 9 }, { obj.x, obj.y })
    end)

  it("a coroutine that has returned keeps its transaction when it is closed",
    function()
      local obj, tx = mw.track { x = 0 }, nil
      local co = coroutine.create(function()
        tx = mw.begin()
        obj.x = 1
      end)
      assert(coroutine.resume(co))
      assert.is_true(coroutine.close(co))
      assert.is_true(tx:is_open())
      assert.equal(1, obj.x)
      tx:rollback()
      assert.equal(0, obj.x)
    end)

  if _VERSION ~= "Lua 5.4" then
    it("a coroutine that closes itself ends its mw.transaction", function()
      local obj, tx = mw.track { x = 0, y = 0 }, nil
      local co = coroutine.create(function()
        tx = mw.begin()
        obj.x = 1
        mw.transaction(function()
          obj.y = 1
          coroutine.close()
        end)
        obj.x = 2
      end)
      assert(coroutine.resume(co))
      assert.equal("dead", coroutine.status(co))
      assert.same({ 1, 0 }, { obj.x, obj.y })
      tx:rollback()
      assert.equal(0, obj.x)
    end)
  end
end)

describe("misuse of transactions", function()
  it("is told where it is", function()
    misuse("bad argument #1 to 'transaction' (function expected, got nil)",
      mw.transaction)
    misuse("bad argument #2 to 'transaction' (function expected, got nil)",
      mw.transaction, {})
    misuse("bad argument #2 to 'transaction' (function expected, got number)",
      mw.transaction, "label", 1)
    misuse("bad argument #1 to 'transaction' (unknown option 'were')",
      mw.transaction, { were = true }, print)
    misuse("bad argument #1 to 'begin' (string or table expected, got " ..
      "function)", mw.begin, print)
    misuse("bad argument #1 to 'begin' (unknown option 'were')", mw.begin,
      { were = true })
    misuse("bad argument #1 to 'begin' (option 'where' is not a boolean)",
      mw.begin, { where = 1 })
    misuse("bad argument #1 to 'begin' (option 'globals' is not a table)",
      mw.begin, { globals = true })
    local tx <close> = mw.begin()
    for _, name in ipairs { "commit", "rollback" } do
      misuse("calling '" .. name .. "' on bad self (transaction expected, " ..
        "got table)", tx[name], {})
    end
  end)
end)

describe("a write among many suspended coroutines", function()
  local o, waiting

  -- Each holds a transaction and a batch.
  before_each(function()
    o, waiting = mw.track { x = 0 }, {}
    for i = 1, 20 do
      waiting[i] = coroutine.wrap(function()
        local tx = mw.begin()
        local b = mw.batch()
        o[i] = i
        coroutine.yield()
        b:close()
        tx:commit()
      end)
      waiting[i]()
    end
  end)

  after_each(function()
    for i = 1, #waiting do waiting[i]() end
  end)

  -- Ways to run a function in a coroutine of its own.
  local drivers = {
    wrap = function(f) coroutine.wrap(f)() end,
    resume = function(f)
      assert(coroutine.resume(coroutine.create(f), 1, nil, coroutine.create(f)))
    end,
    pcall = function(f) assert(pcall(coroutine.wrap(f))) end,
    metamethod = function(f)
      local object = setmetatable({}, { __index = coroutine.wrap(f) })
      return object.x
    end,
    iterator = function(f)
      for _ in coroutine.wrap(f) do error "the function returns nothing" end
    end,
    close = function(f)
      local co = coroutine.create(function()
        local _ <close> = setmetatable({}, { __close = f })
        coroutine.yield()
      end)
      coroutine.resume(co)
      assert(coroutine.close(co))
    end,
    sort = function(f)
      local run, list = coroutine.wrap(f), { 1, 2 }
      table.sort(list, function()
        if run then run() end
        run = nil
        return false
      end)
    end,
    hook = function(f)
      debug.sethook(function()
        debug.sethook()
        coroutine.wrap(f)()
      end, "", 1)
      for _ = 1, 10 do end -- luacheck: ignore 542
      debug.sethook()
    end,
    finaliser = function(f)
      setmetatable({}, { __gc = coroutine.wrap(f) })
      collectgarbage()
      collectgarbage()
    end,
  }

  for name, drive in pairs(drivers) do
    it("belongs to the coroutine that drives by " .. name, function()
      -- no finaliser runs in a finaliser
      for depth = 1, name == "finaliser" and 1 or 3 do
        local function nest(n)
          if n > 0 then return drive(function() nest(n - 1) end) end
          o.x = o.x + 1
        end
        local before = o.x
        local tx = mw.begin()
        nest(depth)
        assert.equal(before + 1, o.x)
        tx:rollback()
        assert.equal(before, o.x)
        coroutine.wrap(function()
          local inner = mw.begin()
          nest(depth)
          inner:rollback()
          assert.equal(before, o.x)
          nest(depth) -- belongs to nobody
        end)()
        assert.equal(before + 1, o.x)
      end
    end)

    it("is told at the end of a batch that drives by " .. name, function()
      local told, p = 0, { x = 0 }
      mw.watch(p, function() told = told + 1 end, { once = false })
      mw.batch(function()
        drive(function() p.x = 1 end)
        assert.equal(0, told)
      end)
      assert.equal(1, told)
      drive(function() p.x = 2 end)
      assert.equal(2, told)
    end)
  end

  it("belongs to the one that began last of those that wait", function()
    local first, second
    coroutine.wrap(function()
      first = mw.begin()
      coroutine.wrap(function()
        second = mw.begin()
        coroutine.wrap(function() o.x = 2 end)()
        second:rollback()
        assert.equal(0, o.x)
        coroutine.wrap(function() o.x = 1 end)()
      end)()
      assert.equal(1, o.x)
      first:rollback()
      assert.equal(0, o.x)
    end)()
  end)

  it("belongs to the same if the program has its own resume", function()
    local its = setmetatable({}, { __index = coroutine })
    function its.resume(...) return select(1, coroutine.resume(...)) end
    local tx = mw.begin()
    its.resume(coroutine.create(function() o.x = 1 end))
    tx:rollback()
    assert.equal(0, o.x)
  end)
end)

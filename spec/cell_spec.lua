local mw = require "moonwatch"
local show = require "spec.support.show"

describe("the cells of functions", function()
  it("are recorded, once for all who share one", function()
    local x = 1
    local function get() return x end
    local function put(v) x = v end
    local tx = mw.begin { cells = { get, put } }
    put(2)
    put(3)
    local fx = tx:rollback()
    assert.equal("update x:1>3", show(fx))
    assert.equal(1, get())
    fx:apply()
    assert.equal(3, get())
    fx:rollback()
    assert.equal(1, x)
  end)

  it("of the same name are kept apart", function()
    local function make(x)
      return function() return x end, function(v) x = v end
    end
    local get_a, put_a = make(1)
    local get_b, put_b = make(10)
    local tx = mw.begin { cells = { get_a, get_b } }
    put_a(2)
    put_b(20)
    local fx = tx:commit()
    assert.equal("update x:1>2, update x:10>20", show(fx))
    assert.equal(2, #fx:objects())
    assert.equal(2, fx:squash():len())
    fx:rollback()
    assert.same({ 1, 10 }, { get_a(), get_b() })
  end)

  it("may have held nil or false, or come to", function()
    local a, b, c
    c = 1
    local function put(x, y, z) a, b, c = x, y, z end
    local tx = mw.begin { cells = { put } }
    put(false, nil, nil)
    local fx = tx:rollback()
    assert.equal("insert a:nil>false, delete c:1>nil", show(fx))
    assert.same({ n = 3, nil, nil, 1 }, table.pack(a, b, c))
    assert.is_truthy(fx:apply())
    assert.same({ n = 3, false, nil, nil }, table.pack(a, b, c))
    assert.is_nil(fx:apply())
  end)

  it("have no entry when they are as before", function()
    local x, nan = 1, 0 / 0
    local function f() return x, nan end
    local tx = mw.begin { cells = { f } }
    x = 2
    x = 1
    assert.equal(0, tx:commit():len())
  end)

  it("come after what was written to objects", function()
    local x, obj = 1, mw.track {}
    local function f() return x end
    local tx = mw.begin { cells = { f } }
    x = 2
    obj.y = 1
    assert.equal("insert y:nil>1, update x:1>2", show(tx:commit()))
  end)

  it("are recorded by transactions in each other", function()
    local x = 1
    local function f() return x end
    local outer = mw.begin { cells = { f } }
    x = 2
    local inner = mw.begin { cells = { f } }
    x = 3
    assert.equal("update x:2>3", show(inner:rollback()))
    assert.equal(2, x)
    inner = mw.begin { cells = { f } }
    x = 4
    assert.equal("update x:2>4", show(inner:commit()))
    x = 5
    local fx = outer:rollback()
    assert.equal(1, x)
    fx:apply()
    assert.equal(5, x)
  end)

  it("are noted once when effects are applied meanwhile", function()
    local x = 1
    local function f() return x end
    local tx = mw.begin { cells = { f } }
    x = 2
    local fx = tx:rollback()
    tx = mw.begin { cells = { f } }
    fx:apply()
    assert.equal("update x:1>2", show(tx:commit()))
  end)

  it("are taken back by an error, a close and the collector", function()
    local x = 1
    local function f() return x end
    do
      local tx <close> = mw.begin { cells = { f } }
      x = tx and 2
    end
    assert.equal(1, x)
    do
      local tx = mw.begin { cells = { f } }
      x = tx and 3
    end
    collectgarbage()
    collectgarbage()
    assert.equal(1, x)
  end)

  it("are held by the effects, but not by more", function()
    local seen = setmetatable({}, { __mode = "k" })
    local fx
    do
      local x = 1
      local function f() return x end
      seen[f] = true
      local tx = mw.begin { cells = { f } }
      x = 2
      fx = tx:commit()
    end
    collectgarbage()
    collectgarbage()
    fx:rollback()
    assert.equal("update x:1>2", show(fx))
    fx = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(seen))
  end)

  it("may hold a cycle with the effects, that can be collected", function()
    local seen = setmetatable({}, { __mode = "v" })
    do
      local x
      local function f() return x end
      local tx = mw.begin { cells = { f } }
      x = {}
      local fx = tx:commit()
      x.fx, x.f = fx, f
      seen[1], seen[2] = fx, f
    end
    collectgarbage()
    collectgarbage()
    assert.same({}, seen)
  end)

  it("are taken back once when a function fails after another one", function()
    local x = 0
    local function f() x = x + 1 end
    local tx = mw.begin { cells = { f } }
    assert.is_false((mw.transaction(function()
      f()
      mw.transaction(function() end)
      f()
      error "no"
    end)))
    assert.equal(0, x)
    f()
    tx:rollback()
    assert.equal(0, x)
  end)

  it("are held by the effects of a transaction in another one", function()
    local x, fx = 0, nil
    local function f() x = x + 1 end
    mw.transaction(function()
      local tx = mw.begin { cells = { f } }
      f()
      fx = tx:commit()
    end)
    collectgarbage()
    collectgarbage()
    fx:rollback()
    assert.equal(0, x)
  end)

  it("are noted once when effects take them back", function()
    local x = 0
    local function f() x = x + 1 end
    local outer, inner = mw.begin { cells = { f } }, mw.begin()
    f()
    inner:commit():rollback()
    local fx = outer:commit()
    assert.equal("update x:0>1, update x:1>0", show(fx))
    assert.is_truthy(fx:apply())
  end)

  it("tell integers from floats", function()
    local x = 1
    local tx = mw.begin { cells = { function() return x end } }
    x = 1.0
    tx:rollback()
    assert.equal("integer", math.type(x))
  end)

  it("may be none", function()
    local tx = mw.begin { cells = { print, function() end } }
    assert.equal(0, tx:commit():len())
    assert.equal(0, mw.begin({ cells = {} }):commit():len())
  end)
end)

describe("cells of transactions of several coroutines", function()
  -- Returns a coroutine that began a transaction with the cells of `f`.
  local function hold(f, body)
    local co = coroutine.wrap(function()
      local tx = mw.begin { cells = { f } }
      if body then body() end
      coroutine.yield()
      tx:rollback()
    end)
    co()
    return co
  end

  it("are taken back, though another one has begun since", function()
    for _, first in ipairs { true, false } do
      local x = 1
      local function f() return x end
      local a = hold(f, function() x = 2 end)
      local b = hold(f)
      local one, two = a, b
      if not first then one, two = b, a end
      one()
      two()
      assert.equal(1, x)
    end
  end)

  it("are left to who has written later, and looked", function()
    local x = 1
    local function f() return x end
    local a = hold(f, function() x = 2 end)
    local b = hold(f, function()
      x = 3
      mw.begin():commit()
    end)
    a()
    assert.equal(3, x)
    b()
    assert.equal(1, x)
  end)

  it("are those of the transactions that are still open around", function()
    local x, y = 1, 1
    local function get_x() return x end
    local function get_y() return y end
    local outer = mw.begin { cells = { get_x } }
    local middle = mw.begin { cells = { get_y } }
    local inner = mw.begin()
    middle:commit()
    local other = mw.begin()
    x, y = 2, 2
    assert.equal("update x:1>2", show(other:commit()))
    assert.equal("update x:1>2", show(inner:rollback()))
    assert.same({ 1, 2 }, { x, y })
    assert.equal(0, outer:commit():len())
  end)
end)

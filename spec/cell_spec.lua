local mw = require "moonwatch"
local show = require "spec.support.show"

-- Stores a value in the upvalue of a function: a plan does.  Returns effects.
local function put(fn, value)
  local plan = mw.plan()
  plan:store_cell(plan:track_cell(fn, 1), value)
  return plan:apply()
end

describe("the cells of functions", function()
  it("are in the effects of the transaction around the plan", function()
    local x = 1
    local function get() return x end
    local tx = mw.begin()
    put(get, 2)
    put(function() return x end, 3)
    local fx = tx:rollback()
    assert.equal("update x:1>2, update x:2>3", show(fx))
    assert.equal(1, #fx:objects())
    assert.equal("update x:1>3", show(fx:squash()))
    assert.equal(1, get())
    fx:apply()
    assert.equal(3, get())
    fx:rollback()
    assert.equal(1, x)
  end)

  it("of the same name are kept apart", function()
    local function make(x) return function() return x end end
    local one, other = make(1), make(10)
    local tx = mw.begin()
    put(one, 2)
    put(other, 20)
    local fx = tx:commit()
    assert.equal("update x:1>2, update x:10>20", show(fx))
    assert.equal(2, #fx:objects())
    assert.equal(2, fx:squash():len())
    fx:rollback()
    assert.same({ 1, 10 }, { one(), other() })
  end)

  it("may have held nil or false, or come to", function()
    local a, c = nil, 1
    local function get_a() return a end
    local function get_c() return c end
    local tx = mw.begin()
    put(get_a, false)
    put(get_c, nil)
    local fx = tx:rollback()
    assert.equal("insert a:nil>false, delete c:1>nil", show(fx))
    assert.same({ n = 2, nil, 1 }, table.pack(a, c))
    assert.is_truthy(fx:apply())
    assert.same({ n = 2, false, nil }, table.pack(a, c))
    assert.is_nil(fx:apply())
  end)

  it("are taken back in each of the transactions in each other", function()
    local x = 1
    local function get() return x end
    local outer = mw.begin()
    put(get, 2)
    local inner = mw.begin()
    put(get, 3)
    assert.equal("update x:2>3", show(inner:rollback()))
    assert.equal(2, x)
    inner = mw.begin()
    put(get, 4)
    assert.equal("update x:2>4", show(inner:commit()))
    local fx = outer:rollback()
    assert.equal(1, x)
    fx:apply()
    assert.equal(4, x)
  end)

  it("are taken back by an error, a close and the collector", function()
    local x = 1
    local function get() return x end
    assert.is_false((mw.transaction(function()
      put(get, 2)
      error "no"
    end)))
    assert.equal(1, x)
    do
      local tx <close> = mw.begin() -- luacheck: ignore
      put(get, 2)
    end
    assert.equal(1, x)
    do
      local tx = mw.begin() -- luacheck: ignore
      put(get, 3)
    end
    collectgarbage()
    collectgarbage()
    mw.begin():rollback()
    assert.equal(1, x)
  end)

  it("are left to who has written later", function()
    local x = 1
    local function get() return x end
    -- Returns a coroutine that has stored a value in a transaction.
    local function hold(value)
      local co = coroutine.wrap(function()
        local tx = mw.begin()
        put(get, value)
        coroutine.yield()
        tx:rollback()
      end)
      co()
      return co
    end
    local first, second = hold(2), hold(3)
    first()
    assert.equal(3, x)
    second()
    assert.equal(1, x)
  end)

  it("are held by the effects, but not by more", function()
    local seen = setmetatable({}, { __mode = "k" })
    local fx
    do
      local x = 1
      local function get() return x end
      seen[get] = true
      local tx = mw.begin()
      put(get, 2)
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
      local x = nil
      local function get() return x end
      local tx = mw.begin()
      put(get, {})
      local fx = tx:commit()
      x.fx, x.get = fx, get
      seen[1], seen[2] = fx, get
    end
    collectgarbage()
    collectgarbage()
    assert.same({}, seen)
  end)

  it("are held by the effects of a transaction in another one", function()
    local x, fx = 0, nil
    mw.transaction(function()
      local tx = mw.begin()
      put(function() return x end, 1)
      fx = tx:commit()
    end)
    collectgarbage()
    collectgarbage()
    fx:rollback()
    assert.equal(0, x)
  end)

  it("tell integers from floats", function()
    local x = 1
    local tx = mw.begin()
    put(function() return x end, 1.0)
    assert.equal("float", math.type(x))
    tx:rollback()
    assert.equal("integer", math.type(x))
  end)
end)

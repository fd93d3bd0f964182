local raw_of = require "spec.support.raw_of"
local error_of = require "spec.support.error_of"
local mw = require "moonwatch"
local show = require "spec.support.show"

local STAY = { once = false }

describe("transactions nest:", function()
  local function outer(fails, inner_fails)
    local obj = mw.track { x = 0 }
    local inner_fx
    local ok, fx = mw.transaction(function()
      obj.x = 1
      local inner_ok
      inner_ok, inner_fx = mw.transaction(function()
        obj.x, obj.y = 2, nil
        obj.y = 2
        if inner_fails then error("inner", 0) end
      end)
      assert.equal(not inner_fails, inner_ok)
      assert.equal(inner_fails and 1 or 2, obj.x)
      obj.z = 3
      if fails then error("outer", 0) end
    end)
    return obj, ok, fx, inner_fx
  end

  it("the outer one goes on when the inner one fails", function()
    local obj, ok, fx, err = outer(false, true)
    assert.is_true(ok)
    assert.equal("inner", err)
    assert.equal("update x:0>1, insert z:nil>3", show(fx))
    assert.same({ x = 1, z = 3 }, raw_of(obj))
    fx:rollback()
    assert.same({ x = 0 }, raw_of(obj))
  end)

  it("the outer one has what the inner one has", function()
    local obj, _, fx, inner = outer(false, false)
    assert.equal("update x:1>2, insert y:nil>2", show(inner))
    assert.equal("update x:0>1, update x:1>2, insert y:nil>2, " ..
      "insert z:nil>3", show(fx))
    fx:rollback()
    assert.same({ x = 0 }, raw_of(obj))
  end)

  it("the inner one is undone when the outer one fails", function()
    local obj, ok, err, inner = outer(true, false)
    assert.is_false(ok)
    assert.equal("outer", err)
    assert.same({ x = 0 }, raw_of(obj))
    obj.x = 1
    assert.is_truthy(inner:apply())
    assert.same({ x = 2, y = 2 }, raw_of(obj))
  end)

  it("a thousand deep", function()
    local obj = mw.track { n = 0 }
    local all = {}
    for i = 1, 1000 do
      all[i] = mw.begin()
      obj.n = i
    end
    for i = 1000, 501, -1 do all[i]:commit() end
    assert.equal(501, all[500]:commit():len())
    all[400]:rollback()
    assert.equal(1000, obj.n)
    for i = 499, 401, -1 do all[i]:rollback() end
    assert.equal(399, obj.n)
    for i = 1, 399 do all[i]:rollback() end
    assert.equal(0, obj.n)
  end)
end)

describe("watchers", function()
  it("hear of a rollback when all is undone, the last write first", function()
    local a, b, heard = { x = 1 }, { y = 1 }, {}
    local function guard(obj, key, old, new, kind)
      heard[#heard + 1] = ("%s %s:%s>%s, %s %s"):format(kind, key, old, new,
        a.x, b.y)
      assert.is_table(obj)
    end
    mw.watch(a, guard, STAY)
    mw.watch(b, guard, STAY)
    local tx = mw.begin()
    a.x = 2
    b.y = 2
    heard = {}
    tx:rollback()
    assert.same({ "rollback y:2>1, 1 1", "rollback x:2>1, 1 1" }, heard)
    assert.equal(2, mw.mutations(a))
  end)

  it("hear of an apply before each write", function()
    local obj, heard = { x = 1 }, {}
    local tx = mw.begin()
    mw.track(obj)
    obj.x = 2
    local fx = tx:rollback()
    mw.watch(obj, function(o, key, old, new, kind)
      heard[#heard + 1] = ("%s %s:%s>%s %s"):format(kind, key, old, new, o.x)
    end, STAY)
    fx:apply()
    fx:rollback()
    assert.same({ "apply x:1>2 1", "rollback x:2>1 1" }, heard)
  end)

  it("that raise do not stop a rollback", function()
    local obj = { x = 1, y = 1 }
    local armed = false
    mw.watch(obj, function(_, key) if armed then error(key, 0) end end, STAY)
    local tx = mw.begin()
    obj.x = 2
    obj.y = 2
    armed = true
    assert.matches("^y", error_of(tx.rollback, tx))
    assert.same({ x = 1, y = 1 }, raw_of(obj))
    armed = false
    local ok, err = mw.transaction(function()
      obj.x = 2
      armed = true
      error("mine", 0)
    end)
    assert.same({ false, "mine" }, { ok, err })
    assert.equal(1, obj.x)
    assert.matches("^x", error_of(mw.begin)) -- the next call raises it
    local _, fx = mw.transaction(function() end)
    assert.equal(0, fx:len())
  end)

  it("that raise do not hide the error that closes a transaction", function()
    local obj, armed = { x = 1 }, false
    mw.watch(obj, function() if armed then error("guard", 0) end end, STAY)
    assert.equal("mine", error_of(function()
      local tx <close> = mw.begin()
      obj.x = tx and 2
      armed = true
      error("mine", 0)
    end))
    assert.equal(1, obj.x)
    assert.matches("^guard", error_of(mw.begin))
    local errors = {}
    local former = mw.on_error(function(err) errors[#errors + 1] = err end)
    armed = false
    assert.is_false((mw.transaction(function()
      obj.x = 2
      armed = true
      error "mine"
    end)))
    mw.on_error(former)
    assert.same({ "guard" }, errors)
  end)

  it("hear of a transaction that has ended", function()
    local obj, messages = mw.track {}, {}
    local outer, inner = mw.begin(), nil
    mw.watch(obj, function(_, _, _, _, kind)
      if kind ~= "rollback" then return end
      messages[#messages + 1] = error_of(inner.rollback, inner)
      mw.begin():commit()
    end, { once = false })
    local function write()
      for i = 1, 2000 do obj[i] = i end
    end
    inner = mw.begin()
    write()
    inner:rollback()
    assert.equal(2000, #messages)
    assert.equal("calling 'rollback' on a transaction that has ended",
      messages[1])
    assert.is_false((mw.transaction(function()
      write()
      error "no"
    end)))
    assert.equal(4000, #messages)
    assert.is_nil((next(raw_of(obj))))
    assert.equal(0, outer:commit():len())
  end)

  it("hear of each field once, with what it was and what it is", function()
    local obj, heard = mw.track { x = 1, y = 1 }, {}
    mw.watch(obj, function(_, key, old, new)
      heard[#heard + 1] = ("%s:%s>%s"):format(key, old, new)
    end, { once = false })
    local tx = mw.begin()
    obj.x, obj.y = 2, 2
    obj.x, obj.z = 3, 1
    obj.y, obj.z = 1, nil
    heard = {}
    tx:rollback()
    assert.same({ "x:3>1" }, heard)
  end)

  it("may write while they hear of a rollback, which stays", function()
    local obj, log = { x = 1 }, mw.track {}
    mw.watch(obj, function(_, _, _, _, kind)
      log[#log + 1] = kind
    end, STAY)
    local outer = mw.begin()
    mw.transaction(function()
      obj.x = 2
      error "!"
    end)
    assert.same({ "rollback" }, raw_of(log))
    outer:rollback()
    assert.same({}, raw_of(log))
  end)
end)

describe("a list", function()
  it("that got another class when it was empty has its length again",
    function()
      local list = mw.track { 1, 2, 3 }
      local tx = mw.begin()
      for _ = 1, 3 do table.remove(list) end
      mw.setmetatable(list, {})
      tx:rollback()
      assert.equal(3, #list)
      assert.equal(3, table.remove(list))
    end)
end)

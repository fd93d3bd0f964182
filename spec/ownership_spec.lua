-- Who owns a write, and what a rollback leaves, where writers take turns.

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
        assert.equal(0, end_second("commit"):len())
        assert.is_nil(obj[key])
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
        assert.equal(0, end_second("rollback"):len())
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
        assert.same({ x = 1 }, mw.raw(obj))
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
        assert.equal(0, inner[how](inner):len())
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

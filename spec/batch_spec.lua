local mw = require "moonwatch"
local error_of = require "spec.support.error_of"

local STAY = { once = false }

describe("mw.batch", function()
  local obj, notes

  local function guard(name)
    return function(o, key, old, new, kind)
      assert.equal(obj, o)
      notes[#notes + 1] = ("%s %s:%s>%s %s"):format(name, key, old, new, kind)
    end
  end

  before_each(function()
    obj, notes = { a = 1, b = 2 }, {}
  end)

  it("calls each guard once, at the end", function()
    mw.watch(obj, guard "x", STAY)
    mw.watch(obj, guard "y")
    mw.batch(function()
      obj.a = 2
      obj.a = 3
      obj.c = 4
      assert.same({}, notes)
      assert.equal(3, obj.a)
    end)
    assert.same({ "x c:nil>4 insert", "y c:nil>4 insert" }, notes)
    assert.equal(3, mw.mutations(obj))
    obj.a = 5
    assert.equal(3, #notes)
  end)

  it("tells the last key that concerned them, from before to after", function()
    mw.watch(obj, guard "a", { key = "a" })
    mw.watch(obj, guard "all")
    mw.watch(obj, guard "c", { key = "c", phase = "after" })
    mw.watch(obj, guard "d", { key = "d" })
    mw.batch(function()
      obj.a = 2
      obj.b = 3
      obj.a = nil
      obj.c = 1
      obj.b = 4
    end)
    assert.same({ "a a:1>nil delete", "all b:2>4 update",
      "c c:nil>1 insert" }, notes)
  end)

  it("compares before and after for equal = skip", function()
    mw.watch(obj, guard "x", { equal = "skip", once = false })
    mw.batch(function()
      obj.a = 5
      obj.a = 1
    end)
    assert.same({}, notes)
    mw.batch(function() obj.a = 5 end)
    assert.same({ "x a:1>5 update" }, notes)
  end)

  it("returns what the function returns, and passes arguments", function()
    local results = table.pack(mw.batch(function(...)
      return select("#", ...), nil, ...
    end, nil, 2, nil))
    assert.equal(5, results.n)
    assert.same({ 3, nil, nil, 2, n = 5 }, results)
  end)

  it("ends when the outermost one does", function()
    mw.watch(obj, guard "x", STAY)
    mw.batch(function()
      mw.batch(function() obj.a = 2 end)
      assert.same({}, notes)
    end)
    assert.same({ "x a:1>2 update" }, notes)
  end)

  it("calls them also when the function fails, whose error goes on", function()
    mw.watch(obj, guard "x")
    local err = {}
    assert.equal(err, error_of(mw.batch, function()
      obj.a = 2
      mw.batch(error, err)
    end))
    assert.same({ "x a:1>2 update" }, notes)
    mw.watch(obj, function() error "not this one" end)
    assert.equal("bad", error_of(mw.batch, function()
      obj.a = 3
      error("bad", 0)
    end))
  end)

  it("raises the first error of a guard, after all were called", function()
    mw.watch(obj, function() error("one", 0) end)
    mw.watch(obj, function() error("two", 0) end)
    mw.watch(obj, guard "x")
    assert.matches("^one", error_of(mw.batch, function() obj.a = 2 end))
    assert.equal(1, #notes)
    assert.equal(2, obj.a)
  end)

  it("makes mw.guards invalid at once, for they are not called", function()
    local valid, skips = mw.guard(), mw.guard()
    mw.watch(obj, valid)
    mw.watch(obj, skips, { equal = "skip" })
    mw.batch(function()
      obj.a = 2
      assert.is_false(valid.valid)
      obj.a = 1
    end)
    assert.is_true(skips.valid)
  end)

  it("within the end of another has old values of its own", function()
    local n = 0
    mw.watch(obj, function(o, _, old, new)
      n = n + 1
      if n == 1 then
        assert.same({ 1, 2 }, { old, new })
        mw.batch(function() o.a = 1 end)
      else
        assert.same({ 2, 1 }, { old, new })
      end
    end, { once = false, equal = "skip" })
    mw.batch(function() obj.a = 2 end)
    assert.equal(2, n)
  end)

  it("does not let a write of the same value hide another", function()
    mw.watch(obj, guard "x", { equal = "skip" })
    mw.batch(function()
      obj.a = 2
      obj.b = 2
    end)
    assert.same({ "x a:1>2 update" }, notes)
  end)

  it("keeps the kinds of what is no write", function()
    mw.watch(obj, guard "x", STAY)
    mw.batch(function() mw.touch(obj, "a") end)
    assert.same({ "x a:1>1 touch" }, notes)
    local class = {}
    mw.batch(function() mw.setmetatable(obj, class) end)
    assert.equal("x nil:nil>" .. tostring(class) .. " metatable", notes[2])
  end)

  it("ends even where the C stack does", function()
    mw.watch(obj, guard "x", STAY)
    local function deep()
      pcall(string.gsub, "a", "a", deep)
      pcall(mw.batch, function() end)
    end
    deep()
    obj.a = 2
    assert.same({ "x a:1>2 update" }, notes)
  end)

  it("bears a guard that batches, and one that writes", function()
    local n = 0
    mw.watch(obj, function()
      n = n + 1
      if n < 4 then
        mw.batch(function() obj.a = n + 10 end)
        obj.b = n
      end
    end, STAY)
    mw.watch(obj, guard "x")
    mw.batch(function() obj.a = 2 end)
    assert.same({ "x a:2>11 update" }, notes) -- the later batch's
    assert.is_true(n >= 4)
  end)

  it("bears objects that are unwatched, cancelled and forgotten", function()
    local other = {}
    mw.watch(obj, guard "gone", STAY)
    mw.watch(other, function() error "gone as well" end, STAY)
    local handle = mw.watch(obj, guard "cancelled", STAY)
    mw.batch(function()
      obj.a = 2
      other.a = 1
      handle:cancel()
      mw.unwatch(obj)
      mw.unwatch(other)
      other = nil
      collectgarbage()
      obj.a = 3
    end)
    assert.same({}, notes)
    assert.equal(3, rawget(obj, "a"))
  end)

  it("ends the watches of what is unwatched at once", function()
    local handle = mw.watch(obj, guard "gone", STAY)
    mw.batch(function()
      obj.a = 2
      assert.is_true(handle:alive())
      mw.unwatch(obj)
      assert.is_false(handle:alive())
    end)
    assert.is_false(handle:alive())
    assert.same({}, notes)
  end)

  it("takes any keys", function()
    local key = {}
    mw.watch(obj, guard "x", STAY)
    mw.batch(function()
      mw.touch(obj)
      pcall(function() obj[0 / 0] = 1 end)
      obj[key] = 1
      obj[1.0] = 1
    end)
    assert.same({ "x 1:nil>1 insert" }, notes)
  end)

  it("takes a key that no table takes, as the last one too", function()
    local deep = {}
    mw.watch(obj, guard "x", STAY)
    mw.watch(obj, function(o, path) deep[#deep + 1] = { o, path[1] } end,
      { deep = true, once = false })
    mw.batch(function()
      mw.touch(obj)
      obj.a = 5
      pcall(function() obj[0 / 0] = 1 end)
    end)
    assert.matches("^x %-?nan:nil>nil delete$", notes[1])
    assert.equal(obj, deep[1][1])
    assert.are_not.equal(deep[1][2], deep[1][2])
    mw.batch(function()
      pcall(function() obj[0 / 0] = 1 end)
      mw.touch(obj)
    end)
    assert.equal("x nil:nil>nil touch", notes[2])
  end)

  it("holds nothing afterwards", function()
    local weak = setmetatable({}, { __mode = "k" })
    mw.watch(obj, guard "x", STAY)
    mw.batch(function()
      local value = {}
      weak[value] = true
      obj.a = value
      obj.a = nil
    end)
    notes = {}
    collectgarbage()
    assert.is_nil(next(weak))
  end)

  it("raises for what is no function", function()
    assert.equal("bad argument #1 to 'batch' (function expected, got no value)",
      error_of(mw.batch))
  end)
end)

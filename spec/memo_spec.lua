local mw = require "moonwatch"
local error_of = require "spec.support.error_of"

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

  it("is invalid when nobody would tell it any more", function()
    local a = { x = 1 }
    local memo = mw.memo(function() return a.x end, a)
    assert.equal(1, memo())
    mw.unwatch(a)
    a.x = 2
    assert.equal(2, memo())
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
    local object = require "support".userdata {
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

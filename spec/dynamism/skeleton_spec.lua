local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local picture = require "spec.support.picture"

describe("a skeleton", function()
  it("has placeholders for what has a shape, and all else as it was", function()
    local value = {
      w = { shape = { 3, 4 }, data = { 1, 2, 3 } }, n = 5, s = "x",
      list = { true, print, { shape = {} } }, shape = "none",
    }
    local before = picture(value)
    assert.same({
      w = { meta = true, shape = { 3, 4 } }, n = 5, s = "x",
      list = { true, print, { meta = true, shape = {} } }, shape = "none",
    }, mw.skeleton(value))
    assert.equal(before, picture(value))
  end)

  it("shares nothing that can be written", function()
    local value = { w = { shape = { 3 } }, t = {} }
    local copy = mw.skeleton(value)
    copy.w.shape[1], copy.t.x = 4, 1
    assert.same({ w = { shape = { 3 } }, t = {} }, value)
  end)

  it("has the same sharing and the same cycles", function()
    local w, t = { shape = { 1 } }, {}
    local value = { a = t, b = t, w, w }
    value.me, t.up = value, value
    local copy = mw.skeleton(value)
    assert.equal(copy, copy.me)
    assert.equal(copy.a, copy.b)
    assert.equal(copy, copy.a.up)
    assert.equal(copy[1], copy[2])
    assert.not_equal(value, copy)
  end)

  it("has the same classes, whose functions are not called", function()
    local Class = { __newindex = error, __index = error, __pairs = error,
      __len = error }
    local obj = setmetatable({ x = 1 }, Class)
    local copy = mw.skeleton { obj }
    assert.equal(Class, getmetatable(copy[1]))
    assert.equal(1, rawget(copy[1], "x"))
  end)

  it("of what is no table is that", function()
    assert.equal(5, mw.skeleton(5))
    assert.is_nil(mw.skeleton(nil))
    assert.equal(io.stdout, mw.skeleton(io.stdout))
    assert.same({ meta = true, shape = { 2 } }, mw.skeleton { shape = { 2 } })
  end)

  it("keeps what has a finaliser", function()
    local obj = setmetatable({}, { __gc = function() end })
    assert.equal(obj, mw.skeleton({ obj })[1])
  end)

  it("asks for shapes as it is told", function()
    assert.same({ meta = true, shape = { 7 } }, mw.skeleton({ size = 7 }, {
      shape = function(v) return { v.size } end,
    }))
    local function broken() error "no" end
    assert.same({ x = 1 }, mw.skeleton({ x = 1 }, { shape = broken }))
  end)

  it("is thousands deep if need be", function()
    local value = {}
    for _ = 1, 100000 do value = { value } end
    local copy, depth = mw.skeleton(value), 0
    while copy[1] do copy, depth = copy[1], depth + 1 end
    assert.equal(100000, depth)
  end)

  it("has the contents of watched tables", function()
    local value = { a = { b = 1 } }
    mw.watch(value, error, { deep = true })
    local copy = mw.skeleton(value)
    assert.same({ a = { b = 1 } }, copy)
    assert.is_false(mw.is_watched(copy))
    assert.is_nil(getmetatable(copy))
  end)

  it("knows its options", function()
    misuse("bad argument #2 to 'skeleton' (unknown option 'shapes')",
      mw.skeleton, {}, { shapes = print })
    misuse("bad argument #2 to 'skeleton' (table expected, got number)",
      mw.skeleton, {}, 1)
  end)
end)

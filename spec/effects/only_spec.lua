local misuse = require "spec.support.misuse"
local mw = require "moonwatch"

local function record(f)
  local ok, fx = mw.transaction(f)
  assert.is_true(ok, fx)
  return fx
end

local function show(fx)
  local list = {}
  for e in fx:entries() do list[#list + 1] = tostring(e.key) end
  return table.concat(list, " ")
end

describe("the part of effects below a root", function()
  local a, b

  before_each(function()
    a = mw.track({ x = { y = 1 } }, { deep = true })
    b = mw.track({ list = {} }, { deep = true })
  end)

  it("has the writes below the root, in order, and no others", function()
    local fx = record(function()
      a.n = 1
      b.n = 1
      a.x.y = 2
      b.list[1] = {}
      b.list[1].z = 3
    end)
    assert.equal("n y", show(fx:only(a)))
    assert.equal("y", show(fx:only(a.x)))
    assert.equal("n 1 z", show(fx:only(b)))
    assert.equal(0, fx:only({}):len())
    assert.equal(5, fx:len())
  end)

  it("has what came, what went, and what came and went", function()
    local old = b.list
    local fx = record(function()
      b.list = nil
      old.late = 1
      b.work = { {} }
      b.work[1].n = 1
      b.work = nil
      a.n = 1
    end)
    assert.equal("list late work n work", show(fx:only(b)))
    fx:only(b):rollback()
    assert.equal(old, b.list)
    assert.is_nil(old.late)
    assert.equal(1, a.n)
  end)

  it("has what stands under objects, wherever these are", function()
    local unit = {}
    a.unit, b.of = unit, { [unit] = { n = 0 } }
    local fx = record(function() b.of[unit].n = 1 end)
    assert.equal("n", show(fx:only(b)))
    assert.equal("n", show(fx:only(b.of)))
    local root = { of = { [{}] = mw.track {} } }
    fx = record(function() select(2, next(root.of)).x = 1 end)
    assert.equal("x", show(fx:only(root)))
  end)

  it("is made into bytes and patches of its own", function()
    local fx = record(function() a.x.y, b.n = 5, 6 end)
    assert.is_nil((fx:to_bytes(a)))
    local twin = { x = { y = 1 } }
    assert(mw.patch_bytes(twin, fx:only(a):to_bytes(a)))
    assert.same({ x = { y = 5 } }, twin)
    assert.equal("/x/y", fx:only(a):to_patch(a)[1].path)
  end)

  it("is found by a walk where nobody tracks all below", function()
    local root = { shelf = { mw.track {} }, other = {} }
    local alone = mw.track {}
    local fx = record(function() root.shelf[1].x, alone.x = 1, 1 end)
    assert.equal(1, fx:only(root):len())
    assert.equal(root.shelf[1], fx:only(root):objects()[1])
  end)

  it("raises for bad arguments", function()
    local fx = record(function() end)
    misuse("bad argument #1 to 'only' (table expected, got nil)", fx.only, fx)
    misuse("calling 'only' on bad self (effects expected, got table)",
      fx.only, {}, {})
  end)
end)

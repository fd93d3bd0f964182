local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local support = require "support"

-- Effects that track these objects.
local function plan(...)
  local fx = mw.plan()
  for _, obj in ipairs { ... } do fx:track(obj) end
  return fx
end

describe("a scope", function()
  it("refuses writes to what is older", function()
    local old = { x = 1 }
    local fx = plan(old)
    fx:track_global(old, "g")
    local cell = fx:new_cell(1)
    do
      local scope <close> = fx:scope()
      assert.is_table(scope)
      local new, young = fx:track_new {}, fx:track {}
      fx:store(new, "x", 1)
      fx:store(young, "x", 1)
      misuse("'store' writes to what was tracked outside of the scope",
        fx.store, fx, old, "x", 2)
      misuse("'delete' writes to", fx.delete, fx, old, "x")
      misuse("'store_cell' writes to", fx.store_cell, fx, cell, 2)
      misuse("'store_global' writes to", fx.store_global, fx, "g", 2)
      assert.same({ 1, "real" }, { fx:load(old, "x") })
    end
    fx:store(old, "x", 2)
    assert.same({ 2, "pending" }, { fx:load(old, "x") })
  end)

  it("takes what another scope tracked for older", function()
    local fx, inner = mw.plan(), {}
    do
      local _ <close> = fx:scope()
      fx:track(inner)
      fx:store(inner, "x", 1)
    end
    local _ <close> = fx:scope()
    misuse("'store' writes to", fx.store, fx, inner, "x", 2)
  end)

  it("nests, and allows an object that is named", function()
    local old = {}
    local fx = plan(old)
    do
      local _ <close> = fx:scope()
      local mid = fx:track {}
      fx:allow(old)
      fx:store(old, "x", 1)
      do
        local _ <close> = fx:scope()
        fx:store(old, "x", 2)
        misuse("'store' writes to", fx.store, fx, mid, "x", 1)
        fx:allow(mid)
        fx:store(mid, "x", 1)
      end
      fx:store(mid, "x", 2)
    end
    local _ <close> = fx:scope()
    misuse("'store' writes to", fx.store, fx, old, "x", 3)
    misuse("bad argument #1 to 'allow' (is not tracked)", fx.allow, fx, {})
    local scope = fx:scope()
    misuse("calling 'close' on bad self (scope expected, got nil)", scope.close)
  end)

  it("ends those in it, may be ended twice, and by the collector", function()
    local old = {}
    local fx = plan(old)
    local outer = fx:scope()
    local inner = fx:scope()
    outer:close()
    fx:store(old, "x", 1)
    local other = fx:scope()
    inner:close()
    outer:close()
    misuse("'store' writes to", fx.store, fx, old, "x", 3)
    other:close()
    fx:scope()
    collectgarbage()
    collectgarbage()
    fx:store(old, "x", 2)
  end)

  it("ends when there is an error in it", function()
    local old = {}
    local fx = plan(old)
    pcall(function()
      local _ <close> = fx:scope()
      fx:store(old, "x", 1)
    end)
    fx:store(old, "x", 1)
  end)

  it("may warn instead, or say nothing", function()
    local old = {}
    local fx = mw.plan { policy = "warn" }
    fx:track(old)
    local scope = fx:scope()
    fx:store(old, "x", 1)
    assert.matches("'store' writes to what was tracked outside",
      table.concat(support.warnings()))
    assert.same({ 1, "pending" }, { fx:load(old, "x") })
    fx:allow(old)
    fx:store(old, "x", 2)
    assert.same({}, support.warnings())
    scope:close()
    fx = mw.plan { policy = "silent" }
    fx:track(old)
    local _ <close> = fx:scope()
    fx:store(old, "x", 2)
    assert.same({}, support.warnings())
  end)
end)

local misuse = require "spec.support.misuse"
local mw = require "moonwatch"

-- An object that has hooks, and what was done with them.
local function emitter()
  local log = {}
  return {
    on = function(_, event, fn)
      log[#log + 1] = "on " .. event
      return { event = event, fn = fn, remove = function(self)
        log[#log + 1] = "off " .. self.event
      end }
    end,
  }, log
end

local function f() end

describe("a hook", function()
  it("is registered when the effects are applied, in order", function()
    local obj, log = emitter()
    local fx = mw.plan()
    fx:hook(obj, "a", f)
    fx:hook(obj, "b", f)
    assert.is_false(fx:is_empty())
    assert.same({}, log)
    fx:apply()
    assert.same({ "on a", "on b" }, log)
    assert.is_true(fx:is_empty())
    fx:apply()
    assert.same({ "on a", "on b" }, log)
  end)

  it("has an index from 0 that is never used again", function()
    local obj = emitter()
    local fx = mw.plan()
    local first, second = fx:hook(obj, "a", f), fx:hook(obj, "a", f)
    assert.same({ 0, 1 }, { first.index, second.index })
    second:remove()
    assert.equal(2, fx:hook(obj, "a", f).index)
    fx:apply()
    assert.equal(3, fx:hook(obj, "a", f).index)
    fx:clear()
    assert.equal(4, fx:hook(obj, "a", f).index)
    assert.equal(5, fx:clone():hook(obj, "a", f).index)
  end)

  it("that is removed before is not registered", function()
    local obj, log = emitter()
    local fx = mw.plan()
    local zero = fx:hook(obj, "zero", f)
    fx:hook(obj, "one", f)
    zero:remove()
    zero:remove()
    fx:apply()
    assert.same({ "on one" }, log)
  end)

  it("that is removed afterwards is taken back, once", function()
    local obj, log = emitter()
    local fx = mw.plan()
    local hook = fx:hook(obj, "a", f)
    fx:apply()
    hook:remove()
    hook:remove()
    hook:cancel()
    assert.same({ "on a", "off a" }, log)
    assert.is_true(fx:is_empty())
  end)

  it("may be of an object whose 'on' answers nothing", function()
    local fx = mw.plan()
    local hook = fx:hook({ on = f }, "a", f)
    fx:apply()
    hook:remove()
    hook = fx:hook({ on = function() return { cancel = f } end }, "a", f)
    fx:apply()
    hook:remove()
  end)

  it("is registered as the policy says, if it does", function()
    local asked = {}
    local policy = mw.policy {
      register = function(...)
        asked[#asked + 1] = { ... }
        return { remove = function() asked.removed = true end }
      end,
    }
    local former <close> = setmetatable({ policy:use() }, {
      __close = function(self) self[1]:use() end,
    })
    assert.is_table(former)
    local fx, obj = mw.plan(), {}
    local hook = fx:hook(obj, "event", f)
    assert.is_truthy(fx:apply())
    assert.equal(1, #asked)
    assert.is_true(asked[1][1] == obj and asked[1][3] == f)
    assert.equal("event", asked[1][2])
    hook:remove()
    assert.is_true(asked.removed)
  end)

  it("may be on a new object, which its class has taught", function()
    local class = { on = function(self, event) self.heard = event end }
    class.__index = class
    local fx = mw.plan()
    local obj = fx:track_new(class)
    fx:hook(obj, "event", f)
    assert.equal(0, fx:prune())
    fx:apply()
    assert.equal("event", obj.heard)
  end)

  it("takes those back that were registered before one that fails", function()
    local obj, log = emitter()
    local bad = { on = function() error "no such event" end }
    local fx = mw.plan()
    fx:hook(obj, "a", f)
    fx:hook(bad, "b", f)
    local result, message = fx:apply()
    assert.is_nil(result)
    assert.matches("no such event", message)
    assert.same({ "on a", "off a" }, log)
    bad.on = f
    assert.is_truthy(fx:apply())
    assert.same({ "on a", "off a", "on a" }, log)
  end)

  it("that is misused says so where that is", function()
    local fx = mw.plan()
    misuse("bad argument #1 to 'hook' (table or userdata expected, got nil)",
      fx.hook, fx)
    misuse("bad argument #3 to 'hook' (function expected, got nil)",
      fx.hook, fx, {}, "event")
    local hook = fx:hook({}, "event", f)
    misuse("calling 'remove' on bad self (hook expected, got nil)",
      hook.remove)
  end)
end)

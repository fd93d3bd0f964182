local misuse = require "spec.support.misuse"
local mw = require "moonwatch"

local function f() end

-- Effects with something of everything, of these.
local function full(parts)
  local fx = mw.plan()
  fx:track(parts.obj)
  fx:track_cell(parts.fn, 1)
  fx:track_global(parts.env, "g")
  fx:store(parts.obj, "x", 1)
  fx:store(parts.obj, "nan", 0 / 0)
  fx:delete(parts.obj, "y")
  fx:store_global("g", false)
  fx:save(parts.ctx, 1, nil)
  fx:hook(parts.obj, "event", f)
  fx:finally(f)
  return fx
end

local function make_parts()
  local x = {}
  return {
    obj = {}, env = {}, ctx = { save = f }, fn = function() return x end,
  }
end

describe("a clone", function()
  it("is the same", function()
    local fx = full(make_parts())
    local clone = fx:clone()
    assert.is_nil(fx:diff(clone))
    assert.is_nil(clone:diff(fx))
    assert.is_true(fx == clone)
    assert.is_false(rawequal(fx, clone))
  end)

  it("shares nothing", function()
    local parts = make_parts()
    local fx = full(parts)
    local other, cell = {}, nil
    local changes = {
      function(one) one:store(parts.obj, "x", 2) end,
      function(one) one:delete(parts.obj, "x") end,
      function(one) one:store(parts.obj, "z", 2) end,
      function(one) one:store_global("g", true) end,
      function(one) one:track(other) end,
      function(one) one:track_global(parts.env, "h") end,
      function(one) one:save(parts.ctx) end,
      function(one) one:hook(parts.obj, "another", f) end,
      function(one) one:finally(f) end,
      function(one)
        one:prune()
        one:clear()
      end,
      function(one)
        parts.obj.on = f
        one:apply()
      end,
      function(one) cell = one:new_cell(1) end,
      function(one) one:track_new {} end,
    }
    for i, change in ipairs(changes) do
      local one, two = fx:clone(), fx:clone()
      change(one)
      assert.is_false(one == two, "change " .. i)
      assert.is_true(two == fx, "change " .. i)
      one, two = fx:clone(), nil -- luacheck: ignore
      two = one:clone()
      change(one)
      assert.is_true(two == fx, "change " .. i)
    end
    assert.is_false(fx:contains(cell))
  end)

  it("has hooks of its own", function()
    local parts, n = make_parts(), 0
    parts.obj.on = function() n = n + 1 end
    local fx = mw.plan()
    local hook = fx:hook(parts.obj, "event", f)
    local clone = fx:clone()
    hook:remove()
    assert.is_true(fx:is_empty())
    assert.is_false(clone:is_empty())
    clone:apply()
    assert.equal(1, n)
  end)

  it("goes on alone where the other one was", function()
    local obj = {}
    local fx = mw.plan()
    fx:track(obj)
    fx:store(obj, "x", 1)
    local clone = fx:clone()
    fx:store(obj, "x", 2)
    fx:apply()
    assert.same({ 1, "pending" }, { clone:load(obj, "x") })
    clone:apply()
    assert.equal(1, obj.x)
  end)
end)

describe("diff", function()
  local function differ(pattern, change)
    local parts = make_parts()
    local one = full(parts)
    local two = one:clone()
    change(two, parts)
    assert.matches("^" .. pattern, one:diff(two))
    assert.matches("^" .. pattern, two:diff(one))
    assert.is_false(one == two)
  end

  it("names the part that differs", function()
    differ("objects", function(fx) fx:track {} end)
    differ("objects", function(fx) fx:track_global({}, "other") end)
    differ("mutations", function(fx, parts) fx:store(parts.obj, "x", 2) end)
    differ("mutations", function(fx, parts) fx:store(parts.obj, "x", "1") end)
    differ("mutations", function(fx, parts) fx:delete(parts.obj, "x") end)
    differ("mutations", function(fx, parts) fx:store(parts.obj, "w", 2) end)
    differ("mutations", function(fx) fx:store_global("g", nil) end)
    differ("saves", function(fx, parts) fx:save(parts.ctx) end)
    differ("hooks", function(fx, parts) fx:hook(parts.obj, "event", f) end)
    differ("callbacks", function(fx) fx:finally(f) end)
  end)

  it("names the first of several", function()
    differ("objects", function(fx, parts)
      fx:hook(parts.obj, "event", f)
      fx:save(parts.ctx)
      fx:store(parts.obj, "x", 2)
      fx:track {}
    end)
    differ("mutations", function(fx, parts)
      fx:hook(parts.obj, "event", f)
      fx:save(parts.ctx)
      fx:store(parts.obj, "x", 2)
    end)
    differ("saves", function(fx, parts)
      fx:hook(parts.obj, "event", f)
      fx:save(parts.ctx)
    end)
  end)

  it("tells a store of nil from a delete", function()
    local obj = { x = 1 }
    local one, two = mw.plan(), mw.plan()
    one:track(obj)
    two:track(obj)
    one:store(obj, "x", nil)
    two:delete(obj, "x")
    assert.matches("^mutations", one:diff(two))
  end)

  it("sees the order of objects, writes and arguments", function()
    local a, b, ctx = {}, {}, { save = f }
    local function made(order, x, y)
      local fx = mw.plan()
      for _, obj in ipairs(order) do fx:track(obj) end
      fx:store(x, 1, 1)
      fx:store(y, 1, 1)
      return fx
    end
    assert.matches("^objects", made({ a, b }, a, b):diff(made({ b, a }, a, b)))
    assert.matches("^mutations",
      made({ a, b }, a, b):diff(made({ a, b }, b, a)))
    assert.is_nil(made({ a, b }, a, b):diff(made({ a, b }, a, b)))
    local one, two = mw.plan(), mw.plan()
    one:save(ctx, 1)
    two:save(ctx, 1, nil)
    assert.matches("^saves", one:diff(two))
  end)

  it("compares by identity", function()
    local class = { __eq = function() return true end }
    local one, two = mw.plan(), mw.plan()
    one:track(setmetatable({}, class))
    two:track(setmetatable({}, class))
    assert.matches("^objects", one:diff(two))
  end)

  it("does not see what was superseded", function()
    local obj = {}
    local one, two = mw.plan(), mw.plan()
    for _, fx in ipairs { one, two } do fx:track(obj) end
    one:store(obj, "x", 1)
    one:delete(obj, "x")
    one:store(obj, "x", 2)
    two:store(obj, "x", 2)
    assert.is_nil(one:diff(two))
    assert.is_nil(mw.plan():diff(mw.plan()))
  end)

  it("tells an object that is new from one that is not", function()
    local one = mw.plan()
    local obj = one:track_new {}
    local two = mw.plan()
    two:track(obj)
    assert.matches("^objects", one:diff(two))
  end)

  it("is of effects only", function()
    local fx = mw.plan()
    misuse("bad argument #1 to 'diff' (plan expected, got nil)", fx.diff, fx)
    misuse("bad argument #1 to 'diff' (plan expected, got table)", fx.diff,
      fx, {})
    assert.is_false(fx == {})
    assert.is_false(fx == 5)
    assert.is_false(fx == setmetatable({}, { __eq = fx.diff }))
  end)
end)

describe("clear", function()
  it("clears everything", function()
    local parts = make_parts()
    local fx = full(parts)
    fx:scope()
    fx:clear()
    assert.is_true(fx:is_empty())
    assert.is_nil(fx:diff(mw.plan()))
    assert.is_false(fx:contains(parts.obj))
    assert.is_false(fx:is_modified(parts.obj))
    assert.same({}, fx:modified())
    assert.same({ nil, "absent" }, { fx:load(parts.obj, "x") })
    misuse("no global of that name", fx.load_global, fx, "g")
    fx:track(parts.obj)
    fx:track_global(parts.env, "g")
    assert.equal(0, fx:apply():len())
  end)

  it("lets go of everything", function()
    local fx = mw.plan()
    local seen = setmetatable({}, { __mode = "k" })
    for _ = 1, 3 do
      local obj = fx:track_new {}
      seen[obj] = true
      fx:store(obj, "x", 1)
      fx:save(obj)
      fx:allow(obj)
    end
    fx:clear()
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(seen))
  end)

  it("forgets a hook, whose handle can be removed all the same", function()
    local fx = mw.plan()
    local hook = fx:hook({}, "event", f)
    fx:clear()
    hook:remove()
    assert.is_true(fx:is_empty())
  end)
end)

local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local support = require "support"

local function f() end

-- Effects with an object that is not new.
local function plan()
  local fx, old = mw.plan(), {}
  fx:track(old)
  return fx, old
end

describe("prune", function()
  it("forgets new objects that nothing leads to", function()
    local fx, old = plan()
    local kept, lost = fx:track_new {}, fx:track_new {}
    fx:store(lost, "x", 1)
    fx:store(old, "kept", kept)
    assert.equal(1, fx:prune())
    assert.is_true(fx:contains(kept))
    assert.is_false(fx:contains(lost))
    assert.is_false(fx:is_modified(lost))
    assert.is_false(fx:has_pending(lost))
    assert.equal(0, fx:prune())
    assert.equal(1, fx:apply():len())
    assert.is_nil(lost.x)
  end)

  it("forgets no object that is not new, and none after apply", function()
    local fx, old = plan()
    local new = fx:track_new {}
    fx:apply()
    assert.equal(0, fx:prune())
    assert.is_true(fx:contains(old) and fx:contains(new))
  end)

  it("keeps what the roots lead to", function()
    local fx = plan()
    local a, b, c, d = fx:track_new {}, fx:track_new {}, fx:track_new {},
      fx:track_new {}
    assert.equal(1, fx:prune(a, nil, { { [b] = 1 } }, function() return c end))
    assert.is_true(fx:contains(a) and fx:contains(b) and fx:contains(c))
    assert.is_false(fx:contains(d))
  end)

  it("follows stored values, keys too, of what is kept only", function()
    local fx, old = plan()
    local key, value, far = fx:track_new {}, fx:track_new {}, fx:track_new {}
    local lost, below = fx:track_new {}, fx:track_new {}
    fx:store(old, key, { value })
    fx:store(value, "far", far)
    fx:store(lost, "below", below)
    assert.equal(2, fx:prune())
    assert.is_true(fx:contains(key) and fx:contains(value) and
      fx:contains(far))
    assert.is_false(fx:contains(lost) or fx:contains(below))
  end)

  it("does not keep what was stored and overwritten or deleted", function()
    local fx, old = plan()
    local a, b = fx:track_new {}, fx:track_new {}
    fx:store(old, "a", a)
    fx:store(old, "a", 1)
    fx:store(old, "b", b)
    fx:delete(old, "b")
    assert.equal(2, fx:prune())
  end)

  it("copes with cycles, of new objects and of tables", function()
    local fx, old = plan()
    local a, b = fx:track_new {}, fx:track_new {}
    fx:store(a, "b", b)
    fx:store(b, "a", a)
    old.old = old
    assert.equal(2, fx:prune())
    a, b = fx:track_new {}, fx:track_new {}
    fx:store(a, "b", b)
    fx:store(b, "a", a)
    fx:store(old, "a", a)
    assert.equal(0, fx:prune())
  end)

  it("has hooks, saves and callbacks as roots", function()
    local fx = plan()
    local hooked, called, saved, ctx, final = fx:track_new {}, fx:track_new {},
      fx:track_new {}, fx:track_new {}, fx:track_new {}
    fx:hook(hooked, "event", function() return called end)
    fx:save(ctx, nil, saved)
    fx:finally(function() return final end)
    assert.equal(0, fx:prune())
  end)

  it("has cells and globals as roots, with what is pending there", function()
    local fx = plan()
    local a, b, c, d = fx:track_new {}, fx:track_new {}, fx:track_new {},
      fx:track_new {}
    local x = a
    fx:track_cell(function() return x end, 1)
    local y = 1
    fx:store_cell(fx:track_cell(function() return y end, 1), b)
    local env = { g = c }
    fx:track_global(env, "g")
    fx:track_global(env, "h")
    fx:store_global("h", d)
    assert.equal(0, fx:prune())
    fx:store_global("h", nil)
    assert.equal(1, fx:prune())
  end)

  it("forgets a new cell as it does an object", function()
    local fx, old = plan()
    local kept, lost = fx:new_cell(1), fx:new_cell(1)
    local inner = fx:track_new {}
    fx:store_cell(kept, inner)
    fx:store(old, "cell", kept)
    assert.equal(1, fx:prune())
    assert.is_false(fx:contains(lost))
    assert.is_true(fx:contains(inner))
  end)

  it("follows classes, userdata, watched objects and coroutines", function()
    local fx, old = plan()
    local a, b, c, d = fx:track_new {}, fx:track_new {}, fx:track_new {},
      fx:track_new {}
    local userdata = support.userdata {}
    debug.setuservalue(userdata, b, 1)
    local watched = { c }
    mw.watch(watched, f)
    local co = coroutine.create(function(it)
      coroutine.yield(it)
      return it
    end)
    coroutine.resume(co, d)
    fx:store(old, 1, setmetatable({}, { a = a }))
    fx:store(old, 2, userdata)
    fx:store(old, 3, watched)
    fx:store(old, 4, co)
    assert.equal(0, fx:prune())
  end)

  it("lets go of what it drops", function()
    local fx, old = plan()
    local seen = setmetatable({}, { __mode = "k" })
    do
      local lost, below = fx:track_new {}, fx:track_new {}
      seen[lost], seen[below] = true, true
      fx:store(lost, "below", below)
      fx:store(below, "up", lost)
      local scope <close> = fx:scope()
      assert.is_table(scope)
      fx:allow(lost)
    end
    fx:store(old, "x", 1)
    assert.equal(2, fx:prune())
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(seen))
    assert.equal(1, fx:apply():len())
  end)

  it("runs no code of the objects", function()
    local fx, old = plan()
    local trap = setmetatable({}, { __index = error, __pairs = error,
      __len = error, __eq = error })
    fx:store(old, "trap", trap)
    fx:track_new {}
    assert.equal(1, fx:prune(trap))
  end)

  it("that is misused says so where that is", function()
    misuse("calling 'prune' on bad self (plan expected, got nil)",
      mw.plan().prune)
  end)
end)

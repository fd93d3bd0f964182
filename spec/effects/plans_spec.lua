local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local show = require "spec.support.show"

local function f() end

-- An object with hooks, and the functions that are registered.
local function emitter()
  local handlers = {}
  return {
    on = function(_, _, fn)
      handlers[fn] = true
      return { remove = function() handlers[fn] = nil end }
    end,
  }, handlers
end

local function failing(fx, more)
  return mw.transaction(function()
    assert(fx:apply())
    if more then more() end
    error("no", 0)
  end)
end

describe("a plan in a transaction that fails", function()
  it("is as it was, with its hooks undone", function()
    local obj, handlers = emitter()
    local fx, saved, ended = mw.plan(), 0, 0
    fx:track(obj)
    local new, cell = fx:track_new {}, fx:new_cell(1)
    fx:store(obj, "x", new)
    fx:mark(obj)
    fx:hook(obj, "event", f)
    fx:save { save = function() saved = saved + 1 end }
    fx:finally(function() ended = ended + 1 end)
    local clone = fx:clone()
    for i = 1, 3 do
      assert.same({ false, "no" }, { failing(fx) })
      assert.is_nil(obj.x or next(handlers))
      assert.is_true(fx == clone and fx:is_modified(new))
      assert.same({ i, i }, { saved, ended })
    end
    assert.equal(2, fx:apply():len())
    assert.is_true(obj.x == new and handlers[f])
    assert.same({ 1, "real" }, { fx:load_cell(cell) })
  end)

  it("comes before what was added since", function()
    local obj = { x = 0 }
    local fx = mw.plan()
    fx:track(obj)
    fx:store(obj, "x", 1)
    fx:store(obj, "y", 1)
    assert.is_false((failing(fx, function()
      fx:store(obj, "z", 1)
      assert(fx:apply())
      fx:store(obj, "x", 2)
    end)))
    assert.same({ x = 0 }, obj)
    assert.equal("update x:0>2, insert y:nil>1, insert z:nil>1",
      show(fx:apply()))
  end)

  it("comes back from an outer one, and not after a clear", function()
    local obj = {}
    local fx = mw.plan()
    fx:track(obj)
    fx:store(obj, "x", 1)
    mw.transaction(function()
      assert.is_true((mw.transaction(fx.apply, fx)))
      error "no"
    end)
    assert.is_true(fx:has_pending(obj, "x"))
    assert.is_false((failing(fx, function() fx:clear() end)))
    assert.is_true(fx:is_empty())
    assert.is_false(fx:contains(obj))
  end)

  it("says which saves were made when it fails itself", function()
    local closed = setmetatable({}, { __newindex = function() error "no" end })
    local fx = mw.plan()
    fx:track(closed)
    fx:store(closed, "x", 1)
    fx:save { save = function() fx:track {} end }
    local before = fx:clone()
    local _, message = fx:apply()
    assert.matches("no %(1 save was made%)$", message)
    assert.is_true(fx == before)
  end)
end)

describe("a plan", function()
  it("marks what is modified without a store", function()
    local a, b = {}, {}
    local fx = mw.plan()
    fx:track(a)
    fx:track(b)
    local clone = fx:clone()
    fx:mark(b)
    assert.is_true(fx:is_modified(b) and not fx:is_modified(a))
    assert.is_false(fx:has_pending(b) or fx:is_empty())
    assert.equal(b, fx:modified()[1])
    assert.matches("^objects", fx:diff(clone))
    assert.is_true(fx == fx:clone())
    misuse("bad argument #1 to 'mark' (is not tracked)", fx.mark, fx, {})
    local _ <close> = fx:scope()
    misuse("'mark' writes to", fx.mark, fx, a)
    assert.equal(0, fx:apply():len())
    assert.is_true(fx:is_empty())
  end)

  it("adopts what another one tracks", function()
    local a, b, env, mod = {}, {}, { g = 1 }, { g = 2 }
    local fx, other = mw.plan(), mw.plan()
    other:track(a)
    other:track(b)
    local new = other:track_new {}
    other:store(a, "x", 1)
    other:track_global(env, "g")
    other:track_global(mod, "g")
    fx:track(b)
    fx:adopt(other)
    assert.is_true(fx:contains(a) and fx:contains(b) and fx:contains(new))
    assert.is_true(fx:is_empty())
    fx:store(a, "x", 2)
    fx:store_global("g", 3, mod)
    fx:adopt(other)
    fx:adopt(fx)
    assert.equal(2, fx:apply():len())
    assert.equal(1, other:apply():len())
    assert.same({ 1, 3 }, { env.g, mod.g })
    misuse("bad argument #1 to 'adopt' (plan expected, got table)",
      fx.adopt, fx, {})
  end)

  it("has globals of one name in two environments", function()
    local one, two = { g = 1 }, { g = 2 }
    local fx = mw.plan()
    fx:track_global(one, "g")
    fx:store_global("g", 5)
    fx:track_global(two, "g")
    misuse("bad argument #3 to 'store_global' ('g' is tracked in several",
      fx.store_global, fx, "g", 1)
    misuse("bad argument #2 to 'load_global' ('g' is tracked in several",
      fx.load_global, fx, "g")
    misuse("bad argument #2 to 'load_global' (no global 'g' of it is tracked)",
      fx.load_global, fx, "g", {})
    misuse("bad argument #2 to 'track_global' ('g' is tracked already)",
      fx.track_global, fx, two, "g")
    assert.same({ 5, "pending" }, { fx:load_global("g", one) })
    assert.same({ 2, "real" }, { fx:clone():load_global("g", two) })
    fx:store_global("g", 6, two)
    fx:apply()
    assert.same({ 5, 6 }, { one.g, two.g })
  end)

  it("refuses objects whose class intercepts, if it is to", function()
    local fx = mw.plan { intercepted = "refuse" }
    local reads = setmetatable({}, { __index = f })
    local writes = setmetatable({}, { __newindex = {} })
    misuse("(its class intercepts reads)", fx.track, fx, reads)
    misuse("(its class intercepts writes)", fx.track, fx, writes)
    misuse("(its class intercepts writes)", fx.track_new, fx,
      { __newindex = f })
    local other = mw.plan()
    other:track(reads)
    misuse("bad argument #1 to 'adopt' (its class intercepts reads)", fx.adopt,
      fx, other)
    local plain = setmetatable({}, { __index = {} })
    mw.watch(plain, f)
    fx:track(plain)
    misuse("option 'intercepted' is not 'refuse'", mw.plan,
      { intercepted = "warn" })
  end)

  it("knows where its writes were stored, if it is to", function()
    local a, env = {}, {}
    local fx = mw.plan { where = true }
    fx:track(a)
    fx:track_global(env, "g")
    fx:store(a, "x", 1)
    local line = debug.getinfo(1, "l").currentline
    pcall(fx.store, fx, a, "y", 1)
    fx:store_global("g", 1)
    local list = {}
    for e in fx:apply():entries() do
      list[#list + 1] = e.where:match "plans_spec.lua:(%d+)$" - line
    end
    assert.same({ -1, 1, 2 }, list)
    fx:track(setmetatable({}, { __newindex = error }))
    fx:store(fx:track(setmetatable({}, { __newindex = error })), "x", 1)
    local _, _, entry = fx:apply()
    assert.matches("plans_spec.lua:%d+$", entry.where)
  end)

  it("removes a hook by its index, before and after apply", function()
    local obj, handlers = emitter()
    local fx = mw.plan()
    for i = 0, 99 do fx:hook(obj, i, function() return i end) end
    for i = 0, 99, 2 do assert.is_true(fx:remove_hook(i)) end
    assert.is_false(fx:remove_hook(0) or fx:remove_hook(100))
    fx:apply()
    local n = 0
    for _ in pairs(handlers) do n = n + 1 end
    assert.equal(50, n)
    for i = 99, 1, -2 do assert.is_true(fx:remove_hook(i)) end
    assert.is_nil(next(handlers))
    assert.is_false(fx:remove_hook(1))
    misuse("bad argument #1 to 'remove_hook' (integer expected, got nil)",
      fx.remove_hook, fx)
  end)

  it("takes only the events that the policy knows", function()
    local class = { __name = "Button" }
    local former = mw.policy { classes = { Button = { events = { "click" } } } }
      :use()
    local _ <close> = setmetatable({}, {
      __close = function() former:use() end,
    })
    local fx, obj = mw.plan(), setmetatable({}, class)
    fx:hook(obj, "click", f)
    misuse("bad argument #2 to 'hook' (the policy has no event 'key'", fx.hook,
      fx, obj, "key", f)
    fx:hook({}, "key", f)
    assert.equal(2, fx:hook(obj, "click", f).index)
  end)

  it("is cloned with its scopes, which the original ends", function()
    local old = {}
    local fx = mw.plan()
    fx:track(old)
    local outer = fx:scope()
    fx:allow(old)
    local inner = fx:scope()
    local mid = fx:track {}
    local clone = fx:clone()
    local own = clone:scope()
    clone:store(old, "x", 1)
    misuse("'store' writes to", clone.store, clone, mid, "x", 1)
    local again = clone:clone()
    outer:close()
    misuse("'store' writes to", clone.store, clone, mid, "x", 1)
    own:close()
    for _, its in ipairs { again, clone } do
      its:store(mid, "x", 1)
      its:store(old, "x", 2)
    end
    assert.is_true(fx:is_empty())
    inner:close()
    local _ <close> = clone:scope()
    misuse("'store' writes to", clone.store, clone, old, "x", 3)
    fx:store(old, "x", 3)
    again:store(old, "x", 3)
  end)

  it("has scopes in scopes to any depth", function()
    local fx, total, scopes = mw.plan(), {}, {}
    fx:track(total)
    for i = 1, 5000 do
      scopes[i] = fx:scope()
      if i == 1 then fx:allow(total) end
      fx:store(fx:track {}, "x", i)
      fx:store(total, "x", i)
    end
    scopes[2]:close()
    fx:store(total, "x", 0)
    scopes[1]:close()
    fx:store(total, "x", 1)
  end)

  it("becomes the source of a program, before it is applied", function()
    local Class = { __name = "Class" }
    local game = { hero = { hp = 1, old = 2 }, Class = Class,
      ctx = { save = f }, button = { on = f }, click = f }
    local fx = mw.plan()
    fx:track(game.hero)
    local new = fx:track_new(Class)
    fx:store(fx:track_new {}, "lost", 1)
    fx:store(new, "level", 3)
    fx:store(game.hero, "pet", new)
    fx:delete(game.hero, "old")
    fx:delete(game.hero, "absent")
    fx:store(game.hero, "hp", 5)
    fx:save(game.ctx, "a", nil, new)
    fx:hook(game.button, "click", game.click)
    local text = assert(fx:to_lua { game = game })
    assert.same({ 1, nil }, { game.hero.hp, new.level })
    local calls = {}
    local twin = { hero = { hp = 1, old = 2 }, Class = {}, click = f,
      ctx = { save = function(_, ...) calls[1] = table.pack(...) end },
      button = { on = function(_, ...) calls[2] = table.pack(...) end } }
    assert(load(text, "text", "t", { game = twin, setmetatable = setmetatable
    }))()
    assert.equal(twin.Class, getmetatable(twin.hero.pet))
    assert.same({ hp = 5, pet = { level = 3 } }, twin.hero)
    assert.same({ n = 3, "a", nil, twin.hero.pet }, calls[1])
    assert.same({ n = 2, "click", f }, calls[2])
    assert.is_true(fx == fx:clone() and fx:contains(new))
    misuse("bad argument #1 to 'to_lua' (table expected, got nil)", fx.to_lua,
      fx)
    fx:hook(game.button, "click", function() end)
    assert.is_nil((fx:to_lua { game = game }))
  end)
end)

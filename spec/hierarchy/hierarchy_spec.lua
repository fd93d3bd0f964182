local mw = require "moonwatch"
local contents = require "spec.support.contents"
local error_of = require "spec.support.error_of"
local styles = require "spec.support.styles"

local h
local original = mw.policy({}):use()

local function hierarchy(opts)
  h = mw.hierarchy(opts)
  return h
end

after_each(function()
  original:use()
  if h then h:close() end
  h = nil
end)

local function class(name, base)
  local c = setmetatable({ __name = name }, base and { __index = base })
  c.__index = c
  return c
end

local function set(...)
  local t = { Global = true }
  for _, name in ipairs { ... } do t[name] = true end
  return t
end

-- Mod has Foos in fields, in plain tables and in arrays, and calls them.
local function module_world(saw)
  local Foo, Mod = class "Foo", class "Mod"
  local function foo() return setmetatable({}, Foo) end
  function Foo:forward(...) -- luacheck: ignore self
    saw()
    return ...
  end
  function Mod:forward(...)
    self.c[1]:forward()
    self.a:forward()
    return self.b.nest:forward(...)
  end
  local mod = setmetatable({ a = foo(), b = { nest = foo() },
    c = { foo() } }, Mod)
  return mod, Mod, Foo, foo
end

describe("mw.hierarchy", function()
  it("shows the path of what runs, forward and in reverse", function()
    local seen = {}
    local function saw() seen[#seen + 1] = { h:parents(), h:is_reverse() } end
    local mod, Mod, Foo = module_world(saw)
    hierarchy()
    h:instrument(Mod, { "forward" })
    h:instrument(Foo, { "forward" })
    h:record()
    mod:forward()
    mod:forward()
    local c1, a, nest = set("Mod", "Mod.c.1"), set("Mod", "Mod.a"),
      set("Mod", "Mod.b.nest")
    assert.same({ { c1, false }, { a, false }, { nest, false },
      { c1, false }, { a, false }, { nest, false } }, seen)
    seen = {}
    h:backward(function(obj)
      if obj ~= mod then saw() else assert.same(set "Mod", h:parents()) end
    end)
    assert.same({ { nest, true }, { a, true }, { c1, true },
      { nest, true }, { a, true }, { c1, true } }, seen)
    assert.same(set(), h:parents())
    assert.is_false(h:is_reverse())
  end)

  it("names a whole subtree when its parent is first entered", function()
    local mod = module_world()
    hierarchy()
    assert.equal("Mod", h:enter(mod))
    assert.same({ "Mod", "Mod.a", "Mod.b.nest", "Mod.c.1" }, h:names())
    assert.equal("Mod.b.nest", h:name_of(mod.b.nest))
    assert.is_nil(h:name_of(mod.b))
    assert.equal(mod.c[1], h:object "Mod.c.1")
    assert.is_nil(h:object "Mod.c")
    assert.is_nil(h:object(nil))
    h:leave(mod)
  end)

  it("tells name, object and depth of what runs", function()
    local mod = module_world()
    hierarchy()
    assert.equal(0, select("#", h:current()))
    h:enter(mod)
    assert.same({ "Mod", mod, 1 }, { h:current() })
    assert.equal("Mod.a", h:enter(mod.a))
    assert.same({ "Mod.a", mod.a, 2 }, { h:current() })
    assert.same({ "Mod", "Mod.a" }, h:path())
    h:leave(mod.a)
    h:leave(mod)
    assert.same({}, h:path())
    assert.same(set(), h:parents())
  end)

  it("has another root name if one wants", function()
    hierarchy { root = "World" }
    assert.same({ World = true }, h:parents())
  end)

  it("counts what enters itself until the last leave", function()
    local mod = module_world()
    hierarchy()
    assert.equal("Mod", h:enter(mod))
    assert.equal("Mod", h:enter(mod))
    assert.same({ "Mod", "Mod" }, h:path())
    h:leave(mod)
    assert.same(set "Mod", h:parents())
    h:leave(mod)
    assert.same(set(), h:parents())
  end)

  it("unwinds what was skipped when an object is left", function()
    local mod = module_world()
    hierarchy()
    h:enter(mod)
    h:enter(mod.a)
    h:enter(mod.c[1])
    h:leave(mod)
    assert.same({}, h:path())
  end)

  it("gives two live roots of a class different names", function()
    local Foo = class "Foo"
    local a, b = setmetatable({}, Foo), setmetatable({}, Foo)
    hierarchy()
    for obj, name in pairs { [a] = "Foo", [b] = "Foo#2" } do
      if name == "Foo" then assert.equal("Foo", h:enter(a)) end
      h:leave(obj)
    end
    assert.equal("Foo#2", h:enter(b))
    h:leave(b)
    assert.equal("Foo", h:enter(a))
    h:leave(a)
  end)

  it("keeps neither objects nor their names", function()
    local Foo = class "Foo"
    hierarchy()
    for _ = 1, 5000 do
      local obj = setmetatable({}, Foo)
      h:enter(obj)
      h:leave(obj)
    end
    collectgarbage()
    collectgarbage()
    assert.same({}, h:names())
    assert.is_nil(h:object "Foo")
    assert.equal("Foo", h:enter(setmetatable({}, Foo)))
    h:reset()
  end)

  it("renames what was entered before its parent, and below it", function()
    local mod = module_world()
    local Top = class "Top"
    local top = setmetatable({ mod = mod }, Top)
    hierarchy()
    assert.equal("Foo", h:enter(mod.a))
    h:leave(mod.a)
    h:enter(mod)
    assert.equal("Mod.a", h:enter(mod.a))
    h:leave(mod)
    h:enter(top)
    assert.same({ "Top", "Top.mod", "Top.mod.a", "Top.mod.b.nest",
      "Top.mod.c.1" }, h:names())
    assert.is_nil(h:object "Foo")
    h:leave(top)
  end)

  it("names a child that was added later under its parent", function()
    local mod, _, _, foo = module_world()
    hierarchy()
    h:enter(mod)
    mod.later = foo()
    assert.equal("Mod.later", h:enter(mod.later))
    h:leave(mod.later)
    mod.c[2] = foo()
    assert.equal("Mod.c.2", h:enter(mod.c[2]))
    h:leave(mod)
  end)

  it("names a child that was moved by the way it is entered", function()
    local mod = module_world()
    local foo = mod.a
    hierarchy()
    h:enter(mod)
    mod.a, mod.z = nil, foo
    assert.equal("Mod.z", h:enter(foo))
    h:leave(foo)
    mod.c[2], mod.z = foo, nil
    assert.equal("Mod.c.2", h:enter(foo))
    h:leave(mod)
    mod.c[2] = nil
    assert.equal("Foo", h:enter(foo))
    h:leave(foo)
  end)

  it("shows a shared child on the path on which it is entered", function()
    local mod, Mod, _, foo = module_world()
    local shared = foo()
    local one = setmetatable({ x = shared }, Mod)
    local two = setmetatable({ y = shared }, Mod)
    hierarchy()
    for _ = 1, 2 do
      h:enter(one)
      assert.equal("Mod.x", h:enter(shared))
      h:leave(one)
      h:enter(two)
      assert.equal("Mod#2.y", h:enter(shared))
      h:leave(two)
    end
    mod.a = shared
    h:enter(mod)
    h:enter(one)
    h:enter(shared)
    assert.same({ "Mod#3", "Mod", "Mod.x" }, h:path())
    h:leave(mod)
  end)

  it("copes with parents in their children's fields", function()
    local mod = module_world()
    mod.a.parent, mod.b.nest.top = mod, mod
    hierarchy()
    assert.equal("Mod", h:enter(mod))
    assert.equal("Mod.a", h:enter(mod.a))
    assert.equal("Mod", h:enter(mod))
    assert.equal("Mod.b.nest", h:enter(mod.b.nest))
    h:leave(mod.b.nest)
    h:leave(mod)
    h:leave(mod.a)
    h:leave(mod)
    assert.same({}, h:path())
    assert.equal("Mod", h:name_of(mod))
  end)

  it("sees into watched objects", function()
    local mod = module_world()
    mw.watch(mod, print, { deep = true })
    hierarchy()
    assert.equal("Mod", h:enter(mod))
    assert.equal("Mod.c.1", h:enter(mod.c[1]))
    h:leave(mod.c[1])
    assert.equal("Mod.c.1", h:enter(mod.c[1]))
    h:leave(mod)
    mw.unwatch(mod)
    h:enter(mod)
    assert.equal("Mod.c.1", h:enter(mod.c[1]))
    h:leave(mod)
  end)

  it("finds children and names as it is told", function()
    local a, b = {}, {}
    local root = { parts = { b, left = a } }
    hierarchy {
      children = function(obj) return obj.parts end,
      name = function(parent, key) return parent .. "/" .. key end,
      class_name = function(obj) return obj == root and "root" or nil end,
    }
    assert.equal("root", h:enter(root))
    assert.same({ "root", "root/1", "root/left" }, h:names())
    assert.equal("root/left", h:enter(a))
    h:leave(root)
  end)

  it("finds children with an iterator", function()
    local root = { { n = 1 }, { n = 2 } }
    hierarchy { children = function(obj) return ipairs(obj) end }
    h:enter(root)
    assert.same({ "table", "table.1", "table.2" }, h:names())
    h:leave(root)
  end)

  it("names as the policy says", function()
    local mod = module_world()
    mw.policy({
      name = function(parent, key)
        if key == "a" then return parent end -- a wrapper
        return parent .. ":" .. key
      end,
      class_name = function() return "Root" end,
    }):use()
    hierarchy()
    h:enter(mod)
    assert.same({ "Root", "Root:b.nest", "Root:c.1" }, h:names())
    assert.equal(mod, h:object "Root")
    h:leave(mod)
  end)

  it("names by class, key and kind of key, in order", function()
    local Foo = class "Foo"
    function Foo.update() end
    local function foo() return setmetatable({}, Foo) end
    local order = {}
    local obj = { foo(), foo(), z = foo(), a = foo(), [10] = foo(),
      [true] = foo(), [1.5] = foo() }
    hierarchy { name = function(_, key)
      order[#order + 1] = key
      return nil
    end }
    h:enter(obj)
    assert.same({ 1, 2, true, 1.5, 10, "a", "z" }, order)
    assert.equal("table[1.5]", h:name_of(obj[1.5]))
    h:leave(obj)
  end)

  it("changes nothing when it cannot name", function()
    local mod = module_world()
    hierarchy { name = function() error("no name", 0) end }
    assert.equal("no name", error_of(h.enter, h, mod))
    assert.same({}, h:names())
    assert.same({}, h:path())
  end)

  it("enters userdata, functions and threads as well", function()
    hierarchy()
    local thread = coroutine.create(print) -- the stack has it weakly
    assert.equal("FILE*", h:enter(io.stdout))
    assert.equal("function", h:enter(print))
    assert.equal("thread", h:enter(thread))
    assert.same({ "FILE*", "function", "thread" }, h:path())
    h:leave(thread)
  end)

  it("has a stack a hierarchy", function()
    local other <close> = mw.hierarchy()
    local mod = module_world()
    hierarchy()
    h:enter(mod)
    assert.same({}, other:path())
    assert.same({}, other:names())
    h:leave(mod)
  end)

  it("forgets what runs when it is reset", function()
    local mod = module_world()
    hierarchy()
    h:enter(mod)
    local s <close> = h:scope(mod.a)
    h:reset()
    assert.same(set(), h:parents())
    assert.equal("Mod.a", s.name)
    h:enter(mod)
    s:close()
    assert.same({ "Mod" }, h:path())
  end)
end)

describe("a hierarchy's scope", function()
  it("leaves when it is closed, once", function()
    local mod = module_world()
    hierarchy()
    do
      local s <close> = h:scope(mod)
      assert.equal("Mod", s.name)
      assert.same({ "Mod" }, h:path())
      s:close()
      assert.same({}, h:path())
      h:enter(mod)
    end
    assert.same({ "Mod" }, h:path())
  end)

  it("unwinds what an error skipped", function()
    local mod = module_world()
    hierarchy()
    h:enter(mod)
    local err = error_of(function()
      local _ <close> = h:scope(mod.a)
      h:enter(mod.c[1])
      error("oops", 0)
    end)
    assert.equal("oops", err)
    assert.same({ "Mod" }, h:path())
  end)

  it("lasts while its coroutine waits", function()
    local mod = module_world()
    hierarchy()
    local co = coroutine.wrap(function()
      local _ <close> = h:scope(mod)
      coroutine.yield(h:path())
      return h:path()
    end)
    assert.same({ "Mod" }, co())
    assert.same({}, h:path())
    h:enter(mod.a)
    assert.same({ "Mod" }, co())
    assert.same({ "Mod.a" }, h:path())
  end)

  it("keeps the hierarchy", function()
    local told, other = 0, mw.hierarchy()
    local id = { update = function() end }
    other:on { enter = function() told = told + 1 end }
    other:instrument(id, { "update" })
    other = nil -- luacheck: ignore 311
    collectgarbage()
    collectgarbage()
    id:update()
    assert.equal(1, told)
  end)

  it("is left when its coroutine is closed", function()
    local mod = module_world()
    local left = {}
    hierarchy()
    h:on { leave = function(_, name) left[#left + 1] = name end }
    local co = coroutine.create(function()
      local _ <close> = h:scope(mod)
      h:enter(mod.a)
      coroutine.yield()
    end)
    coroutine.resume(co)
    coroutine.close(co)
    assert.same({ "Mod.a", "Mod" }, left)
    assert.same({}, h:path())
  end)

  it("goes with a coroutine that is dropped", function()
    local mod = module_world()
    hierarchy()
    for i = 1, 200 do
      local co = coroutine.wrap(function()
        assert(#h:path() == 0)
        local s <close> = h:scope(mod)
        coroutine.yield(s)
      end)
      co()
      assert.same({}, h:path())
      if i % 20 == 0 then collectgarbage() end
    end
    collectgarbage()
    mw.reap()
    assert.same({}, h:path())
    assert.equal(0, require("moonwatch.core").private.its(h).engine.frames())
  end)
end)

for name, style in pairs(styles) do
  describe("h:instrument of a class in the style " .. name, function()
    it("enters and leaves, and gives the class back exactly", function()
      local Base = style.make("Base")
      local seen
      function Base:update(...)
        seen = { h:current() }
        return self, ...
      end
      local Sub = style.make("Sub", Base)
      local before = { contents.of(Base), contents.of(Sub) }
      hierarchy()
      local handle = h:instrument(Base, { "update" })
      local inherited = h:instrument(Sub, { "update" })
      local obj, sub = style.construct(Base), style.construct(Sub)
      assert.same({ obj, 1, nil }, { obj:update(1, nil) })
      assert.same({ "Base", obj, 1 }, seen)
      sub:update()
      assert.same({ "Sub", sub, 1 }, seen)
      assert.same({}, h:path())
      local holder = { sub = sub }
      h:enter(holder)
      assert.equal("table.sub", h:name_of(sub))
      h:leave(holder)
      handle:cancel()
      handle:cancel()
      inherited:cancel()
      contents.assert_unchanged(before[1], Base)
      contents.assert_unchanged(before[2], Sub)
      h:instrument(Base, { "update" })
      h:instrument(Sub, { "update" })
      sub:update()
      assert.same({ "table.sub", sub, 1 }, seen)
      h:close()
      contents.assert_unchanged(before[1], Base)
      contents.assert_unchanged(before[2], Sub)
    end)
  end)
end

describe("an instrumented method", function()
  local Foo, obj

  before_each(function()
    Foo = class "Foo"
    obj = setmetatable({}, Foo)
    hierarchy()
  end)

  it("passes values through", function()
    function Foo.update(...) return select("#", ...), ... end
    h:instrument(Foo, { "update" })
    local results = table.pack(obj:update(nil, 2, nil))
    assert.same({ 4, obj, nil, 2, nil, n = 5 }, results)
    assert.equal(0, Foo.update())
    assert.equal(1, (Foo.update(nil)))
  end)

  it("passes errors through", function()
    local err = setmetatable({}, {})
    function Foo.update() error(err) end
    h:instrument(Foo, { "update" })
    assert.equal(err, error_of(obj.update, obj))
    assert.same({}, h:path())
  end)

  it("passes yields through", function()
    function Foo:update(x) -- luacheck: ignore self
      return coroutine.yield(x, h:path())
    end
    h:instrument(Foo, { "update" })
    local co = coroutine.wrap(function() return obj:update(1), h:path() end)
    assert.same({ 1, { "Foo" } }, { co() })
    assert.same({}, h:path())
    assert.same({ 2, {} }, { co(2) })
  end)

  it("is left when its coroutine is closed", function()
    function Foo.update() coroutine.yield() end
    h:instrument(Foo, { "update" })
    local co = coroutine.create(obj.update)
    coroutine.resume(co, obj)
    assert.equal(1, require("moonwatch.core").private.its(h).engine.frames())
    coroutine.close(co)
    assert.equal(0, require("moonwatch.core").private.its(h).engine.frames())
  end)

  it("may end with a tail call, and call itself", function()
    local depth
    function Foo:update(n)
      depth = select(3, h:current())
      if n == 0 then return "done", self end
      return self:update(n - 1)
    end
    h:instrument(Foo, { "update" })
    assert.same({ "done", obj }, { obj:update(1000) })
    assert.equal(1001, depth)
    assert.same({}, h:path())
  end)

  it("may be running when all is closed, or reset", function()
    for _, method in ipairs { "reset", "close" } do
      function Foo.update() h[method](h) end
      h:instrument(Foo, { "update" })
      obj:update()
      assert.same({}, h:path())
    end
  end)
end)

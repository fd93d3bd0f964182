local raw_of = require "spec.support.raw_of"
local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local styles = require "spec.support.styles"
local show = require "spec.support.show"

-- Effects that track these objects.
local function plan(...)
  local fx = mw.plan()
  for _, obj in ipairs { ... } do fx:track(obj) end
  return fx
end

describe("plans", function()
  it("change nothing until they are applied", function()
    local obj, heard = { x = 1 }, 0
    mw.watch(obj, function() heard = heard + 1 end, { once = true })
    local fx = plan(obj)
    fx:store(obj, "x", 2)
    fx:delete(obj, "y")
    fx:store(obj, "z", 3)
    assert.same({ x = 1 }, raw_of(obj))
    assert.equal(0, heard)
    assert.equal(0, mw.mutations(obj))
    fx:apply()
    assert.same({ x = 2, z = 3 }, raw_of(obj))
    assert.equal(1, heard)
  end)

  it("tell what a load finds", function()
    local obj = { real = 1, gone = 1, no = false }
    local fx = plan(obj)
    fx:store(obj, "stored", 2)
    fx:store(obj, "none", nil)
    fx:store(obj, "false", false)
    fx:delete(obj, "gone")
    local function load(key) return table.pack(fx:load(obj, key)) end
    assert.same({ n = 2, 1, "real" }, load "real")
    assert.same({ n = 2, false, "real" }, load "no")
    assert.same({ n = 2, 2, "pending" }, load "stored")
    assert.same({ n = 2, nil, "pending" }, load "none")
    assert.same({ n = 2, false, "pending" }, load "false")
    assert.same({ n = 2, nil, "deleted" }, load "gone")
    assert.same({ n = 2, nil, "absent" }, load "other")
  end)

  it("load what is real of objects that are not tracked", function()
    local class = { __index = { inherited = 1 } }
    local obj = setmetatable({ x = 1 }, class)
    local fx = mw.plan()
    assert.same({ 1, "real" }, { fx:load(obj, "x") })
    assert.same({ 1, "real" }, { fx:load(obj, "inherited") })
    assert.same({ nil, "absent" }, { fx:load(obj, "y") })
    misuse("bad argument #1 to 'store' (is not tracked)", fx.store, fx, obj,
      "x", 1)
    misuse("bad argument #1 to 'delete' (is not tracked)", fx.delete, fx, obj,
      "x")
  end)

  it("load what the object has now", function()
    local obj = { x = 1 }
    local fx = plan(obj)
    obj.x = 2
    assert.same({ 2, "real" }, { fx:load(obj, "x") })
  end)

  it("know what is pending", function()
    local a, b, c = {}, {}, {}
    local fx = plan(a, b, c)
    assert.is_true(fx:is_empty())
    fx:store(c, "x", 1)
    fx:delete(a, 1)
    assert.is_false(fx:is_empty())
    assert.is_true(fx:is_modified(a))
    assert.is_false(fx:is_modified(b))
    assert.is_false(fx:is_modified({}))
    assert.is_false(fx:is_modified(nil))
    assert.is_true(fx:has_pending(a))
    assert.is_true(fx:has_pending(a, 1))
    assert.is_true(fx:has_pending(a, 1.0))
    assert.is_false(fx:has_pending(a, 2))
    assert.is_false(fx:has_pending(b))
    assert.is_false(fx:has_pending({}, 1))
    assert.is_false(fx:has_pending(nil))
    local modified = fx:modified()
    assert.equal(2, #modified)
    assert.is_true(modified[1] == a and modified[2] == c)
    assert.is_true(fx:contains(b))
    assert.is_false(fx:contains({}))
    assert.is_false(fx:contains(nil))
    assert.is_false(fx:contains(1) or fx:is_modified(1) or fx:has_pending(1))
    misuse("bad argument #1 to 'allow' (is not tracked)", fx.allow, fx, 1)
  end)

  it("know objects by identity", function()
    local class = { __eq = function() return true end }
    local a, b = setmetatable({}, class), setmetatable({}, class)
    local fx = plan(a, b)
    fx:store(a, "x", 1)
    assert.is_false(fx:is_modified(b))
    assert.same({ nil, "absent" }, { fx:load(b, "x") })
  end)

  it("are written in the order of the program, across objects", function()
    local a, b = { x = 1 }, {}
    local fx = plan(a, b)
    fx:store(b, "x", 1)
    fx:store(a, "x", 2)
    fx:store(b, "y", 3)
    fx:store(b, "x", 4) -- keeps its place
    local objects = {}
    local result = fx:apply()
    for e in result:entries() do objects[#objects + 1] = e.object end
    assert.equal("insert x:nil>4, update x:1>2, insert y:nil>3", show(result))
    assert.is_true(objects[1] == b and objects[2] == a)
  end)

  it("put last what is deleted and set again", function()
    local obj = { x = 1 }
    local fx = plan(obj)
    fx:delete(obj, "x")
    fx:store(obj, "y", 1)
    fx:store(obj, "x", 2)
    assert.same({ 2, "pending" }, { fx:load(obj, "x") })
    assert.equal("insert y:nil>1, update x:1>2", show(fx:apply()))
  end)

  it("are nothing when what is absent is set and deleted", function()
    local obj = {}
    local fx = plan(obj)
    fx:store(obj, "x", 1)
    fx:delete(obj, "x")
    assert.same({ nil, "deleted" }, { fx:load(obj, "x") })
    assert.equal(0, fx:apply():len())
  end)

  it("are empty after they were applied, and may go on", function()
    local obj = {}
    local fx = plan(obj)
    fx:store(obj, "x", 1)
    fx:apply()
    assert.is_true(fx:is_empty())
    assert.is_true(fx:contains(obj))
    assert.same({ 1, "real" }, { fx:load(obj, "x") })
    assert.equal(0, fx:apply():len())
    fx:store(obj, "x", 2)
    assert.equal("update x:1>2", show(fx:apply()))
  end)
end)

describe("tracking", function()
  it("answers the object, and is refused twice", function()
    local obj, env, x = {}, {}, 1
    local function f() return x end
    local function g() x = 2 end
    local fx = mw.plan()
    assert.equal(obj, fx:track(obj))
    misuse("bad argument #1 to 'track' (is tracked already)", fx.track, fx, obj)
    local new = fx:track_new {}
    misuse("bad argument #1 to 'track' (is tracked already)", fx.track, fx, new)
    fx:track_cell(f, 1)
    misuse("(is tracked already)", fx.track_cell, fx, f, 1)
    misuse("(is tracked already)", fx.track_cell, fx, g, 1)
    fx:track_global(env, "x")
    misuse("bad argument #2 to 'track_global' ('x' is tracked already)",
      fx.track_global, fx, env, "x")
  end)

  it("is no business of other effects", function()
    local obj = {}
    local one, two = plan(obj), plan(obj)
    one:store(obj, "x", 1)
    assert.is_true(two:is_empty())
  end)

  for name, style in pairs(styles) do
    it("makes new objects of a " .. name .. " class", function()
      local ran = 0
      local base = style.make("Base", nil, function() ran = ran + 1 end)
      local class = style.make("Class", base, function(self) self.made = true
      end)
      if name == "middleclass" then
        class.greet = function() return "hello" end
      else
        function class.greet() return "hello" end
      end
      local fx = mw.plan()
      local obj = fx:track_new(class)
      assert.equal(0, ran)
      assert.is_nil(obj.made)
      assert.equal("hello", obj:greet())
      assert.equal(getmetatable(style.construct(class)), getmetatable(obj))
      assert.is_true(fx:is_modified(obj))
      assert.is_false(fx:is_empty())
    end)
  end

  it("of a new object hands its class the arguments", function()
    local class = {}
    class.__index = class
    function class.allocate(its, ...)
      assert.equal(class, its)
      return setmetatable({ n = select("#", ...), ... }, its)
    end
    assert.same({ n = 3, 1, nil, 3 }, mw.plan():track_new(class, 1, nil, 3))
    misuse("bad argument #2 to 'track_new'", mw.plan().track_new,
      mw.plan(), {}, 1)
  end)
end)

describe("a new object", function()
  it("keeps its identity wherever it is used, also in itself", function()
    local obj, list = {}, { 1, 2 }
    local fx = plan(obj, list)
    local new = fx:track_new {}
    fx:store(obj, "a", new)
    fx:store(obj, "b", new)
    fx:store(new, "itself", new)
    fx:store(list, 1, new)
    fx:delete(list, 2)
    fx:apply()
    assert.is_true(obj.a == new and obj.b == new and list[1] == new)
    assert.equal(new, new.itself)
    assert.equal(1, #list)
  end)

  it("appears with its contents in the effects", function()
    local obj = {}
    local fx = plan(obj)
    local new = fx:track_new {}
    fx:store(new, "x", 1)
    fx:store(obj, "child", new)
    assert.is_nil(new.x)
    local result = fx:apply()
    local next_entry = result:entries()
    local first, second = next_entry(), next_entry()
    assert.equal(new, first.object)
    assert.equal(new, second.new)
    assert.equal(2, #result:objects())
    result:rollback()
    assert.is_nil(obj.child)
    assert.is_nil(new.x)
    assert.is_truthy(result:apply())
    assert.equal(new, obj.child)
    assert.equal(1, obj.child.x)
  end)
end)

describe("a cell", function()
  it("is an upvalue, shared by those who share it", function()
    local x = 1
    local function get() return x end
    local function both() return x end
    local fx = mw.plan()
    local cell = fx:track_cell(get, 1)
    assert.same({ 1, "real" }, { fx:load_cell(cell) })
    fx:store_cell(cell, 2)
    assert.same({ 2, "pending" }, { fx:load_cell(cell) })
    assert.equal(1, get())
    local result = fx:apply()
    assert.equal(2, get())
    assert.equal(2, both())
    assert.equal(1, result:len())
    result:rollback()
    assert.equal(1, both())
  end)

  it("of the same name in another function is another", function()
    local function make(x) return function() return x end end
    local one, two = make(1), make(2)
    local fx = mw.plan()
    fx:store_cell(fx:track_cell(one, 1), 5)
    fx:track_cell(two, 1)
    fx:apply()
    assert.same({ 5, 2 }, { one(), two() })
  end)

  it("may hold what is false, 0, empty or nil", function()
    local x = nil
    local function get(v)
      x = x or v
      return x
    end
    local fx = mw.plan()
    local cells = { fx:track_cell(get, 1), fx:new_cell() }
    assert.same({ nil, "real" }, { fx:load_cell(cells[1]) })
    for _, cell in ipairs(cells) do
      for _, value in ipairs { false, 0, "", 0.0 } do
        fx:store_cell(cell, value)
        assert.same({ value, "pending" }, { fx:load_cell(cell) })
        fx:apply()
        assert.same({ value, "real" }, { fx:load_cell(cell) })
      end
      fx:store_cell(cell, nil)
      assert.same({ n = 2, nil, "pending" }, table.pack(fx:load_cell(cell)))
      fx:apply()
      assert.same({ n = 2, nil, "real" }, table.pack(fx:load_cell(cell)))
    end
    assert.is_nil(x)
  end)

  it("that is new has no contents until they are written", function()
    local fx = mw.plan()
    local cell = fx:new_cell()
    misuse("bad argument #1 to 'load_cell' (the cell has no value yet)",
      fx.load_cell, fx, cell)
    for _, value in ipairs { false, 0, "" } do
      assert.same({ value, "pending" }, { fx:load_cell(fx:new_cell(value)) })
    end
    assert.same({ n = 2, nil, "pending" },
      table.pack(fx:load_cell(fx:new_cell(nil))))
    assert.is_true(fx:is_modified(cell))
  end)

  it("of which nobody has heard is refused", function()
    local fx, other = mw.plan(), mw.plan()
    misuse("bad argument #1 to 'store_cell' (is not tracked)", fx.store_cell,
      fx, other:new_cell(1), 2)
    misuse("(cell expected, got table)", fx.store_cell, fx, {}, 2)
    misuse("(cell expected, got nil)", fx.load_cell, fx, nil)
    misuse("(the function has no such upvalue)", fx.track_cell, fx,
      function() end, 1)
  end)
end)

describe("a global", function()
  it("is stored and loaded by name", function()
    local env = { x = 1 }
    local fx = mw.plan()
    fx:track_global(env, "x")
    fx:track_global(env, "y")
    assert.same({ 1, "real" }, { fx:load_global "x" })
    assert.same({ nil, "absent" }, { fx:load_global "y" })
    fx:store_global("y", false)
    fx:store_global("x", 2)
    assert.same({ false, "pending" }, { fx:load_global "y" })
    assert.same({ x = 1 }, env)
    local result = fx:apply()
    assert.same({ x = 2, y = false }, env)
    assert.equal("insert y:nil>false, update x:1>2", show(result))
    assert.equal(env, result:objects()[1])
    result:rollback()
    assert.same({ x = 1 }, env)
  end)

  it("that is not tracked is refused", function()
    local fx = mw.plan()
    misuse("bad argument #1 to 'store_global' (no global of that name is " ..
      "tracked)", fx.store_global, fx, "x", 1)
    misuse("bad argument #1 to 'load_global'", fx.load_global, fx, "x")
    misuse("bad argument #1 to 'load_global'", fx.load_global, fx, nil)
  end)

  it("is among the modified as its environment, once", function()
    local fx, env = mw.plan(), { a = 1, b = 2 }
    fx:track_global(env, "a")
    fx:track_global(env, "b")
    fx:store_global("a", 2)
    fx:store_global("b", 3)
    assert.same({ env }, fx:modified())
  end)
end)

describe("apply", function()
  it("does saves, hooks, writes and callbacks, in this order", function()
    local order = {}
    local function note(what) order[#order + 1] = what end
    local ctx = { save = function(_, ...) note("save " .. table.concat({ ... },
      " ")) end }
    local obj = { on = function(_, event) note("on " .. event) end }
    mw.watch(obj, function(_, key) note("write " .. key) end, { once = false })
    local fx = plan(obj)
    fx:finally(function() note "finally" end)
    fx:store(obj, "x", 1)
    fx:hook(obj, "click", print)
    fx:save(ctx, 1, 2)
    fx:store(obj, "y", 1)
    fx:save(ctx, "b")
    fx:hook(obj, "key", print)
    fx:finally(function() note "again" end)
    assert.same({}, order)
    fx:apply()
    assert.same({ "save 1 2", "save b", "on click", "on key", "write x",
      "write y", "finally", "again" }, order)
    fx:apply()
    assert.equal(8, #order)
  end)

  it("hands a save all its arguments", function()
    local got
    local ctx = { save = function(self, ...) got = table.pack(self, ...) end }
    local fx = mw.plan()
    fx:save(ctx, nil, false, nil)
    assert.is_false(fx:is_empty())
    fx:apply()
    assert.same({ n = 4, ctx, nil, false, nil }, got)
  end)

  it("takes back what it wrote when a write fails", function()
    local a = { x = 1 }
    local closed = setmetatable({}, { __newindex = function()
      error "is read-only"
    end })
    local removed, finals = 0, 0
    local obj = { on = function()
      return { remove = function() removed = removed + 1 end }
    end }
    local fx = plan(a, closed)
    fx:hook(obj, "event", print)
    fx:finally(function() finals = finals + 1 end)
    fx:store(a, "x", 2)
    fx:store(closed, "y", 1)
    fx:store(a, "z", 1)
    local result, message, entry = fx:apply()
    assert.is_nil(result)
    assert.matches("is read%-only", message)
    assert.equal(closed, entry.object)
    assert.equal("y", entry.key)
    assert.same({ x = 1 }, a)
    assert.equal(1, removed)
    assert.equal(0, finals)
    assert.is_true(fx:has_pending(a, "x"))
    setmetatable(closed, nil)
    assert.equal(3, fx:apply():len())
    assert.equal(1, finals)
  end)

  it("writes nothing when a hook or a save cannot be done", function()
    local saved = 0
    local ctx = { save = function() saved = saved + 1 end }
    local obj = {}
    local fx = plan(obj)
    fx:store(obj, "x", 1)
    fx:save(ctx)
    fx:hook(obj, "event", print)
    local result, message = fx:apply()
    assert.is_nil(result)
    assert.is_string(message)
    assert.same({}, obj)
    assert.equal(0, saved)
    obj.on = print
    fx = plan(obj)
    fx:save(ctx)
    fx:save({})
    assert.is_nil((fx:apply()))
    assert.equal(0, saved)
  end)

  it("is done with when a guard raises, which it raises at the end", function()
    local obj, finals = {}, 0
    mw.watch(obj, function() error("guard", 0) end)
    local fx = plan(obj)
    fx:store(obj, "x", 1)
    fx:store(obj, "y", 1)
    fx:finally(function() finals = finals + 1 end)
    assert.matches("guard", error_of(fx.apply, fx))
    assert.same({ x = 1, y = 1 }, raw_of(obj))
    assert.equal(1, finals)
    assert.is_true(fx:is_empty())
  end)

  it("calls all callbacks, and raises the first error then", function()
    local n = 0
    local fx = mw.plan()
    fx:finally(function() error("first", 0) end)
    fx:finally(function() n = n + 1 end)
    assert.is_false(fx:is_empty())
    assert.equal("first", error_of(fx.apply, fx))
    assert.equal(1, n)
    assert.is_true(fx:is_empty())
  end)

  it("is a write like any other for a class", function()
    local class = { __newindex = function(t, key, value)
      rawset(t, key, value + 1)
    end }
    local obj = setmetatable({}, class)
    local fx = plan(obj)
    fx:store(obj, "x", 1)
    local result = fx:apply()
    assert.same({ x = 2 }, obj)
    assert.equal("insert x:nil>2", show(result))
    assert.equal(class, getmetatable(obj))
    result:rollback()
    assert.same({}, obj)
  end)

  it("takes back what a save has written, too", function()
    local log = mw.track {}
    local ctx = { save = function() log.saved = true end }
    local obj = setmetatable({}, { __newindex = function() error "no" end })
    local fx = plan(obj)
    fx:save(ctx)
    fx:store(obj, "x", 1)
    assert.is_nil((fx:apply()))
    assert.is_nil(log.saved)
    setmetatable(obj, nil)
    assert.equal("insert saved:nil>true, insert x:nil>1", show(fx:apply()))
  end)

  it("leaves what is stored while it writes for the next time", function()
    local obj, ctx, log = {}, {}, {}
    function ctx.save() log[#log + 1] = "save" end
    local fx = plan(obj)
    local env, new = {}, nil
    fx:track_global(env, "g")
    mw.watch(obj, function(_, key, _, value)
      assert.is_true(fx:is_empty())
      assert.equal(0, fx:apply():len())
      log[#log + 1] = key .. " " .. value
      fx:store(obj, "y", 1)
      fx:delete(obj, "x")
      fx:store_global("g", 1)
      fx:save(ctx)
      fx:hook({ on = function() log[#log + 1] = "on" end }, "event", print)
      fx:finally(function() log[#log + 1] = "final" end)
      new = fx:new_cell(5)
    end, { once = true })
    fx:store(obj, "x", 1)
    fx:finally(function() fx:store(obj, "z", 1) end)
    assert.equal("insert x:nil>1", show(fx:apply()))
    assert.same({ "x 1" }, log)
    assert.same({ 5, "pending" }, { fx:load_cell(new) })
    local done = "insert y:nil>1, delete x:1>nil, insert g:nil>1"
    assert.equal(done .. ", insert :nil>5, insert z:nil>1", show(fx:apply()))
    assert.same({ "x 1", "save", "on", "final" }, log)
    assert.is_true(fx:is_empty())
  end)

  it("has what a save adds", function()
    local obj = {}
    local fx = plan(obj)
    fx:save({ save = function() fx:store(obj, "y", 1) end })
    fx:store(obj, "x", 1)
    assert.equal("insert x:nil>1, insert y:nil>1", show(fx:apply()))
    assert.is_true(fx:is_empty())
  end)

  it("is part of a transaction", function()
    local obj = {}
    local fx = plan(obj)
    fx:store(obj, "x", 1)
    assert.is_false((mw.transaction(function()
      fx:apply()
      error "!"
    end)))
    assert.same({}, obj)
  end)

  it("is not done again by the saves of the effects", function()
    local fx = mw.plan()
    fx:save({ save = function() fx:apply() end })
    local result, message = fx:apply()
    assert.is_nil(result)
    assert.matches("calling 'apply' while it is under way", message)
  end)
end)

describe("misuse of plans", function()
  it("is told where it is", function()
    local fx = mw.plan()
    misuse("bad argument #1 to 'plan' (table expected, got string)",
      mw.plan, "error")
    misuse("bad argument #1 to 'plan' (unknown option 'police')",
      mw.plan, { police = "warn" })
    misuse("bad argument #1 to 'plan' (option 'policy' is not a string)",
      mw.plan, { policy = true })
    misuse("option 'policy' is none of 'error', 'warn' and 'silent'",
      mw.plan, { policy = "shout" })
    for _, name in ipairs { "track", "track_new", "track_cell", "new_cell",
      "track_global", "store", "load", "delete", "store_cell", "load_cell",
      "store_global", "load_global", "is_modified", "has_pending", "modified",
      "contains", "scope", "allow", "save", "hook", "finally", "prune",
      "clone", "diff", "is_empty", "clear", "apply" } do
      misuse("calling '" .. name .. "' on bad self (plan expected, got " ..
        "table)", fx[name], {})
    end
    local expected = "bad argument #1 to '%s' (%s expected, got %s)"
    for _, case in ipairs {
      { "track", "table or userdata with a metatable", 5 },
      { "track", "table or userdata with a metatable", nil },
      { "track_new", "table", nil }, { "track_cell", "function", {} },
      { "track_global", "table", nil }, { "finally", "function", nil },
      { "store", "table or userdata", nil }, { "load", "table or userdata", 1 },
      { "delete", "table or userdata", "x" },
      { "save", "object with a method 'save'", nil },
    } do
      misuse(expected:format(case[1], case[2], type(case[3])), fx[case[1]], fx,
        case[3])
    end
    misuse("bad argument #2 to 'track_cell' (integer expected, got nil)",
      fx.track_cell, fx, print)
    misuse("bad argument #2 to 'track_global' (string expected, got nil)",
      fx.track_global, fx, {})
    local obj = fx:track {}
    for _, name in ipairs { "store", "load", "delete" } do
      misuse("bad argument #2 to '" .. name .. "' (nil is no key)", fx[name],
        fx, obj)
      misuse("bad argument #2 to '" .. name .. "' (NaN is no key)", fx[name],
        fx, obj, 0 / 0)
    end
    assert.is_true(fx:is_empty())
  end)
end)

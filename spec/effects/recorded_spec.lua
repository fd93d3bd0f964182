local raw_of = require "spec.support.raw_of"
local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local no_class = require "spec.support.no_class"
local support = require "support"
local show = require "spec.support.show"

-- The effects of a function that writes.
local function effects_of(fn, ...)
  local ok, fx = mw.transaction(fn, ...)
  assert.is_true(ok, fx)
  return fx
end

local function set(obj, values)
  return function()
    for _, pair in ipairs(values) do obj[pair[1]] = pair[2] end
  end
end

describe("effects", function()
  it("have the strings that were written, wherever Lua puts these", function()
    local function long(n) return ("long "):rep(20) .. n end
    for round = 1, 50 do
      local obj = mw.track {}
      local watch = mw.watch(obj, function() end,
        { key = long(round), once = false })
      local fx = effects_of(function()
        obj[long(round)] = 1 -- another string, equal to the key of the watch
        watch:cancel()
        collectgarbage()
        for i = 1, 40 do obj[i] = long(round + 100) end
      end)
      for e in fx:entries() do
        if e.new ~= 1 then assert.equal(long(round + 100), e.new) end
      end
    end
  end)

  it("have their entries in the order of the program", function()
    local a, b = mw.track { x = 1 }, mw.track {}
    local fx = effects_of(function()
      a.x = 2
      b.y = true
      a.x = nil
      b.y = 0.5
    end)
    assert.equal(4, fx:len())
    assert.equal(4, #fx)
    assert.equal("update x:1>2, insert y:nil>true, delete x:2>nil, " ..
      "update y:true>0.5", show(fx))
    local objects = {}
    for e in fx:entries() do objects[#objects + 1] = e.object end
    assert.is_true(objects[1] == a and objects[2] == b and objects[3] == a)
    local written = fx:objects()
    assert.equal(2, #written)
    assert.is_true(written[1] == a and written[2] == b)
  end)

  it("may be empty", function()
    local fx = effects_of(function() end)
    assert.equal(0, fx:len())
    assert.is_nil((fx:entries()()))
    assert.same({}, fx:objects())
    assert.equal(fx, fx:rollback())
    for _, other in ipairs { fx:apply(), fx:invert(), fx:squash(),
      fx:concat(fx) } do
      assert.equal(0, other:len())
    end
  end)

  it("do not change when their entries are changed", function()
    local obj = mw.track { x = 1 }
    local fx = effects_of(set(obj, { { "x", 2 } }))
    for e in fx:entries() do e.new, e.old, e.object = 5, 5, nil end
    assert.equal("update x:1>2", show(fx))
  end)

  it("keep all kinds of values and keys apart", function()
    local key, value = {}, function() end
    local obj = mw.track {}
    local fx = effects_of(function()
      obj[1] = 1
      obj[1.5] = 1.0
      obj["1"] = "1"
      obj[true] = false
      obj[key] = key
      obj[value] = value
      obj[2.0] = -0.0
    end)
    local seen = {}
    for e in fx:entries() do seen[#seen + 1] = { e.key, e.new } end
    assert.equal("integer", math.type(seen[1][1]))
    assert.equal("float", math.type(seen[2][2]))
    assert.equal("1", seen[3][1])
    assert.is_false(seen[4][2])
    assert.is_true(rawequal(key, seen[5][1]) and rawequal(key, seen[5][2]))
    assert.equal(value, seen[6][2])
    assert.equal("integer", math.type(seen[7][1]))
    assert.equal("-0.0", tostring(seen[7][2]))
    fx:rollback()
    assert.is_nil(next(raw_of(obj)))
    assert.is_truthy(fx:apply())
    assert.is_false(obj[true])
    assert.equal("float", math.type(obj[1.5]))
  end)

  it("keep absent, deleted and nil apart", function()
    local obj = mw.track { a = 1, b = false }
    local fx = effects_of(function()
      obj.a = nil
      obj.b = nil
      obj.c = nil -- was not there and is not: nothing
      obj.d = false
    end)
    assert.equal("delete a:1>nil, delete b:false>nil, insert d:nil>false",
      show(fx))
    fx:rollback()
    assert.is_false(rawget(raw_of(obj), "b"))
  end)

  it("hold what was written until they go", function()
    local seen = setmetatable({}, { __mode = "k" })
    local stays = mw.track {}
    local fx = effects_of(function()
      local goes = mw.track {}
      seen[goes] = true
      goes.x = 1
      stays.x = 1
    end)
    collectgarbage()
    collectgarbage()
    assert.is_true(rawequal(next(seen), fx:entries()().object))
    assert.equal(2, #fx:objects())
    fx:rollback()
    assert.is_nil(next(seen).x)
    assert.equal(2, fx:apply():len())
    fx = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(seen))
  end)

  it("keep nothing of a transaction around", function()
    for _, ending in ipairs { "commit", "rollback" } do
      local t, kept = {}, setmetatable({}, { __mode = "k" })
      mw.track(t)
      local outer <close> = mw.begin()
      t.x = {}
      kept[t.x] = true
      local inner <close> = mw.begin()
      for i = 1, 40 do t[i] = {} end
      local fx = inner:commit()
      t.y = {}
      kept[t.y] = true
      t.x, t.y = nil, nil
      outer[ending](outer)
      collectgarbage()
      collectgarbage()
      assert.equal(40, fx:len())
      assert.is_nil(next(kept))
    end
  end)

  it("can be collected when an object that they are about has them", function()
    local obj = mw.track { x = {} }
    local fx = effects_of(function() obj.x = { obj } end)
    obj.effects = fx
    local seen = setmetatable({ obj, fx }, { __mode = "v" })
    obj, fx = nil, nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.same({}, seen)
  end)
end)

-- Semantics: how many entries there are, both ways.  Each case is what is done
-- to { a = 1, b = 2 }, with the count.
local COUNTS = {
  { "one new key", 1, function(do_) do_("c", 3) end },
  { "one removed and one added", 2, function(do_) do_("a") do_("c", 3) end },
  { "two removed", 2, function(do_) do_("a") do_("b") end },
  { "one read and then set", 1, function(do_, read)
    assert.equal(1, read "a")
    do_("a", 5)
  end },
  { "cleared and one set", 3, function(do_) do_("a") do_("b") do_("c", 3) end },
  { "a new table attached", 1, function(do_) do_("c", { 1, 2 }) end },
  { "set and then deleted, which was absent", 0, function(do_)
    do_("c", 3)
    do_("c")
  end },
  { "deleted, which was absent", 0, function(do_) do_("c") end },
  { "a change undone", 0, function(do_) do_("a", 5) do_("a", 1) end },
  { "set twice", 1, function(do_) do_("a", 5) do_("a", 6) end },
  { "deleted and set again", 1, function(do_) do_("a") do_("a", 6) end },
  { "deleted and set to what it was", 0, function(do_) do_("a") do_("a", 1)
  end },
}

describe("after squash there is the right number of entries for", function()
  for _, case in ipairs(COUNTS) do
    it(case[1] .. ", live", function()
      local obj = mw.track { a = 1, b = 2 }
      local fx = effects_of(case[3],
        function(key, value) obj[key] = value end,
        function(key) return obj[key] end)
      assert.equal(case[2], fx:squash():len())
    end)

    it(case[1] .. ", pending", function()
      local obj, fx = { a = 1, b = 2 }, mw.plan()
      fx:track(obj)
      case[3](function(key, value)
        if value == nil then fx:delete(obj, key) else fx:store(obj, key, value)
        end
      end, function(key) return (fx:load(obj, key)) end)
      assert.equal(case[2], fx:apply():squash():len())
    end)
  end

  it("a new object attached: its contents and the attachment", function()
    local obj, fx = {}, mw.plan()
    fx:track(obj)
    local new = fx:track_new {}
    fx:store(new, "x", 1)
    fx:store(new, "y", 1)
    fx:store(obj, "child", new)
    assert.equal(3, fx:apply():len())
  end)
end)

describe("rollback", function()
  it("gives all objects what they had, whatever they have now", function()
    local obj = mw.track { x = 1, y = 1 }
    local fx = effects_of(set(obj, { { "x", 2 }, { "y", nil }, { "z", 3 } }))
    obj.x, obj.y, obj.w = "other", "other", 4
    assert.equal(fx, fx:rollback())
    assert.same({ x = 1, y = 1, w = 4 }, raw_of(obj))
  end)

  it("can be done again, and is noted by a transaction", function()
    local obj = mw.track { x = 1 }
    local fx = effects_of(set(obj, { { "x", 2 } }))
    local undo = effects_of(function() fx:rollback() end)
    assert.equal("update x:2>1", show(undo))
    obj.x = 3
    fx:rollback()
    assert.equal(1, obj.x)
    undo:rollback()
    assert.equal(2, obj.x)
  end)

  it("works on objects that are not tracked any more", function()
    local obj = mw.track { x = 1 }
    local fx = effects_of(function() obj.x, obj.y = 2, 2 end)
    mw.untrack(obj)
    fx:rollback()
    assert.same({ x = 1 }, obj)
    fx:apply()
    assert.same({ x = 2, y = 2 }, obj)
  end)

  it("is taken back by a transaction that fails, of all objects", function()
    local obj, x = { x = 1 }, 1
    local function f() return x end
    local plan = mw.plan()
    plan:track(obj)
    plan:store(obj, "x", 2)
    plan:store_cell(plan:track_cell(f, 1), 2)
    local fx = plan:apply()
    assert.is_false((mw.transaction(function()
      fx:rollback()
      assert(obj.x == 1 and x == 1)
      error "!"
    end)))
    assert.same({ 2, 2 }, { obj.x, x })
    assert.equal(2, effects_of(fx.rollback, fx):len())
  end)
end)

describe("apply", function()
  it("does it again and answers the effects of that", function()
    local obj = mw.track { x = 1 }
    local fx = effects_of(set(obj, { { "x", 2 }, { "y", 3 }, { "x", nil } }))
    fx:rollback()
    local again = fx:apply()
    assert.equal(show(fx), show(again))
    assert.same({ y = 3 }, raw_of(obj))
    again:rollback()
    assert.same({ x = 1 }, raw_of(obj))
  end)

  it("does nothing if an object has changed, and says which", function()
    local a, b = mw.track { x = 1 }, mw.track { x = 1 }
    local fx = effects_of(function() a.x, b.x, b.y = 2, 2, 2 end)
    fx:rollback()
    b.x = "other"
    local result, message, entry = fx:apply()
    assert.is_nil(result)
    assert.equal("field 'x' has changed meanwhile", message)
    assert.equal(b, entry.object)
    assert.equal("x", entry.key)
    assert.equal(1, entry.old)
    assert.equal(1, a.x)
    assert.equal("other", b.x)
    assert.is_nil(b.y)
  end)

  it("takes a field that came or went for changed", function()
    local obj = mw.track { x = 1 }
    local fx = effects_of(set(obj, { { "x", 2 }, { "y", 2 } }))
    fx:rollback()
    obj.y = false
    assert.is_nil(fx:apply())
    obj.y, obj.x = nil, nil
    assert.is_nil(fx:apply())
    obj.x = 1
    assert.is_truthy(fx:apply())
  end)

  it("takes another class for a change", function()
    local one, two = {}, {}
    local obj = mw.track {}
    local fx = effects_of(mw.setmetatable, obj, one)
    mw.setmetatable(obj, two)
    local _, message, entry = fx:apply()
    assert.equal("the class has changed meanwhile", message)
    assert.equal("metatable", entry.kind)
    mw.setmetatable(obj, nil)
    assert.is_truthy(fx:apply())
    assert.equal(one, getmetatable(obj))
  end)

  it("does not take NaN for another NaN", function()
    local obj = mw.track { x = 0 / 0 }
    local fx = effects_of(set(obj, { { "x", 1 } }))
    fx:rollback()
    assert.is_truthy(fx:apply())
  end)

  it("asks about what has changed, with the value that is there", function()
    local obj = mw.track { x = 1, y = 1 }
    local fx = effects_of(set(obj, { { "x", 2 }, { "y", 2 } }))
    fx:rollback()
    obj.x = "other"
    local asked = {}
    local result = fx:apply { on_conflict = function(entry, actual)
      asked[#asked + 1] = { entry.object, entry.key, entry.new, actual }
      return "skip"
    end }
    assert.equal(1, #asked)
    assert.equal(obj, asked[1][1])
    assert.same({ "x", 2, "other" }, table.move(asked[1], 2, 4, 1, {}))
    assert.equal("update y:1>2", show(result))
    assert.same({ x = "other", y = 2 }, raw_of(obj))
  end)

  it("overwrites, skips or aborts, as it is told", function()
    local function apply(answer)
      local obj = mw.track { x = 1, y = 1 }
      local fx = effects_of(set(obj, { { "y", 2 }, { "x", 2 }, { "x", 3 } }))
      fx:rollback()
      obj.x = "other"
      local result, _, entry = fx:apply {
        on_conflict = function() return answer end }
      return obj.x, obj.y, result, entry
    end
    local x, y, result = apply "overwrite"
    assert.same({ 3, 2, 3 }, { x, y, result:len() })
    x, y, result = apply "skip"
    assert.same({ "other", 2, 1 }, { x, y, result:len() })
    local entry
    x, y, result, entry = apply "abort"
    assert.same({ "other", 1, nil, "x" }, { x, y, result, entry.key })
    x, y, result = apply(nil)
    assert.same({ "other", 1, nil }, { x, y, result })
  end)

  it("undoes an overwrite to what was there", function()
    local obj = mw.track { x = 1 }
    local fx = effects_of(set(obj, { { "x", 2 } }))
    fx:rollback()
    obj.x = "other"
    fx:apply { on_conflict = function() return "overwrite" end }:rollback()
    assert.equal("other", obj.x)
  end)

  it("takes no other answer, and lets errors through", function()
    local obj = mw.track { x = 1, y = 1 }
    local fx = effects_of(set(obj, { { "y", 2 }, { "x", 2 } }))
    fx:rollback()
    obj.x = "other"
    misuse("on_conflict returned 'maybe'", fx.apply, fx,
      { on_conflict = function() return "maybe" end })
    assert.equal("mine", error_of(fx.apply, fx,
      { on_conflict = function() error("mine", 0) end }))
    assert.same({ x = "other", y = 1 }, raw_of(obj))
  end)

  it("takes back what it wrote when a write fails", function()
    local store, fails = {}, false
    local a, b = mw.track { x = 1 }, mw.track(support.userdata {
      __index = store, __newindex = function(_, key, value)
        if fails then error "is read-only" end
        store[key] = value
      end,
    })
    local fx = effects_of(function() a.x = 2 b.y = 2 end)
    fx:rollback()
    fails = true
    local result, message, entry = fx:apply()
    assert.is_nil(result)
    assert.matches("is read%-only", message)
    assert.equal(b, entry.object)
    assert.equal(1, a.x)
    assert.is_nil(store.y)
  end)

  it("writes what was stored, not what a class was given", function()
    local class = { __newindex = function(t, key, value)
      rawset(t, "_" .. key, value)
    end }
    local obj = mw.track(setmetatable({}, class))
    local fx = effects_of(function()
      obj.x = 1
      mw.sync(obj)
    end)
    assert.equal("insert _x:nil>1", show(fx))
    fx:rollback()
    assert.is_truthy(fx:apply())
    assert.same({ _x = 1 }, raw_of(obj))
  end)

  it("leaves nothing behind of what a class puts elsewhere", function()
    local class = { __newindex = function(t, k, v) rawset(t, k .. "_", v) end }
    local obj = mw.track(setmetatable({}, class))
    local fx = effects_of(set(obj, { { "x", 1 } }))
    fx:rollback()
    mw.untrack(obj)
    fx:apply()
    assert.same({ x_ = 1 }, obj)
    assert.equal(class, getmetatable(obj))
  end)

  it("goes on when a guard raises, and raises that at the end", function()
    local obj = mw.track { x = 1 }
    local fx = effects_of(set(obj, { { "x", 2 }, { "y", 2 } }))
    fx:rollback()
    mw.watch(obj, function(_, key) error(key .. " is guarded", 0) end,
      { once = false })
    assert.matches("x is guarded", error_of(fx.apply, fx))
    assert.same({ x = 2, y = 2 }, raw_of(obj))
  end)
end)

describe("invert", function()
  it("is what undoes it, in reverse", function()
    local obj = mw.track { x = 1, y = 1 }
    local class = {}
    local fx = effects_of(function()
      obj.x, obj.y, obj.z = 2, nil, 3
      mw.setmetatable(obj, class)
    end)
    local inverse = fx:invert()
    assert.equal("metatable nil:" .. tostring(class) .. ">nil", (show(inverse)
      :match "^[^,]+"))
    local rest = show(inverse):match "^[^,]+, (.*)"
    assert.matches("delete z:3>nil", rest)
    assert.matches("insert y:nil>1", rest)
    assert.matches("update x:2>1", rest)
    assert.is_truthy(inverse:apply())
    assert.same({ x = 1, y = 1 }, raw_of(obj))
    assert.equal(no_class, getmetatable(obj))
    assert.equal(show(fx), show(inverse:invert()))
    assert.is_nil(inverse:apply())
  end)
end)

describe("squash", function()
  it("keeps the first place and the last value", function()
    local obj = mw.track { x = 1, y = 1 }
    local fx = effects_of(set(obj,
      { { "x", 2 }, { "y", 2 }, { "x", 3 }, { "z", 1 }, { "z", 2 } }))
    assert.equal("update x:1>3, update y:1>2, insert z:nil>2",
      show(fx:squash()))
    assert.equal(5, fx:len())
  end)

  it("puts what is deleted and set again last", function()
    local obj = mw.track { x = 1, y = 1 }
    local fx = effects_of(set(obj,
      { { "x", nil }, { "y", 2 }, { "x", 3 } }))
    assert.equal("update y:1>2, update x:1>3", show(fx:squash()))
  end)

  it("has one entry for a class, and none if it is the same", function()
    local obj = mw.track {}
    local fx = effects_of(function()
      mw.setmetatable(obj, {})
      mw.setmetatable(obj, { __index = {} })
    end)
    assert.equal(1, fx:squash():len())
    fx = fx:concat(fx:invert()):squash()
    assert.equal(0, fx:len())
  end)

  it("takes NaN for NaN", function()
    local nan = 0 / 0
    local obj = mw.track { x = nan }
    local fx = effects_of(set(obj, { { "x", 1 }, { "x", nan } }))
    assert.equal(0, fx:squash():len())
    assert.same({}, fx:conflicts(fx:concat(fx)))
  end)

  it("tells integers from floats, and zeros apart", function()
    local obj = mw.track { a = 1, b = 0.0 }
    local fx = effects_of(set(obj, { { "a", 1.0 }, { "b", -0.0 } })):squash()
    assert.equal("update a:1>1.0, update b:0.0>-0.0", show(fx))
    obj.a = 1
    assert.is_nil((fx:apply()))
  end)

  it("does not mix up objects that are equal", function()
    local class = { __eq = function() return true end }
    local a = mw.track(setmetatable({}, class))
    local b = mw.track(setmetatable({}, class))
    local fx = effects_of(function() a.x, b.x = 1, 2 end)
    assert.equal(2, fx:squash():len())
    assert.equal(2, #fx:objects())
  end)

  it("keeps alive what is in its entries, and leaves out what came and went",
    function()
      local root = mw.track({}, { deep = true })
      local seen = setmetatable({}, { __mode = "k" })
      local last
      local fx = effects_of(function()
        local first, second = { inner = { last = {} } }, {}
        seen[first], seen[first.inner], seen[second] = true, true, true
        last = first.inner.last
        root.first = first
        first.inner.second = second
        last.n, second.n = 1, 1
        first.inner.second = nil
        root.first = nil
      end):squash()
      collectgarbage()
      collectgarbage()
      local second
      for e in fx:entries() do
        if e.object ~= last then second = e.object end
        assert.equal("n", e.key)
      end
      assert.same({ [second] = true }, seen)
      assert.equal(2, fx:only(root):len())
      assert.same({}, fx:to_patch(root))
      assert.is_string(fx:to_bytes(root))
      assert.is_nil((fx:to_bytes(mw.track({}, { deep = true }))))
      assert.equal(4, fx:squash():concat(fx):only(root):len())
    end)
end)

describe("concat", function()
  it("is one after the other", function()
    local obj = mw.track {}
    local one = effects_of(set(obj, { { "x", 1 } }))
    local two = effects_of(set(obj, { { "x", 2 } }))
    local both = one:concat(two)
    assert.equal("insert x:nil>1, update x:1>2", show(both))
    both:rollback()
    assert.is_nil(obj.x)
    assert.is_truthy(both:apply())
    assert.equal(2, obj.x)
    assert.equal("insert x:nil>1", show(one))
  end)
end)

describe("conflicts", function()
  it("are the fields that both gave different values", function()
    local obj, other = mw.track { x = 0 }, mw.track {}
    local one = effects_of(set(obj, { { "x", 1 }, { "y", 1 }, { "z", 1 } }))
    one:rollback()
    local two = effects_of(function()
      obj.x, obj.y, obj.w = 2, 1, 2
      other.z = 2
    end)
    local conflicts = one:conflicts(two)
    assert.equal(1, #conflicts)
    assert.equal(obj, conflicts[1].object)
    assert.equal("x", conflicts[1].key)
    assert.equal(1, conflicts[1].entry.new)
    assert.equal(2, conflicts[1].other.new)
    assert.equal(1, #two:conflicts(one))
    assert.same({}, one:conflicts(one))
  end)

  it("are judged by what is left in the end", function()
    local obj = mw.track {}
    local one = effects_of(set(obj, { { "x", 1 }, { "x", 5 } }))
    local two = effects_of(set(obj, { { "x", 2 }, { "x", 5 } }))
    assert.same({}, one:conflicts(two))
    local gone = effects_of(set(obj, { { "x", nil } }))
    assert.equal("x", one:conflicts(gone)[1].key)
  end)
end)

describe("both recorders", function()
  it("have the same field for a cell", function()
    local x = 1
    local function f() return x end
    local function put(value)
      local plan = mw.plan()
      plan:store_cell(plan:track_cell(f, 1), value)
      return plan:apply()
    end
    local _, live = mw.transaction(put, 2)
    local pending = put(3)
    assert.equal("update x:2>3", show(pending))
    assert.equal("update x:1>3", show(live:concat(pending):squash()))
    assert.equal(1, #live:conflicts(pending))
    live:concat(pending):rollback()
    assert.equal(1, x)
  end)

  it("know userdata", function()
    local store = {}
    local class = { __index = store, __newindex = function(_, key, value)
      store[key] = value
    end }
    local obj = mw.track(support.userdata(class))
    local fx = effects_of(function() obj.x = 1 end)
    assert.equal("insert x:nil>1", show(fx))
    fx:rollback()
    assert.is_nil(store.x)
    fx:apply()
    assert.equal(1, store.x)
    local plan = mw.plan()
    plan:track(obj)
    plan:store(obj, "x", 2)
    assert.same({ 2, "pending" }, { plan:load(obj, "x") })
    assert.equal("update x:1>2", show(plan:apply()))
    assert.equal(2, store.x)
  end)
end)

describe("misuse of effects", function()
  it("is told where it is", function()
    local fx = effects_of(function() end)
    for _, name in ipairs { "len", "entries", "objects", "rollback", "apply",
      "invert", "squash", "concat", "conflicts", "reads" } do
      misuse("calling '" .. name .. "' on bad self (effects expected, got " ..
        "table)", fx[name], {})
      misuse("calling '" .. name .. "' on bad self (effects expected, got nil)",
        fx[name], nil)
    end
    misuse("bad argument #1 to 'concat' (effects expected, got nil)",
      fx.concat, fx)
    misuse("bad argument #1 to 'conflicts' (effects expected, got table)",
      fx.conflicts, fx, {})
    misuse("bad argument #1 to 'apply' (table expected, got number)",
      fx.apply, fx, 1)
    misuse("bad argument #1 to 'apply' (unknown option 'on_conflicts')",
      fx.apply, fx, { on_conflicts = print })
    misuse("bad argument #1 to 'apply' (option 'on_conflict' is not a function)"
      , fx.apply, fx, { on_conflict = "skip" })
  end)
end)

describe("effects of an object whose class has a say", function()
  it("are applied and taken back with a transaction around", function()
    local class = {}
    function class.__newindex(t, k, v) rawset(t, k, v) end
    local object, env = mw.track(setmetatable({}, class)), {}
    local _, fx = mw.transaction(function() object.x = 1 end)
    fx:rollback()
    mw.untrack(object)
    assert.is_false((mw.transaction(function()
      assert(fx:apply())
      assert.equal(1, object.x)
      local tx = mw.begin { globals = env }
      env.level = 1
      tx:commit()
      assert.is_nil(getmetatable(env))
      error "no"
    end)))
    assert.same({ nil, nil }, { object.x, env.level })
  end)
end)

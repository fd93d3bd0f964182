local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local error_of = require "spec.support.error_of"
local hear = require "spec.support.hear"
local keys = require "spec.support.keys"
local styles = require "spec.support.styles"

local function nothing() end

local STAY = { once = false }

-- Calls f(name, object, class, class of the metamethods) for an object of each
-- style of classes.
local function each_style(f)
  for name, style in pairs(styles) do
    local class = style.make("Thing", nil, function(self) self.z = 0 end)
    f(name, style.construct(class), class)
  end
  local base = styles.plain.make "Base"
  local class = styles.plain.make("Derived", base)
  f("derived", setmetatable({ z = 0 }, class), class)
  f("protected", setmetatable({ z = 0 }, { __metatable = "closed" }), nil)
end

-- Makes the class's `__index` function keep what is read first.
local function lazy(class, make)
  local inherited = rawget(class, "__index")
  class.__index = function(self, key)
    local value = type(inherited) == "table" and inherited[key]
    if value then return value end
    value = make(key)
    rawset(self, key, value)
    return value
  end
  return class
end

describe("what a class's __index keeps", function()
  local function new(fields)
    return setmetatable(fields or { z = 0 }, lazy({}, function(key)
      return "made " .. key
    end))
  end

  it("is told as raw when the function returns", function()
    local obj = new()
    local heard = hear(obj)
    assert.equal("made a", obj.a)
    assert.equal("raw a nil>made a", heard())
    assert.equal(1, mw.mutations(obj))
    assert.equal("made a", obj.a)
    assert.equal("a z", keys(obj))
    obj.a = 1
    assert.equal("raw a nil>made a, update a made a>1", heard())
  end)

  it("is told in each style of classes", function()
    each_style(function(name, obj, class)
      if not class then return end
      lazy(class, function(key) return key .. "!" end)
      local heard = hear(obj)
      assert.equal("fresh!", obj.fresh, name)
      obj.fresh = nil
      local expected = "raw fresh nil>fresh!, delete fresh fresh!>nil"
      assert.equal(expected, heard(), name)
      assert.equal("fresh!", obj.fresh, name)
      assert.is_truthy(keys(obj):find("fresh", 1, true), name)
      mw.unwatch(obj)
      assert.equal("fresh!", rawget(obj, "fresh"), name)
    end)
  end)

  it("is heard by guards of the key, objects, flags and memos", function()
    local obj = new()
    local flag, other, heard = mw.guard(), mw.guard(), {}
    local guard = { invalidate = function(_, _, key, _, new_, kind)
      heard[#heard + 1] = kind .. " " .. key .. " " .. new_
    end }
    mw.watch(obj, flag, { key = "a", once = false })
    mw.watch(obj, other, { key = "b", once = false })
    mw.watch(obj, guard, { keys = { "a", "c" }, once = false })
    local memo = mw.memo(function() return keys(obj) end, obj)
    assert.equal("z", memo())
    assert.equal("made a", obj.a)
    assert.is_false(flag.valid)
    assert.is_true(other.valid)
    assert.same({ "raw a made a" }, heard)
    assert.equal("a z", memo())
  end)

  it("is heard above, and included there", function()
    local root = { list = { setmetatable({ z = 0 }, lazy({}, function()
      return { hp = 1 }
    end)) } }
    local notes = {}
    mw.watch(root, function(_, path, _, _, kind)
      notes[#notes + 1] = kind .. " " .. table.concat(path, ".")
    end, { deep = true, once = false })
    root.list[1].parts.hp = 2
    assert.same({ "raw list.1.parts", "update list.1.parts.hp" }, notes)
  end)

  it("is recorded, and taken back", function()
    for _, how in ipairs { "track", "watch" } do
      local obj = new()
      if how == "track" then mw.track(obj) else mw.watch(obj, nothing) end
      local ok, fx = mw.transaction(function() return obj.a end)
      assert.is_true(ok)
      assert.equal(1, fx:len(), how)
      assert.equal("made a", fx:entries()().new)
      fx:rollback()
      assert.equal("z", keys(obj), how)
      assert.is_truthy(fx:apply())
      assert.equal("a z", keys(obj), how)
      assert.is_false((mw.transaction(function()
        assert.equal("made b", obj.b)
        error "refused"
      end)))
      assert.equal("a z", keys(obj), how)
    end
  end)

  it("is told at the end of a batch, once", function()
    local obj = new()
    local heard = hear(obj)
    mw.batch(function()
      assert.equal("made a", obj.a)
      assert.equal("made a", obj.a)
      assert.equal("", heard())
    end)
    assert.equal("raw a nil>made a", heard())
  end)

  it("is told when the function has yielded", function()
    local obj = setmetatable({ z = 0 }, { __index = function(self, key)
      rawset(self, "asked", key)
      local value = coroutine.yield(key)
      rawset(self, key, value)
      return value
    end })
    local heard = hear(obj)
    local read = coroutine.wrap(function() return obj.a end)
    assert.equal("a", read())
    assert.equal("a", obj.asked) -- until the function returns
    assert.equal("loaded", read "loaded")
    local told = heard()
    assert.is_truthy(told:find("raw a nil>loaded", 1, true), told)
    assert.is_truthy(told:find("raw asked nil>a", 1, true), told)
    assert.equal("a asked z", keys(obj))
  end)

  it("is contents though the coroutine is closed, or lost, in between",
    function()
      local obj = setmetatable({ z = 0 }, { __index = function(self, key)
        rawset(self, "asked", key)
        coroutine.yield()
      end })
      local heard = hear(obj)
      local thread = coroutine.create(function() return obj.a end)
      assert(coroutine.resume(thread))
      assert.is_true(coroutine.close(thread))
      obj.z = 1
      assert.equal("raw asked nil>a, update z 0>1", heard())
      coroutine.wrap(function() return obj.b end)()
      collectgarbage()
      obj.z = 2
      assert.equal("raw asked nil>a, update z 0>1, raw asked a>b, " ..
        "update z 1>2", heard())
    end)

  it("is contents though the function raises", function()
    local obj = setmetatable({ z = 0 }, { __index = function(self, key)
      rawset(self, "asked", key)
      error({ key })
    end })
    local heard = hear(obj)
    assert.same({ "a" }, error_of(function() return obj.a end))
    assert.equal("a", obj.asked)
    assert.is_true(mw.sync(obj))
    assert.equal("raw asked nil>a", heard())
  end)

  it("may be read by a guard that is told of it, in a chain", function()
    local obj, n = new(), 0
    mw.watch(obj, function(self, key)
      n = n + 1
      assert.equal(n == 1 and "a" or "a" .. ("x"):rep(n - 1), key)
      if n < 5 then return self[key .. "x"] end
    end, STAY)
    assert.equal("made a", obj.a)
    assert.equal(5, n)
    assert.equal("a ax axx axxx axxxx z", keys(obj))
  end)

  it("is contents and nothing else where the policy ignores the field",
    function()
      local class = lazy({}, function(key) return "made " .. key end)
      mw.name_class("raw.Lazy", class, { ignore = { "a" } })
      local obj = setmetatable({ z = 0 }, class)
      local root = mw.track({ obj }, { deep = true })
      local heard, hash, tx = hear(obj), mw.hash(root), mw.begin()
      assert.equal("made a", obj.a)
      obj.z = 0
      assert.equal("made a", raw_of(obj).a)
      rawset(obj, "a", "b")
      assert.is_false(mw.sync(obj))
      assert.equal("b", obj.a)
      assert.equal("update z 0>0", heard())
      assert.equal(hash, mw.hash(root))
      assert.equal(1, tx:commit():len())
      assert.equal(1, mw.mutations(obj))
    end)

  it("costs an error of a guard, and no field", function()
    local obj = setmetatable({ z = 0 }, { __index = function(self, key)
      rawset(self, key, 1)
      rawset(self, key .. key, 2)
      return 1
    end })
    mw.watch(obj, function(_, key) error("of " .. key, 0) end, STAY)
    local said = error_of(function() return obj.a end)
    assert.is_truthy(said:find "^of aa?\n", said)
    assert.equal("a aa z", keys(obj))
    assert.equal(2, mw.mutations(obj))
  end)

  it("is what a chain of three keeps in the object", function()
    local object
    local top = setmetatable({}, { __index = function(self, key)
      rawset(self, key, "of the top")
      return "of the top"
    end })
    local middle = setmetatable({}, { __index = top })
    local bottom = { __index = function(self, key)
      assert.is_true(rawequal(object, self))
      rawset(self, "last", key)
      return middle[key]
    end }
    object = setmetatable({ z = 0 }, bottom)
    local heard = hear(object)
    assert.equal("of the top", object.a)
    assert.equal("raw last nil>a", heard())
    assert.equal("of the top", rawget(top, "a"))
    assert.equal("last z", keys(object))
    mw.watch(top, nothing, STAY)
    mw.watch(middle, nothing, STAY)
    assert.equal("of the top", object.b)
    assert.equal("a b", keys(top))
    assert.equal("", keys(middle))
  end)

  it("does not stand in for the class's __newindex", function()
    local asked = {}
    local class = lazy({}, function(key) return "made " .. key end)
    function class.__newindex(self, key, value)
      asked[#asked + 1] = key
      rawset(self, key, value)
    end
    local obj = setmetatable({}, class)
    local last
    mw.watch(obj, function(_, key, old, new_) last = { key, old, new_ } end,
      STAY)
    obj.a = 1
    obj.b = 2
    assert.same({ "a", "b" }, asked)
    assert.same({ "b", nil, 2 }, last)
    assert.equal("a b", keys(obj))
    assert.equal(1, obj.a)
  end)

  it("is told of an object with a finaliser",
    function()
      local closed = 0
      for _, extra in ipairs { { __gc = function() closed = closed + 1 end } } do
        local class = lazy({}, function(key) return key end)
        for name, value in pairs(extra) do class[name] = value end
        local obj = setmetatable({ z = 0 }, class)
        local heard = hear(obj)
        assert.equal("a", obj.a)
        assert.equal("raw a nil>a", heard())
      end
      collectgarbage()
      collectgarbage()
      assert.equal(1, closed)
    end)
end)

describe("what a class's __newindex keeps", function()
  local function counting()
    local class = {}
    class.__index = class
    function class.__newindex(self, key, value)
      rawset(self, "n", self.n + 1)
      rawset(self, key, value)
    end
    return setmetatable({ n = 0 }, class)
  end

  it("under the key is the write, under others is raw", function()
    local obj = counting()
    local heard, later = hear(obj), hear(obj, { phase = "after" })
    obj.a = 1
    obj.a = 2
    obj.b = 3
    assert.equal("insert a nil>1, raw n 0>1, update a 1>2, " ..
      "insert b nil>3, raw n 1>2", heard())
    assert.equal("raw n 0>1, insert a nil>1, update a 1>2, " ..
      "raw n 1>2, insert b nil>3", later())
    assert.equal(5, mw.mutations(obj))
    assert.equal("a b n", keys(obj))
  end)

  it("is told in each style of classes", function()
    each_style(function(name, obj, class)
      if not class then return end
      class.__newindex = function(self, key, value)
        rawset(self, "_" .. key, value)
      end
      local heard = hear(obj)
      obj.hp = 1
      obj.hp = 2
      assert.equal("insert hp nil>1, raw _hp nil>1, insert hp nil>2, " ..
        "raw _hp 1>2", heard(), name)
      assert.is_nil(obj.hp, name)
      mw.unwatch(obj)
      assert.equal(2, rawget(obj, "_hp"), name)
    end)
  end)

  it("makes flags of the other key stale, in a batch, too", function()
    for _, run in ipairs { pcall, mw.batch } do
      local obj, flag, wrong = counting(), mw.guard(), mw.guard()
      mw.watch(obj, flag, { key = "n", once = false })
      mw.watch(obj, wrong, { key = "m", once = false })
      run(function()
        obj.a = 1
        assert.is_false(flag.valid)
        assert.is_true(wrong.valid)
        flag:revalidate()
        obj.a = 2
        assert.is_true(flag.valid)
      end)
    end
  end)

  it("is skipped if it is the same", function()
    local obj = setmetatable({ n = 0 }, { __newindex = function(self, key, v)
      rawset(self, "n", 0)
      rawset(self, key, v)
    end })
    local heard = hear(obj, { equal = "skip", key = "n" })
    obj.a = 1
    assert.equal("", heard())
  end)

  it("is recorded under its own key, and taken back", function()
    local obj = mw.track(counting())
    local _, fx = mw.transaction(function()
      obj.a = 1
      obj.b = 2
    end)
    local seen = {}
    for entry in fx:entries() do seen[#seen + 1] = entry.key end
    assert.same({ "a", "n", "b", "n" }, seen)
    fx:rollback()
    assert.equal("n", keys(obj))
    assert.equal(0, obj.n)
    assert.is_truthy(fx:apply())
    assert.equal("a b n", keys(obj))
    assert.equal(2, obj.n)
    assert.is_false((mw.transaction(function()
      obj.c = 1
      error "refused"
    end)))
    assert.equal(2, obj.n)
    assert.is_nil(obj.c)
  end)

  it("is included below a deep watch", function()
    local child = { hp = 1 }
    local obj = setmetatable({}, { __newindex = function(self, key, value)
      rawset(self, "other", value)
      rawset(self, key, value)
    end })
    local heard = hear({ obj }, { deep = true })
    obj.main = child
    child.hp = 2
    obj.main = nil
    child.hp = 3
    obj.other = nil
    child.hp = 4
    local told = heard()
    local _, n = told:gsub("update %d%.%a+%.hp", "")
    assert.equal(2, n, told)
  end)

  it("is there when the function raises afterwards", function()
    local obj = setmetatable({ z = 0 }, { __newindex = function(self, key, v)
      rawset(self, key, v)
      rawset(self, "n", 1)
      error({ key })
    end })
    local heard = hear(obj)
    assert.same({ "a" }, error_of(function() obj.a = 1 end))
    assert.equal("insert a nil>1, raw n nil>1", heard())
    assert.equal("a n z", keys(obj))
    mw.track(obj)
    assert.is_false((mw.transaction(function() obj.b = 1 end)))
    assert.equal("a n z", keys(obj))
  end)

  it("is there though a guard raises", function()
    for _, phase in ipairs { "before", "after" } do
      local obj = counting()
      mw.watch(obj, function(_, key) error("of " .. key, 0) end,
        { once = false, phase = phase })
      local said = error_of(function() obj.a = 1 end)
      local first = phase == "before" and "^of a\n" or "^of n\n"
      assert.is_truthy(said:find(first), said)
      assert.equal("a n", keys(obj))
      assert.equal(1, obj.n)
    end
  end)

  it("is told to those after the store, though a guard of it raises",
    function()
      local obj = counting()
      mw.watch(obj, function() error({}) end, { key = "n", once = false })
      local later = hear(obj, { key = "a", phase = "after" })
      assert.is_table(error_of(function() obj.a = 1 end))
      assert.equal("insert a nil>1", later())
      assert.equal("a n", keys(obj))
    end)

  it("is told when the function has yielded", function()
    local obj = setmetatable({ z = 0 }, { __newindex = function(self, key, v)
      rawset(self, "last", key)
      rawset(self, key, coroutine.yield(v))
    end })
    local heard, later = hear(obj), hear(obj, { phase = "after" })
    local write = coroutine.wrap(function()
      obj.a = 1
      return "done"
    end)
    assert.equal(1, write())
    assert.equal("insert a nil>1", heard())
    assert.equal("", later())
    assert.is_nil(obj.a)
    assert.equal("done", write(7))
    assert.equal("insert a nil>1, raw last nil>a", heard())
    assert.equal("raw last nil>a, insert a nil>1", later())
    assert.equal(7, obj.a)
    assert.equal(2, mw.mutations(obj))
  end)

  it("is each one's own when several coroutines are in the function",
    function()
      local obj = setmetatable({ z = 0 }, { __newindex = function(self, k, v)
        coroutine.yield()
        rawset(self, k, v)
      end })
      local later = hear(obj, { phase = "after" })
      local a = coroutine.wrap(function() obj.a = 1 end)
      local b = coroutine.wrap(function() obj.b = 2 end)
      a()
      b()
      b()
      a()
      assert.equal("insert b nil>2, insert a nil>1", later())
      assert.equal("a b z", keys(obj))
    end)

  it("is contents though the coroutine is closed in between", function()
    local obj = setmetatable({ z = 0 }, { __newindex = function(self, key, v)
      rawset(self, "last", key)
      coroutine.yield()
      rawset(self, key, v)
    end })
    local heard = hear(obj)
    local thread = coroutine.create(function() obj.a = 1 end)
    assert(coroutine.resume(thread))
    assert.is_true(coroutine.close(thread))
    assert.equal("a", obj.last)
    obj.z = 1
    assert.equal("insert a nil>1, raw last nil>a, update z 0>1", heard())
    assert.equal("last z", keys(obj))
  end)

  it("is given back when the function unwatches", function()
    for _, again in ipairs { false, true } do
      local obj = setmetatable({ z = 0 }, { __newindex = function(self, k, v)
        rawset(self, k, v)
        mw.unwatch(self)
        rawset(self, "n", 1)
        if again then mw.watch(self, nothing, STAY) end
        rawset(self, "m", 1)
      end })
      mw.watch(obj, nothing, STAY)
      obj.a = 1
      assert.equal("a m n z", keys(obj))
      assert.equal(again, mw.is_watched(obj))
      mw.unwatch(obj)
      assert.equal(1, rawget(obj, "a"))
      assert.equal(1, rawget(obj, "m"))
    end
  end)

  it("survives what else the function may do", function()
    local deeds = {
      refresh = function(self) mw.refresh(getmetatable(self)) end,
      class = function(self)
        mw.setmetatable(self, { __newindex = function() error "the new" end })
      end,
      collect = function() collectgarbage() end,
      track = function(self) mw.track(self) end,
      watch = function(self) mw.watch(self, nothing, STAY) end,
      deep = function(self) mw.watch(self, nothing, { deep = true }) end,
      sync = function(self) mw.sync(self) end,
      touch = function(self) mw.touch(self) end,
      pairs = function(self) for _ in pairs(self) do self.z = 1 end end,
      nested = function(self) self.inner = 1 end,
    }
    for name, deed in pairs(deeds) do
      local depth = 0
      local obj = setmetatable({ z = 0 }, { __newindex = function(self, key, v)
        rawset(self, "n", 1)
        depth = depth + 1
        if depth == 1 then deed(self) end
        rawset(self, key, v)
        depth = depth - 1
      end })
      local heard = hear(obj, { phase = "after", key = "a" })
      obj.a = 1
      assert.equal("insert a nil>1", heard(), name)
      assert.equal(1, obj.a, name)
      local all = name == "nested" and "a inner n z" or "a n z"
      assert.equal(all, keys(obj), name)
      mw.unwatch(obj)
      mw.untrack(obj)
      assert.equal(1, rawget(obj, "n"), name)
      assert.equal(1, rawget(obj, "a"), name)
    end
  end)

  it("is shown to the function by reads, pairs and #", function()
    local seen
    local obj = setmetatable({ "x", z = 0 }, { __newindex = function(t, k, v)
      rawset(t, k, v)
      rawset(t, #t + 1, k)
      rawset(t, #t + 1, v)
      seen = keys(t) .. ", " .. #t .. ", " .. tostring(t[k])
    end })
    local heard = hear(obj)
    obj.a = "b"
    assert.equal("1 2 3 a z, 3, b", seen)
    assert.equal(3, #obj)
    assert.equal("x a b", table.concat(obj, " "))
    local told = heard()
    assert.is_truthy(told:find("raw 2 nil>a", 1, true), told)
    assert.is_truthy(told:find("raw 3 nil>b", 1, true), told)
  end)

  it("and puts nil over is not there", function()
    local obj = setmetatable({ z = 0 }, { __newindex = function(t, k, v)
      rawset(t, k, v)
      rawset(t, k, nil)
    end })
    local heard = hear(obj)
    obj.a = 1
    assert.equal("insert a nil>1", heard())
    assert.equal("z", keys(obj))
  end)

  it("is converted, refused or left out as the class likes", function()
    local obj = mw.track(setmetatable({ z = 0 }, {
      __newindex = function(t, k, v)
        if v == "refuse" then error("refused " .. k, 0) end
        if v ~= "drop" then rawset(t, k, tonumber(v)) end
      end }))
    local heard = hear(obj)
    local ok, fx = mw.transaction(function()
      obj.a = "1"
      obj.b = "drop"
      assert.equal("refused c", error_of(function() obj.c = "refuse" end))
    end)
    assert.is_true(ok)
    assert.equal("insert a nil>1, insert b nil>drop, insert c nil>refuse",
      heard())
    assert.equal(1, fx:len())
    assert.equal(1, fx:entries()().new)
    assert.equal("a z", keys(obj))
  end)

  it("is asked when a guard has ended the watch meanwhile", function()
    local asked = 0
    local function new()
      return setmetatable({ z = 0 }, { __newindex = function(_, key)
        asked = asked + 1
        error("no " .. key, 0)
      end })
    end
    for _, opts in ipairs { {}, { once = false }, { phase = "check" },
      { deep = true }, { when = function(o) mw.unwatch(o) return true end }
    } do
      local obj = new()
      mw.watch(obj, function(self) mw.unwatch(self) end, opts)
      assert.equal("no a", error_of(function() obj.a = 1 end))
      assert.equal("z", keys(obj))
    end
    assert.equal(5, asked)
  end)
end)

describe("a field that was put raw", function()
  it("is heard at the next write, before it, with its old value", function()
    local obj = { a = 1 }
    local heard = hear(obj)
    rawset(obj, "a", 2)
    rawset(obj, "b", 3)
    rawset(obj, "b", 4)
    assert.equal(2, obj.a)
    obj.a = 5 -- goes past the watch: the field is raw
    assert.equal("", heard())
    obj.c = 6
    local told = heard()
    assert.is_truthy(told:find("raw a 1>5", 1, true), told)
    assert.is_truthy(told:find("raw b nil>4", 1, true), told)
    assert.is_truthy(told:find "insert c nil>6$", told)
    obj.a = 7
    assert.is_truthy(heard():find "update a 5>7$")
  end)

  it("is heard by each call that concerns the object", function()
    local calls = {
      sync = mw.sync, touch = mw.touch, mutations = mw.mutations,
      last_change = mw.last_change,
      unwatch = mw.unwatch, untrack = mw.untrack,
      pairs = function(obj) pairs(obj) end,
      changed = function(obj) mw.changed_since(obj, 0) end,
      watch = function(obj) mw.watch(obj, nothing) end,
    }
    for name, call in pairs(calls) do
      local obj = { a = 1 }
      local heard = hear(obj)
      rawset(obj, "b", 1)
      call(obj)
      assert.is_truthy(heard():find("^raw b nil>1"), name .. ": " .. heard())
      assert.equal("a b", keys(obj), name)
    end
  end)

  it("counts for #, as an array grows", function()
    local list = { 1 }
    local heard = hear(list)
    rawset(list, #list + 1, 2)
    rawset(list, #list + 1, 3)
    assert.equal(3, #list)
    table.insert(list, 4)
    assert.equal("1 2 3 4", table.concat(list, " "))
    assert.equal("raw 2 nil>2, raw 3 nil>3, insert 4 nil>4", heard())
    local other = { x = 1 }
    mw.watch(other, nothing, STAY)
    rawset(other, 1, "a")
    rawset(other, #other + 1, "b")
    assert.equal(2, #other)
    other[3] = "c"
    assert.equal(3, #other)
  end)

  it("waits if a guard puts it raw again, and nothing hangs", function()
    local obj, n = { a = 1 }, 0
    mw.watch(obj, function(self, _, _, _, kind)
      if kind == "raw" then
        n = n + 1
        rawset(self, "a", n)
      end
    end, STAY)
    rawset(obj, "a", 0)
    assert.is_true(mw.sync(obj))
    assert.equal(1, n)
    obj.b = 1
    assert.equal(2, n)
    assert.equal(1, obj.b)
    assert.equal(2, obj.a)
  end)

  it("and its guard's error keep no write from its object", function()
    local obj = { a = 1 }
    mw.watch(obj, function(_, key, _, _, kind)
      error(kind .. " " .. key, 0)
    end, STAY)
    rawset(obj, "b", 1)
    rawset(obj, "c", 1)
    local said = error_of(function() obj.d = 1 end)
    assert.is_truthy(said:find "^raw [bc]\n", said)
    assert.equal("a b c d", keys(obj))
    assert.equal(3, mw.mutations(obj))
  end)

  it("may make its guard unwatch, and the write lands", function()
    local deeds = {
      unwatch = mw.unwatch,
      class = function(obj) mw.setmetatable(obj, { __name = "Other" }) end,
      again = function(obj)
        mw.unwatch(obj)
        mw.watch(obj, nothing, STAY)
      end,
    }
    for name, deed in pairs(deeds) do
      local obj = { a = 1 }
      mw.watch(obj, function(self, _, _, _, kind)
        if kind == "raw" then deed(self) end
      end)
      rawset(obj, "b", 1)
      obj.c = 1
      assert.equal(1, obj.c, name)
      assert.equal("a b c", keys(obj), name)
      mw.unwatch(obj)
      assert.equal(1, rawget(obj, "c"), name)
    end
  end)

  it("is asked of the class that a guard gives the object", function()
    local obj, asked = { a = 1 }, nil
    local class = { __newindex = function(self, key, value)
      asked = coroutine.isyieldable() and coroutine.yield(key) or key
      rawset(self, key, value)
    end }
    mw.watch(obj, function(self, _, _, _, kind)
      if kind == "raw" then mw.setmetatable(self, class) end
    end, STAY)
    rawset(obj, "b", 1)
    local write = coroutine.wrap(function()
      obj.c = 1
      return "done"
    end)
    assert.equal("c", write())
    assert.equal("done", write "resumed")
    assert.equal("resumed", asked)
    assert.equal("a b c", keys(obj))
  end)

  it("is kept by unwatch, whatever it was before", function()
    local obj = { a = 1, b = 2 }
    mw.watch(obj, nothing, STAY)
    rawset(obj, "a", 2)
    rawset(obj, "c", false)
    rawset(obj, 1, "x")
    mw.unwatch(obj)
    assert.same({ "x", a = 2, b = 2, c = false }, obj)
    assert.is_nil(getmetatable(obj))
  end)
end)

describe("a name that begins with two underscores", function()
  local NAMES = { "__type", "__id", "__version", "__", "__Index", "__index_",
    "__add\0", "__ipairs", "__metafield" }

  it("is a field like any other, unless it is a metamethod's", function()
    for _, name in ipairs(NAMES) do
      for _, fields in ipairs { {}, { [name] = "old" } } do
        local obj = setmetatable(fields, { __name = "C" })
        local before = obj[name]
        local heard = hear(obj, { key = name })
        obj[name] = 1
        obj[name] = 2
        obj[name] = nil
        assert.equal(("%s %s %s>1, update %s 1>2, delete %s 2>nil"):format(
          before and "update" or "insert", name, before, name, name), heard())
        assert.equal(3, mw.mutations(obj))
        assert.is_nil(next(obj))
      end
    end
  end)

  it("is recorded, rolled back, batched and skipped", function()
    local obj = mw.track { __version = 1 }
    assert.is_false((mw.transaction(function()
      obj.__version = 2
      obj.__other = 3
      error "refused"
    end)))
    assert.equal("__version", keys(obj))
    assert.equal(1, obj.__version)
    local heard, skips = hear(obj), hear(obj, { equal = "skip" })
    mw.batch(function()
      obj.__version = 5
      obj.__version = 1
    end)
    assert.equal("update __version 1>1", heard())
    assert.equal("", skips())
  end)
end)

describe("a metamethod of a watched class", function()
  local function new()
    local class = { __add = function() return "first" end }
    class.__index = class
    return class, setmetatable({}, class)
  end

  it("works at once, and is heard at the next call, or read of none",
    function()
      local class, obj = new()
      local first = class.__add
      local heard = {}
      mw.watch(class, function(_, key, old, value, kind)
        heard[#heard + 1] = { kind, key, old, value }
      end, STAY)
      local function second() return "second" end
      class.__add = second
      assert.equal("second", obj + 1)
      assert.equal(second, class.__add)
      assert.is_true(mw.sync(class))
      assert.same({ { "raw", "__add", first, second } }, heard)
      class.__add = nil
      assert.is_false((pcall(function() return obj + 1 end)))
      assert.is_nil(class.__add)
      assert.same({ "delete", "__add", second, nil }, heard[2])
      class.__add = first
      assert.equal("first", obj + 1)
      assert.same({ "insert", "__add", nil, first }, heard[3])
      class.__add = second
      class.other = 1
      assert.same({ "raw", "__add", first, second }, heard[4])
      mw.unwatch(class)
      assert.equal(second, rawget(class, "__add"))
      assert.equal(5, #heard)
    end)

  it("may be put there first while the class is watched", function()
    local class, obj = new()
    mw.watch(class, nothing, STAY)
    function class.__call() return "called" end
    function class.__tostring() return "text" end
    assert.equal("called", obj())
    assert.equal("text", tostring(obj))
    class.__call = nil
    assert.is_nil(class.__call)
    assert.is_false((pcall(obj)))
    assert.equal("__add __index __tostring", keys(class))
    mw.unwatch(class)
    assert.is_nil(rawget(class, "__call"))
    assert.equal("text", tostring(obj))
  end)

  it("works for watched instances of a watched class", function()
    local class, obj = new()
    mw.watch(class, nothing, STAY)
    mw.watch(obj, nothing, STAY)
    function class.hello() return "hello" end
    assert.equal("hello", obj.hello())
    class.__index = function(_, key) return key end
    obj.x = 1
    assert.equal("hello", obj.hello)
    class.__index = nil
    assert.is_nil(obj.hello)
    assert.equal(1, obj.x)
    class.__add = function() return "new" end
    assert.equal(1, mw.refresh(class))
    assert.equal("new", obj + 1)
  end)

  it("works for a class that is its own metatable", function()
    local class = {}
    setmetatable(class, class)
    class.__index = function(_, key) return key .. "?" end
    class.__newindex = function(self, key, value)
      rawset(self, "_" .. key, value)
    end
    local heard = hear(class)
    assert.equal("a?", class.a)
    class.b = 1
    assert.equal("insert b nil>1, raw _b nil>1", heard())
    assert.equal(1, class._b)
    class.__index = function(_, key) return key .. "!" end
    assert.equal("a!", class.a)
    mw.unwatch(class)
    assert.equal(class, getmetatable(class))
    assert.equal("a!", class.a)
    assert.equal(1, rawget(class, "_b"))
  end)
end)

describe("a metamethod in a tracked object", function()
  it("may get an integer, a float or a zero that is not the same", function()
    for _, key in ipairs { "__len", "__name", "len" } do
      for _, pair in ipairs { { 1, 1.0 }, { 0.0, -0.0 }, { 2.0, 2 } } do
        local obj = mw.track { [key] = pair[1] }
        local ok, fx = mw.transaction(function() obj[key] = pair[2] end)
        assert(ok)
        assert.equal(1, fx:len())
        assert.equal(tostring(pair[2]), tostring(raw_of(obj)[key]))
        fx:rollback()
        assert.equal(tostring(pair[1]), tostring(raw_of(obj)[key]))
      end
    end
  end)
end)

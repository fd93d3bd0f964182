local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local error_of = require "spec.support.error_of"
local hear = require "spec.support.hear"
local keys = require "spec.support.keys"

local function nothing() end

local STAY = { once = false }

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

end)

describe("what a class's __newindex keeps", function()
  it("is skipped if it is the same", function()
    local obj = setmetatable({ n = 0 }, { __newindex = function(self, key, v)
      rawset(self, "n", 0)
      rawset(self, key, v)
    end })
    local heard = hear(obj, { equal = "skip", key = "n" })
    obj.a = 1
    assert.equal("", heard())
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
    mw.refresh(class)
    assert.equal("hello", obj.hello)
    class.__index = nil
    mw.refresh(class)
    assert.is_nil(obj.hello)
    assert.equal(1, obj.x)
    class.__add = function() return "new" end
    assert.equal(1, mw.refresh(class))
    assert.equal("new", obj + 1)
  end)

end)

describe("a metamethod in a tracked object", function()
  local function add() return "sum" end
  local function newer() return "newer" end

  it("is plain: it stays in the object, and nobody is told", function()
    local obj = mw.track { a = 1, __add = add }
    local heard, feed <close> = hear(obj), mw.feed()
    assert.equal(add, rawget(obj, "__add"))
    obj.__add, obj.__sub = newer, newer
    mw.batch(function() obj.__sub = nil end)
    assert.equal("", heard())
    assert.is_false(mw.sync(obj))
    assert.equal(0, feed:pending())
    assert.equal(0, mw.mutations(obj))
    assert.equal("__add a", keys(obj))
    assert.same({ a = 1, __add = newer }, mw.plain(obj))
    mw.untrack(obj)
    mw.unwatch(obj)
    assert.equal(newer, rawget(obj, "__add"))
    assert.equal(1, rawget(obj, "a"))
  end)

  it("is left by a rollback as it is", function()
    local obj = mw.track { a = 1 }
    mw.transaction(function()
      obj.a, obj.__add = 2, add
      error "no"
    end)
    assert.same({ 1, add }, { obj.a, obj.__add })
  end)

  it("is stored by its class where there is a __newindex", function()
    local class = { __newindex = function(its, key, value)
      rawset(its, key, { value })
    end }
    local obj = mw.track(setmetatable({}, class))
    obj.__add = add
    assert.equal(add, rawget(obj, "__add")[1])
  end)

  it("is made by what a plan applies, and taken back", function()
    local obj = mw.track { a = 1, __add = add }
    local plan = mw.plan()
    plan:track(obj)
    plan:store(obj, "__add", newer)
    local effects = assert(plan:apply())
    assert.equal(newer, rawget(obj, "__add"))
    effects:rollback()
    assert.equal(add, rawget(obj, "__add"))
  end)
end)

describe("what is put raw into an object", function()
  local intakes = {
    watched = function(obj) return hear(obj) end,
    tracked = mw.track,
    ["watched below a root"] = function(obj)
      local root = { obj }
      hear(root, { deep = true })
      return root -- nobody else keeps it
    end,
  }
  for name, take_in in pairs(intakes) do
    it("is shown at once, and told of by mw.sync: " .. name, function()
      local obj = { 1, a = 1 }
      local kept = take_in(obj)
      rawset(obj, "b", 2)
      rawset(obj, #obj + 1, 2)
      assert.same({ 2, 2, "1 2 a b" }, { obj.b, #obj, keys(obj) })
      assert.same({ 1, 2, a = 1, b = 2 }, mw.plain(obj))
      assert.is_true(mw.sync(obj))
      assert.is_false(mw.sync(obj))
      assert.is_nil(next(obj))
      assert.same({ 2, 2, "1 2 a b" }, { obj.b, #obj, keys(obj) })
      assert.is_not_nil(kept)
    end)
  end

  it("is not heard, nor are later writes to it, until mw.sync", function()
    local obj = { a = 1 }
    local heard = hear(obj)
    rawset(obj, "b", 2)
    obj.b = 3
    obj.a = 2
    assert.equal("update a 1>2", heard())
    mw.sync(obj)
    obj.b = 4
    assert.equal("update a 1>2, raw b nil>3, update b 3>4", heard())
  end)

  it("by a class's __newindex is the write under its key, and raw under others",
    function()
      local obj = setmetatable({ n = 0 }, { __newindex = function(t, key, value)
        rawset(t, "n", t.n + 1)
        rawset(t, key, value)
      end })
      local heard = hear(obj)
      obj.a = 5
      assert.equal("insert a nil>5", heard())
      assert.equal(1, obj.n)
      mw.sync(obj)
      assert.equal("insert a nil>5, raw n 0>1", heard())
    end)

  it("is what an object holds that is not watched any more", function()
    local obj = { a = 1 }
    mw.watch(obj, nothing)
    rawset(obj, "a", 2)
    rawset(obj, "b", 3)
    mw.unwatch(obj)
    assert.same({ a = 2, b = 3 }, obj)
  end)
end)

describe("a class's functions", function()
  it("may not yield while its object is watched", function()
    local class = { __newindex = function() coroutine.yield() end }
    local obj = mw.track(setmetatable({}, class))
    local co = coroutine.create(function() obj.x = 1 end)
    local ok, message = coroutine.resume(co)
    assert.is_false(ok)
    assert.matches("attempt to yield across a C%-call boundary", message)
  end)
end)

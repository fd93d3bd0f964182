local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"
local no_class = require "spec.support.no_class"
local picture = require "spec.support.picture"
local styles = require "spec.support.styles"
local worlds = require "spec.support.worlds"
local support = require "support"

local function nothing() end

local STAY = { once = false }
local DEEP = { deep = true, once = false }

-- What has happened to the value before the copy is made.
local ways_in = {
  plain = nothing,
  watched = function(value) mw.watch(value, nothing, STAY) end,
  deep = function(value) mw.watch(value, nothing, DEEP) end,
  tracked = function(value) mw.track(value, { deep = true }) end,
  unwatched = function(value)
    mw.watch(value, nothing, DEEP)
    mw.unwatch(value)
  end,
}

for way, take_in in pairs(ways_in) do
  describe(("mw.plain of a value (%s)"):format(way), function()
    local function plain(value)
      take_in(value)
      local copy = mw.plain(value)
      assert.is_false(rawequal(copy, value))
      return copy
    end

    it("has the contents, for raw functions too", function()
      local copy = plain { 1, 2, 3, x = "y", [0.5] = false, [-1] = { 5 } }
      assert.equal(3, rawlen(copy))
      assert.equal("y", rawget(copy, "x"))
      assert.is_false(rawget(copy, 0.5))
      assert.equal(5, rawget(rawget(copy, -1), 1))
      assert.is_nil(getmetatable(copy))
      assert.is_nil(getmetatable(copy[-1]))
    end)

    it("has the same sharing and cycles", function()
      local value, shared = { {}, {} }, {}
      value.self, value[1].up, value[1].item = value, value, shared
      value[2].item, shared.owner = shared, value[2]
      local copy = plain(value)
      assert.equal(copy, copy.self)
      assert.equal(copy, copy[1].up)
      assert.equal(copy[1].item, copy[2].item)
      assert.equal(copy[2], copy[1].item.owner)
      assert.are_not.equal(shared, copy[1].item)
    end)

    it("has copies of tables that are keys", function()
      local key = { name = "key" }
      local copy = plain { [key] = 1, list = { key }, [print] = "print" }
      assert.is_nil(copy[key])
      assert.equal(1, copy[copy.list[1]])
      assert.equal("key", copy.list[1].name)
      assert.equal("print", copy[print])
    end)

    it("is not heard of, and does not hear", function()
      local value = { inner = {} }
      local copy = plain(value)
      local before = mw.mutations(value)
      copy.x, copy.inner.y = 1, 2
      assert.equal(before, mw.mutations(value))
      assert.is_nil(value.x)
      value.z = 1
      assert.is_nil(copy.z)
      assert.is_false(mw.is_watched(copy))
      assert.is_true(rawequal(copy, raw_of(copy)))
      assert.equal(0, mw.mutations(copy))
    end)

    it("has copies of all tables, none for what is no table", function()
      local thread, userdata = coroutine.create(nothing), support.userdata {}
      local copy = plain { thread, userdata, nothing, io.stdout }
      assert.equal(thread, copy[1])
      assert.equal(userdata, copy[2])
      assert.equal(nothing, copy[3])
      assert.equal(io.stdout, copy[4])
    end)

    it("has the classes", function()
      local Class = { __tostring = function(self) return self.name end }
      Class.__index = Class
      function Class.double(self) return self.n * 2 end
      local Lazy = { __index = function(_, key) return "no " .. key end,
        __newindex = function(t, k, v) rawset(t, k, v) end }
      local copy = plain {
        a = setmetatable({ name = "a", n = 4 }, Class),
        b = setmetatable({ name = "b" }, Lazy),
      }
      assert.equal(Class, getmetatable(copy.a))
      assert.equal("a", tostring(copy.a))
      assert.equal(8, copy.a:double())
      assert.equal(Lazy, getmetatable(copy.b))
      assert.equal("no x", copy.b.x)
      copy.b.x = "set"
      assert.equal("set", rawget(copy.b, "x"))
    end)

    it("has the class of a value, protected or not", function()
      local Class = { __metatable = "hidden", __len = function() return 7 end }
      local copy = plain(setmetatable({ 1 }, Class))
      assert.equal("hidden", getmetatable(copy))
      assert.equal(7, #copy)
    end)

    it("has no class with __gc or __close", function()
      local closed = 0
      local function close() closed = closed + 1 end
      for _, name in ipairs { "__gc", "__close" } do
        local copy = plain(setmetatable({ x = 1 }, { [name] = close }))
        assert.is_nil(getmetatable(copy))
        assert.equal(1, copy.x)
      end
    end)

    it("has no class that keeps the fields elsewhere", function()
      local fields = setmetatable({}, { __mode = "k" })
      local Proxy = {
        __index = function(self, key) return fields[self][key] end,
        __newindex = function(self, key, new) fields[self][key] = new end,
      }
      local proxy = setmetatable({}, Proxy)
      fields[proxy] = { x = 1 }
      local copy = plain { proxy }
      assert.is_nil(getmetatable(copy[1]))
      assert.is_nil(next(copy[1]))
      assert.equal(1, proxy.x)
    end)

    it("has weak tables themselves", function()
      local value = { weak = setmetatable({ {} }, { __mode = "v" }) }
      local weak = value.weak
      assert.is_true(rawequal(weak, plain(value).weak))
      assert.is_true(rawequal(weak, mw.plain(weak)))
    end)

    for style, class_style in pairs(styles) do
      it("has objects of one class, before and after it: " .. style, function()
        local class = class_style.make("Thing", nil, function(self, n)
          self.n = n
        end)
        local function make(n) return class_style.construct(class, n) end
        local other = make(0)
        local copy = plain { class, make(1), { make(2), class } }
        assert.is_true(rawequal(class, copy[1]))
        assert.is_true(rawequal(class, copy[3][2]))
        for i, object in ipairs { copy[2], copy[3][1] } do
          assert.equal(i, object.n)
          assert.equal(getmetatable(other), getmetatable(object))
          assert.is_true(rawequal(other.class, object.class))
        end
      end)
    end

    it("may be a class itself", function()
      local Class = { list = { 1 } }
      Class.__index = Class
      Class.one = setmetatable({ x = 1 }, Class)
      local copy = plain(Class)
      assert.are_not.equal(Class, copy)
      assert.equal(1, rawget(copy, "list")[1])
      assert.equal(Class, getmetatable(copy.one))
      assert.equal(1, copy.one.x)
      assert.equal(copy, copy.__index)
    end)

    it("may be a long list", function()
      local list
      for i = 1, 50000 do list = { next = list, value = i } end
      local copy, n = mw.plain(list), 0
      while copy do
        n = n + copy.value
        copy = copy.next
      end
      assert.equal(50000 * 50001 // 2, n)
    end)
  end)
end

describe("mw.plain", function()
  it("has what an object holds as its class, and Lua's own tables, themselves",
    function()
      for _, field in ipairs { "class", "_class" } do
        local Class = { dictionary = { __index = {} } }
        local object = setmetatable({ [field] = Class }, Class.dictionary)
        assert.is_true(rawequal(Class, mw.plain(object)[field]))
        assert.is_true(rawequal(Class, mw.plain({ Class, object })[1]))
      end
      assert.is_true(rawequal(_G, mw.plain({ env = _G }).env))
      assert.is_false(rawequal(package, (mw.plain(package))))
    end)

  it("returns what is no table", function()
    for _, value in ipairs { 1, 0.5, "text", true, print, io.stdout } do
      assert.equal(value, mw.plain(value))
    end
    assert.is_nil(mw.plain(nil))
    assert.is_false(mw.plain(false))
    misuse("bad argument #1 to 'plain' (value expected)", mw.plain)
  end)

  it("leaves the library's own objects as they are", function()
    local ours = { mw.clock(), mw.weakmap(), mw.guard(), mw.memo(nothing),
      mw.watch({}, nothing), mw.history(), mw.hierarchy(), mw.plan() }
    local copy = mw.plain(ours)
    assert.equal(#ours, #copy)
    for i, object in ipairs(ours) do
      assert.is_true(rawequal(object, copy[i]))
      assert.is_true(rawequal(object, mw.plain(object)))
    end
  end)

  it("of a recorder's entry has the entry's fields", function()
    local t = mw.track {}
    local r <close> = mw.recorder()
    t.x = 1
    for _, list in ipairs { false, {} } do
      for e in r:entries() do
        local plain = list and mw.plain({ e })[1] or mw.plain(e)
        local fields = {}
        for key, value in next, plain do fields[key] = value end
        assert.same({ object = mw.plain(t), key = "x", new = 1, seq = e.seq,
          kind = "insert", epoch = e.epoch }, fields)
        assert.equal(("x of table#%d: nil -> 1"):format(mw.id(plain.object)),
          tostring(plain))
      end
    end
  end)

  it("has what was put into a watched object raw", function()
    local obj = { x = 1, y = 1 }
    mw.watch(obj, nothing, STAY)
    rawset(obj, "x", { 2 })
    rawset(obj, "z", 3)
    local copy = mw.plain(obj)
    assert.same({ x = { 2 }, y = 1, z = 3 }, copy)
  end)

  it("copies the contents of a watched class's object", function()
    local Class = { size = 1 }
    Class.__index = Class
    local obj = setmetatable({ x = 1 }, Class)
    mw.watch(Class, nothing, STAY)
    mw.watch(obj, nothing, STAY)
    local copy = mw.plain { obj, Class }
    assert.equal(1, copy[1].size)
    assert.equal(Class, getmetatable(copy[1]))
    assert.equal(Class, copy[2])
  end)

  it("copies random worlds (SEED=" .. worlds.seed .. ")", function()
    worlds.each(200, function(random, message)
      local tables = worlds.new(random)
      pcall(worlds.run, random, tables, 20, true)
      local root = { tables[1], tables }
      local expected = picture(root)
      for _, t in ipairs(tables) do
        local way = random(4)
        if way == 1 then mw.watch(t, nothing, STAY) end
        if way == 2 then mw.track(t, { deep = random(2) == 1 }) end
      end
      local copy = mw.plain(root)
      assert.equal(expected, picture(copy), message)
      for _, t in ipairs(copy[2]) do
        assert.is_true(rawequal(t, raw_of(t)), message)
      end
    end)
  end)
end)

describe("the metatable that objects without one show", function()
  local function copy_of(t)
    local copy = {}
    for key, value in pairs(t) do copy[key] = value end
    return setmetatable(copy, getmetatable(t))
  end

  it("is one empty table", function()
    local a, b = mw.track { 1 }, { 2, inner = {} }
    mw.watch(b, nothing, DEEP)
    assert.is_true(rawequal(getmetatable(a), getmetatable(b)))
    assert.is_true(rawequal(getmetatable(a), getmetatable(b.inner)))
    assert.is_nil(next(no_class))
    assert.is_nil(getmetatable(raw_of(a)))
  end)

  it("can be set, and is as none", function()
    local copy = copy_of(mw.track { 1, x = 2 })
    assert.equal(no_class, getmetatable(copy))
    assert.equal(2, copy.x)
    assert.is_nil(getmetatable(mw.plain { copy }[1]))
    mw.watch(copy, nothing, STAY)
    assert.equal(no_class, getmetatable(copy))
    assert.is_nil(getmetatable(raw_of(copy)))
    copy.x = 3
    assert.equal(1, mw.mutations(copy))
    assert.is_nil(getmetatable(mw.plain(copy)))
    assert.is_true(mw.unwatch(copy))
    assert.is_nil(getmetatable(copy))
  end)

  it("is none for mw.setmetatable and for effects", function()
    local plain = mw.setmetatable({}, no_class)
    assert.is_nil(getmetatable(plain))
    local class, seen = {}, {}
    local obj = setmetatable({}, class)
    mw.watch(obj, function(_, ...) seen = { ... } end, STAY)
    local _, fx = mw.transaction(mw.setmetatable, obj, no_class)
    assert.same({ nil, class, nil, "metatable" }, seen)
    assert.equal(no_class, getmetatable(obj))
    fx:rollback()
    assert.equal(class, getmetatable(obj))
    fx:apply()
    assert.equal(no_class, getmetatable(obj))
  end)

  it("is none for policies", function()
    local rest = copy_of(mw.track {})
    local former = mw.policy({ classes = { [no_class] = { ignore = { "x" } } },
    }):use()
    mw.watch(rest, nothing, STAY)
    rest.x = 1
    assert.equal(1, mw.mutations(rest))
    former:use()
  end)

  it("cannot be written to, or watched", function()
    assert.matches("all watched objects without a metatable show this table",
      error_of(function() no_class.__index = {} end))
    assert.matches("cannot be watched", error_of(mw.watch, no_class, nothing))
    assert.is_nil(next(no_class))
    local root = { no_class }
    mw.watch(root, nothing, DEEP)
    mw.unwatch(root)
    assert.is_true(rawequal(no_class, mw.plain { no_class }[1]))
  end)
end)

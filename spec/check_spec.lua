local mw = require "moonwatch"
local error_of = require "spec.support.error_of"
local hear = require "spec.support.hear"
local misuse = require "spec.support.misuse"
local support = require "support"

local function nothing() end

local STAY = { once = false }
local CHECK = { phase = "check" }

local function refuse() error("refused", 0) end

local contents = setmetatable({}, { __mode = "k" })
local function elsewhere()
  return {
    __index = function(self, key) return contents[self][key] end,
    __newindex = function(self, key, value) contents[self][key] = value end,
  }
end

-- Objects of all kinds, each with x = 1.
local OBJECTS = {
  plain = function() return { x = 1 } end,
  class = function() return setmetatable({ x = 1 }, { __index = {} }) end,
  keeps = function()
    return setmetatable({ x = 1 }, { __newindex = rawset })
  end,
  elsewhere = function()
    local obj = setmetatable({}, elsewhere())
    contents[obj] = { x = 1 }
    return obj
  end,
  userdata = function()
    local obj = support.userdata(elsewhere())
    contents[obj] = { x = 1 }
    return obj
  end,
  tracked = function() return mw.track { x = 1 } end,
  below = function()
    local obj = { x = 1 }
    obj.root = mw.track({ obj }, { deep = true })
    return obj
  end,
}

local function each_object(f)
  for name, make in pairs(OBJECTS) do f(make(), name) end
end

describe("a check", function()
  it("refuses a write with its error, and nothing else happens", function()
    each_object(function(obj, name)
      local flag, err, heard = mw.guard(), {}, hear(obj)
      mw.watch(obj, flag)
      local once = mw.watch(obj, nothing)
      local memo = mw.memo(nothing, obj)
      memo()
      local handle = mw.watch(obj, function() error(err) end, CHECK)
      for _, handler in ipairs { false, nothing } do
        local former = mw.on_error(handler or nil)
        local said = error_of(function() obj.x = 2 end)
        assert.equal(err, said, name)
        assert.equal(err, error_of(function() obj.new = 2 end), name)
        mw.on_error(former)
      end
      assert.equal(1, obj.x, name)
      assert.is_nil(obj.new, name)
      assert.equal("", heard(), name)
      assert.equal(0, mw.mutations(obj), name)
      assert.is_true(flag.valid, name)
      assert.is_true(memo:valid(), name)
      assert.is_true(once:alive(), name)
      assert.is_true(handle:alive(), name)
      handle:cancel()
      obj.x = 2
      assert.equal("update x 1>2", heard(), name)
      assert.equal(1, mw.mutations(obj), name)
    end)
  end)

  it("may replace the value, and the next one sees that", function()
    each_object(function(obj, name)
      local seen = {}
      mw.watch(obj, function(_, key, old, new, kind)
        seen[#seen + 1] = ("%s %s %s>%s"):format(kind, key, old, new)
        return true, new + 1
      end, CHECK)
      mw.watch(obj, function(_, key, old, new, kind)
        seen[#seen + 1] = ("%s %s %s>%s"):format(kind, key, old, new)
        return true, new * 10
      end, { phase = "check", key = "x" })
      local heard, later = hear(obj), hear(obj, { phase = "after" })
      obj.x = 2
      obj.y = 2
      assert.same({ "update x 1>2", "update x 1>3", "insert y nil>2" }, seen)
      assert.equal(30, obj.x, name)
      assert.equal(3, obj.y, name)
      assert.equal("update x 1>30, insert y nil>3", heard(), name)
      assert.equal("update x 1>30, insert y nil>3", later(), name)
    end)
  end)

  it("may delete, insert or leave the value", function()
    local results = {
      { { true, nil, n = 2 }, nil, "delete x 1>nil" },
      { { true, false, n = 2 }, false, "update x 1>false" },
      { { true, n = 1 }, 2, "update x 1>2" },
      { { n = 0 }, 2, "update x 1>2" },
      { { nil, 7, n = 2 }, 2, "update x 1>2" },
      { { 5, 7, n = 2 }, 2, "update x 1>2" },
    }
    for _, result in ipairs(results) do
      local obj = { x = 1 }
      mw.watch(obj, function()
        return table.unpack(result[1], 1, result[1].n)
      end, CHECK)
      local heard = hear(obj)
      obj.x = 2
      assert.equal(result[2], obj.x)
      assert.equal(result[3], heard())
    end
    local obj = { x = 1 }
    mw.watch(obj, function() return true, 3 end, CHECK)
    local heard = hear(obj)
    obj.x = nil
    assert.equal("update x 1>3", heard())
  end)

  it("may not return false", function()
    local obj = { x = 1 }
    mw.watch(obj, function() return false, 5 end, CHECK)
    local said = error_of(function() obj.x = 2 end)
    assert.is_truthy(said:find("refuse with error", 1, true), said)
    assert.equal(1, obj.x)
  end)

  it("may not return false: the message has the line of the write",
    function()
      local source = debug.getinfo(1, "S").short_src
      local function check() return false end
      local function expect(name, root, obj, opts)
        mw.watch(root, check, opts)
        local function write() obj.x = 2 end
        local line = debug.getinfo(write, "S").linedefined
        assert.equal(("%s:%d: a check returned false: refuse with error")
          :format(source, line), error_of(write), name)
        assert.equal(1, obj.x, name)
      end
      each_object(function(obj, name) expect(name, obj, obj, CHECK) end)
      local obj = { x = 1 }
      expect("deep", { { obj } }, obj, { phase = "check", deep = true })
      expect("path", { 1, obj }, obj,
        { phase = "check", path = { 2, "x" } })
      obj = { x = 1 }
      expect("once", obj, obj, { phase = "check", once = true })
    end)

  it("is a function", function()
    misuse("bad argument #2 to 'watch' (phase 'check' needs a function, " ..
      "got table)", mw.watch, {}, { invalidate = nothing }, CHECK)
    misuse("bad argument #2 to 'watch' (phase 'check' needs a function, " ..
      "got guard)", mw.watch, {}, mw.guard(), CHECK)
  end)

  it("is asked of its keys, until it is used up, under its conditions",
    function()
      local obj = { x = 1 }
      local handle = mw.watch(obj, refuse,
        { phase = "check", keys = { "x", "y" }, once = true })
      obj.z = 1
      assert.equal("refused", error_of(function() obj.y = 1 end))
      assert.is_false(handle:alive())
      obj.x, obj.y = 2, 2
      handle = mw.watch(obj, refuse, { phase = "check",
        when = function(_, _, _, new) return new == 7 end })
      obj.x = 6
      assert.equal("refused", error_of(function() obj.x = 7 end))
      assert.is_true(handle:alive())
      handle:cancel()
      assert.is_false(handle:alive())
      obj.x = 7
      assert.equal(7, obj.x)
    end)

  it("refuses with the error of its condition", function()
    local obj, err = { x = 1 }, {}
    mw.watch(obj, nothing, { phase = "check", when = function()
      error(err)
    end })
    assert.equal(err, error_of(function() obj.x = 2 end))
    assert.equal(1, obj.x)
  end)

  it("passes over the same value, also one that a check put there", function()
    local obj, n = { x = 1 }, 0
    local first = mw.watch(obj, function() return true, 1 end, CHECK)
    mw.watch(obj, function() n = n + 1 end,
      { phase = "check", equal = "skip" })
    local skips = hear(obj, { equal = "skip" })
    obj.x = 5
    assert.equal(0, n)
    assert.equal("", skips())
    first:cancel()
    obj.x = 5
    assert.equal(1, n)
    assert.equal("update x 1>5", skips())
  end)

  it("is asked at the write in a batch, and in a transaction", function()
    local obj = { x = 1 }
    mw.watch(obj, function(_, _, _, new) if new == 3 then refuse() end end,
      CHECK)
    local heard = hear(obj)
    assert.equal("refused", error_of(mw.batch, function()
      obj.x = 2
      obj.x = 3
    end))
    assert.equal(2, obj.x)
    assert.equal("update x 1>2", heard())
    mw.batch(function()
      obj.x = 7
      pcall(function() obj.x = 3 end)
      pcall(function() obj.y = 3 end)
    end)
    assert.equal("update x 1>2, update x 2>7", heard())
    local ok, message = mw.transaction(function()
      obj.x = 8
      obj.x = 3
    end)
    assert.is_false(ok)
    assert.equal("refused", message)
    assert.equal(7, obj.x)
    local _, fx = mw.transaction(function()
      pcall(function() obj.x = 3 end)
      obj.x = 9
    end)
    assert.equal(1, fx:len())
    assert.equal(9, fx:entries()().new)
  end)

  it("is asked with the value that a check put there for the journal",
    function()
      local obj = mw.track { x = 1 }
      mw.watch(obj, function(_, _, _, new) return true, -new end, CHECK)
      local _, fx = mw.transaction(function() obj.x = 2 end)
      local entry = fx:entries()()
      assert.equal(1, entry.old)
      assert.equal(-2, entry.new)
      fx:rollback()
      assert.equal(1, obj.x)
    end)

  it("is not asked for raw writes, touches and rollbacks", function()
    local obj, n = { x = 1 }, 0
    mw.watch(obj, function() n = n + 1 end, CHECK)
    rawset(obj, "y", 1)
    assert.is_true(mw.sync(obj))
    mw.touch(obj, "x")
    mw.touch(obj)
    assert.equal(0, n)
    assert.is_false((mw.transaction(function()
      obj.x = 2
      error "taken back"
    end)))
    assert.equal(1, n)
    assert.equal(1, obj.x)
  end)

  it("comes before the class's __newindex, which gets the value", function()
    local given = {}
    local obj = setmetatable({}, { __newindex = function(self, key, value)
      given[#given + 1] = value
      rawset(self, "_" .. key, value)
      rawset(self, key, value)
    end })
    local asked = {}
    mw.watch(obj, function(_, key, _, new)
      asked[#asked + 1] = key
      if new == "bad" then refuse() end
      return true, new .. "!"
    end, CHECK)
    assert.equal("refused", error_of(function() obj.a = "bad" end))
    obj.b = "good"
    assert.same({ "good!" }, given)
    assert.same({ "a", "b" }, asked)
    assert.equal("good!", obj._b)
  end)

  it("is asked above, with the path; its table is included", function()
    local sub = { hp = 1 }
    local root = { a = { hp = 1 } }
    local seen = {}
    mw.watch(root, function(_, path, old, new, kind, written)
      local name = table.concat(path, ".")
      seen[#seen + 1] = name
      if name == "b" then return true, sub end
      assert.equal(root.a, written)
      if new > 5 then refuse() end
      return true, new + 1, old, kind
    end, { phase = "check", deep = true, when = function(_, key)
      return key ~= "free"
    end })
    local heard = hear(root, { deep = true })
    root.a.hp = 2
    assert.equal("refused", error_of(function() root.a.hp = 9 end))
    root.b = 5
    assert.equal(sub, root.b)
    sub.free = 1
    root.a.free = 1
    assert.same({ "a.hp", "a.hp", "b" }, seen)
    assert.equal(("update a.hp 1>3, insert b nil>%s, insert b.free nil>1, " ..
      "insert a.free nil>1"):format(sub), heard())
  end)

  it("of the object comes before those above; a refusal ends the asking",
    function()
      local obj = { x = 1 }
      local root, order = { obj }, {}
      local function say(name)
        return function() order[#order + 1] = name end
      end
      mw.watch(root, say "root", { phase = "check", deep = true })
      mw.watch(obj, say "first", CHECK)
      mw.watch(obj, function(_, _, _, new) if new == 2 then refuse() end end,
        CHECK)
      mw.watch(obj, say "last", CHECK)
      obj.x = 3
      assert.same({ "first", "last", "root" }, order)
      assert.equal("refused", error_of(function() obj.x = 2 end))
      assert.same({ "first", "last", "root", "first" }, order)
    end)

  it("that is asked once stays if another one refuses before", function()
    local obj, order = { x = 1 }, {}
    local function add(name)
      mw.watch(obj, function()
        order[#order + 1] = name
        if name == "b" then refuse() end
      end, { phase = "check", once = true, key = name == "c" and "x" or nil })
    end
    for _, name in ipairs { "a", "b", "c", "d" } do add(name) end
    assert.equal("refused", error_of(function() obj.x = 2 end))
    assert.same({ "a", "b" }, order)
    obj.x = 2
    obj.x = 3
    assert.same({ "a", "b", "c", "d" }, order)
  end)

  it("that is asked once hears of its path after a refusal", function()
    local obj, order = { a = { x = 1 }, b = { x = 1 }, c = { x = 1 } }, {}
    local once = { phase = "check", once = true, path = { "a", "x" } }
    mw.watch(obj, function()
      for _, key in ipairs { "b", "c" } do
        mw.watch(obj, nothing, { path = { key, "x" } })
      end
      refuse()
    end, once)
    mw.watch(obj, function(_, path) order[#order + 1] = path end, once)
    assert.equal("refused", error_of(function() obj.a.x = 2 end))
    assert.same({}, order)
    obj.a.x = 3
    obj.a.x = 4
    assert.same({ { "a", "x" } }, order)
  end)

  it("may write to the object, which lands first", function()
    local obj = { x = 1 }
    mw.watch(obj, function(self, key)
      if key == "x" then self.n = (self.n or 0) + 1 end
    end, CHECK)
    local heard, later = hear(obj), hear(obj, { phase = "after" })
    obj.x = 2
    assert.equal("insert n nil>1, update x 1>2", heard())
    mw.watch(obj, function(self, key, _, new)
      if key == "x" and new ~= 50 then self.x = 50 end
    end, CHECK)
    obj.x = 3
    assert.equal(3, obj.x)
    assert.is_truthy(later():find "update x 2>50, update x 50>3$")
  end)

  it("may do anything to the object meanwhile", function()
    local deeds = {
      unwatch = mw.unwatch,
      again = function(obj)
        mw.unwatch(obj)
        mw.watch(obj, nothing, STAY)
      end,
      class = function(obj) mw.setmetatable(obj, { __newindex = rawset }) end,
      collect = function() collectgarbage() end,
      track = mw.track,
      watch = function(obj) mw.watch(obj, error, STAY):cancel() end,
    }
    for name, deed in pairs(deeds) do
      for _, how in ipairs { "leave", "replace", "refuse" } do
        local obj = { x = 1 }
        mw.watch(obj, function(self, _, _, _, kind)
          if kind == "metatable" then return end
          deed(self)
          if how == "refuse" then refuse() end
          if how == "replace" then return true, 7 end
        end, CHECK)
        local ok = pcall(function() obj.y = 2 end)
        assert.equal(how ~= "refuse", ok, name)
        local expected = ({ leave = 2, replace = 7 })[how]
        assert.equal(expected, obj.y, name)
        mw.unwatch(obj)
        mw.untrack(obj)
        assert.equal(expected, rawget(obj, "y"), name)
        assert.equal(1, rawget(obj, "x"), name)
      end
    end
  end)

  it("may give the object a class, whose rules then hold", function()
    local class = { __newindex = function(self, key, value)
      rawset(self, key, value .. " of the class")
    end }
    local obj = { x = 1 }
    mw.watch(obj, function(self, _, _, _, kind)
      if kind == "insert" then mw.setmetatable(self, class) end
    end, CHECK)
    obj.y = "y"
    assert.equal("y of the class", obj.y)
    assert.equal(class, getmetatable(obj))
  end)

  it("is asked about metatables, and may choose another", function()
    local old, first, second = {}, {}, {}
    local obj, seen = setmetatable({ x = 1 }, old), nil
    local result
    mw.watch(obj, function(_, ...)
      seen = table.pack(...)
      if result == "refuse" then refuse() end
      return table.unpack(result, 1, result.n)
    end, CHECK)
    local heard = hear(obj)
    result = "refuse"
    assert.equal("refused", error_of(mw.setmetatable, obj, first))
    assert.same({ nil, old, first, "metatable", n = 4 }, seen)
    assert.equal(old, getmetatable(obj))
    assert.equal(0, mw.mutations(obj))
    result = { true, second, n = 2 }
    assert.equal(obj, mw.setmetatable(obj, first))
    assert.equal(second, getmetatable(obj))
    assert.is_truthy(heard():find("^metatable nil "), heard())
    result = { true, 5, n = 2 }
    misuse("bad argument #2 to 'setmetatable' (nil or table expected, " ..
      "got number)", mw.setmetatable, obj, first)
    assert.equal(second, getmetatable(obj))
    assert.equal(1, obj.x)
  end)

  it("is asked about calls of mutators, before they run", function()
    local calls = 0
    local class = {}
    class.__index = class
    function class:move(dx)
      calls = calls + 1
      self.x = self.x + dx
    end
    local former = mw.policy {
      classes = { [class] = { mutators = { "move" } } },
    }:use()
    local obj = setmetatable({ x = 1 }, class)
    local allow = false
    mw.watch(obj, function(_, key, _, _, kind)
      if kind == "call" and not allow then error("no " .. key, 0) end
    end, CHECK)
    assert.equal("no move", error_of(obj.move, obj, 1))
    assert.equal(0, calls)
    assert.equal(0, mw.mutations(obj))
    allow = true
    obj:move(1)
    assert.equal(2, obj.x)
    former:use()
  end)

  it("is asked before anything of effects is applied", function()
    local obj = mw.track { x = 1 }
    local _, fx = mw.transaction(function()
      obj.x = 2
      obj.y = 3
    end)
    fx:rollback()
    local asked = {}
    local handle = mw.watch(obj, function(_, key)
      asked[#asked + 1] = key
      if key == "y" then refuse() end
    end, CHECK)
    local heard = hear(obj)
    local ok, message = fx:apply()
    assert.is_nil(ok)
    assert.equal("refused", message)
    assert.same({ "x", "y" }, asked)
    ok, message = mw.patch(obj, {
      { op = "replace", path = "/x", value = 5 },
      { op = "add", path = "/y", value = 5 },
    })
    assert.is_nil(ok)
    assert.equal("refused", message)
    assert.equal(1, obj.x)
    assert.equal("", heard())
    handle:cancel()
    assert.is_truthy(fx:apply())
    assert.equal(2, obj.x)
    assert.equal(3, obj.y)
  end)

  it("may not yield", function()
    local obj = { x = 1 }
    mw.watch(obj, function() coroutine.yield() end, CHECK)
    local said = coroutine.wrap(function()
      return error_of(function() obj.x = 2 end)
    end)()
    assert.is_truthy(said:find("attempt to yield", 1, true), said)
    assert.equal(1, obj.x)
  end)

  it("gets keys as tables have them, and Lua's errors stay", function()
    local obj, keys = {}, {}
    mw.watch(obj, function(_, key) keys[#keys + 1] = math.type(key) end,
      CHECK)
    obj[1.0] = true
    assert.same({ "integer" }, keys)
    assert.is_truthy(error_of(function() obj[nil] = 1 end)
      :find("index is nil", 1, true))
    assert.is_truthy(error_of(function() obj[0 / 0] = 1 end)
      :find("index is NaN", 1, true))
    assert.equal(1, #obj)
  end)
end)

describe("guards that write without end", function()
  -- Where C's stack ends Lua cannot call finalisers.
  before_each(function() collectgarbage "stop" end)
  after_each(function() collectgarbage "restart" end)

  local function endless(watch)
    local obj, n = { x = 0 }, 0
    local function correct(self)
      n = n + 1
      self.x = self.x + 1
      return true
    end
    local first, second = watch(obj, correct), watch(obj, correct)
    assert.is_false((pcall(function() obj.x = 1 end)))
    assert.is_true(n < 20000)
    first:cancel()
    second:cancel()
    obj.x = 5
    assert.equal(5, obj.x)
    local other, calls = { x = 0 }, 0
    mw.watch(other, function() calls = calls + 1 end, STAY)
    other.x = 1
    assert.equal(1, calls) -- guards are called as ever
  end

  it("end in an error, in each phase and under conditions", function()
    for _, phase in ipairs { "before", "after", "check" } do
      endless(function(obj, guard)
        return mw.watch(obj, guard, { once = false, phase = phase })
      end)
    end
    endless(function(obj, guard)
      return mw.watch(obj, nothing, { once = false, when = guard })
    end)
    endless(function(obj, guard)
      local kept = { invalidate = function(_, ...) return guard(...) end }
      return mw.watch(obj, kept, { once = false,
        when = function() return kept ~= nil end })
    end)
    endless(function(obj, guard)
      local root = { obj }
      return mw.watch(root, function() return guard(obj) end,
        { deep = true, once = false })
    end)
  end)

  it("end when they write to each other's objects", function()
    local a, b, n = { x = 0 }, { x = 0 }, 0
    local function of(obj)
      return function()
        n = n + 1
        obj.x = obj.x + 1
      end
    end
    for _ = 1, 2 do
      mw.watch(a, of(b), STAY)
      mw.watch(b, of(a), STAY)
    end
    assert.is_false((pcall(function() a.x = 1 end)))
    assert.is_true(n < 20000)
  end)

  it("end when their errors are caught, by them or mw.on_error", function()
    local obj, n = { x = 0 }, 0
    local function careless(self)
      n = n + 1
      pcall(function() self.x = self.x + 1 end)
    end
    mw.watch(obj, careless, STAY)
    mw.watch(obj, careless, STAY)
    pcall(function() obj.x = 1 end)
    assert.is_true(n < 20000)
    local errors = 0
    local former = mw.on_error(function() errors = errors + 1 end)
    local other = { x = 0 }
    local function correct(self)
      n = n + 1
      self.x = self.x + 1
    end
    mw.watch(other, correct, STAY)
    mw.watch(other, correct, STAY)
    local ok = pcall(function() other.x = 1 end)
    mw.on_error(former)
    assert.is_true(ok)
    assert.is_true(errors > 0)
    assert.is_true(n < 40000)
  end)

  it("end when a class's functions bring them to it", function()
    local n = 0
    local lazy = setmetatable({ z = 0 }, { __index = function(self, key)
      rawset(self, key, 1)
      return 1
    end })
    mw.watch(lazy, function(self)
      n = n + 1
      return self["k" .. n]
    end, STAY)
    pcall(function() return lazy.x end)
    assert.is_true(n < 20000)
    local raw, m = { a = 0 }, 0
    mw.watch(raw, function(self)
      m = m + 1
      rawset(self, "a", m)
      self.b = m
    end, STAY)
    assert.is_false((pcall(function() raw.b = 1 end)))
    assert.is_true(m < 20000)
  end)
end)

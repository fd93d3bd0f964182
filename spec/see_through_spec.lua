local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"
local no_class = require "spec.support.no_class"

local ONCE = { once = true }

local function nothing() end
local function never() error("a guard was called", 0) end

local STAY = { once = false }
local DEEP = { deep = true, once = false }
local NAMES = { "next", "pairs", "rawget", "rawset", "rawlen", "getmetatable",
  "setmetatable" }

local function environment() return setmetatable({}, { __index = _G }) end

-- The functions, for specs that do not look at the environment.
local env = environment()
mw.see_through(env)

local calls, held = 0, {}
local function count() calls = calls + 1 end

local ways_in = {
  watched = function(obj) mw.watch(obj, count, STAY) end,
  deep = function(obj) mw.watch(obj, count, DEEP) end,
  tracked = mw.track,
  ["below a watched one"] = function(obj)
    held[1] = { obj }
    mw.watch(held[1], count, DEEP)
  end,
}

describe("mw.see_through", function()
  it("puts functions into the table, until the handle is cancelled", function()
    local own = environment()
    local handle = mw.see_through(own)
    for _, name in ipairs(NAMES) do
      assert.is_function(rawget(own, name))
      assert.are_not.equal(_G[name], own[name])
    end
    handle:cancel()
    assert.is_nil(next(own))
    handle:cancel()
    assert.is_nil(next(own))
  end)

  it("is a value with __close", function()
    local own = { next = next }
    do
      local _ <close> = mw.see_through(own)
      assert.are_not.equal(next, own.next)
    end
    assert.same({ next = next }, own)
  end)

  it("leaves what the program has put in meanwhile", function()
    local own = { rawget = rawget }
    local handle = mw.see_through(own)
    own.next, own.rawlen = never, nil
    handle:cancel()
    assert.same({ rawget = rawget, next = never }, own)
  end)

  for _, order in ipairs { { 1, 2, 3 }, { 3, 2, 1 }, { 2, 1, 3 }, { 2, 3, 1 } }
  do
    it("ends in any order: " .. table.concat(order, ", "), function()
      local own, handles = { next = next }, {}
      for i = 1, 3 do handles[i] = mw.see_through(own) end
      local obj = mw.track { x = 1 }
      for i = 1, 3 do
        assert.equal("x", own.next(obj))
        handles[order[i]]:cancel()
      end
      assert.same({ next = next }, own)
    end)
  end

  it("works in _G", function()
    local before = {}
    for _, name in ipairs(NAMES) do before[name] = _G[name] end
    local obj = mw.track { 1, 2, x = 3 }
    local handle = mw.see_through(_G)
    local length, x, n = rawlen(obj), rawget(obj, "x"), 0
    for _ in next, obj do n = n + 1 end
    local class = {}
    local its = getmetatable(setmetatable(obj, class))
    handle:cancel()
    assert.same({ 2, 3, 3 }, { length, x, n })
    assert.equal(class, its)
    for _, name in ipairs(NAMES) do assert.equal(before[name], _G[name]) end
  end)

  it("works in _G for two handles, beside boxes", function()
    local obj = mw.track { 1, 2, x = 3 }
    local first <close> = mw.see_through(_G)
    local second <close> = mw.see_through(_G)
    assert.same({ 2, 3 }, { rawlen(obj), rawget(obj, "x") })
    assert.equal(1, (next(obj)))
    local box = mw.sandbox { env = { obj = obj } }
    assert.same({ true, 2, 3 }, { box:call(box:load
      "return rawlen(obj), rawget(obj, 'x')") })
    second:cancel()
    assert.equal(3, rawget(obj, "x"))
    first:cancel()
    assert.is_nil(rawget(obj, "x"))
  end)

  it("needs none of Lua's functions", function()
    local own = environment()
    local length = rawlen
    _G.rawlen = function() end
    local handle <close> = mw.see_through(own)
    _G.rawlen = length
    assert.equal(2, own.rawlen(mw.track { 1, 2 }))
    handle:cancel()
  end)

  it("works in a table that is watched", function()
    local own, heard = {}, 0
    mw.watch(own, function() heard = heard + 1 end, STAY)
    local handle = mw.see_through(own)
    assert.equal(1, own.rawget({ 1 }, 1))
    assert.is_function(raw_of(own).next)
    handle:cancel()
    assert.same({}, raw_of(own))
    assert.equal(0, heard)
  end)

  it("is for tables", function()
    misuse("bad argument #1 to 'see_through' (table expected, got nil)",
      mw.see_through)
    misuse("bad argument #1 to 'see_through' (table expected, got number)",
      mw.see_through, 5)
    local handle = mw.see_through {}
    misuse("calling 'cancel' on bad self (see_through expected, got nil)",
      handle.cancel)
  end)
end)

for way, take_in in pairs(ways_in) do
  describe(("what sees through objects (%s)"):format(way), function()
    local function new(t)
      take_in(t)
      return t
    end

    it("is next, from any key on", function()
      local obj, seen = new { 1, 2, x = 3, [true] = { 4 } }, {}
      for key, value in env.next, obj do seen[key] = value end
      assert.same({ 1, 2, x = 3, [true] = { 4 } }, seen)
      assert.equal(2, (env.next(obj, 1)))
      for key in env.next, obj do obj[key] = nil end
      assert.is_nil(env.next(obj))
      assert.is_nil((next(raw_of(obj))))
    end)

    it("is pairs, whose iterator is next of the same environment", function()
      local obj, found = new { 1, x = 2 }, {}
      assert.equal(env.next, (env.pairs { 1 }))
      for key, value in env.pairs { 1 }, obj do found[key] = value end
      assert.same({ 1, x = 2 }, found)
      found = {}
      for key, value in env.pairs(obj) do found[key] = value end
      assert.same({ 1, x = 2 }, found)
      local class = { __pairs = function(self) return never, self, 5 end }
      local _, state, first = env.pairs(new(setmetatable({}, class)))
      assert.same({ "table", 5 }, { type(state), first })
    end)

    it("is getmetatable, nil without a class", function()
      local class = {}
      assert.is_nil(env.getmetatable(new {}))
      assert.equal(class, env.getmetatable(new(setmetatable({}, class))))
      assert.equal("hidden", env.getmetatable(new(setmetatable({},
        { __metatable = "hidden" }))))
      assert.equal(getmetatable "", env.getmetatable "")
      assert.is_nil(env.getmetatable(5))
    end)

    it("is rawget and rawlen, without the class", function()
      local obj = new(setmetatable({ 1, 2, x = 3 },
        { __index = never, __len = never }))
      assert.equal(3, env.rawget(obj, "x"))
      assert.is_nil(env.rawget(obj, "y"))
      assert.equal(2, env.rawlen(obj))
      rawset(obj, "z", 4)
      assert.equal(4, env.rawget(obj, "z"))
    end)

    it("is rawset, without the class and without calls", function()
      local obj = new(setmetatable({ x = 1 }, { __newindex = never }))
      calls = 0
      assert.equal(obj, env.rawset(obj, "y", 2))
      env.rawset(obj, "x", nil)
      env.rawset(obj, 1, "first")
      assert.same({ y = 2, "first" }, raw_of(obj))
      assert.equal(1, #obj)
      assert.is_nil(next(obj))
      assert.equal(0, calls)
      assert.same({ "table index is nil", "table index is NaN" }, {
        error_of(env.rawset, obj, nil, 1):match "table index is %a+",
        error_of(env.rawset, obj, 0 / 0, 1):match "table index is %a+",
      })
    end)

    it("is rawset over what was put there by Lua's", function()
      local obj = new { x = 1 }
      rawset(obj, "x", 2)
      env.rawset(obj, "x", 3)
      assert.equal(3, obj.x)
      assert.is_false(mw.sync(obj))
      assert.same({ x = 3 }, raw_of(obj))
    end)

    it("is recorded, and can be taken back", function()
      local obj = new { x = 1, gone = 2 }
      local ok, fx = mw.transaction(function()
        env.rawset(obj, "x", { inner = 1 })
        env.rawset(obj, "new", 3)
        env.rawset(obj, "gone", nil)
        env.rawset(obj, "absent", nil)
      end)
      assert.is_true(ok)
      local kinds = {}
      for e in fx:entries() do kinds[#kinds + 1] = e.key .. " " .. e.kind end
      assert.same({ "x raw", "new raw", "gone raw" }, kinds)
      local after = obj.x
      local inverse = fx:invert()
      assert.is_truthy(inverse:apply())
      assert.same({ x = 1, gone = 2 }, raw_of(obj))
      assert.is_truthy(fx:apply())
      assert.same({ x = after, new = 3 }, raw_of(obj))
      kinds = {}
      for e in fx:squash():entries() do kinds[e.key] = e.kind end
      assert.same({ x = "update", new = "insert", gone = "delete" }, kinds)
      fx:rollback()
      assert.same({ x = 1, gone = 2 }, raw_of(obj))
      assert.is_nil(mw.transaction(function()
        env.rawset(obj, "x", 5)
        error "fail"
      end) or nil)
      assert.equal(1, obj.x)
    end)

    it("is setmetatable, which is mw.setmetatable", function()
      local obj, class = new { 1 }, { __index = { x = 1 } }
      calls = 0
      assert.equal(obj, env.setmetatable(obj, class))
      assert.equal(way == "tracked" and 0 or 1, calls)
      assert.equal(class, getmetatable(obj))
      assert.equal(1, obj.x)
      assert.equal(1, obj[1])
      assert.is_nil(next(obj))
    end)
  end)
end

describe("a rawset that sees through", function()
  it("counts, and makes guards and memos stale", function()
    local obj, n = { x = 1 }, 0
    mw.watch(obj, never, STAY)
    mw.watch(obj, { invalidate = never }, STAY)
    mw.watch(obj, never, { once = false, phase = "after" })
    local guards = { any = mw.guard(), x = mw.guard(), y = mw.guard(),
      after = mw.guard(), same = mw.guard() }
    mw.watch(obj, guards.any, STAY)
    mw.watch(obj, guards.x, { key = "x", once = true })
    mw.watch(obj, guards.y, { key = "y", once = true })
    mw.watch(obj, guards.after, { phase = "after", once = true })
    mw.watch(obj, guards.same, { equal = "skip", once = true })
    local memo = mw.memo(function()
      n = n + 1
      return obj.x
    end, obj)
    memo()
    env.rawset(obj, "x", 1)
    assert.is_false(guards.any.valid or guards.x.valid or guards.after.valid)
    assert.is_true(guards.y.valid and guards.same.valid)
    env.rawset(obj, "x", 2)
    assert.is_false(guards.same.valid)
    assert.equal(2, memo())
    assert.equal(2, n)
    assert.equal(2, mw.mutations(obj))
    guards.any:revalidate()
    guards.x:revalidate()
    env.rawset(obj, "x", 3)
    assert.is_true(guards.x.valid) -- was for one time
    assert.is_false(guards.any.valid)
  end)

  it("uses up no watch of a function", function()
    local obj, heard = {}, 0
    mw.watch(obj, function() heard = heard + 1 end, ONCE)
    env.rawset(obj, "x", 1)
    assert.equal(0, heard)
    obj.x = 2
    assert.equal(1, heard)
  end)

  it("makes deep guards stale, and includes what it stores", function()
    local root, valid = { inner = {} }, mw.guard()
    mw.watch(root, never, DEEP)
    mw.watch(root, valid, DEEP)
    local leaf = { below = {} }
    env.rawset(root.inner, "leaf", leaf)
    assert.is_false(valid.valid)
    assert.is_true(mw.is_watched(leaf.below))
    valid:revalidate()
    env.rawset(leaf.below, "x", 1)
    assert.is_false(valid.valid)
    env.rawset(root.inner, "leaf", nil)
    assert.is_false(mw.is_watched(leaf))
  end)

  it("is not told of at the end of a batch", function()
    local obj, valid = {}, mw.guard()
    mw.watch(obj, never, STAY)
    mw.watch(obj, valid, ONCE)
    mw.batch(function()
      env.rawset(obj, "x", 1)
      assert.is_false(valid.valid)
    end)
    assert.equal(1, mw.mutations(obj))
  end)

  it("is what Lua's is to an object that is not watched", function()
    local obj = setmetatable({}, { __newindex = never })
    env.rawset(obj, "x", 1)
    assert.equal(1, rawget(obj, "x"))
    mw.watch(obj, never, STAY)
    mw.unwatch(obj)
    env.rawset(obj, "y", 1)
    assert.equal(1, rawget(obj, "y"))
    assert.equal(1, env.rawget(obj, "y"))
    assert.equal(0, env.rawlen(obj))
    assert.equal(3, env.rawlen "abc")
  end)

  it("is ignored where the policy ignores the field", function()
    local class = {}
    local former = mw.policy({ classes = { [class] = { ignore = { "cache" } } },
    }):use()
    local obj = setmetatable({}, class)
    mw.watch(obj, never, STAY)
    env.rawset(obj, "cache", 1)
    assert.equal(0, mw.mutations(obj))
    assert.equal(1, obj.cache)
    former:use()
  end)

  it("is Lua's in a class's own __newindex", function()
    local class = { __newindex = function(self, key, value)
      env.rawset(self, key, value .. "!")
    end }
    local obj, heard = setmetatable({}, class), {}
    mw.watch(obj, function(_, ...) heard[#heard + 1] = { ... } end, STAY)
    obj.x = "a"
    obj.x = "b"
    assert.equal(2, mw.mutations(obj))
    assert.same({ { "x", nil, "a", "insert" }, { "x", "a!", "b", "update" } },
      heard)
    assert.same({ x = "b" }, raw_of(obj))
  end)

  it("is a write in another object's __newindex", function()
    local other = {}
    mw.watch(other, nothing, STAY)
    local class = { __newindex = function(_, key, value)
      env.rawset(other, key, value)
    end }
    local obj = setmetatable({}, class)
    mw.watch(obj, nothing, STAY)
    obj.x = 1
    assert.equal(1, mw.mutations(other))
    assert.same({ x = 1 }, raw_of(other))
  end)

  it("has Lua's messages", function()
    for _, name in ipairs { "next", "rawget", "rawset" } do
      assert.matches("bad argument #1 to '.-' %(table expected, got nil%)",
        error_of(env[name], nil, 1, 2))
    end
    assert.matches("value expected", error_of(env.rawset, {}, 1))
    assert.matches("value expected", error_of(env.rawget, {}))
    assert.matches("table or string expected", error_of(env.rawlen, 5))
    assert.matches("bad argument #2 to 'setmetatable'",
      error_of(env.setmetatable, {}, 5))
    assert.matches("bad argument #1 to 'setmetatable'",
      error_of(env.setmetatable, 5, {}))
    assert.matches("cannot change a protected metatable",
      error_of(env.setmetatable, setmetatable({}, { __metatable = 1 }), {}))
  end)

  it("gives a copy function the contents and the class", function()
    local chunk = [[
      local copy = {}
      for key, value in next, ... do rawset(copy, key, value) end
      return setmetatable(copy, getmetatable(...))
    ]]
    local copy_of = load(chunk, "copy", "t", env)
    local class = { __newindex = never }
    local obj = mw.track(setmetatable({ x = 1 }, class))
    assert.equal(class, getmetatable(copy_of(obj)))
    assert.equal(1, rawget(copy_of(obj), "x"))
    local plain = copy_of(mw.track { 5 })
    assert.equal(5, plain[1])
    assert.is_true(getmetatable(plain) == nil or
      getmetatable(plain) == no_class)
  end)
end)

local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local no_class = require "spec.support.no_class"
local error_of = require "spec.support.error_of"

local function nothing() end

local STAY = { once = false }

-- A guard that notes its calls, and the notes.
local function noting()
  local notes = {}
  return function(_, key, old, new, kind)
    notes[#notes + 1] = ("%s:%s>%s %s"):format(key, old, new, kind)
  end, notes
end

-- {======================================================
-- Before and after
-- =======================================================

-- Classes, each a function that makes an object.
local classes = {}

function classes.none()
  return { 3, 1, 2, x = 1, y = "two" }
end

local Animal = {}
Animal.__index = Animal
Animal.__name = "Animal"
Animal.__tostring = function(self) return "an animal called " .. self.name end
Animal.__eq = function(a, b) return a.name == b.name end
Animal.__lt = function(a, b) return a.name < b.name end
Animal.__le = function(a, b) return a.name <= b.name end
Animal.__concat = function(a, b)
  return (type(a) == "string" and a or a.name) ..
    (type(b) == "string" and b or b.name)
end
Animal.__call = function(self, ...) return self.name, ... end
Animal.__len = function(self) return #self.name end
Animal.__unm = function(self) return "-" .. self.name end
Animal.__add = function(self, n) return self.name .. "+" .. n end
Animal.__pairs = function(self)
  local done
  return function()
    if not done then
      done = true
      return "name", self.name
    end
  end
end
function Animal.legs() return 4 end
function Animal:rename(name) self.name = name end

function classes.operators()
  return setmetatable({ 3, 1, 2, name = "cat" }, Animal)
end

local Bird = setmetatable({ __index = nil }, { __index = Animal })
Bird.__index = Bird
Bird.__tostring = Animal.__tostring
function Bird.legs() return 2 end
local Owl = setmetatable({}, { __index = Bird })
Owl.__index = Owl
function Owl:hoot() return "hoo " .. self.name end

function classes.three_deep()
  return setmetatable({ 3, 1, 2, name = "owl" }, Owl)
end

local function is_inner(self) return rawequal(self, raw_of(self)) end

function classes.index_function()
  return setmetatable({ 3, 1, 2, base = 10 }, {
    __index = function(self, key)
      if type(key) == "string" and key:find "^computed" then
        return self.base .. key
      end
    end,
  })
end

function classes.newindex_function()
  return setmetatable({ 3, 1, 2, known = 1 }, {
    __newindex = function(self, key, value)
      if key == "forbidden" then error("forbidden", 0) end
      rawset(self, key, value and "set: " .. tostring(value))
    end,
  })
end

function classes.newindex_table()
  local other = {}
  return setmetatable({ 3, 1, 2 }, { __index = other, __newindex = other })
end

function classes.protected()
  return setmetatable({ 3, 1, 2 }, { __metatable = "hidden" })
end

function classes.finaliser()
  return setmetatable({ 3, 1, 2 }, { __gc = nothing, __index = { i = 1 } })
end

function classes.own_metatable()
  local self = { 3, 1, 2, __index = { inherited = "by itself" } }
  return setmetatable(self, self)
end

-- Of class libraries, the third of three classes.
for name, style in pairs(require "spec.support.styles") do
  local base = style.make("Base", nil, function(self, x) self.x = x end)
  function base.legs() return 4 end
  function base:rename(to) self.name = to end
  function base:push(value) self[#self + 1] = value end
  local middle = style.make("Middle", base)
  function middle.legs() return 2 end
  local class = style.make("Class", middle, function(self)
    self[1], self[2], self[3], self.name = 3, 1, 2, "owl"
  end)
  function class:hoot() return "hoo " .. self.name end
  classes[name .. "_style"] = function() return style.construct(class, 5) end
end

function classes.penlight_list()
  return require "pl.List" { 3, 1, 2 }
end

local function sorted(list)
  table.sort(list, function(a, b) return tostring(a) < tostring(b) end)
  return list
end

-- Operations on an object; each returns a value that can be compared.
local deeds = {}

function deeds.read(o)
  return o[1], o.x, o.name, o.computed, o.inherited, o.i
end

function deeds.write(o)
  o.x, o.new = 5, 6
  o.known = "known"
  return o.x, o.new, o.known
end

function deeds.delete(o)
  o[#o], o.x = nil, nil -- a list with a hole has several lengths
  return o[3], o.x, #o
end

function deeds.refuse(o)
  return pcall(function() o.forbidden = 1 end)
end

function deeds.walk(o)
  local list = {}
  for k, v in pairs(o) do
    if type(v) ~= "table" and type(v) ~= "function" and type(k) ~= "table" then
      list[#list + 1] = tostring(k) .. "=" .. tostring(v)
    end
  end
  return table.concat(sorted(list), " ")
end

function deeds.count(o)
  local n = 0
  for i, v in ipairs(o) do
    if type(v) == "number" then n = n + i * v end
  end
  return n, #o, select("#", table.unpack(o))
end

function deeds.edit(o)
  table.insert(o, 9)
  table.insert(o, 1, 7)
  table.remove(o, 2)
  return o[1], o[2], o[3], o[4], o[5]
end

function deeds.sort(o)
  local list = { table.unpack(o, 1, 3) }
  if not (list[1] and list[2] and list[3]) then return "short" end
  table.move(o, 1, 3, 11)
  table.move({ 5, 6 }, 1, 2, 1, o)
  return o[1], o[2], o[3], o[11], table.concat(o, ",", 1, 3)
end

function deeds.metatable(o)
  local meta = getmetatable(o)
  if meta == no_class then meta = nil end
  return meta == nil, type(meta), (pcall(mw.setmetatable, o, meta))
end

function deeds.operators(o)
  return pcall(function()
    return o .. "!", -o, o + 1, o(1, 2), o < o, o <= o, tostring(o)
  end)
end

function deeds.methods(o)
  if not o.rename then return "none" end
  o:rename "dog"
  return o.name, o.legs(), o.hoot and o:hoot()
end

function deeds.push(o)
  if not o.push then return "none" end
  o:push("pushed")
  return o[#o], type(o.class) == "table" and o.class.name
end

function deeds.key(o)
  local t = { [o] = "found" }
  return t[o], rawequal(o, o), o == o
end

function deeds.yield(o)
  local co = coroutine.wrap(function()
    o.co = 1
    coroutine.yield(o.co)
    o.co = 2
    return o.co
  end)
  return co(), co()
end

describe("a class's __newindex", function()
  it("may raise after it has stored something", function()
    local class = { __newindex = function(t, k, v)
      rawset(t, k, v)
      error("no", 0)
    end }
    local obj = setmetatable({}, class)
    local guard, notes = noting()
    mw.watch(obj, guard, STAY)
    assert.equal("no", error_of(function() obj.x = 1 end))
    obj.x = 2
    assert.same({ "x:nil>1 insert", "x:1>2 update" }, notes)
    assert.same({ x = 2 }, raw_of(obj))
  end)
end)

describe("a watched object behaves as before", function()
  for class, make in pairs(classes) do
    for deed, act in pairs(deeds) do
      for _, options in ipairs { STAY, {} } do
        it(("(%s, %s)"):format(class, deed), function()
          local plain, watched = make(), make()
          mw.watch(watched, nothing, options)
          for _ = 1, 2 do
            local expected = table.pack(act(plain))
            local got = table.pack(act(watched))
            for i = 1, math.max(expected.n, got.n) do
              if type(expected[i]) == "string" then -- positions, addresses
                assert.equal(expected[i]:gsub("0x%x+", ""),
                  tostring(got[i]):gsub("0x%x+", ""))
              elseif type(expected[i]) ~= "table" then
                assert.equal(expected[i], got[i])
              end
            end
          end
          mw.unwatch(watched)
          assert.equal(deeds.walk(plain), deeds.walk(watched))
          assert.equal(rawlen(plain), rawlen(watched))
          assert.equal(getmetatable(make()) ~= nil,
            getmetatable(watched) ~= nil)
        end)
      end
    end
  end
end)

describe("a watched object", function()
  it("shows its class, or a table that stands for none", function()
    local object = setmetatable({}, Animal)
    mw.watch(object, nothing)
    assert.equal(Animal, getmetatable(object))
    object = {}
    mw.watch(object, nothing)
    assert.equal(no_class, getmetatable(object))
  end)

  it("is passed itself to its class's functions", function()
    local seen = {}
    local object
    object = setmetatable({}, {
      __index = function(self, key) seen[#seen + 1] = rawequal(self, object)
        return key end,
      __newindex = function(self, key, value)
        seen[#seen + 1] = rawequal(self, object)
        rawset(self, key, value)
      end,
    })
    mw.watch(object, nothing, STAY)
    assert.equal("a", object.a)
    object.b = 1
    assert.equal(1, object.b)
    assert.is_true(#seen >= 3) -- once or twice for the old value
    for _, is_object in ipairs(seen) do assert.is_true(is_object) end
    assert.is_nil(next(object))
    assert.is_false(is_inner(object))
  end)

  it("is closed and collected as before", function()
    local closed, collected
    do
      local object <close> = setmetatable({ n = 1 }, {
        __close = function(self) closed = self.n end,
        __gc = function(self) collected = self.n end,
      })
      mw.watch(object, nothing)
      object.n = 2
    end
    assert.equal(2, closed)
    collectgarbage()
    assert.equal(2, collected)
  end)

  it("may be a class, whose instances go on", function()
    local class = { greeting = "hello" }
    class.__index = class
    local object = setmetatable({}, class)
    local n = 0
    mw.watch(class, function() n = n + 1 end, STAY)
    class.greeting = "good day"
    class.__tostring = function() return "an instance" end
    function class.method() return "called" end
    assert.equal(2, n) -- a metamethod is no contents
    assert.equal("good day", object.greeting)
    assert.equal("called", object.method())
    assert.equal("an instance", tostring(object))
    assert.equal("good day", setmetatable({}, class).greeting)
    mw.unwatch(class)
    assert.equal("an instance", tostring(object))
    assert.equal("good day", rawget(class, "greeting"))
  end)

  it("that its finaliser brings back holds its contents, no more", function()
    local back
    do
      local object = setmetatable({ n = 1 }, { __gc = function(self)
        back = self
      end })
      mw.watch(object, error, STAY)
    end
    collectgarbage()
    mw.reap()
    local other, n = {}, 0
    mw.watch(other, function() n = n + 1 end, STAY)
    back.n, back.m = 2, 3
    assert.same({ n = 2, m = 3 }, { n = back.n, m = back.m })
    assert.equal(0, n)
    assert.is_false(mw.is_watched(back))
    mw.unwatch(back)
    assert.equal(2, rawget(back, "n"))
    mw.watch(back, function() n = n + 1 end)
    back.n = 4
    assert.equal(1, n)
    mw.unwatch(back)
    assert.equal(4, rawget(back, "n"))
  end)
end)

-- }======================================================

describe("mw.unwatch", function()
  it("gives back exactly what was there", function()
    local class = { __index = { inherited = 1 } }
    local function contents(t)
      local list = {}
      local key, value = next(t)
      while key ~= nil do
        list[key] = value
        key, value = next(t, key)
      end
      return list
    end
    for _, meta in ipairs { class, false } do
      local obj = { 1, 2, 3, x = "y", [true] = false, [0.5] = {} }
      local before = contents(obj)
      if meta then setmetatable(obj, meta) end
      local handle = mw.watch(obj, nothing)
      mw.unwatch(obj)
      assert.equal(meta or nil, getmetatable(obj))
      assert.same(before, contents(obj))
      assert.equal(3, rawlen(obj))
      assert.is_false(handle:alive())
      assert.is_false(mw.is_watched(obj))
      obj.z = 1
      assert.equal(1, rawget(obj, "z"))
      mw.unwatch(obj)
    end
  end)

  it("returns whether the object is plain again", function()
    local obj = {}
    assert.is_true(mw.unwatch(obj)) -- as it was
    mw.watch(obj, nothing, STAY)
    assert.is_true(mw.unwatch(obj))
    assert.is_nil(getmetatable(obj))

    mw.track(obj)
    mw.watch(obj, nothing, STAY)
    assert.is_false(mw.unwatch(obj))
    assert.is_false(mw.is_watched(obj))
    assert.is_false(mw.unwatch(obj))
    mw.untrack(obj)
    assert.is_true(mw.unwatch(obj))

    for _, begin in ipairs {
      function(root) mw.track(root, { deep = true }) end,
      function(root) mw.watch(root, nothing, { deep = true }) end,
      function(root) mw.watch(root, mw.guard(), { deep = true }) end,
    } do
      local root, n = { { obj } }, 0
      begin(root)
      mw.watch(obj, function() n = n + 1 end, STAY)
      assert.is_false(mw.unwatch(obj))
      obj.x = 1
      assert.equal(0, n)
      root[1][1] = nil
      assert.is_true(mw.unwatch(obj))
      assert.is_nil(getmetatable(obj))
      mw.untrack(root)
      assert.is_true(mw.unwatch(root))
    end
  end)

  it("may be followed by another watch", function()
    local obj, n = {}, 0
    for _ = 1, 3 do
      mw.watch(obj, function() n = n + 1 end)
      obj.a = 1
      mw.unwatch(obj)
      obj.a = 2
    end
    assert.equal(3, n)
    assert.equal(3, mw.mutations(obj))
  end)
end)

describe("what goes around the trap", function()
  it("is found by mw.sync and reported as raw", function()
    local obj = { a = 1 }
    local guard, notes = noting()
    mw.watch(obj, guard, STAY)
    assert.is_false(mw.sync(obj))
    rawset(obj, "a", 2)
    rawset(obj, "b", 3)
    assert.is_true(mw.sync(obj))
    assert.is_false(mw.sync(obj))
    table.sort(notes)
    assert.same({ "a:1>2 raw", "b:nil>3 raw" }, notes)
    assert.is_nil(rawget(obj, "a"))
    assert.same({ a = 2, b = 3 }, raw_of(obj))
    assert.equal(2, mw.mutations(obj))
  end)

  it("is reported by mw.touch", function()
    local obj = { a = 1 }
    local guard, notes = noting()
    mw.watch(obj, guard, STAY)
    raw_of(obj).a = 2
    mw.touch(obj, "a")
    mw.touch(obj)
    assert.same({ "a:2>2 touch", "nil:nil>nil touch" }, notes)
    assert.equal(2, mw.mutations(obj))
  end)

  it("is nothing for an object that is not watched", function()
    local obj = { 1 }
    assert.equal(obj, raw_of(obj))
    assert.is_false(mw.sync(obj))
    mw.touch(obj, 1)
    assert.equal(5, raw_of(5))
  end)
end)

describe("nothing is lost", function()
  it("when a class's __newindex unwatches", function()
    local object = setmetatable({ a = 1 }, { __newindex = function(o, k, v)
      mw.unwatch(o)
      rawset(o, k, v)
    end })
    mw.watch(object, nothing)
    object.z = 5
    assert.same({ 1, 5 }, { rawget(object, "a"), rawget(object, "z") })
  end)

  it("when a guard unwatches, or syncs, while mw.sync reports", function()
    local object = {}
    mw.watch(object, mw.unwatch)
    rawset(object, "a", 1)
    assert.is_true(mw.sync(object))
    assert.equal(1, rawget(object, "a"))
    mw.watch(object, mw.sync, STAY)
    rawset(object, "b", 2)
    assert.is_true(mw.sync(object))
    assert.equal(2, object.b)
  end)

  it("and nothing hangs, for a metafield that is NaN", function()
    local object = { __nan = 0 / 0 }
    mw.watch(object, nothing)
    assert.is_false(mw.sync(object))
  end)
end)

describe("mw.setmetatable", function()
  it("changes the class of a watched object, and says so", function()
    local a, b = { __index = { x = "a" } }, { __index = { x = "b" } }
    local obj, seen = setmetatable({ y = 1 }, a), {}
    mw.watch(obj, function(_, ...) seen[#seen + 1] = { ... } end, STAY)
    assert.equal(obj, mw.setmetatable(obj, b))
    assert.equal("b", obj.x)
    assert.equal(b, getmetatable(obj))
    mw.setmetatable(obj, nil)
    assert.is_nil(obj.x)
    assert.equal(no_class, getmetatable(obj))
    assert.same({ { nil, a, b, "metatable" }, { nil, b, nil, "metatable" } },
      seen)
    assert.equal(2, mw.mutations(obj))
    obj.y = 2
    assert.equal(3, #seen)
  end)

  it("brings what the class got after the object was watched", function()
    local class = {}
    local obj = setmetatable({ n = 1 }, class)
    mw.watch(obj, nothing, STAY)
    class.__tostring = function(self) return "n is " .. self.n end
    class.__index = function(self, key) return rawequal(self, obj) and key end
    mw.setmetatable(obj, class)
    assert.equal("n is 1", tostring(obj))
    assert.equal("missing", obj.missing)
  end)

  it("is the plain one for others", function()
    local class = {}
    local obj = mw.setmetatable({}, class)
    assert.equal(class, getmetatable(obj))
    assert.is_nil(getmetatable(mw.setmetatable(obj, nil)))
  end)

  it("does not change a protected metatable", function()
    local obj = setmetatable({}, { __metatable = "hidden" })
    assert.matches("cannot change a protected metatable",
      error_of(mw.setmetatable, obj, {}))
    mw.watch(obj, nothing)
    assert.matches("cannot change a protected metatable",
      error_of(mw.setmetatable, obj, {}))
    assert.equal("hidden", getmetatable(obj))
  end)
end)


describe("the room of a watched table", function()
  local MANY = 10000

  -- How containers are filled.
  local fill = {
    array = function(t) for i = 1, MANY do t[i] = i end end,
    array_backwards = function(t) for i = MANY, 1, -1 do t[i] = i end end,
    array_from_0 = function(t) for i = 0, MANY do t[i] = i end end,
    holes = function(t)
      for i = 1, MANY do t[i] = i end
      for i = 1, MANY, 3 do t[i] = nil end
    end,
    strings = function(t) for i = 1, MANY do t["field " .. i] = i end end,
    long_strings = function(t)
      for i = 1, MANY do t[("x"):rep(50) .. i] = i end
    end,
    negative = function(t) for i = 1, MANY do t[-i] = i end end,
    large = function(t) for i = 1, MANY do t[i + (1 << 40)] = i end end,
    sparse = function(t) for i = 1, MANY do t[i << 12] = i end end,
    floats = function(t) for i = 1, MANY do t[i + 0.5] = i end end,
    objects = function(t) for i = 1, MANY do t[{}] = i end end,
    mixed = function(t)
      for i = 1, MANY // 2 do t[i], t["field " .. i] = i, i end
    end,
    a_power_of_2 = function(t) for i = 1, 1 << 14 do t["field " .. i] = i end
    end,
    more_by_1 = function(t) for i = 0, 1 << 14 do t[-1 - i] = i end end,
  }

  local function keep(t, key, value) rawset(t, key, value) end

  local function kilobytes()
    collectgarbage()
    collectgarbage()
    return collectgarbage "count"
  end

  local ways = {
    watched = function(t) mw.watch(t, nothing, STAY) end,
    tracked = function(t) mw.track(t) end,
    below = function(t)
      local root = mw.track({}, { deep = true })
      root.t = t
      return root
    end,
  }

  for name, f in pairs(fill) do
    it("is not taken twice (" .. name .. ")", function()
      for way, begin in pairs(ways) do
        for _, class in ipairs { false, {}, { __newindex = keep } } do
          local start = kilobytes()
          local t = {}
          f(t)
          setmetatable(t, class or nil)
          local before = kilobytes() - start
          local root = begin(t)
          local during = kilobytes() - start
          assert.is_true(during < 1.2 * before + 10, way)
          if root then root.t = nil end
          mw.untrack(t)
          mw.unwatch(t)
          assert.equal(class or nil, getmetatable(t))
        end
      end
    end)

    it("is no matter for what a class keeps (" .. name .. ")", function()
      local class = { __newindex = keep }
      for way, begin in pairs(ways) do
        local t = {}
        f(t)
        local root = begin(setmetatable(t, class))
        for i = 1, MANY do t["new " .. i] = i end
        for i = 1, MANY do
          if t["new " .. i] ~= i then error(way .. ", " .. i) end
        end
        assert.is_nil(next(t))
        if root then root.t = nil end
        mw.untrack(t)
        mw.unwatch(t)
        assert.equal(MANY, rawget(t, "new " .. MANY))
      end
    end)

    it("is walked through once by mw.sync (" .. name .. ")", function()
      local t, told, plain, count = {}, 0, {}, 0
      f(plain)
      mw.watch(t, function(_, key, old, _, kind)
        if kind ~= "raw" then return end
        told = told + (old == nil and plain[key] and 1 or 1000000)
        if told == 2 then t.written = key end
      end, STAY)
      for key, value in pairs(plain) do
        rawset(t, key, value)
        count = count + 1
      end
      assert.is_true(mw.sync(t))
      assert.equal(count, told)
      assert.is_nil(next(t))
      assert.is_false(mw.sync(t))
      for key, value in pairs(plain) do
        if t[key] ~= value then error(tostring(key)) end
      end
    end)
  end
end)

describe("a walk by pairs goes on", function()
  local function keep(t, k, v) rawset(t, k, v) end

  -- What is done to the object at the third field.
  local events = {
    nothing = nothing,
    watched = function(t)
      mw.watch(t, nothing, { deep = true, once = false })
    end,
    tracked = function(t) mw.track(t, { deep = true }) end,
    unwatched = function(t)
      mw.untrack(t)
      mw.unwatch(t)
    end,
    given_a_class = function(t) mw.setmetatable(t, { __index = {} }) end,
    given_a_newindex = function(t)
      mw.setmetatable(t, { __newindex = keep })
    end,
    given_no_class = function(t) mw.setmetatable(t, nil) end,
    written = function(t) for k in pairs(t) do t[k] = 0 end end,
    put_below_a_root = function(t) mw.track({ t }, { deep = true }) end,
    stored_below_a_root = function(t)
      local root = mw.track({}, { deep = true })
      root.t = t
    end,
    led_to_below_a_root = function(t)
      local root = {}
      mw.watch(root, nothing, { deep = true, once = false })
      root.leads = { to = { t } }
    end,
    stored_again = function(t)
      local root = mw.track({}, { deep = true })
      root.t = t
      root.t = nil
      mw.reap()
      collectgarbage()
      root.u = t
      root.t = t
    end,
    recorded = function(t)
      mw.track(t, { deep = true })
      mw.transaction(function()
        for k in pairs(t) do t[k] = nil end
        error "taken back"
      end)
    end,
  }

  -- Those after which only some fields are left to be seen.
  local cuts = {
    emptied = function(t) for k in pairs(t) do t[k] = nil end end,
    emptied_and_unwatched = function(t)
      for k in pairs(t) do t[k] = nil end
      mw.unwatch(t)
    end,
    emptied_and_given_a_class = function(t)
      for k in pairs(t) do t[k] = nil end
      mw.setmetatable(t, {})
    end,
    emptied_and_stored = function(t)
      local root = mw.track({ t = t }, { deep = true })
      for k in pairs(t) do t[k] = nil end
      root.t = nil
      mw.reap()
      root.t = t
    end,
  }

  local before = {
    watched = function(t) mw.watch(t, nothing, STAY) end,
    tracked = function(t) mw.track(t) end,
    of_a_class = function(t)
      mw.watch(setmetatable(t, { __index = {} }), nothing, STAY)
    end,
  }

  local function new(more)
    local t = { 1, 2, 3, 4, a = 1, b = 2, c = 3, [0.5] = 4, [true] = 5 }
    for i = 1, more do t["key " .. i] = i end
    t.gone = 1
    t.gone = nil
    return t, 9 + more
  end

  local function walk(t, event)
    local seen, n = {}, 0
    for k, v in pairs(t) do
      n = n + 1
      if seen[k] then error("twice: " .. tostring(k)) end
      seen[k] = v
      if n == 3 then event(t) end
    end
    return n
  end

  for start, begin in pairs(before) do
    for name, event in pairs(events) do
      it(("(%s, %s)"):format(start, name:gsub("_", " ")), function()
        for _, more in ipairs { 0, 50 } do
          local t, n = new(more)
          begin(t)
          assert.equal(n, walk(t, event))
          mw.untrack(t)
          mw.unwatch(t)
        end
      end)
    end
    for name, event in pairs(cuts) do
      it(("to its end (%s, %s)"):format(start, name:gsub("_", " ")), function()
        for _, more in ipairs { 0, 50 } do
          local t = new(more)
          begin(t)
          assert.equal(3, walk(t, event))
          assert.is_nil(next(raw_of(t)))
        end
      end)
    end
  end
end)

describe("an emptied table", function()
  it("gives its memory back", function()
    local function kilobytes()
      collectgarbage()
      return collectgarbage "count"
    end
    for _, way in ipairs { "array", "fields" } do
      mw.watch({}, nothing)
      local start = kilobytes()
      local t = {}
      for i = 1, 1 << 14 do t[way == "array" and i or "key " .. i] = i end
      local plain = kilobytes() - start
      mw.watch(t, nothing, STAY)
      assert.is_true(kilobytes() - start < 1.2 * plain)
      local n = 0
      for _ in pairs(t) do n = n + 1 end
      assert.equal(1 << 14, n)
    end
  end)
end)

-- Finalisers run while memory is taken, also between the steps of a watch.
describe("what a finaliser does to an object while its watch begins", function()
  -- Watches an object, while finalisers call change(object).
  local function watch_amid(object, change)
    local begun = false
    for _ = 1, 3 do
      setmetatable({}, { __gc = function()
        if begun then change(object) end
      end })
    end
    begun = true
    mw.watch(object, nothing, STAY)
    begun = false
  end

  local function contents(object)
    local list = {}
    for k, v in pairs(object) do list[#list + 1] = k .. "=" .. v end
    table.sort(list)
    return table.concat(list, " ")
  end

  local function add(object)
    for _, k in ipairs { "s", "t", "u", "v", "w" } do object[k] = 5 end
  end

  local function remove(object) object.b = nil end

  -- The object is as it is said to be without finalisers, or with all of them.
  local function expect(change, without, with)
    for _ = 1, 300 do
      local object = { a = 1, b = 2, c = 3 }
      watch_amid(object, change)
      local found = contents(object)
      assert.is_true(found == without or found == with, found)
      object.a = 1
      assert.equal(found, contents(raw_of(object)))
      assert.is_nil(next(object))
    end
  end

  it("is kept: fields that are added", function()
    expect(add, "a=1 b=2 c=3", "a=1 b=2 c=3 s=5 t=5 u=5 v=5 w=5")
  end)

  it("is kept: fields that are removed", function()
    expect(remove, "a=1 b=2 c=3", "a=1 c=3")
  end)
end)

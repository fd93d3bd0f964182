local mw = require "moonwatch"
local contents = require "spec.support.contents"
local error_of = require "spec.support.error_of"
local styles = require "spec.support.styles"

local clock = mw.clock()

describe("a constructor that makes no instance", function()
  local function tags(make, ...)
    local handle = mw.instrument({ new = make, __index = {} })
    handle:cancel()
    local class = { make = make }
    handle = mw.instrument(class, { constructors = { "make" } })
    local options = ...
    class.make(...)
    handle:cancel()
    return clock:generation(options) == clock:now()
  end

  it("tags nothing", function()
    assert.is_false(tags(function() return nil, "no file" end, {}))
    assert.is_false(tags(function() return nil end, {}))
    assert.is_false(tags(function() return false, "no file" end, {}))
  end)

  it("tags its argument if it returns nothing, or no object", function()
    assert.is_true(tags(function() end, {}))
    assert.is_true(tags(function() return true end, {}))
  end)

  it("tags nothing if it gets the instance", function()
    local class = {}
    function class.init(self, x)
      if not x then return nil, "no x" end
      self.x = x
      return self
    end
    local handle <close> = mw.instrument(class)
    local bad, good = {}, {}
    class.init(bad)
    class.init(good, 1)
    assert.is_true(handle and clock:is_current(good))
    assert.equal(-1, clock:generation(bad))
  end)
end)

describe("mw.instrument of a metatable with metamethods only", function()
  it("tags what its constructor makes", function()
    local methods = {}
    local mt = { __name = "File", __index = methods }
    function methods.new() return setmetatable({}, mt) end
    local plain = methods.new
    for _, class in ipairs { mt, methods } do
      local handle = mw.instrument(class)
      assert.is_true(clock:is_current(methods.new()))
      handle:cancel()
      assert.equal(plain, methods.new)
    end
  end)
end)

for name, style in pairs(styles) do
  describe("mw.instrument of a class in the style " .. name, function()
    local Base, Sub, handles

    local function instrument(...)
      local handle = mw.instrument(...)
      handles[#handles + 1] = handle
      return handle
    end

    before_each(function()
      handles = {}
      Base = style.make("Base", nil, function(self, x) self.x = x end)
      Sub = style.make("Sub", Base, function(self, _, y)
        self.y = y
        if y == "fail" then error("failed", 0) end
      end)
    end)

    after_each(function()
      for _, handle in ipairs(handles) do handle:cancel() end
    end)

    it("tags instances from then on", function()
      local old = style.construct(Base, 1)
      local g = clock:now()
      instrument(Base)
      assert.equal(g + 1, clock:now())
      local new = style.construct(Base, 2)
      assert.equal(2, new.x)
      assert.equal(-1, clock:generation(old))
      assert.equal(g + 1, clock:generation(new))
    end)

    it("tags instances of subclasses, with and without constructor", function()
      instrument(Base)
      assert.is_true(clock:is_current(style.construct(Sub, 1, 2)))
      local Plain = style.make("Plain", Base)
      assert.is_true(clock:is_current(style.construct(Plain, 1)))
    end)

    it("tags instances of a class that inherits its constructor", function()
      local Plain = style.make("Plain", Base)
      local handle = instrument(Plain)
      assert.is_true(clock:is_current(style.construct(Plain, 1)))
      assert.is_false(clock:is_current(style.construct(Base, 1)))
      handle:cancel()
      assert.is_false(clock:is_current(style.construct(Plain, 1)))
    end)

    for order, pair in pairs { ["base first"] = { 1, 2 },
      ["subclass first"] = { 2, 1 } } do
      it("tags once, " .. order, function()
        local classes = { Base, Sub }
        instrument(classes[pair[1]])
        instrument(classes[pair[2]])
        local start
        local Late = style.make("Late", Sub, function() clock:advance() end)
        start = clock:now()
        local obj = style.construct(Late, 1, 2)
        assert.equal(start, clock:generation(obj))
      end)
    end

    it("gives the class back exactly, whatever the order", function()
      local before = { contents.of(Base), contents.of(Sub) }
      local a, b, c = mw.instrument(Base), mw.instrument(Sub),
        mw.instrument(Base)
      style.construct(Sub, 1)
      a:cancel()
      assert.is_true(clock:is_current(style.construct(Base, 1)))
      b:cancel()
      c:cancel()
      c:cancel()
      contents.assert_unchanged(before[1], Base)
      contents.assert_unchanged(before[2], Sub)
      assert.is_false(clock:is_current(style.construct(Sub, 1)))
    end)

    it("tags nothing when the constructor raises", function()
      local objects = {}
      local Failing = style.make("Failing", nil, function(self)
        objects[#objects + 1] = self
        error("failed", 0)
      end)
      instrument(Failing)
      assert.equal("failed", error_of(style.construct, Failing))
      assert.is_false(clock:is_current(objects[1]))
      assert.equal("failed", error_of(style.construct, Sub, 1, "fail"))
    end)

    it("lets constructors yield", function()
      local Slow = style.make("Slow", nil, function(self, x)
        self.x = coroutine.yield(x)
      end)
      instrument(Slow)
      local co = coroutine.wrap(function() return style.construct(Slow, 1) end)
      assert.equal(1, co())
      local between = style.construct(Base, 1)
      local obj = co(2)
      assert.equal(2, obj.x)
      assert.is_true(clock:is_current(obj))
      assert.is_false(clock:is_current(between))
    end)

    it("tags what constructors construct besides", function()
      local inner
      local Outer = style.make("Outer", nil, function()
        inner = style.construct(Base, 1)
      end)
      instrument(Base)
      instrument(Outer)
      local outer = style.construct(Outer)
      assert.is_true(clock:is_current(inner))
      assert.is_true(clock:is_current(outer))
    end)
  end)
end

describe("mw.instrument", function()
  local handle

  after_each(function()
    if handle then handle:cancel() end
  end)

  local function Point()
    local class = {}
    class.__index = class
    local function make(x) return setmetatable({ x = x }, class) end
    function class.new(x, ...) return make(x), ... end
    function class.from_data(data) return make(data.x) end
    function class:__setstate(data) self.x = data.x end
    return class
  end

  it("tags what is restored with the generation of now", function()
    local class = Point()
    local g = clock:now()
    local m1 = clock:tag(class.new(1))
    handle = mw.instrument(class)
    local m2 = class.new(2)
    local copy = class.from_data(m1)
    local bare = setmetatable({}, class)
    class.__setstate(bare, m1)
    assert.equal(g, clock:generation(m1))
    assert.equal(g + 1, clock:generation(m2))
    assert.equal(g + 1, clock:generation(copy))
    assert.equal(g + 1, clock:generation(bare))
  end)

  it("patches at the first call, and advances at each", function()
    local class = Point()
    local plain = class.new
    handle = mw.instrument(class)
    local patched = class.new
    assert.not_equal(plain, patched)
    local g = clock:now()
    local other = mw.instrument(class)
    assert.equal(patched, class.new)
    assert.equal(g + 1, clock:now())
    other:cancel()
    assert.equal(patched, class.new)
    handle:cancel()
    assert.equal(plain, class.new)
  end)

  it("leaves alone what it did not change", function()
    local class = { Button = {}, defaults = { new = 1 } }
    class.__index = class
    function class.new() return setmetatable({}, class) end
    local button = mw.instrument(class)
    local function make() end
    class.Button.new, class.defaults.new = make, 2
    button:cancel()
    assert.equal(make, class.Button.new)
    assert.equal(2, class.defaults.new)
  end)

  it("leaves other patches alone, whoever is cancelled first", function()
    local Base = Point()
    local plain = Base.new
    local Sub = setmetatable({ super = Base }, { __index = Base })
    Sub.__index = Sub
    for _, first in ipairs { 1, 2 } do
      local handles = { mw.instrument(Sub), mw.instrument(Base) }
      handles[first]:cancel()
      assert.equal(first == 1, clock:is_current(Base.new()))
      handles[3 - first]:cancel()
      assert.equal(plain, Base.new)
      assert.is_nil(rawget(Sub, "new"))
    end
  end)

  it("gives all back when it fails", function()
    local class = Point()
    local plain = class.new
    setmetatable(class, { __index = { init = function() end },
      __newindex = function() error("frozen", 0) end })
    assert.equal("frozen", error_of(mw.instrument, class))
    assert.equal(plain, class.new)
  end)

  it("passes all values through", function()
    local class = Point()
    handle = mw.instrument(class)
    local results = table.pack(class.new(1, nil, "b", nil))
    assert.same({ 4, nil, "b", nil }, { results.n, results[2], results[3] })
    assert.is_true(clock:is_current(results[1]))
    local nothing = { new = function() end }
    local other <close> = mw.instrument(nothing)
    assert.is_not_nil(other)
    assert.equal(0, select("#", nothing.new()))
  end)

  it("knows constructors that are called", function()
    local class = setmetatable({}, {
      __call = function(class, x) return setmetatable({ x = x }, class) end,
    })
    local plain = getmetatable(class).__call
    handle = mw.instrument(class)
    assert.is_true(clock:is_current(class(1)))
    handle:cancel()
    assert.equal(plain, getmetatable(class).__call)
  end)

  it("knows the constructors it is told, names and functions", function()
    local class, clock2 = Point(), mw.clock "instrument_spec"
    class.make = class.new
    handle = mw.instrument(class, { constructors = { class.make, "build" },
      restorers = {}, clock = clock2 })
    assert.equal(1, clock2:now())
    local a, b = class.make(1), class.from_data { x = 1 }
    assert.is_true(clock2:is_current(a))
    assert.is_false(clock:is_current(a))
    assert.equal(-1, clock2:generation(b))
  end)

  it("knows the constructors that the policy names", function()
    local class = Point()
    class.spawn = function() return setmetatable({}, class) end
    local former = mw.policy({
      classes = { [class] = { constructors = { "spawn" } } },
    }):use()
    handle = mw.instrument(class)
    former:use()
    assert.is_true(clock:is_current(class.spawn()))
    assert.is_false(clock:is_current(class.new()))
  end)

  it("tags for each clock", function()
    local class, clock2 = Point(), mw.clock "instrument_spec 2"
    handle = mw.instrument(class)
    local other <close> = mw.instrument(class, { clock = clock2 })
    assert.is_not_nil(other)
    local obj = class.new()
    assert.is_true(clock:is_current(obj))
    assert.is_true(clock2:is_current(obj))
  end)

  it("stays when the clock is reset", function()
    local class = Point()
    local clock2 = mw.clock "instrument_spec 3"
    handle = mw.instrument(class, { clock = clock2 })
    clock2:reset()
    assert.equal(0, clock2:generation(class.new()))
  end)

  it("leaves alone what others have put there since", function()
    local class = Point()
    handle = mw.instrument(class)
    local function mine() return "mine" end
    class.new = mine
    handle:cancel()
    assert.equal(mine, class.new)
  end)

  it("raises at the line of the caller", function()
    for message, arguments in pairs {
      ["bad argument #1 to 'instrument' (table expected, got nil)"] = {},
      ["bad argument #2 to 'instrument' (table expected, got number)"] =
        { {}, 5 },
      ["bad argument #2 to 'instrument' (unknown rule 'clok')"] =
        { {}, { clok = 1 } },
      ["bad argument #2 to 'instrument' (rule 'clock' is not a clock)"] =
        { {}, { clock = {} } },
      ["bad argument #2 to 'instrument' (rule 'restorers' is not a table)"] =
        { {}, { restorers = 1 } },
    } do
      local text = error_of(function()
        mw.instrument(arguments[1], arguments[2])
      end)
      assert.matches("^spec/instrument_spec.lua:%d+: ", text)
      assert.truthy(text:find(message, 1, true), text)
    end
  end)
end)

describe("a constructor that makes no instance", function()
  it("tags nothing", function()
    for _, results in ipairs { { n = 1 }, { nil, "no file", n = 2 } } do
      local Level = {}
      Level.__index = Level
      function Level.new(options)
        if not options.file then return table.unpack(results, 1, results.n) end
        return setmetatable(options, Level)
      end
      function Level.from_data(data) return Level.new(data) end
      local handle = mw.instrument(Level)
      local options = {}
      assert.same(results, table.pack(Level.new(options)))
      assert.same(results, table.pack(Level.from_data(options)))
      assert.equal(-1, clock:generation(options))
      options.file = "a"
      assert.is_true(clock:is_current(Level.new(options)))
      handle:cancel()
    end
  end)

  it("may fill what it is given, and return nothing", function()
    local Level = {}
    function Level.new(self) self.x = 1 end
    local handle = mw.instrument(Level)
    local level = {}
    Level.new(level)
    assert.is_true(mw.clock():is_current(level))
    handle:cancel()
  end)
end)

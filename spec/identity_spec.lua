local mw = require "moonwatch"
local addresses = require "spec.support.addresses"
local error_of = require "spec.support.error_of"

local OBJECT = "(table, userdata, function or thread expected, got "

describe("mw.id", function()
  it("gives each kind of object a serial, the same each time", function()
    local seen = {}
    for _, object in ipairs { {}, io.stdout, function() end, print,
      coroutine.create(print) } do
      local id = mw.id(object)
      assert.equal("integer", math.type(id))
      assert.is_true(id >= 1)
      assert.equal(id, mw.id(object))
      assert.is_nil(seen[id])
      seen[id] = true
    end
  end)

  it("counts up", function()
    local first = mw.id {}
    assert.equal(first + 1, mw.id {})
    assert.equal(first + 2, mw.id(function() end))
  end)

  it("goes by the object, not by __eq", function()
    local meta = { __eq = function() return true end }
    local a, b = setmetatable({}, meta), setmetatable({}, meta)
    assert.is_true(a == b)
    assert.are_not.equal(mw.id(a), mw.id(b))
  end)

  it("runs no metamethod and leaves no trace in the object", function()
    local function boom() error "a metamethod was called" end
    local object = setmetatable({}, { __index = boom, __newindex = boom,
      __eq = boom, __len = boom, __pairs = boom, __tostring = boom })
    mw.id(object)
    assert.is_nil(next(object))
  end)

  it("raises for what is not an object, at the caller's line", function()
    for _, value in ipairs { 1, 1.5, "a", true } do
      assert.equal("bad argument #1 to 'id' " .. OBJECT ..
        (math.type(value) == "float" and "float" or type(value)) .. ")",
        error_of(mw.id, value))
    end
    assert.equal("bad argument #1 to 'id' " .. OBJECT .. "nil)",
      error_of(mw.id, nil))
    assert.equal("bad argument #1 to 'id' " .. OBJECT .. "no value)",
      error_of(mw.id))
    assert.matches("identity_spec.lua:%d+: bad argument",
      error_of(function() mw.id(1) end))
  end)

  it("never gives a serial again, even if the address comes back", function()
    local ids = {}
    addresses(function(object)
      local id = mw.id(object)
      if ids[id] then error("serial " .. id .. " came back") end
      ids[id] = true
    end)
  end)

  it("keeps no object alive", function()
    local weak = setmetatable({}, { __mode = "k" })
    for _ = 1, 100 do
      local object = {}
      weak[object] = mw.id(object)
    end
    collectgarbage()
    assert.is_nil(next(weak))
  end)
end)

describe("mw.object", function()
  it("finds the object of a serial while it lives", function()
    local object = {}
    local id = mw.id(object)
    assert.equal(object, mw.object(id))
    assert.equal(object, mw.object(id + 0.0))
    assert.equal(print, mw.object(mw.id(print)))
    object = nil -- luacheck: ignore 311
    collectgarbage()
    assert.is_nil(mw.object(id))
  end)

  it("finds nothing for anything else", function()
    for _, value in ipairs { 0, -1, math.maxinteger, math.mininteger, 1.5,
      0 / 0, 1 / 0, "1", true, {}, print } do
      assert.is_nil(mw.object(value))
    end
    assert.is_nil(mw.object(nil))
    assert.is_nil(mw.object())
  end)

  it("does not find an object that its finaliser brought back", function()
    local back, id, in_finaliser
    do
      local object = setmetatable({}, { __gc = function(self)
        in_finaliser = mw.object(id) == nil
        back = self
      end })
      id = mw.id(object)
    end
    collectgarbage()
    assert.is_true(in_finaliser)
    assert.is_nil(mw.object(id))
    assert.are_not.equal(id, mw.id(back))
    assert.equal(back, mw.object(mw.id(back)))
  end)
end)

describe("mw.reap", function()
  local function die(n)
    for _ = 1, n do mw.id {} end
  end

  before_each(function()
    collectgarbage()
    mw.reap()
  end)

  it("deals with all deaths, and then there are none", function()
    collectgarbage "stop"
    die(50)
    collectgarbage "restart"
    collectgarbage()
    assert.equal(50, mw.reap())
    assert.equal(0, mw.reap())
  end)

  it("deals with no more than the budget", function()
    collectgarbage "stop"
    die(50)
    collectgarbage "restart"
    collectgarbage()
    assert.equal(0, mw.reap(0))
    local total = 0
    repeat
      local n = mw.reap(7)
      assert.is_true(n > 0 and n <= 7)
      total = total + n
    until total == 50
  end)

  it("finds a death behind any number of the living", function()
    local living = {}
    for i = 1, 30000 do living[i] = {} mw.id(living[i]) end
    for _, budget in ipairs { 1, 7, 1000 } do
      for _ = 1, 2 do
        collectgarbage "stop"
        die(2)
        collectgarbage "restart"
        collectgarbage()
        local first = mw.reap(budget)
        assert.is_true(first >= 1 and first <= budget)
        while first < 2 do
          local n = mw.reap(budget)
          assert.is_true(n >= 1)
          first = first + n
        end
        assert.equal(0, mw.reap(budget))
      end
    end
    assert.equal(30000, #living)
  end)

  it("looks on for the dead keys of a map, too", function()
    local told, living = 0, {}
    local map = mw.weakmap(function() told = told + 1 end)
    for i = 1, 20000 do living[i] = {} map:set(living[i], i) end
    collectgarbage "stop"
    for i = 1, 5 do map:set({}, i) end
    collectgarbage "restart"
    collectgarbage()
    local calls = 0
    while mw.reap(1) > 0 do calls = calls + 1 end
    assert.equal(5, told)
    assert.is_true(calls >= 5)
    assert.equal(20000, #living)
  end)

  it("goes on after a collection in the depth of the C stack", function()
    local function deep(n)
      if n == 0 then
        collectgarbage()
      else
        string.gsub("x", "x", function() deep(n - 1) end)
      end
    end
    for depth = 150, 200 do pcall(deep, depth) end
    collectgarbage "stop"
    die(10)
    collectgarbage "restart"
    collectgarbage()
    assert.is_true(mw.reap() >= 10)
  end)

  it("bears a finaliser that makes the object known meanwhile", function()
    local clock, object = mw.clock "finaliser", {}
    clock:advance()
    collectgarbage "stop"
    setmetatable({}, { __gc = function()
      clock:tag(object)
      clock:advance()
    end })
    collectgarbage "restart"
    collectgarbage()
    mw.id(object)
    assert.equal(1, clock:generation(object))
  end)

  it("happens by itself as the library is used", function()
    local kept = {}
    for i = 1, 1000 do kept[i] = mw.id {} end
    collectgarbage()
    for _ = 1, 100000 do mw.is_watched(mw) end
    assert.equal(0, mw.reap())
    assert.is_nil(mw.object(kept[1]))
  end)

  it("raises for a budget that is none", function()
    assert.equal("bad argument #1 to 'reap' (integer expected, got string)",
      error_of(mw.reap, "5"))
    assert.equal("bad argument #1 to 'reap' (integer expected, got float)",
      error_of(mw.reap, 1.5))
    assert.equal("bad argument #1 to 'reap' (must not be negative)",
      error_of(mw.reap, -1))
  end)
end)

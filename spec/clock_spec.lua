local mw = require "moonwatch"
local addresses = require "spec.support.addresses"
local error_of = require "spec.support.error_of"

describe("mw.clock", function()
  it("gives the same clock for the same name", function()
    assert.equal(mw.clock(), mw.clock())
    assert.equal(mw.clock "a", mw.clock "a")
    assert.are_not.equal(mw.clock "a", mw.clock "b")
    assert.are_not.equal(mw.clock(), mw.clock "")
    assert.are_not.equal(mw.clock "a\0b", mw.clock "a")
    assert.equal(mw.clock(), mw.clock(nil))
  end)

  it("starts at 0 and counts up by one", function()
    local clock = mw.clock "counting"
    assert.equal(0, clock:now())
    assert.equal(1, clock:advance())
    assert.equal(2, clock:advance())
    assert.equal(2, clock:now())
  end)

  it("keeps the generations of clocks apart", function()
    local a, b, object = mw.clock "apart a", mw.clock "apart b", {}
    a:advance()
    a:tag(object)
    assert.equal(0, b:now())
    assert.equal(-1, b:generation(object))
  end)
end)

describe("a clock", function()
  local clock

  before_each(function()
    clock = mw.clock "tests"
    clock:reset()
  end)

  it("says -1 of the untagged, who are never current", function()
    local object = {}
    assert.equal(-1, clock:generation(object))
    assert.is_false(clock:is_current(object))
  end)

  it("stores the current generation, 0 like any other", function()
    local object = {}
    assert.equal(object, clock:tag(object))
    assert.equal(0, clock:generation(object))
    assert.is_true(clock:is_current(object))
  end)

  it("makes older tags not current by advancing", function()
    local object = clock:tag {}
    clock:advance()
    assert.equal(0, clock:generation(object))
    assert.is_false(clock:is_current(object))
  end)

  it("overwrites when it tags again", function()
    local object = clock:tag {}
    clock:advance()
    clock:advance()
    assert.equal(object, clock:tag(object))
    assert.equal(2, clock:generation(object))
    assert.is_true(clock:is_current(object))
  end)

  it("tags any object, and returns just that", function()
    for _, object in ipairs { {}, print, io.stdout, coroutine.create(print) } do
      assert.equal(1, select("#", clock:tag(object, "more")))
      assert.equal(object, clock:tag(object))
    end
  end)

  it("resets generation and tags, and goes on", function()
    local object = clock:tag {}
    clock:advance()
    clock:reset()
    assert.equal(0, clock:now())
    assert.equal(-1, clock:generation(object))
    assert.is_false(clock:is_current(object))
    clock:tag(object)
    assert.equal(0, clock:generation(object))
  end)

  it("keeps no object alive", function()
    local weak = setmetatable({}, { __mode = "k" })
    for _ = 1, 100 do weak[clock:tag {}] = true end
    collectgarbage()
    assert.is_nil(next(weak))
  end)

  it("does not tag what gets the address of a tagged object", function()
    addresses(function(object)
      if clock:generation(object) ~= -1 then error "an old tag was found" end
      clock:tag(object)
    end)
  end)

  -- At the call of a metamethod Lua marks all registers of the caller, also
  -- those in which a function in C has left something.
  it("finds each collection, also one in a metamethod", function()
    local collecting = setmetatable({}, { __add = function()
      collectgarbage()
      collectgarbage()
      return 0
    end })
    local kept = clock:tag {}
    for _ = 1, 3 do
      for _ = 1, 300 do clock:tag {} end
      mw.reap()
      clock:generation(clock:tag(kept))
      assert.equal(0, collecting + 1)
      for _ = 1, 300 do assert.equal(-1, clock:generation {}) end
    end
  end)

  it("knows each object, in any order and while others die", function()
    local seed = os.time()
    math.randomseed(seed)
    local list, tags = {}, {}
    for step = 1, 50000 do
      local i = math.random(300)
      for j = i, math.min(i + math.random(0, 5), 300) do
        if not list[j] then
          list[j] = {}
          assert(clock:generation(list[j]) == -1, "seed " .. seed)
        elseif math.random(20) == 1 then
          list[j], tags[j] = nil, nil
        elseif math.random(3) == 1 then
          clock:tag(list[j])
          tags[j] = clock:now()
        else
          assert(clock:generation(list[j]) == (tags[j] or -1), "seed " .. seed)
        end
      end
      if step % 100 == 0 then clock:advance() end
      if step % 1000 == 0 then collectgarbage() end
    end
  end)

  it("does not know an object that its finaliser brought back", function()
    local inside
    do
      clock:tag(setmetatable({}, { __gc = function(self)
        inside = clock:generation(self)
      end }))
    end
    collectgarbage()
    assert.equal(-1, inside)
  end)
end)

describe("clock:since", function()
  local clock, objects

  before_each(function()
    clock, objects = mw.clock "since", {}
    clock:reset()
    for generation = 0, 4 do
      for _ = 1, 100 do objects[#objects + 1] = clock:tag {} end
      assert.equal(generation, clock:now())
      clock:advance()
    end
  end)

  local function found(n)
    local seen, count = {}, 0
    for object, generation in clock:since(n) do
      assert.is_nil(seen[object])
      seen[object], count = generation, count + 1
    end
    return seen, count
  end

  it("visits each object of a generation or later once", function()
    local seen, count = found(3)
    assert.equal(200, count)
    for i, object in ipairs(objects) do
      local generation = (i - 1) // 100
      assert.equal(generation >= 3 and generation or nil, seen[object])
    end
    assert.equal(500, select(2, found(0)))
    assert.equal(500, select(2, found(math.mininteger)))
    assert.equal(0, select(2, found(5)))
    assert.equal(0, select(2, found(math.maxinteger)))
  end)

  it("does not visit the dead", function()
    for i = 1, 500, 2 do objects[i] = nil end
    collectgarbage()
    assert.equal(250, select(2, found(0)))
  end)

  it("ends, and is safe, while objects are tagged, made and die", function()
    local more = {}
    local count = 0
    for object in clock:since(2) do
      count = count + 1
      clock:tag(object)
      more[#more + 1] = clock:tag {}
      if count == 100 then
        for i = 1, 200 do objects[i] = nil end
        collectgarbage()
      end
      if count > 100000 then error "it goes on and on" end
    end
    assert.is_true(count >= 300)
  end)

  it("ends at once after reset", function()
    local count = 0
    for _ in clock:since(0) do
      count = count + 1
      clock:reset()
    end
    assert.equal(1, count)
  end)
end)

describe("a marked class", function()
  it("is marked until it is unmarked", function()
    local class = {}
    assert.is_false(mw.is_marked(class))
    mw.mark_dynamic(class)
    assert.is_true(mw.is_marked(class))
    mw.mark_dynamic(class, true)
    assert.is_true(mw.is_marked(class))
    mw.mark_dynamic(class, false)
    assert.is_false(mw.is_marked(class))
    mw.mark_dynamic(class, false)
    mw.mark_dynamic(class, nil)
    assert.is_true(mw.is_marked(class))
  end)

  it("is exactly that class, not its subclasses or instances", function()
    local class = {}
    class.__index = class
    local subclass = setmetatable({}, class)
    mw.mark_dynamic(class)
    assert.is_false(mw.is_marked(subclass))
    assert.is_false(mw.is_marked(setmetatable({}, subclass)))
  end)

  it("is not kept alive", function()
    local weak = setmetatable({}, { __mode = "k" })
    do
      local class = {}
      mw.mark_dynamic(class)
      weak[class] = true
    end
    collectgarbage()
    assert.is_nil(next(weak))
  end)
end)

describe("misuse of a clock raises", function()
  local clock = mw.clock "misuse"
  local OBJECT = "(table, userdata, function or thread expected, got "

  it("when what is tagged is no object, and changes nothing", function()
    assert.equal("bad argument #1 to 'tag' " .. OBJECT .. "number)",
      error_of(clock.tag, clock, 1))
    assert.equal("bad argument #1 to 'tag' " .. OBJECT .. "string)",
      error_of(clock.tag, clock, "a"))
    assert.equal("bad argument #1 to 'tag' " .. OBJECT .. "no value)",
      error_of(clock.tag, clock))
    assert.matches("clock_spec.lua:%d+: bad argument",
      error_of(function() clock:tag(nil) end))
  end)

  it("but reading finds nothing", function()
    for _, value in ipairs { 1, "a", true } do
      assert.equal(-1, clock:generation(value))
      assert.is_false(clock:is_current(value))
      assert.is_false(mw.is_marked(value))
    end
    assert.equal(-1, clock:generation())
    assert.is_false(mw.is_marked(nil))
  end)

  it("when self is something else", function()
    for _, name in ipairs { "tag", "generation", "is_current", "now",
      "advance", "since", "reset" } do
      for _, self in ipairs { 5, {}, mw.weakmap(), io.stdout } do
        assert.matches("calling '" .. name ..
          "' on bad self %(clock expected, got ", error_of(clock[name], self))
      end
    end
  end)

  it("but a method of one clock works on another", function()
    local other, object = mw.clock "other", {}
    other:advance()
    assert.equal(object, clock.tag(other, object))
    assert.equal(1, clock.generation(other, object))
    assert.is_true(clock.is_current(other, object))
    assert.equal(-1, clock:generation(object))
  end)

  it("when a name is no string", function()
    assert.equal("bad argument #1 to 'clock' (string expected, got number)",
      error_of(mw.clock, 1))
  end)

  it("when a generation is no integer", function()
    assert.equal("bad argument #1 to 'since' (integer expected, got float)",
      error_of(clock.since, clock, 0.5))
    assert.equal("bad argument #1 to 'since' (integer expected, got no value)",
      error_of(clock.since, clock))
  end)

  it("when a mark is no boolean, or for no object", function()
    local class = {}
    assert.equal("bad argument #2 to 'mark_dynamic' " ..
      "(boolean expected, got number)", error_of(mw.mark_dynamic, class, 0))
    assert.is_false(mw.is_marked(class))
    assert.equal("bad argument #1 to 'mark_dynamic' " .. OBJECT .. "string)",
      error_of(mw.mark_dynamic, "Sprite"))
  end)
end)

local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"

local function clear() mw.reset_counters() end

describe("counters", function()
  before_each(clear)

  it("read 0, and reading makes nothing", function()
    assert.equal(0, mw.counters.frames.drawn)
    assert.equal(0, mw.counters[1][2])
    for _ in pairs(mw.counters) do error "there is something" end
    for _ in pairs(mw.counters.frames) do error "there is something" end
    mw.count("frames", "drawn")
    assert.equal(0, mw.counters.frames.skipped)
    assert.equal("drawn", next(mw.counters.frames))
    assert.is_nil(next(mw.counters.frames, "drawn"))
  end)

  it("count", function()
    assert.equal(1, mw.count("a", "b"))
    assert.equal(3, mw.count("a", "b", 2))
    assert.equal(2.5, mw.count("a", "b", -0.5))
    assert.equal(2.5, mw.counters.a.b)
  end)

  it("may be set, through a section that is kept, too", function()
    local section = mw.counters.a
    mw.counters.a.b = mw.counters.a.b + 1
    assert.equal(1, section.b)
    section.c = 5
    assert.equal(5, mw.counters.a.c)
    mw.counters.d = { e = 1 }
    assert.equal(1, mw.counters.d.e)
    assert.equal(0, mw.counters.d.f)
    assert.equal(2, mw.count("d", "e"))
    local keys = {}
    for key in pairs(section) do keys[#keys + 1] = key end
    assert.equal(2, #keys)
  end)

  it("may be replaced and cleared, section by section", function()
    mw.count("shots", "missed", 3)
    local shots = mw.counters.shots
    mw.counters.shots = { hit = 1 }
    assert.equal(0, mw.counters.shots.missed)
    assert.equal(1, shots.hit)
    assert.equal(1, mw.count("shots", "missed"))
    mw.counters.shots = mw.counters.shots
    assert.equal(2, mw.counted "shots")
    mw.counters.shots = nil
    assert.equal(0, mw.counted "shots")
    for section in pairs(mw.counters) do error(section) end
    mw.count("a", "b")
    mw.reset_counters()
    assert.equal(0, mw.counters.a.b)
  end)

  it("have totals, and are told as text", function()
    mw.count("shots", "hit", 2)
    mw.count("shots", "missed", 3)
    mw.count("odd", "endless", math.huge)
    assert.equal(5, mw.counted "shots")
    assert.equal(0, mw.counted "none")
    local function flat(text) return (text:gsub(" +", " ")) end
    assert.equal("odd inf\n endless inf\nshots 5\n hit 2\n missed 3\n",
      flat(tostring(mw.counters)))
    assert.equal("hit 2\nmissed 3\n", flat(tostring(mw.counters.shots)))
    assert.equal("", tostring(mw.counters.none))
    mw.count("odd", "endless", -math.huge)
    assert.equal("endless nan\n", flat(tostring(mw.counters.odd)))
    mw.count("long", ("x"):rep(200))
    for line in tostring(mw.counters):gmatch "[^\n]+" do
      assert.is_true(#line <= 100)
    end
  end)

  it("are used as they should be", function()
    misuse("bad argument #1 to 'count' (key expected, got nil)", mw.count)
    misuse("bad argument #2 to 'count' (key expected, got nil)", mw.count, "a")
    misuse("bad argument #3 to 'count' (number expected, got string)",
      mw.count, "a", "b", "1")
    misuse("bad argument #3 to 'count' (number expected, got NaN)",
      mw.count, "a", "b", 0 / 0)
    misuse("bad argument #1 to 'counted' (key expected, got nil)", mw.counted)
    for _ in pairs(mw.counters) do error "there is something" end
  end)

  it("are numbers", function()
    local function refused(text, f)
      local message = error_of(f)
      assert.is_truthy(message:find("spec/counters_spec.lua:%d+: "), message)
      assert.is_truthy(message:find(text, 1, true), message)
    end
    local TEXT = "counter 'hit' cannot be set (number expected, got string)"
    refused(TEXT, function() mw.counters.shots.hit = "many" end)
    refused(TEXT, function() mw.counters.shots = { hit = "many" } end)
    refused("counter (a table) cannot be set (number expected, got NaN)",
      function() mw.counters.shots[{}] = 0 / 0 end)
    for _ in pairs(mw.counters) do error "there is something" end
    mw.count("shots", "missed")
    refused(TEXT, function() mw.counters.shots.hit = "many" end)
    mw.counters.shots.missed = "some" -- a plain table by now
    misuse("bad argument #2 to 'count' (its counter is a string)", mw.count,
      "shots", "missed")
    refused("bad argument #2 to 'counters' (table expected, got number)",
      function() mw.counters.shots = 1 end)
  end)
end)

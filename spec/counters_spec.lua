local misuse = require "spec.support.misuse"
local mw = require "moonwatch"

local function clear()
  for section in pairs(mw.counters) do rawset(mw.counters, section, nil) end
end

describe("counters", function()
  before_each(clear)

  it("read 0, and reading makes nothing", function()
    assert.equal(0, mw.counters.frames.drawn)
    assert.equal(0, mw.counters[1][2])
    assert.is_nil(next(mw.counters))
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

  it("are used as they should be", function()
    misuse("bad argument #1 to 'count' (key expected, got nil)", mw.count)
    misuse("bad argument #2 to 'count' (key expected, got nil)", mw.count, "a")
    misuse("bad argument #3 to 'count' (number expected, got string)",
      mw.count, "a", "b", "1")
    assert.is_nil(next(mw.counters))
  end)
end)

local misuse = require "spec.support.misuse"
local mw = require "moonwatch"

-- A tick of the clock may be a millisecond.
local function spend(seconds)
  local start = os.clock()
  while os.clock() - start < seconds + 0.002 do mw.frame() end
end

local function timed(name, column, f, ...)
  local scope <close> = mw.timed(name, { column = column })
  if f then f(...) end
  return scope
end

describe("times", function()
  before_each(mw.reset_times)
  after_each(mw.reset_times)

  it("are those of each scope, in seconds", function()
    local from = os.time()
    timed("a", "a_us", spend, 0.002)
    timed("a", "a_us")
    timed("b", "a_us")
    local times = mw.times "table"
    assert.equal(2, #times.a)
    assert.equal(1, #times.b)
    assert.is_true(times.a[1] >= 0.0019)
    assert.is_true(times.a[1] + times.a[2] < os.time() - from + 1)
  end)

  it("are the last 1,024 of a name, but those of all when aggregated",
    function()
      timed("a", "a_us", spend, 0.001)
      for _ = 1, 1100 do timed("a", "a_us") end
      local list = mw.times("table").a
      assert.equal(1024, #list)
      local all = mw.times("table", true).a
      assert.equal(1101, all.count)
      assert.is_true(all.max >= 0.0009 and all.min < all.max)
      assert.is_true(all.sum >= all.max)
    end)

  it("are told as text", function()
    timed("a\nb", "a_us")
    timed("c", "a_us")
    timed("c", "a_us")
    assert.equal(mw.times(), mw.times "text")
    assert.matches("^name +seconds\na%?b +0%.%d+\nc +0%.%d+\nc +0%.%d+\n$",
      mw.times())
    assert.matches("^name +count +sum +min +max\na%?b +1 .*\nc +2 .*\n$",
      mw.times("text", true))
  end)

  it("have columns of characters", function()
    timed("x" .. ("\u{E9}"):rep(38), "a_us")
    timed(("\xE9"):rep(50), "a_us")
    local text = mw.times("text", true)
    assert.truthy(text:find("\nx" .. ("\u{E9}"):rep(38) .. "               1 "))
    assert.truthy(text:find("\n" .. ("\xE9"):rep(50) .. "              1 "))
  end)

  it("are told as CSV", function()
    timed('say "a,b"', "a_us")
    assert.matches('^name,seconds\n"say ""a,b""",0%.%d+\n$', mw.times "csv")
    assert.matches('^name,count,sum,min,max\n"say ""a,b""",1,0%.%d+,' ..
      "0%.%d+,0%.%d+\n$", mw.times("csv", true))
  end)

  it("are forgotten when that is said", function()
    timed("a", "a_us")
    mw.reset_times()
    assert.same({}, mw.times "table")
    assert.same({ total = 0 }, mw.time_spent())
    assert.equal("name,seconds\n", mw.times "csv")
  end)

  it("are asked for as they should be", function()
    misuse("bad argument #1 to 'times' ('text', 'csv' or 'table' expected)",
      mw.times, "xml")
    misuse("bad argument #2 to 'times' (boolean expected, got number)",
      mw.times, "text", 1)
  end)
end)

describe("the time spent", function()
  before_each(mw.reset_times)
  after_each(mw.reset_times)

  it("is that of each phase, and their total", function()
    timed("a", "a_us", spend, 0.001)
    timed("b", "b_us", spend, 0.001)
    local spent = mw.time_spent()
    assert.is_true(spent.a > 0 and spent.b > 0)
    assert.is_true(math.abs(spent.a + spent.b - spent.total) < 1e-9)
  end)

  it("counts the outermost of nested ones", function()
    timed("a", "a_us", function()
      timed("b", "a_us", spend, 0.001)
      timed("a", "a_us", spend, 0.001)
    end)
    local spent, all = mw.time_spent(), mw.times("table", true)
    assert.equal(all.a.max, spent.a)
    assert.equal(spent.a, spent.total)
    assert.equal(all.b.sum, spent.b)
  end)

  it("counts no moment twice when scopes are closed out of order", function()
    local function open(name) return mw.timed(name, { column = "a_us" }) end
    local outer, inner = open "a", open "a"
    spend(0.001)
    outer:close()
    local later = open "a"
    spend(0.001)
    inner:close()
    later:close()
    local all = mw.times("table").a
    assert.equal(3, #all)
    local spent = mw.time_spent()
    assert.is_true(math.abs(spent.a - all[1] - all[3]) < 1e-9)
    assert.equal(spent.a, spent.total)
  end)

  it("counts the outermost of a column once", function()
    local columns
    local metrics = mw.metrics(function(_, _, values) columns = values end)
    metrics:enter()
    timed("a", "a_us", function()
      timed("b", "a_us", spend, 0.002)
      timed("c", "c_us", spend, 0.001)
    end)
    metrics:leave()
    local all = mw.times("table", true)
    assert.equal(math.floor(all.a.sum * 1e6 + 1e-6), columns.a_us)
    assert.equal(math.floor(all.c.sum * 1e6 + 1e-6), columns.c_us)
  end)

  it("nests by coroutine, whatever becomes of that", function()
    local co = coroutine.wrap(function()
      timed("a", "a_us", coroutine.yield)
    end)
    co()
    timed("b", "a_us", spend, 0.001)
    co = nil
    collectgarbage()
    collectgarbage()
    assert.is_nil(co)
    timed("b", "a_us")
    assert.equal(mw.times("table", true).b.sum, mw.time_spent().b)
  end)

  it("does not count what no column has", function()
    mw.timing(true)
    mw.timed("a"):close()
    mw.timing(false)
    assert.same({ total = 0 }, mw.time_spent())
  end)
end)

describe("frames", function()
  it("are counted from 0", function()
    mw.reset_frames()
    assert.equal(0, mw.frame())
    assert.equal(1, mw.advance_frame())
    assert.equal(2, mw.advance_frame())
    assert.equal(2, mw.frame())
    mw.reset_frames()
    assert.equal(0, mw.frame())
  end)
end)

describe("the time of a coroutine", function()
  local nanoseconds = require("moonwatch.core").private.nanoseconds
  local began, waited

  local function wait()
    local from = nanoseconds()
    while nanoseconds() - from < 2e7 do mw.frame() end
    waited = waited + nanoseconds() - from
  end

  -- The scopes took no more than what is left of the time without the waits.
  local function check(seconds)
    assert.is_true(seconds * 1e9 <= nanoseconds() - began - waited + 1)
  end

  local function think(...)
    local scope <close> = mw.timed("think", { column = "think_us" })
    local got = table.pack(coroutine.yield(...))
    assert.is_not_nil(scope)
    return table.unpack(got, 1, got.n)
  end

  before_each(function()
    mw.reset_times()
    began, waited = nanoseconds(), 0
  end)

  it("is not that of others while it is suspended", function()
    local co = coroutine.wrap(think)
    assert.same({ 1, nil, 3, n = 3 }, table.pack(co(1, nil, 3)))
    wait()
    assert.same({ nil, 5, n = 2 }, table.pack(co(nil, 5)))
    check(mw.time_spent().think)
    assert.equal(mw.time_spent().total, mw.time_spent().think)
    check(mw.times("table").think[1])
  end)

  it("ends where it is suspended if it is closed or lost", function()
    local co = coroutine.create(think)
    assert.is_true(coroutine.resume(co))
    wait()
    assert.is_true(coroutine.close(co))
    check(mw.time_spent().think)
    local other = coroutine.create(think)
    coroutine.resume(other)
    wait()
    other = nil
    collectgarbage()
    collectgarbage()
    assert.is_nil(other)
    assert.equal(2, #mw.times("table").think)
    check(mw.time_spent().think)
  end)

  it("counts for each scope what it waited itself", function()
    local co = coroutine.wrap(function()
      local outer <close> = mw.timed("outer", { column = "outer_us" })
      coroutine.yield()
      think()
      assert.is_not_nil(outer)
    end)
    for _ = 1, 3 do
      co()
      wait()
    end
    check(mw.time_spent().outer)
    assert.is_true(mw.time_spent().think <= mw.time_spent().outer)
  end)

  it("leaves coroutine.yield as it was", function()
    local ok, message = pcall(coroutine.yield)
    assert.is_false(ok)
    assert.equal("attempt to yield from outside a coroutine", message)
    local co = coroutine.create(function(...)
      return select("#", coroutine.yield(...)), pcall(coroutine.yield, "in")
    end)
    assert.same({ true, 1, nil, n = 3 },
      table.pack(coroutine.resume(co, 1, nil)))
    assert.same({ true, "in", n = 2 }, table.pack(coroutine.resume(co)))
    assert.same({ true, 0, true, nil, 7, nil, n = 6 },
      table.pack(coroutine.resume(co, nil, 7, nil)))
    co = coroutine.wrap(function()
      local scope <close> = mw.timed("a", { column = "a_us" })
      table.sort({ 3, 2, 1 }, coroutine.yield)
      assert.is_not_nil(scope)
    end)
    assert.has_error(co, "attempt to yield across a C-call boundary")
  end)
end)

describe("a coroutine in a trace", function()
  it("waits in a span of its own, if a scope is open", function()
    local trace <close> = mw.trace():start()
    local co = coroutine.wrap(function()
      coroutine.yield()
      local scope <close> = mw.timed "think"
      coroutine.yield()
      assert.is_not_nil(scope)
    end)
    for _ = 1, 3 do co() end
    trace:stop()
    assert.equal(4, trace:len())
  end)
end)

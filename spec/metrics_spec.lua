local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"

-- Metrics and the list of their reports.
local function make()
  local reports = {}
  return mw.metrics(function(start, stop, values, err)
    reports[#reports + 1] = {
      start = start, stop = stop, values = values, err = err,
    }
  end), reports
end

describe("metrics", function()
  it("are reported with the nanoseconds that they took", function()
    local from, m, reports = os.time(), make()
    local start = os.clock()
    repeat until os.clock() - start > 0.004 -- there are ticks of a millisecond
    m:leave()
    local took = reports[1].stop - reports[1].start
    assert.is_true(took > 1.9e6 and took < (os.time() - from + 1) * 1e9, took)
  end)

  it("are reported once, at the outermost exit", function()
    local m, reports = make()
    assert.equal(m, m:enter())
    m:enter()
    m:set("a", 1)
    m:leave()
    assert.same({}, reports)
    m:leave()
    assert.equal(1, #reports)
    assert.same({ a = 1 }, reports[1].values)
    assert.equal("integer", math.type(reports[1].start))
    assert.is_true(reports[1].stop >= reports[1].start)
    misuse("'leave': it was not entered", m.leave, m)
    misuse("'set': the metrics are not entered", m.set, m, "a", 1)
    assert.equal(1, #reports)
  end)

  it("begin anew when they are entered again", function()
    local m, reports = make()
    m:enter():set("a", 1)
    m:leave()
    m:enter():set("b", 1)
    m:leave()
    assert.same({ b = 1 }, reports[2].values)
  end)

  it("are reported when there is an error, which goes on", function()
    local m, reports = make()
    local err = {}
    assert.equal(err, error_of(function()
      local _ <close> = m:enter()
      local _ <close> = m:enter()
      m:increment "n"
      error(err)
    end))
    assert.equal(1, #reports)
    assert.equal(err, reports[1].err)
    assert.same({ n = 1 }, reports[1].values)
  end)

  it("are a scope by themselves, too", function()
    local m, reports = make()
    do
      local its <close> = m
      its:set("a", 1)
      do
        local inner <close> = its:enter()
        inner:set("b", 2)
      end
      mw.timed("x", { column = "x_us" }):close()
    end
    assert.equal(1, #reports)
    assert.equal(2, reports[1].values.b)
    assert.is_not_nil(reports[1].values.x_us)
    local other, others = make()
    do
      local its <close> = other
      mw.timed("x", { column = "x_us" }):close()
      its:enter()
      its:leave()
    end
    assert.equal(1, #others)
    assert.same({}, others[1].values)
  end)

  it("are reported by the collector if they were entered and lost", function()
    local m, reports = make()
    m:enter():set("a", 1)
    make()
    m = nil
    collectgarbage()
    collectgarbage()
    assert.is_nil(m)
    assert.equal(1, #reports)
  end)

  it("may be reported by a function that yields", function()
    local co = coroutine.wrap(function()
      local m <close> = mw.metrics(coroutine.yield)
      m:set("a", 1)
    end)
    assert.same({ a = 1 }, select(3, co()))
    co()
  end)

  it("do not raise what the report raises", function()
    local taken
    local former = mw.on_error(function(err, where) taken = { err, where } end)
    mw.metrics(function() error("no", 0) end):enter():leave()
    mw.on_error(former)
    assert.same({ "no", "metrics" }, taken)
    mw.metrics(function() error("no", 0) end):enter():leave()
    assert.equal("no", error_of(mw.id, {}))
  end)

  it("increment", function()
    local m, reports = make()
    m:enter()
    m:increment "a"
    m:increment("a", 2)
    m:increment("b", 0.5)
    m:set("word", "x")
    misuse("'increment': 'word' is not a number", m.increment, m, "word")
    m:set("none", false)
    misuse("'increment': 'none' is not a number", m.increment, m, "none")
    misuse("bad argument #2 to 'increment' (number expected, got string)",
      m.increment, m, "a", "1")
    m:leave()
    assert.same({ a = 3, b = 0.5, word = "x", none = false }, reports[1].values)
  end)

  it("are set once, unless it is said to overwrite", function()
    local m, reports = make()
    m:enter()
    m:set("a", false)
    misuse("'set': 'a' is set already", m.set, m, "a", 2)
    m:set("a", 3, true)
    m:increment "b"
    misuse("'set': 'b' is set already", m.set, m, "b", 2)
    m:leave()
    assert.same({ a = 3, b = 1 }, reports[1].values)
  end)

  it("are updated all or not at all", function()
    local m, reports = make()
    m:enter()
    m:set("a", 1)
    misuse("'update': 'a' is set already", m.update, m,
      { a = 2, b = 2, c = 2 })
    misuse("bad argument #1 to 'update' (a key is not a string)", m.update, m,
      { d = 1, "e" })
    m:update { x = 1 }
    m:update({ a = 5, y = 1 }, true)
    m:leave()
    assert.same({ a = 5, x = 1, y = 1 }, reports[1].values)
  end)

  it("have tables and sets", function()
    local m, reports = make()
    m:enter()
    m:set_key("t", "x", 1)
    m:set_key("t", "x", 2)
    m:set_key("t", 5, 3)
    m:add_to_set("s", "a")
    m:add_to_set("s", "a")
    m:add_to_set("s", m)
    misuse("'set_key': 's' is a set, not a table", m.set_key, m, "s", "x", 1)
    misuse("'add_to_set': 't' is a table, not a set", m.add_to_set, m, "t", 1)
    misuse("bad argument #2 to 'set_key' (key expected, got nil)", m.set_key,
      m, "t")
    m:leave()
    assert.same({ t = { x = 2, [5] = 3 }, s = { a = true, [m] = true } },
      reports[1].values)
  end)

  local function top(n, ...)
    local m, reports = make()
    m:enter()
    for _, entry in ipairs { ... } do m:top_n("t", entry[1], entry[2], n) end
    m:leave()
    return reports[1].values.t
  end

  local function values(list)
    local result = {}
    for i, entry in ipairs(list) do result[i] = entry.value end
    return result
  end

  it("keep the n largest", function()
    local list = top(3, { "seven", 7 }, { "four", 4 }, { "five", 5 },
      { "six", 6 }, { "eight", 8 })
    assert.same({ 8, 7, 6 }, values(list))
    assert.same({ key = "eight", value = 8 }, list[1])
  end)

  it("cope with ties, and with any keys, of the largest", function()
    local key = setmetatable({}, { __lt = error, __eq = error })
    local list = top(3, { "a", 1 }, { key, 1 }, { 5, 1 }, { true, 1 },
      { {}, 0 })
    assert.same({ 1, 1, 1 }, values(list))
    assert.equal("a", list[1].key)
    assert.is_true(rawequal(key, list[2].key))
    assert.equal(5, list[3].key)
    list = top(2, { "a", 1 }, { "b", 2 }, { "a", 3 }, { "b", 1 })
    assert.same({ { key = "a", value = 3 }, { key = "b", value = 2 } }, list)
  end)

  it("get the time of columns while they are entered, all of them", function()
    local a, of_a = make()
    local b, of_b = make()
    a:enter():set("word_us", "x")
    b:enter()
    mw.timed("x", { column = "x_us" }):close()
    mw.timed("x", { column = "word_us" }):close()
    a:leave()
    mw.timed("x", { column = "y_us" }):close()
    b:leave()
    assert.equal("integer", math.type(of_a[1].values.x_us))
    assert.equal("x", of_a[1].values.word_us)
    assert.is_nil(of_a[1].values.y_us)
    assert.is_not_nil(of_b[1].values.x_us and of_b[1].values.y_us)
  end)

  it("are known while they are entered", function()
    collectgarbage()
    assert.is_nil(mw.metrics.current())
    local a <close> = mw.metrics()
    assert.equal(a, mw.metrics.current())
    local b = mw.metrics():enter()
    assert.equal(b, mw.metrics.current())
    assert.is_true(b:in_progress())
    b:leave()
    assert.is_false(b:in_progress())
    assert.equal(a, mw.metrics.current())
  end)

  it("keep to a schema", function()
    local reports = {}
    local m = mw.metrics {
      schema = { n = "integer", x = "number", who = "string", seen = "set",
        by = "table", top = "list", took_us = "integer" },
      on_exit = function(_, _, its) reports[#reports + 1] = its end,
    }
    m:increment "n"
    m:increment("x", 0.5)
    m:set("who", "me")
    m:add_to_set("seen", 1)
    m:set_key("by", "a", 1)
    m:top_n("top", "a", 1, 2)
    mw.timed("t", { column = "took_us" }):close()
    mw.timed("t", { column = "other_us" }):close()
    misuse("'set': the schema has no 'when'", m.set, m, "when", 1)
    misuse("'increment': 'n' has the type integer, not float", m.increment, m,
      "n", 0.5)
    misuse("'update': 'who' has the type string, not integer", m.update, m,
      { who = 1 }, true)
    misuse("'add_to_set': 'n' has the type integer, not set", m.add_to_set, m,
      "n", 1)
    m:leave()
    assert.equal("integer", math.type(reports[1].took_us))
    assert.is_nil(reports[1].other_us)
    reports[1].took_us = nil
    assert.same({ n = 1, x = 0.5, who = "me", seen = { true }, by = { a = 1 },
      top = { { key = "a", value = 1 } } }, reports[1])
  end)

  it("can be told as JSON, now and after the report", function()
    local m = mw.metrics()
    m:set("n", 1)
    assert.equal('{"n":1}', m:to_json())
    m:leave()
    assert.equal('{"n":1}', m:to_json())
    assert.equal("{}", mw.metrics():to_json())
  end)

  it("have JSON's keys as JSON: the text of a number or a boolean", function()
    local function json_of(name, ...)
      local m <close> = mw.metrics()
      m[name](m, "t", ...)
      local text = m:to_json()
      m:leave()
      assert.equal(text, m:to_json())
      return text
    end
    assert.equal('{"t":{"5":true}}', json_of("add_to_set", 5))
    assert.equal('{"t":{"1":true}}', json_of("add_to_set", 1))
    assert.equal('{"t":{"true":true}}', json_of("add_to_set", true))
    assert.equal('{"t":{"table":true}}', json_of("add_to_set", {}))
    assert.equal('{"t":{"[x]":2}}', json_of("set_key", "[x]", 2))
    assert.equal('{"t":{"0.5":2}}', json_of("set_key", 0.5, 2))
    assert.equal('{"t":{"a":{"7":{"true":1}}}}',
      json_of("set", { a = { [7] = { [true] = 1 } } }))
    assert.equal('{"t":[1,2]}', json_of("set", { 1, 2 }))
    assert.matches('^{"t":%[{.*"key":"a".*}%]}$', json_of("top_n", "a", 1, 1))
    local all = {}
    for i = 1, 20000 do all[i] = i end
    assert.equal(#"{'t':[]}" + #table.concat(all, ","), #json_of("set", all))
  end)

  it("are used as they should be", function()
    local m <close> = mw.metrics()
    misuse("bad argument #2 to 'set' (value expected, got nil)", m.set, m, "a")
    misuse("bad argument #1 to 'metrics' (unknown option 'scheme')",
      mw.metrics, { scheme = {} })
    misuse("bad argument #1 to 'metrics' (the schema has an unknown type " ..
      "for 'a')", mw.metrics, { schema = { a = "int" } })
    misuse("bad argument #1 to 'metrics' (a name in the schema is no string)",
      mw.metrics, { schema = { "a" } })
    misuse("bad argument #1 to 'metrics' (function expected, got number)",
      mw.metrics, 5)
    misuse("calling 'enter' on bad self (metrics expected, got nil)", m.enter)
    misuse("calling 'set' on bad self (metrics expected, got table)", m.set,
      {}, "a", 1)
    misuse("bad argument #1 to 'set' (string expected, got number)", m.set, m,
      1, 1)
    misuse("bad argument #3 to 'top_n' (number expected, got nil)", m.top_n, m,
      "t", "k")
    misuse("bad argument #4 to 'top_n' (positive integer expected, got number)",
      m.top_n, m, "t", "k", 1, 0)
  end)
end)

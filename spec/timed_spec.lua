local json = require "spec.support.json"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local shell = require "spec.support.shell"

-- The last begin and the last end that a trace has.
local function last_of(trace)
  local begin, finish
  shell.with_directory(function(path)
    assert.is_true(trace:write(path .. "/out"))
    for line in io.lines(path .. "/out") do
      local event = line:match '^{"ph":"[BE]".*}'
      if event and event:find '^{"ph":"B' then begin = event end
      if event and event:find '^{"ph":"E' then finish = event end
    end
  end)
  return json.decode(begin), json.decode(finish)
end

local function traced(f)
  local trace <close> = mw.trace():start()
  f()
  trace:stop()
  return last_of(trace)
end

describe("a timed scope", function()
  local function forget()
    mw.timing(false)
    mw.reset_times()
  end

  before_each(forget)
  after_each(forget)

  it("is nothing while nobody looks", function()
    local scope = mw.timed "a"
    assert.equal(scope, mw.timed "b")
    assert.equal(scope, mw.timed("b", { category = "c", args = {} }))
    scope:add("key", 1)
    scope:increment "key"
    scope:insert("key", 1)
    scope:close()
    scope:close()
    assert.same({}, mw.times "table")
  end)

  it("is noted with its category and a copy of its args", function()
    local begin, finish = traced(function()
      local args = { n = 1 }
      local scope <close> = mw.timed("a", { category = "c", args = args,
        reverse = true })
      args.n = 2
      assert.is_not_nil(scope)
    end)
    assert.equal("c", begin.cat)
    assert.same({ n = 1, reverse = true }, begin.args)
    assert.is_nil(finish.args)
  end)

  it("has data of its own, not of its name", function()
    local begin, finish = traced(function()
      local outer <close> = mw.timed("a", { args = { n = 1 } })
      local inner = mw.timed "a"
      inner:add("inner", true)
      inner:close()
      inner:add("late", true)
      outer:add("key", "value")
      outer:increment "n"
      outer:increment("m", 2.5)
      outer:insert("set", "x")
      outer:insert("set", "y")
      outer:insert("set", "x")
    end)
    assert.is_nil(begin.args)
    assert.same({ n = 2, m = 2.5, key = "value", set = { "x", "y" } },
      finish.args)
  end)

  it("ends when there is an error in it", function()
    mw.timing(true)
    local begin, finish = traced(function()
      pcall(function()
        local scope <close> = mw.timed("a", { column = "a_us" })
        error(scope)
      end)
    end)
    assert.equal("a", begin.name)
    assert.equal("a", finish.name)
    assert.equal(1, #mw.times("table").a)
    assert.is_true(mw.time_spent().a > 0)
  end)

  it("ends once, by the collector if by nobody else", function()
    mw.timing(true)
    local scope = mw.timed "a"
    scope:close()
    scope:close()
    mw.timed "a"
    collectgarbage()
    collectgarbage()
    assert.equal(2, #mw.times("table").a)
  end)

  it("is measured when it has a column, and not without", function()
    do
      local a <close> = mw.timed("a", { column = "a_us" })
      local b <close> = mw.timed "b"
      assert.is_true(a ~= b)
    end
    assert.is_not_nil(mw.times("table").a)
    assert.is_nil(mw.times("table").b)
  end)

  it("is measured while timing is on", function()
    assert.is_false(mw.timing(true))
    assert.is_true(mw.timing())
    mw.timed("a"):close()
    assert.is_true(mw.timing(false))
    mw.timed("a"):close()
    assert.equal(1, #mw.times("table").a)
  end)

  it("checks before it starts", function()
    local trace <close> = mw.trace():start()
    misuse("bad argument #1 to 'timed' (string expected, got no value)",
      mw.timed)
    misuse("bad argument #1 to 'timed' (string expected, got number)",
      mw.timed, 5)
    misuse("bad argument #2 to 'timed' (table expected, got string)", mw.timed,
      "a", "b")
    misuse("bad argument #2 to 'timed' (unknown option 'colum')", mw.timed,
      "a", { colum = "a_us" })
    misuse("bad argument #2 to 'timed' (option 'category' is not a string)",
      mw.timed, "a", { category = 1 })
    misuse("bad argument #2 to 'timed' (option 'args' is not a table)",
      mw.timed, "a", { args = 1 })
    misuse("bad argument #2 to 'timed' (option 'reverse' is not a boolean)",
      mw.timed, "a", { reverse = 1 })
    for _, column in ipairs { "a", "us", "_us", "a_usx" } do
      misuse("bad argument #2 to 'timed' (column '" .. column ..
        "' does not end in '_us')", mw.timed, "a", { column = column })
    end
    assert.equal(0, trace:len())
    assert.same({}, mw.times "table")
  end)

  it("checks its data", function()
    local trace <close> = mw.trace():start()
    local scope <close> = mw.timed "a"
    misuse("bad argument #1 to 'add' (string expected, got nil)", scope.add,
      scope)
    misuse("bad argument #2 to 'increment' (number expected, got string)",
      scope.increment, scope, "n", "1")
    scope:add("word", "x")
    scope:add("list", {})
    misuse("bad argument #1 to 'increment' ('word' is not a number)",
      scope.increment, scope, "word")
    misuse("bad argument #1 to 'insert' ('list' is not a set)", scope.insert,
      scope, "list", 1)
    misuse("calling 'add' on bad self (scope expected, got table)", scope.add,
      {}, "x", 1)
    misuse("calling 'close' on bad self (scope expected, got trace)",
      scope.close, trace)
    misuse("bad argument #1 to 'timing' (boolean expected, got string)",
      mw.timing, "on")
  end)
end)

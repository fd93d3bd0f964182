local json = require "spec.support.json"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local shell = require "spec.support.shell"
local with_seed = require "spec.support.with_seed"

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

describe("the scopes that are open", function()
  local function open(name) return mw.timed(name, { column = "open_us" }) end

  local function both() return mw.current_scope(), mw.outermost_scope() end

  after_each(mw.reset_times)

  it("are none while nobody measures", function()
    local scope <close> = mw.timed "a"
    assert.is_not_nil(scope)
    assert.is_nil(mw.current_scope())
    assert.is_nil(mw.current_scope "a")
    assert.is_nil(mw.outermost_scope())
  end)

  it("are found: the innermost, that of a name, and the outermost", function()
    local a <close> = open "a"
    do
      local b <close> = open "b"
      local inner <close> = open "a"
      assert.equal(inner, mw.current_scope())
      assert.equal(inner, mw.current_scope "a")
      assert.equal(b, mw.current_scope "b")
      assert.is_nil(mw.current_scope "c")
      assert.is_nil(mw.current_scope "")
      assert.equal(a, mw.outermost_scope())
    end
    assert.equal(a, mw.current_scope())
    assert.equal(a, mw.current_scope "a")
    assert.is_nil(mw.current_scope "b")
  end)

  it("are found if they are traced, or timing is on", function()
    local former <close> = open "former"
    mw.timing(true)
    local timed <close> = mw.timed "timed"
    mw.timing(false)
    assert.equal(timed, mw.current_scope())
    local trace <close> = mw.trace():start()
    local scope <close> = mw.timed "traced"
    assert.equal(scope, mw.current_scope())
    trace:stop()
    assert.equal(scope, mw.current_scope())
    assert.equal(timed, mw.current_scope "timed")
    assert.equal(former, mw.outermost_scope())
  end)

  it("get what code deep inside says", function()
    local _, finish = traced(function()
      local frame <close> = mw.timed "frame"
      local draw = mw.timed "draw"
      mw.current_scope("frame"):add("key", "value")
      mw.outermost_scope():increment("n", 2)
      mw.current_scope():add("gone", true)
      draw:close()
      mw.current_scope():insert("set", "x")
      assert.is_not_nil(frame)
    end)
    assert.same({ key = "value", n = 2, set = { "x" } }, finish.args)
  end)

  it("are those of the running coroutine", function()
    local a <close> = open "a"
    local inner
    local co = coroutine.wrap(function()
      assert.is_nil((both()))
      inner = open "inner"
      coroutine.yield()
      assert.equal(inner, mw.current_scope())
      assert.is_nil(mw.current_scope "a")
      local nested = coroutine.wrap(function()
        assert.is_nil((both()))
        local scope <close> = open "nested"
        assert.equal(scope, mw.current_scope())
      end)
      nested()
      assert.equal(inner, mw.current_scope())
      coroutine.yield()
      return both()
    end)
    co()
    assert.equal(a, mw.current_scope())
    assert.is_nil(mw.current_scope "inner")
    co()
    inner:close()
    assert.equal(a, mw.current_scope())
    assert.is_nil(co())
  end)

  it("are found whatever the order in which they are closed", function()
    for _, order in ipairs { { 1, 2, 3 }, { 2, 1, 3 }, { 3, 1, 2 },
      { 2, 3, 1 }, { 1, 3, 2 }, { 3, 2, 1 } } do
      local scopes, is_open = {}, { true, true, true }
      for i = 1, 3 do scopes[i] = open "a" end
      for _, i in ipairs(order) do
        scopes[i]:close()
        is_open[i] = nil
        local left = {}
        for j = 1, 3 do if is_open[j] then left[#left + 1] = scopes[j] end end
        assert.equal(left[#left], mw.current_scope())
        assert.equal(left[1], mw.outermost_scope())
        local more = open "more"
        assert.equal(more, mw.current_scope())
        more:close()
      end
    end
  end)

  it("are those around an error when that is over", function()
    local a <close> = open "a"
    pcall(function()
      local b <close> = open "b"
      local c <close> = open "c"
      error { b, c }
    end)
    assert.equal(a, mw.current_scope())
    local co = coroutine.create(function()
      local b <close> = open "b"
      error(b)
    end)
    coroutine.resume(co)
    coroutine.close(co)
    assert.equal(a, mw.current_scope())
    assert.is_false(pcall(mw.timed, "b", { column = "none" }))
    assert.equal(a, mw.current_scope())
  end)

  it("are not those that the program has dropped", function()
    collectgarbage "stop"
    local a <close> = open "a"
    open "b"
    open "c"
    local inner <close> = open "inner"
    local co = coroutine.wrap(function()
      local scope <close> = open "lost"
      coroutine.yield(scope)
    end)
    co()
    co = nil
    for _ = 1, 2 do
      collectgarbage "step"
      collectgarbage()
    end
    assert.is_nil(co)
    assert.is_nil(mw.current_scope "b")
    assert.equal(inner, mw.current_scope())
    assert.equal(a, mw.outermost_scope())
    inner:close()
    assert.equal(a, mw.current_scope())
    collectgarbage "restart"
  end)

  it("are not kept by the library", function()
    local weak = setmetatable({}, { __mode = "v" })
    local function drop()
      for i = 1, 5 do weak[i] = open("dropped " .. i) end
      assert.equal(weak[5], mw.current_scope())
    end
    drop()
    for _ = 1, 2 do collectgarbage() end
    assert.is_nil(next(weak))
    assert.is_nil(mw.current_scope())
    assert.equal(1, #mw.times("table")["dropped 3"])
  end)

  it("are found in programs that open and close them at random", function()
    with_seed(function()
      local lists = {}
      local function act(list)
        local r = math.random(4)
        if r <= 2 and #list < 8 then
          list[#list + 1] = { name = ("abc"):sub(math.random(3)) }
          list[#list].scope = open(list[#list].name)
        elseif #list > 0 then
          local i = r == 4 and #list or math.random(#list)
          table.remove(list, i).scope:close()
        end
        local last, first = list[#list], list[1]
        assert.equal(last and last.scope, mw.current_scope())
        assert.equal(first and first.scope, mw.outermost_scope())
        local wanted
        for _, entry in ipairs(list) do
          if entry.name == "bc" then wanted = entry.scope end
        end
        assert.equal(wanted, mw.current_scope "bc")
      end
      local threads = {}
      for i = 1, 4 do
        lists[i] = {}
        threads[i] = coroutine.wrap(function()
          while true do
            act(lists[i])
            coroutine.yield()
          end
        end)
      end
      lists[0] = {}
      for _ = 1, 500 do
        local i = math.random(0, 4)
        if i == 0 then act(lists[0]) else threads[i]() end
      end
      for i = 0, 4 do
        for _, entry in ipairs(lists[i]) do entry.scope:close() end
      end
      assert.is_nil(mw.current_scope())
    end)
  end)

  it("are asked for as they should be", function()
    misuse("bad argument #1 to 'current_scope' (string expected, got number)",
      mw.current_scope, 5)
    misuse("bad argument #1 to 'current_scope' (string expected, got table)",
      mw.current_scope, {})
    misuse("calling 'current_scope' with a colon (use a dot: mw.current_scope)",
      mw.current_scope, mw, "a")
  end)
end)

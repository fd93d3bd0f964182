local mw = require "moonwatch"
local policy_file = require "spec.support.policy_file"
local with_seed = require "spec.support.with_seed"

local MB = 1024 * 1024

-- More instructions than the time of a busy machine counts for.
local MANY = 1000000000

local function new_box(env, memory)
  return mw.sandbox { memory = memory or MB, instructions = MANY, env = env,
    name = "mod" }
end

-- Calls f(i) until there is no `true`, 5,000 times at most.  Returns how often,
-- the second result, and by how many bytes Lua's memory has grown.
local function exhaust(f)
  collectgarbage()
  collectgarbage()
  local before, n, ok, message = collectgarbage "count", 0
  repeat
    n = n + 1
    ok, message = f(n)
  until not ok or n == 5000
  collectgarbage()
  collectgarbage()
  return n, message, (collectgarbage "count" - before) * 1024
end

-- Calls a text in the box until the box refuses.
local function call_often(box, text)
  local f = assert(box:load(text))
  return exhaust(function(i) return box:call(f, i) end)
end

local function refuses(box, text)
  local n, message, grown = call_often(box, text)
  local what = ("%s: %d calls, %d bytes: %s"):format(text, n, grown, message)
  assert(n > 3 and n < 5000, what)
  assert(message:find "^mod:%d+: the sandbox's budget of memory is spent$",
    what)
  assert(grown > MB / 2 and grown < 2 * MB, what)
end

local function goes_on(box, text)
  local n, message = call_often(box, text)
  assert(n == 5000, message)
end

describe("what a box keeps from call to call", function()
  it("counts, whatever each call adds", function()
    for _, text in ipairs {
      "list = list or {} for i = 1, 200 do list[#list + 1] = {} end",
      "list = { list, ('x'):rep(5000) .. ... }",
      "list = list or {} list[('x'):rep(5000) .. ...] = true",
      "for i = 1, 20 do _G['a' .. ... * 20 + i] = ('x'):rep(100) .. i end",
      "list = list or {} for i = 1, 50 do \z
        list[#list + 1] = function() return i end end",
      "list = list or {} \z
        list[#list + 1] = coroutine.wrap(function() end)",
      "up = up or (function() local t = {} return function() \z
        for i = 1, 500 do t[#t + 1] = i .. '' end end end)() up()",
      "list = list or {} list[#list + 1] = setmetatable({}, \z
        { name = ('x'):rep(900) .. ... })",
    } do
      refuses(new_box(), text)
    end
  end)

  it("counts with the room of fields that were removed", function()
    local fill = "local t = {} for i = 1, 256 do %s = i end \z
      for i = %d, 256 do %s = nil end list = list or {} "
    local ways = { "t", "setmetatable({}, t)", "function() return t end",
      "coroutine.create(function() return t end)" }
    for _, way in ipairs(ways) do
      for _, field in ipairs { "t[i]", "t['a' .. i]", "t[i + 0.5]" } do
        for first = 1, 2 do
          refuses(new_box(), fill:format(field, first, field) ..
            "list[#list + 1] = " .. way)
        end
      end
    end
    refuses(new_box(), "list = list or {} \z
      list[#list + 1] = { " .. ("nil,"):rep(500) .. "}")
    refuses(new_box { log = {} },
      fill:format("t[i]", 1, "t[i]") .. "log[#log + 1] = t")
    goes_on(new_box(), "t = t or {} for i = 1, 256 do t['a' .. i] = i end \z
      for i = 1, 256 do t['a' .. i] = nil end")
  end)

  it("counts with iterators and the stacks of coroutines", function()
    refuses(new_box(), "list = list or {} \z
      for i = 1, 20 do list[#list + 1] = ('abc'):gmatch 'b' end")
    refuses(new_box(), [[list = list or {}
      local function f(n)
        if n > 0 then return 1 + f(n - 1) end
        coroutine.yield()
      end
      local co = coroutine.wrap(f)
      co(100)
      list[#list + 1] = co]])
  end)

  it("counts though a call in a call comes before it is kept", function()
    local box
    local nothing
    box = new_box { again = function() return box:call(nothing) end }
    nothing = assert(box:load "")
    refuses(box, [[local mine = {}
      for i = 1, 290 do mine[i] = ("x"):rep(900) .. i .. ... end
      again()
      list = { list, mine }]])
  end)

  it("counts where coroutines hold it", function()
    refuses(new_box(), [[list = list or {}
      local co = coroutine.create(function(more)
        local text = ("x"):rep(5000) .. more
        coroutine.yield()
        return text
      end)
      coroutine.resume(co, ...)
      list[#list + 1] = co]])
    refuses(new_box(), [[list = list or {}
      local co = coroutine.wrap(function(...)
        coroutine.yield(...)
        return ...
      end)
      co(("x"):rep(5000) .. ...)
      list[#list + 1] = co]])
    refuses(new_box(), [[list = list or {}
      local text = ("x"):rep(5000) .. ...
      list[#list + 1] = coroutine.create(function() return text end)]])
    refuses(new_box(), [[one = one or coroutine.wrap(function()
        local t = {}
        while true do t[#t + 1] = ("x"):rep(5000) .. coroutine.yield() end
      end)
      one(...)]])
  end)

  it("counts in what the program has handed in, and in Lua's tables", function()
    for _, text in ipairs { "log[#log + 1] = ('x'):rep(5000) .. ...",
      "deep.a.b[...] = { ('x'):rep(5000) .. ... }",
      "object.text = { object.text, ('x'):rep(5000) .. ... }",
      "string[...] = ('x'):rep(5000) .. ...",
      "math.list = { math.list, ('x'):rep(5000) .. ... }" } do
      local object = setmetatable({}, { __index = { class = true } })
      refuses(new_box { log = {}, deep = { a = { b = {} } }, object = object },
        text)
    end
  end)

  it("counts where only functions hold it that the program calls", function()
    local box = new_box()
    local new = assert(box:load [[
      local t = {}
      return function(i) t[#t + 1] = ("x"):rep(3000) .. i end]])
    local fs = {}
    for i = 1, 5 do fs[i] = select(2, box:call(new)) end
    local n, message, grown = exhaust(function(i)
      return box:call(fs[i % 5 + 1], i)
    end)
    assert.matches("budget of memory is spent$", message)
    assert.is_true(n < 5000 and grown < 2 * MB, grown)
  end)

  it("counts in tables that the program gives back", function()
    local box = new_box()
    local add = assert(box:load [[
      local state, i = ...
      state = state or {}
      state[#state + 1] = ("x"):rep(3000) .. i
      return state]])
    local state, ok
    local n, message, grown = exhaust(function(i)
      ok, state = box:call(add, state, i)
      return ok, state
    end)
    assert.matches("budget of memory is spent$", message)
    assert.is_true(n < 5000 and grown < 2 * MB, grown)
  end)

  it("counts when a box is called in a call of another one", function()
    local inner = new_box()
    local gather = assert(inner:load
      "list = { list, ('x'):rep(5000) .. ... }")
    local outer = new_box({
      ask = function(i) return inner:call(gather, i) end,
    }, 16 * MB)
    local f = assert(outer:load "return ask(...)")
    local n, message = exhaust(function(i)
      return select(2, outer:call(f, i))
    end)
    assert.is_true(n > 3 and n < 5000, n)
    assert.matches("budget of memory is spent$", message)
  end)

  it("counts for the functions of a policy's file", function()
    policy_file.with([[
      local list = {}
      return { rules = { { "gathers", function(obj)
        list[#list + 1] = ("x"):rep(200000) .. #list
      end } } }]], function(policy)
      local former = policy:use()
      local _, _, grown = exhaust(function(i)
        mw.is_dynamic {}
        return i < 500
      end)
      former:use()
      assert.matches(":%d: the policy's budget of memory is spent",
        (next(policy.errors)))
      assert.is_true(grown < 32 * MB, grown)
    end)
  end)

  it("is not garbage", function()
    goes_on(new_box(), [[
      local list = {}
      for i = 1, 100 do list[i] = { ("x"):rep(20) .. i } end
      last = list]])
    goes_on(new_box(), "ring = ring or {} ring[... % 90] = ('x'):rep(5000)")
  end)

  it("is not what the program's own objects hold", function()
    local world = {}
    local function grow()
      for _ = 1, 100 do
        world[#world % 20000 + 1] = { hp = 1, at = { x = 1, y = 2 } }
      end
    end
    for _ = 1, 200 do grow() end
    local box = new_box { world = { list = world } }
    local f = assert(box:load [[
      mine = mine or {}
      for i = 1, 100 do mine[i] = world.list[i] end
      local t = {}
      for i = 1, 50 do t[i] = { i } end
      all = world]])
    local n, message = exhaust(function(i)
      if i % 10 == 0 then grow() end
      return box:call(f)
    end)
    assert.equal(5000, n, message)
  end)

  it("is not what only the program keeps", function()
    local box = new_box()
    local f = assert(box:load "return ('x'):rep(20000) .. ...")
    local results = {}
    local n = exhaust(function(i)
      local ok, text = box:call(f, i)
      results[i] = text
      return ok and i < 200
    end)
    assert.equal(200, n)
    assert.equal(20003, #results[200])
  end)

  it("goes when the box lets go of it", function()
    goes_on(new_box(), [[list = list or {}
      list[#list + 1] = ("x"):rep(5000) .. ...
      if #list == 120 then list = {} end]])
  end)

  it("goes when the program lets go of it", function()
    local env = { log = {} }
    local box = new_box(env)
    local text = "log[#log + 1] = ('x'):rep(5000) .. ..."
    local f = assert(box:load "return 1")
    refuses(box, text)
    for i = #env.log, 1, -1 do env.log[i] = nil end
    local n = exhaust(function() return not box:call(f) end)
    assert.is_true(n <= 10, n)
    refuses(box, text)
  end)

  it("ends with the box", function()
    collectgarbage()
    collectgarbage()
    local before = mw.memory().total
    for _ = 1, 20 do
      local box = new_box()
      call_often(box, "list = { list, ('x'):rep(30000) .. ... }")
    end
    for _ = 1, 3 do collectgarbage() end
    assert.is_true(mw.memory().total <= before + 2000)
  end)

  it("is known whatever comes and goes", function()
    with_seed(function()
      local box = new_box(nil, 4 * MB)
      local change = assert(box:load [[
        local place, size = ...
        list = list or {}
        list[place] = size > 0 and ("x"):rep(size) .. place or nil
        big = {}
        for i = 1, size // 100 do big[i] = { i } end]])
      local program = {}
      for i = 1, 3000 do
        local place = math.random(40)
        local size = math.random(2) == 1 and math.random(25000) or 0
        assert(box:call(change, place, size))
        program[i % 100 + 1] = { ("y"):rep(math.random(2000)) .. i }
        if math.random(50) == 1 then collectgarbage "step" end
      end
      assert.equal(100, #program)
      local n, message = call_often(box,
        "gathered = { gathered, ('x'):rep(5000) .. ... }")
      assert(n < 5000 and message:find "memory", message)
    end)
  end)
end)

local mw = require "moonwatch"
local policy_file = require "spec.support.policy_file"

local with_file = policy_file.with
local HANG = 10 -- seconds; what is bounded takes a fraction of one

local original = mw.policy({}):use()

after_each(function()
  original:use()
end)

describe("the budget of a policy file holds against", function()
  local function seconds(f)
    local start = os.clock()
    f()
    return os.clock() - start
  end

  local escapes = {
    ["a loop"] = "while true do end",
    ["loops of pcall"] = [[
      local function f() while true do pcall(f) end end
      while true do pcall(f) xpcall(f, f) end]],
    ["handlers of errors"] =
      [[xpcall(function() while true do end end,
          function() while true do end end)]],
    ["coroutines"] = [[
      local function burn() for _ = 1, 900 do end end
      while true do coroutine.wrap(burn)() end]],
    ["nested coroutines"] = [[
      local function f() return coroutine.wrap(f)() end
      while true do pcall(f) end]],
    ["coroutines that catch"] = [[
      while true do
        local co = coroutine.create(function()
          while true do pcall(coroutine.yield) end
        end)
        for _ = 1, 100 do coroutine.resume(co) end
      end]],
    ["finalisers"] = [[setmetatable({}, { __gc = function() end })
      while true do end]],
    ["closers"] = [[
      local x <close> = setmetatable({}, { __close = function()
        while true do end end })]],
    ["closers that come later"] = [[
      local mt = {}
      local o = setmetatable({}, mt)
      mt.__close = function() while true do end end
      local x <close> = o
      while true do end]],
    ["long strings"] = [[local _ = ("x"):rep(1e9)]],
    ["strings that double"] = [[local s = "x" while true do s = s .. s end]],
    ["strings that grow"] = [[
      local s = ("x"):rep(100000)
      while true do pcall(function() s = s .. "x" end) end]],
    ["tables that grow"] = [[
      local t = {}
      for i = 1, math.huge do t[i] = {} end]],
    ["tables that grow in a pcall"] = [[
      local t = {}
      while true do
        pcall(function() for i = #t + 1, math.huge do t[i] = i end end)
      end]],
    ["inserts at the front"] =
      "local t = {} while true do table.insert(t, 1, 1) end",
    ["removals at the front"] = [[
      local t = {}
      for i = 1, 5000 do t[i] = i end
      while true do t[#t + 1] = table.remove(t, 1) end]],
    ["recursion without end"] = "local function f() return 1 + f() end f()",
    ["methods of strings"] = [[
      local mt = getmetatable("")
      if mt then mt.__index.rep = nil end
      while true do end]],
    ["its own errors"] = "while true do pcall(error, {}) end",
    ["tostring"] = [[
      local t = setmetatable({}, { __tostring = function()
        while true do end end })
      tostring(t)]],
  }

  for name, code in pairs(escapes) do
    it(name .. ", when it is loaded", function()
      local time = seconds(function()
        with_file(code .. "\nreturn {}", function(policy, message)
          assert.is_nil(policy)
          assert.is_string(message)
        end)
      end)
      assert.is_true(time < HANG, time)
      assert.is_nil(debug.gethook())
      assert.equal("xx", ("x"):rep(2))
    end)

    it(name .. ", when it is called", function()
      with_file(([[return { rules = {
        { "escape", function() %s
          return "was here" end },
        { "next", function() return "next" end } } }]]):format(code),
        function(policy, message)
        assert.truthy(policy, message)
        policy:use()
        local time = seconds(function()
          assert.same({ "next", "next" }, { mw.is_dynamic {} })
        end)
        assert.is_true(time < HANG, time)
        assert.is_string(next(policy.errors))
      end)
      assert.is_nil(debug.gethook())
      assert.equal("xx", ("x"):rep(2))
      collectgarbage()
    end)
  end

  it("metamethods that run when nobody counts", function()
    for _, name in ipairs { "__gc", "__close" } do
      with_file(("setmetatable({}, { %s = 'k' }) return {}"):format(name),
        function(policy, message)
          assert.is_nil(policy)
          assert.matches("a policy may not set '" .. name, message)
        end)
    end
  end)

  it("a loop, and says where that was", function()
    with_file("return { rules = { { 'loop', function()\n" ..
      "while true do end end } } }", function(policy)
        policy:use()
        mw.is_dynamic {}
        assert.matches("policy.lua:2: the policy's budget of instructions",
          (next(policy.errors)))
      end)
  end)

  it("what it catches itself", function()
    with_file("return { rules = { { 'caught', pcall } } }", function(policy)
      policy:use()
      assert.is_false((mw.is_dynamic(function() return ("x"):rep(1e8) end)))
      assert.matches("budget of memory", (next(policy.errors)))
      assert.equal(2e5, #("x"):rep(2e5))
      assert.is_nil(debug.gethook())
    end)
  end)

  it("changes of the methods of strings", function()
    with_file([[
      assert(not getmetatable "")
      string.upper = function() return "changed" end
      assert(string.upper "x" == "changed" and ("x"):upper() == "X")
      return {}
    ]], function(policy, message)
      assert.truthy(policy, message)
      assert.equal("X", string.upper "x")
    end)
  end)

  it("nothing that is within it", function()
    with_file([[
      local words = {}
      for word in ("the quick brown fox"):gmatch "%a+" do
        words[#words + 1] = word:upper():rep(2, "-")
      end
      table.sort(words, function(a, b) return a < b end)
      local co = coroutine.wrap(function(x) coroutine.yield(x .. "!") end)
      local name = co(table.concat(words, " "))
      local ok, message = pcall(error, "caught")
      return { rules = { { name, function(obj)
        return obj.x and ("%d"):format(obj.x) or message end } } }
    ]], function(policy, message)
      assert.truthy(policy, message)
      policy:use()
      local value, reason = mw.is_dynamic { x = 12 }
      assert.equal("12", value)
      assert.equal("BROWN-BROWN FOX-FOX QUICK-QUICK THE-THE!", reason)
      assert.equal("caught", (mw.is_dynamic {}))
      assert.same({}, policy.errors)
    end)
  end)

  it("no debug hook of the program, which stays", function()
    local lines = 0
    local function hook() lines = lines + 1 end
    with_file("return { rules = { { 'x', function() return 1 end } } }",
      function(policy)
        policy:use()
        debug.sethook(hook, "l", 0)
        mw.is_dynamic {}
        local f, mask = debug.gethook()
        debug.sethook()
        assert.equal(hook, f)
        assert.equal("l", mask)
        assert.is_true(lines > 0)
      end)
  end)
end)

describe("a policy file", function()
  local function file(code) return ("return { rules = { { 'x', " ..
    "function(obj, ctx) %s end } } }"):format(code) end

  local function answers(code, ...)
    local results = {}
    local arguments = table.pack(...)
    with_file(file(code), function(policy, message)
      assert.truthy(policy, message)
      policy:use()
      for i = 1, arguments.n do
        results[i] = (mw.is_dynamic(arguments[i])) or next(policy.errors)
      end
    end)
    return results
  end

  it("may use patterns as they are used", function()
    assert.same({ "a name of some length", "a-value" }, answers([[
      return obj:match "^%s*(.-)%s*$" or nil]],
      "  a name of some length   ", "a-value"))
    assert.same({ "key" }, answers([[
      return (obj:match "(%w+)%s*=%s*(%w+)")]], "key = a value"))
  end)

  it("may resume the program's coroutines, which count then", function()
    local co = coroutine.create(function() while true do end end)
    assert.matches("budget", answers("coroutine.resume(obj.co)",
      { co = co })[1])
  end)

  it("pays for what it makes the program ask", function()
    assert.matches("budget", answers(
      "while type(obj) == 'table' do obj.ask() end",
      { ask = function() return mw.is_dynamic "other" end })[1])
  end)

  it("cannot change what the next policy is given", function()
    assert.same({ "ok" }, answers([[
      ctx.global_hooks = true
      assert(not getmetatable(ctx))
      return "ok"]], {}))
    original:use()
    assert.same({ false, "default" }, { mw.is_dynamic {} })
  end)

  it("is asked by finalisers, too", function()
    with_file(file "if obj.loop then while true do end end return 1",
      function(policy)
        policy:use()
        local values
        setmetatable({}, { __gc = function()
          values = { (mw.is_dynamic { loop = true }), (mw.is_dynamic {}) }
        end })
        collectgarbage()
        assert.same({ false, 1 }, values)
        assert.matches("policy.lua:1: the policy's budget of instructions",
          (next(policy.errors)))
      end)
  end)

  it("cannot outlast its budget in a coroutine's memory", function()
    assert.matches("budget", answers([[
      local s = ("x"):rep(50000)
      coroutine.wrap(function()
        local t = {}
        for i = 1, 1e6 do t[i] = s .. i end
      end)()]], {})[1])
  end)

  it("is told of with its line, also where a program's function loops",
    function()
      with_file("local n = 0\n-- the mistake is below\n" ..
        "while n < 1 do n = n - 1 end\nreturn {}", function(policy, message,
          path)
          assert.is_nil(policy)
          assert.equal(path ..
            ":3: the policy's budget of instructions is spent", message)
        end)
      local function endless() while true do end end
      assert.matches("policy.lua:1: the policy's budget of instructions",
        answers("obj.f()", { f = endless })[1])
      assert.matches("policy.lua:1: the policy's budget of instructions",
        answers("while ctx.lookup(obj, 'x') == nil do end", {})[1])
    end)

  it("has a text that counts", function()
    local nested = ("{"):rep(100) .. ("}"):rep(100) .. ","
    for text, budget in pairs {
      [("a = 1 "):rep(400000)] = "budget of",
      ["local t = {" .. nested:rep(4500) .. "}"] = "budget of",
      ["#" .. ("x"):rep(2000000)] = "budget of",
    } do
      collectgarbage() -- else what goes meanwhile is given back
      collectgarbage()
      with_file(text, function(policy, message, path)
        assert.is_nil(policy)
        assert.truthy(message:find(path, 1, true))
        assert.truthy(message:find(budget, 1, true), message)
      end)
    end
    local zero = io.open "/dev/zero"
    if not zero then return end
    zero:close()
    local policy, message = mw.load_policy "/dev/zero"
    assert.is_nil(policy)
    assert.matches("^/dev/zero:", message)
  end)

  it("may begin with a mark and a line for the shell", function()
    with_file("\xEF\xBB\xBF#!/usr/bin/lua\nreturn {}", function(policy, message)
      assert.truthy(policy, message)
    end)
    with_file("#!/usr/bin/lua\nerror 'here'", function(policy, message)
      assert.is_nil(policy)
      assert.matches("policy.lua:2: here", message)
    end)
  end)

  it("gives handlers texts that are safe to show", function()
    local told
    mw.on_error(function(err) told = err end)
    for code, expected in pairs {
      ["error(setmetatable({}, { __tostring = function() while true do end " ..
        "end }))"] = "(error object is a table value)",
      ["error(setmetatable({}, { __tostring = function() return 'why' end }))"]
        = "why",
      ["error(setmetatable({}, { __name = 'x' }))"] =
        "(error object is a table value)",
      ["error()"] = _VERSION == "Lua 5.4" and
        "(error object is a nil value)" or "<no error object>",
    } do
      answers(code, {})
      assert.equal(expected, told)
    end
    mw.on_error(nil)
    assert.equal(1003, #answers("error(('x'):rep(100000), 0)", {})[1])
  end)

  it("has keys that are told by their type", function()
    with_file([[return { [setmetatable({}, { __tostring = function()
      while true do end end })] = 1 }]], function(policy, message)
      assert.is_nil(policy)
      assert.matches("unknown field '%(a table%)'", message)
    end)
  end)
end)

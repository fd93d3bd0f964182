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
    ["closers of coroutines"] = [[
      local mt = {}
      local o = setmetatable({}, mt)
      mt.__close = function() while true do end end
      local co = coroutine.create(function()
        local x <close> = o
        while true do end
      end)
      coroutine.resume(co)
      coroutine.close(co)]],
    ["closers of wrapped coroutines"] = [[
      local mt = {}
      local o = setmetatable({}, mt)
      mt.__close = function() while true do end end
      coroutine.wrap(function()
        local x <close> = o
        while true do end
      end)()]],
    ["closers that come later"] = [[
      local mt = {}
      local o = setmetatable({}, mt)
      mt.__close = function() while true do end end
      local x <close> = o
      while true do end]],
    ["backtracking patterns"] =
      [[local _ = (("a"):rep(5000)):find(("a*"):rep(20) .. "b")]],
    ["backtracking by another way"] = [[
      local s = ("a"):rep(2000)
      for _ in s:gmatch(".-.-.-b") do end]],
    ["patterns in substitutions"] =
      [[local s = ("a"):rep(3000); s:gsub("(a-)(a-)%1b", "")]],
    ["plain searches"] = [[
      local s = ("a"):rep(100000)
      while true do s:find(("a"):rep(1000) .. "b", 1, true) end]],
    ["long strings"] = [[local _ = ("x"):rep(1e10)]],
    ["repeating nothing"] = [[local _ = (""):rep(math.maxinteger)]],
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
    ["long moves"] = "table.move({}, 1, 1e9, 2, {})",
    ["long concatenations"] = [[
      local t = setmetatable({}, { __index = function() return "" end })
      table.concat(t, "", 1, 1e9)]],
    ["long inserts"] = [[
      local t = setmetatable({}, { __len = function() return 1e9 end })
      table.insert(t, 1, 1)]],
    ["long sorts"] = [[
      local t = setmetatable({}, { __len = function() return 1e8 end })
      table.sort(t, function() return true end)]],
    ["unpacking"] = "while true do pcall(table.unpack, {}, 1, 9e5) end",
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

  it("sorts of what the program has", function()
    local list = {}
    for i = 1, 300000 do list[i] = i * 7919 % 300007 end
    with_file([[return { rules = {
      { "sort", function(obj) table.sort(obj.list) end } } }]],
      function(policy)
        policy:use()
        assert.is_false((mw.is_dynamic { list = list }))
        assert.matches("budget", (next(policy.errors)))
        assert.equal(2 * 7919, list[2])
      end)
  end)

  it("metamethods that run when nobody counts", function()
    for _, name in ipairs { "__gc", "__close", "__mode" } do
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
      assert.is_false((mw.is_dynamic(function() return ("x"):rep(1e7) end)))
      assert.matches("budget of memory", (next(policy.errors)))
      assert.equal(2e5, #("x"):rep(2e5))
      assert.is_nil(debug.gethook())
    end)
  end)

  it("changes of the methods of strings", function()
    with_file([[
      assert(not getmetatable "")
      string.upper = function() return "changed" end
      assert(("x"):upper() == "changed")
      return {}
    ]], function(policy, message)
      assert.truthy(policy, message)
      assert.equal("X", ("x"):upper())
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

  it("cannot close later what could not go on", function()
    assert.matches("budget", answers([[
      if not co then
        local mt = {}
        local o = setmetatable({}, mt)
        mt.__close = function() while true do end end
        co = coroutine.create(function()
          local x <close> = o
          while true do end
        end)
        coroutine.resume(co)
      else
        coroutine.close(co)
        return "closed"
      end]], {}, {})[1])
  end)

  it("has no hold of the program's threads", function()
    local co = coroutine.create(function(obj)
      return mw.is_dynamic(obj)
    end)
    with_file(file [[
        assert(coroutine.running() == nil)
        assert(not pcall(coroutine.resume, obj.co))
        assert(not pcall(coroutine.close, obj.co))
        return "fine" ]], function(policy)
      policy:use()
      assert.same({ true, "fine", "x" }, { coroutine.resume(co, { co = co }) })
    end)
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

  it("is not asked by finalisers, which have no budget", function()
    with_file(file "while true do end", function(policy)
      policy:use()
      local value
      setmetatable({}, { __gc = function() value = mw.is_dynamic {} end })
      collectgarbage()
      assert.is_false(value)
      assert.matches("finalisers", (next(policy.errors)))
    end)
  end)

  it("leaves the program's own functions their strings", function()
    local text = ("a"):rep(3000)
    string.shout = string.upper -- luacheck: ignore 142
    local ok, message = pcall(function()
      assert.same({ "A" }, answers("return obj.f()",
        { f = function() return ("a"):shout() end }))
      with_file(file [[
        for _ = 1, 1000 do local t = { {}, {}, {} } end
        obj.collect()
        return "done" ]], function(policy)
        policy:use()
        local found
        setmetatable({}, { __gc = function()
          found = text:match "(.-)x" == nil
        end })
        assert.equal("done", (mw.is_dynamic { collect = collectgarbage }))
        assert.is_true(found)
      end)
    end)
    string.shout = nil -- luacheck: ignore 142
    assert.is_true(ok, message)
  end)

  for name, code in pairs {
    ["lengths that change"] = [[
      local n = 0
      local t = setmetatable({}, { __len = function()
        n = n + 1
        return 2e8 * n
      end })
      table.insert(t, 1, 1)]],
    ["long strings that are read"] = [[
      local f = ("b"):rep(60000)
      while true do
        utf8.len(f) string.packsize(f) tonumber(f)
        string.format("%.0s", f)
      end]],
    ["long sets"] = [[
      local s = ("b"):rep(60000)
      s:find("[" .. ("c"):rep(50000) .. "]x")]],
    ["sorting long strings"] = [[
      local s, t = ("b"):rep(50000), {}
      for i = 1, 2000 do t[i] = s end
      table.sort(t)]],
    ["comparing long strings"] = [[
      local f = ("b"):rep(60000)
      local g, x = f .. "y"
      while true do x = f < g end]],
    ["memory in coroutines"] = [[
      local s = ("x"):rep(50000)
      coroutine.wrap(function()
        local t = {}
        for i = 1, 1e6 do t[i] = s .. i end
      end)()]],
  } do
    it("cannot outlast its budget by " .. name, function()
      local start = os.clock()
      local message = answers(code .. " return 'done'", {})[1]
      assert.is_true(os.clock() - start < HANG)
      assert.matches("budget", message)
    end)
  end

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
    local labels = {}
    for i = 1, 50000 do labels[i] = ("goto a ::b%d:: "):format(i) end
    -- 450000 tables, which are too many instructions also where the measure of
    -- time is generous, and a table takes less memory
    local nested = ("{"):rep(100) .. ("}"):rep(100) .. ","
    for text, budget in pairs {
      [("a = 1 "):rep(400000)] = "budget of",
      ["local t = {" .. nested:rep(4500) .. "}"] = "budget of",
      [table.concat(labels)] = "budget of",
      ["#" .. ("x"):rep(2000000)] = "budget of",
    } do
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

  it("has methods of strings that the program added only by its functions",
    function()
      string.shout = string.upper -- luacheck: ignore 142
      local result = answers("return ('a'):shout()", {})[1]
      local other = answers("return obj.f()",
        { f = function() return ("a"):shout() end })[1]
      string.shout = nil -- luacheck: ignore 142
      assert.matches("nil value", result)
      assert.equal("A", other)
    end)

  it("has keys that are told by their type", function()
    with_file([[return { [setmetatable({}, { __tostring = function()
      while true do end end })] = 1 }]], function(policy, message)
      assert.is_nil(policy)
      assert.matches("unknown field '%(a table%)'", message)
    end)
  end)
end)

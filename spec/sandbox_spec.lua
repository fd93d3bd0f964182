local mw = require "moonwatch"
local shell = require "spec.support.shell"

local function write(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

-- Calls f with a policy of the file's text, or nil and a message, and the path.
local function with_file(text, f, env)
  shell.with_directory(function(directory)
    local path = directory .. "/policy.lua"
    write(path, text)
    local policy, message = mw.load_policy(path, env)
    f(policy, message, path)
  end)
end

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
      assert.is_true(time < 2, time)
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
        assert.is_true(time < 1, time)
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

local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"

-- More instructions than the time of a busy machine counts for.
local MANY = 1000000000

-- Loads a text in a box and calls it.
local function run(box, text, ...)
  return box:call(assert(box:load(text)), ...)
end

describe("a box", function()
  it("runs text with the globals that it is given", function()
    local env = { n = 5, double = function(x) return 2 * x end }
    local box = mw.sandbox { env = env }
    assert.same({ true, 10, nil, "x" },
      { run(box, "return double(n), nil, ...", "x") })
    assert.is_true(run(box, "n, own = 6, 7"))
    assert.same({ true, 6, 7 }, { run(box, "return n, own") })
    assert.same(5, env.n)
    assert.is_nil(env.own)
    assert.is_nil(rawget(_G, "own"))
    assert.same({ true, nil, nil },
      { run(mw.sandbox(), "return n, own") })
  end)

  it("has nothing that reaches out of it", function()
    local box = mw.sandbox()
    for _, name in ipairs { "io", "debug", "require", "load", "loadstring",
      "dofile", "loadfile", "package", "collectgarbage", "os.execute",
      "os.exit", "os.remove", "os.getenv", "os.setlocale", "string.dump",
      "math.random" } do
      assert.same({ true, nil }, { run(box, "return " .. name) }, name)
    end
    assert.same({ true, true },
      { run(box, "return _G._G == _G and _ENV == _G") })
    assert.same({ true, false }, { run(box, "return getmetatable ''") })
  end)

  it("takes text only, and says what is wrong with it", function()
    local box = mw.sandbox { name = "mod" }
    local f, message = box:load "x ="
    assert.is_nil(f)
    assert.matches("^mod:1: unexpected symbol", message)
    assert.is_nil((box:load(string.dump(function() end))))
    assert.matches("^other:2:",
      select(2, box:load("\nx =", "=other")))
    assert.matches('^%[string "x ="%]:1:', select(2, mw.sandbox():load "x ="))
  end)

  it("names the line and the budget that was spent", function()
    local box = mw.sandbox { name = "mod" }
    assert.same({ false,
      "mod:2: the sandbox's budget of instructions is spent" },
      { run(box, "\nwhile true do end") })
    assert.same({ false, "mod:1: the sandbox's budget of memory is spent" },
      { run(mw.sandbox { name = "mod", memory = 1000000, instructions = MANY },
        "local t = {} for i = 1, 1e9 do t[i] = { i } end") })
    box = mw.sandbox { name = "mod", memory = 1000000, instructions = MANY }
    for _, code in ipairs { "('x'):rep(1e9)", "pcall(string.rep, 'x', 1e9)",
      "local s = ('x'):rep(6e5) s = s .. s" } do
      assert.same({ false, "mod:3: the sandbox's budget of memory is spent" },
        { run(box, "\n\nlocal _ = 0 " .. code) })
    end
  end)

  it("names the chunk whose text spends the budget", function()
    local text = "return {" .. ("{}, "):rep(20000) .. "}"
    for what, limits in pairs {
      instructions = { name = "mod", instructions = 1000 },
      memory = { name = "mod", memory = 100000, instructions = MANY },
    } do
      local spent = ": the sandbox's budget of " .. what .. " is spent"
      local box = mw.sandbox(limits)
      collectgarbage() -- else what goes meanwhile is given back
      collectgarbage()
      assert.same({ nil, "mod" .. spent }, { box:load(text) })
      collectgarbage()
      collectgarbage()
      assert.same({ nil, "a/b.lua" .. spent }, { box:load(text, "@a/b.lua") })
    end
  end)

  it("names its own line when a function of the program's is cut", function()
    local function endless() while true do end end
    local box = mw.sandbox { name = "mod", env = { endless = endless } }
    assert.same({ false,
      "mod:2: the sandbox's budget of instructions is spent" },
      { run(box, "\nendless()\nreturn 1") })
    assert.matches("box_spec.lua:%d+: the sandbox's",
      select(2, box:call(endless)))
  end)

  it("does not raise when the budget is spent before a call begins", function()
    local spent = "the sandbox's budget of instructions is spent"
    local box = mw.sandbox { instructions = 1 }
    assert.matches(spent, select(2, box:call(function() end)))
    assert.same({ nil, '[string "return 1"]: ' .. spent },
      { box:load "return 1" })
    assert.is_false((mw.sandbox { memory = 1 }:call(function() return {} end)))
  end)

  it("gives errors as texts", function()
    local box = mw.sandbox { name = "mod" }
    assert.same({ false, "mod:1: no" }, { run(box, "error 'no'") })
    assert.same({ false, "no" }, { run(box, "error('no', 0)") })
    assert.same({ false, "5" }, { run(box, "error(5)") })
    for _, what in ipairs { "{}", "true", "print" } do
      assert.matches("^%(error object is a %a+ value%)$",
        select(2, run(box, ("error(%s)"):format(what))))
    end
    assert.matches(_VERSION == "Lua 5.4" and "is a nil value" or
      "no error object", select(2, run(box, "error(nil)")))
    local text = "error(setmetatable({}, { __tostring = function() %s end }))"
    assert.same({ false, "said" }, { run(box, text:format "return 'said'") })
    for _, body in ipairs { "while true do end", "error {}", "return {}" } do
      assert.same({ false, "(error object is a table value)" },
        { run(box, text:format(body)) })
    end
  end)

  it("counts instructions and the memory that is held", function()
    local box = mw.sandbox { instructions = 500000, memory = 100000 }
    assert.is_true(run(box, "for _ = 1, 1000 do end"))
    local instructions, bytes = box:used()
    assert.is_true(instructions >= 900 and instructions <= 500000, instructions)
    assert.is_true(bytes < 10000)
    assert.is_true(run(box, "local t = {} for i = 1, 500 do t[i] = i end"))
    assert.is_true(select(2, box:used()) >= 4000) -- less in Lua 5.5
    assert.is_false(run(box, "while true do end"))
    assert.equal(500000, (box:used()))
  end)

  it("may throw away more than it may hold", function()
    local box = mw.sandbox { memory = 1000000, instructions = 100000000 }
    local ok, message = run(box, [[
      for i = 1, 100 do local s = ("x"):rep(100000 + i) end
      return "done"]])
    assert.same({ true, "done" }, { ok, message })
    assert.is_true(select(2, box:used()) <= 2000000)
  end)

  it("gets more memory where garbage goes", function()
    local box = mw.sandbox { memory = 600000, instructions = MANY }
    assert.same({ true, 100000 }, { run(box, [[
      local s
      for i = 1, 200 do s = ("%s%d"):format(("x"):rep(99999), i % 10) end
      return #s]]) })
  end)

  it("may be called by what it calls", function()
    local box, f
    local function again(n) return n > 0 and select(2, box:call(f, n - 1)) end
    box = mw.sandbox { env = { again = again } }
    f = assert(box:load "local n = ... return n, again(n)")
    assert.same({ true, 3, 2 }, { box:call(f, 3) })
    local g = assert(box:load "while true do again2() end")
    run(box, "again2 = ...", function() box:call(g) end)
    assert.is_false((box:call(g)))
  end)

  it("leaves the program's hook, strings and memory alone", function()
    local hits = 0
    local function hook() hits = hits + 1 end
    debug.sethook(hook, "", 1)
    local ok = run(mw.sandbox(), "while true do end")
    local now, mask, count = debug.gethook()
    debug.sethook()
    assert.is_false(ok)
    assert.same({ hook, "", 1 }, { now, mask, count })
    assert.is_true(hits > 0 and hits < 10000)
    assert.equal(string.rep, ("x").rep)
    assert.equal(20000000, #("x"):rep(20000000))
  end)

  it("works in coroutines, whose functions do not yield through it", function()
    local box = mw.sandbox { env = { yield = coroutine.yield } }
    local co = coroutine.wrap(function()
      coroutine.yield(run(box, "return 1"))
      return run(box, "yield(1)")
    end)
    assert.same({ true, 1 }, { co() })
    local ok, message = co()
    assert.is_false(ok)
    assert.matches("yield", message)
    assert.same({ true, 2 }, { run(box, "return 2") })
  end)

  it("has coroutines", function()
    assert.same({ true, true, 1, "suspended", true, 2, "dead", true },
      { run(mw.sandbox(), [[
        local co = coroutine.create(function(x)
          assert(coroutine.isyieldable() and coroutine.running())
          coroutine.yield(x)
          return 2
        end)
        local r = { coroutine.resume(co, 1) }
        local s = coroutine.status(co)
        local q = { coroutine.resume(co) }
        return r[1], r[2], s, q[1], q[2], coroutine.status(co),
          coroutine.close(co)]]) })
  end)

  it("counts what coroutines do, whoever has resumed them before", function()
    local box = mw.sandbox { instructions = 10000, name = "mod" }
    local loop = [[
      for i = 1, 2000 do end
      coroutine.yield()
      while true do end]]
    local _, wrapped = run(box,
      "return coroutine.wrap(function() " .. loop .. " end)")
    wrapped()
    assert.same({ false,
      "mod:3: the sandbox's budget of instructions is spent" },
      { box:call(wrapped) })
    local co = coroutine.create(assert(load(loop)))
    coroutine.resume(co)
    local hook = print
    debug.sethook(co, hook, "", 1000000)
    assert.matches("instructions is spent",
      select(2, run(box, "coroutine.resume(...)", co)))
    assert.equal(hook, (debug.gethook(co)))
  end)

  it("has functions that do what Lua's do", function()
    local code = [[
      local log = {}
      local function note(...) log[#log + 1] = table.pack(...) end
      note(pcall(function() return table.insert({}, 5, 1) end))
      note(pcall(function() return table.move({}, 1, 2) end))
      local t = { 5, 3, 4 }
      table.sort(t) note(table.unpack(t))
      table.sort(t, function(a, b) return a > b end) note(table.unpack(t))
      table.insert(t, 1, 9) table.insert(t, 0) note(table.concat(t, ",", 2, 4))
      note(table.remove(t, 1), table.remove(t), table.remove({}), #t)
      note(table.unpack(table.move(t, 1, 3, 2)))
      note(table.unpack(table.move({ 1, 2, 3 }, 2, 3, 1)))
      note(table.unpack({ 1, 2, 3 }, 2), table.unpack({}, 1, 3))
      note(("key = value"):match "(%w+)%s*=%s*(%w+)")
      note(("abc"):gsub("%w", { a = 1, b = false }))
      note(("abc"):gsub("%w", setmetatable({}, {
        __index = function(_, key) return key:upper() end })))
      for w in ("one two"):gmatch "^?%a+" do note(w) end
      for p, c in utf8.codes "aé" do note(p, c) end
      note(utf8.codepoint("aé", 1, -1))
      note(utf8.len "aé", utf8.offset("aé", 2))
      note(("abc"):byte(1, -1)) note(("abc"):byte(-2)) note(("abc"):sub(2, -1))
      note(select("#", 1, nil), select(-1, 1, 2)) note("10" + 5, "0x10" * 1)
      note(("x"):rep(3, "-"), ("x"):rep(-1)) note(next {}, next { 7 })
      note(xpcall(error, function(m) return m .. "!" end, "m"))
      note(string.unpack("<i2z", string.pack("<i2z", 7, "s")))
      note(pcall(function() return string.rep() end))
      note(pcall(function() return ("x"):rep({}) end))
      note(pcall(function() return next({}, "no") end))
      note(pcall(function() return ipairs() end)) note(rawlen { 1, 2 })
      note(rawequal("a", "a"), rawget({ 5 }, 1), #rawset({}, 1, 1))
      note(math.max(1, 5), math.tointeger "8", tonumber("z", 36), 7 // 2)
      for k, v in pairs(setmetatable({ 1 }, { __pairs = function()
        return function(_, i) if not i then return 1, 2 end end
      end })) do note(k, v) end
      return log]]
    local expected = load(code)()
    assert.same(expected, select(2, run(mw.sandbox(), code)))
  end)

  it("has Lua's functions while the globals are tracked", function()
    local box
    mw.transaction({ globals = _G }, function()
      mw.track(string)
      box = mw.sandbox()
    end)
    mw.untrack(string)
    assert.same({ true, 5, "xx" },
      { run(box, "return select(2, next { 5 }), string.rep('x', 2)") })
  end)

  it("replaces Lua's own functions in what it is given", function()
    local box = mw.sandbox { env = { rep = string.rep, str = string,
      co = coroutine.create, mine = print } }
    assert.same({ true, true, true, true },
      { run(box, "return rep == string.rep, str == string, mine == print") })
    assert.is_false(run(box, "while true do co(rep) end"))
  end)

  it("prints as much as it may compute", function()
    local bytes = 0
    local original = print
    local ok
    _G.print = function(...)
      for i = 1, select("#", ...) do bytes = bytes + #select(i, ...) end
    end
    pcall(function()
      ok = run(mw.sandbox(), [[
        local s = ("x"):rep(60000)
        while true do print(s, s, nil, 5) end]])
    end)
    _G.print = original
    assert.is_false(ok)
    assert.is_true(bytes > 0 and bytes < 2000000, bytes)
  end)

  it("reads the text within its budget", function()
    local box = mw.sandbox { instructions = 100000, name = "mod" }
    local f, message = box:load(("a = 1 "):rep(100000))
    assert.is_nil(f)
    assert.matches("budget", message)
    box = mw.sandbox { memory = 100000, name = "mod", instructions = MANY }
    collectgarbage()
    f, message = box:load(("a = 1 "):rep(50000))
    assert.is_nil(f)
    assert.matches("the sandbox's budget of memory is spent", message)
  end)

  it("has its budget in finalisers, too", function()
    local box, answer = mw.sandbox { name = "mod" }, nil
    local f = assert(box:load "while true do end")
    setmetatable({}, { __gc = function() answer = { box:call(f) } end })
    collectgarbage()
    assert.same({ false,
      "mod:1: the sandbox's budget of instructions is spent" }, answer)
  end)

  it("refuses misuse", function()
    for _, each in ipairs {
      { "bad argument #1 to 'sandbox' (table expected, got number)",
        mw.sandbox, 5 },
      { "bad argument #1 to 'sandbox' (unknown option 'x')",
        mw.sandbox, { x = 1 } },
      { "bad argument #1 to 'sandbox' (option 'memory' is not a count)",
        mw.sandbox, { memory = 0 } },
      { "bad argument #1 to 'sandbox' (option 'instructions' is not a count)",
        mw.sandbox, { instructions = 1.5 } },
      { "bad argument #1 to 'sandbox' (option 'env' is not a table)",
        mw.sandbox, { env = 1 } },
      { "bad argument #1 to 'sandbox' (option 'name' is not a string)",
        mw.sandbox, { name = 1 } },
    } do
      misuse(table.unpack(each))
    end
    local box = mw.sandbox()
    assert.matches("bad argument #1 to 'load' %(string expected, got nil",
      error_of(box.load, box, nil))
    assert.matches("bad argument #2 to 'load' %(string expected, got table",
      error_of(box.load, box, "", {}))
    assert.matches("bad argument #1 to 'call' %(function expected, got nil",
      error_of(box.call, box, nil))
    assert.matches("calling 'used' on bad self", error_of(box.used, {}))
    assert.is_false(pcall(function() box.x = 1 end))
    assert.is_false(getmetatable(box))
  end)
end)

describe("the metatables that code in a box gets", function()
  it("are the program's by views, and its own as they are", function()
    local class = { __name = "Orc", inner = {} }
    class.__index = class
    function class.hit(orc) orc.hp = orc.hp - 1 end
    for _, object in ipairs { setmetatable({ hp = 9 }, class),
      mw.track(setmetatable({ hp = 9 }, class)) } do
      local box = mw.sandbox { env = { orc = object } }
      for _, text in ipairs { "getmetatable(orc).hit = 1",
        "getmetatable(orc).__index.hit = 1", "getmetatable(orc).inner.x = 1",
        "rawset(getmetatable(orc), 'hit', 1)",
        "table.insert(getmetatable(orc), 1)",
        "setmetatable(getmetatable(orc), {})",
        "getmetatable(orc).inner = nil",
        "rawget(getmetatable(orc), 'inner').x = 1" } do
        local ok, message = run(box, text)
        assert.is_false(ok, text)
        assert.truthy(message:find "read%-only" or message:find "protected",
          message)
      end
      assert.same({ true, 8, true, "Orc", "Orc" }, { run(box, [[
        orc:hit()
        local mt = getmetatable(orc)
        local other = setmetatable({ hp = 2 }, mt)
        other:hit()
        return orc.hp, getmetatable(other) == mt and other.hp == 1,
          mt.__name, rawget(mt, "__name")]]) })
      assert.same({ true, true, 5 }, { run(box, [[
        local Own = {}
        Own.__index = Own
        local own = setmetatable({}, Own)
        getmetatable(own).n = 5
        return getmetatable(own) == Own, own.n]]) })
    end
    assert.same({}, class.inner)
    assert.is_nil(rawget(class, "x"))
  end)

  it("have no __gc and no __close", function()
    for _, name in ipairs { "__gc", "__close" } do
      local ok, message = run(mw.sandbox(),
        ("setmetatable({}, { %s = print })"):format(name))
      assert.is_false(ok)
      assert.matches("a sandbox may not set '" .. name, message)
    end
    assert.is_true(run(mw.sandbox(), "setmetatable({}, { __mode = 'k' })"))
  end)

  it("are nil for a watched object without a class", function()
    local object = mw.track { n = 1 }
    assert.same({ true, nil, "n", 1 }, { run(mw.sandbox {
      env = { object = object } }, [[
        local key, value = next(object)
        return getmetatable(object), key, value]]) })
  end)
end)

describe("guards that a box's write calls", function()
  it("run outside its budget", function()
    local object, heard = { n = 0 }, 0
    mw.watch(object, function()
      for _ = 1, 100000 do end
      heard = heard + #("x"):rep(2000000)
      assert(("x").rep == string.rep)
    end, { once = false })
    local box = mw.sandbox { instructions = 20000, memory = 100000,
      env = { object = object } }
    local ok, message = run(box, "for i = 1, 10 do object.n = i end")
    assert.is_true(ok, message)
    assert.equal(20000000, heard)
    assert.equal(10, object.n)
    assert.is_false(run(box, "while true do object.n = 1 end"))
    assert.is_nil(debug.gethook())
  end)

  it("have all phases, and handlers of errors", function()
    local object, heard = { n = 0 }, {}
    local function work(name)
      return function()
        for _ = 1, 100000 do end
        heard[#heard + 1] = name
      end
    end
    mw.watch(object, work "check", { phase = "check" })
    mw.watch(object, work "after", { phase = "after" })
    mw.watch(object, work "deep", { deep = true })
    mw.watch(object, function() error "guard" end)
    mw.on_error(work "error")
    local ok, message = run(mw.sandbox { instructions = 20000,
      env = { object = object } }, "object.n = 1 return 'done'")
    mw.on_error(nil)
    assert.is_true(ok, message)
    table.sort(heard)
    assert.same({ "after", "check", "deep", "error" }, heard)
  end)

  it("may ask a box again", function()
    local object = { n = 0 }
    local box = mw.sandbox { env = { object = object } }
    local inner
    mw.watch(object, function()
      inner = { run(box, "while true do end") }
    end, { once = false })
    assert.same({ true, "done" }, { run(box, "object.n = 1 return 'done'") })
    assert.is_false(inner[1])
  end)
end)

describe("a box's memory", function()
  it("may be spent by a stack that grows", function()
    for memory = 10000, 400000, 30000 do
      local box = mw.sandbox { memory = memory, instructions = 1000000 }
      local f = assert(box:load "local function f() return 1 + f() end f()")
      assert.is_false((box:call(f)))
    end
  end)
end)

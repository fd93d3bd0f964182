-- The command `moonwatch`, as a process.

local shell = require "spec.support.shell"

local lua = os.getenv "LUA" or "lua5.4"
local command = lua .. " " .. assert(os.getenv "PWD") .. "/command/main.lua "

local function write(path, text)
  local file = assert(io.open(path, "wb"))
  file:write(text)
  file:close()
end

local function text_of(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

-- Calls f(call) in a directory with the files.  call(...) runs a command line
-- there and returns its standard output, its standard error and its status.
local function with_files(files, f)
  shell.with_directory(function(path)
    for name, text in pairs(files) do write(path .. "/" .. name, text) end
    f(function(line)
      local _, _, status = shell.run("(cd %s && %s > out 2> err)", path, line)
      return text_of(path .. "/out"), text_of(path .. "/err"), status
    end, path)
  end)
end

local function run(files, line)
  local output, errors, status
  with_files(files, function(call)
    output, errors, status = call(command .. line)
  end)
  return output, errors, status
end

describe("the moonwatch command", function()
  it("tells its version", function()
    local version = require "moonwatch".version
    assert.same({ "moonwatch " .. version .. "\n", "", 0 },
      { run({}, "version") })
  end)

  it("helps, and teaches each command by an example", function()
    local output, errors, status = run({}, "--help")
    assert.same({ "", 0 }, { errors, status })
    assert.matches("^Usage: moonwatch", output)
    for _, name in ipairs { "run", "dynamism", "diff", "report", "version" } do
      assert.matches("\n   " .. name .. " ", output)
      local help = run({}, name .. " --help")
      assert.matches("^Usage: moonwatch " .. name, help)
      assert.matches("\nExample:\n.*   moonwatch " .. name, help)
    end
  end)

  it("ends with status 2 and its usage when it is called wrongly", function()
    for _, arguments in ipairs { "", "nonsense", "version more", "run",
      "run --why a..b a.lua", "run --why '' a.lua", "run --why 5 a.lua",
      "run --why a[ a.lua", "run --why", "run --why hp",
      "run --nonsense a.lua", "run --trace", "diff a.lua",
      "dynamism", "report", "--nonsense" } do
      local output, errors, status = run({ ["a.lua"] = "" }, arguments)
      assert.same({ "", 2 }, { output, status }, arguments)
      assert.matches("^Usage: moonwatch.*\nmoonwatch: [^\n]+\n", errors)
    end
  end)

  it("says what to install when argparse is missing", function()
    with_files({ ["argparse.lua"] = "error 'not here'" }, function(call, path)
      local output, errors, status = call("LUA_PATH=\"" .. path ..
        "/?.lua;$LUA_PATH\" " .. command .. "version")
      assert.same({ "", 2 }, { output, status })
      assert.matches("^moonwatch: the command needs argparse[^\n]*\n$", errors)
    end)
  end)
end)

describe("moonwatch run", function()
  -- Checks that the script does the same as with Lua alone.
  local function check_same(text, arguments, options)
    local line = "script.lua " .. (arguments or "")
    with_files({ ["script.lua"] = text }, function(call)
      local out, err, status = call(lua .. " " .. line)
      local got = { call(("%s run %s %s"):format(command, options or "",
        line)) }
      if text:find "endless" then -- the stack has a little less room
        err, got[2] = err:gsub("%d+ levels", ""), got[2]:gsub("%d+ levels", "")
      end
      assert.same({ out, err, status }, got, text)
    end)
  end

  it("runs a script as Lua does", function()
    for _, text in ipairs {
      "print(...)", "print(arg[0], arg[1], arg[-1], #arg, arg[-2])",
      "print(select('#', ...))", "return 5", "io.stderr:write 'x'", "",
      "#!/bin/sh\nprint(debug.getinfo(1).short_src)",
      "x = 1 print(_G.x, _ENV.x)",
      "print(coroutine.isyieldable(), select(2, coroutine.running()))",
      "local t <close> = setmetatable({}, { __close = function() " ..
        "print 'shut' end }) os.exit(4, true)",
      "setmetatable({}, { __gc = function() print 'closed' end })",
    } do
      check_same(text, "one 'two words' --three -h -- -x --report=y")
    end
  end)

  it("fails as Lua does", function()
    for _, text in ipairs {
      "error 'text'", "error({})", "error()", "error(nil)", "error(5)",
      "error(setmetatable({}, { __tostring = function() return 'o' end }))",
      "error(setmetatable({}, { __tostring = function() return {} end }))",
      "error('no place', 0)", "local x = nil + 1", "syntax error",
      "local function f() error 'deep' end\nlocal function g() f() end\ng()",
      "local function f() error 'tail' end\nreturn f()",
      "local function f(n) if n > 0 then f(n - 1) end error 'far' end\nf(99)",
      "error 'x\\nstack traceback:\\n\\t...\\t(skipping 5 levels)\\n\\ty'",
      "local function f() return 1 + f() end f() -- endless",
      "coroutine.wrap(function() error 'in a coroutine' end)()",
      "os.exit(7)", "os.exit(false)", "os.exit(true)", "os.exit(0, true)",
      "require 'nothing_of_that_name' ",
      "local t <close> = setmetatable({}, { __close = error }) error 'x'",
      "coroutine.yield()",
      "setmetatable({}, { __gc = function() print 'shut' end }) error 'x'",
    } do
      check_same(text)
      check_same(text, "", "--report page.html")
    end
    for n = 12, 28 do -- Lua skips functions in a traceback of more than 21
      check_same("local function f(n) if n > 0 then f(n - 1) end error 'x' " ..
        "end f(" .. n .. ")")
    end
    local errors = select(2, run({}, "run nothing.lua"))
    assert.equal(errors, select(2, run({}, "run nothing.lua --help")))
    assert.matches("^[^\n]+: cannot open nothing.lua", errors)
  end)

  it("reads a script from standard input", function()
    with_files({ ["script.lua"] = "print(arg[0], ...)" }, function(call)
      assert.same({ call(lua .. " - a < script.lua") },
        { call(command .. "run - a < script.lua") })
    end)
  end)

  local SCRIPT = [[
    local mw = require "moonwatch"
    local hero = { hp = 1 }
    mw.watch(hero, print, { once = false })
    hero.hp = 2
    do local s <close> = mw.timed "ai" end
    if ... == "fail" then error "failed" end
    if ... == "exit" then os.exit(3) end
    if ... == "wrap" then coroutine.wrap(os.exit)(4) end
  ]]

  it("writes a trace and a page, however the script ends", function()
    for how, expected in pairs { fail = 1, exit = 3, wrap = 4, good = 0 } do
      with_files({ ["game.lua"] = SCRIPT }, function(call, path)
        local _, _, status = call(command ..
          "run --trace=t.json --report page.html game.lua " .. how)
        assert.equal(expected, status)
        local trace = text_of(path .. "/t.json")
        assert.matches('"name":"game.lua"', trace)
        assert.matches('"name":"ai"', trace)
        assert.matches('"cat":"watch"', trace)
        local page = text_of(path .. "/page.html")
        assert.matches("^<!DOCTYPE html>.*\"name\":\"ai\".*</html>\n$", page)
      end)
    end
  end)

  it("fails when it cannot write, after the script has run", function()
    local output, errors, status = run({ ["a.lua"] = "print 'ran'" },
      "run --trace nowhere/t.json a.lua")
    assert.same({ "ran\n", 1 }, { output, status })
    assert.matches("^moonwatch: cannot write 'nowhere/t.json'[^\n]*\n$", errors)
    errors, status = select(2, run({ ["a.lua"] = "os.exit(5)" },
      "run --report nowhere/t.json a.lua"))
    assert.equal(5, status)
    assert.matches("^moonwatch: cannot write 'nowhere/t.json'[^\n]*\n$", errors)
  end)

  it("uses a policy", function()
    local files = {
      ["policy.lua"] = [[return {
        rules = { { "boss", function(obj) return obj.boss end } } }]],
      ["bad.lua"] = "return 5",
      ["a.lua"] = "print(require 'moonwatch'.is_dynamic { boss = true })",
    }
    assert.same({ "true\tboss\n", "", 0 },
      { run(files, "run --policy policy.lua a.lua") })
    for _, name in ipairs { "bad.lua", "nothing.lua" } do
      local output, errors, status = run(files,
        "run --policy " .. name .. " a.lua")
      assert.same({ "", 1 }, { output, status })
      assert.matches("^moonwatch: .*" .. name .. "[^\n]*\n$", errors)
    end
  end)
end)

describe("moonwatch run --why", function()
  local SCRIPT = [[
game = { player = { hp = 10 }, list = { { x = 1 } } }
local function hit(n)
  game.player.hp = game.player.hp - n
end
hit(3)
print "ran"
if ... == "nil" then game.player = nil end
if ... == "fail" then game.player = nil print(game.player.hp) end
if ... == "exit" then os.exit(3) end
if ... == "wrap" then coroutine.wrap(os.exit)(4) end
]]

  local function why(field, more)
    local output, errors, status = run({ ["a.lua"] = SCRIPT },
      ("run --why '%s' a.lua %s"):format(field, more or ""))
    return (output:gsub("^ran\n", "")), errors, status
  end

  it("says who wrote a field", function()
    for _, field in ipairs { "game.player.hp", "_G.game.player.hp",
      'game["player"].hp', '_G["game"].player["hp"]' } do
      assert.same({ "hp of game.player: 10 -> 7, a.lua:3\n", "", 0 },
        { why(field) })
    end
    assert.same({ "game of _G: nil -> game, a.lua:1\n", "", 0 },
      { why "game" })
  end)

  it("says so however the script ends", function()
    for how, expected in pairs { exit = 3, wrap = 4 } do
      assert.same({ "hp of game.player: 10 -> 7, a.lua:3\n", "", expected },
        { why("game.player.hp", how) })
    end
    local output, errors, status = why("game.player", "fail")
    assert.matches("^player of game: table#%d+ %-> nil, a.lua:8\n$", output)
    assert.matches("attempt to index a nil value", errors)
    assert.equal(1, status)
  end)

  it("says why there is no field", function()
    local output = why("game.player.hp", "nil")
    assert.matches("^game.player is nil:\nplayer of game: table#%d+ %-> " ..
      "nil, a.lua:7\n$", output)
    assert.equal("game.player.hp is a number:\n" ..
      "hp of game.player: 10 -> 7, a.lua:3\n", (why "game.player.hp.x.y"))
    assert.equal("game.nothing is nil, and was not written since game was:\n" ..
      "game of _G: nil -> game, a.lua:1\n", (why "game.nothing.x"))
  end)

  it("says what a field came with", function()
    assert.equal("game.list[1].x was not written since game was:\n" ..
      "game of _G: nil -> game, a.lua:1\n", (why "game.list[1].x"))
  end)

  it("says that nobody wrote a field", function()
    for _, field in ipairs { "nothing", "string.format", "nothing.at.all" } do
      local output, errors, status = why(field)
      assert.same({ "", 0 }, { output, status })
      assert.matches("^moonwatch: nobody wrote '" .. field .. "' [^\n]*\n$",
        errors)
    end
    assert.equal(3, select(3, why("nothing", "exit")))
  end)

  it("says how far it has looked for who deleted a field", function()
    local files = { ["a.lua"] = [[
      game = { player = { target = {}, hp = 1 }, n = 0 }
      game.player.target, game.player.hp, gone = nil, 2, 1
      gone = nil
      for i = 1, 70000 do game.n = i end
    ]] }
    local function output(field)
      local out, errors = run(files, "run --why " .. field .. " a.lua")
      return out .. errors
    end
    local last = " was not written in the last 65536 writes"
    local game = "game of _G: nil -> game, a.lua:1\n"
    assert.equal("game.player.target" .. last .. "; game was:\n" .. game,
      output "game.player.target")
    assert.equal("game.player.target is nil, and" .. last ..
      "; game was:\n" .. game, output "game.player.target.x")
    assert.equal("moonwatch: 'gone'" .. last .. " (a global, or a field " ..
      "below globals)\n", output "gone")
    assert.equal("game.player was not written since game was:\n" .. game,
      output "game.player")
    assert.equal("hp of game.player: 1 -> 2, a.lua:2\n",
      output "game.player.hp")
  end)

  it("knows an inherited false from nil", function()
    assert.equal("unit.on is a boolean, and was not written since unit " ..
      "was:\nunit of _G: nil -> unit, a.lua:2\n", (run({ ["a.lua"] = [[
        local Unit = { on = false }
        unit = setmetatable({}, { __index = Unit })
      ]] }, "run --why unit.on.x a.lua")))
  end)

  it("knows the globals of a script that takes `_G` away", function()
    for _, option in ipairs { "", "--transaction" } do
      local output, errors, status = run({ ["a.lua"] = [[
        game = { hp = 1 }
        game.hp = 2
        _G = nil
        error "failed"
      ]] }, ("run %s --why game.hp a.lua"):format(option))
      assert.matches("^hp of game: 1 %-> 2, a.lua:2", output)
      assert.matches("failed\nstack traceback:[^:]*: in [^:]*\n" ..
        "\ta.lua:4: in main chunk\n\t%[C%]: in %?\n$", errors)
      assert.equal(1, status)
    end
  end)

  it("goes together with the other options", function()
    local text = run({ ["a.lua"] = SCRIPT },
      "run --transaction --why game.player.hp --trace t.json a.lua")
    assert.equal('ran\nhp of game.player: 10 -> 7, a.lua:3, in a.lua, ' ..
      'transaction "a.lua"\n', text)
    text = run({ ["a.lua"] = SCRIPT },
      "run --transaction --why game.player a.lua fail")
    assert.matches("player of game: table#%d+ %-> nil, a.lua:8, rolled back\n$",
      text)
  end)

  it("tells causes of what a script that failed wrote", function()
    local output, errors, status = run({ ["a.lua"] = [[
      local mw = require "moonwatch"
      unit = { hp = 5 }
      mw.watch(unit, function(_, _, _, new) unit.dead = new < 1 end,
        { key = "hp", once = false, phase = "after" })
      unit.hp = 0
      error "no"
    ]] }, "run --transaction --why unit.dead a.lua")
    assert.equal("dead of unit: nil -> true, a.lua:3, rolled back\n" ..
      "  because hp of unit: 5 -> 0, a.lua:5, rolled back\n", output)
    assert.matches("a.lua:6: no", errors)
    assert.matches("\nmoonwatch: a.lua:3: attempt to index a nil value",
      errors) -- of the guard, which hears of the rollback
    assert.equal(1, status)
  end)

  it("tells causes, scopes, origins and transactions of the script", function()
    local text = run({ ["a.lua"] = [[
      local mw = require "moonwatch"
      unit = { hp = 5 }
      mw.watch(unit, function() unit.dead = true end,
        { key = "hp", once = true })
      mw.origin("Ann", mw.transaction, "shot", function() unit.hp = 0 end)
      mw.transaction("failed", function() unit.hp = -1 error "no" end)
    ]] }, "run --why unit.dead a.lua")
    assert.equal('dead of unit: nil -> true, a.lua:3, transaction "shot", ' ..
      'by Ann\n  because hp of unit: 5 -> 0, a.lua:5, transaction "shot", ' ..
      'by Ann\n', text)
    text = run({ ["a.lua"] = [[
      local mw = require "moonwatch"
      unit = { hp = 5 }
      mw.transaction("failed", function() unit.hp = -1 error "no" end)
    ]] }, "run --why unit.hp a.lua")
    assert.equal('hp of unit: 5 -> -1, a.lua:3, transaction "failed", ' ..
      'rolled back\n', text)
  end)

  it("lets a script run as ever", function()
    for _, text in ipairs { "error 'x'", "error {}", "os.exit(7)", "x = 1",
      "setmetatable(_G, { __index = function(_, k) error(k) end }) x = 1",
      "for k, v in pairs(_G) do assert(rawget(_G, k) == v) end x = print" } do
      with_files({ ["script.lua"] = text }, function(call)
        local line = "script.lua a b"
        local output, errors, status = call(lua .. " " .. line)
        local out, err, its = call(command .. "run --why x " .. line)
        assert.equal(status, its, text)
        assert.equal(output, (out:gsub("x of _G: [^\n]*\n", "")))
        err = err:gsub("moonwatch: nobody [^\n]*\n", "")
        assert.equal((errors:gsub("global 'error'", "function 'error'")),
          (err:gsub("global 'error'", "function 'error'")))
      end)
    end
  end)
end)

describe("moonwatch run --transaction", function()
  -- The script sees at its end what is left.
  local BEGIN = [[
    local mw = require "moonwatch"
    before, config = 1, { speed = 1, sub = { x = 1 } }
    local own = mw.track { n = 1 }
    local last = setmetatable({}, { __gc = function()
      print(before, config and config.speed, own.n, new)
    end })
    own.n, before, new, config.sub.x = 2, 2, 2, 2
  ]]

  local function result(rest)
    local output, _, status = run({ ["a.lua"] = BEGIN .. rest },
      "run --transaction a.lua")
    return { output, status }
  end

  it("takes back all that a failing script wrote", function()
    assert.same({ "nil\tnil\t1\tnil\n", 1 }, result "error 'failed'")
    assert.same({ "nil\tnil\t1\tnil\n", 3 }, result "os.exit(3, true)")
    assert.same({ "nil\tnil\t1\tnil\n", 1 }, result "os.exit(false, true)")
  end)

  it("takes back writes to tables below globals", function()
    local output, _, status = run({ ["a.lua"] = [[
      world = { hero = { hp = 10 } }
      local hero = world.hero
      setmetatable({}, { __gc = function() print(hero.hp) end })
      hero.hp = 3
      error "failed"
    ]] }, "run --transaction a.lua")
    assert.same({ "10\n", 1 }, { output, status })
  end)

  it("keeps all that a good script wrote", function()
    assert.same({ "2\t1\t2\t2\n", 0 }, result "")
    assert.same({ "2\t1\t2\t2\n", 0 }, result "os.exit(0, true)")
    assert.same({ "2\t1\t2\t2\n", 0 }, result "return")
  end)

  it("lets a script use globals as ever", function()
    local output, errors, status = run({ ["a.lua"] = [[
      list = { 3, 1, 2 }
      table.sort(list)
      table.insert(list, 4)
      print(#list, table.concat(list, ","), next(list), rawlen(list))
      for name, value in pairs(_G) do assert(rawget(_G, name) == value) end
      assert(next(_G) ~= nil)
      setmetatable(_G, { __index = function(_, name)
        error("no global " .. name)
      end })
      print(pcall(function() return nothing end))
      math.mine = 1
      Class = { __index = { f = function(self) return self.x end } }
      object = setmetatable({ x = 5 }, Class)
      print(object:f(), getmetatable(object) == Class)
      print(require "other", package.loaded.other)
    ]], ["other.lua"] = "return 7" }, "run --transaction a.lua")
    assert.same({ "", 0 }, { errors, status })
    assert.equal("4\t1,2,3,4\t1\t4\nfalse\ta.lua:8: no global nothing\n" ..
      "5\ttrue\n7\t7\n", output)
  end)
end)

describe("moonwatch report", function()
  it("makes of a trace the page that --report writes", function()
    with_files({ ["a.lua"] = [[
      local mw = require "moonwatch"
      mw.instant("</script><b>", { text = "<>" })
    ]] }, function(call, path)
      call(command .. "run --trace t.json --report expected.html a.lua")
      assert.same({ "", "", 0 }, { call(command .. "report t.json") })
      assert.equal(text_of(path .. "/expected.html"),
        text_of(path .. "/report.html"))
      assert.same({ "", "", 0 },
        { call(command .. "report t.json -o other.html") })
      assert.equal(text_of(path .. "/report.html"),
        text_of(path .. "/other.html"))
    end)
  end)

  it("refuses what is no trace, and leaves a page as it was", function()
    local files = { ["p.html"] = "page", ["no.json"] = "{}",
      ["cut.json"] = '{"traceEvents":[', ["dir"] = nil,
      ["t.json"] = '{"traceEvents":[]}' }
    for _, line in ipairs { "no.json", "cut.json", "nothing.json", "." } do
      with_files(files, function(call, path)
        local output, errors, status =
          call(command .. "report " .. line .. " -o p.html")
        assert.same({ "", 1 }, { output, status })
        assert.matches("^moonwatch: [^\n]+\n$", errors)
        assert.equal("page", text_of(path .. "/p.html"))
      end)
    end
    local errors, status = select(2, run(files,
      "report t.json -o nowhere/p.html"))
    assert.equal(1, status)
    assert.matches("^moonwatch: nowhere/p.html[^\n]+\n$", errors)
  end)
end)

describe("moonwatch dynamism", function()
  it("tells what varies between examples", function()
    local output, errors, status = run({
      ["a.lua"] = [[return { kind = "move", to = { x = 1, y = 0.5 }, n = {} }]],
      ["b.lua"] = [[return { kind = "move", to = { x = 5 }, n = { 1, 2 } }]],
    }, "dynamism a.lua b.lua")
    assert.same({ "", 0 }, { errors, status })
    assert.equal([[
L['kind']     constant  "move"
L['n']        varying   table of length 0 to 2
L['n'][1]     varying   integer 1 or absent
L['n'][2]     varying   integer 2 or absent
L['to']['x']  varying   integer 1 to 5
L['to']['y']  varying   float 0.5 or absent
]], output)
  end)

  it("fails for what is no example", function()
    local files = { ["a.lua"] = "return {}", ["text.lua"] = "return 'x'",
      ["none.lua"] = "", ["bad.lua"] = "return {", ["fails.lua"] = "error 'x'",
      ["calls.lua"] = "return { os.getenv 'HOME' }",
      ["code.lua"] = string.dump(function() return {} end) }
    for name in pairs(files) do
      if name ~= "a.lua" then
        local output, errors, status = run(files, "dynamism a.lua " .. name)
        assert.same({ "", 1 }, { output, status }, name)
        assert.matches("^moonwatch: [^\n]*" .. name .. "[^\n]*\n$", errors)
      end
    end
  end)
end)

describe("moonwatch diff", function()
  it("prints the operations that make one value the other", function()
    assert.same({ [=[
[
  {"op":"add","path":"/bag/1","value":{"name":"a\"\\\u000a","w":1.5}},
  {"op":"replace","path":"/hp","value":7},
  {"op":"add","path":"/on","value":[true,[]]}
]
]=], "", 0 }, { run({
      ["a.lua"] = [[return { hp = 10, bag = { "key" } }]],
      ["b.lua"] = [[return { hp = 7, on = { true, {} },
        bag = { "key", { w = 1.5, name = 'a"\\\n' } } }]],
    }, "diff a.lua b.lua") })
  end)

  it("prints no operation for equal values", function()
    assert.same({ "[]\n", "", 0 }, { run({ ["a.lua"] = "return { 1, {} }" },
      "diff a.lua a.lua") })
  end)

  it("fails for what is no value, or no JSON", function()
    for _, text in ipairs { "return { 1, x = 2 }", "return", "return {",
      "return { 0/0 }", "local t = {} t.t = t return t" } do
      local output, errors, status = run({ ["a.lua"] = "return {}",
        ["b.lua"] = text }, "diff a.lua b.lua")
      assert.same({ "", 1 }, { output, status }, text)
      assert.matches("^moonwatch: [^\n]+\n$", errors)
    end
  end)
end)

describe("the progress of the command", function()
  local progress = require "moonwatch.command.progress"

  -- Returns what is written for work whose parts end at these times.
  local function shown(times, is_terminal)
    local written, at = {}, 0
    local out = { write = function(_, ...)
      written[#written + 1] = table.concat { ... }
    end }
    local step = progress(#times, "files", out, function()
      return is_terminal
    end, function() return at end)
    for i, time in ipairs(times) do
      at = time
      step(i)
    end
    return table.concat(written, "|")
  end

  it("is told on a terminal, of long work", function()
    assert.equal("\r2 of 5 files|\r4 of 5 files|\r\27[K",
      shown({ 0.5, 1.5, 1.6, 3, 9 }, true))
    assert.equal("", shown({ 0.5, 0.6, 0.7 }, true))
    assert.equal("", shown({ 5, 10, 15 }, false))
  end)
end)

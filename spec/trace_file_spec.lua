-- Traces as files: what stands in them, and where they are put.

local json = require "spec.support.json"
local mw = require "moonwatch"
local shell = require "spec.support.shell"
local with_seed = require "spec.support.with_seed"

local function text_of(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

local function put(path, text)
  local file = assert(io.open(path, "w"))
  file:write(text)
  file:close()
end

local function written(trace, format)
  local text
  shell.with_directory(function(path)
    assert.is_true(trace:write(path .. "/out", format))
    text = text_of(path .. "/out")
  end)
  return text
end

local function traced(f, opts)
  local trace <close> = mw.trace(opts):start()
  f()
  return trace:stop()
end

local function events_of(trace)
  return json.decode(written(trace)).traceEvents
end

-- Returns the text of the args of the only instant.
local function text_of_args(args)
  local trace = traced(function() mw.instant("here", args) end)
  return written(trace):match '"name":"here"[^\n]-"args":([^\n]*)}\n'
end

local function args_of(args) return json.decode(text_of_args(args)) end

describe("each event of a file", function()
  it("has a category", function()
    local trace = traced(function()
      local _ <close> = mw.timed "scope"
      local _ <close> = mw.timed("mine", { category = "own" })
      mw.instant "instant"
      mw.counter("counter", 1)
      mw.track {}.x = 1
      mw.clock():advance()
      mw.transaction(function() end)
    end, { sources = { "watch", "epoch", "transaction" } })
    local seen = {}
    for _, e in ipairs(events_of(trace)) do
      assert.is_string(e.cat)
      if e.ph ~= "M" then seen[e.name] = e.cat end
    end
    assert.same({ scope = "scope", mine = "own", instant = "instant",
      counter = "counter", insert = "watch", advance = "epoch",
      transaction = "transaction" }, seen)
  end)

  it("has the numbers that the program said", function()
    local numbers = { 1234567890123456, 0.1 + 0.2, 2^53, 9007199254740993,
      math.maxinteger, math.mininteger, 1e300, 5e-324, -1.5e-7, 1 / 3, 2^63,
      1e15, 1e16, 123456789.123456789 }
    local trace = traced(function()
      for i, x in ipairs(numbers) do
        mw.counter("c" .. i, x)
        mw.instant("i" .. i, { x = x, list = { x } })
      end
    end)
    local found = {}
    for _, e in ipairs(events_of(trace)) do
      if e.ph ~= "M" then found[e.name] = e.args end
    end
    for i, x in ipairs(numbers) do
      assert.equal(x, found["c" .. i].value)
      assert.equal(x, found["i" .. i].x)
      assert.equal(x, found["i" .. i].list[1])
    end
  end)

  it("says a number that JSON has not", function()
    local huge = math.huge
    assert.same({ a = "inf", b = "-inf", c = "nan", d = { "-inf" } },
      args_of { a = huge, b = -huge, c = 0 / 0, d = { -huge } })
    local trace = traced(function()
      for _, x in ipairs { huge, -huge, 0 / 0 } do mw.counter("n", x) end
    end)
    local values = {}
    for _, e in ipairs(events_of(trace)) do
      if e.ph == "C" then values[#values + 1] = e.args.value end
    end
    assert.same({ "inf", "-inf", "nan" }, values)
    assert.equal(0, trace:lost())
  end)
end)

describe("the args of an event", function()
  it("have different keys where the table has different keys", function()
    local f, t = print, {}
    local function same(expected, args)
      assert.same(expected, args_of(args))
    end
    same({ ["[1]"] = "a", ["[1.5]"] = "b" }, { [1] = "a", [1.5] = "b" })
    same({ ["[1]"] = "a", ["1"] = "b" }, { [1] = "a", ["1"] = "b" })
    same({ ["[true]"] = 1, ["true"] = 2, ["[false]"] = 3 },
      { [true] = 1, ["true"] = 2, [false] = 3 })
    same({ ["[-1]"] = 1, ["-1"] = 2 }, { [-1] = 1, ["-1"] = 2 })
    same({ ["[inf]"] = 1, inf = 2, ["[-inf]"] = 3 },
      { [math.huge] = 1, inf = 2, [-math.huge] = 3 })
    same({ ["[function]"] = 1, ["function"] = 2 },
      { [f] = 1, ["function"] = 2 })
    same({ ["[1]"] = 1, ['["[1]"]'] = 2, ["1"] = 3 },
      { [1] = 1, ["[1]"] = 2, ["1"] = 3 })
    same({ ['["[a"]'] = 1, a = 2 }, { ["[a"] = 1, a = 2 })
    same({ ['["\\xff"]'] = 1, ['["\\xfe"]'] = 2, a = 3 },
      { ["\xff"] = 1, ["\xfe"] = 2, a = 3 })
    same({ ['["\\xff"]'] = 1, ['["[\\x22\\xff\\x22]"]'] = 2 },
      { ["\xff"] = 1, ['["\xff"]'] = 2 })
    same({ ["[table]"] = 1 }, { [t] = 1 })
    local two = args_of { [t] = 1, [{}] = 2, table = 3 }
    assert.equal(3, two.table)
    assert.same({ true, true }, { two["[table]"] ~= nil,
      two["[table 2]"] ~= nil })
  end)

  it("have as many keys as the table, whatever these are #once", function()
    local function random_key()
      local kind = math.random(6)
      if kind == 1 then return math.random(-3, 3) end
      if kind == 2 then return math.random(-3, 3) / 2 end
      if kind == 3 then return math.random(2) == 1 end
      if kind == 4 then return {} end
      local alphabet = { "1", "-", "[", "]", "\"", "t", "true", "\xff", "\\",
        ".5", "table", "inf", "\u{2026}", "", "<", "\0" }
      local list = {}
      for i = 1, math.random(0, 3) do
        list[i] = alphabet[math.random(#alphabet)]
      end
      return table.concat(list)
    end
    local function count(t)
      local n = 0
      for _ in pairs(t) do n = n + 1 end
      return n
    end
    with_seed(function()
      local expected = {}
      local trace = traced(function()
        for i = 1, 200 do
          local args = {}
          for _ = 1, math.random(8) do args[random_key()] = true end
          expected[i] = count(args)
          mw.instant(tostring(i), args)
          mw.instant(tostring(i), { inner = args })
        end
      end)
      for _, e in ipairs(events_of(trace)) do
        if e.ph == "i" then
          local said = e.args.inner or e.args
          assert.equal(expected[tonumber(e.name)], count(said))
        end
      end
    end)
  end)

  it("are whole where a table is a list and more than a list", function()
    assert.same({ way = { ["[1]"] = 10, ["[2]"] = 20, name = "path" },
      holes = { ["[1]"] = 1, ["[2]"] = 2, ["[5]"] = 555 }, list = { 1, 2 },
      float = { ["[1]"] = 1, ["[1.5]"] = 2 }, none = {}, zero = { ["[0]"] = 1 },
    }, args_of { way = { 10, 20, name = "path" },
      holes = { [1] = 1, [2] = 2, [5] = 555 }, list = { 1, 2 },
      float = { 1, [1.5] = 2 }, none = {}, zero = { [0] = 1 } })
  end)

  it("are a list where the table is watched", function()
    local list = mw.track { 1, 2, 3 }
    list[2] = 5
    assert.same({ list = { 1, 5, 3 } }, args_of { list = list })
  end)

  it("say how much is missing of a long table", function()
    local list, fields = {}, {}
    for i = 1, 20000 do
      list[i] = i
      fields["field " .. i] = i
    end
    local said = args_of { list = list }.list
    assert.equal(#said - 1, said[#said - 1])
    assert.equal(("… %d more"):format(20000 - (#said - 1)), said[#said])
    said = args_of { fields = fields }.fields
    local n = -1
    for _ in pairs(said) do n = n + 1 end
    assert.equal(("… %d more"):format(20000 - n), said["[…]"])
    said = args_of(fields)
    n = -1
    for _ in pairs(said) do n = n + 1 end
    assert.equal(("… %d more"):format(20000 - n), said["[…]"])
    local text = text_of_args { a = ("x"):rep(100000), list = { 1, 2, 3 },
      b = ("y"):rep(100000), c = 5 }
    assert.matches("… %d more", text)
  end)

  it("say what is deeper than eight tables", function()
    local args = { 1, 2, 3, x = 4 }
    for _ = 1, 8 do args = { down = args } end
    assert.matches('"… a table with 4 fields, deeper than 8"',
      text_of_args(args), 1, true)
    assert.matches('"… a table with 1 field, deeper than 8"',
      text_of_args { down = args }, 1, true)
    local circle = {}
    circle.down, circle.n = circle, 1
    assert.matches('"… a table with 2 fields, deeper than 8"',
      text_of_args { circle = circle }, 1, true)
  end)
end)

describe("a file for speedscope", function()
  it("of a running trace ends at one time", function()
    local trace <close> = mw.trace():start()
    local outer <close>, scopes = mw.timed "outer", {}
    for i = 1, 20 do
      coroutine.wrap(function() scopes[i] = mw.timed "inner" end)()
    end
    local file, ends = json.decode(written(trace, "speedscope")), {}
    for _, profile in ipairs(file.profiles) do
      ends[profile.endValue] = true
      assert.equal(profile.endValue, profile.events[#profile.events].at)
    end
    assert.is_true(#file.profiles > 1 and #scopes == 20)
    assert.is_nil(next(ends, (next(ends))))
    outer:close()
  end)

  local function profiles_of(trace)
    local file = json.decode(written(trace, "speedscope"))
    for _, profile in ipairs(file.profiles) do
      for _, e in ipairs(profile.events) do
        assert.is_string(file.shared.frames[e.frame + 1].name)
      end
    end
    return file.profiles, file.shared.frames
  end

  it("has one profile at least", function()
    for _, trace in ipairs { mw.trace(), traced(function() end),
      traced(function() mw.instant "a" end) } do
      local profiles = profiles_of(trace)
      assert.equal(1, #profiles)
      assert.equal("main", profiles[1].name)
      assert.same({}, profiles[1].events)
      assert.is_true(profiles[1].endValue >= profiles[1].startValue)
    end
  end)

  it("begins with the main program", function()
    local trace = traced(function()
      for _ = 1, 3 do
        coroutine.wrap(function() mw.timed "inside":close() end)()
      end
      mw.timed "frame":close()
    end)
    local profiles = profiles_of(trace)
    assert.equal(4, #profiles)
    assert.equal("main", profiles[1].name)
    trace = traced(function()
      coroutine.wrap(function() mw.timed "inside":close() end)()
    end)
    assert.equal(1, #profiles_of(trace))
  end)

  it("has only the names that the ring still has", function()
    local trace = traced(function()
      for i = 1, 5000 do mw.timed("step " .. i):close() end
    end, { capacity = 10 })
    local _, frames = profiles_of(trace)
    assert.equal(5, #frames)
    assert.equal("step 5000", frames[5].name)
  end)
end)

describe("a trace that is cleared", function()
  it("has what comes afterwards", function()
    local trace = mw.trace { capacity = 4 }:start()
    local scope = mw.timed "open"
    for i = 1, 10 do mw.instant("event " .. i) end
    assert.equal(trace, trace:clear())
    assert.same({ 0, 0 }, { trace:len(), trace:lost() })
    scope:close()
    mw.instant "after"
    trace:stop()
    local names = {}
    for _, e in ipairs(events_of(trace)) do
      if e.ph ~= "M" then names[#names + 1] = e.name end
    end
    assert.same({ "after" }, names)
    trace:clear():start()
    mw.instant "again"
    trace:stop()
    assert.equal(1, trace:len())
    assert.has_error(function() trace.clear() end,
      "calling 'clear' on bad self (trace expected, got no value)")
  end)

  it("names what is written afterwards", function()
    local object = mw.track { x = 1 }
    local trace = mw.trace { sources = { "watch" } }:start()
    object.x = 2
    trace:clear()
    object.x = 3
    trace:stop()
    assert.equal("update", events_of(trace)[3].name)
    assert.same({ 1, 0 }, { trace:len(), trace:lost() })
  end)
end)

describe("the place of a file", function()
  local function each(f)
    shell.with_directory(function(path)
      local trace = traced(function() mw.instant "here" end)
      f(path, trace)
    end)
  end

  local function has_trace(path)
    return text_of(path):find('"here"', 1, true) ~= nil
  end

  it("may be a link, which stays", function()
    each(function(path, trace)
      shell.run("cd %s && mkdir other && ln -s target near && " ..
        "ln -s other/far far && ln -s near again && ln -s %s/whole whole2 " ..
        "&& ln -s target other/back && ln -s other/back round", path, path)
      put(path .. "/target", "old")
      for link, target in pairs { near = "target", far = "other/far",
        again = "target", whole2 = "whole", round = "other/target" } do
        assert.is_true(trace:write(path .. "/" .. link))
        assert.is_true(has_trace(path .. "/" .. target), link)
        assert.is_true((select(2, shell.run("test -h %s/%s", path, link))))
        assert.is_true((select(2, shell.run("test -f %s/%s -a ! -h %s/%s",
          path, target, path, target))))
      end
      assert.equal("", (shell.run("find %s -name '*.tmp'", path)))
    end)
  end)

  it("may be a link to a file, which is replaced when the new one is whole",
    function()
      each(function(path, trace)
        shell.run("cd %s && mkdir other && ln -s other/target link", path)
        put(path .. "/other/target", "old")
        shell.run("chmod 640 %s/other/target", path)
        local former <close> = assert(io.open(path .. "/other/target"))
        assert.is_true(trace:write(path .. "/link"))
        assert.equal("old", former:read "a")
        assert.is_true(has_trace(path .. "/other/target"))
        assert.equal("640\n", (shell.run("stat -c %%a %s/other/target", path)))
        assert.equal("target\n", (shell.run("ls %s/other", path)))
        assert.is_true((select(2, shell.run("test -h %s/link", path))))
      end)
    end)

  it("may be the output of a program, which writes on", function()
    each(function(path)
      local program = "local mw = require 'moonwatch' " ..
        "local trace = mw.trace():start() " ..
        "assert(trace:write '/dev/stdout') print 'the last line'"
      shell.run('%s -e "%s" > %s/output', os.getenv "LUA" or "lua5.4",
        program, path)
      assert.matches("the last line", io.open(path .. "/output"):read "a")
    end)
  end)

  it("may not be a link that leads round", function()
    each(function(path, trace)
      shell.run("cd %s && ln -s a b && ln -s b a", path)
      local ok, message = trace:write(path .. "/a")
      assert.is_nil(ok)
      assert.matches("symbolic links", message)
      assert.equal("a\nb\n", (shell.run("ls %s", path)))
    end)
  end)

  it("keeps its mode; a new file has the usual one", function()
    each(function(path, trace)
      for _, mode in ipairs { "600", "644", "640", "666", "755" } do
        put(path .. "/file", "old")
        shell.run("chmod %s %s/file", mode, path)
        assert.is_true(trace:write(path .. "/file"))
        assert.equal(mode .. "\n",
          (shell.run("stat -c %%a %s/file", path)))
        assert.is_true(has_trace(path .. "/file"))
      end
      put(path .. "/usual", "")
      assert.is_true(trace:write(path .. "/new"))
      assert.equal((shell.run("stat -c %%a %s/usual", path)),
        (shell.run("stat -c %%a %s/new", path)))
    end)
  end)

  it("has no neighbour whose name can be guessed", function()
    each(function(path, trace)
      put(path .. "/victim", "precious")
      local process = (shell.run "echo $PPID"):match "%d+"
      shell.run("cd %s && ln -s victim file.%s.tmp && ln -s victim file.tmp",
        path, process)
      assert.is_true(trace:write(path .. "/file"))
      assert.is_true(has_trace(path .. "/file"))
      assert.equal("precious", text_of(path .. "/victim"))
      assert.equal(("file\nfile.%s.tmp\nfile.tmp\nvictim\n"):format(process),
        (shell.run("ls -A %s", path)))
    end)
  end)

  it("may be a device", function()
    local trace = traced(function() mw.instant "here" end)
    assert.is_true(trace:write "/dev/null")
    assert.is_true((select(2, shell.run "test -c /dev/null")))
  end)
end)

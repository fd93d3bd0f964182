local raw_of = require "spec.support.raw_of"
local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local support = require "support"

local extras = require("moonwatch.core").private.extras

local function nothing() end

-- Returns the line of the function `levels` above the caller, as a place.
local function place(line)
  return "spec/check_replay_spec.lua:" .. line
end

local function line() return debug.getinfo(2, "l").currentline end

local function world()
  return {
    n = 0, enemies = { { hp = 10 }, { hp = 20 }, { hp = 30 } },
  }
end

-- Returns the report of a check that must find a difference.
local function report_of(root, step, opts)
  local same, report = mw.check_replay(root, step, opts)
  assert.is_false(same)
  assert.is_nil(extras())
  return report
end

describe("mw.check_replay", function()
  it("answers true for frames that do the same again", function()
    local root, calls = world(), 0
    assert.same({ true, n = 1 }, table.pack(mw.check_replay(root, function()
      calls = calls + 1
      root.n = root.n + 1
      for _, enemy in ipairs(root.enemies) do enemy.hp = enemy.hp - root.n end
    end)))
    assert.equal(16, calls)
    assert.equal(8, root.n)
    assert.same({ { hp = -26 }, { hp = -16 }, { hp = -6 } }, root.enemies)
  end)

  it("answers true for frames that write nothing", function()
    assert.is_true((mw.check_replay(world(), nothing)))
    assert.is_true((mw.check_replay({}, nothing, { frames = 1 })))
  end)

  it("reports the first write that differs", function()
    local root, calls, at = world(), 0, nil
    local report = report_of(root, function()
      calls = calls + 1
      root.n = root.n + 1
      local hurt = calls % 10
      at = line() + 1
      root.enemies[2].hp = hurt
    end, { frames = 5 })
    assert.equal(1, report.frame)
    assert.equal(root.enemies[2], report.object)
    assert.same({ "enemies", 2 }, report.path)
    assert.equal("hp", report.key)
    assert.equal(1, report.first)
    assert.equal(6, report.second)
    assert.equal(place(at), report.where)
    assert.equal(place(at), report.second_where)
    assert.equal(("frame 1: the first write that differs\n" ..
      "  first:  hp of root.enemies[2]: 20 -> 1, %s\n" ..
      "  second: hp of root.enemies[2]: 20 -> 6, %s"):format(place(at),
      place(at)), tostring(report))
    assert.equal(5, root.n)
    assert.equal(5, root.enemies[2].hp)
  end)

  it("names the frame, and leaves the root as after the first pass", function()
    for frames = 1, 6 do
      for frame = 1, frames do
        local root, calls = world(), 0
        local report = report_of(root, function()
          calls = calls + 1
          root.n = root.n + (calls == frames + frame and 100 or 1)
        end, { frames = frames })
        assert.equal(frame, report.frame)
        assert.equal(frame, report.first)
        assert.equal(frame + 99, report.second)
        assert.equal(frames, root.n)
      end
    end
  end)

  it("reports a write that only one of the passes has made", function()
    for which = 1, 2 do
      local root, calls, at = world(), 0, nil
      local report = report_of(root, function()
        calls = calls + 1
        root.n = root.n + 1
        at = line() + 1
        if calls == 4 * which - 1 then root.extra = "x" end
      end, { frames = 4 })
      assert.equal(3, report.frame)
      assert.equal(root, report.object)
      assert.same({}, report.path)
      assert.equal("extra", report.key)
      assert.equal(which == 1 and "x" or nil, report.first)
      assert.equal(which == 2 and "x" or nil, report.second)
      assert.equal(place(at), report.where)
      local text = tostring(report)
      assert.matches(which == 1 and "second: no write$" or "first:  no write\n",
        text)
      assert.matches('extra of root: nil %-> "x", spec', text)
      assert.equal(which == 1 and "x" or nil, root.extra)
    end
  end)

  it("takes a write in another frame for another write", function()
    local root, calls = world(), 0
    local report = report_of(root, function()
      calls = calls + 1
      if calls == 2 or calls == 4 then root.n = 1 end
    end, { frames = 3 })
    assert.equal(1, report.frame)
    assert.equal("n", report.key)
    assert.is_nil(report.first)
    assert.equal(1, report.second)
    assert.equal(1, root.n)
  end)

  it("reports the first pass's write where the passes write other fields",
    function()
      local root, calls = world(), 0
      local report = report_of(root, function()
        calls = calls + 1
        root.enemies[calls].hp = 0
      end, { frames = 1 })
      assert.equal(root.enemies[1], report.object)
      assert.equal(0, report.first)
      assert.is_nil(report.second)
      assert.matches("first:  hp of root.enemies%[1%]: 10 %-> 0",
        tostring(report))
      assert.matches("second: no write", tostring(report))
    end)

  it("tells an absent field, a deleted one and nil apart", function()
    local root, calls = { x = 1 }, 0
    local report = report_of(root, function()
      calls = calls + 1
      if calls == 1 then root.x = nil else root.x = false end
    end, { frames = 1 })
    assert.is_nil(report.first)
    assert.is_false(report.second)
    assert.matches("first:  x of root: 1 %-> nil", tostring(report))
  end)

  it("compares values as the library does elsewhere", function()
    local nan = 0 / 0
    for _, pair in ipairs { { 0.0, -0.0 }, { 1, 1.0 }, { true, 1 },
      { "1", 1 } } do
      local root, calls = {}, 0
      report_of(root, function()
        calls = calls + 1
        root.x = pair[calls]
      end, { frames = 1 })
      assert.equal(math.type(pair[1]), math.type(root.x))
    end
    local root, calls = {}, 0
    assert.is_true((mw.check_replay(root, function()
      calls = calls + 1
      root.x = calls % 2 == 0 and nan or -nan
      root[("long key "):rep(20)] = ("long text"):rep(20)
      root[1.5], root[true], root[print] = nil, mw.null, print
    end)))
  end)

  it("says because of what guards have made the write", function()
    local root, calls, at = { hp = 10, mood = "fine" }, 0, nil
    mw.watch(root, function(object, _, _, _, kind)
      if kind ~= "rollback" then object.hp = calls end
    end, { key = "target", once = false })
    mw.watch(root, function(object, _, _, new, kind)
      if kind ~= "rollback" then object.mood = "hp " .. new end
    end, { key = "hp", once = false })
    local report = report_of(root, function()
      calls = calls + 1
      at = line() + 1
      root.target = "a"
    end, { frames = 1 })
    mw.unwatch(root)
    assert.equal("mood", report.key)
    assert.equal("hp 1", report.first)
    local because = report.because
    assert.equal("hp", because.key)
    assert.equal(root, because.object)
    assert.same({ 10, 1 }, { because.old, because.new })
    because = because.because
    assert.same({ key = "target", object = root, path = {}, new = "a",
      where = place(at) }, because)
    assert.matches('  first:  mood of root: "fine" %-> "hp 1", %S+\n' ..
      " +because hp of root: 10 %-> 1, %S+\n" ..
      ' +because target of root: nil %-> "a", ' .. place(at) .. "\n" ..
      '  second: mood of root: "fine" %-> "hp 2", ', tostring(report))
  end)

  it("calls `before` once before each pass", function()
    local root, passes, seed = world(), 0, nil
    assert.is_true((mw.check_replay(root, function()
      seed = (seed * 7 + 3) % 101
      root.n = seed
    end, { frames = 3, before = function(...)
      assert.equal(0, select("#", ...))
      passes, seed, root.seed = passes + 1, 5, 5
    end })))
    assert.equal(2, passes)
    assert.equal(5, root.seed)
  end)

  it("says of a write that one pass makes what the other writes there",
    function()
      for pass = 1, 2 do
        for _, more in ipairs { false, true } do
          local root, n = { a = 1 }, 0
          local same, report = mw.check_replay(root, function()
            if n == pass then root.seeded = 1 end
            root.a = 4
            if more then root.seeded = 2 end
          end, { frames = 2, before = function() n = n + 1 end })
          assert.is_false(same)
          assert.equal(1, report.frame)
          local otherwise = more and 2 or nil
          assert.equal("seeded", report.key)
          assert.equal(pass == 1 and 1 or otherwise, report.first)
          assert.equal(pass == 2 and 1 or otherwise, report.second)
        end
      end
    end)

  it("calls `step` without arguments", function()
    mw.check_replay({}, function(...) assert.equal(0, select("#", ...)) end)
  end)

  it("raises an error of `step` as it is, with the root as it was", function()
    local err = setmetatable({}, {
      __tostring = function() return "e" end, __eq = function() return true end,
    })
    for _, value in ipairs { err, "text", 5, false } do
      for call = 1, 6 do
        for _, name in ipairs { "step", call <= 2 and "before" or nil } do
          local root, calls = world(), 0
          local third = root.enemies[3]
          local function act()
            root.n = root.n + 1
            root.enemies[3], root.new = nil, { root.n }
            calls = calls + 1
            if calls == call then error(value, 0) end
          end
          local ok, raised = pcall(mw.check_replay, root,
            name == "step" and act or nothing,
            { frames = 3, before = name == "before" and act or nil })
          assert.is_false(ok)
          assert.is_true(rawequal(value, raised))
          assert.same(world(), root)
          assert.equal(third, root.enemies[3])
          assert.equal(root, raw_of(root))
          assert.is_nil(extras())
        end
      end
    end
  end)
end)

describe("mw.check_replay and objects", function()
  it("matches what the passes make, one to one", function()
    local root = world()
    local made = {}
    assert.is_true((mw.check_replay(root, function()
      local a, b = { hp = 1 }, { hp = 1, inner = { {} } }
      a.other, b.other = b, a
      root.enemies[#root.enemies + 1] = a
      made[#made + 1] = a
      root.last = b
      b.inner[1].x = #root.enemies
      root[b] = a
      root.last = nil
    end, { frames = 3 })))
    assert.equal(6, #root.enemies)
    for i = 1, 3 do assert.equal(made[i], root.enemies[3 + i]) end
    assert.equal(5, made[2].other.inner[1].x)
  end)

  it("keeps the objects of the first pass also after a difference", function()
    local root, made, calls = world(), {}, 0
    local report = report_of(root, function()
      calls = calls + 1
      local new = { hp = calls }
      made[calls] = new
      root.enemies[#root.enemies + 1] = new
      new.hp = new.hp + 1
    end, { frames = 2 })
    assert.equal(made[1], root.enemies[4])
    assert.equal(made[2], root.enemies[5])
    assert.equal(2, made[1].hp)
    assert.equal(1, report.frame)
    assert.equal(made[1], report.object)
    assert.same({ "enemies", 4 }, report.path)
    assert.equal("hp", report.key)
    assert.equal(1, report.first)
    assert.equal(3, report.second)
  end)

  it("looks into what was put below the root", function()
    local cases = {
      { function(n) return { a = 1, b = n } end, { "b" } },
      { function(n) return { a = { b = { c = n } } } end, { "a", "b", "c" } },
      { function(n) return { n == 1 and 1 or nil, "x" } end, { 1 } },
      { function(n) return { x = n == 1 and {} or 1 } end, { "x" } },
      { function(n) return { [n == 1 and "a" or "b"] = 1 } end, { "a" } },
      { function(n) return { { { 1, n } } } end, { 1, 1, 2 } },
      { function(n)
        local shared = {}
        return { shared, n == 1 and shared or {} }
      end, { 2 } },
      { function(n)
        local t = { {} }
        t.x = n == 1 and t or t[1]
        return t
      end, { "x" } },
    }
    for _, case in ipairs(cases) do
      local root, n = { list = { "first" } }, 0
      local way = { "list", 2 }
      local report = report_of(root, function()
        n = n + 1
        root.list[2] = case[1](n)
      end, { frames = 1 })
      table.move(case[2], 1, #case[2] - 1, 3, way)
      assert.equal(case[2][#case[2]], report.key)
      assert.same(way, report.path)
      assert.is_truthy(report.where)
      local object = root
      for _, key in ipairs(report.path) do object = object[key] end
      assert.equal(object, report.object)
      assert.equal(object[report.key], report.first)
    end
  end)

  it("counts new objects that are keys", function()
    local root, n = {}, 0
    local report = report_of(root, function()
      n = n + 1
      root.set = { [{}] = 1 }
      if n == 2 then root.other = { [{}] = 1, [{}] = 1 } end
      if n == 1 then root.other = { [{}] = 1 } end
    end, { frames = 1 })
    assert.equal(root.other, report.object)
    assert.equal("table", type(report.key))
    root, n = {}, 0
    assert.is_true((mw.check_replay(root, function()
      root.set = { [{}] = 1, [{}] = 2 }
    end)))
  end)

  it("never matches two that were there before", function()
    local root, n = world(), 0
    for _, enemy in ipairs(root.enemies) do enemy.hp = 1 end
    local report = report_of(root, function()
      n = n + 1
      root.target = root.enemies[n]
    end, { frames = 1 })
    assert.equal("target", report.key)
    assert.equal(root.enemies[1], report.first)
    assert.equal(root.enemies[2], report.second)
    assert.matches("target of root: nil %-> root.enemies%[1%]",
      tostring(report))
    assert.matches("target of root: nil %-> root.enemies%[2%]",
      tostring(report))
    n = 0
    report_of(root, function()
      n = n + 1
      root.enemies[n].mark = true
    end, { frames = 1 })
    n = 0
    report_of(root, function()
      n = n + 1
      root.target = n == 1 and { hp = 1 } or root.enemies[3]
    end, { frames = 1 })
  end)

  it("never matches keys that were there before", function()
    local first, second, root, n = {}, {}, nil, 0
    local function check(act)
      n = 0
      root = { set = { [first] = 1, [second] = 1 }, list = { {}, {} },
        code = { print, next } }
      return report_of(root, function()
        n = n + 1
        act(n == 1 and first or second)
      end, { frames = 1 })
    end
    local report = check(function(unit) root.set[unit] = nil end)
    assert.equal(first, report.key)
    report = check(function(unit) root.target = unit end)
    assert.equal(first, report.first)
    assert.equal(second, report.second)
    report = check(function(unit) root.chosen = { [unit] = true } end)
    assert.same({ "chosen" }, report.path)
    report = check(function() root.chosen = { [root.list[n]] = true } end)
    assert.same({ "chosen" }, report.path)
    assert.is_true(root.chosen[root.list[1]])
    check(function() root.chosen = { [root.code[n]] = true } end)
  end)

  it("matches what a class that is not taken back keeps, too", function()
    local class = { all = {} }
    local root = { first = setmetatable({ class = class }, class) }
    assert.is_true((mw.check_replay(root, function()
      local new = setmetatable({ class = class }, class)
      class.all[#class.all + 1] = new
      root.last = new
      class.all[{}] = new
    end)))
    assert.equal(16, #class.all)
  end)

  it("finds another order of new objects", function()
    local root, n = { list = {} }, 0
    local report = report_of(root, function()
      n = n + 1
      local a, b = {}, {}
      root.a, root.b = a, b
      root.list[1] = n == 1 and a or b
    end, { frames = 1 })
    assert.same({ "list" }, report.path)
    assert.equal(1, report.key)
    assert.equal(root.a, report.first)
  end)

  it("knows objects that the program keeps from pass to pass", function()
    local root, pool = {}, { {}, {}, {} }
    assert.is_true((mw.check_replay(root, function()
      for i, object in ipairs(pool) do
        root[i] = object
        object.n = i
      end
    end)))
    assert.equal(pool[2], root[2])
  end)

  it("gives the way that an object had that is nowhere now", function()
    local root, n = { shots = {} }, 0
    local report = report_of(root, function()
      n = n + 1
      local shot = { part = {} }
      root.shots[1] = shot
      shot.part.x = n
      root.shots[1] = nil
    end, { frames = 1 })
    assert.same({ "shots", 1, "part" }, report.path)
    local enemy = {}
    root, n = { enemies = { enemy } }, 0
    report = report_of(root, function()
      n = n + 1
      root.enemies[1].hp = n
      root.enemies[1] = nil
    end, { frames = 1 })
    assert.equal(enemy, report.object)
    assert.same({ "enemies", 1 }, report.path)
  end)

  it("gives the way that an object has after the first pass", function()
    local root, n = { a = { x = 1 } }, 0
    local report = report_of(root, function()
      n = n + 1
      root.b, root.a = root.a, nil
      root.b.x = n
    end, { frames = 1 })
    assert.same({ "b" }, report.path)
  end)

  it("compares classes", function()
    local A, B = { __name = "A" }, { __name = "B", __index = {} }
    local root, n = { {} }, 0
    local report = report_of(root, function()
      n = n + 1
      mw.setmetatable(root[1], n == 1 and A or B)
    end, { frames = 1 })
    assert.equal(root[1], report.object)
    assert.is_nil(report.key)
    assert.equal(A, report.first)
    assert.equal(B, report.second)
    assert.equal(A, getmetatable(root[1]))
    assert.matches("class of root%[1%]: nil %-> A, spec", tostring(report))
    n = 0
    report = report_of(root, function()
      n = n + 1
      root.new = setmetatable({}, n == 1 and A or B)
    end, { frames = 1 })
    assert.equal(root.new, report.object)
    assert.is_nil(report.key)
    assert.equal(A, report.first)
    assert.same({ "new" }, report.path)
    assert.is_true((mw.check_replay(root, function()
      root.new = setmetatable({ x = 1 }, A)
      root.other = setmetatable({}, { __index = { y = 1 } })
    end)))
  end)

  it("runs methods of classes that have a say", function()
    local class = {}
    class.__index = class
    function class.__newindex(t, k, v) rawset(t, k, v * 2) end
    local root, n = { a = setmetatable({}, class) }, 0
    assert.is_true((mw.check_replay(root, function()
      root.a.x = 1
      root.a.x = root.a.x + 1
      root.a.y = 5
    end)))
    assert.same({ x = 2, y = 5 }, mw.plain(root.a))
    local report = report_of(root, function()
      n = n + 1
      root.a.z = n
    end, { frames = 1 })
    assert.equal(2, report.first)
    assert.equal(4, report.second)
    assert.equal(2, root.a.z)
  end)

  it("compares functions by where they are defined", function()
    local root, n = {}, 0
    local function make(x) return function() return x end end
    assert.is_true((mw.check_replay(root, function() root.f = make(1) end)))
    assert.equal(1, root.f())
    local report = report_of(root, function()
      n = n + 1
      root.f = n == 1 and function() return 1 end or function() return 2 end
    end, { frames = 1 })
    assert.equal(root.f, report.first)
    assert.equal(1, root.f())
    local a, b = make(1), make(2)
    root, n = { a = a, b = b }, 0
    report = report_of(root, function()
      n = n + 1
      root.c = n == 1 and root.a or root.b
    end, { frames = 1 })
    assert.equal(a, report.first)
    root, n = {}, 0
    report_of(root, function()
      n = n + 1
      root.c = n == 1 and print or next
    end, { frames = 1 })
    assert.is_true((mw.check_replay(root, function()
      root.co = coroutine.create(print)
    end)))
  end)

  it("compares functions of C by their code", function()
    local root, n = {}, 0
    assert.is_true((mw.check_replay(root, function()
      root.think = coroutine.wrap(function()
        while true do
          root.n = (root.n or 0) + 1
          coroutine.yield()
        end
      end)
      root.think()
    end)))
    assert.equal(8, root.n)
    report_of(root, function()
      n = n + 1
      root.think = n == 1 and coroutine.wrap(print) or ("a"):gmatch "a"
    end, { frames = 1 })
  end)

  it("takes userdata without a state for the same by their class", function()
    local A, B = { __name = "A" }, { __name = "B" }
    local root, n = {}, 0
    assert.is_true((mw.check_replay(root, function()
      root.a, root.guard = support.userdata(A), mw.guard()
    end)))
    report_of(root, function()
      n = n + 1
      root.a = support.userdata(n == 1 and A or B)
    end, { frames = 1 })
    assert.equal(A, debug.getmetatable(root.a))
  end)

  it("takes userdata with a state back, and compares them", function()
    local class, numbers = { __name = "Counter" }, {}
    class.__index = {
      add = function(counter, n) numbers[counter] = numbers[counter] + n end,
    }
    local function new(n)
      local counter = support.userdata(class)
      numbers[counter] = n
      return counter
    end
    local former = mw.policy { classes = { Counter = {
      mutators = { "add" },
      snapshot = function(counter) return { numbers[counter] } end,
      restore = function(counter, s) numbers[counter] = s[1] end,
    } } }:use()
    local counter, calls = mw.track(new(1)), 0
    local root = { counter = counter }
    assert.is_true((mw.check_replay(root, function()
      counter:add(2)
      root.new = new(5)
    end)))
    assert.equal(17, numbers[counter])
    local report = report_of(root, function()
      calls = calls + 1
      counter:add(calls)
    end, { frames = 2 })
    assert.equal(counter, report.object)
    assert.same({ "counter" }, report.path)
    assert.equal("add", report.key)
    assert.same({ 18 }, report.first)
    assert.same({ 20 }, report.second)
    assert.equal(20, numbers[counter])
    calls = 0
    report = report_of(root, function()
      calls = calls + 1
      root.new = new(calls)
    end, { frames = 1 })
    assert.equal("new", report.key)
    assert.equal(1, numbers[root.new])
    former:use()
    mw.untrack(counter)
  end)
end)

describe("mw.check_replay and tracking", function()
  it("leaves a root untracked that was not tracked", function()
    local root = world()
    assert.is_true((mw.check_replay(root, function() root.n = 1 end)))
    for _, object in ipairs { root, root.enemies, root.enemies[1] } do
      assert.is_nil(getmetatable(object))
      assert.is_false(mw.is_watched(object))
      assert.equal(object, raw_of(object))
    end
  end)

  it("leaves a root tracked as it was", function()
    local function recorded(object)
      local tx <close> = mw.begin()
      object.probe = {}
      object.probe = nil
      return tx:commit():len()
    end
    for _, opts in ipairs { {}, { deep = true },
      { deep = true, descend = function(_, key) return key ~= 3 end } } do
      local root = mw.track(world(), opts)
      local before = { recorded(root), recorded(root.enemies),
        recorded(root.enemies[1]), recorded(root.enemies[3]) }
      report_of(root, function() root.enemies[3].hp = math.random() end)
      assert.same(before, { recorded(root), recorded(root.enemies),
        recorded(root.enemies[1]), recorded(root.enemies[3]) })
      mw.untrack(root)
      assert.is_nil(getmetatable(root))
      assert.is_nil(getmetatable(root.enemies[3]))
    end
  end)

  it("works below a root that is tracked deeply", function()
    local root = mw.track({ level = world() }, { deep = true })
    local report = report_of(root.level, function()
      root.level.enemies[1].hp = math.random()
    end)
    assert.same({ "enemies", 1 }, report.path)
    assert.is_true((mw.check_replay(root.level, function()
      root.level.n = root.level.n + 1
    end)))
  end)

  it("works under a policy that keeps trees apart", function()
    local former = mw.policy {
      descend = function(parent) return parent.open end,
    }:use()
    local root = { open = true, inside = { hidden = {} } }
    local calls = 0
    local report = report_of(root, function()
      calls = calls + 1
      root.inside.hidden.x = calls
      root.inside.x = calls
    end, { frames = 1 })
    former:use()
    assert.same({ "inside" }, report.path)
    assert.equal(1, root.inside.x)
    assert.is_nil(getmetatable(root.inside))
  end)

  it("survives that the program tracks, watches and lets go", function()
    local root = world()
    assert.is_true((mw.check_replay(root, function()
      mw.track(root, { deep = true })
      root.n = root.n + 1
      mw.watch(root, mw.guard(), { deep = true })
      root.n = root.n + 1
      mw.unwatch(root)
      mw.untrack(root)
      root.n = root.n + 1
    end, { frames = 2 })))
    assert.equal(6, root.n)
    assert.is_nil(getmetatable(root))
  end)

  it("knows new objects that are tracked or watched at once", function()
    local root, n = world(), 0
    assert.is_true((mw.check_replay(root, function()
      local new = mw.track({ inner = { {} } }, { deep = true })
      mw.watch(new.inner, mw.guard(), { once = false })
      root.enemies[#root.enemies + 1] = new
      new.inner[1].x = 1
    end, { frames = 2 })))
    local report = report_of(root, function()
      n = n + 1
      root.new = mw.track({ inner = { n } }, { deep = true })
    end, { frames = 1 })
    assert.same({ "new", "inner" }, report.path)
    assert.equal(1, report.first)
  end)

  it("compares what is tracked elsewhere, too", function()
    local root, other, n = {}, mw.track {}, 0
    local report = report_of(root, function()
      n = n + 1
      other.x = n
    end, { frames = 1 })
    assert.equal(other, report.object)
    assert.is_nil(report.path)
    assert.equal(1, other.x)
    assert.matches("x of a table: nil %-> 1", tostring(report))
  end)

  it("finds what is not taken back", function()
    local root, counter = {}, 0
    local report = report_of(root, function()
      counter = counter + 1
      root.x = counter
    end)
    assert.equal(9, report.second)
    assert.equal(8, root.x)
    assert.equal(16, counter)
  end)

  it("tells guards of the writes and of going back", function()
    local root, kinds = { x = 0 }, {}
    mw.watch(root, function(_, key, old, new, kind)
      kinds[#kinds + 1] = ("%s %s %s>%s"):format(kind, key, old, new)
    end, { once = false })
    assert.is_true((mw.check_replay(root, function() root.x = root.x + 1 end,
      { frames = 2 })))
    assert.same({
      "update x 0>1", "update x 1>2", "rollback x 2>0",
      "update x 0>1", "update x 1>2", "rollback x 2>0",
      "rollback x 0>2",
    }, kinds)
    mw.unwatch(root)
  end)

  it("raises an error of a guard, with the root as it was", function()
    local root = { x = 0 }
    local err = {}
    mw.watch(root, function(_, _, _, _, kind)
      if kind == "update" then error(err) end
    end, { once = false })
    assert.equal(err, error_of(mw.check_replay, root, function()
      root.x = 1
    end))
    mw.unwatch(root)
    assert.equal(0, root.x)
  end)
end)

describe("mw.check_replay and transactions", function()
  it("is one transaction, whose writes are those of the first pass", function()
    local root = mw.track(world(), { deep = true })
    for _, differs in ipairs { false, true } do
      local calls = 0
      local _, fx = mw.transaction(function()
        root.n = 0
        mw.check_replay(root, function()
          calls = calls + 1
          root.n = root.n + 1
          root.new = { differs and calls or 0 }
        end, { frames = 2 })
      end)
      local keys = {}
      for entry in fx:entries() do
        keys[#keys + 1] = entry.key .. "=" .. tostring(type(entry.new) ==
          "table" and entry.new[1] or entry.new)
      end
      local first = differs and { "new=1", "new=2" } or { "new=0", "new=0" }
      assert.same({ "n=0", "n=1", first[1], "n=2", first[2] }, keys)
      fx:rollback()
      assert.equal(0, root.n)
    end
  end)

  it("is delivered as the first pass alone", function()
    local root, calls = { x = 0 }, 0
    local feed <close> = mw.feed { root = root }
    report_of(root, function()
      calls = calls + 1
      root.x = calls
      root.new = { calls }
    end, { frames = 2 })
    local texts = {}
    for entry in feed:read() do
      texts[#texts + 1] = ("%s %s %s"):format(entry.kind, entry.key,
        type(entry.new) == "table" and entry.new[1] or entry.new)
    end
    assert.same({ "update x 1", "insert new 1", "update x 2",
      "update new 2" }, texts)
    assert.equal(0, feed:lost())
  end)

  it("is taken back with the transaction around", function()
    local root = world()
    assert.is_false((mw.transaction(function()
      mw.check_replay(root, function() root.n = math.random() end)
      error "no"
    end)))
    assert.same(world(), root)
    local tx = mw.begin()
    mw.check_replay(root, function() root.n = root.n + 1 end)
    assert.equal(8, root.n)
    tx:rollback()
    assert.same(world(), root)
  end)

  it("bears transactions that the frames leave open", function()
    local root, open = world(), {}
    assert.is_true((mw.check_replay(root, function()
      root.n = root.n + 1
      open[#open + 1] = mw.begin()
      root.x = 1
      if #open % 2 == 0 then
        open[#open - 1]:commit()
        open[#open]:commit()
      end
    end)))
    assert.equal(8, root.n)
    open = {}
    mw.check_replay(root, function()
      open[#open + 1] = mw.begin()
      root.y = #open
    end)
    for i = #open, 1, -1 do open[i]:rollback() end
    assert.is_nil(root.y)
    assert.is_nil(extras())
  end)

  it("lets the program have transactions of its own", function()
    local root, calls = world(), 0
    assert.is_true((mw.check_replay(root, function()
      mw.transaction(function()
        root.n = root.n + 1
        mw.transaction(function()
          root.enemies[1].hp = 0
          error "no"
        end)
      end)
      local tx = mw.begin()
      root.enemies[2].hp = 1
      tx:rollback()
      tx = mw.begin()
      for i = 1, 30 do root[i] = i end
      tx:commit()
    end)))
    assert.equal(8, root.n)
    assert.equal(10, root.enemies[1].hp)
    local report = report_of(root, function()
      mw.transaction(function()
        calls = calls + 1
        for i = 1, 30 do root[i] = i + calls end
      end)
    end)
    assert.equal(1, report.key)
  end)

  it("takes the steps of a history back with the second pass", function()
    local root, history = mw.track(world(), { deep = true }), mw.history()
    assert.is_true((mw.check_replay(root, function()
      history:run("count", function() root.n = root.n + 1 end)
    end, { frames = 3 })))
    assert.same({ "count", "count", "count" }, history:labels())
    assert.equal("count", history:undo())
    assert.equal(2, root.n)
  end)

  it("works in a coroutine, and when frames yield", function()
    local root = world()
    local co = coroutine.wrap(function()
      local same = mw.check_replay(root, function()
        root.n = root.n + 1
        coroutine.yield "frame"
        root.enemies[1].hp = root.n
      end, { frames = 2 })
      return same
    end)
    for _ = 1, 4 do assert.equal("frame", co()) end
    assert.is_true(co())
    assert.equal(2, root.enemies[1].hp)
    co = coroutine.create(function()
      mw.check_replay(root, function()
        root.n = 100
        coroutine.yield()
      end)
    end)
    coroutine.resume(co)
    coroutine.close(co)
    assert.equal(2, root.n)
    assert.is_nil(getmetatable(root))
    assert.is_nil(extras())
  end)

  it("follows generators that the frames drive", function()
    local root = { n = 0 }
    assert.is_true((mw.check_replay(root, function()
      local next_number = coroutine.wrap(function()
        for i = 1, 3 do
          root.n = root.n + i
          coroutine.yield(i)
        end
      end)
      for _ = 1, 3 do next_number() end
    end)))
    assert.equal(48, root.n)
  end)

  it("nests", function()
    local root = world()
    assert.is_true((mw.check_replay(root, function()
      local n = 0
      local same = mw.check_replay(root, function()
        n = n + 1
        root.n = root.n + n
      end, { frames = 2 })
      assert.is_false(same)
    end, { frames = 2 })))
    assert.equal(6, root.n)
  end)

  it("works in a batch", function()
    local root, n = { x = 0 }, 0
    mw.watch(root, function() n = n + 1 end, { once = false })
    mw.batch(function()
      assert.is_true((mw.check_replay(root, function() root.x = root.x + 1 end,
        { frames = 3 })))
      assert.equal(0, n)
    end)
    assert.equal(1, n)
    assert.equal(3, root.x)
    mw.unwatch(root)
  end)

  it("is misuse without a root and a step", function()
    local root = {}
    misuse("bad argument #1 to 'check_replay' (table expected, got nil)",
      mw.check_replay)
    misuse("bad argument #1 to 'check_replay' (table expected, got number)",
      mw.check_replay, 5, nothing)
    misuse("bad argument #1 to 'check_replay' (report cannot be watched)",
      mw.check_replay, mw.dynamism(), nothing)
    misuse("bad argument #2 to 'check_replay' (function expected, got nil)",
      mw.check_replay, root)
    misuse("bad argument #3 to 'check_replay' (table expected, got number)",
      mw.check_replay, root, nothing, 5)
    misuse("bad argument #3 to 'check_replay' (unknown option 'frame')",
      mw.check_replay, root, nothing, { frame = 1 })
    misuse("bad argument #3 to 'check_replay' (option 'frames' is not a count)",
      mw.check_replay, root, nothing, { frames = 1.5 })
    misuse("bad argument #3 to 'check_replay' (option 'frames' is less than 1)",
      mw.check_replay, root, nothing, { frames = 0 })
    misuse("bad argument #3 to 'check_replay' (option 'before' is not a " ..
      "function)", mw.check_replay, root, nothing, { before = 1 })
    assert.is_nil(getmetatable(root))
  end)
end)

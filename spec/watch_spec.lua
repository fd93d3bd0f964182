local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local error_of = require "spec.support.error_of"
local growth = require "spec.support.growth"

-- A guard that notes its calls, and the notes.
local function noting()
  local notes = {}
  return function(obj, key, old, new, kind)
    notes[#notes + 1] = ("%s:%s>%s %s"):format(key, old, new, kind)
    assert.is_table(obj)
  end, notes
end

local STAY, ONCE = { once = false }, { once = true }

describe("a guard", function()
  it("hears of inserts, updates and deletes, before they are stored", function()
    local obj, seen = { a = 1 }, {}
    mw.watch(obj, function(o, key, old, new, kind)
      assert.equal(obj, o)
      seen[#seen + 1] = { key, old, new, kind, o[key] }
    end, STAY)
    obj.a = 2
    obj.b = 3
    obj.a = nil
    obj[1.0] = "x"
    assert.same({ { "a", 1, 2, "update", 1 },
      { "b", nil, 3, "insert", nil }, { "a", 2, nil, "delete", 2 },
      { 1, nil, "x", "insert", nil } }, seen)
    assert.same({ b = 3, "x" }, raw_of(obj))
  end)

  it("that is a function or a flag stays, and one with a method is called " ..
    "once, if they do not say otherwise", function()
    local obj, n, flag = {}, { 0, 0, 0, 0 }, mw.guard()
    local function count(i) return function() n[i] = n[i] + 1 end end
    local object, staying = { invalidate = count(3) }, { invalidate = count(4) }
    mw.watch(obj, count(1))
    mw.watch(obj, count(2), ONCE)
    mw.watch(obj, object)
    mw.watch(obj, staying, STAY)
    mw.watch(obj, flag)
    for i = 1, 3 do
      flag:revalidate()
      obj.a = i
      assert.is_false(flag.valid)
    end
    assert.same({ 3, 1, 1, 3 }, n)
    assert.is_true(object ~= staying) -- watches hold them weakly
  end)

  it("is called in the order of watching, twice if it watches twice", function()
    local obj, order = {}, ""
    local function guard(name)
      return function() order = order .. name end
    end
    local a = guard "a"
    mw.watch(obj, a, ONCE)
    mw.watch(obj, guard "b", STAY)
    mw.watch(obj, a, ONCE)
    obj.x = 1
    assert.equal("aba", order)
    obj.x = 2
    assert.equal("abab", order)
  end)

  it("that watches again in its call is called at the next write", function()
    local obj, n = {}, 0
    local function guard()
      n = n + 1
      mw.watch(obj, guard, ONCE)
    end
    mw.watch(obj, guard, ONCE)
    obj.a = 1
    assert.equal(1, n)
    obj.a = 1
    assert.equal(2, n)
  end)

  it("that writes to the object is counted, and lands first", function()
    local obj, order = {}, {}
    mw.watch(obj, function(o, _, _, new)
      order[#order + 1] = new
      o.x = "inner"
    end, ONCE)
    mw.watch(obj, function(_, _, _, new) order[#order + 1] = new end, STAY)
    obj.x = "outer"
    assert.same({ "outer", "inner", "outer" }, order)
    assert.equal("outer", obj.x)
    assert.equal(2, mw.mutations(obj))
  end)

  it("hears of the keys that it names only", function()
    local obj = {}
    local object = {}
    local guard, notes = noting()
    mw.watch(obj, guard, { key = "a", once = false })
    mw.watch(obj, guard, { keys = { 1, true, 0.5, object }, once = false })
    for _, key in ipairs { "a", "b", 1.0, 2, true, 0.5, false, {}, object } do
      obj[key] = 1
    end
    assert.equal("a:nil>1 insert 1:nil>1 insert true:nil>1 insert " ..
      "0.5:nil>1 insert", table.concat(notes, " ", 1, 4))
    assert.equal(5, #notes)
    assert.matches("^table", notes[5])
  end)

  it("hears of a key whose only other watch ends while this one begins",
    function()
      for _, key in ipairs { "short", ("long "):rep(20) } do
        local function begin(obj, guard, opts)
          local other = mw.watch({}, guard, { key = key })
          opts.keys, opts.once = { {}, key }, false
          opts.descend = opts.deep and function() return other:cancel() end
          return mw.watch(obj, setmetatable({}, { __index = function()
            other:cancel()
            return guard
          end }), opts)
        end
        for _, deep in ipairs { false, true } do
          local obj, seen = { {} }, nil
          local its = begin(obj, function(_, _, k) seen = k end,
            { deep = deep or nil })
          obj[key] = 1
          assert.same(deep and { key } or key, seen)
          its:cancel()
        end
      end
    end)

  it("of one call and many keys is called once", function()
    local obj, n = {}, 0
    mw.watch(obj, function() n = n + 1 end,
      { keys = { "a", "b" }, once = true })
    obj.a, obj.b = 1, 1
    assert.equal(1, n)
  end)

  it("can be called after the value is stored", function()
    local obj, seen = {}, nil
    mw.watch(obj, function(o, key) seen = o[key] end,
      { phase = "after", once = true })
    obj.a = 1
    assert.equal(1, seen)
  end)

  it("is told the kind for the value that the store replaced", function()
    for _, step in ipairs { -- before, what a guard stores, the write, told
      { nil, 1, 2, "nil>1 insert, 1>2 update" },
      { 1, nil, 2, "1>nil delete, nil>2 insert" },
      { nil, 3, nil, "nil>3 insert, 3>nil delete" },
      { 1, 2, 2, "1>2 update" }, -- the store changes nothing any more
    } do
      local before, between, new, expected = table.unpack(step, 1, 4)
      for _, deep in ipairs { false, true } do
        local obj, told = { x = before }, {}
        local root = { obj }
        mw.watch(obj, function(o) o.x = between end, ONCE)
        mw.watch(deep and root or obj, function(_, _, old, now, kind)
          told[#told + 1] = ("%s>%s %s"):format(old, now, kind)
        end, { phase = "after", deep = deep, equal = "skip", once = false })
        obj.x = new
        assert.equal(expected, table.concat(told, ", "))
      end
    end
  end)

  it("can pass over writes of the same value", function()
    local obj, n = { a = 1, b = "x" }, 0
    mw.watch(obj, function() n = n + 1 end, { equal = "skip", once = false })
    obj.a, obj.b, obj.c = 1, "x", nil
    assert.equal(0, n)
    obj.a = 1.0 -- of another type
    assert.equal(1, n)
    obj.a, obj.c = 2, 0.0
    assert.equal(3, n)
    obj.c = -0.0
    assert.equal(4, n)
    obj.c = 0 / 0
    obj.c = 0 / 0
    assert.equal(5, n)
    assert.equal(9, mw.mutations(obj))
  end)

  it("may be an object, which is held weakly", function()
    local obj, n = {}, 0
    local strong = { invalidate = function(self, o, key, old, new, kind)
      assert.equal("table", type(self))
      assert.same({ obj, "a", nil, n, "insert" }, { o, key, old, new, kind })
      n = n + 1
    end }
    mw.watch(obj, strong, ONCE)
    mw.watch(obj, { invalidate = function() error "was dead" end }, STAY)
    collectgarbage()
    obj.a = 0
    assert.equal(1, n)
    assert.equal(1, mw.mutations(obj))
  end)

  it("that dies leaves nothing behind, ten thousand times", function()
    local obj = {}
    assert.is_true(growth(function()
      for _ = 1, 1000 do mw.watch(obj, { invalidate = error }, STAY) end
    end) < 2)
    obj.a = 1
  end)

  it("that is a function lives as long as it is needed, not longer", function()
    local weak = setmetatable({}, { __mode = "k" })
    local function make(obj)
      local function guard() return obj end
      weak[guard] = true
      return guard
    end
    local obj, n = {}, 0
    mw.watch(obj, make(obj), ONCE)
    local handle = mw.watch(obj, make(obj), STAY)
    do
      local short = {}
      mw.watch(short, make(short), STAY)
      weak[short] = true
    end
    collectgarbage()
    for _ in pairs(weak) do n = n + 1 end
    assert.equal(2, n)
    obj.x = 1
    handle:cancel()
    collectgarbage()
    assert.is_nil(next(weak))
  end)
end)

describe("an mw.guard", function()
  it("is valid until the first invalidation, and again when told", function()
    local obj, guard = {}, mw.guard()
    mw.watch(obj, guard, ONCE)
    assert.is_true(guard.valid)
    obj.a = 1
    assert.is_false(guard.valid)
    guard:revalidate()
    assert.is_true(guard.valid)
    obj.a = 2
    assert.is_true(guard.valid)
    mw.watch(obj, guard, STAY)
    obj.a = 3
    assert.is_false(guard.valid)
  end)

  it("is not kept alive by what it watches", function()
    local obj = {}
    local weak = setmetatable({}, { __mode = "v" })
    do
      local guard = mw.guard()
      weak[1] = guard
      mw.watch(obj, guard, STAY)
    end
    collectgarbage()
    assert.is_nil(weak[1])
    obj.a = 1
  end)

  it("may be all that waits while others are still to be called", function()
    for _, opts in ipairs { {}, { key = "x" }, { keys = { "y", "x" } } } do
      opts.once = true
      local obj, guard, others, n = {}, mw.guard(), {}, 0
      for i = 1, 20 do others[i] = mw.guard() end
      mw.watch(obj, guard, STAY)
      mw.watch(obj, function(o)
        o.z = 1
        n = n + 1
      end, opts)
      for _ = 1, 20 do mw.watch(obj, function() n = n + 1 end, opts) end
      obj.x = 1
      assert.equal(21, n)
      assert.is_false(guard.valid)
      for i = 1, 20 do assert.is_true(others[i].valid) end
    end
  end)

  it("works by the thousand", function()
    local obj, guards = {}, {}
    for i = 1, 1000 do
      guards[i] = mw.guard()
      mw.watch(obj, guards[i], ONCE)
    end
    obj.a = 1
    for i = 1, 1000 do assert.is_false(guards[i].valid) end
  end)

  it("raises for a wrong self", function()
    local guard = mw.guard()
    assert.matches("calling 'revalidate' on bad self %(guard expected, got " ..
      "table%)", error_of(guard.revalidate, {}))
    assert.is_nil(guard.nonsense)
  end)
end)

describe("a handle", function()
  it("cancels, any number of times", function()
    local obj, n = {}, 0
    local handle = mw.watch(obj, function() n = n + 1 end, STAY)
    obj.a = 1
    assert.is_true(handle:alive())
    handle:cancel()
    handle:cancel()
    assert.is_false(handle:alive())
    obj.a = 2
    assert.equal(1, n)
  end)

  it("is there for guards of all kinds", function()
    local obj = {}
    for _, guard in ipairs { error, mw.guard(), { invalidate = error } } do
      local handle = mw.watch(obj, guard, ONCE)
      assert.is_true(handle:alive())
      handle:cancel()
      assert.is_false(handle:alive())
    end
    obj.a = 1
  end)

  it("is not alive after the death of a guard that is an object", function()
    local userdata = require "support".userdata
    local objects = { {}, { {} }, userdata { __newindex = function() end } }
    local handles = {}
    local function watch(guard)
      for i, obj in ipairs(objects) do
        for _, opts in ipairs { STAY, { key = "x" }, { keys = { 1, "x" } },
          { phase = "after" }, { deep = i < 3 } } do
          handles[#handles + 1] = mw.watch(obj, guard, opts)
        end
      end
    end
    do
      watch { invalidate = error }
      watch(mw.guard())
      watch(userdata { __index = { invalidate = error } })
    end
    local kept = mw.guard()
    watch(kept)
    collectgarbage()
    mw.reap()
    for i, handle in ipairs(handles) do
      assert.equal(i > #handles // 4 * 3, handle:alive())
    end
    for _, obj in ipairs(objects) do obj.x = 1 end
    assert.is_false(kept.valid)
    for _, obj in ipairs(objects) do mw.unwatch(obj) end
  end)

  it("is not alive after its one call, or its object's death", function()
    local obj = {}
    local handle = mw.watch(obj, function() end, ONCE)
    obj.a = 1
    assert.is_false(handle:alive())
    handle = mw.watch({}, function() end, ONCE)
    collectgarbage()
    mw.reap()
    assert.is_false(handle:alive())
    handle:cancel()
  end)

  it("can be closed", function()
    local obj, n = {}, 0
    do
      local _ <close> = mw.watch(obj, function() n = n + 1 end, STAY)
      obj.a = 1
    end
    obj.a = 2
    assert.equal(1, n)
  end)

  it("keeps nothing alive", function()
    local weak = setmetatable({}, { __mode = "k" })
    local handle
    do
      local obj = {}
      weak[obj] = true
      handle = mw.watch(obj, function() end, ONCE)
    end
    collectgarbage()
    assert.is_nil(next(weak))
    handle:cancel()
  end)

  it("of a guard not yet called keeps it from being called", function()
    local obj, n, later = {}, 0, nil
    mw.watch(obj, function() later:cancel() end, ONCE)
    later = mw.watch(obj, function() n = n + 1 end, ONCE)
    obj.a = 1
    assert.equal(0, n)
  end)

  it("raises for a wrong self", function()
    local handle = mw.watch({}, function() end, ONCE)
    for _, name in ipairs { "cancel", "alive" } do
      assert.equal("calling '" .. name ..
        "' on bad self (watch expected, got table)", error_of(handle[name], {}))
    end
  end)
end)

describe("an error in a guard", function()
  it("keeps no other guard from its call, nor the write", function()
    local obj, n = {}, 0
    mw.watch(obj, function() error "first" end, ONCE)
    mw.watch(obj, function() n = n + 1 end, ONCE)
    mw.watch(obj, function() error "second" end, ONCE)
    mw.watch(obj, function(o) n = n + o.a end, { phase = "after", once = true })
    local message = error_of(function() obj.a = 1 end)
    assert.matches("watch_spec.lua:%d+: first\nstack traceback:", message)
    assert.equal(2, n)
    assert.equal(1, obj.a)
  end)

  it("may be any value", function()
    local obj, value = {}, {}
    mw.watch(obj, function() error(value) end, ONCE)
    assert.equal(value, error_of(function() obj.a = 1 end))
  end)

  it("that is not text passes unchanged, however many guards it passes",
    function()
      local value = setmetatable({}, { __tostring = function() return "text"
      end })
      for _, err in ipairs { value, 42, 0.5, true, print } do
        local objects = {}
        for i = 1, 10 do
          objects[i] = {}
          mw.watch(objects[i], function()
            if i == 10 then error(err) end
            objects[i + 1].x = 1
          end, { phase = i % 2 == 0 and "after" or "before", deep = i > 5,
            once = true })
        end
        local got = error_of(function() objects[1].x = 1 end)
        assert.is_true(rawequal(err, got))
        assert.equal(math.type(err), math.type(got))
      end
    end)

  it("goes to mw.on_error instead, if that is set", function()
    local obj, seen = {}, {}
    local former = mw.on_error(function(err, where)
      seen[#seen + 1] = where .. ": " .. err:match "[^\n]*"
    end)
    assert.is_nil(former)
    mw.watch(obj, function() error("one", 0) end, ONCE)
    mw.watch(obj, function() error("two", 0) end, ONCE)
    obj.a = 1
    assert.is_function(mw.on_error(nil))
    assert.same({ "guard: one", "guard: two" }, seen)
    mw.watch(obj, function() error("three", 0) end, ONCE)
    assert.matches("^three", error_of(function() obj.a = 2 end))
  end)

  it("is raised after all when mw.on_error's function fails", function()
    local obj = {}
    mw.on_error(function() error("worse", 0) end)
    mw.watch(obj, function() error "bad" end, ONCE)
    local message = error_of(function() obj.a = 1 end)
    mw.on_error(nil)
    assert.equal("worse", message)
    assert.equal(1, obj.a)
  end)

  it("is what yielding is", function()
    local obj = {}
    mw.watch(obj, function() coroutine.yield() end, ONCE)
    local co = coroutine.wrap(function()
      return error_of(function() obj.a = 1 end)
    end)
    assert.matches("attempt to yield", co())
    assert.equal(1, obj.a)
  end)
end)

describe("a text that is an error in guards in guards", function()
  local bad

  before_each(function()
    bad = {}
    mw.watch(bad, function() error "bad cell" end, STAY)
  end)

  local function spoil() bad.x = 1 end

  local held = setmetatable({}, { __mode = "k" }) -- guards that are objects

  -- How an error comes from the write of `bad` to the next guard.
  local between = {
    nothing = spoil,
    raised_again = function()
      local _, err = pcall(spoil)
      error(err, 0)
    end,
    raised_after_another = function()
      local other = {}
      mw.watch(other, function() error "another" end, ONCE)
      local _, err = pcall(spoil)
      pcall(function() other.x = 1 end)
      error(err, 0)
    end,
    with_more_text = function()
      local _, err = pcall(spoil)
      error("because: " .. err)
    end,
    coroutine = function()
      local _, err = coroutine.resume(coroutine.create(spoil))
      error(err, 0)
    end,
    wrapped_coroutine = function() coroutine.wrap(spoil)() end,
    batch = function() mw.batch(spoil) end,
    transaction = function()
      local tx <close> = mw.begin()
      local _, err = pcall(spoil)
      tx:commit()
      error(err, 0)
    end,
    class = function()
      setmetatable({}, { __newindex = spoil }).x = 1
    end,
    close = function()
      local _ <close> = setmetatable({}, { __close = spoil })
    end,
  }

  local options = {
    stay = STAY, once = {}, after = { phase = "after" }, key = { key = "x" },
    deep = { deep = true }, both = { deep = true, phase = "after" },
  }

  for name, pass in pairs(between) do
    it("has one traceback, of the place where it happened (" .. name .. ")",
      function()
        for which, opts in pairs(options) do
          for length = 1, 20 do
            local cells = {}
            for i = 1, length do cells[i] = {} end
            for i = 1, length do
              local function guard()
                if i == length then pass() else cells[i + 1].x = 1 end
              end
              if i % 3 == 0 then
                guard = { invalidate = guard }
                held[cells[i]] = guard
              end
              mw.watch(cells[i], guard, opts)
            end
            local message = error_of(function() cells[1].x = 1 end)
            assert.matches("watch_spec.lua:%d+: bad cell\n", message)
            local _, n = message:gsub("stack traceback:", "")
            assert.equal(1, n, which)
            assert.is_true(#message < 10000)
            assert.equal(1, cells[length].x)
          end
        end
      end)
  end

  it("may have any bytes", function()
    local obj, outer = {}, {}
    mw.watch(obj, function() error("a\0b\nstack", 0) end, ONCE)
    mw.watch(outer, function() obj.x = 1 end, ONCE)
    local expected = "a\0b\nstack\nstack traceback:\n\t"
    local message = error_of(function() outer.x = 1 end)
    assert.equal(expected, message:sub(1, #expected))
    assert.is_nil(message:find("stack traceback:", #expected, true))
  end)

  it("is the first of all guards', and of each level's", function()
    local outer, order = {}, {}
    mw.watch(outer, function()
      order[#order + 1] = "a"
      pcall(spoil)
    end, ONCE)
    mw.watch(outer, function()
      order[#order + 1] = "b"
      error("second", 0)
    end, ONCE)
    mw.watch(outer, function()
      order[#order + 1] = "c"
      bad.x = 1
    end, ONCE)
    assert.matches("^second\n", error_of(function() outer.x = 1 end))
    assert.same({ "a", "b", "c" }, order)
    assert.equal(1, outer.x)
  end)
end)

-- Each runs in a Lua of its own: the levels of C that busted takes are missing.
describe("guards in guards", function()
  local shell = require "spec.support.shell"

  local PROGRAM = [[
    local mw = require "moonwatch"
    local new, options, guard, n = ...
    local cells, held = {}, {}
    for i = 1, n do cells[i] = new() end
    for i = 1, n - 1 do
      held[i] = guard(function() cells[i + 1].value = i end)
      mw.watch(cells[i], held[i], options)
    end
    cells[1].value = 0
    for i = 1, n do assert(cells[i].value == math.max(i - 1, 0), i) end
    print "done"
  ]]

  local plain, same = "function() return { value = -1 } end",
    "function(f) return f end"

  local function run(n, new, options, guard)
    local text = ("assert(load(%q))(%s, %s, %s, %d)"):format(PROGRAM, new,
      options, guard or same, n)
    local path = os.tmpname()
    local file = assert(io.open(path, "w"))
    assert(file:write(text))
    file:close()
    local output = shell.run("%s %s", os.getenv "LUA" or "lua5.4", path)
    os.remove(path)
    assert.equal("done\n", output)
  end

  for name, options in pairs {
    before = "{ once = false }", once = "{}", after = "{ phase = 'after' }",
    key = "{ key = 'value' }", keys = "{ keys = { 'other', 'value' } }",
    skip = "{ equal = 'skip', once = false }",
  } do
    it("may be 90 deep (" .. name .. ")", function()
      run(90, plain, options)
    end)
  end

  for name, new in pairs {
    class = "function() return setmetatable({}, { __index = {} }) end",
    empty = "function() return {} end",
    newindex = "function() return setmetatable({}, { __newindex = " ..
      "function(t, k, v) rawset(t, k, v) end }) end",
    tracked = "function() return require 'moonwatch'.track({}, " ..
      "{ deep = true }) end",
  } do
    it("may be 90 deep (" .. name .. ")", function()
      run(90, new, "{ once = false }")
    end)
  end

  for name, new in pairs(require "spec.support.styles") do
    if name ~= "penlight" or pcall(require, "pl.class") then
      it("may be 90 deep (" .. name .. ")", function()
        assert.is_function(new.make)
        run(90, ("(function() local style = require 'spec.support.styles'.%s" ..
          " local class = style.make('Cell') return function() return " ..
          "style.construct(class) end end)()"):format(name),
          "{ once = false }")
      end)
    end
  end

  it("may be 60 deep when the guards are objects, or deep", function()
    run(60, plain, "{}", "function(f) return { invalidate = f } end")
    run(60, plain, "{ deep = true, once = false }")
  end)

  it("that write without end are stopped with an error", function()
    collectgarbage "stop" -- where C's stack ends Lua cannot call finalisers
    finally(function() collectgarbage "restart" end)
    local a, b, n = {}, {}, 0
    mw.watch(a, function(o) o.x = 1 end, STAY)
    local message = "^[^\n]*: guards write to what they watch without end: " ..
      "field 'x'\nstack traceback:\n"
    assert.matches(message, error_of(function() a.x = 1 end))
    mw.unwatch(a)
    mw.watch(a, function() b.x = 1 end, STAY)
    mw.watch(b, function() a.x = 1 end, STAY)
    assert.matches(message, error_of(function() a.x = 1 end))
    mw.unwatch(a)
    mw.watch(a, function() n = n + 1 end, STAY)
    a.x = 2
    assert.same({ 1, 2 }, { n, a.x })
  end)
end)

describe("a guard may", function()
  local function guarded(f)
    local obj = { a = 0 }
    mw.watch(obj, f, STAY)
    return obj
  end

  it("unwatch the object", function()
    local obj = guarded(mw.unwatch)
    obj.a = 1
    assert.is_nil(getmetatable(obj))
    assert.equal(1, rawget(obj, "a"))
  end)

  it("change its class", function()
    local class = { __index = { inherited = true } }
    local n = 0
    local obj = guarded(function(o)
      n = n + 1
      if n == 1 then mw.setmetatable(o, class) end
    end)
    obj.a = 1
    assert.equal(2, n)
    assert.equal(1, obj.a)
    assert.is_true(obj.inherited)
  end)

  it("collect garbage", function()
    local obj = guarded(function() collectgarbage() end)
    obj.a = 1
    assert.equal(1, obj.a)
  end)

  it("write to other objects, which may write back", function()
    local a, b = {}, {}
    mw.watch(a, function() b.x = 1 end, ONCE)
    mw.watch(b, function() a.y = 2 end, ONCE)
    a.x = 0
    assert.same({ x = 0, y = 2 }, raw_of(a))
    assert.equal(2, mw.mutations(a))
  end)

  it("run coroutines that write", function()
    local obj, n = {}, 0
    mw.watch(obj, function(o)
      coroutine.wrap(function() o.inner = 1 end)()
    end, ONCE)
    mw.watch(obj, { invalidate = error })
    mw.watch(obj, function() n = n + 1 end, STAY)
    collectgarbage()
    obj.outer = 1
    assert.equal(2, n)
    assert.same({ inner = 1, outer = 1 }, raw_of(obj))
  end)
end)

describe("counting", function()
  it("begins with the first watch and goes on when nobody waits", function()
    local obj = {}
    obj.a = 1
    assert.equal(0, mw.mutations(obj))
    assert.is_false(mw.is_watched(obj))
    mw.watch(obj, function() end, ONCE)
    for i = 1, 10 do obj.a = i end
    assert.equal(10, mw.mutations(obj))
    assert.is_true(mw.is_watched(obj))
  end)

  it("counts writes of the same value and writes that fail", function()
    local class = { __newindex = function() error("read-only", 0) end }
    local obj, n = setmetatable({ a = 1 }, class), 0
    mw.watch(obj, function() n = n + 1 end, STAY)
    obj.a = 1
    assert.equal("read-only", error_of(function() obj.b = 1 end))
    assert.equal(2, mw.mutations(obj))
    assert.equal(2, n)
    assert.is_nil(obj.b)
  end)

  it("is 0 for anything else", function()
    for _, value in ipairs { 1, "a", true, {}, print } do
      assert.equal(0, mw.mutations(value))
      assert.is_false(mw.is_watched(value))
    end
  end)
end)

describe("misuse raises", function()
  local function nothing() end

  it("when there is no object", function()
    assert.equal("bad argument #1 to 'watch' (table or userdata expected, " ..
      "got nil)", error_of(mw.watch, nil, nothing))
    assert.matches("watch_spec.lua:%d+: bad argument #1 to 'watch'",
      error_of(function() mw.watch(1, nothing, ONCE) end))
    assert.matches("bad argument #1 to 'setmetatable'",
      error_of(mw.setmetatable, 1, {}))
    assert.matches("bad argument #2 to 'setmetatable' %(nil or table",
      error_of(mw.setmetatable, {}, 1))
    for _, name in ipairs { "unwatch", "touch", "sync" } do
      assert.matches("bad argument #1 to '" .. name .. "' %(table, userdata",
        error_of(mw[name], 5))
    end
  end)

  it("when there is no guard", function()
    assert.equal("bad argument #2 to 'watch' (function, table or guard " ..
      "expected, got number)", error_of(mw.watch, {}, 1))
    assert.equal("bad argument #2 to 'watch' (guard with method " ..
      "'invalidate' expected, got table)", error_of(mw.watch, {}, {}))
    assert.equal("bad argument #1 to 'on_error' (function expected, got " ..
      "table)", error_of(mw.on_error, {}))
  end)

  it("when the object is one of the library's", function()
    assert.equal("bad argument #1 to 'watch' (clock cannot be watched)",
      error_of(mw.watch, mw.clock(), nothing))
    assert.equal("bad argument #1 to 'watch' (weakmap cannot be watched)",
      error_of(mw.watch, mw.weakmap(), nothing))
  end)

  it("when an option is none, and leaves the object as it was", function()
    for message, options in pairs {
      ["unknown option 'twice'"] = { twice = true },
      ["unknown option '1'"] = { "deep" },
      ["unknown option '(a table)'"] = { [{}] = true },
      ["option 'once' is not a boolean"] = { once = 1 },
      ["unknown option 'count'"] = { count = false },
      ["option 'phase' is none of 'before', 'after', 'check'"] =
        { phase = "now" },
      ["option 'equal' is neither 'fire' nor 'skip'"] = { equal = true },
      ["option 'keys' is not an array of keys"] = { keys = {} },
      ["options 'key' and 'keys' exclude each other"] =
        { key = 1, keys = { 2 } },
      ["nil and NaN are no keys"] = { key = 0 / 0 },
    } do
      local obj = { a = 1 }
      assert.equal("bad argument #3 to 'watch' (" .. message .. ")",
        error_of(mw.watch, obj, nothing, options))
      assert.is_nil(getmetatable(obj))
      assert.equal(1, rawget(obj, "a"))
    end
    assert.equal("bad argument #3 to 'watch' (table expected, got string)",
      error_of(mw.watch, {}, nothing, "once"))
  end)

  it("with Lua's own words for keys that no table takes", function()
    for _, key in ipairs { 0 / 0, false } do
      local function write(t)
        return function() t[key or nil] = 1 end
      end
      local watched, armed = {}, {}
      mw.watch(watched, nothing, ONCE):cancel()
      mw.watch(armed, nothing, STAY)
      local plain = error_of(write {})
      assert.equal(plain, error_of(write(watched)))
      assert.equal(plain, error_of(write(armed)))
    end
  end)
end)

describe("a watch of a key that a coroutine set", function()
  it("ends well when both are gone", function()
    local clock = mw.clock "watch_spec"
    local function again()
      local addresses, kept = {}, {}
      coroutine.wrap(function()
        for i = 1, 200 do
          local obj = {}
          addresses[("%p"):format(obj)] = true
          mw.watch(obj, print, { key = "a key of its own, " .. i, once = true })
        end
      end)()
      collectgarbage()
      for i = 1, 20000 do -- all are kept, so each place is used again
        kept[i] = {}
        if addresses[("%p"):format(kept[i])] then
          clock:tag(kept[i])
          return true
        end
      end
    end
    local rounds = 0
    repeat
      rounds = rounds + 1
      if rounds > 1000 then error "addresses do not come back" end
    until again()
  end)
end)

describe("the last change of an object", function()
  it("is the default clock's generation of its last write", function()
    local clock, obj = mw.clock(), {}
    assert.equal(-1, mw.last_change(obj))
    mw.watch(obj, function() end, ONCE)
    assert.equal(-1, mw.last_change(obj))
    local n = clock:advance()
    assert.is_false(mw.changed_since(obj, 0))
    obj.x = 1
    assert.equal(n, mw.last_change(obj))
    clock:advance()
    assert.equal(n, mw.last_change(obj))
    assert.is_true(mw.changed_since(obj, n))
    assert.is_false(mw.changed_since(obj, n + 1))
    obj.x = 2
    assert.equal(n + 1, mw.last_change(obj))
    mw.unwatch(obj)
    assert.is_true(mw.changed_since(obj, n + 1))
    assert.equal(-1, mw.last_change(5))
    assert.matches("bad argument #2 to 'changed_since' %(integer expected",
      error_of(mw.changed_since, obj, "x"))
  end)
end)

-- Between two witnesses is a guard that does something, once.  The phases are
-- when it does that; each returns the object that is written, the object that
-- is watched, and how to write.
local phases = {
  before = {}, after = { phase = "after" }, of_a_key = { key = "x" },
  of_keys = { keys = { "w", "x", "z" } }, skipping = { equal = "skip" },
  batch_end = {}, deep = { deep = true },
  deep_after = { deep = true, phase = "after" },
  deep_of_a_key = { deep = true, key = "child" },
  deep_batch_end = { deep = true }, deep_itself = { deep = true },
}

local function phase_of(name)
  local opts, written = phases[name], { x = 0, y = 0 }
  local watched = written
  if opts.deep and name ~= "deep_itself" then
    watched = { child = { written } }
  end
  local function write(value)
    local function f() written.x = value end
    if name:find "batch" then mw.batch(f) else f() end
  end
  local function options(once)
    local copy = { once = once }
    for key, value in pairs(opts) do copy[key] = value end
    return copy
  end
  return {
    written = written, watched = watched, write = write, options = options,
    -- Is the value stored before the guards are called?
    is_late = opts.phase == "after" or name:find "batch" ~= nil,
    -- Do the guards hear of writes to other keys, and of touches?
    hears_others = not name:find "of_a?_?key" or name == "deep_of_a_key",
  }
end

-- Each does something with what `phase_of` returns, with the handles of the
-- witnesses, and returns how often they have heard of the first write, and
-- of that and the second one.
local actions = {}

local ONCE_EACH = { 1, 1, 2, 2 }

function actions.nothing() return ONCE_EACH end

function actions.write_the_same_key(at)
  at.written.x = "inner"
  at.stored = at.is_late and "inner" or nil
  return { 2, 2, 3, 3 }
end

function actions.write_another_key(at)
  at.written.y = 1
  return at.hears_others and { 2, 2, 3, 3 } or ONCE_EACH
end

function actions.delete(at)
  at.written.x = nil
  if at.is_late then at.is_deleted = true end
  return { 2, 2, 3, 3 }
end

function actions.touch(at)
  mw.touch(at.written, "y")
  return at.hears_others and { 2, 2, 3, 3 } or ONCE_EACH
end

function actions.rawset(at)
  rawset(at.written, "r", 1)
  mw.sync(at.written)
  assert.equal(1, at.written.r)
  return at.hears_others and { 2, 2, 3, 3 } or ONCE_EACH
end

function actions.cancel_the_others(at)
  at.first:cancel()
  at.last:cancel()
  return { 1, 0, 1, 0 }
end

function actions.cancel_itself(at)
  at.own:cancel()
  return ONCE_EACH
end

function actions.unwatch(at)
  assert.is_true(mw.unwatch(at.watched))
  at.is_ended = true
  assert.is_nil(getmetatable(at.written))
  assert.is_nil(getmetatable(at.watched))
  return { 1, 0, 1, 0 }
end

function actions.unwatch_and_watch_again(at)
  mw.unwatch(at.watched)
  at.is_ended = true
  at.watch()
  return { 1, 0, 2, 1 }
end

function actions.watch_again(at)
  at.watch()
  return { 1, 1, 3, 3 } -- the new ones, at the second write
end

function actions.detach(at)
  if at.watched == at.written then return ONCE_EACH end
  at.watched.child = nil
  at.is_ended = true -- what is written is below no root any more
  return { 2, 2, 2, 2 }
end

function actions.move(at)
  if at.watched == at.written then return ONCE_EACH end
  at.watched.child, at.watched.other = at.watched.child[1], at.watched.child
  return nil -- as many as there were writes to keys that are heard
end

function actions.attach(at)
  at.written.y = { below = {} }
  at.written.y.below.more = 1
  return nil
end

function actions.become_a_cycle(at)
  at.written.y = at.watched
  return at.hears_others and { 2, 2, 3, 3 } or ONCE_EACH
end

function actions.change_its_class(at)
  local class = { __index = { inherited = 1 } }
  mw.setmetatable(at.written, class)
  assert.equal(class, getmetatable(at.written))
  return at.hears_others and { 2, 2, 3, 3 } or ONCE_EACH
end

function actions.give_it_a_newindex(at)
  mw.setmetatable(at.written, { __newindex = function(t, k, v)
    rawset(t, k, v)
  end })
  at.written.fresh = 1
  assert.equal(1, at.written.fresh)
  return at.hears_others and { 3, 3, 4, 4 } or ONCE_EACH
end

function actions.collect()
  for _ = 1, 2 do collectgarbage() end
  mw.reap()
  return ONCE_EACH
end

function actions.raise(at)
  at.raises = true
  return ONCE_EACH, error("raised", 0)
end

function actions.batch(at)
  mw.batch(function() at.written.y = 1 end)
  return at.hears_others and { 2, 2, 3, 3 } or ONCE_EACH
end

function actions.batch_of_the_same_key(at)
  mw.batch(function() at.written.x = "inner" end)
  at.stored = at.is_late and "inner" or nil
  return { 2, 2, 3, 3 }
end

function actions.transaction(at)
  assert(mw.transaction(function() at.written.y = 1 end))
  assert.equal(1, at.written.y)
  return at.hears_others and { 2, 2, 3, 3 } or ONCE_EACH
end

function actions.failed_transaction(at)
  assert(not mw.transaction(function()
    at.written.y = 1
    error "taken back"
  end))
  assert.equal(0, at.written.y)
  return at.hears_others and { 3, 3, 4, 4 } or ONCE_EACH
end

function actions.track(at)
  mw.track(at.written, { deep = true })
  at.is_tracked = true
  return ONCE_EACH
end

function actions.track_and_untrack(at)
  mw.track(at.written, { deep = true })
  mw.untrack(at.written)
  return ONCE_EACH
end

function actions.track_and_unwatch(at)
  mw.track(at.written)
  at.is_tracked, at.is_ended = true, true
  mw.unwatch(at.watched)
  return { 1, 0, 1, 0 }
end

function actions.yield_in_a_coroutine(at)
  local co = coroutine.wrap(function()
    at.written.y = 1
    coroutine.yield()
  end)
  co()
  return at.hears_others and { 2, 2, 3, 3 } or ONCE_EACH
end

function actions.walk(at)
  for key in pairs(at.written) do
    if key == "x" then mw.unwatch(at.watched) end
  end
  at.is_ended = true
  return { 1, 0, 1, 0 }
end

describe("meanwhile a guard may", function()
  for action, act in pairs(actions) do
    for phase in pairs(phases) do
      it(("%s (%s)"):format(action:gsub("_", " "), phase), function()
        local at = phase_of(phase)
        local flag, heard, expected = mw.guard(), { 0, 0 }, false
        local function witness(i)
          return mw.watch(at.watched, function()
            heard[i] = heard[i] + 1
          end, at.options(false))
        end
        function at.watch() return witness(1), witness(2) end
        at.first = witness(1)
        at.own = mw.watch(at.watched, function()
          expected = nil
          expected = act(at)
        end, at.options(true))
        at.last = witness(2)
        mw.watch(at.watched, flag, at.options(false))

        local ok, message = pcall(at.write, 1)
        assert.equal(not at.raises, ok, message)
        if at.raises then expected = ONCE_EACH end
        assert.is_true(expected ~= false)
        if at.is_deleted then
          assert.is_nil(at.written.x)
        else
          assert.equal(at.stored or 1, at.written.x)
        end
        if expected then
          assert.same({ expected[1], expected[2] }, heard)
        end
        flag:revalidate()
        at.write(2)
        assert.equal(2, at.written.x)
        if expected then
          assert.same({ expected[3], expected[4] }, heard)
          assert.equal(at.is_ended or false, flag.valid)
        end
        if at.is_tracked then
          local _, fx = mw.transaction(at.write, 3)
          assert.equal(1, fx:len())
          mw.untrack(at.written)
        end
        mw.unwatch(at.watched)
        assert.is_not_nil(rawget(at.written, "x"))
        for _, t in ipairs { at.written, at.watched } do
          assert.is_false(mw.is_watched(t))
          assert.equal(t, raw_of(t))
        end
      end)
    end
  end
end)

-- So many end at once when each costs the same, and take minutes when each
-- costs what there are.
describe("twenty thousand", function()
  local MANY = 20000

  local function nothing() end

  local orders = {
    forwards = function(n) return function(i) return i end, n end,
    backwards = function(n) return function(i) return n + 1 - i end, n end,
    from_the_middle = function(n)
      return function(i) return (i + n // 2 - 1) % n + 1 end, n
    end,
    shuffled = function(n) -- 7919 is prime to n
      return function(i) return i * 7919 % n + 1 end, n
    end,
  }

  local KEYS = { "a", "b", "c" }

  -- How the watch of a number is made; what is written to fire all.
  local watches = {
    of_all_keys = function(obj, guard) return mw.watch(obj, guard, STAY) end,
    of_one_key = function(obj, guard)
      return mw.watch(obj, guard, { key = "a", once = false })
    end,
    of_own_keys = function(obj, guard, i)
      return mw.watch(obj, guard, { keys = { "a", i }, once = false })
    end,
    of_twins = function(obj, guard)
      return mw.watch(obj, guard, { keys = KEYS, once = false })
    end,
    deep = function(obj, guard)
      return mw.watch(obj, guard, { deep = true, once = false })
    end,
    after = function(obj, guard)
      return mw.watch(obj, guard, { phase = "after", once = false })
    end,
    once = function(obj, guard) return mw.watch(obj, guard, ONCE) end,
  }

  for kind, begin in pairs(watches) do
    for order, make in pairs(orders) do
      it(("watches are cancelled %s (%s)"):format(order, kind), function()
        local obj, handles, heard = { a = 0 }, {}, {}
        for i = 1, MANY do
          handles[i] = begin(obj, i % 1000 == 0 and function()
            heard[#heard + 1] = i
          end or nothing, i)
        end
        local at, n = make(MANY)
        for i = 1, n do
          local j = at(i)
          if j % 2000 ~= 0 then handles[j]:cancel() end
        end
        obj.a = 1
        assert.equal(10, #heard)
        for i = 1, 10 do assert.equal(2000 * i, heard[i]) end
        for i = 1, n do handles[at(i)]:cancel() end
        obj.a = 2
        assert.equal(10, #heard)
        assert.is_false(handles[MANY]:alive())
      end)
    end
  end

  -- Returns a function that cancels the watches once more.
  local function cancel_in_many_ways(begin, at, n)
    local obj, handles, heard = { a = 0 }, {}, 0
    local function cancel_all()
      for i = 1, n do handles[at(i)]:cancel() end
    end
    local function hear() heard = heard + 1 end
    local function watch_all()
      for i = 1, n do handles[i] = begin(obj, hear, i) end
    end
    watch_all()
    local first = mw.watch(obj, nothing, STAY)
    mw.batch(function()
      obj.a = 1
      cancel_all()
    end)
    first:cancel()
    mw.watch(obj, cancel_all, ONCE)
    watch_all()
    obj.a = 2
    watch_all()
    assert.is_true(mw.unwatch(obj))
    cancel_all()
    obj.a = 3
    watch_all()
    assert.equal(0, heard)
    return cancel_all
  end

  it("watches are cancelled by a guard, in a batch, with their object",
    function()
      for _, order in pairs(orders) do
        for _, begin in pairs(watches) do
          local again = cancel_in_many_ways(begin, order(MANY // 10))
          collectgarbage()
          mw.reap()
          again()
        end
      end
    end)

  -- Keys of the same kind; each number has another one.
  local keys = {
    strings = function(i) return "key " .. i end,
    long_strings = function(i) return ("long"):rep(11) .. i end,
    strings_with_zeros = function(i) return "k\0" .. i end,
    long_with_zeros = function(i) return ("\0"):rep(45) .. i end,
    integers = function(i) return i end,
    negative = function(i) return -i end,
    large = function(i) return math.maxinteger - i end,
    integral_floats = function(i) return i * 2.0 ^ 20 end,
    floats = function(i) return i + 0.25 end,
    objects = (function()
      local list = {}
      return function(i)
        list[i] = list[i] or {}
        return list[i]
      end
    end)(),
  }

  for kind, key in pairs(keys) do
    it("watches of keys are no matter for others' writes (" .. kind .. ")",
      function()
        local obj, handles, heard = { other = 0 }, {}, {}
        for i = 1, MANY do
          handles[i] = mw.watch(obj, function(_, k)
            heard[#heard + 1] = k
          end, { key = key(i), once = false })
        end
        local n = MANY + 1
        for i = n, n + MANY do obj[key(i)] = i end
        for i = 1, MANY do obj.other = i end
        assert.equal(0, #heard)
        obj[key(7)] = 1
        obj[key(n - 7)] = 1
        assert.equal(2, #heard)
        assert.is_true(rawequal(key(7), heard[1]) or heard[1] == key(7))
        assert.is_true(heard[2] == key(n - 7))
        for i = 1, MANY, 2 do handles[i]:cancel() end
        obj[key(7)] = 2
        obj[key(8)] = 2
        assert.equal(3, #heard)
        assert.is_true(heard[3] == key(8))
        assert.equal(2 * MANY + 5, mw.mutations(obj))
        mw.unwatch(obj)
      end)
  end

  it("guards that have died are no matter", function()
    local n = 5000
    local function held() return { invalidate = error } end
    for kind, begin in pairs(watches) do
      local obj, calls = { a = 0 }, 0
      for i = 1, n do begin(obj, held(), i) end
      for i = 1, n do begin(obj, mw.guard(), -i) end
      mw.watch(obj, function() calls = calls + 1 end, STAY)
      collectgarbage()
      mw.reap()
      for i = 1, n do obj.a = i end
      for i = 1, n do obj.other = i end
      assert.equal(2 * n, calls, kind)
      local before = collectgarbage "count"
      for _ = 1, 3 do
        for i = 1, n do begin(obj, held(), i) end
        collectgarbage()
      end
      assert.is_true(collectgarbage "count" < before + 4096, kind)
    end
  end)

  it("calls of once-only guards that watch again", function()
    local obj, n = {}, 0
    local function guard()
      n = n + 1
      mw.watch(obj, guard, { keys = KEYS, once = true })
    end
    mw.watch(obj, guard, ONCE)
    for i = 1, MANY do obj[KEYS[i % 3 + 1]] = i end
    assert.equal(MANY, n)
    for _ = 1, MANY - 1 do mw.watch(obj, guard, { key = "a", once = true }) end
    obj.a = 1
    assert.equal(2 * MANY, n)
    obj.b = 1
    assert.equal(3 * MANY, n)
  end)

  it("keys of one watch", function()
    local obj, list, n = {}, {}, 0
    for i = 1, 5000 do list[i] = i % 2 == 0 and i or "key " .. i end
    local opts = { keys = list, once = false }
    local handle = mw.watch(obj, function() n = n + 1 end, opts)
    for i = 1, 5000 do obj[list[i]] = i end
    assert.equal(5000, n)
    mw.batch(function()
      for i = 1, 5000 do obj[list[i]] = -i end
    end)
    assert.equal(5001, n)
    handle:cancel()
    for i = 1, 5000 do obj[list[i]] = i end
    assert.equal(5001, n)
  end)
end)

local json = require "spec.support.json"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local shell = require "spec.support.shell"
local support = require "support"

local function text_of(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

local function write(trace, format)
  local text
  shell.with_directory(function(path)
    assert.is_true(trace:write(path .. "/out", format))
    text = text_of(path .. "/out")
    assert.equal("out\n", shell.files(path) or "out\n")
  end)
  return text
end

local function events_of(trace)
  return json.decode(write(trace)).traceEvents
end

-- What the main coroutine did, as "Ba Bb Eb Ea".
local function story(trace, tid)
  local list = {}
  for _, e in ipairs(events_of(trace)) do
    if e.ph ~= "M" and e.tid == (tid or 1) then
      list[#list + 1] = e.ph .. e.name
    end
  end
  return table.concat(list, " ")
end

local function find(trace, ph, name)
  for _, e in ipairs(events_of(trace)) do
    if e.ph == ph and e.name == name then return e end
  end
end

-- The trace of what `f` does.
local function traced(f, opts)
  local trace <close> = mw.trace(opts):start()
  f()
  return trace:stop()
end

local function step(name)
  local scope <close> = mw.timed(name)
  return scope
end

describe("a trace", function()
  it("has what happens while it runs", function()
    step "before"
    local trace = traced(function()
      local scope <close> = mw.timed "outer"
      mw.instant "moment"
      step "inner"
      mw.counter("things", 3)
      assert.is_not_nil(scope)
    end)
    step "after"
    assert.equal("Bouter imoment Binner Einner Cthings Eouter", story(trace))
    assert.equal(6, trace:len())
    assert.equal(0, trace:lost())
  end)

  it("goes on when it is started again; what was open has ended", function()
    local trace = mw.trace():start()
    local scope = mw.timed "a"
    assert.equal(trace, trace:stop())
    step "between"
    trace:start():start()
    step "b"
    scope:close()
    trace:stop()
    trace:stop()
    assert.equal("Ba Ea Bb Eb", story(trace))
  end)

  it("runs alone", function()
    local trace <close> = mw.trace():start()
    local other = mw.trace()
    misuse("'start': another trace is running", other.start, other)
    other:stop()
    step "a"
    assert.equal("Ba Ea", story(trace))
  end)

  it("does not take a scope of another one's time for its own", function()
    local trace = mw.trace():start()
    local scope = mw.timed "old"
    trace:stop()
    local later = mw.trace():start()
    mw.timed "new"
    scope:close()
    later:stop()
    assert.equal("Bnew Enew", story(later))
    assert.equal("Bold Eold", story(trace))
  end)

  it("ends with its block, or when nobody has it", function()
    do
      local trace <close> = mw.trace():start()
      assert.is_not_nil(trace)
    end
    mw.trace():start()
    collectgarbage()
    collectgarbage()
    mw.trace():start():stop()
  end)

  it("keeps the newest events, balanced, and counts the others", function()
    local trace = traced(function()
      local outer <close> = mw.timed "outer"
      for i = 1, 10 do step("step " .. i) end
      assert.is_not_nil(outer)
      mw.instant "last"
    end, { capacity = 6 })
    assert.equal("Bstep 9 Estep 9 Bstep 10 Estep 10 ilast", story(trace))
    assert.equal(16, trace:lost())
    assert.equal(16, json.decode(write(trace)).otherData.lost)
  end)

  it("is balanced when scopes are closed in another order", function()
    local trace = traced(function()
      local a, b = mw.timed "a", mw.timed "b"
      mw.timed "c"
      a:close()
      b:close()
      a:close()
      step "d"
    end)
    assert.equal("Ba Bb Bc Ec Eb Ea Bd Ed", story(trace))
  end)

  it("has a thread for each coroutine, also for one that is dropped",
    function()
      local trace = traced(function()
        local co = coroutine.wrap(function()
          local scope <close> = mw.timed "in it"
          coroutine.yield()
          assert.is_not_nil(scope)
        end)
        step "a"
        co()
        step "b"
        co = nil
        collectgarbage()
        collectgarbage()
        assert.is_nil(co)
        step "c"
      end)
      assert.equal("Ba Ea Bb Eb Bc Ec", story(trace))
      local begin = find(trace, "B", "in it")
      assert.not_equal(1, begin.tid)
      assert.equal("Bin it Bsuspended Esuspended Ein it",
        story(trace, begin.tid))
      local finish = find(trace, "E", "in it")
      assert.is_true(finish.ts <= find(trace, "B", "c").ts)
      for _, e in ipairs(events_of(trace)) do
        if e.name == "thread_name" then
          assert.equal(e.tid == 1 and "main" or "coroutine " .. e.tid,
            e.args.name)
        end
      end
    end)

  it("keeps nothing alive", function()
    local weak = setmetatable({}, { __mode = "v" })
    local trace = traced(function()
      local args, member, thread = { 1 }, {}, coroutine.create(step)
      weak.args, weak.member, weak.thread = args, member, thread
      mw.instant("a", { object = args })
      local scope <close> = mw.timed("b", { args = { object = args } })
      scope:insert("set", member)
      coroutine.resume(thread, "c")
    end)
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(weak))
    assert.equal(5, trace:len())
  end)

  it("is called as it should be", function()
    misuse("bad argument #1 to 'trace' (table expected, got number)", mw.trace,
      5)
    misuse("bad argument #1 to 'trace' (unknown option 'size')", mw.trace,
      { size = 5 })
    for _, capacity in ipairs { 0, -1, 1.5, "5", 2 ^ 60 } do
      misuse("(option 'capacity' is not an integer from 1 to ", mw.trace,
        { capacity = capacity })
    end
    misuse("(option 'sources' is not a table)", mw.trace, { sources = "watch" })
    misuse("(unknown source 'write')", mw.trace, { sources = { "write" } })
    misuse("(unknown source '?')", mw.trace, { sources = { {} } })
    local trace = mw.trace()
    misuse("calling 'start' on bad self (trace expected, got no value)",
      trace.start)
    misuse("calling 'write' on bad self (trace expected, got table)",
      trace.write, {}, "x")
    misuse("bad argument #1 to 'write' (string expected, got nil)",
      trace.write, trace)
    misuse("bad argument #2 to 'write' ('chrome', 'speedscope' or 'html' exp",
      trace.write, trace, "x", "xml")
    misuse("bad argument #1 to 'instant' (string expected", mw.instant, {})
    misuse("bad argument #2 to 'instant' (table expected", mw.instant, "x", 1)
    misuse("bad argument #2 to 'counter' (number expected", mw.counter, "x",
      "1")
  end)
end)

describe("the sources of a trace", function()
  local WATCH = { sources = { "watch" } }

  it("are nothing unless they are asked for", function()
    local trace = traced(function()
      local object = mw.track {}
      mw.transaction(function() object.x = 1 end)
      mw.clock():advance()
    end)
    assert.equal(0, trace:len())
  end)

  it("tell of each write, its object and key", function()
    local object, other = { x = 1 }, mw.track { y = 1 }
    local userdata = support.userdata(setmetatable({}, {
      __index = { __newindex = function() end },
    }))
    assert.is_not_nil(userdata)
    mw.watch(object, mw.guard(), { once = true })
    object.x = 2 -- nobody is left who watches
    local trace = traced(function()
      object.x = 3
      object[2.0] = true
      other.y = nil
      mw.touch(object, "x")
    end, WATCH)
    object.x = 4
    assert.equal("iupdate iinsert idelete itouch", story(trace))
    local update, delete = find(trace, "i", "update"), find(trace, "i",
      "delete")
    assert.same({ object = mw.id(object), key = "x", old = 2, new = 3 },
      update.args)
    assert.equal("watch", update.cat)
    assert.same({ object = mw.id(other), key = "y", old = 1 }, delete.args)
    assert.equal(2, find(trace, "i", "insert").args.key)
  end)

  it("tell of writes that nobody waits for, also after a watch was cancelled",
    function()
      local object = { x = 1 }
      local handle = mw.watch(object, mw.guard())
      handle:cancel()
      local trace = traced(function() object.x = 2 end, WATCH)
      assert.equal("iupdate", story(trace))
    end)

  it("tell of any key", function()
    local object = mw.track {}
    local long = ("k"):rep(1000)
    local keys = { "", "a\0\"b", long, 5, -0.5, math.huge, true, {}, print }
    local trace = traced(function()
      for _, key in ipairs(keys) do object[key] = 1 end
      mw.touch(object)
    end, WATCH)
    local said = {}
    for _, e in ipairs(events_of(trace)) do
      if e.ph == "i" then said[#said + 1] = e.args.key end
    end
    assert.same({ "", "a\0\"b", long, 5, -0.5, "inf", true, "table",
      "function", json.decode "null" }, said)
  end)

  it("tell of more keys than a trace has events", function()
    local object, names = mw.track {}, {}
    local trace = traced(function()
      for i = 1, 100 do object["key " .. i] = i end
    end, { sources = { "watch" }, capacity = 10 })
    for _, e in ipairs(events_of(trace)) do
      if e.ph == "i" then names[#names + 1] = e.args.key end
    end
    assert.equal(10, #names)
    assert.equal("key 91", names[1])
    assert.equal("key 100", names[10])
    assert.same({}, json.decode(write(trace, "speedscope")).profiles[1].events)
  end)

  it("go on in another trace, and with another context", function()
    local object = mw.track { x = 1 }
    mw.watch(object, function() end, { once = false })
    local first = traced(function() object.x = 2 end, WATCH)
    local second = traced(function()
      mw.instant "a name"
      local context <close> = mw.context(function() return "here" end)
      object.x = 3
      assert.is_not_nil(context)
    end, WATCH)
    assert.equal("iupdate", story(first))
    assert.equal("ia name iupdate", story(second))
    assert.same({ object = mw.id(object), key = "x", old = 2, new = 3,
      guards = 1, context = { "here" } }, find(second, "i", "update").args)
    assert.is_nil(find(first, "i", "update").args.context)
  end)

  it("end when a context stops the trace", function()
    local object, trace = mw.track { x = 1 }, mw.trace(WATCH):start()
    local context <close> = mw.context(function() trace:stop() end)
    mw.watch(object, mw.guard())
    object.x = 2
    assert.is_not_nil(context)
    assert.equal("iupdate", story(trace))
  end)

  it("tell when guards hear of a write", function()
    local object, guard = { x = 1 }, mw.guard()
    mw.watch(object, guard, { key = "x" })
    mw.watch(object, function() end, { once = false, phase = "after" })
    local trace = traced(function()
      object.x = 2
      mw.batch(function() object.y = 1 end)
    end, WATCH)
    assert.equal("iupdate iinsert iinvalidate", story(trace))
    assert.same({ object = mw.id(object), key = "x", old = 1, new = 2,
      guards = 2 }, find(trace, "i", "update").args)
    assert.same({ object = mw.id(object), key = "y", new = 1 },
      find(trace, "i", "insert").args)
    assert.same({ guards = 1 }, -- of the batch
      find(trace, "i", "invalidate").args)
  end)

  -- The args of the events of the writes that `f` makes.
  local function args_of(f, opts)
    local list = {}
    local trace = traced(f, opts or WATCH)
    for _, e in ipairs(events_of(trace)) do
      if e.ph == "i" then list[#list + 1] = e.args end
    end
    return list
  end

  it("tell the value before and the value after", function()
    local object, other = mw.track { x = 1 }, mw.track {}
    local args = args_of(function()
      object.x = 2.5
      object.x = "text"
      object.x = false
      object.x = nil
      object.y = other
      object.y = function() end
      object.y = {}
      object.y = setmetatable({}, { __name = "Sword" })
      object.y = coroutine.create(print)
      object.y = math.maxinteger
      object.y = -math.huge
    end)
    for i = 2, #args do assert.same(args[i - 1].new, args[i].old) end
    assert.equal(1, args[1].old)
    assert.equal(2.5, args[1].new)
    assert.equal("text", args[2].new)
    assert.equal(false, args[3].new)
    assert.is_nil(args[4].new)
    assert.same({ object = mw.id(other) }, args[5].new)
    assert.same({ type = "function" }, args[6].new)
    assert.same({ type = "table" }, args[7].new)
    assert.same({ type = "Sword" }, args[8].new)
    assert.same({ type = "thread" }, args[9].new)
    assert.equal(math.maxinteger, args[10].new)
    assert.equal("-inf", args[11].new)
  end)

  it("cut long values, and say so", function()
    local object = mw.track {}
    local args = args_of(function()
      object.x = ("x"):rep(256)
      object.x = ("\u{e9}"):rep(129)
      object[("k"):rep(2000)] = 1
    end)
    assert.equal(("x"):rep(256), args[1].new)
    assert.equal(("\u{e9}"):rep(128) .. "… (258 bytes)", args[2].new)
    assert.equal(("k"):rep(1024) .. "… (2000 bytes)", args[3].key)
  end)

  it("name the object by its name or its class", function()
    local Hero = { __name = "Hero" }
    Hero.__index = Hero
    function Hero:run() self.x = 1 end
    local named = mw.name_class("a named class", {})
    local hero = mw.track(setmetatable({}, Hero))
    local plain, other = mw.track {}, mw.track(setmetatable({}, named))
    local args = args_of(function()
      hero.x = 1
      plain.x = 1
      other.x = 1
      plain.hero = hero
    end)
    assert.equal("Hero", args[1].name)
    assert.is_nil(args[2].name)
    assert.equal("a named class", args[3].name)
    assert.same({ object = mw.id(hero), name = "Hero" }, args[4].new)
    local h <close> = mw.hierarchy()
    h:instrument(Hero, { "run" })
    local boss = mw.track(setmetatable({}, Hero))
    args = args_of(function() boss:run() end)
    assert.equal(h:name_of(boss), args[1].name)
  end)

  it("name objects that are dead when the file is written", function()
    local trace = traced(function()
      for i = 1, 3 do
        local object = mw.track(setmetatable({}, { __name = "No. " .. i }))
        object.x = i
      end
      collectgarbage()
      collectgarbage()
    end, WATCH)
    local names = {}
    for _, e in ipairs(events_of(trace)) do
      if e.ph == "i" then names[#names + 1] = e.args.name end
    end
    assert.same({ "No. 1", "No. 2", "No. 3" }, names)
  end)

  it("tell the place of a write if that is asked for", function()
    local object = mw.track { list = mw.track { 1 } }
    local function store() object.x = 1 end
    local line = debug.getinfo(store, "S").linedefined
    local opts = { sources = { "watch" }, where = true }
    local args = args_of(function()
      store()
      coroutine.wrap(store)()
      mw.touch(object)
      table.insert(object.list, 2)
    end, opts)
    assert.equal("spec/trace_spec.lua:" .. line, args[1].where)
    for _, its in ipairs(args) do
      assert.matches("^spec/trace_spec.lua:%d+$", its.where)
    end
    assert.is_nil(args_of(store)[1].where)
    misuse("(option 'where' is not a boolean)", mw.trace, { where = 1 })
  end)

  it("count the guards of an object whose class stores itself", function()
    local object = setmetatable({}, { __newindex = function(t, k, v)
      rawset(t, k, v)
    end })
    mw.watch(object, function() end, { once = false })
    mw.watch(object, function() end, { once = false, phase = "after" })
    local args = args_of(function()
      coroutine.wrap(function() object.x = 1 end)()
    end)
    assert.equal(2, args[1].guards)
  end)

  it("tell of a write and of the writes of its guards, one event each",
    function()
      local object, log = { x = 1 }, mw.track {}
      mw.watch(object, function(_, _, old, new) log[#log + 1] = old + new end,
        { once = false })
      local args = args_of(function() object.x = 2 end)
      assert.equal(2, #args)
      assert.same({ 1, 2, 1 }, { args[1].old, args[1].new, args[1].guards })
      assert.same({ 1, 3 }, { args[2].key, args[2].new })
    end)

  it("tell of clocks that advance", function()
    local trace = traced(function() mw.clock("frames"):advance() end,
      { sources = { epoch = true, watch = false } })
    local event = find(trace, "i", "advance")
    assert.same({ clock = "frames", generation = mw.clock("frames"):now() },
      event.args)
    assert.equal("epoch", event.cat)
  end)

  it("tell of transactions and how they end", function()
    local object = mw.track { x = 1 }
    local trace = traced(function()
      mw.transaction(function()
        object.x = 2
        pcall(mw.transaction, function() error "no" end)
      end)
      local tx <close> = mw.begin()
      assert.is_not_nil(tx)
    end, { sources = { "transaction" } })
    local B, E = "Btransaction", "Etransaction"
    assert.equal(table.concat({ B, B, E, E, B, E }, " "), story(trace))
    local results = {}
    for _, e in ipairs(events_of(trace)) do
      if e.ph == "E" then results[#results + 1] = e.args.result end
    end
    assert.same({ "rollback", "commit", "rollback" }, results)
  end)
end)

describe("a trace that is written", function()
  -- In each thread, what begins ends, and times do not go back.
  local function check_balance(events)
    local stacks, last = {}, {}
    for _, e in ipairs(events) do
      assert.is_true(math.type(e.pid) == "integer")
      assert.is_true(math.type(e.tid) == "integer")
      if e.ph ~= "M" then
        assert.is_true(e.ts >= (last[e.tid] or 0))
        last[e.tid] = e.ts
        local stack = stacks[e.tid] or {}
        stacks[e.tid] = stack
        if e.ph == "B" then stack[#stack + 1] = e.name end
        if e.ph == "E" then assert.equal(e.name, table.remove(stack)) end
      end
    end
    for _, stack in pairs(stacks) do assert.equal(0, #stack) end
  end

  local HOSTILE = {
    "</script><script>alert(1)</script>", "\0\1\27\"\\\n", "\xff\xc3(\xed\xa0",
    ("long "):rep(2000), "", "caf\u{e9} \u{1F600}",
  }

  local function hostile()
    return traced(function()
      for _, name in ipairs(HOSTILE) do
        local scope <close> = mw.timed(name, { category = name,
          args = { [name] = name } })
        mw.counter(name, 1.5)
        assert.is_not_nil(scope)
      end
    end)
  end

  it("is what Chrome and Perfetto read", function()
    local trace = traced(function()
      for _ = 1, 3 do
        coroutine.wrap(function()
          local scope <close> = mw.timed "a"
          step "b"
          assert.is_not_nil(scope)
        end)()
      end
      mw.counter("n", 0.25)
      mw.counter("n", 0 / 0)
    end)
    check_balance(events_of(trace))
    assert.same({ value = 0.25 }, find(trace, "C", "n").args)
    assert.equal(0, trace:lost())
  end)

  it("is balanced at each length of the ring", function()
    for capacity = 1, 12 do
      check_balance(events_of(traced(function()
        local a <close> = mw.timed "a"
        step "b"
        local c <close> = mw.timed "c"
        coroutine.wrap(step) "d"
        assert.is_true(a ~= c)
      end, { capacity = capacity })))
    end
  end)

  it("shows times in microseconds", function()
    local from = os.time()
    local trace = traced(function()
      local start = os.clock()
      local scope <close> = mw.timed "busy"
      while os.clock() - start < 0.002 do mw.frame() end
      assert.is_not_nil(scope)
    end)
    local took = find(trace, "E", "busy").ts - find(trace, "B", "busy").ts
    assert.is_true(took > 1500, tostring(took))
    assert.is_true(took < (os.time() - from + 1) * 1e6, tostring(took))
  end)

  it("says names as they are, if that can be said in JSON", function()
    local trace = hostile()
    local text = write(trace)
    assert.is_nil(text:find("<", 1, true))
    assert.is_not_nil(utf8.len(text))
    check_balance(json.decode(text).traceEvents)
    for i, name in ipairs(HOSTILE) do
      if i ~= 3 then
        local begin = find(trace, "B", name)
        assert.equal(name, begin.args[name])
        assert.equal(name, begin.cat)
      end
    end
    local replaced = "\u{fffd}\u{fffd}(\u{fffd}\u{fffd}"
    assert.is_not_nil(find(trace, "B", replaced))
  end)

  it("replaces each byte that begins no character", function()
    for byte = 0x80, 0xFF do
      local name = string.char(byte) .. "\x82\x80\x80"
      local trace = traced(function() mw.instant(name) end)
      local text = write(trace)
      assert.is_not_nil(utf8.len(text), byte)
      assert.equal(utf8.len(name) ~= nil, text:find(name, 1, true) ~= nil, byte)
    end
  end)

  it("says args as they were", function()
    local circle = { 1 }
    circle[2] = circle
    local args = {
      integer = math.mininteger, float = -1.5e-7, large = 1e300, yes = true,
      nan = 0 / 0, list = { 1, "two", { 3 } }, watched = mw.track { x = 1 },
      f = print, [1] = "one", [1.5] = "float", circle = circle, null = mw.null,
    }
    local trace = traced(function() mw.instant("a", args) end)
    local said = find(trace, "i", "a").args
    assert.equal(math.mininteger, said.integer)
    assert.equal(-1.5e-7, said.float)
    assert.equal(1e300, said.large)
    assert.same({ true, "nan", "function", "one", "float" },
      { said.yes, said.nan, said.f, said["[1]"], said["[1.5]"] })
    assert.same({ 1, "two", { 3 } }, said.list)
    assert.same({ x = 1 }, said.watched)
    assert.equal(1, said.circle[2][2][1])
    args.list = { ("x"):rep(1000000) }
    args.more = { ("x"):rep(1000000) }
    trace = traced(function() mw.instant("a", args) end)
    assert.is_not_nil(find(trace, "i", "a"))
  end)

  it("is what speedscope reads", function()
    local trace = traced(function()
      local a <close> = mw.timed "a"
      coroutine.wrap(step) "b"
      step "c"
      assert.is_not_nil(a)
    end)
    local file = json.decode(write(trace, "speedscope"))
    assert.equal("https://www.speedscope.app/file-format-schema.json",
      file["$schema"])
    assert.equal(2, #file.profiles)
    for _, profile in ipairs(file.profiles) do
      assert.equal("evented", profile.type)
      assert.equal("microseconds", profile.unit)
      local stack, last = {}, profile.startValue
      for _, e in ipairs(profile.events) do
        assert.is_string(file.shared.frames[e.frame + 1].name)
        assert.is_true(e.at >= last and e.at <= profile.endValue)
        last = e.at
        if e.type == "O" then
          stack[#stack + 1] = e.frame
        else
          assert.equal(e.frame, table.remove(stack))
        end
      end
      assert.equal(0, #stack)
    end
    assert.equal("main", file.profiles[1].name)
    assert.equal(4, #file.profiles[1].events)
  end)

  it("is a page that loads nothing and runs its own script only", function()
    local page = require "moonwatch.trace.page"
    local text = write(hostile(), "html")
    assert.equal(page.head, text:sub(1, #page.head))
    assert.equal(page.tail, text:sub(-#page.tail))
    local data = text:sub(#page.head + 1, -#page.tail - 1)
    assert.is_nil(data:find("<", 1, true))
    check_balance(json.decode(data).traceEvents)
    assert.is_nil(text:find "https?://" or text:find "innerHTML")
    assert.matches("default-src 'none'", text, 1, true)
  end)

  it("is a page whose hashes are those of its parts", function()
    local page = require "moonwatch.trace.page"
    local DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" ..
      "0123456789+/"
    local function base64(hex)
      local bits = hex:gsub("%x", function(c)
        local n = tonumber(c, 16)
        return ("%d%d%d%d"):format(n // 8, n // 4 % 2, n // 2 % 2, n % 2)
      end)
      return (bits .. "00"):gsub("%d%d%d%d%d%d", function(c)
        local i = tonumber(c, 2) + 1
        return DIGITS:sub(i, i)
      end) .. "="
    end
    local function hash(text)
      local digest
      shell.with_directory(function(path)
        local file = assert(io.open(path .. "/text", "w"))
        file:write(text)
        file:close()
        digest = shell.run("sha256sum %s/text", path):match "^%x+"
      end)
      return base64(digest)
    end
    assert.equal(page.style_hash, hash(page.style))
    assert.equal(page.script_hash, hash(page.script))
  end)

  it("takes the place of a file when it is whole", function()
    shell.with_directory(function(path)
      local trace, place = mw.trace(), path .. "/trace.json"
      local file = assert(io.open(place, "w"))
      file:write "old"
      file:close()
      assert.is_true(trace:write(place))
      assert.is_not_nil(json.decode(text_of(place)).traceEvents)
      assert.equal("trace.json\n", shell.files(path))
    end)
  end)

  it("says why it cannot be", function()
    local trace = mw.trace()
    local function refused(path, why)
      local ok, message = trace:write(path)
      assert.is_nil(ok)
      assert.equal("cannot write '" .. path .. "': " .. why, message)
    end
    refused("/nowhere/trace.json", "No such file or directory")
    refused("/dev/full", "No space left on device")
    refused("/", "Is a directory")
    assert.is_nil((trace:write "a\0b"))
  end)

  it("leaves what was there when the disk is full", function()
    shell.with_directory(function(path)
      local _, mounted = shell.run(
        "mount -t tmpfs -o size=64k none %s", path)
      if not mounted then return pending "this takes root" end
      finally(function() shell.run("umount %s", path) end)
      local place = path .. "/trace.json"
      local file = assert(io.open(place, "w"))
      file:write "old"
      file:close()
      local trace = traced(function()
        for i = 1, 10000 do mw.instant("number " .. i) end
      end)
      local ok, message = trace:write(place)
      assert.is_nil(ok)
      assert.matches("No space left on device", message)
      assert.equal("old", text_of(place))
      assert.equal("trace.json\n", (shell.run("ls %s", path)))
      shell.run("umount %s", path)
    end)
  end)
end)

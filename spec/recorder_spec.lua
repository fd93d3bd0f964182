local raw_of = require "spec.support.raw_of"
local attempt_growth = require "spec.support.growth"
local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local shell = require "spec.support.shell"
local support = require "support"

-- Returns the entries as one text: "x:1>2", with R for what was taken back.
local function show(recorder, seq)
  local list = {}
  for e in recorder:entries(seq) do
    list[#list + 1] = ("%s%s:%s>%s"):format(e.rolled_back and "R " or "",
      e.kind == "metatable" and "class" or e.key, e.old, e.new)
  end
  return table.concat(list, ", ")
end

-- Returns the entries as an array.
local function list_of(recorder, seq)
  local list = {}
  for e in recorder:entries(seq) do list[#list + 1] = e end
  return list
end

-- Returns a coroutine that begins a transaction, runs `f`, waits, and ends the
-- transaction by `method`.
local function holder(method, f)
  local co = coroutine.wrap(function()
    local tx = mw.begin()
    f()
    coroutine.yield()
    tx[method](tx)
  end)
  co()
  return co
end

-- Waits so long that seconds can be told apart.
local function pass(seconds)
  local t = os.clock() + seconds
  while os.clock() < t do end
end

describe("a recorder", function()
  it("has the last entries of all that is watched or tracked", function()
    local tracked, watched, plain = mw.track {}, {}, {}
    mw.watch(watched, function() end, { once = false })
    tracked.before = 1
    local r <close> = mw.recorder()
    tracked.a = 1
    watched.b = 1
    plain.c = 1
    tracked.a = nil
    assert.equal(1, plain.c)
    assert.equal("a:nil>1, b:nil>1, a:1>nil", show(r))
    assert.same({ 3, 3, 0 }, { r:len(), #r, r:lost() })
    local e = list_of(r)[2]
    assert.equal(watched, e.object)
    assert.same({ "b", 1, "insert", mw.clock():now() },
      { e.key, e.new, e.kind, e.epoch })
    assert.is_nil(e.old)
    assert.is_nil(e.transaction)
    assert.is_nil(e.origin)
    assert.is_nil(e.scope)
    assert.is_nil(e.because)
    assert.is_nil(e.where)
  end)

  it("has an entry for each kind of write, and none for a touch", function()
    local r <close> = mw.recorder()
    local t = mw.track { x = 1, 3, 1, 2 }
    t.x = 2
    t.y = 1
    t.x = nil
    mw.touch(t, "x")
    table.insert(t, 9)
    table.remove(t)
    mw.setmetatable(t, { __name = "C" })
    rawset(t, "z", 1)
    mw.sync(t)
    local kinds = {}
    for e in r:entries() do kinds[#kinds + 1] = e.kind end
    assert.equal("update insert delete insert delete metatable insert",
      table.concat(kinds, " "))
    assert.equal(7, r:len())
    table.sort(t)
    assert.same({ 1, 2, 3 }, { t[1], t[2], t[3] })
    assert.is_true(r:len() > 7)
  end)

  it("has the calls and the writes of userdata", function()
    local class = { __name = "recorded" }
    local fields = { hit = function(self) return self end }
    class.__index = fields
    function class.__newindex(_, key, value) fields[key] = value end
    local u = support.userdata(class)
    local original = mw.policy({ classes = {
      recorded = { mutators = { "hit" } } } }):use()
    mw.track(u)
    local r <close> = mw.recorder()
    u.x = 5
    u:hit()
    original:use()
    local list = list_of(r)
    assert.equal(u, list[1].object)
    assert.same({ "x", 5 }, { list[1].key, list[1].new })
    assert.is_true(#list <= 2)
    assert.equal(5, r:why(u, "x").new)
  end)

  it("has the globals of a transaction, and the cells of a plan", function()
    local env, n = {}, 1
    local r <close> = mw.recorder()
    mw.transaction({ globals = env }, function() env.x = 1 end)
    local plan = mw.plan()
    plan:store_cell(plan:track_cell(function() return n end, 1), 2)
    plan:apply()
    assert.equal("x:nil>1, n:1>2", show(r))
    assert.equal(env, list_of(r)[1].object)
    assert.matches("^n of cell#%d+: 1 %-> 2", tostring(list_of(r)[2]))
  end)

  it("has what effects, plans, patches, undo and redo store", function()
    local t = mw.track({ x = 0, l = { 1 } }, { deep = true })
    local _, fx = mw.transaction(function() t.x = 1 end)
    local r <close> = mw.recorder()
    fx:rollback()
    assert(fx:apply())
    assert(mw.patch(t, { { op = "replace", path = "/l/0", value = 2 } }))
    local history = mw.history()
    history:run("step", function() t.x = 5 end)
    history:undo()
    history:redo()
    local plan = mw.plan()
    plan:track(t)
    plan:store(t, "y", 1)
    assert(plan:apply())
    assert.equal("x:1>0, x:0>1, 1:1>2, x:1>5, x:5>1, x:1>5, y:nil>1", show(r))
  end)

  it("has what raw functions, snapshots and bytes store", function()
    local t = mw.track({ a = 1, list = { 1 } }, { deep = true })
    local bytes = assert(mw.snapshot(t))
    local _, fx = mw.transaction(function() t.a = 5 end)
    local patch = assert(fx:to_bytes(t))
    local env = {}
    local raw <close> = mw.see_through(env)
    local r <close> = mw.recorder()
    env.rawset(t, "b", 1)
    assert(mw.restore(bytes, { into = t }))
    assert(mw.patch_bytes(t, patch))
    local copy = { a = 5 }
    for e in r:entries() do
      if e.object == t then
        assert.equal(copy[e.key], e.old)
        copy[e.key] = e.new
      end
    end
    assert.same({ a = 5 }, copy)
    assert.equal("raw", r:entries()().kind)
    assert.is_truthy(raw)
  end)

  it("has no refused write, and none to a field that is ignored", function()
    local t = mw.track(setmetatable({ a = 1 }, { __name = "ignoring" }))
    local original = mw.policy({ classes = {
      ignoring = { ignore = { "_cache" } } } }):use()
    mw.watch(t, function(_, key, _, new)
      if key == "a" then error "refused" end
      return true, new * 2
    end, { phase = "check" })
    local r <close> = mw.recorder()
    t._cache = 1
    assert.is_false(pcall(function() t.a = 2 end))
    t.b = 2
    original:use()
    assert.equal("b:nil>4", show(r))
  end)

  it("has what a class keeps, under other keys, too", function()
    local t = mw.track(setmetatable({}, { __newindex = function(self, k, v)
      rawset(self, k, v)
      rawset(self, "last", k)
    end }))
    local r <close> = mw.recorder()
    t.x = 1
    mw.sync(t)
    local seen = {}
    for e in r:entries() do seen[e.key] = e.new end
    assert.same({ x = 1, last = "x" }, seen)
    local nothing = mw.track(setmetatable({}, { __newindex = function() end }))
    local n = r:len()
    nothing.x = 1
    assert.equal(n, r:len())
  end)

  it("has the writes to an object from its track to its untrack", function()
    local t = { n = 1 }
    local r <close> = mw.recorder()
    t.n = 2
    mw.track(t)
    t.n = 3
    mw.untrack(t)
    t.n = 4
    local watch = mw.watch(t, function() end, { once = false })
    t.n = 5
    watch:cancel()
    assert.equal("n:2>3, n:4>5", show(r))
    assert.equal(5, r:why(t, "n").new)
  end)

  it("has the writes of finalisers, after what is delivered", function()
    local t = mw.track {}
    local r <close> = mw.recorder()
    for i = 1, 50 do
      setmetatable({}, { __gc = function() t.gone = i end })
      t.made = { i }
      if i % 10 == 0 then collectgarbage() end
    end
    collectgarbage()
    local copy, n = {}, 0
    for e in r:entries() do
      assert.equal(copy[e.key], e.old)
      copy[e.key] = e.new
      n = n + 1
    end
    assert.equal(100, n)
  end)

  it("has the writes of a batch at once", function()
    local r <close> = mw.recorder()
    local t = mw.track { x = 0 }
    local batch <close> = mw.batch()
    t.x = 1
    t.x = 2
    assert.equal("x:0>1, x:1>2", show(r))
    batch:close()
    assert.equal(2, r:len())
  end)

  it("has keys and values of all types", function()
    local t, long = mw.track {}, ("long"):rep(30)
    local keys = { "short", long, 1, 1 << 60, 1.5, -0.5, 1 / 0, true, false,
      {}, print, coroutine.create(print), io.stdout, "a\0b" }
    local r <close> = mw.recorder()
    for i, key in ipairs(keys) do
      t[key] = i
      t[key] = keys[#keys + 1 - i]
    end
    local at = 0
    for e in r:entries() do
      local i = at // 2 + 1
      assert.is_true(rawequal(keys[i], e.key))
      assert.equal(math.type(keys[i]), math.type(e.key))
      if at % 2 == 1 then
        assert.equal(i, e.old)
        assert.is_true(rawequal(keys[#keys + 1 - i], e.new))
      end
      at = at + 1
    end
    assert.equal(2 * #keys, at)
  end)

  it("tells values apart that are the same to ==", function()
    local t = mw.track {}
    local r <close> = mw.recorder()
    for _, value in ipairs { 1, 1.0, 0.0, -0.0, false } do t.x = value end
    t.x = 0 / 0
    local list = list_of(r)
    assert.equal("integer", math.type(list[1].new))
    assert.equal("float", math.type(list[2].new))
    assert.equal(-1 / 0, 1 / list[4].new)
    assert.is_false(list[6].old)
    assert.is_true(list[6].new ~= list[6].new)
  end)

  it("knows the epoch of each entry", function()
    local t, r <const> = mw.track {}, mw.recorder()
    local n = mw.clock():now()
    t.x = 1
    mw.clock():advance()
    t.x = 2
    local list = list_of(r)
    assert.same({ n, n + 1 }, { list[1].epoch, list[2].epoch })
    r:stop()
  end)

  it("gives entries that can be walked, kept and extended", function()
    local t = mw.track {}
    local r <close> = mw.recorder { where = true }
    t.x = 1
    local e = list_of(r)[1]
    local fields = {}
    for key, value in pairs(e) do fields[key] = value end
    assert.same({ object = t, key = "x", new = 1, kind = "insert",
      seq = e.seq, epoch = e.epoch, where = e.where }, fields)
    e.mine = "kept"
    assert.equal("kept", e.mine)
    assert.is_nil(list_of(r)[1].mine)
    e[1], e[2] = io.stdout, 1
    assert.is_nil(e.other)
    assert.same({ io.stdout, 1, t }, { e[1], e[2], e.object })
    local copied = list_of(r)[1]
    e[1], e[2] = rawget(copied, 1), 100
    assert.is_nil(e.other)
    assert.equal(t, copied.object)
  end)

  it("gives entries that keep what is set before they are read", function()
    local t = mw.track { x = 0 }
    local r <close> = mw.recorder()
    t.x = 1
    local e = list_of(r)[1]
    e.key, e.old, e.new = "mine", nil, 2
    assert.same({ t, "update" }, { e.object, e.kind })
    assert.same({ key = "mine", new = 2 },
      { key = e.key, old = e.old, new = e.new })
  end)

  it("knows places when it is asked to", function()
    local t = mw.track {}
    local without <close> = mw.recorder()
    t.x = 1
    assert.is_nil(list_of(without)[1].where)
    local with <close> = mw.recorder { where = true }
    t.x = 2
    local line = debug.getinfo(1, "l").currentline - 1
    assert.equal("spec/recorder_spec.lua:" .. line, list_of(with)[1].where)
    mw.transaction(function() t.x = 3 end)
    assert.equal("spec/recorder_spec.lua:" .. line + 3, with:why(t, "x").where)
    with:stop()
    t.x = 4
    assert.is_nil(without:why(t, "x").where)
  end)
end)

describe("a recorder's numbers", function()
  it("ascend without gaps, for all recorders the same", function()
    local t = mw.track {}
    local a <close> = mw.recorder()
    t.x = 1
    local b <close> = mw.recorder()
    mw.transaction(function() t.x, t.y = 2, 2 end)
    mw.transaction(function()
      t.x = 3
      error "fails"
    end)
    t.z = 4
    local last
    for e in a:entries() do
      assert.is_true(not last or e.seq == last + 1)
      last = e.seq
    end
    local of_a = list_of(a)
    for i, e in ipairs(list_of(b)) do assert.equal(of_a[i + 1].seq, e.seq) end
    assert.same({ 4, 3 }, { a:len(), b:len() })
  end)

  it("say from where on entries are wanted", function()
    local t = mw.track {}
    local r <close> = mw.recorder()
    for i = 1, 5 do t.x = i end
    local first = list_of(r)[1].seq
    assert.equal("x:3>4, x:4>5", show(r, first + 3))
    assert.equal("x:4>5", show(r, first + 4))
    assert.equal("", show(r, first + 5))
    assert.equal("", show(r, math.maxinteger))
    assert.equal(5, #list_of(r, first))
    assert.equal(5, #list_of(r, 0))
    assert.equal(5, #list_of(r, math.mininteger))
  end)

  it("do not come back after the last recorder ended", function()
    local t = mw.track {}
    local r = mw.recorder()
    t.x = 1
    local seq = list_of(r)[1].seq
    r:stop()
    t.x = 2
    local other <close> = mw.recorder()
    t.x = 3
    assert.is_true(list_of(other)[1].seq > seq + 1)
  end)
end)

describe("delivery", function()
  it("comes when the outermost transaction is committed", function()
    local t = mw.track {}
    local r <close> = mw.recorder()
    local outer = mw.begin "outer"
    t.a = 1
    mw.transaction("inner", function() t.b = 1 end)
    assert.equal("", show(r))
    t.c = 1
    outer:commit()
    assert.equal("a:nil>1, b:nil>1, c:nil>1", show(r))
    for e in r:entries() do assert.equal("outer", e.transaction) end
  end)

  it("names transactions by label or number", function()
    local t = mw.track {}
    local r <close> = mw.recorder()
    mw.transaction("label", function() t.a = 1 end)
    mw.transaction({ label = "of options" }, function() t.a = 2 end)
    mw.transaction(function() t.a = 3 end)
    mw.transaction(function() t.a, t.b = 4, 4 end)
    t.a = 5
    local list = list_of(r)
    assert.equal("label", list[1].transaction)
    assert.equal("of options", list[2].transaction)
    assert.equal("integer", math.type(list[3].transaction))
    assert.equal("integer", math.type(list[4].transaction))
    assert.not_equal(list[3].transaction, list[4].transaction)
    assert.equal(list[4].transaction, list[5].transaction)
    assert.is_nil(list[6].transaction)
  end)

  it("leaves out what was rolled back, at each level", function()
    local t = mw.track {}
    local r <close> = mw.recorder()
    mw.transaction(function()
      t.a = 1
      mw.transaction(function()
        t.a, t.b = 2, 2
        error "fails"
      end)
      t.c = t.a
    end)
    mw.transaction(function()
      t.d = 1
      error "fails"
    end)
    assert.equal("a:nil>1, c:nil>1", show(r))
  end)

  it("is by owner, with the values that were delivered last", function()
    local t = mw.track { x = 0, y = 0 }
    local r <close> = mw.recorder()
    local a = holder("commit", function() t.x, t.y = 1, 1 end)
    t.x = 2 -- somebody else writes after it, and is delivered
    a()
    assert.equal("x:0>2, y:0>1", show(r))
    a = holder("commit", function() t.x, t.y = 10, 10 end)
    local b = holder("commit", function() t.x, t.y = 20, 20 end)
    local before = r:len()
    b()
    assert.equal(before + 2, r:len())
    a()
    assert.equal("x:0>2, y:0>1, y:1>20, x:2>20", show(r))
    assert.same({ 20, 20 }, { t.x, t.y })
  end)

  it("gives a later writer the old value of then", function()
    local t = mw.track { x = 0 }
    local r <close> = mw.recorder()
    local a = holder("commit", function() t.x = 1 end)
    local b = holder("commit", function() t.x = 2 end)
    a()
    b()
    assert.equal("x:0>1, x:1>2", show(r))
    a = holder("rollback", function() t.x = 3 end)
    b = holder("commit", function() t.x = 4 end)
    a()
    b()
    assert.equal("x:0>1, x:1>2, x:2>4", show(r))
  end)

  it("of a transaction is never split by another's", function()
    local t = mw.track {}
    local r <close> = mw.recorder()
    local tx = mw.begin "long"
    t.a = 1
    coroutine.wrap(function() t.b = 1 end)() -- its own: the main one waits
    local other = coroutine.create(function()
      local its = mw.begin "other"
      t.c = 1
      coroutine.yield()
      t.d = 1
      its:commit()
    end)
    coroutine.resume(other)
    t.e = 1
    coroutine.resume(other)
    tx:commit()
    assert.equal("a:nil>1, b:nil>1, c:nil>1, e:nil>1, d:nil>1", show(r))
    for e in r:entries() do assert.equal("long", e.transaction) end
  end)

  it("gives a state to who applies what it gets", function()
    local t, copy = mw.track { x = 0, y = 0 }, { x = 0, y = 0 }
    local r <close> = mw.recorder()
    local a = holder("commit", function() t.x, t.y = 1, 1 end)
    local b = holder("rollback", function() t.x, t.z = 2, 2 end)
    local c = holder("commit", function() t.y, t.w = 3, 3 end)
    t.z = 9
    b()
    c()
    a()
    for e in r:entries() do
      assert.equal(copy[e.key], e.old)
      copy[e.key] = e.new
    end
    assert.same(mw.plain(t), copy)
  end)
end)

describe("the place of an entry", function()
  it("keeps no function that wrote, and nothing of its upvalues", function()
    local t, found = mw.track {}, setmetatable({}, { __mode = "k" })
    local r <close> = mw.recorder { where = true }
    for i = 1, 3 do
      local big = {}
      local function write() t.x = i + #big end
      found[big] = true
      if i < 3 then write() else mw.transaction(write) end
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(found))
    local places = {}
    for e in r:entries() do places[#places + 1] = e.where end
    assert.equal(3, #places)
    assert.equal(places[1], places[3])
  end)

  it("is the program's, whatever of the library was used before", function()
    shell.with_directory(function(path)
      local file <close> = assert(io.open(path .. "/a.lua", "w"))
      file:write [[
        local mw = require "moonwatch"
        local object, state = io.tmpfile(), 0
        local class = getmetatable(object)
        class.__index.add = function(_, n) state = state + n end
        mw.name_class("State", class, { mutators = { "add" },
          snapshot = function() return { state } end,
          restore = function(_, its) state = its[1] end })
        local recorder = mw.recorder { where = true }
        mw.track(object)
        object:add(5)
        local t = mw.track { x = 1 }
        mw.patch(t, { { op = "replace", path = "/x", value = 2 } })
        for entry in recorder:entries() do print(entry.where) end
      ]]
      file:close()
      local output = shell.run("%s %s/a.lua", os.getenv "LUA" or "lua5.4", path)
      assert.equal(path .. "/a.lua:10 " .. path .. "/a.lua:12 ",
        (output:gsub("\n", " ")))
    end)
  end)
end)

describe("the scopes of an entry", function()
  -- Returns a class with a name, whose objects it makes.
  local function named(name)
    local class = { __name = name }
    return function(object) return setmetatable(object or {}, class) end
  end

  -- Returns the scopes of a write now.
  local function scopes(recorder, object)
    object.x = (object.x or 0) + 1
    local its = recorder:why(object, "x").scope
    return its and table.concat(its, " > ")
  end

  it("are those of all hierarchies and of mw.timed, as they began", function()
    local o, new, object = mw.track {}, named "Level", named("Other")()
    local level = new { its = new() }
    local r <close> = mw.recorder()
    local former = mw.timing(true)
    local h, other = mw.hierarchy {}, mw.hierarchy {}
    do
      local _ <close> = mw.timed "first"
      h:enter(level)
      local _ <close> = mw.timed "second"
      other:enter(object)
      h:enter(level.its)
      local _ <close> = mw.timed "third"
      assert.equal("first > Level > second > Other > Level.its > third",
        scopes(r, o))
      other:close()
      other, object = nil, nil -- luacheck: ignore
      collectgarbage()
      collectgarbage()
      assert.equal("first > Level > second > Level.its > third", scopes(r, o))
      h:leave(level.its)
      assert.equal("first > Level > second > third", scopes(r, o))
      h:leave(level)
      assert.equal("first > second > third", scopes(r, o))
    end
    mw.timing(former)
    assert.is_nil(scopes(r, o))
  end)

  it("are named as at the write", function()
    local new, o = named "Root", mw.track {}
    local root = new { list = { new(), new() } }
    local a, b = root.list[1], root.list[2]
    local r <close> = mw.recorder()
    local h = mw.hierarchy {}
    local function names()
      local list = {}
      for i, its in ipairs { a, b, a } do
        h:enter(root)
        h:enter(its)
        list[i] = scopes(r, o):match "> (.*)"
        h:leave(its)
        h:leave(root)
      end
      assert.equal(list[1], list[3])
      return list[1] .. " " .. list[2]
    end
    assert.equal("Root.list.1 Root.list.2", names())
    root.list[1], root.list[2] = b, a
    assert.equal("Root.list.2 Root.list.1", names())
    root.list, root.units = nil, root.list
    assert.equal("Root.units.2 Root.units.1", names())
    table.insert(root.units, 1, new())
    assert.equal("Root.units.3 Root.units.2", names())
    root.x = table.remove(root.units)
    assert.equal("Root.x Root.units.2", names())
    h:close()
    h = mw.hierarchy {
      class_name = function() return "other" end,
      name = function(parent, key) return parent .. "/" .. tostring(key) end,
    }
    assert.equal("other/x other/units.2", names())
  end)

  it("have the epoch and origin of the write", function()
    local new, o = named "Root", mw.track {}
    local root, h = new { its = new() }, mw.hierarchy {}
    local r <close> = mw.recorder()
    local clock = mw.clock()
    for i = 1, 6 do
      if i % 2 == 0 then clock:advance() end
      local origin <close> = mw.origin(i < 4 and "one" or "two")
      h:enter(root)
      h:enter(root.its)
      assert.equal("Root > Root.its", scopes(r, o))
      h:leave(root.its)
      h:leave(root)
      local e = r:why(o, "x")
      assert.same({ clock:now(), i < 4 and "one" or "two" },
        { e.epoch, e.origin })
      assert.truthy(origin)
    end
  end)

  it("of a pass backward are what it visits", function()
    local new = named "Root"
    local root, h = mw.track(new { a = new(), b = new() }, { deep = true }),
      mw.hierarchy {}
    h:record(true)
    for _, its in ipairs { root.a, root.b } do
      h:enter(root)
      h:enter(its)
      h:leave(its)
      h:leave(root)
    end
    local r <close> = mw.recorder()
    local list = {}
    h:backward(function(object) list[#list + 1] = scopes(r, object) end)
    assert.same({ "Root", "Root > Root.b", "Root", "Root > Root.a" }, list)
    assert.is_nil(scopes(r, root))
  end)

  it("are those of the coroutine that waits for one without", function()
    local new, o, h = named "Root", mw.track {}, mw.hierarchy {}
    local root = new { its = new() }
    local r <close> = mw.recorder()
    local co = coroutine.wrap(function()
      while true do coroutine.yield(scopes(r, o)) end
    end)
    h:enter(root)
    assert.same({ "Root", "Root" }, { co(), co() })
    h:enter(root.its)
    assert.equal("Root > Root.its", co())
    h:leave(root.its)
    assert.equal("Root", co())
    h:leave(root)
    assert.is_nil(co())
  end)
end)

describe("a run of a history", function()
  it("is a transaction with the run's label", function()
    local t = mw.track {}
    local r <close> = mw.recorder { rolled_back = true }
    local history = mw.history()
    local special = mw.history { limit = 1, on_step = function() end }
    history:run("plain", function()
      t.x = 1
      assert.equal("plain", r:why(t, "x").transaction)
    end)
    assert.equal("plain", r:why(t, "x").transaction)
    history:run("tables", function() t.y = {} end)
    assert.equal("tables", r:why(t, "y").transaction)
    special:run("told", function(a, b) t.x, t.z = a, b end, 2, 3)
    assert.same({ "told", 3 },
      { r:why(t, "z").transaction, r:why(t, "z").new })
    mw.transaction("outer", history.run, history, "inner",
      function() t.x = 5 end)
    assert.equal("outer", r:why(t, "x").transaction)
    pcall(history.run, history, "failed", function()
      t.x = 6
      error "fails"
    end)
    assert.same({ "failed", 6 },
      { r:why(t, "x").transaction, r:why(t, "x").new })
    coroutine.wrap(function()
      history:run("waiting", function() t.w = coroutine.yield(7) end)
    end)()
    assert.same({ "plain", "tables", "inner" }, history:labels())
    assert.equal("inner", history:undo())
  end)

  it("has the label when the run is undone and done again, too", function()
    local t = mw.track {}
    local r <close> = mw.recorder()
    for _, history in ipairs { mw.history(), mw.history { limit = 1 } } do
      history:run("plain", function() t.x = 1 end)
      history:run("tables", function() t.x, t.y = {}, {} end)
      for _, way in ipairs { "undo", "redo" } do
        t.z = way
        history[way](history)
        for e in r:entries(r:why(t, "z").seq + 1) do
          assert.equal("tables", e.transaction)
        end
        assert.is_not_nil(r:why(t, "x").because)
      end
    end
  end)
end)

describe("what was rolled back", function()
  it("is kept for who wants it, where it happened", function()
    local t = mw.track { x = 0 }
    local r <close> = mw.recorder { rolled_back = true, where = true }
    local without <close> = mw.recorder()
    t.x = 1
    mw.origin("player", function()
      mw.transaction("failed", function()
        t.x, t.y = 2, 2
        error "fails"
      end)
    end)
    t.x = 3
    assert.equal("x:0>1, R y:nil>2, R x:1>2, x:1>3", show(r))
    assert.equal("x:0>1, x:1>3", show(without))
    assert.same({ 4, 2 }, { r:len(), without:len() })
    local list = list_of(r)
    local e = list[2]
    assert.same({ true, "failed", "player", t, "insert" },
      { e.rolled_back, e.transaction, e.origin, e.object, e.kind })
    assert.matches("^spec/recorder_spec.lua:%d+$", e.where)
    assert.is_nil(e.seq)
    assert.equal("R y:nil>2, R x:1>2, x:1>3", show(r, list[4].seq))
    assert.matches("rolled back$", tostring(e))
  end)

  it("is what the transaction owned that was rolled back", function()
    local t = mw.track {}
    local r <close> = mw.recorder { rolled_back = true }
    mw.transaction("outer", function()
      t.a = 1
      mw.transaction("inner", function()
        t.b = 1
        error "fails"
      end)
    end)
    assert.equal("R b:nil>1, a:nil>1", show(r))
    mw.transaction(function()
      mw.transaction(function() t.c = 1 end)
      error "fails"
    end)
    assert.equal("R b:nil>1, a:nil>1, R c:nil>1", show(r))
  end)

  it("is kept up to the capacity", function()
    local t = mw.track {}
    local r <close> = mw.recorder { rolled_back = true, capacity = 2 }
    for i = 1, 3 do
      mw.transaction(function()
        t.x = i
        error "fails"
      end)
    end
    assert.equal("R x:nil>2, R x:nil>3", show(r))
    assert.same({ 2, 1 }, { r:len(), r:lost() })
    for i = 1, 3 do t.x = i end
    assert.equal("R x:nil>2, R x:nil>3, x:1>2, x:2>3", show(r, 0))
    assert.same({ 4, 2 }, { r:len(), r:lost() })
  end)

  it("is lost by each recorder that has no room, until the recorder stops",
    function()
      local t = mw.track {}
      local function fail()
        mw.transaction(function()
          t.a, t.b = 1, 2
          error "fails"
        end)
      end
      local small <close> = mw.recorder { rolled_back = true, capacity = 1 }
      fail()
      local large <close> = mw.recorder { rolled_back = true }
      fail()
      assert.same({ 3, 0 }, { small:lost(), large:lost() })
      small:stop()
      fail()
      assert.same({ 3, 0 }, { small:lost(), large:lost() })
      assert.same({ 1, 4 }, { small:len(), large:len() })
    end)

  it("is walked as it was when the walk began", function()
    local t = mw.track {}
    local r <close> = mw.recorder { rolled_back = true, capacity = 3 }
    local function fail(i)
      mw.transaction(function()
        t.x = i
        error "fails"
      end)
    end
    for i = 1, 3 do fail(i) end
    t.y = 1
    local seen = {}
    for e in r:entries() do
      assert.is_true(#seen < 4)
      seen[#seen + 1] = e.key .. e.new
      for i = 4, 8 do fail(i) end
    end
    assert.same({ "x1", "x2", "x3", "y1" }, seen)
  end)

  it("of a lost transaction is kept, too", function()
    local t = mw.track { x = 0 }
    local r <close> = mw.recorder { rolled_back = true }
    coroutine.wrap(function()
      local tx = mw.begin "lost"
      t.x = 1
      coroutine.yield(tx and nil)
    end)()
    collectgarbage()
    collectgarbage()
    t.y = 1
    assert.equal(0, t.x)
    assert.equal("R x:0>1, y:nil>1", show(r))
  end)
end)

describe("a recorder's capacity", function()
  it("is how many entries it keeps, whatever others keep", function()
    local t = mw.track {}
    local many <close> = mw.recorder()
    local one <close> = mw.recorder { capacity = 1 }
    local three <close> = mw.recorder { capacity = 3 }
    for i = 1, 5 do t.x = i end
    assert.equal("x:4>5", show(one))
    assert.equal("x:2>3, x:3>4, x:4>5", show(three))
    assert.equal(5, many:len())
    assert.same({ 4, 2, 0 }, { one:lost(), three:lost(), many:lost() })
    mw.transaction(function() t.a, t.b = 1, 1 end)
    assert.same({ 1, 3, 7 }, { one:len(), three:len(), many:len() })
    assert.same({ 6, 4, 0 }, { one:lost(), three:lost(), many:lost() })
  end)

  it("can be more than there is memory for", function()
    local t = mw.track {}
    local r <close> = mw.recorder { capacity = 1 << 24 }
    t.x = 1
    assert.equal("x:nil>1", show(r))
  end)

  it("holds no objects longer than needed", function()
    local t = mw.track {}
    local r <close> = mw.recorder { capacity = 1 }
    local probe = setmetatable({}, { __mode = "v" })
    do
      probe.object, probe.value = mw.track {}, {}
      probe.object.x = probe.value
    end
    collectgarbage()
    assert.is_truthy(probe.object and probe.value)
    for i = 1, 600 do t.x = i end
    collectgarbage()
    assert.is_nil(next(probe))
    assert.equal(1, r:len())
  end)

  it("is bounded by seconds, too", function()
    local t = mw.track {}
    local all <close> = mw.recorder()
    for i = 1, 20 do t.x = i end
    local r <close> = mw.recorder { seconds = 0.02 }
    t.x = 21
    assert.equal("x:20>21", show(r)) -- nothing of before its begin
    for i = 1, 600 do t.x = i end
    pass(0.05)
    for i = 1, 600 do t.y = i end
    assert.is_true(r:len() >= 600 and r:len() < 1200)
    assert.equal(0, r:lost())
    assert.equal(1221, all:len())
    local few <close> = mw.recorder { seconds = 100, capacity = 2 }
    for i = 1, 5 do t.x = i end
    assert.equal(2, few:len())
  end)

  it("by seconds bounds what was rolled back as well", function()
    local t = mw.track {}
    local r <close> = mw.recorder { seconds = 0.02, rolled_back = true }
    mw.transaction(function()
      t.old = 1
      error "fails"
    end)
    for i = 1, 600 do t.x = i end
    pass(0.05)
    for i = 1, 600 do t.x = i end
    for e in r:entries() do assert.is_nil(e.rolled_back) end
  end)
end)

describe("a recorder ends", function()
  it("by stop, and keeps its entries", function()
    local t, u = mw.track {}, mw.track {}
    local r = mw.recorder()
    t.x = 1
    t.x = 2
    local seq = list_of(r)[2].seq
    r:stop()
    r:stop()
    t.x = 3
    local other <close> = mw.recorder()
    u.x = 4
    assert.equal("x:nil>1, x:1>2", show(r))
    assert.equal("x:1>2", show(r, seq))
    assert.same({ 2, 0 }, { r:len(), r:lost() })
    assert.equal(2, r:why(t, "x").new)
    assert.is_nil(r:why(u, "x"))
    assert.equal(4, other:why(u, "x").new)
    assert.same({ nil, "the recorder has stopped" }, { r:past(t, seq) })
  end)

  it("with causes that are still known", function()
    local t = mw.track { n = 0 }
    mw.watch(t, function(obj, key) if key == "x" then obj.n = 1 end end,
      { once = false })
    local r = mw.recorder()
    t.x = 1
    r:stop()
    local other <close> = mw.recorder()
    t.x = 2
    local list = list_of(r)
    assert.equal(list[2].seq, list[1].because)
    assert.equal("n of", tostring(list[1]):sub(1, 4))
    assert.matches("\n  because x of table#%d+: nil %-> 1$", tostring(list[1]))
    assert.is_nil(list[2].because)
    assert.equal(2, other:len())
  end)

  it("as a value that is closed", function()
    local t, r = mw.track {}, nil
    pcall(function()
      local its <close> = mw.recorder()
      r = its
      t.x = 1
      error "fails"
    end)
    t.x = 2
    assert.equal("x:nil>1", show(r))
  end)

  it("when it is dropped", function()
    local t = mw.track {}
    mw.recorder()
    collectgarbage()
    collectgarbage()
    assert.same({ nil, "no recorder is running" }, { mw.why(t, "x") })
    local probe = setmetatable({}, { __mode = "v" })
    probe.value = {}
    t.x = probe.value
    t.x = nil
    collectgarbage()
    assert.is_nil(probe.value)
  end)

  it("in the middle of a guard", function()
    local t = mw.track {}
    local r = mw.recorder { rolled_back = true, where = true }
    local watch = mw.watch(t, function() r:stop() end, { once = false })
    t.x = 1
    assert.equal("", show(r))
    watch:cancel()
    r = nil
    mw.watch(t, function() r = r or mw.recorder() end, { once = false })
    t.x = 2
    t.x = 3
    assert.is_truthy(show(r):find "x:2>3$")
    r:stop()
  end)

  it("in the middle of a class's __newindex", function()
    local r = mw.recorder()
    local class = {}
    function class.__newindex(t, k, v)
      if k == "stop" then r:stop() else r = mw.recorder { where = true } end
      rawset(t, k, v)
    end
    local t = mw.track(setmetatable({}, class))
    t.stop = 1
    assert.equal(1, t.stop)
    assert.equal("", show(r))
    t.start = 1
    t.stop = 2
    assert.equal(2, t.stop)
    r:stop()
    mw.transaction(function() t.start2 = 1 t.stop2 = 1 end)
    assert.same({ 1, 1 }, { t.start2, t.stop2 })
    r:stop()
  end)

  it("in a transaction, which goes on", function()
    local t = mw.track {}
    local r, other = mw.recorder { where = true }, nil
    local _, fx = mw.transaction(function()
      t.x = 1
      r:stop()
      t.y = 1
      other = mw.recorder()
      t.z = 1
    end)
    assert.equal(3, fx:len())
    assert.equal("", show(r))
    assert.is_truthy(show(other):find "z:nil>1$")
    other:stop()
  end)

  it("and begins while transactions are open", function()
    local t = mw.track { x = 0 }
    local tx = mw.begin()
    t.x = 1
    local r <close> = mw.recorder()
    t.y = 1
    tx:commit()
    local copy = { x = 0 }
    for e in r:entries() do
      assert.equal(copy[e.key], e.old)
      copy[e.key] = e.new
    end
    assert.same({ x = 1, y = 1 }, copy)
  end)

  it("and gives its memory back", function()
    local t = mw.track {}
    local grown = attempt_growth(function()
      local r = mw.recorder { where = true, rolled_back = true }
      for i = 1, 300 do t[i] = { i } end
      mw.transaction(function()
        for i = 1, 300 do t[i] = nil end
      end)
      mw.transaction("fails", function()
        t.x = {}
        error "fails"
      end)
      local o <close> = mw.origin "somebody"
      t.y = o and {}
      t.y = nil
      r:stop()
    end)
    assert.is_true(grown < 0.2, grown .. " KB")
  end)

  it("and gives its memory back when it is dropped", function()
    local t = mw.track {}
    local grown = attempt_growth(function()
      local r = mw.recorder { capacity = 1000 }
      for i = 1, 300 do t[i] = { i } end
      for i = 1, 300 do t[i] = nil end
      assert.equal(600, r:len())
    end)
    assert.is_true(grown < 0.2, grown .. " KB")
  end)
end)

describe("an object that dies", function()
  it("is held by the entries until these go", function()
    local probe = setmetatable({}, { __mode = "v" })
    local r = mw.recorder()
    do
      probe.object = mw.track {}
      probe.object.x = 1
    end
    collectgarbage()
    assert.is_truthy(probe.object)
    assert.equal(probe.object, list_of(r)[1].object)
    r:stop()
    collectgarbage()
    assert.is_truthy(probe.object)
    r = nil
    collectgarbage()
    collectgarbage()
    assert.is_nil(probe.object)
    assert.is_nil(r)
  end)

  it("is held by an entry that was read, though the ring forgets", function()
    local t = mw.track {}
    local r <close> = mw.recorder { capacity = 1 }
    local e
    do
      local object = mw.track {}
      object.x = {}
      e = r:entries()()
    end
    for i = 1, 1000 do t.x = i end
    collectgarbage()
    assert.equal("x", e.key)
    assert.is_table(e.object)
    assert.equal(e.new, raw_of(e.object).x)
  end)
end)

describe("a recorder's misuse", function()
  it("is refused in words", function()
    local r <close> = mw.recorder()
    local function refused(text, opts)
      misuse("bad argument #1 to 'recorder' (" .. text .. ")", mw.recorder,
        opts)
    end
    refused("table expected, got number", 5)
    refused("unknown option 'capacty'", { capacty = 1 })
    refused("unknown option '(a number)'", { 1 })
    refused("option 'capacity' is not positive", { capacity = 0 })
    refused("option 'capacity' is not a count", { capacity = -1 })
    refused("option 'capacity' is not a count", { capacity = 1.5 })
    refused("option 'capacity' is not a number", { capacity = "x" })
    refused("option 'seconds' is not positive", { seconds = 0 })
    refused("option 'seconds' is not positive", { seconds = 0 / 0 })
    refused("option 'seconds' is not a number", { seconds = "1" })
    refused("option 'where' is not a boolean", { where = 1 })
    refused("option 'scopes' is not a boolean", { scopes = 1 })
    refused("option 'rolled_back' is not a boolean", { rolled_back = 1 })
    misuse("calling 'recorder' with a colon (use a dot: mw.recorder)",
      mw.recorder, mw)
    misuse("bad argument #1 to 'entries' (integer expected, got string)",
      r.entries, r, "1")
    misuse("bad argument #1 to 'entries' (integer expected, got number)",
      r.entries, r, 1.5)
    misuse("bad argument #1 to 'past' (table expected, got number)",
      r.past, r, 5, 1)
    misuse("bad argument #2 to 'past' (integer expected, got nil)",
      r.past, r, {})
    misuse("bad argument #3 to 'past' (table expected, got boolean)",
      r.past, r, {}, 1, true)
    misuse("bad argument #3 to 'past' (unknown option 'dep')",
      r.past, r, {}, 1, { dep = true })
    misuse("bad argument #3 to 'past' (option 'deep' is not a boolean)",
      r.past, r, {}, 1, { deep = 1 })
    for _, name in ipairs { "entries", "why", "past", "len", "lost", "stop" } do
      misuse(("calling '%s' on bad self (recorder expected, got table)")
        :format(name), r[name], {})
    end
    assert.matches("field 'x' of the recorder cannot be set",
      error_of(function() r.x = 1 end))
    assert.equal(0, r:len())
  end)
end)

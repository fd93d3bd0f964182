local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local support = require "support"

-- Names objects in the texts below.
local function namer()
  local names, n = {}, 0
  return function(value, name)
    if type(value) ~= "table" then return tostring(value) end
    if name then names[value] = name end
    if not names[value] then
      n = n + 1
      names[value] = "t" .. n
    end
    return names[value]
  end
end

-- Returns what a look gives as an array of texts.
local function list_of(changes, name)
  local list = {}
  for object, key, old, new, kind, mark in changes do
    list[#list + 1] = kind == "detach" and name(object) .. " detach" or
      ("%s.%s:%s>%s %s%s"):format(name(object), name(key), name(old), name(new),
        kind, mark and " " .. mark or "")
    assert(kind ~= "detach" or (key == nil and old == nil and new == nil))
  end
  return list
end

local function sorted(list)
  table.sort(list)
  return list
end

-- Returns the entries of a look as texts.
local function entries_of(feed, name)
  local list = {}
  for e in feed:read() do
    list[#list + 1] = ("%s.%s:%s>%s"):format(name(e.object), name(e.key),
      name(e.old), name(e.new))
  end
  return list
end

local function count(iterator)
  local n = 0
  for _ in iterator do n = n + 1 end
  return n
end

-- Many writes and a collection, so that what has left is let go.
local function let_go(object)
  for i = 1, 100 do object.n = i end
  object.n = nil
  collectgarbage()
  mw.reap()
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

describe("a feed", function()
  it("gives the entries since the last look", function()
    local o = mw.track { a = 0 }
    local feed <close> = mw.feed()
    o.a = 1
    o.a = 2
    local list = {}
    for e in feed:read() do
      assert.equal(o, e.object)
      list[#list + 1] = { e.key, e.old, e.new, e.kind, e.seq - feed:seq() }
    end
    assert.same({ { "a", 0, 1, "update", -1 }, { "a", 1, 2, "update", 0 } },
      list)
    o.b = 3
    assert.equal(1, count(feed:read()))
    assert.equal(0, count(feed:read()))
  end)

  it("looks at the call, not in the loop", function()
    local o, name = mw.track {}, namer()
    local feed <close> = mw.feed()
    o.a = 1
    local entries = feed:read()
    o.a = 2
    o.b = 1
    local changes = feed:changes()
    o.a = 3
    o.c = {}
    assert.equal(1, count(entries))
    assert.same({ "t1.a:1>2 update", "t1.b:nil>1 insert" },
      list_of(changes, name))
    assert.equal(2, feed:pending())
  end)

  it("gives each field once, with the values of the last look", function()
    local o, name = mw.track { a = 0, gone = 1, same = 1 }, namer()
    local feed <close> = mw.feed()
    for i = 1, 3 do o.a = i end
    o.new, o.gone = "x", nil
    for i = 2, 1, -1 do o.same = i end
    o.flash = 1
    o.flash = nil
    assert.same({ "t1.a:0>3 update", "t1.gone:1>nil delete",
      "t1.new:nil>x insert" }, sorted(list_of(feed:changes(), name)))
    assert.equal(0, count(feed:changes()))
  end)

  it("tells values apart as programs do", function()
    local long = ("long "):rep(50)
    local o = mw.track { a = 1, b = 0.0, c = 0 / 0, d = long, [long] = 1 }
    local feed <close> = mw.feed()
    o.a = 1.0
    o.b = -0.0
    o.c = 0 / 0
    o.d = ("long "):rep(50)
    o[("long "):rep(50)] = 2
    o[1], o[1.5], o[true], o[o] = 1, 2, 3, 4
    o[1], o[1.5], o[true], o[o] = 5, 6, 7, 8
    local seen = {}
    for _, key, old, new in feed:changes() do
      seen[key] = { old, new }
    end
    assert.equal("float", math.type(seen.a[2]))
    assert.equal(-math.huge, 1 / seen.b[2])
    assert.is_nil(seen.c)
    assert.is_nil(seen.d)
    assert.same({ 1, 2 }, seen[long])
    assert.same({ { nil, 5 }, { nil, 6 }, { nil, 7 }, { nil, 8 } },
      { seen[1], seen[1.5], seen[true], seen[o] })
  end)

  it("has one cursor for both ways to look", function()
    local o = mw.track {}
    local feed <close> = mw.feed()
    o.a = 1
    assert.equal(1, count(feed:changes()))
    assert.equal(0, count(feed:read()))
    o.a = 2
    assert.equal(1, count(feed:read()))
    assert.equal(0, count(feed:changes()))
  end)

  it("has a place of its own", function()
    local o = mw.track {}
    local fast <close> = mw.feed()
    local slow <close> = mw.feed()
    for i = 1, 5 do
      o.a = i
      assert.equal(1, count(fast:read()))
    end
    assert.same({ 0, 5 }, { fast:pending(), slow:pending() })
    assert.equal(fast:seq(), slow:seq() + 5)
    assert.equal(5, count(slow:read()))
  end)

  it("gives what a transaction wrote when it has committed", function()
    local o = mw.track {}
    local feed <close> = mw.feed()
    local commit = holder("commit", function() o.a = 1 end)
    local rollback = holder("rollback", function() o.b = 1 end)
    o.c = 1
    assert.same({ "t1.c:nil>1" }, entries_of(feed, namer()))
    commit()
    assert.same({ "t1.a:nil>1" }, entries_of(feed, namer()))
    rollback()
    assert.same({}, entries_of(feed, namer()))
  end)

  it("gives old values that were delivered", function()
    local o = mw.track { a = 0 }
    local feed <close> = mw.feed()
    local commit = holder("commit", function() o.a = 1 end)
    o.a = 2
    assert.same({ "t1.a:0>2 update" }, list_of(feed:changes(), namer()))
    commit()
    assert.equal(0, count(feed:changes()))
  end)

  it("says nothing of batches and coroutines, only of writes", function()
    local o = mw.track {}
    local feed <close> = mw.feed()
    mw.batch(function()
      o.a = 1
      assert.equal(1, count(feed:read()))
      o.a = 2
    end)
    coroutine.wrap(function() o.b = 1 end)()
    assert.same({ "t1.a:1>2 update", "t1.b:nil>1 insert" },
      list_of(feed:changes(), namer()))
  end)

  it("tells of a change of class", function()
    local Old, New, name = {}, {}, namer()
    name(Old, "Old")
    name(New, "New")
    for _, opts in ipairs { {}, { root = true } } do
      local o = setmetatable({}, Old)
      name(o, "o")
      opts.root = opts.root and { its = o }
      mw.track(o)
      local feed <close> = mw.feed(opts)
      mw.setmetatable(o, New)
      o.x = 1
      assert.same({ "o.nil:Old>New class", "o.x:nil>1 insert" },
        list_of(feed:changes(), name))
      mw.setmetatable(o, nil)
      mw.setmetatable(o, New)
      assert.equal(0, count(feed:changes()))
      mw.setmetatable(o, nil)
      local kinds = {}
      for e in feed:read() do kinds[#kinds + 1] = { e.kind, e.old } end
      assert.same({ { "metatable", New } }, kinds)
      mw.setmetatable(o, Old)
      assert.same({ "o.nil:nil>Old class" }, list_of(feed:changes(), name))
    end
  end)

  it("tells of the state of a userdata", function()
    local user = support.userdata { __index = {} }
    mw.track(user)
    local feed <close> = mw.feed()
    local private = require("moonwatch.core").private
    private.note_call(user, "push", "one", "two")
    private.note_call(user, "pop", "two", "three")
    local list = {}
    for object, key, old, new, kind in feed:changes() do
      list[#list + 1] = { object == user, key, old, new, kind }
    end
    assert.same({ { true, "pop", "one", "three", "call" } }, list)
  end)

  it("does not tell of what has died", function()
    local feed <close> = mw.feed()
    do
      local o = mw.track {}
      o.a = 1
    end
    collectgarbage()
    local n = 0
    for object in feed:changes() do
      assert.is_table(object) -- the journal held it
      n = n + 1
    end
    assert.equal(1, n)
  end)

  it("goes on after an error in the loop", function()
    local o = mw.track {}
    local feed <close> = mw.feed()
    o.a, o.b = 1, 2
    assert.equal("in the loop", error_of(function()
      for _ in feed:changes() do error("in the loop", 0) end
    end))
    assert.equal(0, feed:pending())
    o.a = 3
    assert.equal(1, count(feed:changes()))
  end)

  it("can be closed in the loop, which goes on", function()
    local o = mw.track {}
    local feed = mw.feed()
    o.a, o.b = 1, 2
    local n = 0
    for _ in feed:changes() do
      feed:close()
      n = n + 1
    end
    assert.equal(2, n)
    feed:close()
  end)

  it("gives a table's items in any order of collections", function()
    local o = mw.track {}
    local feed <close> = mw.feed()
    for i = 1, 1000 do o[i] = "text " .. i end
    local n = 0
    for _, key, old, new in feed:changes() do
      if n % 100 == 0 then collectgarbage() end
      n = n + 1
      assert.same({ n, nil, "text " .. n }, { key, old, new })
    end
    assert.equal(1000, n)
  end)

  it("ends with its scope, and when it is collected", function()
    local o = mw.track {}
    local kept
    do
      local feed <close> = mw.feed()
      kept = feed
    end
    misuse("calling 'seq' on a feed that is closed", kept.seq, kept)
    local root = { a = {} }
    kept = mw.feed { root = root }
    assert.truthy(kept and getmetatable(root))
    kept = nil
    collectgarbage()
    collectgarbage()
    o.a = 1
    assert.is_nil(kept or getmetatable(root))
  end)
end)

describe("a feed with a capacity", function()
  it("loses entries, and says how many", function()
    local o = mw.track {}
    local slow <close> = mw.feed { capacity = 3 }
    local fast <close> = mw.feed()
    for i = 1, 10 do o[i] = i end
    assert.same({ 7, 0 }, { slow:lost(), fast:lost() })
    assert.same({ 3, 10 }, { slow:pending(), fast:pending() })
    assert.same({ "t1.8:nil>8", "t1.9:nil>9", "t1.10:nil>10" },
      entries_of(slow, namer()))
    assert.equal(10, count(fast:read()))
    for i = 1, 4 do o[i] = nil end
    assert.equal(8, slow:lost())
  end)

  it("loses a transaction whole", function()
    local o = mw.track {}
    local feed <close> = mw.feed { capacity = 3 }
    mw.transaction(function()
      for i = 1, 5 do o[i] = i end
    end)
    assert.same({ 5, 0 }, { feed:lost(), feed:pending() })
    mw.transaction(function() o.a, o.b = 1, 2 end)
    mw.transaction(function() o.c, o.d = 1, 2 end)
    assert.same({ 7, 2 }, { feed:lost(), feed:pending() })
  end)

  it("does not hold up others, nor make memory grow", function()
    local o = mw.track {}
    local slow <close> = mw.feed { capacity = 100 }
    local function write()
      for i = 1, 10000 do o.a = "text " .. i end
      collectgarbage()
      return collectgarbage "count"
    end
    local before = write()
    for _ = 1, 5 do write() end
    assert.is_true(write() < before + 100)
    assert.equal(70000 - 100, slow:lost())
  end)

  it("goes on with what it kept, below a root", function()
    local root, name = { list = {} }, namer()
    local feed <close> = mw.feed { root = root, capacity = 5 }
    name(root, "root")
    for i = 1, 10 do root.list[i] = { i } end
    root.new = { 1 }
    assert.equal(6, feed:lost())
    local attached = 0
    for _, _, _, _, kind in feed:changes() do
      if kind == "attach" then attached = attached + 1 end
    end
    assert.equal(5, attached)
    root.list[1][1] = 2 -- known since then
    assert.equal(1, count(feed:changes()))
  end)
end)

describe("a feed of an origin's absence", function()
  it("leaves out what that origin wrote", function()
    local o = mw.track {}
    local feed <close> = mw.feed { not_from = "network" }
    mw.origin("network", function() o.a = 1 end)
    mw.origin("player", function() o.b = 1 end)
    o.c = 1
    assert.same({ "t1.b:nil>1", "t1.c:nil>1" }, entries_of(feed, namer()))
    mw.origin("network", function() o.a = 2 end)
    o.d = 1
    assert.same({ "t1.d:nil>1 insert" }, list_of(feed:changes(), namer()))
  end)

  it("gives what that origin does not know", function()
    local o = mw.track { x = 1 }
    local feed <close> = mw.feed { not_from = "network" }
    local function write(value)
      mw.origin("network", function() o.x = value end)
    end
    o.x = 2
    write(3)
    assert.equal(0, count(feed:changes()))
    write(4)
    o.x = 3
    assert.same({ "t1.x:4>3 update" }, list_of(feed:changes(), namer()))
    o.x = 5
    write(6)
    o.x = 7
    assert.same({ "t1.x:6>7 update" }, list_of(feed:changes(), namer()))
  end)

  it("knows what that origin put below the root", function()
    local root, name = {}, namer()
    name(root, "root")
    local feed <close> = mw.feed { root = root, not_from = "network" }
    local its = { hp = 1 }
    name(its, "its")
    mw.origin("network", function() root.its = its end)
    assert.equal(0, count(feed:changes()))
    its.hp = 2
    assert.same({ "its.hp:1>2 update" }, list_of(feed:changes(), name))
    local other = { hp = 1 }
    name(other, "other")
    mw.origin("network", function() root.other = other end)
    other.hp = 2
    assert.same({ "other.hp:1>2 update" }, list_of(feed:changes(), name))
  end)

  it("knows such a table wherever others put it next", function()
    local root, its, name = { list = {} }, { hp = 1, inner = { 1 } }, namer()
    name(root, "root")
    name(root.list, "list")
    name(its, "its")
    name(its.inner, "inner")
    local feed <close> = mw.feed { root = root, not_from = "network" }
    mw.origin("network", function() root.a = its end)
    root.b = its
    assert.same({ "root.b:nil>its insert" }, list_of(feed:changes(), name))
    root.a, root.b = nil, nil
    assert.same({ "inner detach", "its detach", "root.a:its>nil delete",
      "root.b:its>nil delete" }, sorted(list_of(feed:changes(), name)))
    mw.origin("network", function() root.list[1] = its end)
    table.insert(root.list, 1, 7) -- moves it
    its.inner[1] = 2
    root.inner, its.inner = its.inner, nil
    assert.same({ "inner.1:1>2 update", "its.inner:inner>nil delete",
      "list.1:its>7 update", "list.2:nil>its insert",
      "root.inner:nil>inner insert" }, sorted(list_of(feed:changes(), name)))
  end)

  it("does not know what was put into such a table by others", function()
    local root, its, new, name = {}, {}, { x = 1 }, namer()
    name(root, "root")
    name(its, "its")
    name(new, "new")
    local feed <close> = mw.feed { root = root, not_from = "network" }
    mw.origin("network", function() root.a = its end)
    its.new = new
    its.new = nil
    root.new = new
    assert.same({ "root.new:nil>new attach", "new.x:nil>1 insert" },
      list_of(feed:changes(), name))
  end)

  it("is told anew of such a table that nobody tracked for a while", function()
    local root, its, name = { a = {} }, {}, namer()
    name(root, "root")
    name(root.a, "a")
    name(its, "its")
    local feed <close> = mw.feed { root = root, not_from = "network" }
    mw.origin("network", function() root.a.its = its end)
    root.a.its = nil
    let_go(root)
    its.x = 1
    root.b = its
    assert.same({ "a.its:its>nil delete", "its.x:nil>1 insert",
      "root.b:nil>its attach" }, sorted(list_of(feed:changes(), name)))
  end)

  it("says that such a table has left, whoever has taken it out", function()
    local root, name = {}, namer()
    local feed <close> = mw.feed { root = root, not_from = "network" }
    for _, origin in ipairs { "network", "player" } do
      local its = {}
      name(its, "its")
      mw.origin("network", function() root.a = its end)
      assert.equal(0, count(feed:changes()))
      mw.origin(origin, function() root.a = nil end)
      assert.equal("its detach", table.remove(list_of(feed:changes(), name)))
    end
  end)

  it("is told of what others put below such a table", function()
    local root, its, name = {}, { inner = {} }, namer()
    local new, below = {}, {}
    for key, value in pairs { root = root, its = its, inner = its.inner,
      new = new, below = below } do
      name(value, key)
    end
    mw.track(new)
    mw.track(below)
    local feed <close> = mw.feed { root = root, not_from = "network" }
    below.x = 1
    new.below = below
    mw.origin("network", function() root.its = its end)
    its.inner.new = new
    its.inner.y = 1
    assert.same({ "inner.new:nil>new attach", "new.below:nil>below attach",
      "below.x:nil>1 insert", "inner.y:nil>1 insert" },
      list_of(feed:changes(), name))
  end)

  it("is told of what was taken out of a table that was away", function()
    local root, gone, name = { a = {} }, mw.track { x = 0 }, namer()
    local a = root.a
    name(root, "root")
    name(a, "a")
    name(gone, "gone")
    local feed <close> = mw.feed { root = root, not_from = "network" }
    a.gone = gone
    root.a = nil
    let_go(root)
    a.gone = nil
    root.a = a
    assert.same({}, list_of(feed:changes(), name))
    gone.x = 1
    assert.same({}, list_of(feed:changes(), name))
  end)

  it("knows a table that it has put twice, the first time into one that went "
    .. "away and came back", function()
      local root, its, name = { a = {}, b = {} }, mw.track { x = 0 }, namer()
      local a = name(root.a, "a") and root.a
      name(root, "root")
      name(root.b, "b")
      name(its, "its")
      local feed <close> = mw.feed { root = root, not_from = "network" }
      mw.origin("network", function() a.its = its end)
      root.a = nil
      let_go(root)
      its.x = 1
      root.a = a
      mw.origin("network", function() root.b.its = its end)
      assert.same({ "its.x:0>1 update" }, list_of(feed:changes(), name))
    end)

  it("is told of what others wrote to a table that was away between two puts "
    .. "of its own", function()
      local root, its, name = { a = {} }, { x = 0 }, namer()
      local a = root.a
      for key, value in pairs { root = root, a = a, its = its } do
        name(value, key)
      end
      local feed <close> = mw.feed { root = root, not_from = "network" }
      mw.origin("network", function() a.its = its end)
      its.x = 1
      root.a = nil
      let_go(root)
      its.x = 2
      root.a = a
      mw.origin("network", function() root.its = its end)
      assert.same({ "a.its:nil>its attach", "its.x:nil>2 insert",
        "root.its:nil>its update" }, sorted(list_of(feed:changes(), name)))
    end)

  it("is told of what others put below what it has put into a table that an "
    .. "open transaction has taken out", function()
      local root, its, new, name = { a = {} }, {}, { n = 1 }, namer()
      local a = root.a
      for key, value in pairs { root = root, a = a, its = its, new = new } do
        name(value, key)
      end
      local feed <close> = mw.feed { root = root, not_from = "network" }
      local co = coroutine.wrap(function()
        local tx <close>, inner = mw.begin(), mw.begin()
        root.a = nil
        inner:commit()
        coroutine.yield()
        tx:commit()
      end)
      co()
      mw.origin("network", function() a.its = its end)
      let_go(root)
      its.new = new
      assert.same({ "a.its:nil>its attach", "its.new:nil>new attach",
        "new.n:nil>1 insert" }, sorted(list_of(feed:changes(), name)))
      co()
      assert.same({ "a detach", "its detach", "new detach",
        "root.a:a>nil delete" }, sorted(list_of(feed:changes(), name)))
    end)

  it("is told of a table before its fields, wherever the table comes",
    function()
      local root, outer, new = { child = {} }, {}, { x = 0 }
      local child = root.child
      child.below = {}
      mw.track(child)
      local feed <close> = mw.feed { root = root, not_from = "network" }
      local co = coroutine.wrap(function()
        local tx <close> = mw.begin()
        child.below.new = new
        coroutine.yield()
        tx:commit()
      end)
      co()
      new.x = 1
      co()
      outer.child = child
      root.child = nil
      mw.id(root) -- lets go of what is below the child
      root.outer = outer
      local known = { [root] = true, [child] = true, [child.below] = true }
      local held = {}
      for object, key, _, value, kind in feed:changes() do
        assert.is_true(known[object], key)
        if kind == "attach" then known[value] = true end
        if object == new then held[key] = value end
      end
      assert.is_true(known[new])
      assert.same({ x = 1 }, held)
    end)
end)

describe("a feed with a root", function()
  local function feed_of(root, opts)
    opts = opts or {}
    opts.root = root
    local name = namer()
    name(root, "root")
    return mw.feed(opts), name
  end

  it("says what leaves a field that nobody else knows any more", function()
    local key = ("key "):rep(20)
    for _, n in ipairs { 1, 20 } do
      local root, a, b, name = {}, {}, {}, namer()
      name(a, "a")
      name(b, "b")
      local feed <close> = mw.feed { root = root }
      root[key:sub(1, 4 * n)] = a
      assert.equal(1, count(feed:changes()))
      root[key:sub(1, 4 * n)] = b
      local co = coroutine.wrap(function()
        local tx <close> = mw.begin()
        root[key:sub(1, 4 * n)] = nil
        coroutine.yield()
        tx:commit()
      end)
      co()
      assert.equal("a detach", list_of(feed:changes(), name)[2])
      co()
      assert.equal("b detach", list_of(feed:changes(), name)[2])
    end
  end)

  it("tells of what is below, and of nothing else", function()
    local root, other = { a = { x = 1 } }, mw.track {}
    local feed <close>, name = feed_of(root)
    name(root.a, "a")
    root.a.x = 2
    other.x = 1
    assert.same({ "a.x:1>2 update" }, list_of(feed:changes(), name))
    root.a.x = 3
    other.x = 2
    assert.same({ "a.x:2>3" }, entries_of(feed, name))
  end)

  it("tells of a table that comes, and of all its fields", function()
    local root = {}
    local feed <close>, name = feed_of(root)
    root.its = { hp = 1, { deep = true } }
    name(root.its, "its")
    name(root.its[1], "its[1]")
    root.its.hp = 2
    local list = list_of(feed:changes(), name)
    assert.equal("root.its:nil>its attach", list[1])
    assert.same({ "its.1:nil>its[1] attach", "its.hp:nil>2 insert",
      "its[1].deep:nil>true insert", "root.its:nil>its attach" },
      sorted(list))
    root.its[1].deep = false
    assert.same({ "its[1].deep:true>false update" },
      list_of(feed:changes(), name))
  end)

  it("says which tables have left", function()
    local root = { a = { x = 1, b = {}, c = {} }, list = { {}, {}, {} } }
    local a, list = root.a, root.list
    local feed <close>, name = feed_of(root)
    name(a, "a")
    name(a.b, "b")
    name(a.c, "c")
    name(list, "list")
    name(list[1], "first")
    name(list[3], "third")
    a.x = 2
    a.b = nil
    root.a, root.c = nil, a.c
    a.x = 3
    assert.same({ "a detach", "b detach", "root.a:a>nil delete",
      "root.c:nil>c insert" }, sorted(list_of(feed:changes(), name)))
    a.x = 4
    a.new = {}
    root.new = {}
    root.new = nil -- came and went
    assert.equal(0, count(feed:changes()))
    list[1] = list[3]
    list[3] = nil
    assert.same({ "first detach", "list.1:first>third update",
      "list.3:third>nil delete" }, sorted(list_of(feed:changes(), name)))
    root.again = root.c
    root.c = nil
    assert.same({ "root.again:nil>c insert", "root.c:c>nil delete" },
      sorted(list_of(feed:changes(), name)))
  end)

  it("passes over weak tables", function()
    for _, mode in ipairs { "k", "v" } do
      local weak, its = setmetatable({}, { __mode = mode }), { x = 1 }
      local root = { weak = weak, its = its }
      local feed <close>, name = feed_of(root)
      name(weak, "weak")
      name(its, "its")
      weak[its] = its
      root.other = weak
      root.its = nil
      assert.same({ "its detach", "root.its:its>nil delete",
        "root.other:nil>weak insert" }, sorted(list_of(feed:changes(), name)))
      root.weak, root.other = nil, nil
      assert.equal(2, count(feed:changes()))
    end
  end)

  it("says how a table that comes is marked", function()
    local root = {}
    local feed <close>, name = feed_of(root)
    local array, object = mw.array {}, mw.object_like { {} }
    name(array, "array")
    name(object, "object")
    name(object[1], "plain")
    root.a, root.b = array, object
    assert.same({ "object.1:nil>plain attach", "root.a:nil>array attach array",
      "root.b:nil>object attach object" },
      sorted(list_of(feed:changes(), name)))
  end)

  it("goes down where its own function says", function()
    local parent = { x = 1 }
    local root, asked = { parent = parent, child = { { x = 1 } } }, 0
    local child = root.child[1]
    child.parent = parent
    local function descend(_, key)
      asked = asked + 1
      return key ~= "parent"
    end
    local feed <close>, name = feed_of(root, { descend = descend })
    local all <close> = feed_of(root)
    name(parent, "parent")
    name(child, "child")
    parent.x = 2
    child.x = 2
    assert.same({ "child.x:1>2 update" }, list_of(feed:changes(), name))
    assert.equal(2, count(all:changes()))
    root.other = parent
    assert.same({ "root.other:nil>parent attach", "parent.x:nil>2 insert" },
      list_of(feed:changes(), name))
    asked = 0
    root.again = parent -- is below the root table already
    parent.x = 3
    assert.same({ "parent.x:2>3 update", "root.again:nil>parent insert" },
      sorted(list_of(feed:changes(), name)))
    root.other, root.again = nil, nil
    parent.x = 4
    assert.same({ "parent.x:3>4 update", "root.again:parent>nil delete",
      "root.other:parent>nil delete" }, sorted(list_of(feed:changes(), name)))
    root.parent = nil
    assert.same({ "parent detach", "root.parent:parent>nil delete" },
      sorted(list_of(feed:changes(), name)))
    all:close()
    feed:close()
    assert.is_nil(getmetatable(root) or getmetatable(child))
  end)

  it("goes down as the program that tracks the root", function()
    local root = mw.track({ parent = { x = 1 } }, { deep = true,
      descend = function(_, key) return key ~= "parent" end })
    local feed <close> = feed_of(root)
    root.parent.x = 2
    assert.equal(0, count(feed:changes()))
    mw.untrack(root)
    root.other = {}
    root.other.x = 1
    assert.equal(2, count(feed:changes()))
  end)

  it("tells of all fields anew when a table comes back", function()
    local root = { a = { x = 1, y = 1, { z = 1 } } }
    local a = root.a
    local feed <close>, name = feed_of(root)
    name(a, "a")
    name(a[1], "a[1]")
    root.a = nil
    count(feed:changes())
    let_go(root)
    count(feed:changes())
    a.x, a.y, a[1].z = 2, nil, 2
    root.a = a
    assert.same({ "a.1:nil>a[1] attach", "a.x:nil>2 insert",
      "a[1].z:nil>2 insert", "root.a:nil>a attach" },
      sorted(list_of(feed:changes(), name)))
  end)

  it("knows a table that went and came back within a look", function()
    local root = { a = { x = 1, y = 1 } }
    local a = root.a
    root.again = a
    local feed <close>, name = feed_of(root)
    name(a, "a")
    root.a = nil
    root.again = nil
    let_go(root)
    assert.truthy(getmetatable(a)) -- until the feed has said that it went
    a.x, a.y = 2, nil
    root.a = a
    assert.same({ "a.x:1>2 update", "a.y:1>nil delete",
      "root.again:a>nil delete" }, sorted(list_of(feed:changes(), name)))
    root.a = nil
    assert.equal(2, count(feed:changes()))
    let_go(root)
    assert.is_nil(getmetatable(a))
  end)

  it("gives back what has left when it is closed", function()
    local root = { a = { {} } }
    local a, feed = root.a, feed_of(root)
    root.a = nil
    let_go(root)
    assert.truthy(getmetatable(a[1]))
    feed:close()
    assert.is_nil(getmetatable(a) or getmetatable(a[1]))
  end)

  it("knows a table that is moved within a look", function()
    local root = { list = { { n = 1 }, { n = 2 }, { n = 3 } } }
    local first = root.list[1]
    local feed <close>, name = feed_of(root)
    name(root.list, "list")
    for i, its in ipairs(root.list) do name(its, "item" .. i) end
    table.remove(root.list, 1)
    first.n = 10
    root.best = first
    assert.same({ "item1.n:1>10 update", "list.1:item1>item2 update",
      "list.2:item2>item3 update", "list.3:item3>nil delete",
      "root.best:nil>item1 insert" }, sorted(list_of(feed:changes(), name)))
  end)

  it("knows what is shared, and cycles", function()
    local shared = { x = 1 }
    local root = { a = { shared }, b = { shared } }
    shared.up = root.a
    local feed <close>, name = feed_of(root)
    local a = root.a
    name(shared, "shared")
    root.a = nil
    shared.x = 2
    count(feed:changes())
    a.y = 1 -- below, by the way of the shared table
    shared.x = 3
    assert.equal(2, count(feed:changes()))
    root.b = nil -- now only the cycle holds them
    count(feed:changes())
    a.y = 2
    shared.x = 4
    assert.equal(0, count(feed:changes()))
  end)

  it("tells of a shared table once", function()
    local root, shared = {}, { x = 1 }
    local feed <close>, name = feed_of(root)
    name(shared, "shared")
    root[1] = shared
    root[2] = shared
    assert.same({ "root.1:nil>shared attach", "shared.x:nil>1 insert",
      "root.2:nil>shared insert" }, list_of(feed:changes(), name))
  end)

  it("knows objects that are keys", function()
    local key = {}
    local root = { [key] = { x = 1 } }
    local feed <close>, name = feed_of(root)
    name(key, "key")
    name(root[key], "its")
    root[key].x = 2
    assert.same({ "its.x:1>2 update" }, list_of(feed:changes(), name))
    root[key] = nil
    assert.same({ "root.key:its>nil delete", "its detach" },
      list_of(feed:changes(), name))
  end)

  it("sees no attachment of an open transaction", function()
    local root, its = {}, { x = 1 }
    local feed <close>, name = feed_of(root)
    name(its, "its")
    local commit = holder("commit", function()
      root.its = its
      its.x = 2
    end)
    its.y = 1 -- not in the transaction
    assert.equal(0, count(feed:changes()))
    commit()
    assert.same({ "its.x:nil>2 insert", "its.y:nil>1 insert",
      "root.its:nil>its attach" }, sorted(list_of(feed:changes(), name)))
  end)

  it("sees no detachment of an open transaction", function()
    local root = { its = { x = 1, inner = { y = 1 } } }
    local its = root.its
    local feed <close>, name = feed_of(root)
    name(its, "its")
    name(its.inner, "inner")
    local rollback = holder("rollback", function() root.its = nil end)
    let_go(root)
    its.x = 2
    its.inner.y = 2
    local list = sorted(list_of(feed:changes(), name))
    assert.same({ "inner.y:1>2 update", "its.x:1>2 update" }, list)
    rollback()
    its.x = 3
    assert.same({ "its.x:2>3 update" }, list_of(feed:changes(), name))
    local commit = holder("commit", function() root.its = nil end)
    assert.equal(0, count(feed:changes()))
    commit()
    assert.same({ "inner detach", "its detach", "root.its:its>nil delete" },
      sorted(list_of(feed:changes(), name)))
  end)

  it("tells of what has left though what was written last is dead", function()
    local root = { its = {} }
    local feed <close>, name = feed_of(root)
    name(root.its, "its")
    local tx = mw.begin()
    root.its = nil
    mw.track({}).x = 1
    collectgarbage()
    tx:commit()
    assert.same({ "its detach", "root.its:its>nil delete" },
      sorted(list_of(feed:changes(), name)))
  end)

  it("tells of a table that comes what was delivered of it", function()
    local root, its = {}, mw.track { x = 1, y = 1 }
    local feed <close>, name = feed_of(root)
    name(its, "its")
    local commit = holder("commit", function()
      its.x = 2
      its.inner = {}
    end)
    root.its = its
    assert.same({ "its.x:nil>1 insert", "its.y:nil>1 insert",
      "root.its:nil>its attach" }, sorted(list_of(feed:changes(), name)))
    commit()
    local list = sorted(list_of(feed:changes(), name))
    assert.same({ "its.inner:nil>t1 attach", "its.x:1>2 update" }, list)
  end)

  it("says nothing of what was rolled back", function()
    local root = { a = { x = 1 } }
    local feed <close> = feed_of(root)
    mw.transaction(function()
      root.a.x = 2
      root.a, root.b = nil, { {} }
      error("no", 0)
    end)
    assert.equal(0, count(feed:changes()))
  end)

  it("leaves out what the policy leaves out", function()
    local root = mw.track({ cache = { 1 }, a = {} }, { deep = true,
      descend = function(_, key) return key ~= "cache" end })
    local feed <close>, name = feed_of(root)
    root.cache[1] = 2
    root.a.cache = { 1 }
    name(root.a, "a")
    name(root.a.cache, "cache")
    root.a.cache[1] = 2
    assert.same({ "a.cache:nil>cache insert" }, list_of(feed:changes(), name))
  end)

  it("does not look again where a function of the policy looks", function()
    local feed, problem
    local root = mw.track({}, { deep = true, descend = function()
      if feed then
        problem = error_of(feed.changes, feed)
        error("refused", 0)
      end
      return true
    end })
    local its = feed_of(root)
    root.a = {}
    local rollback = holder("rollback", function() root.a = {} end)
    root.b = 1
    feed = its
    assert.equal("refused", error_of(its.changes, its))
    feed = nil
    assert.matches("the feed is being read", problem)
    assert.equal(2, count(its:changes()))
    rollback()
    its:close()
  end)

  it("tells of userdata that are tracked, wherever these are", function()
    local root, fields = { a = {} }, {}
    local feed <close> = feed_of(root)
    local user = support.userdata {
      __index = fields, __newindex = function(_, k, v) rawset(fields, k, v) end,
    }
    local function look()
      local list = {}
      for object, key, old, new, kind in feed:changes() do
        list[#list + 1] = ("%s.%s:%s>%s %s"):format(
          object == user and "user" or "table", key,
          old == user and "user" or old, new == user and "user" or new, kind)
      end
      return list
    end
    mw.track(user)
    user.x = 0
    root.user = user
    user.x = 1
    assert.same({ "table.user:nil>user insert" }, look())
    user.x = 2
    assert.same({ "user.x:1>2 update" }, look())
    root.user = nil
    root.a.user = user
    user.x = 3
    assert.same({ "table.user:user>nil delete", "table.user:nil>user insert",
      "user.x:2>3 update" }, look())
    root.a.user = nil
    user.x = 4
    assert.same({ "table.user:user>nil delete" }, look())
    user.x = 5
    assert.same({}, look())
    mw.untrack(user)
  end)

  it("gives entries of userdata, wherever these came", function()
    local root, fields = {}, {}
    local feed <close> = feed_of(root)
    local function tracked()
      return mw.track(support.userdata { __index = fields,
        __newindex = function(_, k, v) rawset(fields, k, v) end })
    end
    local first, second, third = tracked(), tracked(), tracked()
    root.first = first
    root.inner = { second }
    assert.equal(2, count(feed:read()))
    for i, user in ipairs { first, second, third } do user.x = i end
    local list = {}
    for e in feed:read() do list[#list + 1] = e.new end
    assert.same({ 1, 2 }, list)
  end)

  it("gives entries of what is below, before or after", function()
    local root, outside = { a = { x = 1 } }, mw.track {}
    local a = root.a
    local feed <close>, name = feed_of(root)
    name(a, "a")
    name(outside, "outside")
    outside.x = 1
    root.a = nil
    a.x = 2
    root.b = outside
    assert.same({ "outside.x:nil>1", "root.a:a>nil", "a.x:1>2",
      "root.b:nil>outside" }, entries_of(feed, name))
    a.x = 3
    outside.x = 2
    assert.same({ "outside.x:1>2" }, entries_of(feed, name))
    outside.x = 3
    assert.equal(1, count(feed:changes())) -- known by now
  end)

  it("lets go of what nobody has any more", function()
    local root = {}
    local feed <close> = feed_of(root)
    local weak = setmetatable({}, { __mode = "v" })
    for i = 1, 100 do
      root[i] = { inner = {} }
      weak[i] = root[i].inner
    end
    count(feed:changes())
    for i = 1, 100 do root[i] = nil end
    count(feed:changes())
    let_go(root)
    count(feed:changes())
    collectgarbage()
    assert.is_nil(next(weak))
    for i = 1, 100 do root[i] = { { i } } end -- in the same places, perhaps
    assert.equal(300, count(feed:changes()))
  end)

  it("copies no long table of which a transaction has written a field",
    function()
      local root = { long = {}, list = {} }
      for i = 1, 20000 do root.long[i] = i end
      local feed <close> = feed_of(root)
      local rollback = holder("rollback", function() root.long[1] = 0 end)
      root.list[1] = {}
      count(feed:changes()) -- what the feed needs from now on
      root.list[2] = {}
      collectgarbage "stop"
      local before = collectgarbage "count"
      assert.equal(1, count(feed:changes()))
      assert.is_true(collectgarbage "count" < before + 50)
      collectgarbage "restart"
      rollback()
    end)

  it("walks only for tables that come or go while an open transaction has "
    .. "put others in", function()
      local root, name = { list = {} }, namer()
      for i = 1, 20000 do root.list[i] = {} end
      local feed <close> = feed_of(root)
      name(root, "root")
      local commit = holder("commit", function() root.its = { x = 1 } end)
      name(root.its, "its")
      local its = root.its
      local function look()
        root.n = (root.n or 0) + 1
        collectgarbage "stop"
        local before = collectgarbage "count"
        local n = count(feed:changes())
        local grown = collectgarbage "count" - before
        collectgarbage "restart"
        return n, grown < 50
      end
      for _ = 1, 3 do assert.same({ 1, true }, { look() }) end
      its.y = 1 -- not delivered yet that the table is there
      assert.same({ 1, true }, { look() })
      root.list[1] = nil
      assert.same({ 3, false }, { look() })
      root.new = its
      assert.equal(4, (look()))
      commit()
      assert.same({ "root.its:nil>its insert" }, list_of(feed:changes(), name))
      for _ = 1, 2 do assert.same({ 1, true }, { look() }) end
    end)

  it("knows a table that is put into a table that comes", function()
    local root = { state = { list = { { x = 1 } } } }
    local list = root.state.list
    local feed <close>, name = feed_of(root)
    name(root.state, "before")
    name(list, "list")
    name(list[1], "first")
    root.state = { inner = { list = list } }
    name(root.state, "after")
    name(root.state.inner, "inner")
    list[1].x = 2
    assert.same({ "after.inner:nil>inner attach", "before detach",
      "first.x:1>2 update", "inner.list:nil>list insert",
      "root.state:before>after attach" },
      sorted(list_of(feed:changes(), name)))
    root.state = { state = root.state }
    list[1].x = 3
    assert.equal(3, count(feed:changes()))
  end)
end)

describe("the root of a feed", function()
  it("is tracked until the feed is closed", function()
    local root = { a = {} }
    local feed = mw.feed { root = root }
    assert.truthy(getmetatable(root.a))
    feed:close()
    assert.is_nil(getmetatable(root.a))
    assert.is_nil(getmetatable(root))
  end)

  it("stays tracked if the program tracks it", function()
    for _, first in ipairs { true, false } do
      local root = { a = {} }
      if first then mw.track(root, { deep = true }) end
      local feed = mw.feed { root = root }
      if not first then mw.track(root, { deep = true }) end
      feed:close()
      assert.truthy(getmetatable(root.a))
      mw.untrack(root)
      assert.is_nil(getmetatable(root.a))
    end
  end)

  it("is tracked alone again if the program tracks it alone", function()
    local root = mw.track { a = {} }
    local feed = mw.feed { root = root }
    root.a.x = 1
    assert.equal(1, feed:pending())
    feed:close()
    assert.truthy(getmetatable(root))
    assert.is_nil(getmetatable(root.a))
    mw.untrack(root)
    assert.is_nil(getmetatable(root))
  end)

  it("is tracked though the program does so no longer", function()
    for _, opts in ipairs { { deep = true }, {},
      { deep = true, descend = function() return true end } } do
      local root = mw.track({ a = {} }, opts)
      local feed = mw.feed { root = root }
      mw.untrack(root)
      root.a.x = 1
      assert.equal(1, count(feed:changes()))
      feed:close()
      assert.is_nil(getmetatable(root.a))
      assert.is_nil(getmetatable(root))
    end
  end)

  it("is tracked while one of its feeds is open", function()
    local root = { a = {} }
    local first, second = mw.feed { root = root }, mw.feed { root = root }
    first:close()
    root.a.x = 1
    assert.equal(1, count(second:changes()))
    second:close()
    assert.is_nil(getmetatable(root.a))
  end)

  it("is not kept by its feed", function()
    for _, how in ipairs { "nobody", "alone", "deep" } do
      local units, weak = { { hp = 1 } }, setmetatable({}, { __mode = "v" })
      local root = { units = units }
      if how ~= "nobody" then mw.track(root, { deep = how == "deep" }) end
      weak[1] = root
      local feed <close> = mw.feed { root = root }
      units[1].hp = 2
      assert.equal(1, count(feed:changes()))
      units[1].hp = 3
      root = nil
      collectgarbage()
      collectgarbage()
      mw.reap()
      assert.is_nil(weak[1] or root)
      assert.is_nil(getmetatable(units))
      assert.equal(0, count(feed:changes())) -- nothing is below
      assert.same({ 0, 0 }, { feed:pending(), count(feed:read()) })
    end
  end)

  it("is not tracked if the feed cannot be made", function()
    local bad = false
    local root = mw.track({ a = {} }, { deep = true,
      descend = function()
        if bad then error("bad", 0) end
        return true
      end })
    bad = true
    assert.equal("bad", error_of(mw.feed, { root = root }))
    bad = false
    mw.untrack(root)
    assert.is_nil(getmetatable(root))
  end)
end)

describe("a feed since a number", function()
  it("goes on where a snapshot was", function()
    local root = mw.track({ list = { { x = 1 }, { x = 2 } } }, { deep = true })
    local early <close> = mw.feed { root = root }
    root.list[1].x = 10
    local bytes, seq = mw.snapshot(root)
    root.list[2].x = 20
    root.list[3] = { x = 30 }
    local late <close> = assert(mw.feed { root = root, since = seq })
    assert.equal(seq, late:seq())
    local known, copy = {}, mw.restore(bytes)
    known[root], known[root.list] = copy, copy.list
    for i = 1, 2 do known[root.list[i]] = copy.list[i] end
    for object, key, _, new, kind in late:changes() do
      if kind == "attach" then known[new] = {} end
      known[object][key] = known[new] or new
    end
    assert.same({ list = { { x = 10 }, { x = 20 }, { x = 30 } } }, copy)
    assert.equal(5, count(early:changes()) + 1)
  end)

  it("goes on where another feed is", function()
    local o = mw.track {}
    local first <close> = mw.feed()
    o.a = 1
    local second <close> = mw.feed { since = first:seq() }
    assert.same({ 1, 1 }, { first:pending(), second:pending() })
    count(first:read())
    local third <close> = mw.feed { since = first:seq() }
    assert.equal(0, third:pending())
  end)

  it("is nil where not all entries are kept", function()
    local o = mw.track {}
    local first <close> = mw.feed { capacity = 10 }
    local seq = first:seq()
    for i = 1, 20 do o.a = i end
    assert.same({ nil, ("not all entries since %d are kept"):format(seq) },
      { mw.feed { since = seq } })
    assert.truthy(mw.feed { since = seq + 10 })
    assert.is_nil((mw.feed { since = seq + 10, capacity = 5 }))
    assert.is_nil((mw.feed { since = seq + 100 }))
    collectgarbage()
  end)

  it("is nil after a write that nobody has kept", function()
    local o = mw.track {}
    local first = mw.feed()
    o.a = 1
    local seq = first:seq() + 1
    count(first:read())
    first:close()
    o.a = 2
    assert.is_nil((mw.feed { since = seq }))
    local second <close> = mw.feed()
    assert.is_nil((mw.feed { since = seq }))
    assert.truthy(second)
  end)

  -- Returns what `mw.feed` says of a root that had no feed since `seq`.
  local function none(seq)
    return { nil, ("no feed of this root has been open since %d"):format(seq) }
  end

  it("is nil where the root had no feed all the time", function()
    local root = mw.track({ list = { { x = 1 } } }, { deep = true })
    local other <close> = mw.feed()
    local _, seq = mw.snapshot(root)
    assert.same(none(seq), { mw.feed { root = root, since = seq } })
    root.list[1].x = 2
    local first = mw.feed { root = root }
    assert.same(none(seq), { mw.feed { root = root, since = seq } })
    root.list[1].x = 3
    _, seq = mw.snapshot(root)
    root.list[1].x = 4
    local second = assert(mw.feed { root = root, since = seq })
    first:close()
    root.list[1].x = 5
    local third = assert(mw.feed { root = root, since = seq })
    assert.equal(1, count(second:changes()))
    second:close()
    third:close()
    assert.same(none(seq), { mw.feed { root = root, since = seq } })
    assert.truthy(other)
  end)

  it("is nil where the feeds of the root go down elsewhere", function()
    local root, function_ = { its = {} }, function() return true end
    local first <close> = mw.feed { root = root, descend = function_ }
    local seq = first:seq()
    root.its.x = 1
    assert.same(none(seq), { mw.feed { root = root, since = seq } })
    assert.same(none(seq), { mw.feed { root = root, since = seq,
      descend = function() return true end } })
    local late <close> = assert(mw.feed { root = root, since = seq,
      descend = function_ })
    assert.equal(1, count(late:changes()))
    assert.same(none(seq), { mw.feed { root = root.its, since = seq } })
  end)

  it("is nil where nobody tracked for a while what is below", function()
    local root, its = { a = {} }, { x = 1 }
    local a = root.a
    local early <close> = mw.feed { root = root }
    local rollback = holder("rollback", function() root.a = nil end)
    mw.untrack(mw.track({}, { deep = true })) -- looks for what is below nothing
    a.its = its
    local _, seq = mw.snapshot {}
    its.x = 2 -- not recorded
    rollback()
    assert.same(none(seq), { mw.feed { root = root, since = seq } })
    assert.equal(2, count(early:changes()))
  end)

  it("tells of a table that was moved since, and of its fields", function()
    local root = mw.track({ a = { its = { x = 1 } }, b = {} }, { deep = true })
    local early <close> = mw.feed { root = root }
    local _, seq = mw.snapshot(root)
    root.b.its, root.a.its = root.a.its, nil
    local late <close> = mw.feed { root = root, since = seq }
    local name = namer()
    name(root, "root")
    name(root.a, "a")
    name(root.b, "b")
    name(root.b.its, "its")
    assert.same({ "a.its:its>nil delete", "b.its:nil>its attach",
      "its.x:nil>1 insert" }, sorted(list_of(late:changes(), name)))
    assert.equal(2, count(early:changes()))
  end)
end)

describe("a look of a feed below a root", function()
  it("leads to the state, though finalisers write meanwhile", function()
    local root, copy = {}, {}
    local feed <close> = mw.feed { root = root }
    local function look()
      local n = 0
      for object, key, _, new, kind in feed:changes() do
        n = n + 1
        if object == root and kind ~= "detach" then copy[key] = new end
      end
      return n
    end
    for i = 1, 2000 do
      setmetatable({}, { __gc = function()
        root[i % 3] = i % 2 == 0 and -i or { i }
      end })
      root[i % 3] = i
      root.new = { i, {} }
      look()
      root[(i + 1) % 3] = nil
      collectgarbage "stop"
      repeat until look() == 0
      for k, v in pairs(root) do assert.equal(v, copy[k]) end
      for k in pairs(copy) do assert.is_not_nil(root[k]) end
      collectgarbage "restart"
    end
  end)

  it("tells of what the function has put in while the feed began", function()
    local root, name, new = { list = {}, other = {} }, namer(), { x = 1 }
    mw.track(root)
    name(root, "root")
    name(new, "new")
    local unwritten = new
    local feed <close> = mw.feed { root = root, descend = function()
      local its = unwritten
      unwritten = nil
      if its then root.new = its end
      return true
    end }
    assert.same({ "root.new:nil>new attach", "new.x:nil>1 insert" },
      list_of(feed:changes(), name))
    assert.equal(0, count(feed:changes()))
  end)

  it("may call a function that writes", function()
    local root, writes = { units = {}, count = 0 }, false
    local feed <close> = mw.feed { root = root, descend = function()
      if writes then
        root.count = root.count + 1
        root.units[1].hp = 7
      end
      return true
    end }
    local copies = { [root] = { count = 0 }, [root.units] = {} }
    copies[root].units = copies[root.units]
    for i = 1, 2 do
      root.units[i] = { hp = 1, at = { x = i } }
      writes = true
      for _ = 1, 2 do
        for obj, key, _, new, kind in feed:changes() do
          if kind == "attach" then copies[new] = {} end
          copies[obj][key] = copies[new] or new
        end
        writes = false
      end
      assert.equal(0, feed:pending())
      assert.same(mw.plain(root), copies[root])
    end
  end)
end)

describe("misuse of a feed", function()
  it("is told", function()
    misuse("bad argument #1 to 'feed' (table expected, got number)", mw.feed, 1)
    misuse("bad argument #1 to 'feed' (unknown option 'rot'; mw.feed { " ..
      "root = object } is meant)", mw.feed, { rot = {} })
    misuse("bad argument #1 to 'feed' (option 'root' is not a table)", mw.feed,
      { root = 1 })
    misuse("bad argument #1 to 'feed' (option 'root' is an object of the " ..
      "library)", mw.feed, { root = mw.clock() })
    misuse("bad argument #1 to 'feed' (option 'capacity' is not a count)",
      mw.feed, { capacity = -1 })
    misuse("bad argument #1 to 'feed' (option 'capacity' is not positive)",
      mw.feed, { capacity = 0 })
    misuse("bad argument #1 to 'feed' (option 'not_from' is not a string)",
      mw.feed, { not_from = 1 })
    misuse("bad argument #1 to 'feed' (option 'since' is not a count)",
      mw.feed, { since = 1.5 })
    misuse("bad argument #1 to 'feed' (option 'descend' is not a function)",
      mw.feed, { root = {}, descend = 1 })
    misuse("bad argument #1 to 'feed' (option 'descend' is for a feed with " ..
      "a root)", mw.feed, { descend = print })
  end)

  it("of its methods, too", function()
    local feed = mw.feed()
    for _, method in ipairs { "read", "changes", "lost", "seq", "pending",
      "close" } do
      misuse(("calling '%s' on bad self (feed expected, got table)")
        :format(method), feed[method], {})
    end
    assert.matches("field 'x' of the feed cannot be set", error_of(function()
      feed.x = 1
    end))
    feed:close()
    for _, method in ipairs { "read", "changes", "lost", "seq", "pending" } do
      misuse(("calling '%s' on a feed that is closed"):format(method),
        feed[method], feed)
    end
    assert.is_nil(feed:close())
  end)
end)

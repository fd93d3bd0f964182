local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local support = require "support"

local function class(name)
  local c = { __name = name }
  c.__index = c
  return c
end

-- Returns the number of the line that calls, plus `n`.
local function line(n) return debug.getinfo(2, "l").currentline + (n or 0) end

describe("mw.why", function()
  it("returns the last write of a field, or nil", function()
    local t = mw.track { a = 1 }
    local r <close> = mw.recorder()
    t.a = 2
    t.a = 3
    t.b = 1
    assert.same({ 2, 3, "update" },
      { mw.why(t, "a").old, mw.why(t, "a").new, mw.why(t, "a").kind })
    assert.equal(mw.why(t, "a").seq, r:why(t, "a").seq)
    t.a = nil
    assert.equal("delete", mw.why(t, "a").kind)
    assert.is_nil(mw.why(t, "c"))
    mw.touch(t, "b")
    assert.equal(1, mw.why(t, "b").new)
  end)

  it("says of an object that nobody records that it is not tracked", function()
    local t, message = {}, "the object is neither watched nor tracked: " ..
      "see mw.track"
    local r <close> = mw.recorder()
    t.a = 1
    assert.same({ nil, message }, { mw.why(t, "a") })
    mw.watch(t, function() end)
    assert.same({}, { mw.why(t, "a") })
    t.a = 2
    mw.unwatch(t)
    assert.equal(2, mw.why(t, "a").new)
    assert.same({ nil, message }, { mw.why(t, "b") })
    assert.same({}, { r:why(t, "b") })
    local deep = mw.track({ { {} } }, { deep = true })
    assert.same({}, { mw.why(deep[1][1], "a") })
  end)

  it("knows a key whose other writers' objects are dead", function()
    local r <close> = mw.recorder { capacity = 1 }
    local key, other = ("long"):rep(30), mw.track {}
    for i = 1, 300 do
      local list = { mw.track {} }
      list[1][key] = i
      for n = 1, 520 do other.x = n end -- the page of the write goes
      assert.equal(i, r:why(list[1], key).new)
      list[1] = nil
      collectgarbage()
    end
  end)

  it("takes keys of all types", function()
    local long = ("long"):rep(30)
    local keys = { "short", long, 1, 1 << 60, 1.5, -0.5, 1 / 0, true, false,
      {}, print, coroutine.create(print), io.stdout, "a\0b", 2 ^ 53 }
    local t = mw.track {}
    local r = mw.recorder()
    for i, key in ipairs(keys) do t[key] = i end
    mw.setmetatable(t, {})
    for _ = 1, 2 do
      for i, key in ipairs(keys) do assert.equal(i, r:why(t, key).new) end
      assert.equal(2, r:why(t, "long" .. long:sub(5)).new)
      assert.equal(3, r:why(t, 1.0).new)
      assert.is_nil(r:why(t, "1"))
      assert.is_nil(r:why(t, {}))
      assert.is_nil(r:why(t, 1.25))
      assert.is_nil(r:why(t, nil))
      assert.is_nil(r:why(t, 0 / 0))
      r:stop()
    end
  end)

  it("finds nothing of what is no object", function()
    local r <close> = mw.recorder()
    for _, value in ipairs { 5, "text", true, 1.5 } do
      assert.is_nil(mw.why(value, "a"))
      assert.is_nil(r:why(value, "a"))
    end
    assert.is_nil(mw.why(nil, "a"))
    assert.is_nil(r:why())
  end)

  it("asks the running recorder that was made last", function()
    assert.same({ nil, "no recorder is running" }, { mw.why({}, "a") })
    local t = mw.track {}
    local first <close> = mw.recorder()
    t.a = 1
    local taken <close> = mw.recorder { rolled_back = true }
    mw.transaction(function()
      t.a = 2
      error "fails"
    end)
    assert.is_true(mw.why(t, "a").rolled_back)
    assert.is_nil(first:why(t, "a").rolled_back)
    taken:stop()
    assert.equal(1, mw.why(t, "a").new)
    first:stop()
    assert.same({ nil, "no recorder is running" }, { mw.why(t, "a") })
    assert.equal(1, first:why(t, "a").new)
  end)

  it("sees what open transactions wrote, of all coroutines", function()
    local t = mw.track { a = 0 }
    local r <close> = mw.recorder { where = true }
    t.a = 1
    local outer <close> = mw.begin "outer"
    local e
    mw.transaction("inner", function()
      t.a = 2
      e = mw.why(t, "a")
    end)
    assert.same({ true, 1, 2, "outer", t }, { e.open, e.old, e.new,
      e.transaction, e.object })
    assert.is_nil(e.seq)
    assert.matches("not committed yet$", tostring(e))
    assert.matches("^spec/why_spec.lua:%d+$", e.where)
    local co = coroutine.wrap(function()
      local tx <close> = mw.begin "other"
      t.a = 3
      coroutine.yield(tx)
    end)
    co()
    assert.same({ true, 3, "outer" }, { r:why(t, "a").open,
      r:why(t, "a").new, r:why(t, "a").transaction })
    co()
    assert.equal(2, mw.why(t, "a").new)
    outer:rollback()
    assert.is_nil(mw.why(t, "a").open)
    assert.equal(1, mw.why(t, "a").new)
  end)

  for name, value in pairs { ["another value"] = 3, ["nil"] = {} } do
    it("has the old value without what was taken back: " .. name, function()
      if value ~= 3 then value = nil end
      for _, with_outer in ipairs { true, false } do
        local t = mw.track { a = 1 }
        local r <close> = mw.recorder()
        local _ <close> = with_outer and mw.begin() or nil
        t.a = 2
        local middle = mw.begin()
        t.a = value
        local inner <close> = mw.begin()
        t.a = value
        middle:rollback()
        local e = r:why(t, "a")
        assert.same({ true, 2, value },
          { e.open, e.old, [3] = e.new })
        assert.equal(value and "update" or "delete", e.kind)
        inner:commit()
        assert.equal(value, r:why(t, "a").new)
      end
    end)
  end

  it("knows that somebody has written after an open transaction", function()
    local t = mw.track { a = 0 }
    local r <close> = mw.recorder()
    local co = coroutine.wrap(function()
      local tx <close> = mw.begin()
      t.a, t.b = 1, 1
      coroutine.yield(tx)
      t.a = 3
      coroutine.yield()
    end)
    co()
    t.a = 2
    assert.same({ 2, nil }, { r:why(t, "a").new, r:why(t, "a").open })
    assert.is_true(r:why(t, "b").open)
    co()
    assert.same({ 3, true }, { r:why(t, "a").new, r:why(t, "a").open })
    co()
    assert.equal(2, r:why(t, "a").new)
  end)

  it("sees what failed, for a recorder that keeps it", function()
    local t = mw.track { a = 0 }
    local r <close> = mw.recorder { rolled_back = true }
    mw.transaction("fight", function()
      t.a = 1
      error "fails"
    end)
    local e = r:why(t, "a")
    assert.same({ true, 1, "fight" }, { e.rolled_back, e.new, e.transaction })
    t.a = 2
    assert.equal(2, r:why(t, "a").new)
    r:stop()
    assert.equal(2, r:why(t, "a").new)
  end)

  it("sees what failed before what an open transaction wrote earlier",
    function()
      local t = mw.track { a = 0 }
      local r <close> = mw.recorder { rolled_back = true }
      local without <close> = mw.recorder()
      local _ <close> = mw.begin "outer"
      t.a = 1
      mw.transaction("inner", function()
        t.a = 2
        error "fails"
      end)
      assert.same({ 2, true }, { r:why(t, "a").new,
        r:why(t, "a").rolled_back })
      assert.same({ 1, true }, { without:why(t, "a").new,
        without:why(t, "a").open })
      t.a = 3
      assert.same({ 3, true }, { r:why(t, "a").new, r:why(t, "a").open })
    end)

  it("sees the write that came last, though others are taken back later",
    function()
      local t = mw.track { a = 0, b = 0 }
      local r <close> = mw.recorder { rolled_back = true }
      -- Returns a coroutine that writes, waits, and takes the writes back.
      local function failing(value)
        local co = coroutine.wrap(function()
          local tx = mw.begin()
          t.a, t.b = value, value
          coroutine.yield()
          tx:rollback()
        end)
        co()
        return co
      end
      local first, second = failing(1), failing(2)
      t.a = 3
      second()
      first()
      assert.equal(3, t.a)
      assert.same({ 3, nil }, { r:why(t, "a").new,
        r:why(t, "a").rolled_back })
      assert.same({ 2, true }, { r:why(t, "b").new,
        r:why(t, "b").rolled_back })
      r:stop()
      assert.equal(3, r:why(t, "a").new)
      assert.equal(2, r:why(t, "b").new)
    end)

  it("knows the last writer when the ring has lost the entry", function()
    local t, other = mw.track { a = 0 }, mw.track {}
    local r <close> = mw.recorder { capacity = 10, where = true }
    mw.origin("player", function()
      mw.transaction("fight", function() t.a = 1 end)
    end)
    local at = line(-2)
    for i = 1, 2000 do other.x = i end
    local e = mw.why(t, "a")
    assert.same({ 0, 1, "update", "player", "fight" },
      { e.old, e.new, e.kind, e.origin, e.transaction })
    assert.equal("spec/why_spec.lua:" .. at, e.where)
    assert.equal(10, r:len())
    t.a = nil
    for i = 1, 2000 do other.x = i end
    assert.is_nil(mw.why(t, "a"))
  end)

  it("knows the last writer of all that has fields, and of all keys",
    function()
      local fields, n = {}, 0
      local u, t, key = mw.track(support.userdata { __index = fields,
        __newindex = function(_, k, v) fields[k] = v end }), mw.track {}, {}
      local long, other = ("long"):rep(30), mw.track {}
      mw.id(key)
      local r <close> = mw.recorder { capacity = 1 }
      u.x, t[key], t[long], t[1.5] = 5, "of a key", 6, 7
      local plan = mw.plan()
      local cell = plan:track_cell(function() return n end, 1)
      plan:store_cell(cell, 1)
      plan:apply()
      for i = 1, 1000 do other.x = i end
      for _, of in ipairs { { u, "x", 5 }, { t, key, "of a key" },
        { t, long, 6 }, { t, 1.5, 7 }, { cell, "n", 1 } } do
        assert.equal(of[3], r:why(of[1], of[2]).new)
      end
      assert.is_nil(r:why(t, long:sub(2) .. "l"))
      assert.is_nil(r:why(t, {}))
      local probe = setmetatable({ {} }, { __mode = "v" })
      mw.id(probe[1])
      mw.track({})[probe[1]] = 1
      for i = 1, 1000 do other.x = i end
      collectgarbage()
      assert.is_nil(probe[1])
    end)

  it("knows the strings that last writers wrote, whoever else wrote them",
    function()
      local others = mw.track {}
      local r <close> = mw.recorder { capacity = 1 }
      local function fill() for i = 1, 1000 do others.x = i end end
      for _, long in ipairs { "", ("long"):rep(30) } do
        local t = mw.track {}
        local function text(s) return s .. long end
        local keys = { text "a", text "b", text "c" }
        for i = 1, 20 do
          for k, key in ipairs(keys) do t[key] = text("s" .. (i + k) % 4) end
          if i % 5 == 0 then t[keys[1]] = nil end
          fill()
          collectgarbage()
          for k, key in ipairs(keys) do
            local e = r:why(t, key)
            assert.equal(t[key], e and e.new)
            if e and e.kind == "update" then
              assert.equal(text("s" .. (i + k - 1) % 4), e.old)
            end
          end
        end
      end
    end)

  it("knows of the last writer what it wrote, not what is there now",
    function()
      local t, other = mw.track {}, mw.track {}
      local object = {}
      local r <close> = mw.recorder { capacity = 1 }
      t.n, t.s, t.o = 1, "text", object
      for i = 1, 1000 do other.x = i end
      assert.equal(object, r:why(t, "o").new)
      mw.untrack(t)
      t.n, t.s, t.o = 2, "other", 3
      mw.track(t)
      assert.same({ 1, "text" }, { r:why(t, "n").new, r:why(t, "s").new })
      assert.matches("^o of table#%d+: nil %-> an object that is gone$",
        tostring(r:why(t, "o")))
    end)

  it("says why of what is open, and of what failed", function()
    local a, b, c = mw.track {}, mw.track {}, mw.track {}
    for from, to in pairs { [a] = b, [b] = c } do
      mw.watch(from, function(_, _, _, new, kind)
        if kind ~= "rollback" then to.x = new end
      end, { once = false, phase = "after", key = "x" })
    end
    local r <close> = mw.recorder { rolled_back = true }
    -- Returns the lines without names of objects, which have numbers.
    local function said(e) return (tostring(e):gsub("table#%d+", "t")) end
    local outer = mw.begin()
    a.x = 1
    local e = r:why(c, "x")
    assert.is_nil(e.because)
    assert.equal("x of t: nil -> 1, transaction N, not committed yet\n" ..
      "  because x of t: nil -> 1, transaction N, not committed yet\n" ..
      "  because x of t: nil -> 1, transaction N, not committed yet",
      (said(e):gsub("transaction %d+", "transaction N")))
    local ok = mw.transaction(function()
      b.x = 2
      error "fails"
    end)
    assert.is_false(ok)
    outer:commit()
    assert.matches("^x of t: nil %-> 1, [^\n]*\n  because [^\n]*\n  because ",
      said(r:why(c, "x")))
    local undone = mw.begin "undone"
    a.x = 3
    local late = r:why(c, "x")
    undone:rollback()
    for _, of in ipairs { late, r:why(c, "x") } do
      assert.matches("\n  because x of t: 1 %-> 3, transaction \"undone\", " ..
        "rolled back\n  because x of t: 1 %-> 3, transaction \"undone\", " ..
        "rolled back$", said(of))
    end
    local failed = r:why(c, "x")
    assert.is_true(failed.rolled_back)
    r:stop()
    assert.matches("\n  because .*\n  because ", said(failed))
  end)

  it("says why of what failed within what stays", function()
    local a, b = mw.track {}, mw.track {}
    local r <close> = mw.recorder { rolled_back = true }
    mw.watch(a, function()
      mw.transaction(function()
        b.x = 1
        error "fails"
      end)
    end, { once = false, phase = "after", key = "x" })
    a.x = 1
    local e = r:why(b, "x")
    assert.is_true(e.rolled_back)
    assert.matches("\n  because x of table#%d+: nil %-> 1$", tostring(e))
  end)

  it("is misused with a colon", function()
    misuse("calling 'why' with a colon (use a dot: mw.why)", mw.why, mw, {}, 1)
  end)
end)

describe("a cause", function()
  it("of a redo is the undo's write, also where a memo asks for causes",
    function()
      local t = mw.track {}
      local memo = mw.memo(function() return t.x end, t)
      memo()
      local r <close> = mw.recorder()
      local history = mw.history()
      history:run("step", function() t.x, t.y = 1, 2 end)
      for _ = 1, 2 do
        history:undo()
        local undone = { r:why(t, "x").seq, r:why(t, "y").seq }
        memo()
        history:redo()
        assert.same(undone, { r:why(t, "x").because, r:why(t, "y").because })
        memo()
      end
    end)

  it("of a redo of many writes is the undo's write", function()
    local t = mw.track {}
    local r <close> = mw.recorder()
    local history = mw.history()
    history:run("step", function()
      for i = 1, 40 do t[i] = i end
    end)
    history:undo()
    local undone = r:why(t, 20).seq
    history:redo()
    assert.equal(undone, r:why(t, 20).because)
  end)

  it("of what a guard or a memo writes in an undo is the write of the undo",
    function()
      for _, phase in ipairs { "before", "after" } do
        local t, log = mw.track { x = 0, y = 0 }, mw.track {}
        for _, key in ipairs { "x", "y" } do
          mw.watch(t, function(_, _, _, new, kind)
            if kind == "rollback" then log[key] = new end
          end, { key = key, once = false,
            phase = phase == "after" and phase or nil })
        end
        local memo = mw.memo(function() log.sum = t.x + t.y end):on(t,
          { key = "x" })
        memo()
        local r <close> = mw.recorder()
        local function write()
          t.y = 1
          t.x, t.y, t.x = 1, 2, 3
          memo()
        end
        local function check()
          memo()
          for _, key in ipairs { "x", "y" } do
            local e, because = r:why(t, key), r:why(log, key).because
            assert.same({ 0, e.seq }, { e.new, because })
          end
          local sum = r:why(log, "sum")
          assert.same({ 0, r:why(t, "x").seq }, { sum.new, sum.because })
        end
        local history = mw.history()
        history:run("step", write)
        history:undo()
        check()
        local _, fx = mw.transaction(write)
        fx:rollback()
        check()
        local tx = mw.begin()
        _, fx = mw.transaction(write)
        fx:rollback()
        tx:commit()
        check()
      end
    end)

  it("is the write whose guard made the write", function()
    local a, b, c = mw.track {}, mw.track {}, mw.track {}
    mw.watch(a, function(_, _, _, new) b.x = new end, { once = false })
    mw.watch(b, function() c.x, c.y = 1, 2 end,
      { once = false, phase = "after" })
    local r <close> = mw.recorder()
    a.x = 5
    local of_a, of_b = r:why(a, "x"), r:why(b, "x")
    assert.is_nil(of_a.because)
    assert.equal(of_a.seq, of_b.because)
    assert.equal(of_b.seq, r:why(c, "x").because)
    assert.equal(of_b.seq, r:why(c, "y").because)
    a.plain = 1
    b.free = 1
    assert.is_nil(r:why(b, "free").because)
  end)

  it("is known for deep watches, paths, checks and functions", function()
    local root = mw.track({ list = { { hp = 1 } } }, { deep = true })
    local log = mw.track {}
    mw.watch(root, function() log.deep = (log.deep or 0) + 1 end,
      { deep = true, once = false })
    mw.watch(root, function() log.path = 1 end,
      { path = { "list", mw.any, "hp" }, once = false })
    mw.watch(root.list[1], function() log.check = 1 end, { phase = "check" })
    local guard = { invalidate = function() log.object = 1 end }
    mw.watch(root.list[1], guard)
    local r <close> = mw.recorder()
    root.list[1].hp = 0
    local seq = r:why(root.list[1], "hp").seq
    for _, key in ipairs { "deep", "path", "check", "object" } do
      assert.equal(seq, r:why(log, key).because, key)
    end
    assert.is_truthy(guard)
  end)

  it("is known after the store, whatever was stored", function()
    for _, opts in ipairs { {}, { where = true } } do
      for _, deep in ipairs { true, false } do
        local root = mw.track({ child = {}, n = 1 }, { deep = deep })
        local log, seen = mw.track {}, 0
        mw.watch(root, function() seen = seen + 1 log.n = seen end,
          { once = false, phase = "after" })
        local r <close> = mw.recorder(opts)
        for _, value in ipairs { 1, "text", {}, root.child, print, false } do
          root.value = value
          assert.equal(r:why(root, "value").seq, r:why(log, "n").because)
        end
        root.child = nil
        assert.equal(r:why(root, "child").seq, r:why(log, "n").because)
        mw.setmetatable(root, {})
        local because = r:why(log, "n").because
        for e in r:entries() do
          if e.kind == "metatable" then assert.equal(e.seq, because) end
        end
      end
    end
  end)

  it("is nil until it is delivered, and where it never is", function()
    local t, log = mw.track {}, mw.track {}
    mw.watch(t, function()
      coroutine.wrap(function()
        log.x = (log.x or 0) + 1
      end)()
    end, { once = false })
    local r <close> = mw.recorder()
    mw.touch(t, "x")
    assert.equal(1, r:why(log, "x").new)
    assert.is_nil(r:why(log, "x").because)
    mw.transaction(function()
      t.x = 1
      assert.is_true(r:why(log, "x").open)
      assert.is_nil(r:why(log, "x").because)
    end)
    assert.equal(r:why(t, "x").seq, r:why(log, "x").because)
  end)

  it("is told of in a batch, too", function()
    local t, log = mw.track {}, mw.track {}
    mw.watch(t, function() log.x = 1 end, { once = false })
    local r <close> = mw.recorder()
    mw.watch(t, function() log.y = 1 end, { key = "x" })
    mw.batch(function()
      t.x = 1
      t.x = 2
      t.y = 1
      assert.is_nil(r:why(log, "x"))
    end)
    assert.equal(1, r:why(log, "x").new)
    assert.equal(r:why(t, "y").seq, r:why(log, "x").because)
    assert.equal(r:why(t, "x").seq, r:why(log, "y").because)
  end)

  it("stays when its entry is read late", function()
    local t, log = mw.track {}, mw.track {}
    mw.watch(t, function() log.x = 1 end, { once = false })
    local r <close> = mw.recorder { capacity = 2 }
    t.x = 1
    local list = {}
    for e in r:entries() do list[#list + 1] = e end
    local other = mw.track {}
    for i = 1, 1000 do other.x = i end
    assert.equal(list[2].seq, list[1].because)
  end)

  it("goes through a circle only once", function()
    local a, b = mw.track { n = 0 }, mw.track { n = 0 }
    local opts = { once = false, phase = "after" }
    mw.watch(a, function() if b.n < 3 then b.n = b.n + 1 end end, opts)
    mw.watch(b, function() if a.n < 3 then a.n = a.n + 1 end end, opts)
    local r <close> = mw.recorder()
    a.n = 1
    for e in r:entries() do
      local _, lines = tostring(e):gsub("\n", "\n")
      assert.is_true(lines <= r:len())
    end
  end)
end)

describe("an entry as text", function()
  it("says what was written, where, by whom and because of what", function()
    local Level, Player = class "Level", class "Player"
    local level = setmetatable({ enemies = { {}, {}, { hp = 10 } },
      player = setmetatable({}, Player) }, Level)
    mw.track(level, { deep = true })
    local enemy, player = level.enemies[3], level.player
    mw.watch(player, function(_, _, _, new) if new then new.hp = 0 end end,
      { key = "target", once = false })
    local r <close> = mw.recorder { where = true }
    local at
    mw.transaction("fight", function()
      player.target = enemy
      at = line(-1)
    end)
    assert.equal(([[
hp of Level.enemies.3: 10 -> 0, spec/why_spec.lua:%d, transaction "fight"
  because target of Level.player: nil -> Level.enemies.3, ]] ..
      [[spec/why_spec.lua:%d, transaction "fight"]]):format(at - 5, at),
      tostring(mw.why(enemy, "hp")))
    assert.equal(tostring(r:why(enemy, "hp")), tostring(mw.why(enemy, "hp")))
  end)

  it("has the origin, the scopes and the number of a transaction", function()
    local t = mw.track(setmetatable({}, class "Thing"))
    local h <close> = mw.hierarchy()
    local step = setmetatable({}, class "Update")
    local update <close> = h:scope(step)
    local r <close> = mw.recorder()
    mw.origin("Bob", function() mw.transaction(function() t.x = 1 end) end)
    local e = mw.why(t, "x")
    assert.same({ "Update" }, e.scope)
    assert.equal(("x of Thing#%d: nil -> 1, in Update, transaction %d, by Bob")
      :format(mw.id(t), e.transaction), tostring(e))
    assert.is_truthy(update and r and step)
  end)

  it("names objects by hierarchy, way, class and number", function()
    local h <close> = mw.hierarchy()
    local named = setmetatable({ child = setmetatable({}, class "Child") },
      class "Named")
    local _ <close> = h:scope(named)
    local _ <close> = h:scope(named.child)
    local root = mw.track(setmetatable({ list = { { x = 1 } }, ["a b"] = {},
      [1.5] = {}, [true] = {} }, class "Root"), { deep = true })
    local single = mw.track(setmetatable({}, class "Single"))
    local plain = mw.track {}
    mw.track(named.child)
    local r <close> = mw.recorder { scopes = false }
    for text, obj in pairs {
      ["Named.child"] = named.child, ["Root.list.1"] = root.list[1],
      ['Root["a b"]'] = root["a b"], ["Root[1.5]"] = root[1.5],
      ["Root[true]"] = root[true], Root = root,
      ["Single#" .. mw.id(single)] = single, ["table#" .. mw.id(plain)] = plain,
    } do
      obj.x = root.list
      assert.equal(("x of %s: "):format(text),
        tostring(r:why(obj, "x")):match "^.-: ")
      assert.matches("%-> Root.list$", tostring(r:why(obj, "x")))
    end
    single.x = setmetatable({}, class "Loose")
    assert.matches("%-> Loose#%d+$", tostring(r:why(single, "x")))
  end)

  it("names the table of globals", function()
    local r <close> = mw.recorder()
    mw.transaction({ globals = _G }, function() _G.written = 1 end)
    local e = r:why(_G, "written")
    _G.written = nil
    assert.matches("^written of _G: nil %-> 1, transaction %d+$", tostring(e))
  end)

  it("shows values of all types on one line", function()
    local t = mw.track {}
    local r <close> = mw.recorder()
    local function text(value)
      t.x = nil
      t.x = value
      return (tostring(r:why(t, "x")):match "nil %-> (.*)")
    end
    for value, expected in pairs {
      [5] = "5", [1.5] = "1.5", [true] = "true", [mw.null] = "null",
      short = '"short"', ['"\\'] = '"\\"\\\\"',
      ["a\n\r\t\0"] = '"a\\n\\13\\9\\0"',
      [("x"):rep(100)] = '"' .. ("x"):rep(60) .. '..."',
      [("ü"):rep(100)] = '"' .. ("ü"):rep(30) .. '..."',
      ["x" .. ("ü"):rep(100)] = '"x' .. ("ü"):rep(29) .. '..."',
    } do
      assert.equal(expected, text(value))
    end
    assert.matches("^function#%d+$", text(print))
    assert.matches("^thread#%d+$", text(coroutine.create(print)))
    assert.matches("^table#%d+$", text({}))
    assert.equal("false", text(false))
    assert.equal("1.0", text(1.0))
    local evil = setmetatable({}, { __tostring = error, __name = 5,
      __index = error, __eq = error })
    assert.matches("^table#%d+$", text(evil))
  end)

  it("shows keys of all types", function()
    local t, key = mw.track {}, {}
    local r <close> = mw.recorder()
    for k, expected in pairs { word = "word", [3] = "3", [-3] = "-3",
      ["two words"] = '["two words"]', [1.5] = "[1.5]", [true] = "[true]",
      ["1"] = '["1"]', [key] = "[table#" .. mw.id(key) .. "]",
      [("k"):rep(100)] = '["' .. ("k"):rep(60) .. '..."]' } do
      t[k] = 1
      assert.equal(expected .. " of table#" .. mw.id(t) .. ": nil -> 1",
        tostring(r:why(t, k)))
    end
  end)

  it("quotes what would break the line", function()
    local t = mw.track {}
    local r <close> = mw.recorder()
    mw.origin("a\nb", mw.transaction, 'c"\n', function() t.x = 1 end)
    assert.matches(', transaction "c\\"\\n", by a\\nb$',
      tostring(r:why(t, "x")))
    local named = mw.track(setmetatable({}, class "A\nB"))
    named.x = setmetatable({}, class "C\tD")
    assert.matches("^x of A\\nB#%d+: nil %-> C\\9D#%d+$",
      tostring(r:why(named, "x")))
    mw.setmetatable(named, class "E\r")
    for e in r:entries(r:why(named, "x").seq + 1) do
      assert.equal("class of E\\13#" .. mw.id(named) .. ": A\\nB -> E\\13",
        tostring(e))
    end
  end)

  it("tells of changes of class", function()
    local t = mw.track(setmetatable({}, class "Old"))
    local r <close> = mw.recorder()
    mw.setmetatable(t, class "New")
    mw.setmetatable(t, nil)
    local texts = {}
    for e in r:entries() do texts[#texts + 1] = tostring(e) end
    assert.matches("^class of [%w#]+: Old %-> New$", texts[1])
    assert.matches("^class of [%w#]+: New %-> nil$", texts[2])
  end)

  it("has a line for each cause, however many", function()
    local list = {}
    for i = 1, 50 do list[i] = mw.track {} end
    for i = 1, 49 do
      mw.watch(list[i], function() list[i + 1].x = 1 end)
    end
    local r <close> = mw.recorder()
    list[1].x = 1
    local _, causes = tostring(r:why(list[50], "x")):gsub("because", "")
    assert.equal(49, causes)
  end)

  it("needs no recorder that runs", function()
    local t = mw.track(setmetatable({}, class "Thing"))
    local r = mw.recorder()
    t.x = 1
    local e = r:why(t, "x")
    r:stop()
    assert.matches("^x of Thing#%d+: nil %-> 1$", tostring(e))
    local other <close> = mw.recorder()
    t.x = nil
    r = nil
    collectgarbage()
    assert.matches("^x of Thing#%d+: nil %-> 1$", tostring(e))
    assert.is_truthy(other)
    assert.is_nil(r)
  end)
end)

describe("scopes of an entry", function()
  it("are those that are open, the outermost first", function()
    collectgarbage() -- hierarchies of other specs end before, not meanwhile
    collectgarbage()
    mw.timing(true)
    local t = mw.track {}
    local Level, Child = class "Level", class "Child"
    local level = setmetatable({ child = setmetatable({}, Child) }, Level)
    local h <close> = mw.hierarchy()
    local r <close> = mw.recorder()
    local function scope()
      t.x = (t.x or 0) + 1
      return table.concat(r:why(t, "x").scope or {}, " > ")
    end
    assert.equal("", scope())
    local frame <close> = mw.timed "frame"
    h:enter(level)
    local phase <close> = mw.timed "phase"
    h:enter(level.child)
    local inner <close> = mw.timed "inner"
    assert.equal("frame > Level > phase > Level.child > inner", scope())
    inner:close()
    assert.equal("frame > Level > phase > Level.child", scope())
    h:leave(level.child)
    assert.equal("frame > Level > phase", scope())
    phase:close()
    h:leave(level)
    frame:close()
    assert.equal("", scope())
    mw.timing(false)
    mw.reset_times()
    local unmeasured <close> = mw.timed "unmeasured"
    assert.equal("", scope())
    assert.is_truthy(unmeasured)
  end)

  it("belong to coroutines", function()
    local t = mw.track {}
    local h <close> = mw.hierarchy()
    local r <close> = mw.recorder()
    local function scope()
      t.x = (t.x or 0) + 1
      return table.concat(r:why(t, "x").scope or {}, " > ")
    end
    local a = coroutine.wrap(function()
      local _ <close> = h:scope(setmetatable({}, class "A"))
      coroutine.yield(scope())
      coroutine.yield(scope())
    end)
    local b = coroutine.wrap(function()
      local _ <close> = h:scope(setmetatable({}, class "B"))
      coroutine.yield(scope())
      coroutine.yield(scope())
    end)
    assert.equal("A", a())
    assert.equal("B", b())
    assert.equal("", scope())
    assert.equal("A", a())
    assert.equal("B", b())
    a()
    b()
  end)

  it("are an array of the program's own", function()
    local t = mw.track {}
    local h <close> = mw.hierarchy()
    local _ <close> = h:scope(setmetatable({}, class "A"))
    local r <close> = mw.recorder()
    t.x, t.y = 1, 1
    local list = {}
    for e in r:entries() do list[#list + 1] = e end
    list[1].scope[1] = "changed"
    assert.same({ "A" }, list[2].scope)
  end)

  it("are not asked for without need", function()
    local t = mw.track {}
    local h <close> = mw.hierarchy()
    local _ <close> = h:scope(setmetatable({}, class "A"))
    local r <close> = mw.recorder { scopes = false }
    t.x = 1
    assert.is_nil(r:why(t, "x").scope)
  end)
end)

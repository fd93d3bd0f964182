local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"

local t, r

before_each(function()
  t = mw.track { n = 0 }
  r = mw.recorder()
end)

after_each(function() r:stop() end)

-- Writes, and returns the origin of the write.
local function origin()
  t.n = t.n + 1
  return r:why(t, "n").origin
end

describe("an origin", function()
  it("is who makes the writes of a function", function()
    assert.is_nil(origin())
    local results = table.pack(mw.origin("player", function(...)
      assert.equal("player", origin())
      return ..., nil
    end, 1, nil, 3))
    assert.same({ n = 2, [1] = 1 }, results)
    assert.is_nil(origin())
    assert.equal(0, select("#", mw.origin("player", function() end)))
    local n = 0
    for e in r:entries() do
      n = n + 1
      assert.equal(n == 2 and "player" or nil, e.origin)
    end
  end)

  it("is the innermost", function()
    mw.origin("outer", function()
      assert.equal("outer", origin())
      mw.origin("inner", function() assert.equal("inner", origin()) end)
      assert.equal("outer", origin())
    end)
    assert.is_nil(origin())
  end)

  it("ends when the function fails", function()
    local err = {}
    assert.equal(err, error_of(mw.origin, "player", error, err))
    assert.is_nil(origin())
    assert.is_false(pcall(mw.origin, "a", mw.origin, "b", error))
    assert.is_nil(origin())
  end)

  it("is a value that is closed", function()
    do
      local o <close> = mw.origin "player"
      assert.equal("player", origin())
      assert.is_truthy(o)
    end
    assert.is_nil(origin())
    pcall(function()
      local o <close> = mw.origin "player"
      error(o)
    end)
    assert.is_nil(origin())
    local o = mw.origin "player"
    o:close()
    o:close()
    assert.is_nil(origin())
  end)

  it("may end before one that began later", function()
    local a, b = mw.origin "a", mw.origin "b"
    assert.equal("b", origin())
    a:close()
    assert.equal("b", origin())
    b:close()
    assert.is_nil(origin())
  end)

  it("ends when it is dropped", function()
    mw.origin "lost"
    collectgarbage()
    assert.is_nil(origin())
  end)

  it("is of a transaction's writes, too", function()
    local tx = mw.begin "mixed"
    mw.origin("a", function() t.a = 1 end)
    mw.origin("b", function() t.b = 1 end)
    t.c = 1
    assert.equal("a", r:why(t, "a").origin)
    tx:commit()
    assert.equal("a", r:why(t, "a").origin)
    assert.equal("b", r:why(t, "b").origin)
    assert.is_nil(r:why(t, "c").origin)
  end)

  it("is of what a guard writes", function()
    mw.watch(t, function(obj) obj.seen = true end, { key = "x" })
    mw.origin("player", function() t.x = 1 end)
    assert.equal("player", r:why(t, "seen").origin)
    mw.watch(t, function(obj)
      mw.origin("rules", function() obj.ruled = true end)
    end, { key = "x" })
    mw.origin("player", function() t.x = 2 end)
    assert.equal("rules", r:why(t, "ruled").origin)
    assert.equal("player", r:why(t, "x").origin)
  end)

  it("is of undo, patches and batches that are made in it", function()
    local history = mw.history()
    history:run("step", function() t.a = 1 end)
    mw.origin("undoer", history.undo, history)
    assert.equal("undoer", r:why(t, "a").origin)
    mw.origin("net", mw.patch, t, { { op = "add", path = "/b", value = 1 } })
    assert.equal("net", r:why(t, "b").origin)
    mw.origin("batch", mw.batch, function() t.c = 1 end)
    assert.equal("batch", r:why(t, "c").origin)
  end)

  it("has any name", function()
    for _, name in ipairs { "", "a\0b", ("long"):rep(100), "ü" } do
      mw.origin(name, function() assert.equal(name, origin()) end)
    end
  end)

  it("is known though no recorder ran when it began", function()
    r:stop()
    mw.origin("player", function()
      r = mw.recorder()
      assert.equal("player", origin())
    end)
    assert.is_nil(origin())
  end)

  it("costs nothing that stays", function()
    local growth = require "spec.support.growth"
    local grown = growth(function()
      for i = 1, 100 do
        mw.origin("name " .. i, function() t.x = i end)
        mw.origin("dropped " .. i)
        pcall(mw.origin, "failed", error)
        local o <close> = mw.origin "closed"
        coroutine.wrap(function()
          local its <close> = mw.origin "of a coroutine"
          coroutine.yield(its, o)
        end)()
      end
      r:stop()
      r = mw.recorder()
    end)
    assert.is_true(grown < 0.2, grown .. " KB")
  end)
end)

describe("mw.current_origin", function()
  it("is the origin that a write has now", function()
    local function other() return mw.origin("script", mw.current_origin) end
    assert.is_nil(mw.current_origin())
    local result = mw.origin("Ann", function()
      assert.equal("Ann", coroutine.wrap(mw.current_origin)())
      assert.equal("script", coroutine.wrap(other)())
      assert.equal("script", other())
      return mw.current_origin()
    end)
    assert.equal("Ann", result)
    assert.is_nil(mw.current_origin())
  end)

  it("lets a check ask who writes", function()
    local door = { open = false }
    mw.watch(door, function()
      if mw.current_origin() ~= "key" then error("locked", 0) end
    end, { phase = "check" })
    local function open() door.open = true end
    assert.same({ false, "locked" }, { pcall(open) })
    assert.same({ false, "locked" }, { pcall(mw.origin, "Ann", open) })
    mw.origin("key", open)
    assert.is_true(door.open)
  end)

  it("takes no argument", function()
    assert.matches("bad argument #1 to 'current_origin'",
      select(2, pcall(mw.current_origin, "Ann")))
  end)
end)

describe("an origin of a coroutine", function()
  it("is of the writes of this coroutine", function()
    local a = coroutine.wrap(function()
      mw.origin("a", function()
        coroutine.yield(origin())
        coroutine.yield(origin())
      end)
      coroutine.yield(origin())
    end)
    local b = coroutine.wrap(function()
      local _ <close> = mw.origin "b"
      coroutine.yield(origin())
      coroutine.yield(origin())
    end)
    assert.equal("a", a())
    assert.is_nil(origin())
    assert.equal("b", b())
    assert.is_nil(origin())
    assert.equal("a", a())
    assert.equal("b", b())
    assert.is_nil(a())
    assert.is_nil(origin())
  end)

  it("is that of those who wait for it, the one begun last", function()
    local co = coroutine.wrap(function()
      assert.equal("main", origin())
      mw.origin("outer", function()
        coroutine.wrap(function()
          assert.equal("outer", origin())
          mw.origin("inner", function() assert.equal("inner", origin()) end)
        end)()
        coroutine.yield()
        assert.equal("outer", origin())
      end)
      assert.is_nil(origin())
    end)
    mw.origin("main", co)
    co()
  end)

  it("passes yields through", function()
    local co = coroutine.wrap(function(...)
      return mw.origin("x", function(...)
        local got = coroutine.yield(...)
        return got, origin()
      end, ...)
    end)
    assert.same({ 1, 2 }, { co(1, 2) })
    assert.same({ "back", "x" }, { co "back" })
    assert.is_nil(origin())
  end)

  it("ends with a coroutine that is closed, dropped or fails", function()
    local co = coroutine.create(function()
      mw.origin("x", coroutine.yield)
    end)
    coroutine.resume(co)
    coroutine.close(co)
    assert.is_nil(origin())
    coroutine.wrap(function() mw.origin("dropped", coroutine.yield) end)()
    collectgarbage()
    collectgarbage()
    assert.is_nil(origin())
    assert.is_false(pcall(coroutine.wrap(function()
      mw.origin("x", error, "fails")
    end)))
    assert.is_nil(origin())
  end)

  it("stays that of a coroutine that has returned", function()
    local kept
    coroutine.wrap(function() kept = mw.origin "kept" end)()
    assert.is_nil(origin())
    collectgarbage()
    assert.is_nil(origin())
    kept:close()
    assert.is_nil(origin())
  end)

  it("may be closed from another one", function()
    local kept
    local co = coroutine.wrap(function()
      kept = mw.origin "kept"
      coroutine.yield(origin())
      coroutine.yield(origin())
    end)
    assert.equal("kept", co())
    kept:close()
    assert.is_nil(co())
    assert.is_nil(origin())
  end)
end)

describe("an origin's misuse", function()
  it("is refused in words", function()
    local function f() end
    misuse("bad argument #1 to 'origin' (string expected, got no value)",
      mw.origin)
    misuse("bad argument #1 to 'origin' (string expected, got number)",
      mw.origin, 5, f)
    misuse("bad argument #2 to 'origin' (function expected, got nil)",
      mw.origin, "x", nil)
    misuse("bad argument #2 to 'origin' (function expected, got string)",
      mw.origin, "x", "y")
    misuse("calling 'origin' with a colon (use a dot: mw.origin)",
      mw.origin, mw, "x")
    local o <close> = mw.origin "x"
    misuse("calling 'close' on bad self (origin expected, got table)",
      o.close, {})
    assert.matches("field 'name' of the origin cannot be set",
      error_of(function() o.name = "y" end))
    assert.equal("x", origin())
  end)
end)

local mw = require "moonwatch"
local support = require "support"
local error_of = require "spec.support.error_of"
local worlds = require "spec.support.worlds"

local ONCE = { once = true }

local STAY = { once = false }

describe("mw.batch", function()
  local obj, notes

  local function guard(name)
    return function(o, key, old, new, kind)
      assert.equal(obj, o)
      notes[#notes + 1] = ("%s %s:%s>%s %s"):format(name, key, old, new, kind)
    end
  end

  before_each(function()
    obj, notes = { a = 1, b = 2 }, {}
  end)

  it("calls each guard once, at the end", function()
    mw.watch(obj, guard "x", STAY)
    mw.watch(obj, guard "y", ONCE)
    mw.batch(function()
      obj.a = 2
      obj.a = 3
      obj.c = 4
      assert.same({}, notes)
      assert.equal(3, obj.a)
    end)
    assert.same({ "x c:nil>4 insert", "y c:nil>4 insert" }, notes)
    assert.equal(3, mw.mutations(obj))
    obj.a = 5
    assert.equal(3, #notes)
  end)

  it("tells the last key that concerned them, from before to after", function()
    mw.watch(obj, guard "a", { key = "a", once = true })
    mw.watch(obj, guard "all", ONCE)
    mw.watch(obj, guard "c", { key = "c", phase = "after", once = true })
    mw.watch(obj, guard "d", { key = "d", once = true })
    mw.batch(function()
      obj.a = 2
      obj.b = 3
      obj.a = nil
      obj.c = 1
      obj.b = 4
    end)
    assert.same({ "a a:1>nil delete", "all b:2>4 update",
      "c c:nil>1 insert" }, notes)
  end)

  it("compares before and after for equal = skip", function()
    mw.watch(obj, guard "x", { equal = "skip", once = false })
    mw.batch(function()
      obj.a = 5
      obj.a = 1
    end)
    assert.same({}, notes)
    mw.batch(function() obj.a = 5 end)
    assert.same({ "x a:1>5 update" }, notes)
  end)

  it("returns what the function returns, and passes arguments", function()
    local results = table.pack(mw.batch(function(...)
      return select("#", ...), nil, ...
    end, nil, 2, nil))
    assert.equal(5, results.n)
    assert.same({ 3, nil, nil, 2, n = 5 }, results)
  end)

  it("ends when the outermost one does", function()
    mw.watch(obj, guard "x", STAY)
    mw.batch(function()
      mw.batch(function() obj.a = 2 end)
      assert.same({}, notes)
    end)
    assert.same({ "x a:1>2 update" }, notes)
  end)

  it("calls them also when the function fails, whose error goes on", function()
    mw.watch(obj, guard "x", ONCE)
    local err = {}
    assert.equal(err, error_of(mw.batch, function()
      obj.a = 2
      mw.batch(error, err)
    end))
    assert.same({ "x a:1>2 update" }, notes)
    mw.watch(obj, function() error "not this one" end, ONCE)
    assert.equal("bad", error_of(mw.batch, function()
      obj.a = 3
      error("bad", 0)
    end))
  end)

  it("raises the first error of a guard, after all were called", function()
    mw.watch(obj, function() error("one", 0) end, ONCE)
    mw.watch(obj, function() error("two", 0) end, ONCE)
    mw.watch(obj, guard "x", ONCE)
    assert.matches("^one", error_of(mw.batch, function() obj.a = 2 end))
    assert.equal(1, #notes)
    assert.equal(2, obj.a)
  end)

  it("makes mw.guards invalid at once, for they are not called", function()
    local valid, skips = mw.guard(), mw.guard()
    mw.watch(obj, valid, ONCE)
    mw.watch(obj, skips, { equal = "skip", once = true })
    mw.batch(function()
      obj.a = 2
      assert.is_false(valid.valid)
      obj.a = 1
    end)
    assert.is_true(skips.valid)
  end)

  it("within the end of another has old values of its own", function()
    local n = 0
    mw.watch(obj, function(o, _, old, new)
      n = n + 1
      if n == 1 then
        assert.same({ 1, 2 }, { old, new })
        mw.batch(function() o.a = 1 end)
      else
        assert.same({ 2, 1 }, { old, new })
      end
    end, { once = false, equal = "skip" })
    mw.batch(function() obj.a = 2 end)
    assert.equal(2, n)
  end)

  it("does not let a write of the same value hide another", function()
    mw.watch(obj, guard "x", { equal = "skip", once = true })
    mw.batch(function()
      obj.a = 2
      obj.b = 2
    end)
    assert.same({ "x a:1>2 update" }, notes)
  end)

  it("keeps the kinds of what is no write", function()
    mw.watch(obj, guard "x", STAY)
    mw.batch(function() mw.touch(obj, "a") end)
    assert.same({ "x a:1>1 touch" }, notes)
    local class = {}
    mw.batch(function() mw.setmetatable(obj, class) end)
    assert.equal("x nil:nil>" .. tostring(class) .. " metatable", notes[2])
  end)

  it("that a finaliser has kept ends once, by hand or as a lost one",
    function()
      for _, late in ipairs { false, true } do
        local objects, told, kept = {}, {}, nil
        for i = 1, 5 do
          objects[i] = {}
          mw.watch(objects[i], function()
            told[#told + 1] = i
            if late then collectgarbage() end
            mw.id(objects)
          end, STAY)
        end
        do
          local batch = mw.batch()
          for _, its in ipairs(objects) do its.x = 1 end
          for _ = 1, 100 do setmetatable({}, { __gc = function() end }) end
          setmetatable({}, { __gc = function() kept = batch end })
        end
        repeat
          collectgarbage(late and "step" or "collect", 1)
        until kept
        kept:close()
        mw.id(objects)
        assert.same({ 1, 2, 3, 4, 5 }, told)
        mw.batch(function() objects[1].x = 2 end)
        assert.equal(6, #told)
      end
    end)

  it("ends even where the C stack does", function()
    mw.watch(obj, guard "x", STAY)
    local function deep()
      pcall(string.gsub, "a", "a", deep)
      pcall(mw.batch, function() end)
    end
    deep()
    obj.a = 2
    assert.same({ "x a:1>2 update" }, notes)
  end)

  it("bears a guard that batches, and one that writes", function()
    local n = 0
    mw.watch(obj, function()
      n = n + 1
      if n < 4 then
        mw.batch(function() obj.a = n + 10 end)
        obj.b = n
      end
    end, STAY)
    mw.watch(obj, guard "x", ONCE)
    mw.batch(function() obj.a = 2 end)
    assert.same({ "x a:12>13 update" }, notes) -- the last batch ends first
    assert.is_true(n >= 4)
  end)

  it("bears objects that are unwatched, cancelled and forgotten", function()
    local other = {}
    mw.watch(obj, guard "gone", STAY)
    mw.watch(other, function() error "gone as well" end, STAY)
    local handle = mw.watch(obj, guard "cancelled", STAY)
    mw.batch(function()
      obj.a = 2
      other.a = 1
      handle:cancel()
      mw.unwatch(obj)
      mw.unwatch(other)
      other = nil
      collectgarbage()
      obj.a = 3
    end)
    assert.same({}, notes)
    assert.equal(3, rawget(obj, "a"))
  end)

  it("ends the watches of what is unwatched at once", function()
    local handle = mw.watch(obj, guard "gone", STAY)
    mw.batch(function()
      obj.a = 2
      assert.is_true(handle:alive())
      mw.unwatch(obj)
      assert.is_false(handle:alive())
    end)
    assert.is_false(handle:alive())
    assert.same({}, notes)
  end)

  it("takes any keys", function()
    local key = {}
    mw.watch(obj, guard "x", STAY)
    mw.batch(function()
      mw.touch(obj)
      pcall(function() obj[0 / 0] = 1 end)
      obj[key] = 1
      obj[1.0] = 1
    end)
    assert.same({ "x 1:nil>1 insert" }, notes)
  end)

  it("takes a key that no table takes, as the last one too", function()
    local deep = {}
    mw.watch(obj, guard "x", STAY)
    mw.watch(obj, function(o, path) deep[#deep + 1] = { o, path[1] } end,
      { deep = true, once = false })
    mw.batch(function()
      mw.touch(obj)
      obj.a = 5
      pcall(function() obj[0 / 0] = 1 end)
    end)
    assert.matches("^x %-?nan:nil>nil delete$", notes[1])
    assert.equal(obj, deep[1][1])
    assert.are_not.equal(deep[1][2], deep[1][2])
    mw.batch(function()
      pcall(function() obj[0 / 0] = 1 end)
      mw.touch(obj)
    end)
    assert.equal("x nil:nil>nil touch", notes[2])
  end)

  it("holds nothing afterwards", function()
    local weak = setmetatable({}, { __mode = "k" })
    mw.watch(obj, guard "x", STAY)
    mw.batch(function()
      local value = {}
      weak[value] = true
      obj.a = value
      obj.a = nil
    end)
    notes = {}
    collectgarbage()
    assert.is_nil(next(weak))
  end)

  it("holds nothing after many writes, after one, after one that fails",
    function()
      local weak = setmetatable({}, { __mode = "k" })
      mw.watch(obj, function() end, STAY)
      for _, n in ipairs { 1000, 1, 3 } do
        for i = 1, n do
          obj[i] = { i }
          weak[obj[i]] = true
        end
        mw.batch(function()
          for i = 1, n do obj[i] = nil end
          pcall(function() obj[nil] = 1 end)
        end)
        collectgarbage()
        assert.is_nil(next(weak))
      end
    end)

  it("gives back what many writes took", function()
    local n = 20000
    for i = 1, n do obj[i] = i end
    mw.watch(obj, function() end, STAY)
    local function write()
      for i = 1, n do obj[i] = i + 1 end
    end
    collectgarbage()
    local before = collectgarbage "count"
    mw.batch(write)
    collectgarbage()
    assert.is_true(collectgarbage "count" - before < 100)
  end)

  it("tells keys that are equal from those that are not", function()
    local known, unknown, long = { 1 }, { 2 }, ("long "):rep(20)
    mw.id(known)
    local keys = { known, unknown, print, long .. 1, long .. 2, "1", 1, 1.5, -1,
      true, false, coroutine.create(print), io.stdout, mw.null }
    for i, key in ipairs(keys) do
      mw.watch(obj, guard(i), { once = false, key = key })
      if i % 2 == 0 then obj[key] = "before" end
    end
    mw.watch(obj, function() end, ONCE)
    notes = {}
    mw.batch(function()
      for round = 1, 3 do
        for _, key in ipairs(keys) do obj[key] = round end
        obj[("long "):rep(20) .. "1"] = "new" -- another string, but equal
        mw.id(unknown)
      end
    end)
    assert.equal(#keys, #notes)
    local told = {}
    for i, key in ipairs(keys) do
      local now = i == 4 and "new" or 3
      told[i] = ("%s %s:%s>%s %s"):format(i, key, i % 2 == 0 and "before" or
        nil, now, i % 2 == 0 and "update" or "insert")
    end
    assert.same(told, notes)
  end)

  it("finds the values from before among those of many fields", function()
    local objects, told = {}, 0
    for i = 1, 30 do
      objects[i] = {}
      for k = 1, 30 do
        objects[i][k] = k
        mw.watch(objects[i], function(_, key, old, new)
          assert.same({ k, k, 2 }, { key, old, new })
          told = told + 1
        end, { key = k, once = true })
      end
    end
    mw.batch(function()
      for round = 1, 2 do
        for _, o in ipairs(objects) do
          for k = 1, 30 do o[k] = round end
        end
      end
    end)
    assert.equal(900, told)
  end)

  it("within the end of another does not change what is yet to be told",
    function()
      local a = guard "a"
      mw.watch(obj, function(...)
        a(...)
        if #notes > 1 then return end
        mw.batch(function()
          for i = 1, 100 do obj[i] = i end
          obj.a = 7
        end)
      end, { key = "a", once = false })
      mw.watch(obj, guard "b", { key = "b", once = true })
      mw.watch(obj, function() end, STAY)
      mw.batch(function()
        obj.a = 5
        obj.b = 6
      end)
      assert.same({ "a a:1>5 update", "a a:5>7 update", "b b:2>6 update" },
        notes)
    end)

  it("forgets roots that die meanwhile", function()
    local told = 0
    local listener = { invalidate = function() told = told + 1 end }
    local roots = { { obj } }
    mw.watch(roots[1], listener, { deep = true, once = false })
    mw.batch(function()
      obj.a = 2
      roots[1] = nil
      collectgarbage()
    end)
    assert.equal(0, told)
  end)

  it("bears a class that watches and batches while it is asked", function()
    local object, told, asked = nil, 0, false
    object = support.userdata {
      __index = function()
        if asked then return end
        asked = true
        mw.watch(object, function() told = told + 1 end, ONCE)
        mw.batch(function() end)
      end,
      __newindex = function() end,
    }
    mw.watch(object, mw.guard(), STAY)
    -- so old values are read
    mw.watch(obj, function() end,
      { phase = "after", once = true })
    mw.batch(function() object.x = 1 end)
    assert.same({ true, 0 }, { asked, told })
    mw.batch(function() object.x = 2 end)
    assert.equal(1, told)
  end)

  it("may be begun by any number of guards at its end", function()
    local n, objects = 0, {}
    for i = 1, 300 do
      objects[i] = { x = 0, y = 0 }
      mw.watch(objects[i], function(o, _, _, new)
        mw.batch(function() o.y = new end)
      end, { once = false, key = "x" })
      mw.watch(objects[i], function() n = n + 1 end, { key = "y", once = true })
    end
    mw.batch(function()
      for i = 1, #objects do objects[i].x = 1 end
    end)
    assert.equal(#objects, n)
  end)

  it("does what is expected of a random program (SEED=" .. worlds.seed .. ")",
    function()
      worlds.each(300, function(random, message)
        local long = message:rep(10) -- unknown so far
        local keys = { 1, 2.5, "x", long .. "aA", long .. "BB", { 1 }, { 2 } }
        local objects, watches = { {}, {}, {} }, {}
        local told, expected, queue = {}, {}, {}
        for _ = 1, random(12) do
          local key = random(3) > 1 and keys[random(#keys)] or nil
          local w = { obj = objects[random(3)], key = key,
            once = random(3) == 1, skip = random(3) == 1 }
          w.name = #watches + 1
          watches[w.name] = w
          mw.watch(w.obj, function(o, ...)
            assert.equal(w.obj, o)
            told[#told + 1] = { w.name, ... }
          end, { once = w.once, key = key, equal = w.skip and "skip" or nil })
        end
        local function write(rows, o, key, value)
          local row
          for _, known in ipairs(rows) do
            if known.obj == o and known.key == key then row = known end
          end
          if not row then
            row = { obj = o, key = key, old = o[key] }
            rows[#rows + 1] = row
          end
          rows.n = rows.n + 1
          row.last = rows.n
          if type(key) == "string" then -- made anew
            o[key:sub(1, 40) .. key:sub(41)] = value
          else
            o[key] = value
          end
        end
        for _ = 1, 3 do
          local rows = { n = 0 }
          for _, o in ipairs(objects) do -- a watch that hears of all
            mw.watch(o, function() end, ONCE)
          end
          mw.batch(function()
            for _ = 1, random(30) do
              write(rows, objects[random(3)], keys[random(#keys)],
                ({ 1, 2, 3, nil })[random(4)])
            end
          end)
          for _, row in ipairs(rows) do
            local same = row.obj[row.key] == row.old
            for _, w in ipairs(watches) do
              if w.obj == row.obj and not w.ended and
                (w.key or row.key) == row.key and not (w.skip and same) then
                if not w.row then queue[#queue + 1] = w end
                if not w.row or w.row.last < row.last then w.row = row end
              end
            end
          end
          for _, w in ipairs(queue) do
            local row = w.row
            local new = row.obj[row.key]
            expected[#expected + 1] = { w.name, row.key, row.old, new,
              new == nil and "delete" or row.old == nil and "insert" or
                "update" }
            w.ended, w.row = w.once, nil
          end
          queue = {}
          assert.same(expected, told, message)
        end
      end)
    end)

  it("raises for what is no function", function()
    assert.equal("bad argument #1 to 'batch' (function expected, got nil)",
      error_of(mw.batch, nil))
  end)
end)

describe("equal = skip in a batch", function()
  local heard

  local function guard(_, key, old, new, kind)
    key = type(key) == "table" and table.concat(key, ".") or key
    heard[#heard + 1] = ("%s %s>%s %s"):format(key, old, new, kind)
  end

  local SKIP = { once = false, equal = "skip" }

  before_each(function() heard = {} end)

  it("passes over a key that ended as it began", function()
    local o = { a = 1, b = 5 }
    mw.watch(o, guard, SKIP)
    mw.batch(function()
      o.a = 2
      o.b = 6
      o.b = 5
    end)
    assert.same({ "a 1>2 update" }, heard)
    mw.batch(function()
      o.a, o.b = 7, 8
      o.b, o.a = 5, 2
    end)
    assert.equal(1, #heard)
  end)

  it("tells of the last of those that changed", function()
    local o = {}
    mw.watch(o, guard, SKIP)
    mw.batch(function()
      for i = 1, 50 do o[i] = i end
      o[3] = 4
      for i = 20, 50 do o[i] = nil end
      o[2] = nil
      o.x = 1
      o.x = nil
    end)
    assert.same({ "3 nil>4 insert" }, heard)
  end)

  it("knows what comes and goes as absent", function()
    local o = { b = 1 }
    mw.watch(o, guard, SKIP)
    mw.batch(function()
      o.a = 1
      o.b = nil
      o.a = nil
    end)
    assert.same({ "b 1>nil delete" }, heard)
  end)

  it("goes by the keys of the watch", function()
    local o = { a = 1, b = 1, c = 1 }
    mw.watch(o, guard, { once = false, equal = "skip", keys = { "a", "b" } })
    mw.watch(o, guard, { once = false, equal = "skip", key = "a" })
    mw.batch(function()
      o.b = 2
      o.a = 3
      o.c = 4
      o.a = 1
    end)
    assert.same({ "b 1>2 update" }, heard)
  end)

  it("is for all that is below a deep guard", function()
    local o = { list = { { x = 1 }, { x = 2 } } }
    local first = o.list[1]
    mw.watch(o, guard, { once = false, equal = "skip", deep = true })
    mw.batch(function()
      first.x = 5
      o.list[2].x = 3
      o.list[2].x = 2
    end)
    assert.same({ "list.1.x 1>5 update" }, heard)
    heard = {}
    mw.batch(function() -- it is written, moves away, and comes back
      first.x = 6
      o.list[1] = nil
      o.list[1] = first
    end)
    assert.same({ "list.1.x 5>6 update" }, heard)
  end)

  it("does not hide what others hear", function()
    local o = { a = 1, b = 1 }
    mw.watch(o, guard, STAY)
    mw.watch(o, guard, SKIP)
    mw.batch(function()
      o.a = 2
      o.b = 1
    end)
    assert.same({ "b 1>1 update", "a 1>2 update" }, heard)
  end)

  it("works for userdata, and classes with a __newindex", function()
    local store = { a = 1, b = 1 }
    local class = { __newindex = function(t, k, v) rawset(t, k, v) end }
    for _, o in ipairs { setmetatable({}, class), support.userdata {
      __index = store, __newindex = store } } do
      mw.watch(o, guard, SKIP)
      o.a, o.b = 1, 1
      heard = {}
      mw.batch(function()
        o.a = 2
        o.b = 2
        o.b = 1
      end)
      assert.same({ "a 1>2 update" }, heard)
      mw.unwatch(o)
    end
  end)

  it("is for flags as well", function()
    local o, flag = { a = 1 }, mw.guard()
    mw.watch(o, flag, SKIP)
    mw.batch(function()
      o.a = 2
      o.a = 1
    end)
    assert.is_true(flag.valid)
    mw.batch(function()
      o.b = 2
      o.a = 2
      o.a = 1
    end)
    assert.is_false(flag.valid)
  end)
end)

describe("a batch in coroutines", function()
  local o, heard

  before_each(function()
    o, heard = { x = 0, y = 0 }, {}
    mw.watch(o, function(_, key, old, new)
      heard[#heard + 1] = ("%s %s>%s"):format(key, old, new)
    end, STAY)
  end)

  local yield = coroutine.yield

  it("may yield", function()
    local load = coroutine.wrap(function()
      return mw.batch(function(n)
        for i = 1, n do
          o.x = i
          yield("loading", i)
        end
        return "done", nil, n
      end, 3)
    end)
    for i = 1, 3 do assert.same({ "loading", i }, { load() }) end
    assert.same({}, heard)
    assert.same({ "done", nil, 3 }, { load() })
    assert.same({ "x 0>3" }, heard)
  end)

  it("may fail after it has yielded", function()
    local err = {}
    local load = coroutine.create(function()
      mw.batch(function()
        o.x = 1
        yield()
        o.x = 2
        error(err)
      end)
    end)
    assert.is_true(coroutine.resume(load))
    assert.same({ false, err }, { coroutine.resume(load) })
    assert.same({ "x 0>2" }, heard)
    o.x = 3
    assert.equal(2, #heard)
  end)

  it("does not own the writes of others while it waits", function()
    local load = coroutine.wrap(function()
      mw.batch(function()
        o.x = 1
        yield()
        o.x = 2
      end)
    end)
    load()
    o.y = 1
    assert.same({ "y 0>1" }, heard)
    mw.batch(function()
      o.y = 2
      assert.equal(1, #heard)
    end)
    assert.same({ "y 0>1", "y 1>2" }, heard)
    load()
    assert.same({ "y 0>1", "y 1>2", "x 0>2" }, heard)
  end)

  it("owns the writes of a coroutine that it drives", function()
    local drive = coroutine.wrap(function()
      for i = 1, 3 do
        o.x = i
        yield()
      end
      mw.batch(function() -- a part of the other one
        o.x = 4
        yield()
        o.x = 5
      end)
    end)
    mw.batch(function()
      for _ = 1, 3 do drive() end
      assert.same({}, heard)
    end)
    assert.same({ "x 0>3" }, heard)
    mw.batch(function()
      drive()
      o.y = 1
    end)
    assert.same({ "x 0>3", "y 0>1" }, heard) -- x came before y
    drive() -- its batch is an outermost one now
    assert.same({ "x 0>3", "y 0>1", "x 4>5" }, heard)
  end)

  it("takes part in the batch of the coroutine that waits for it", function()
    local inner = coroutine.wrap(function()
      mw.batch(function() o.x = 1 end)
      assert.same({}, heard)
      yield()
    end)
    mw.batch(function()
      inner()
      o.x = 2
    end)
    assert.same({ "x 0>2" }, heard)
  end)

  it("ends when its coroutine is closed", function()
    local load = coroutine.create(function()
      mw.batch(function()
        o.x = 1
        yield()
      end)
    end)
    coroutine.resume(load)
    assert.same({}, heard)
    assert.is_true(coroutine.close(load))
    assert.same({ "x 0>1" }, heard)
  end)

  it("ends when its coroutine is lost", function()
    coroutine.wrap(function()
      mw.batch(function()
        local b <close> = mw.batch()
        o.x = 1
        o.self = { coroutine.running(), b } -- leads back to the coroutine
        o.self = nil
        yield()
      end)
    end)()
    collectgarbage()
    collectgarbage()
    assert.same({}, heard)
    o.x = 2
    assert.same({ "self nil>nil", "x 1>2" }, heard)
  end)

  it("ends in any order, many of them", function()
    local runs, n = {}, 50
    for i = 1, n do
      runs[i] = coroutine.wrap(function()
        mw.batch(function()
          for k = 1, 3 do
            o[i] = k
            mw.batch(yield)
          end
        end)
      end)
      runs[i]()
    end
    local at = 0
    for k = 1, 3 do
      for i = 1, n do
        at = (at + 7) % n
        runs[at + 1]()
        if k == 3 then
          assert.equal(("%d nil>3"):format(at + 1), heard[#heard])
          assert.equal(i, #heard)
        end
      end
    end
  end)

  it("raises the errors of guards in its coroutine", function()
    mw.watch(o, function() error("guard", 0) end, ONCE)
    local load = coroutine.wrap(function()
      return pcall(mw.batch, function()
        o.x = 1
        yield()
      end)
    end)
    load()
    local ok, err = load()
    assert.is_false(ok)
    assert.matches("^guard", err)
  end)
end)

describe("a batch without a function", function()
  local o, heard

  before_each(function()
    o, heard = { x = 0 }, {}
    mw.watch(o, function(_, key, old, new)
      heard[#heard + 1] = ("%s %s>%s"):format(key, old, new)
    end, STAY)
  end)

  it("ends with its block", function()
    do
      local _ <close> = mw.batch()
      o.x = 1
      o.x = 2
      assert.same({}, heard)
    end
    assert.same({ "x 0>2" }, heard)
  end)

  it("ends when it is closed, and may be closed twice", function()
    local b = mw.batch()
    o.x = 1
    b:close()
    assert.same({ "x 0>1" }, heard)
    b:close()
    o.x = 2
    assert.equal(2, #heard)
  end)

  it("ends with the outermost one, in any order", function()
    local a, b = mw.batch(), mw.batch()
    o.x = 1
    a:close()
    assert.same({ "x 0>1" }, heard)
    o.x = 2
    assert.equal(1, #heard)
    b:close()
    assert.same({ "x 0>1", "x 1>2" }, heard)
  end)

  it("gives way to an error of its block", function()
    mw.watch(o, function() error("guard", 0) end, ONCE)
    assert.equal("block", error_of(function()
      local _ <close> = mw.batch()
      o.x = 1
      error("block", 0)
    end))
    assert.same({ "x 0>1" }, heard)
    mw.watch(o, function() error("guard", 0) end, ONCE)
    assert.matches("^guard", error_of(function()
      local _ <close> = mw.batch()
      o.x = 2
    end))
  end)

  it("ends when it is lost", function()
    do
      local b = mw.batch()
      o.x = 1
      assert.is_not_nil(b)
    end
    collectgarbage()
    collectgarbage()
    mw.reap()
    assert.same({ "x 0>1" }, heard)
  end)

  it("may be ended by the finaliser of what is lost with it", function()
    local errors = {}
    for i = 1, 20 do
      coroutine.wrap(function()
        local b = mw.batch()
        local closer = setmetatable({ b = b }, { __gc = function(its)
          local ok, err = pcall(its.b.close, its.b)
          if not ok then errors[#errors + 1] = err end
        end })
        o.x = i
        coroutine.yield(closer)
      end)()
      collectgarbage()
    end
    assert.same({}, errors)
    assert.equal("x 19>20", heard[#heard])
  end)

  it("may be ended by another coroutine", function()
    local b
    coroutine.wrap(function()
      b = mw.batch()
      o.x = 1
    end)()
    o.x = 2 -- the coroutine has ended, and owns no more
    assert.same({ "x 1>2" }, heard)
    b:close()
    assert.same({ "x 1>2", "x 0>2" }, heard)
  end)

  it("may be ended by a guard, and while a class is asked", function()
    local b
    local class = { __index = function()
      if b then b:close() end
    end, __newindex = function() end }
    local other = setmetatable({}, class)
    mw.watch(other, function() end, { once = false, phase = "after" })
    b = mw.batch()
    o.x = 1
    other.x = 1
    b = nil
    assert.same({ "x 0>1" }, heard)
    o.x = 2
    assert.equal(2, #heard)
  end)

  it("gives its inner ones to the batch around when it ends first", function()
    for _, order in ipairs { "abc", "acb", "bac", "bca", "cab", "cba" } do
      local batches = { a = mw.batch() }
      o.x = 0
      heard = {}
      coroutine.wrap(function()
        batches.b = mw.batch()
        o.x = 1
        coroutine.wrap(function()
          batches.c = mw.batch()
          o.x = 2
        end)()
      end)()
      assert.same({}, heard)
      for name in order:gmatch "." do batches[name]:close() end
      assert.equal(1, #heard, order)
      o.x = 3
      assert.equal(2, #heard, order)
    end
  end)

  it("may stand beside a transaction, and either may end first", function()
    for _, first in ipairs { "batch", "transaction" } do
      o.x = 0
      heard = {}
      local run = coroutine.wrap(function()
        local tx, b = mw.begin(), mw.batch()
        o.x = 1
        coroutine.yield()
        local close, commit = b.close, tx.commit
        if first == "batch" then close(b) else commit(tx) end
        coroutine.yield()
        o.x = 2
        if first == "batch" then commit(tx) else close(b) end
        return true
      end)
      run()
      run()
      o.x = o.x -- of the main coroutine, and told at once
      assert.equal(first == "batch" and 2 or 1, #heard)
      assert.is_true(run())
      assert.equal(first == "batch" and 3 or 2, #heard)
    end
  end)

  it("may be lost with its coroutine and a transaction", function()
    for _ = 1, 20 do
      o.x = 0
      heard = {}
      coroutine.wrap(function()
        local tx <close> = mw.begin()
        local b <close> = mw.batch()
        o.x = 1
        coroutine.yield(tx, b)
      end)()
      collectgarbage()
      collectgarbage()
      mw.reap()
      assert.equal(0, o.x)
      o.x = 2
      assert.equal("x 0>2", heard[#heard])
    end
  end)

  it("raises for what is no batch", function()
    local b <close> = mw.batch()
    assert.equal("calling 'close' on bad self (batch expected, got no value)",
      error_of(b.close))
    assert.is_false(getmetatable(b))
  end)
end)

local mw = require "moonwatch"
local support = require "support"
local error_of = require "spec.support.error_of"
local hear = require "spec.support.hear"

local ONCE = { once = true }

local STAY = { once = false }

describe("a watched userdata", function()
  local class, contents

  before_each(function()
    contents = setmetatable({}, { __mode = "k" })
    class = {
      __index = function(self, key) return contents[self][key] end,
      __newindex = function(self, key, value)
        if key == "forbidden" then error("forbidden", 0) end
        contents[self][key] = value
      end,
    }
  end)

  local function new()
    local object = support.userdata(class)
    contents[object] = { a = 1 }
    return object
  end

  it("may share its metatable with a watched table", function()
    local object, t, heard = new(), setmetatable({}, class), {}
    contents[t] = {}
    local function note(_, key, old, value)
      heard[#heard + 1] = ("%s %s>%s"):format(key, old, value)
    end
    mw.watch(object, note, STAY)
    mw.watch(t, note, STAY)
    t.x = 1
    object.x = 2
    assert.same({ "x nil>1", "x nil>2" }, heard)
    assert.equal(1, t.x)
    assert.equal(2, object.x)
    mw.unwatch(t)
    mw.unwatch(object)
    t.x, object.x = 3, 4
    assert.equal(2, #heard)
  end)

  it("tells of writes, before they are stored", function()
    local object, seen = new(), {}
    mw.watch(object, function(o, key, old, new_value, kind)
      assert.equal(object, o)
      seen[#seen + 1] = { key, old, new_value, kind, o[key] }
    end, STAY)
    object.a = 2
    object.b = 3
    object.a = nil
    assert.same({ { "a", 1, 2, "update", 1 }, { "b", nil, 3, "insert" },
      { "a", 2, nil, "delete", 2 } }, seen)
    assert.same({ b = 3 }, contents[object])
    assert.equal(3, mw.mutations(object))
    assert.equal(class, getmetatable(object))
  end)

  it("has guards of all kinds, once, by key, after", function()
    local object, valid, n = new(), mw.guard(), 0
    local weak = { invalidate = function() n = n + 1 end }
    mw.watch(object, valid, { key = "a", once = true })
    mw.watch(object, weak, ONCE)
    mw.watch(object, function(o) n = n + o.b end,
      { phase = "after", once = true })
    object.b = 10
    object.b = 20
    assert.equal(11, n)
    assert.is_true(valid.valid)
    object.a = 1
    assert.is_false(valid.valid)
  end)

  it("tells afterwards which value the store replaced", function()
    local object, seen = new(), {}
    mw.watch(object, function(o) contents[o].a = "meanwhile" end, STAY)
    mw.watch(object, function(o, key, old, new_value)
      seen[#seen + 1] = { key, old, new_value, o[key] }
    end, { phase = "after", once = false })
    object.a = 2
    object.b = 3
    assert.same({ { "a", "meanwhile", 2, 2 }, { "b", nil, 3, 3 } }, seen)
  end)

  it("leaves the others of its class alone", function()
    local object, other, n = new(), new(), 0
    mw.watch(object, function() n = n + 1 end, STAY)
    other.a = 5
    assert.equal(0, n)
    assert.equal(5, other.a)
    assert.equal(0, mw.mutations(other))
    assert.is_false(mw.is_watched(other))
  end)

  it("counts writes that fail", function()
    local object = new()
    mw.watch(object, function() end, STAY)
    assert.equal("forbidden", error_of(function() object.forbidden = 1 end))
    assert.equal(1, mw.mutations(object))
  end)

  it("raises a guard's error after the write", function()
    local object = new()
    mw.watch(object, function() error "boom" end, ONCE)
    assert.matches("boom", error_of(function() object.a = 2 end))
    assert.equal(2, object.a)
  end)

  it("takes part in batches", function()
    local object, seen = new(), {}
    mw.watch(object, function(_, ...) seen[#seen + 1] = { ... } end, ONCE)
    mw.batch(function()
      object.a = 2
      object.a = 3
    end)
    assert.same({ { "a", 1, 3, "update" } }, seen)
  end)

  it("can be touched", function()
    local object, seen = new(), nil
    mw.watch(object, function(_, ...) seen = { ... } end, ONCE)
    mw.touch(object, "a")
    assert.same({ "a", 1, 1, "touch" }, seen)
    assert.is_false(mw.sync(object))
  end)

  it("gives its class back with the last unwatch", function()
    local original = class.__newindex
    local a, b, n = new(), new(), 0
    local function guard() n = n + 1 end
    mw.watch(a, guard, STAY)
    mw.watch(a, guard, STAY)
    mw.watch(b, guard, STAY)
    mw.unwatch(a)
    a.a = 1
    assert.equal(0, n)
    b.a = 1
    assert.equal(1, n)
    assert.are_not.equal(original, class.__newindex)
    mw.unwatch(b)
    mw.unwatch(b)
    assert.equal(original, class.__newindex)
    b.a = 2
    assert.equal(1, n)
    mw.watch(b, guard, ONCE)
    b.a = 3
    assert.equal(2, n)
  end)

  it("may have a table for __newindex, or none", function()
    local store = {}
    class = { __newindex = store, __index = store }
    local object, n = support.userdata(class), 0
    mw.watch(object, function() n = n + 1 end, ONCE)
    object.x = 1
    assert.equal(1, store.x)
    assert.equal(1, n)
    object = support.userdata {}
    mw.watch(object, function() n = n + 1 end, ONCE)
    assert.matches("attempt to index", error_of(function() object.x = 1 end))
    mw.unwatch(object)
  end)

  it("keeps nothing alive, nor is kept", function()
    local weak = setmetatable({}, { __mode = "k" })
    do
      local object = new()
      local function guard() return object end
      mw.watch(object, guard, STAY)
      weak[object], weak[guard] = true, true
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(weak))
  end)

  it("must have a metatable", function()
    assert.equal("bad argument #1 to 'watch' (userdata with a metatable " ..
      "expected, got userdata)",
      error_of(mw.watch, support.userdata(nil), print))
  end)

  it("tells of the methods that the policy names as mutators", function()
    local methods = { push = function(self, value)
      local list = contents[self]
      list[#list + 1] = value
      return #list
    end }
    class.__index, class.__newindex = methods, nil
    class.__name = "List"
    local plain = methods.push
    local former = mw.policy({
      classes = { [methods] = { mutators = { "push" } } },
    }):use()
    local list, notes = new(), {}
    mw.watch(list, function(o, key, _, _, kind)
      notes[#notes + 1] = ("%s %s %d"):format(kind, key, #contents[o])
    end, STAY)
    assert.equal(1, list:push "x")
    assert.equal(2, list:push "y")
    assert.same({ "call push 0", "call push 1" }, notes)
    assert.equal(2, mw.mutations(list))
    mw.batch(function()
      list:push "z"
      assert.equal(2, #notes)
    end)
    assert.same({ "call push 3" }, { notes[3] })
    new():push "not watched"
    assert.equal(3, #notes)
    mw.unwatch(list)
    assert.equal(plain, methods.push)
    former:use()
  end)
end)

describe("a userdata whose class yields before it stores", function()
  local yield, wrap = coroutine.yield, coroutine.wrap
  local contents, class

  before_each(function()
    contents = setmetatable({}, { __mode = "k" })
    class = {
      __index = function(self, key) return contents[self][key] end,
      __newindex = function(self, key, value)
        value = value + (yield "first" or 0)
        value = value + (yield "second" or 0)
        if value < 0 then error("negative", 0) end
        contents[self][key] = value
      end,
    }
  end)

  local function new(fields)
    local object = support.userdata(class)
    contents[object] = fields or { a = 1 }
    return object
  end

  local function writing(object, key, value)
    return wrap(function()
      object[key] = value
      return "done"
    end)
  end

  it("yields as well where nobody watches it, or what it writes", function()
    local watched, other = new(), new()
    hear(watched)
    local write = writing(other, "a", 2)
    write()
    write()
    assert.equal("done", write())
    assert.equal(2, other.a)
    local former = mw.policy({
      classes = { [class] = { ignore = { "_cache" } } },
    }):use()
    write = writing(watched, "_cache", 3)
    write()
    write()
    assert.equal("done", write())
    assert.same({ 3, 0 }, { contents[watched]._cache, mw.mutations(watched) })
    former:use()
  end)

  it("may be refused before it is asked", function()
    local object = new()
    mw.watch(object, function() error("no", 0) end, { phase = "check" })
    assert.equal("no", error_of(writing(object, "a", 2)))
    assert.equal(1, object.a)
  end)

  it("has a method that yields as well, and is a mutator", function()
    local methods = { push = function(self, value)
      local list = contents[self]
      list[#list + 1] = yield(value)
      if yield "again" then error("full", 0) end
      return #list
    end }
    class.__index, class.__newindex = methods, nil
    local former = mw.policy({
      classes = { [methods] = { mutators = { "push" } } },
    }):use()
    local list, notes = new {}, {}
    for _, phase in ipairs { "before", "after" } do
      mw.watch(list, function(o, key, _, _, kind)
        notes[#notes + 1] = ("%s %s %s %d"):format(phase, kind, key,
          #contents[o])
      end, { once = false, phase = phase })
    end
    local memo = mw.memo(function() return #contents[list] end, list)
    local push = wrap(function() return list:push "x" end)
    assert.equal("x", push())
    assert.equal(0, memo())
    assert.equal("again", push "y")
    assert.same({ "before call push 0" }, notes)
    assert.equal(1, push())
    assert.same({ "before call push 0", "after call push 1" }, notes)
    assert.same({ "y" }, contents[list])
    assert.equal(1, memo())
    push = wrap(function() list:push "x" end)
    push()
    push "z"
    assert.equal("full", error_of(push, true))
    push = coroutine.create(function() list:push "x" end)
    coroutine.resume(push)
    assert.is_true(coroutine.close(push))
    push = wrap(function()
      mw.batch(function() list:push "x" end)
      return "done"
    end)
    push()
    push "u"
    local n = #notes
    assert.equal("done", push())
    assert.same({ "before call push 3", "after call push 3" },
      { notes[n + 1], notes[n + 2] })
    mw.unwatch(list)
    former:use()
  end)
end)

describe("a watched userdata whose class changes", function()
  local fields, class

  local function setter(prefix)
    return function(self, key, value) fields[self][key] = prefix .. value end
  end

  before_each(function()
    fields = setmetatable({}, { __mode = "k" })
    class = {
      __index = function(self, key) return fields[self][key] end,
      __newindex = setter "old ",
    }
  end)

  local function new(heard)
    local object = support.userdata(class)
    fields[object] = {}
    local handle = mw.watch(object, function(_, key, _, _, kind)
      heard[#heard + 1] = kind .. " " .. tostring(key)
    end, STAY)
    return object, handle
  end

  it("hears all if mw.refresh is told", function()
    local heard, others = {}, {}
    local object, other = new(heard), new(others)
    class.__newindex = setter "new "
    assert.equal(2, mw.refresh(class))
    object.x, other.x = "a", "b"
    mw.sync(object)
    mw.sync(other)
    assert.same({ "insert x" }, heard)
    assert.same({ "insert x" }, others)
    assert.equal(0, mw.refresh {})
  end)

  it("may be named by its table of methods", function()
    local methods = {}
    class.__index = methods
    local heard = {}
    local object = support.userdata(class)
    fields[object] = {}
    mw.watch(object, function(_, key) heard[#heard + 1] = key end, STAY)
    class.__newindex = setter "new "
    assert.equal(1, mw.refresh(methods))
    object.x = "a"
    assert.same({ "x" }, heard)
  end)

  it("gives the class what it has by then", function()
    local newer = setter "new "
    local object = new {}
    class.__newindex = newer
    mw.unwatch(object)
    assert.equal(newer, class.__newindex)
    object.x = "a"
    assert.equal("new a", object.x)
    object = new {}
    class.__newindex = nil
    mw.unwatch(object)
    assert.is_nil(class.__newindex)
  end)

  it("hears once of a write by a function that calls the former one", function()
    local heard = {}
    local object = new(heard)
    local former = class.__newindex
    class.__newindex = function(self, key, value)
      former(self, key, "wrapped " .. value)
    end
    object.x = "a"
    assert.same({}, heard) -- mw.refresh says that the class is another
    assert.equal("old wrapped a", object.x)
    mw.refresh(class)
    object.x = "b"
    assert.same({ "update x" }, heard)
    assert.equal("old wrapped b", object.x)
    mw.unwatch(object)
    object.x = "c"
    assert.equal("old wrapped c", object.x)
    assert.equal(1, #heard)
  end)

  it("may get its first __newindex later", function()
    class.__newindex = nil
    local heard = {}
    local object = new(heard)
    assert.matches("attempt to index", error_of(function() object.x = "a" end))
    class.__newindex = setter "new "
    assert.equal(1, mw.refresh(class))
    object.x = "a"
    assert.same({ "insert x" }, heard)
    local newer = setter "newer "
    class.__newindex = newer
    mw.unwatch(object)
    assert.equal(newer, class.__newindex)
  end)

  for _, call in ipairs { "unwatch", "untrack", "touch", "sync", "mutations",
    "is_watched", "plain", "last_change" } do
    it("does no harm without a metatable: mw." .. call, function()
      local object = new {}
      mw.track(object)
      local tx <close> = mw.begin()
      object.x = "a"
      debug.setmetatable(object, nil)
      assert.is_true((pcall(mw[call], object)))
      pcall(tx.rollback, tx)
      mw.untrack(object)
      mw.unwatch(object)
      assert.is_false(mw.is_watched(object))
      collectgarbage()
    end)
  end

end)

describe("the entry of a write to a userdata", function()
  local contents, class, nils

  before_each(function()
    contents, nils = setmetatable({}, { __mode = "k" }), 0
    class = {
      __index = function(self, key)
        if key == "unreadable" then error("unreadable", 0) end
        return contents[self][key]
      end,
      __newindex = function(self, key, value)
        local its = contents[self]
        if value == nil then nils = nils + 1 end
        if key == "doubled" then
          value = value * 2
        elseif key == "fixed" then
          return
        elseif key == "whole" then
          value = value or "default"
        elseif key == "late" then
          its[key] = value
          error("late", 0)
        elseif key == "refused" then
          error("refused", 0)
        end
        its[key] = value
      end,
    }
  end)

  local function new(fields)
    local object = support.userdata(class)
    contents[object] = fields or {}
    return object
  end

  local function entries(fx)
    local texts = {}
    for e in fx:entries() do
      texts[#texts + 1] = ("%s %s:%s>%s"):format(e.kind, e.key, e.old, e.new)
    end
    return texts
  end

  for _, how in ipairs { "watch", "track" } do
    it("has the value that the class has stored: " .. how, function()
      local object, seen = new { fixed = 1 }, nil
      if how == "watch" then
        mw.watch(object, function(_, _, _, value) seen = value end,
          { once = false, phase = "after" })
      else
        mw.track(object)
      end
      local ok, fx = mw.transaction(function()
        object.doubled = 2
        assert.is_true(how == "track" or seen == 2)
        object.fixed = 5
        object.fixed = 1
        object.whole = nil
        assert.equal("refused", error_of(function() object.refused = 1 end))
        assert.equal("late", error_of(function() object.late = 1 end))
        object.whole = "x"
        object.whole = nil
      end)
      assert.is_true(ok)
      assert.same({ "insert doubled:nil>4", "update fixed:1>1",
        "insert whole:nil>default", "insert late:nil>1",
        "update whole:default>x", "update whole:x>default" }, entries(fx))
    end)
  end

  it("lets an insert be undone without nil where nothing is to do", function()
    local object = mw.track(new())
    local function failing(key)
      return mw.transaction(function()
        object[key] = 1
        contents[object][key] = nil
        error("boom", 0)
      end)
    end
    assert.same({ false, "boom" }, { failing "gone" })
    assert.equal(0, nils)
    assert.is_false(mw.transaction(function() object.x = 1; error "boom" end))
    assert.equal(1, nils)
    assert.is_nil(object.x)
  end)

  it("is not undone with nil if the field cannot be read", function()
    local object, other = mw.track(new()), mw.track { x = 1 }
    local tx = mw.begin()
    other.x = 2
    object.unreadable = 1
    assert.matches("former value of field 'unreadable' is not known",
      error_of(tx.rollback, tx))
    assert.equal(0, nils)
    assert.equal(1, other.x)
    local plain = mw.track(support.userdata { __newindex = function(_, _, v)
      if v == nil then nils = nils + 1 end
    end })
    tx = mw.begin()
    plain.x = 1
    assert.matches("former value of field 'x'", error_of(tx.rollback, tx))
    assert.equal(0, nils)
  end)

  it("keeps the value of an insert whose class refuses nil", function()
    local object, other = mw.track(new()), mw.track { x = 1 }
    local tx = mw.begin()
    other.x = 2
    object.doubled = 2
    other.x = 3
    assert.matches("arithmetic", error_of(tx.rollback, tx))
    assert.equal(4, object.doubled)
    assert.equal(1, other.x)
  end)

  it("is made for an undoing within a transaction as well", function()
    local object = mw.track(new { x = 1 })
    local _, fx = mw.transaction(function() object.x = 2 end)
    assert.is_false(mw.transaction(function()
      fx:rollback()
      assert.equal(1, object.x)
      error "boom"
    end))
    assert.equal(2, object.x)
  end)

  it("leaves what others wrote meanwhile", function()
    local object = mw.track(new { x = 0, fixed = 0 })
    local other = coroutine.wrap(function()
      local tx = mw.begin()
      object.x = 1
      object.fixed = 1
      contents[object].fixed = 7
      coroutine.yield()
      tx:rollback()
    end)
    other()
    object.x = 5
    object.fixed = 6 -- keeps nothing
    other()
    assert.equal(5, object.x)
  end)
end)

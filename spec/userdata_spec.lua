local mw = require "moonwatch"
local support = require "support"
local error_of = require "spec.support.error_of"

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
    mw.watch(object, valid, { key = "a" })
    mw.watch(object, weak)
    mw.watch(object, function(o) n = n + o.b end, { phase = "after" })
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
    mw.watch(object, function() error "boom" end)
    assert.matches("boom", error_of(function() object.a = 2 end))
    assert.equal(2, object.a)
  end)

  it("takes part in batches", function()
    local object, seen = new(), {}
    mw.watch(object, function(_, ...) seen[#seen + 1] = { ... } end)
    mw.batch(function()
      object.a = 2
      object.a = 3
    end)
    assert.same({ { "a", 1, 3, "update" } }, seen)
  end)

  it("can be touched, and is its own raw self", function()
    local object, seen = new(), nil
    mw.watch(object, function(_, ...) seen = { ... } end)
    mw.touch(object, "a")
    assert.same({ "a", 1, 1, "touch" }, seen)
    assert.equal(object, mw.raw(object))
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
    mw.watch(b, guard)
    b.a = 3
    assert.equal(2, n)
  end)

  it("may have a table for __newindex, or none", function()
    local store = {}
    class = { __newindex = store, __index = store }
    local object, n = support.userdata(class), 0
    mw.watch(object, function() n = n + 1 end)
    object.x = 1
    assert.equal(1, store.x)
    assert.equal(1, n)
    object = support.userdata {}
    mw.watch(object, function() n = n + 1 end)
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

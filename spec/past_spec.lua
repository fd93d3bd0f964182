local mw = require "moonwatch"
local worlds = require "spec.support.worlds"

-- Returns the number of the last entry.
local function last(recorder)
  local seq
  for e in recorder:entries() do seq = e.seq end
  return seq
end

describe("recorder:past", function()
  it("returns what an object held after an entry", function()
    local t = mw.track { a = 1, b = 2, 10, 20 }
    local r <close> = mw.recorder()
    t.a = 5
    local first = last(r)
    t.b = nil
    t.c = false
    table.insert(t, 1, 5)
    table.sort(t, function(x, y) return x > y end)
    rawset(t, "raw", 1)
    mw.sync(t)
    assert.same({ a = 1, b = 2, 10, 20 }, r:past(t, first - 1))
    assert.same({ a = 5, b = 2, 10, 20 }, r:past(t, first))
    assert.same({ a = 5, 10, 20 }, r:past(t, first + 1))
    assert.same({ a = 5, c = false, 10, 20 }, r:past(t, first + 2))
    assert.same({ a = 5, c = false, 5, 10, 20 }, r:past(t, first + 5))
    assert.same({ a = 5, c = false, raw = 1, 20, 10, 5 }, r:past(t, last(r)))
    assert.is_nil(getmetatable(r:past(t, first)))
  end)

  it("returns nil and why for what is not kept, or not yet there", function()
    local t = mw.track {}
    local r <close> = mw.recorder { capacity = 2 }
    for i = 1, 5 do t.x = i end
    local seq = last(r)
    assert.same({ x = 5 }, r:past(t, seq))
    assert.same({ x = 3 }, r:past(t, seq - 2))
    assert.same({ nil, ("the entries after %d are not kept"):format(seq - 3) },
      { r:past(t, seq - 3) })
    assert.same({ nil, "the entries after -1 are not kept" },
      { r:past(t, -1) })
    assert.same({ nil, ("there is no entry %d yet"):format(seq + 1) },
      { r:past(t, seq + 1) })
    r:stop()
    assert.same({ nil, "the recorder has stopped" }, { r:past(t, seq) })
  end)

  it("returns all below, with the sharing and the circles of then", function()
    local root = mw.track({ list = { { hp = 1 }, { hp = 2 } } },
      { deep = true })
    root.up, root.first = root, root.list[1]
    local r <close> = mw.recorder()
    local removed = root.list[2]
    removed.hp = 5
    local seq = last(r)
    table.remove(root.list, 2)
    removed.hp = 7
    root.list[1].hp = 9
    root.list = { "another" }
    local past = r:past(root, seq, { deep = true })
    assert.same({ { hp = 1 }, { hp = 5 } }, past.list)
    assert.equal(past, past.up)
    assert.equal(past.first, past.list[1])
    assert.not_equal(root.first, past.first)
    assert.is_false(mw.is_watched(past.list))
    local flat = r:past(root, seq)
    assert.equal(root.first, flat.first)
  end)

  it("does not enter classes, nor what the policy leaves out", function()
    local Class = { name = "Class" }
    Class.__index = Class
    local child = setmetatable({ x = 1 }, Class)
    local root = mw.track({ child = child, class = Class }, { deep = true })
    local r <close> = mw.recorder()
    child.x = 2
    local past = r:past(root, last(r), { deep = true })
    assert.not_equal(child, past.child)
    assert.equal(Class, past.class)
    local original = mw.policy({ descend = function(_, key)
      return key ~= "child"
    end }):use()
    past = r:past(root, last(r), { deep = true })
    original:use()
    assert.equal(child, past.child)
  end)

  it("does not have what open transactions wrote", function()
    local t = mw.track({ a = 1, list = { 1 } }, { deep = true })
    local r <close> = mw.recorder()
    t.a = 2
    local seq = last(r)
    local tx <close> = mw.begin()
    t.a, t.b, t.list[1], t.list[2] = 3, 3, 3, 3
    t.list = { 4 }
    assert.same({ a = 2, list = { 1 } }, r:past(t, seq, { deep = true }))
    tx:rollback()
    assert.same({ a = 2, list = { 1 } }, r:past(t, seq, { deep = true }))
  end)

  it("has keys of all types", function()
    local key, long = {}, ("long"):rep(30)
    local t = mw.track { [key] = 1, [long] = 1, [1.5] = 1, [true] = 1 }
    local r <close> = mw.recorder()
    t.x = 1
    local seq = last(r)
    t[key], t[long], t[1.5], t[true], t[1 << 60] = 2, 2, nil, 2, 2
    assert.same({ x = 1, [key] = 1, [long] = 1, [1.5] = 1, [true] = 1 },
      r:past(t, seq))
  end)

  it("takes any table", function()
    local r <close> = mw.recorder()
    local t = mw.track {}
    t.x = 1
    local plain = { a = { b = 1 } }
    local past = r:past(plain, last(r), { deep = true })
    assert.same(plain, past)
    assert.not_equal(plain, past)
    local nested = {}
    for _ = 1, 10000 do nested = { nested } end
    assert.is_table(r:past(nested, last(r), { deep = true }))
  end)

  it("equals a copy that was taken then", function()
    worlds.each(20, function(random, message)
      local tables = worlds.new(random)
      mw.track(tables[1], { deep = true })
      for _, t in ipairs(tables) do mw.track(t) end -- also what is taken out
      local r <close> = mw.recorder()
      local copies, run = {}, coroutine.wrap(function()
        while true do
          pcall(mw.transaction, worlds.run, random, tables, 5, true)
          pcall(worlds.run, random, tables, 3, true)
          coroutine.yield()
        end
      end)
      for _ = 1, 20 do
        run()
        local seq = last(r)
        if seq then copies[seq] = worlds.copy(tables[1]) end
      end
      for seq, copy in pairs(copies) do
        assert.same(copy, r:past(tables[1], seq, { deep = true }), message)
      end
      for _, t in ipairs(tables) do mw.untrack(t) end
    end)
  end)
end)

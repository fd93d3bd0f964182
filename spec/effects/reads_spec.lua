local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"

-- What was read, as text; `names` are the names of objects.
local function show(fx, names)
  local list = {}
  for _, read in ipairs(fx:reads()) do
    list[#list + 1] = names[read.object] .. "." .. tostring(read.key)
  end
  return table.concat(list, " ")
end

describe("a transaction that knows what is read", function()
  local a, b, names

  before_each(function()
    a = mw.track(setmetatable({ x = 1 }, { __index = { inherited = 2 } }))
    b = mw.track { 1, 2, 3 }
    names = { [a] = "a", [b] = "b" }
  end)

  it("names each field once, in order", function()
    local tx = mw.begin { reads = true }
    assert.same({ 1, 2, nil, 3 }, { a.x, a.inherited, a.none, b[3] })
    assert.equal(1, a.x)
    a.y = 1
    assert.equal("a.x a.inherited a.none b.3", show(tx:commit(), names))
  end)

  it("takes walks and lengths for all of an object", function()
    local tx = mw.begin { reads = true }
    for _ in pairs(a) do names.n = 1 end
    assert.equal(3, #b)
    assert.equal("a.nil b.nil", show(tx:commit(), names))
  end)

  it("gives the objects back as they were", function()
    local class = getmetatable(a)
    local tx <close> = mw.begin { reads = true }
    local inner = mw.begin { reads = true }
    assert.equal(1, a.x)
    inner:commit()
    assert.equal(2, b[2])
    assert.equal("a.x b.2", show(tx:commit(), names))
    assert.equal(class, getmetatable(a))
    mw.untrack(a)
    assert.equal(class, debug.getmetatable(a))
    assert.equal(1, rawget(a, "x"))
  end)

  it("hears of what is tracked when it begins, also in another one", function()
    local outer <close> = mw.begin { reads = true }
    local late = mw.track { n = 1 }
    names[late] = "late"
    local inner = mw.begin { reads = true }
    assert.equal(1, late.n)
    assert.equal("late.n", show(inner:commit(), names))
    assert.equal("late.n", show(outer:commit(), names))
    mw.untrack(late)
    assert.is_nil(debug.getmetatable(late))
  end)

  it("shows conflicts of what one has read and another written", function()
    local tx = mw.begin { reads = true }
    a.z = a.x + 1
    local mine = tx:commit()
    local _, theirs = mw.transaction(function() a.x, b[1] = 5, 5 end)
    local conflicts = mine:conflicts(theirs)
    assert.equal(1, #conflicts)
    assert.equal("read", conflicts[1].kind)
    assert.equal(a, conflicts[1].object)
    assert.equal("x", conflicts[1].key)
    assert.equal(5, conflicts[1].entry.new)
    assert.same({}, theirs:conflicts(theirs))
  end)

  it("is the only one that knows", function()
    local _, fx = mw.transaction(function() a.y = a.x end)
    assert.is_nil(fx:reads())
  end)

  it("goes on when the class of an object changes", function()
    local classes = {
      { __name = "a" }, { __index = { inherited = 3 } },
      { __index = function() return 4 end },
      { __len = function() return 9 end },
      { __pairs = function(t) return next, raw_of(t) end },
      { __newindex = function(t, k, v) rawset(t, k, v) end },
    }
    local tx = mw.begin { reads = true }
    local expected = {}
    for i, class in ipairs(classes) do
      mw.setmetatable(a, class)
      assert.equal(1, a.x)
      local _ = a["key " .. i]
      expected[#expected + 1] = i == 1 and "a.x a.key 1" or "a.key " .. i
    end
    mw.setmetatable(a, nil)
    assert.is_nil(a.last)
    assert.equal(3, #b)
    mw.setmetatable(b, classes[4])
    assert.equal(9, #b)
    assert.equal(table.concat(expected, " ") .. " a.last b.nil",
      show(tx:commit(), names))
  end)

  it("hears of objects again that were read much meanwhile", function()
    for round = 1, 3 do
      local tx = mw.begin { reads = true }
      assert.equal(1, a.x)
      assert.equal("a.x", show(tx:commit(), names))
      for _ = 1, 100 * round do assert.same({ 1, 2 }, { a.x, a.inherited }) end
      for _ = 1, 100 do for i = 1, 3 do assert.equal(i, b[i]) end end
    end
    local tx = mw.begin { reads = true }
    assert.same({ 2, 2, 3 }, { a.inherited, b[2], #b })
    assert.equal("a.inherited b.2 b.nil", show(tx:commit(), names))
  end)

  it("hears of lists that begin empty, and of metatables", function()
    local list, meta = mw.track {}, mw.track(setmetatable({ __index = {} },
      { __index = { x = 1 } }))
    names[list], names[meta] = "list", "meta"
    for _ = 1, 2 do
      local tx = mw.begin { reads = true }
      list[#list + 1] = 1
      assert.equal(1, meta.x)
      assert.equal(1, #list)
      assert.equal("list.nil meta.x", show(tx:commit(), names))
      list[1] = nil
    end
  end)

  it("reads in coroutines, also where a class has a function for reads",
    function()
      local object = mw.track(setmetatable({}, { __index = function(_, key)
        return key .. "!"
      end }))
      names[object] = "object"
      local tx = mw.begin { reads = true }
      local co = coroutine.wrap(function()
        coroutine.yield(object.x)
        return object.y
      end)
      assert.equal("x!", co())
      assert.equal("y!", co())
      assert.equal("object.x object.y", show(tx:commit(), names))
    end)

  it("does not keep what was read", function()
    local held = setmetatable({}, { __mode = "v" })
    local tx = mw.begin { reads = true }
    local object = mw.track { x = 1 }
    held[1] = object
    local fx = tx:commit()
    tx = mw.begin { reads = true }
    assert.equal(1, object.x)
    fx = fx:concat(tx:commit())
    object = nil -- luacheck: ignore 311
    collectgarbage()
    collectgarbage()
    assert.is_nil(held[1])
    assert.equal(0, fx:len())
  end)
end)

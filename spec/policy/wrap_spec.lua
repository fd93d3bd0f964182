local mw = require "moonwatch"
local contents = require "spec.support.contents"
local styles = require "spec.support.styles"

local ORDERS = { ["base first"] = { 1, 2 }, ["subclass first"] = { 2, 1 } }

for name, style in pairs(styles) do
  describe("a mutator of a class in the style " .. name, function()
    local Base, Sub, former, calls

    before_each(function()
      calls = 0
      Base = style.make("Base")
      function Base.move() calls = calls + 1 end
      Sub = style.make("Sub", Base)
      former = mw.policy({ classes = {
        [Base] = { mutators = { "move" } },
        [Sub] = { mutators = { "move" } },
      } }):use()
    end)

    after_each(function() former:use() end)

    -- Watches new objects of the classes in some order.  Returns them, and for
    -- each how often its guard is called.
    local function watch(order, classes)
      local objects, told = {}, {}
      for _, i in ipairs(order) do
        objects[i] = style.construct(classes[i])
        told[i] = 0
        mw.watch(objects[i], function() told[i] = told[i] + 1 end,
          { once = false })
      end
      return objects, told
    end

    for watching, order in pairs(ORDERS) do
      it("that is inherited is told of once, " .. watching, function()
        local objects, told = watch(order, { Base, Sub })
        for _, obj in ipairs(objects) do obj:move() end
        assert.same({ 1, 1 }, told)
        assert.equal(2, calls)
        mw.unwatch(objects[1])
        objects[2]:move()
        assert.same({ 1, 2 }, told)
        mw.unwatch(objects[2])
      end)

      it("that is inherited twice is told of no more, " .. watching, function()
        local Leaf = style.make("Leaf", Sub)
        local objects, told = watch({ order[1], order[2], 3 },
          { Base, Sub, Leaf })
        objects[3]:move()
        assert.is_true(told[3] <= 1) -- its class does not name it
        for _, obj in ipairs(objects) do mw.unwatch(obj) end
      end)

      for unwatching, last in pairs(ORDERS) do
        it(("is given back exactly: watched %s, unwatched %s"):format(watching,
          unwatching), function()
          local before = { contents.of(Base), contents.of(Sub) }
          local objects = watch(order, { Base, Sub })
          for _, i in ipairs(last) do mw.unwatch(objects[i]) end
          contents.assert_unchanged(before[1], Base)
          contents.assert_unchanged(before[2], Sub)
          objects[2]:move()
          assert.equal(1, calls)
        end)
      end
    end

    it("is given back exactly, whenever deaths are seen to", function()
      local before = { contents.of(Base), contents.of(Sub) }
      for at = 1, 300 do
        local objects, n = watch({ 1, 2 }, { Base, Sub }), 0
        debug.sethook(function()
          n = n + 1
          if n == at then mw.reap() end
        end, "", 1)
        for _, object in ipairs(objects) do mw.unwatch(object) end
        debug.sethook()
        contents.assert_unchanged(before[1], Base)
        contents.assert_unchanged(before[2], Sub)
      end
    end)

    it("is told of once when its class is instrumented as well", function()
      local handles = { mw.instrument(Base, { constructors = { "move" } }),
        mw.instrument(Sub, { constructors = { "move" } }) }
      local objects, told = watch({ 1, 2 }, { Base, Sub })
      objects[2]:move()
      assert.same({ 0, 1 }, told)
      assert.is_true(mw.clock():is_current(objects[2]))
      mw.unwatch(objects[2])
      objects[1]:move()
      assert.same({ 1, 1 }, told)
      for _, handle in ipairs(handles) do handle:cancel() end
      mw.unwatch(objects[1])
    end)
  end)
end

describe("a mutator is given back when watched objects died:", function()
  local Class, plain, former

  before_each(function()
    Class = styles.plain.make("Mortal")
    function Class.hit() end
    plain = Class.hit
    former = mw.policy({
      classes = { Mortal = { mutators = { "hit" } } },
    }):use()
  end)

  after_each(function() former:use() end)

  local function watch(n)
    local objects = {}
    for i = 1, n do
      objects[i] = setmetatable({}, Class)
      mw.watch(objects[i], function() end)
    end
    return objects
  end

  local function bury()
    collectgarbage()
    collectgarbage()
    mw.reap()
  end

  it("all", function()
    watch(100)
    assert.not_equal(plain, Class.hit)
    bury()
    assert.equal(plain, Class.hit)
  end)

  it("all but one", function()
    local objects = watch(100)
    for i = 2, 100 do objects[i] = nil end
    bury()
    assert.not_equal(plain, Class.hit)
    mw.unwatch(objects[1])
    assert.equal(plain, Class.hit)
  end)

  it("all, and more came", function()
    watch(10)
    bury()
    local object = watch(1)[1]
    local told
    mw.watch(object, function(_, key) told = key end)
    object:hit()
    assert.equal("hit", told)
    mw.unwatch(object)
    assert.equal(plain, Class.hit)
  end)

  it("all, and any function is called often enough", function()
    watch(10)
    collectgarbage()
    collectgarbage()
    for _ = 1, 1e5 do
      if Class.hit == plain then break end
      mw.id(Class)
    end
    assert.equal(plain, Class.hit)
  end)

  it("all but those of another class since", function()
    local objects = watch(3)
    mw.setmetatable(objects[1], nil)
    mw.setmetatable(objects[2], styles.plain.make("Other"))
    objects[3] = nil
    bury()
    assert.equal(plain, Class.hit)
    mw.setmetatable(objects[1], Class)
    assert.not_equal(plain, Class.hit)
    objects[1] = nil
    bury()
    assert.equal(plain, Class.hit)
  end)

  it("all of a class, and another raises", function()
    local frozen = setmetatable({}, {
      __index = { hit = plain }, __newindex = function(t, key, value)
        if value == plain then error("frozen", 0) end
        rawset(t, key, value)
      end,
    })
    frozen.__index, frozen.__name = frozen, "Mortal"
    mw.watch(setmetatable({}, frozen), function() end)
    watch(1)
    bury()
    assert.equal(plain, Class.hit)
  end)
end)

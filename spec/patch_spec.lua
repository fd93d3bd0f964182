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

    -- Watches new objects of the classes in some order.  Answers them, and for
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

local mw = require "moonwatch"

describe("pending effects that are applied", function()
  it("are not applied again by their own saves", function()
    local fx = mw.effects()
    fx:save({ save = function() fx:apply() end })
    local result, message = fx:apply()
    assert.is_nil(result)
    assert.matches("calling 'apply' while it is under way", message)
  end)

  it("name an environment once", function()
    local fx, env = mw.effects(), { a = 1, b = 2 }
    fx:track_global(env, "a")
    fx:track_global(env, "b")
    fx:store_global("a", 2)
    fx:store_global("b", 3)
    assert.same({ env }, fx:modified())
  end)
end)

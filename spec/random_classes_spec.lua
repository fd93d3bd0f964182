local class_world = require "spec.support.class_world"
local worlds = require "spec.support.worlds"

local STEPS = 300

describe("a random program of objects of many classes", function()
  it(("does with watched ones what it does with plain ones (SEED=%d)")
    :format(worlds.seed), function()
      worlds.each(170, function(random, message)
        local steps = {}
        for i = 1, STEPS do steps[i] = random(1 << 40) end
        if not class_world.compare(steps) then return end
        steps = class_world.shrink(steps)
        local at, plain, real = class_world.compare(steps)
        local first = math.max(1, at - 40)
        error(("%s, %d steps:\n%s\nwatched: %s"):format(message, #steps,
          table.concat(plain, "\n", first, at), tostring(real[at])), 0)
      end)
    end)
end)

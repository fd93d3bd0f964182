local feed_world = require "spec.support.feed_world"
local worlds = require "spec.support.worlds"

local FEWEST, MOST = 20, 150

describe("a random program with feeds", function()
  it(("gives each of them what was delivered (SEED=%d)")
    :format(worlds.seed), function()
      worlds.each(300, function(random, message)
        local steps = {}
        for i = 1, random(FEWEST, MOST) do steps[i] = random(1 << 40) end
        if not feed_world.compare(steps) then return end
        steps = feed_world.shrink(steps)
        local wrong, lines = feed_world.compare(steps)
        lines = lines or {} -- it depends on what was collected
        error(("%s, %d steps:\n%s\n%s"):format(message, #steps,
          table.concat(lines, "\n", math.max(1, #lines - 60)), wrong), 0)
      end)
    end)
end)

local recorder_world = require "spec.support.recorder_world"
local worlds = require "spec.support.worlds"

local FEWEST, MOST = 20, 120

describe("a random program of transactions and recorders", function()
  it(("delivers what a plain list has (SEED=%d)")
    :format(worlds.seed), function()
      worlds.each(400, function(random, message)
        local steps = {}
        for i = 1, random(FEWEST, MOST) do steps[i] = random(1 << 40) end
        if not recorder_world.compare(steps) then return end
        steps = recorder_world.shrink(steps)
        local wrong, lines = recorder_world.compare(steps)
        lines = lines or {} -- it depends on what was collected
        error(("%s, %d steps:\n%s\n%s"):format(message, #steps,
          table.concat(lines, "\n", math.max(1, #lines - 60)), wrong), 0)
      end)
    end)
end)

local lost_world = require "spec.support.lost_world"
local worlds = require "spec.support.worlds"

local FEWEST, MOST, TOGETHER = 10, 80, 20

describe("a random program that loses coroutines and handles", function()
  it(("has the writes that were not taken back (SEED=%d)")
    :format(worlds.seed), function()
      local waiting = {}
      local function settle()
        local self = lost_world.settle(waiting)
        waiting = {}
        if not self then return end
        error(("%s, %d steps:\n%s\n%s"):format(self.message, #self.steps,
          table.concat(self.lines, "\n", math.max(1, #self.lines - 60)),
          self.wrong), 0)
      end
      lost_world.collecting(function()
        worlds.each(200, function(random, message)
          local steps = {}
          for i = 1, random(FEWEST, MOST) do steps[i] = random(1 << 40) end
          local world = lost_world.run(steps)
          world.message = message
          waiting[#waiting + 1] = world
          if #waiting == TOGETHER then settle() end
        end)
        settle()
      end)
    end)
end)

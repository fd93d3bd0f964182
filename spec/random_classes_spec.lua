local class_world = require "spec.support.class_world"
local worlds = require "spec.support.worlds"

-- The steps that are not taken yet, and what does not hold in them.
local on = {
  -- After a nil was given to a class's `__newindex`, old values are read by the
  -- class's `__index`, which makes fields that the program never read.
  lazy_newindex = false,
  -- A metamethod that was deleted while its table was below a deep watch is
  -- back when the table is let go.
  deleted_metamethod = false,
}
for _, name in ipairs { "raw", "raw_integers", "deep", "interleaved",
  "class_index", "class_newindex", "refresh", "watched_classes" } do
  on[name] = true
end

local STEPS = 300

describe("a random program of objects of many classes", function()
  it(("does with watched ones what it does with plain ones (SEED=%d)")
    :format(worlds.seed), function()
      worlds.each(170, function(random, message)
        local steps = {}
        for i = 1, STEPS do steps[i] = random(1 << 40) end
        if not class_world.compare(steps, on) then return end
        steps = class_world.shrink(steps, on)
        local at, plain, real = class_world.compare(steps, on)
        local first = math.max(1, at - 40)
        error(("%s, %d steps:\n%s\nwatched: %s"):format(message, #steps,
          table.concat(plain, "\n", first, at), tostring(real[at])), 0)
      end)
    end)
end)

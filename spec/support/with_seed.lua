-- Calls f() with a seed for math.random, which stands in the message when f
-- fails: SEED=... makes the same call again.  SOAK=n makes n calls, each with
-- another seed.

local chosen = tonumber(os.getenv "SEED")
local soak = tonumber(os.getenv "SOAK") or 1
local last = os.time() * 1000 + math.floor(os.clock() * 1000)

return function(f)
  for _ = 1, soak do
    last = last + 1
    local seed = chosen or last
    math.randomseed(seed)
    local ok, message = pcall(f)
    if not ok then error(("SEED=%d: %s"):format(seed, tostring(message)), 0) end
  end
end

-- How many KB of Lua's memory stay in use for each further call of `f(round)`
-- that does the same work: a leak shows in each round, the steps in which
-- tables grow do not.
--
-- Nothing is collected while f runs, so the collector's pace, which depends on
-- what other specs left, cannot matter.

local mw = require "moonwatch"

local WARM, ROUNDS = 3, 10

local function in_use()
  local before, now
  repeat -- finalisers, deaths and tables of strings take several collections
    before = now
    collectgarbage()
    mw.reap()
    now = collectgarbage "count"
  until before and now >= before
  return now
end

return function(f)
  local first
  for round = 1, WARM + ROUNDS do
    collectgarbage "stop"
    f(round)
    collectgarbage "restart"
    local now = in_use()
    if round == WARM then first = now end
    if round == WARM + ROUNDS then return (now - first) / ROUNDS end
  end
end

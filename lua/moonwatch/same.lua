--- Are two values the same, so that nobody can tell them apart?
-- SPDX-License-Identifier: MIT
--
-- Objects are by identity.  An integer is no float, and 0.0 is not -0.0; NaN is
-- the same as NaN.

local function same(a, b)
  if not rawequal(a, b) then return a ~= a and b ~= b end
  return math.type(a) == math.type(b) and (a ~= 0 or 1 / a == 1 / b)
end

return same

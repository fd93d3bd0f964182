--- Tells whether two values are the same, so that no program can tell them
-- apart.
-- SPDX-License-Identifier: MIT
--
-- Objects are the same by identity.  An integer is never the same as a float,
-- and 0.0 is not the same as -0.0; NaN is the same as NaN.

local function same(a, b)
  if not rawequal(a, b) then return a ~= a and b ~= b end
  return math.type(a) == math.type(b) and (a ~= 0 or 1 / a == 1 / b)
end

return same

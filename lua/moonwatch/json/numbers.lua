--- Numbers for the values of documents: equal values have the same number.
-- SPDX-License-Identifier: MIT
--
-- Scalars are numbered.  The number of a table is a sum into which its kind and
-- the names and numbers of its members are mixed, 64 bits of no pattern.  Those
-- of different tables might be the same, so numbers say what may be equal, and
-- the comparison says whether it is.
--
-- A table that is the same on both sides without a look at its contents has a
-- number of its own, as if it were a scalar.

local type, next = type, next

local Numbers = {}
Numbers.__index = Numbers

local A, B = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F -- odd and irregular
local KINDS = { array = A, object = B, either = A ~ B }

--- Returns the number of a value on a side, which is JSON.
function Numbers:of(side, value)
  local scalars, numbers = self.scalars, side.numbers
  local number = scalars[value] or numbers[value]
  if number then return number end
  if type(value) ~= "table" or self.is_same and self.is_same(value) then
    number = self.n + 1
    self.n, scalars[value] = number, number
    return number
  end
  local held, kind = side:open(value)
  local sum, is_array = KINDS[kind], kind == "array"
  for key, member in next, held do
    local name = is_array and key or scalars[key] or self:of(side, key)
    number = scalars[member] or numbers[member] or self:of(side, member)
    local mixed = name * A ~ number * B
    sum = sum + mixed * (mixed >> 32)
  end
  numbers[value] = sum
  return sum
end

--- Tells whether a value of the first document equals one of the second.
function Numbers:equal(x, y) return self:of(self.a, x) == self:of(self.b, y) end

--- Returns numbers for two documents with the sides `a` and `b`.  If
-- `is_same(t)` is true, a table has the same contents in both.
return function(a, b, is_same)
  return setmetatable({ a = a, b = b, n = 0, scalars = {}, is_same = is_same },
    Numbers)
end

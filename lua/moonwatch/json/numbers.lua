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
--
-- The walk needs no recursion, because documents may be deep.  The frame of a
-- depth is used again and again, because most tables are small:
--
--     table, held, is_array    the table, its contents, what it is
--     key, sum                 the last member that was mixed in, and the sum

local type, next = type, next

local Numbers = {}
Numbers.__index = Numbers

function Numbers:scalar(value)
  local number = self.scalars[value]
  if not number then
    number = self.n + 1
    self.n, self.scalars[value] = number, number
  end
  return number
end

local A, B = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F -- odd and irregular
local KINDS = { array = A, object = B, either = A ~ B }

local function open(frames, depth, side, t)
  local frame = frames[depth] or {}
  local held, kind = side:open(t)
  frames[depth] = frame
  frame.table, frame.held, frame.is_array = t, held, kind == "array"
  frame.key, frame.sum = nil, KINDS[kind]
  return frame
end

-- Mixes members in, up to a table that has no number.  Returns that table, or
-- nil at the end.
function Numbers:mix(side, frame)
  local scalars, numbers, last = self.scalars, side.numbers, frame.key
  local sum, is_array = frame.sum, frame.is_array
  for key, value in next, frame.held, last do
    local number = scalars[value] or numbers[value]
    if not number and type(value) == "table" and not self.is_same(value) then
      frame.key, frame.sum = last, sum
      return value
    end
    number = number or self:scalar(value)
    local name = is_array and key or scalars[key] or self:scalar(key)
    local mixed = name * A ~ number * B
    sum, last = sum + mixed * (mixed >> 32), key
  end
  frame.sum = sum
  return nil
end

-- Gives numbers to a table and to all below it.
function Numbers:walk(side, t)
  local frames, depth, numbers = {}, 1, side.numbers
  local frame = open(frames, depth, side, t)
  while depth > 0 do
    local below = self:mix(side, frame)
    if below then
      depth = depth + 1
      frame = open(frames, depth, side, below)
    else
      numbers[frame.table] = frame.sum
      depth = depth - 1
      frame = frames[depth]
    end
  end
  return numbers[t]
end

--- Returns the number of a value on a side, which is JSON.
function Numbers:of(side, value)
  local number = self.scalars[value] or side.numbers[value]
  if number then return number end
  if type(value) == "table" and not self.is_same(value) then
    return self:walk(side, value)
  end
  return self:scalar(value)
end

--- Tells whether a value of the first document equals one of the second.
function Numbers:equal(x, y) return self:of(self.a, x) == self:of(self.b, y) end

local function never() return false end

--- Returns numbers for two documents with the sides `a` and `b`.  If
-- `is_same(t)` is true, a table has the same contents in both.
return function(a, b, is_same)
  return setmetatable({ a = a, b = b, n = 0, scalars = {},
    is_same = is_same or never }, Numbers)
end

--- Which elements of one list become which elements of another.
-- SPDX-License-Identifier: MIT
--
-- Two elements are the more alike the more members they have in common; that
-- they are equal counts as one more.  Of all ways to go through both lists, the
-- one is taken on which the elements that meet are the most alike:
--
--     best(row, at) = the greatest of best(row - 1, at), best(row, at - 1), and
--       best(row - 1, at - 1) + likeness(row, at)
--
-- Few elements come or go, as a rule, so only the diagonals at - row near those
-- of the ends are looked at, and the work grows with the lists and not with
-- their product.  Where the first rows have next to nothing in common (a list
-- was sorted, say), no further ones are looked at.

local NEAR, MOST = 8, 1 << 20 -- diagonals beside; pairs that are looked at
local FIRST, LITTLE = 256, 16

local WHOLE = {} -- the key of an element itself

-- Returns the number of a scalar; of a table, its number and those of its
-- members, by key.
local function numbered(numbers, side, element)
  local number = numbers:of(side, element)
  if type(element) ~= "table" then return number end
  local its = { [WHOLE] = number }
  for key, value in next, (side:open(element)) do
    its[key] = numbers:of(side, value)
  end
  return its
end

local function likeness(a, b)
  if type(b) ~= "table" then return 0 end
  local n = 0
  for key, number in next, a do
    if b[key] == number then n = n + 1 end
  end
  return n
end

--- Adds to `mates` which of the elements i to i_end - 1 of x become which of
-- the elements j to j_end - 1 of y.  The numbers are those of
-- json/numbers.lua.
return function(mates, numbers, x, y, i, i_end, j, j_end)
  while i < i_end and j < j_end and numbers:equal(x[i], y[j]) do
    mates[i] = j
    i, j = i + 1, j + 1
  end
  while i < i_end and j < j_end and
    numbers:equal(x[i_end - 1], y[j_end - 1]) do
    i_end, j_end = i_end - 1, j_end - 1
    mates[i_end] = j_end
  end
  local n, m = i_end - i, j_end - j
  local low, high = math.min(0, m - n) - NEAR, math.max(0, m - n) + NEAR
  if n * (high - low) > MOST then return end
  local news, steps, before = {}, {}, {}
  for at = 1, m do news[at] = numbered(numbers, numbers.b, y[j + at - 1]) end
  for row = 1, n do
    local old = numbered(numbers, numbers.a, x[i + row - 1])
    local best, step, has_members = {}, {}, type(old) == "table"
    for d = math.max(low, 1 - row), math.min(high, m - row) do
      local new = news[row + d]
      local both = old == new and 1 or has_members and likeness(old, new) or 0
      local greatest, how = 0, nil
      if both > 0 then
        greatest, how = both + (before[d] or 0), "both"
      end
      local beside = before[d + 1] or 0
      if beside > greatest then greatest, how = beside, "row" end
      beside = best[d - 1] or 0
      if beside > greatest then greatest, how = beside, "at" end
      best[d], step[d] = greatest, how
    end
    before, steps[row] = best, step
    if row == FIRST and (best[math.min(high, m - row)] or 0) < LITTLE then
      return
    end
  end
  local row, at = n, m
  while row > 0 and at > 0 do
    local how = steps[row][at - row]
    if not how then return end
    if how == "both" then mates[i + row - 1] = j + at - 1 end
    if how ~= "at" then row = row - 1 end
    if how ~= "row" then at = at - 1 end
  end
end

--- Which elements of one list become which elements of another.
-- SPDX-License-Identifier: MIT
--
-- Elements that have members in common are candidates, the more the better;
-- that an element is equal to another counts as one more member.  An index of
-- the members of the second list finds them:
--
--     index[key][number]     the positions of the elements with that member
--
-- Members that too many elements have find none, so that the work grows with
-- the lists and not with their product.  Then the elements near the diagonals
-- are candidates, too: most often few elements were inserted or removed.
--
-- Of the candidates, pairs { i, j, weight }, the heaviest chain is taken, in
-- which both i and j ascend.  The pairs come in the order of i, those of one i
-- in the descending order of j, so that a chain takes one of them at most.
-- `best` is a binary indexed tree: best[k] is the end of the heaviest chain so
-- far that ends at one of the elements k - (k & -k) + 1 to k.  A pair's `sum`
-- is the weight of the heaviest chain that ends with the pair, and `last` is
-- the pair before it there.

local PAIRS, LEAST, NEAR = 1 << 15, 4, 8

local WHOLE = {} -- the key of an element itself

-- Calls `visit(position, key, number)` for the members of elements.
local function each_member(numbers, side, list, first, last, visit)
  for position = first, last do
    local element = list[position]
    visit(position, WHOLE, numbers:of(side, element))
    if type(element) == "table" then
      for key, value in next, (side:open(element)) do
        visit(position, key, numbers:of(side, value))
      end
    end
  end
end

-- Returns the index of some elements, and the number of members.
local function index_of(numbers, side, list, first, last)
  local index, n = {}, 0
  each_member(numbers, side, list, first, last, function(at, key, number)
    local by_number = index[key] or {}
    local places = by_number[number] or {}
    index[key], by_number[number] = by_number, places
    places[#places + 1] = at
    n = n + 1
  end)
  return index, n
end

-- Returns the number of equal members of two values; 0 if their kinds differ.
local function likeness(numbers, x, y)
  local n = numbers:equal(x, y) and 1 or 0
  if type(x) ~= "table" or type(y) ~= "table" then return n end
  local old, kind = numbers.a:open(x)
  local new, other = numbers.b:open(y)
  if kind ~= other then return 0 end
  for key, value in next, old do
    if new[key] ~= nil and numbers:equal(value, new[key]) then n = n + 1 end
  end
  return n
end

local function heaviest(best, j)
  local found
  while j > 0 do
    local pair = best[j]
    if pair and (not found or pair.sum > found.sum) then found = pair end
    j = j - (j & -j)
  end
  return found
end

local function enter(best, m, pair)
  local j = pair[2]
  while j <= m do
    local other = best[j]
    if not other or other.sum < pair.sum then best[j] = pair end
    j = j + (j & -j)
  end
end

-- Puts the pairs of element i with those that got votes into the chains.
local function add_pairs(best, m, i, votes)
  local its = {}
  for j, n in next, votes do its[#its + 1] = { i, j, n } end
  table.sort(its, function(pair, other) return pair[2] > other[2] end)
  for _, pair in ipairs(its) do
    local last = heaviest(best, pair[2] - 1)
    pair.last, pair.sum = last, pair[3] + (last and last.sum or 0)
    enter(best, m, pair)
  end
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
  if i == i_end or j == j_end then return end
  local index, n = index_of(numbers, numbers.b, y, j, j_end - 1)
  local most, common = math.max(LEAST, PAIRS // (n + 1)), false
  local votes = {}
  for row = i, i_end - 1 do votes[row] = {} end
  each_member(numbers, numbers.a, x, i, i_end - 1, function(row, key, number)
    local places, its = index[key] and index[key][number] or {}, votes[row]
    common = common or #places > most
    for k = 1, #places <= most and #places or 0 do
      local at = places[k] - j + 1
      its[at] = (its[at] or 0) + 1
    end
  end)
  local shift, m, best = j - i, j_end - j, {}
  local other = j_end - i_end
  local low, high = math.min(shift, other) - 2, math.max(shift, other) + 2
  for row = i, i_end - 1 do
    if common and high - low <= NEAR then
      for at = math.max(j, row + low), math.min(j_end - 1, row + high) do
        local weight = likeness(numbers, x[row], y[at])
        votes[row][at - j + 1] = weight > 0 and weight or nil
      end
    end
    add_pairs(best, m, row, votes[row])
  end
  local pair = heaviest(best, m)
  while pair do
    mates[pair[1]] = pair[2] + j - 1
    pair = pair.last
  end
end

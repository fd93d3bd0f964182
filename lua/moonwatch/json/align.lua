--- Which tables of one list become which tables of another.
-- SPDX-License-Identifier: MIT
--
-- Tables that have members in common are candidates, the more the better.  An
-- index of the members of the second list finds them:
--
--     index[key][number]     the positions of the tables with that member
--
-- Members that too many tables have find none, so that the work grows with the
-- lists and not with their product.  Then the tables near the diagonals are
-- candidates, too: most often few elements were inserted or removed.

local chain = require "moonwatch.json.chain"

local PAIRS, LEAST, NEAR = 1 << 17, 4, 8

-- Calls `visit(position, key, number)` for the members of the tables of a run.
local function each_member(numbers, side, list, first, last, visit)
  for position = first, last do
    local element = list[position]
    if type(element) == "table" then
      for key, value in next, side:contents(element) do
        visit(position, key, numbers:of(side, value))
      end
    end
  end
end

-- Returns the index of a run, and the number of members.
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
local function likeness(numbers, a, b, x, y)
  if type(x) ~= "table" or type(y) ~= "table" or a:kind(x) ~= b:kind(y) then
    return 0
  end
  local n, held = 0, b:contents(y)
  for key, value in next, a:contents(x) do
    local other = held[key]
    if other ~= nil and numbers:of(a, value) == numbers:of(b, other) then
      n = n + 1
    end
  end
  return n
end

local function descending(pair, other) return pair[2] > other[2] end

-- Adds the pairs of an element with those that got votes.
local function add_pairs(list, i, votes, before)
  local its = {}
  for j, n in next, votes do
    if n > 0 then its[#its + 1] = { i, j - before, n } end
  end
  table.sort(its, descending)
  table.move(its, 1, #its, #list + 1, list)
end

--- Calls `keep(i, j)` for the elements i to i_end - 1 of x that become the
-- elements j to j_end - 1 of y.  Sides and numbers are those of
-- json/numbers.lua.
return function(numbers, a, b, x, y, i, i_end, j, j_end, keep)
  local index, n = index_of(numbers, b, y, j, j_end - 1)
  local most, common = math.max(LEAST, PAIRS // (n + 1)), false
  local votes = {}
  for row = i, i_end - 1 do votes[row] = {} end
  each_member(numbers, a, x, i, i_end - 1, function(row, key, number)
    local places = index[key] and index[key][number] or {}
    common = common or #places > most
    for k = 1, #places <= most and #places or 0 do
      local at = places[k]
      votes[row][at] = (votes[row][at] or 0) + 1
    end
  end)
  local shift, list = j - i, {}
  local other = j_end - i_end
  local low, high = math.min(shift, other) - 1, math.max(shift, other) + 1
  for row = i, i_end - 1 do
    if common and high - low <= NEAR then
      for at = math.max(j, row + low), math.min(j_end - 1, row + high) do
        votes[row][at] = likeness(numbers, a, b, x[row], y[at])
      end
    end
    add_pairs(list, row, votes[row], j - 1)
  end
  chain(list, j_end - j, function(row, at) keep(row, at + j - 1) end)
end

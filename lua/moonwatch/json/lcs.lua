--- The longest common subsequence of two lists.
-- SPDX-License-Identifier: MIT
--
-- Lists with few pairs of equal elements, as those without duplicates, have the
-- longest chain of such pairs.  Other lists are searched by Myers' algorithm.
--
-- On the grid of the lists' positions, a step to the right leaves out an
-- element of the first list, a step down leaves out one of the second, and a
-- diagonal step keeps one of both.  Of the paths with d steps that are not
-- diagonal, `rows[d][i]` is how far to the right the best path gets that ends
-- on the diagonal x - y = 2 * i - d.
--
-- The search has rounds.  A round ends at the goal or when d is at its limit;
-- then it takes the path that got furthest, and the next round begins at the
-- end of that path.  So lists with few differences get the shortest path, and
-- other lists a good path in bounded time: `n` elements cost about n * limit /
-- 2 steps.

local chain = require "moonwatch.json.chain"

local WORK, LEAST, MOST = 1 << 18, 64, 1024

local function limit_for(n)
  return math.max(LEAST, math.min(MOST, WORK // (n + 1)))
end

local Grid = {}
Grid.__index = Grid

-- The grid has the positions after (x, y), and counts from there.
local function new_grid(a, b, x, y)
  return setmetatable({ a = a, b = b, left = x, above = y,
    width = #a - x, height = #b - y }, Grid)
end

-- Follows the diagonal steps from (x, y).  Returns the last x.
function Grid:slide(x, y)
  local a, b, left, above = self.a, self.b, self.left + 1, self.above + 1
  local width, height = self.width, self.height
  while x < width and y < height and a[left + x] == b[above + y] do
    x, y = x + 1, y + 1
  end
  return x
end

-- Returns where the path to place i of row d comes from: the place in the row
-- before, and the x after the step.
local function step_to(d, i, before)
  if i == 0 or i < d and before[i - 1] < before[i] then
    return i, before[i] -- a step down
  end
  return i - 1, before[i - 1] + 1
end

-- Computes row d.  Returns the place in the row that is the goal, or nil.
function Grid:advance(rows, d)
  local row, before, goal = {}, rows[d - 1], nil
  for i = 0, d do
    local x, k, _ = 0, 2 * i - d, nil
    if before then _, x = step_to(d, i, before) end
    x = self:slide(x, x - k)
    row[i] = x
    if x >= self.width and x - k >= self.height then goal = i end
  end
  rows[d] = row
  return goal
end

-- Returns the place in row d that got furthest; some steps lead off the grid.
function Grid:furthest(row, d)
  local best, most = nil, -1
  for i = 0, d do
    local x = row[i]
    local y = x - (2 * i - d)
    if x <= self.width and y <= self.height and x + y > most then
      best, most = i, x + y
    end
  end
  return best
end

-- Runs one round.  Returns the rows, and the row and place where the path ends.
function Grid:search(limit)
  local rows = {}
  for d = 0, limit do
    local goal = self:advance(rows, d)
    if goal then return rows, d, goal end
  end
  return rows, limit, self:furthest(rows[limit], limit)
end

-- Calls `keep` for each diagonal step of a path.  Returns the end of the path.
function Grid:walk_back(keep, rows, d, i)
  local x_end, y_end = rows[d][i], rows[d][i] - (2 * i - d)
  for row = d, 0, -1 do
    local from, x = nil, 0
    if row > 0 then from, x = step_to(row, i, rows[row - 1]) end
    for kept = x + 1, rows[row][i] do
      keep(self.left + kept, self.above + kept - (2 * i - row))
    end
    i = from
  end
  return self.left + x_end, self.above + y_end
end

local function search_all(a, b, keep)
  local x, y, limit = 0, 0, limit_for(#a + #b)
  while x < #a and y < #b do
    local grid = new_grid(a, b, x, y)
    x, y = grid:walk_back(keep, grid:search(limit))
  end
end

local PAIRS = 8 -- for each element

-- Returns the pairs of equal positions, for a chain; nil if there are many.
local function equal_pairs(a, b)
  local places, list, most = {}, {}, PAIRS * (#a + #b)
  for j = #b, 1, -1 do
    local of_value = places[b[j]] or {}
    places[b[j]] = of_value
    of_value[#of_value + 1] = j
  end
  for i, value in ipairs(a) do
    local of_value = places[value]
    if #list + #of_value > most then return nil end
    for _, j in ipairs(of_value) do list[#list + 1] = { i, j, 1 } end
  end
  return list
end

-- Returns the elements of a part of a list that are in a set, and their
-- positions.
local function those_in(set, list, first, last)
  local chosen, positions = {}, {}
  for i = first, last do
    if set[list[i]] then
      chosen[#chosen + 1], positions[#positions + 1] = list[i], i
    end
  end
  return chosen, positions
end

local function set_of(list, first, last)
  local set = {}
  for i = first, last do set[list[i]] = true end
  return set
end

--- Returns the elements that stay when one list becomes another: a table from
-- positions in the first list to positions in the second list.
return function(a, b)
  local kept, first, last_a, last_b = {}, 1, #a, #b
  while first <= last_a and first <= last_b and a[first] == b[first] do
    kept[first] = first
    first = first + 1
  end
  while first <= last_a and first <= last_b and a[last_a] == b[last_b] do
    kept[last_a] = last_b
    last_a, last_b = last_a - 1, last_b - 1
  end
  -- an element of one list alone cannot stay, and would cost steps
  local in_a, in_b = set_of(a, first, last_a), set_of(b, first, last_b)
  local left, left_at = those_in(in_b, a, first, last_a)
  local right, right_at = those_in(in_a, b, first, last_b)
  local function keep(x, y) kept[left_at[x]] = right_at[y] end
  local pairs_of = equal_pairs(left, right)
  if pairs_of then
    chain(pairs_of, #right, keep)
  else
    search_all(left, right, keep)
  end
  return kept
end

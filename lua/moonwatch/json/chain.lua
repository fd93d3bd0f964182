--- The heaviest chain of pairs: which elements of one list stay, or become
--- which, in another.
-- SPDX-License-Identifier: MIT
--
-- A pair { i, j, weight } says that element i of one list may become element j
-- of the other.  In a chain both i and j ascend.  The pairs come in the order
-- of i, those of one i in the descending order of j, so that a chain takes one
-- of them at most.
--
-- `best` is a binary indexed tree: best[k] is the end of the heaviest chain so
-- far that ends at one of the elements k - (k & -k) + 1 to k.  A pair's `sum`
-- is the weight of the heaviest chain that ends with the pair, and `last` is
-- the pair before it there.

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

--- Calls `keep(i, j)` for the pairs of the chain.  No j is greater than m.
return function(list, m, keep)
  local best = {}
  for _, pair in ipairs(list) do
    local last = heaviest(best, pair[2] - 1)
    pair.last, pair.sum = last, pair[3] + (last and last.sum or 0)
    enter(best, m, pair)
  end
  local pair = heaviest(best, m)
  while pair do
    keep(pair[1], pair[2])
    pair = pair.last
  end
end

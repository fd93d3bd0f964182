--- Lists that change at any place: ropes.
-- SPDX-License-Identifier: MIT
--
-- A rope is a binary tree of pieces; from left to right they are the list.  A
-- piece is a run of elements of a table that does not change meanwhile:
--
--     { held, first, count     held[first] to held[first + count - 1]
--       left, right            the trees before and after it, or nil
--       size                   the number of elements in the whole tree
--       weight }               not less than that of left and of right
--
-- Weights are random, so the depth of a tree of n pieces is about log n.

-- An address, whose text begins with 0x or, on Windows, with zeros.
local seed = tonumber(("%p"):format({}):match "%x*$", 16) or 1

local function random()
  seed = seed * 6364136223846793005 + 1442695040888963407
  return seed >> 33
end

local function piece(held, first, count)
  return { held = held, first = first, count = count, size = count,
    weight = random() }
end

local function size(tree) return tree and tree.size or 0 end

local function measure(tree)
  tree.size = size(tree.left) + tree.count + size(tree.right)
  return tree
end

-- Returns the tree of a list and another after it.
local function join(a, b)
  if not a or not b then return a or b end
  if a.weight >= b.weight then
    a.right = join(a.right, b)
    return measure(a)
  end
  b.left = join(a, b.left)
  return measure(b)
end

-- Returns the tree of the first n elements, and the tree of the others.
local function split(tree, n)
  if not tree then return nil, nil end
  local before = size(tree.left)
  local first, others
  if n <= before then
    first, others = split(tree.left, n)
    tree.left = others
    return first, measure(tree)
  end
  n = n - before
  if n < tree.count then -- inside the piece?
    others = piece(tree.held, tree.first + n, tree.count - n)
    others, tree.right = join(others, tree.right), nil
    tree.count = n
    return measure(tree), others
  end
  first, others = split(tree.right, n - tree.count)
  tree.right = first
  return measure(tree), others
end

local Rope = {}
Rope.__index = Rope

function Rope:len() return size(self.tree) end

--- Returns the element at a position from 1 to the length, else nil.
function Rope:get(i)
  local tree = self.tree
  while tree do
    local before = size(tree.left)
    if i <= before then
      tree = tree.left
    elseif i <= before + tree.count then
      return rawget(tree.held, tree.first + i - before - 1)
    else
      tree, i = tree.right, i - before - tree.count
    end
  end
  return nil
end

--- Inserts an element, which is not nil, before position i.
function Rope:insert(i, value)
  local before, after = split(self.tree, i - 1)
  self.tree = join(join(before, piece({ value }, 1, 1)), after)
end

function Rope:remove(i)
  local before, after = split(self.tree, i - 1)
  local _, others = split(after, 1)
  self.tree = join(before, others)
end

function Rope:set(i, value)
  self:remove(i)
  self:insert(i, value)
end

local function walk(tree, visit, at)
  if not tree then return at end
  at = walk(tree.left, visit, at)
  visit(tree.held, tree.first, tree.count, at)
  return walk(tree.right, visit, at + tree.count)
end

--- Calls `visit(held, first, count, at)` for each piece, in order; `at` is the
-- position of its first element.
function Rope:pieces(visit) walk(self.tree, visit, 1) end

--- Returns the rope of the elements 1 to n of a table.
return function(held, n)
  return setmetatable({ tree = n > 0 and piece(held, 1, n) or nil }, Rope)
end

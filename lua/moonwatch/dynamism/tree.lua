--- The tree of the values that examples had under each path.
-- SPDX-License-Identifier: MIT
--
--     tree { root, n examples, most, shape, objects }
--       node { up, key }
--         children[key] ---> node ...          fields of the tables here
--         integer, string, table...            statistics by kind:
--             values.lua's for scalars; { n } for other kinds, with min and
--             max of the lengths of tables, and for shaped values
--             { n, ranks = { [rank] = n }, dims = { node... } }
--         odd       has a key that is no part of a path?
--
-- Keys are booleans, numbers and strings; the tree refers to no object of an
-- example.  Paths become text only on request.  A value has one kind, and is
-- counted once for each path that leads to it, so trees can be merged in any
-- order.
--
-- There are two exceptions.  A table below itself is a "cycle".  Some graphs
-- have more paths than a walk can follow; after a number of repeated visits of
-- tables the further ones are "shared".  The walk goes level by level.

local core = require "moonwatch.core"
local path = require "moonwatch.path"
local shape = require "moonwatch.dynamism.shape"
local nested = require "moonwatch.dynamism.nested"
local values = require "moonwatch.dynamism.values"

local math_type, rawequal, type = math.type, rawequal, type

local REPEATS = 10000 -- of visits in an example

local trees = {}

--- All kinds.
trees.KINDS = {
  "boolean", "integer", "float", "string", "null", "table", "shaped",
  "function", "userdata", "thread", "cycle", "shared", "unreadable",
}

--- The kinds whose values are told apart.
trees.SCALAR = { boolean = true, integer = true, float = true, string = true }

local SCALAR, NOTHING = trees.SCALAR, {}

--- Returns a tree that keeps up to `most` values of each kind and path.
function trees.new(most, get_shape, objects)
  return { root = {}, n = 0, most = most, shape = get_shape, objects = objects }
end

local function stat_of(node, kind)
  local stat = node[kind]
  if not stat then
    stat = SCALAR[kind] and values.none(kind == "float") or { n = 0 }
    node[kind] = stat
  end
  return stat
end

local function count(node, kind)
  local stat = stat_of(node, kind)
  stat.n = stat.n + 1
  return stat
end

local function scalar(tree, node, kind, value)
  values.add(stat_of(node, kind), value, tree.most)
end

-- Returns the node of a key; nil if the key cannot be part of a path.
local function child_of(node, key)
  local child = node.children and node.children[key]
  if child then return child end
  if not path.is_key(key) then
    node.odd = true
    return nil
  end
  node.children = node.children or {}
  child = { up = node, key = key }
  node.children[key] = child
  return child
end

local function shaped(tree, node, sizes)
  local stat = count(node, "shaped")
  stat.ranks, stat.dims = stat.ranks or {}, stat.dims or {}
  stat.ranks[#sizes] = (stat.ranks[#sizes] or 0) + 1
  for i, size in ipairs(sizes) do
    stat.dims[i] = stat.dims[i] or {}
    scalar(tree, stat.dims[i], math_type(size), size)
  end
end

-- Returns the state of a walk through an example: the tables whose fields are
-- to be counted, in order, with their nodes (a watched table does not hold its
-- contents); the table at each node; and the tables that were met.
local function new_walk()
  return { nodes = {}, contents = {}, at = {}, met = {}, repeats = 0,
    nested = {} }
end

local function is_below_itself(walk, node, value)
  repeat
    node = node.up
    if node and rawequal(walk.at[node], value) then return true end
  until not node
  return false
end

-- Counts a table, and adds it to the tables whose fields are counted.
local function enter(walk, node, value)
  local held, raises = shape.contents(value)
  if not held then
    return count(node, raises and "unreadable" or type(value))
  end
  if walk.met[value] then
    if is_below_itself(walk, node, value) then return count(node, "cycle") end
    walk.repeats = walk.repeats + 1
    if walk.repeats > REPEATS then return count(node, "shared") end
  end
  local n, length = #walk.nodes + 1, rawlen(held)
  walk.nodes[n], walk.contents[n] = node, held
  walk.at[node], walk.met[value] = value, true
  values.widen(count(node, "table"), length, length)
end

local function object(tree, walk, node, value)
  if tree.objects then value = nested.opened(value, tree, walk.nested) end
  local sizes = shape.of(value, tree.shape)
  if sizes then
    shaped(tree, node, sizes)
  else
    enter(walk, node, value)
  end
end

local function note(tree, walk, node, kind, value)
  if SCALAR[kind] then
    scalar(tree, node, kind, value)
  elseif rawequal(value, core.null) then
    count(node, "null")
  elseif kind == "table" or kind == "userdata" then
    object(tree, walk, node, value)
  else
    count(node, kind)
  end
end

local function note_fields(tree, walk, node, held)
  local children = node.children or NOTHING
  for key, value in next, held do
    local child = children[key]
    if not child then
      child = child_of(node, key)
      children = node.children or NOTHING
    end
    if child then
      local kind = math_type(value) or type(value)
      local stat = child[kind]
      if stat and stat.seen and stat.seen[value] then -- most values, soon
        stat.n = stat.n + 1
      else
        note(tree, walk, child, kind, value)
      end
    end
  end
end

--- Adds an example, a table or userdata.
function trees.add(tree, example)
  local walk = new_walk()
  tree.n = tree.n + 1
  object(tree, walk, tree.root, example)
  for i, node in ipairs(walk.nodes) do -- which grow
    note_fields(tree, walk, node, walk.contents[i])
  end
end

local function merge_shaped(mine, its, merge_node, most)
  mine.ranks, mine.dims = mine.ranks or {}, mine.dims or {}
  for rank, n in next, its.ranks do
    mine.ranks[rank] = (mine.ranks[rank] or 0) + n
  end
  for i, dim in ipairs(its.dims) do
    mine.dims[i] = mine.dims[i] or {}
    merge_node(mine.dims[i], dim, most)
  end
end

local function merge_node(node, other, most)
  for _, kind in ipairs(trees.KINDS) do
    local its = other[kind]
    if its then
      local mine = stat_of(node, kind)
      if SCALAR[kind] then
        values.merge(mine, its, most)
      else
        mine.n = mine.n + its.n
        values.widen(mine, its.min, its.max)
        if its.ranks then merge_shaped(mine, its, merge_node, most) end
      end
    end
  end
  node.odd = node.odd or other.odd
end

--- Adds the values of another tree.
function trees.merge(tree, other)
  tree.n = tree.n + other.n
  local nodes, others = { tree.root }, { other.root }
  for i, node in ipairs(nodes) do -- which grows
    local its = others[i]
    merge_node(node, its, tree.most)
    for key, child in next, its.children or NOTHING do
      nodes[#nodes + 1], others[#others + 1] = child_of(node, key), child
    end
  end
end

-- Lets go of the values that are more than the tree keeps.
local function trim(node, most)
  for kind in next, SCALAR do
    if node[kind] then values.trim(node[kind], most) end
  end
  for _, dim in ipairs(node.shaped and node.shaped.dims or NOTHING) do
    trim(dim, most)
  end
end

--- Returns the nodes of a tree, each after the node above it; in the order of
-- their paths if `sorted`.
function trees.nodes(tree, sorted)
  local list, n, stack, top = {}, 0, { tree.root }, 1
  while top > 0 do
    local node = stack[top]
    local children = node.children
    n, top = n + 1, top - 1
    list[n] = node
    trim(node, tree.most)
    if children and sorted then
      local keys = path.sorted_keys(children)
      for i = #keys, 1, -1 do
        top = top + 1
        stack[top] = children[keys[i]]
      end
    elseif children then
      for _, child in next, children do
        top = top + 1
        stack[top] = child
      end
    end
  end
  return list
end

--- Returns the number of values at a node.
function trees.present(node)
  local n = 0
  for _, kind in ipairs(trees.KINDS) do
    if node[kind] then n = n + node[kind].n end
  end
  return n
end

--- Returns how often there was no value at a node, though there was a table
-- above it.
function trees.missing(node)
  local above = node.up and node.up.table
  return above and math.max(0, above.n - trees.present(node)) or 0
end

return trees

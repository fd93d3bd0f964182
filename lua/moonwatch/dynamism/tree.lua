--- The tree of the values that examples had under each path.
-- SPDX-License-Identifier: MIT
--
--     tree { root, n examples, most, shape, objects,
--            tally, stats, nodes, tables of the last example }
--       node { up, key, place }
--         children[key] ---> node ...          fields of the tables here
--         integer, string, table...            statistics by kind:
--             values.lua's for scalars; { n } for other kinds, with min and
--             max of the lengths of tables, and for shaped values
--             { n, ranks = { [rank] = n }, dims = { node... } }
--         fed                                  how many of the values were fed
--                                              one by one, not by examples
--         trouble { n, message }               what could not be read
--
-- The tally (engine/tally.h) learns values that were seen twice.  It walks
-- through an example as long as it finds only known values, and counts them;
-- `settle` moves its counts to the statistics in `stats`, by the numbers of its
-- entries.  A node that was a table has a place in the tally, which is its
-- number in `nodes`.
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

local private = core.private
local walk_on, learn, learn_from = private.tally_walk, private.tally_learn,
  private.tally_learn_from
local math_type, rawequal, type = math.type, rawequal, type

local REPEATS = 10000 -- of visits in an example

local trees = {}

--- All kinds.  "absent" is no value; it counts what was fed as nil.
trees.KINDS = {
  "boolean", "integer", "float", "string", "null", "table", "shaped",
  "function", "userdata", "thread", "cycle", "shared", "unreadable", "absent",
}

--- The kinds whose values are told apart.
trees.SCALAR = { boolean = true, integer = true, float = true, string = true }

local SCALAR, NOTHING = trees.SCALAR, {}

--- Returns a tree that keeps up to `most` values of each kind and path.
function trees.new(most, get_shape, objects)
  return { root = {}, n = 0, most = most, shape = get_shape, objects = objects,
    tally = private.tally(), stats = {}, nodes = {}, tables = 0 }
end

-- {======================================================
-- Nodes
-- =======================================================

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

-- Returns the statistics of the kind if the tally may learn the value.
local function scalar(tree, node, kind, value)
  local stat = node[kind]
  if not stat then
    node[kind] = values.new(kind, value)
    return nil
  elseif stat.seen[value] then
    stat.n = stat.n + 1
    return stat
  end
  values.add(stat, value, tree.most)
  return stat.over and stat or nil
end

-- Of all messages the tree keeps the first in the alphabet.
local function note_trouble(node, message, n)
  local trouble = node.trouble or { n = 0, message = message }
  node.trouble = trouble
  trouble.n = trouble.n + (n or 1)
  if message < trouble.message then trouble.message = message end
end

-- Returns the node of a key; nil if the key cannot be part of a path.
local function child_of(node, key)
  local child = node.children and node.children[key]
  if child then return child end
  if not path.is_key(key) then
    return note_trouble(node, ("a key is a %s"):format(type(key)))
  end
  node.children = node.children or {}
  child = { up = node, key = key, fed = 0 }
  node.children[key] = child
  return child
end

local function place_of(tree, node)
  if not node.place then
    node.place = #tree.nodes + 1
    tree.nodes[node.place] = node
  end
  return node.place
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

-- }======================================================

-- {======================================================
-- Examples
-- =======================================================

-- Returns the state of a walk through an example: places and contents of the
-- tables in order; and the table at each place, as far as needed (a watched
-- table does not hold its contents).
local function new_walk(tree)
  local places, contents = private.tally_begin(tree.tally, tree.tables)
  return { places = places, contents = contents, n = 0, at = {}, placed = 0,
    repeats = 0, nested = {}, misses = {} }
end

local function is_below_itself(walk, node, value)
  for i = walk.placed + 1, walk.n do
    local place = walk.places[i]
    walk.at[place] = walk.at[place] or walk.contents[i]
  end
  walk.placed = walk.n
  repeat
    node = node.up
    if node and rawequal(walk.at[node.place], value) then return true end
  until not node
  return false
end

-- Counts a table, and adds it to the tables whose contents are walked through.
local function enter(tree, walk, node, value)
  local held, message = shape.contents(value)
  if not held then
    if message then note_trouble(node, message) end
    return count(node, message and "unreadable" or type(value))
  end
  if private.tally_meet(tree.tally, value) then
    if is_below_itself(walk, node, value) then return count(node, "cycle") end
    walk.repeats = walk.repeats + 1
    if walk.repeats > REPEATS then return count(node, "shared") end
  end
  local n, place, stat = walk.n + 1, place_of(tree, node), count(node, "table")
  if not rawequal(held, value) then walk.at[place] = value end
  walk.n, walk.places[n], walk.contents[n] = n, place, held
  values.widen(stat, rawlen(held), rawlen(held))
  if node.up then
    local entry = private.tally_learn_table(tree.tally, node.up.place, node.key,
      place, stat.min, stat.max)
    if entry then tree.stats[entry] = stat end
  end
end

-- Returns the nested form of a value that is opened as an object; other values
-- as they are.
local function opened(tree, walk, node, value)
  local ok, wanted = shape.call(tree.objects, value)
  if not ok then note_trouble(node, wanted) end
  if not ok or not wanted then return value end
  local result, left_out = nested.with(value, tree, walk.nested)
  for _, message in next, left_out do note_trouble(node, message) end
  return result
end

-- Without a walk, the contents of tables are not looked at.
local function object(tree, walk, node, value)
  if walk and tree.objects then value = opened(tree, walk, node, value) end
  local sizes, message = shape.of(value, tree.shape)
  if message then note_trouble(node, message) end
  if sizes then
    shaped(tree, node, sizes)
  elseif walk then
    enter(tree, walk, node, value)
  else
    count(node, type(value))
  end
end

-- The tally learns a value that was seen twice.  If there were too many values,
-- it learns numbers only: all from the greatest kept number on.
local function teach(tree, node, stat, value)
  local place, entry = node.up.place, nil
  local last = stat.heap and stat.heap[1]
  if not stat.over then
    entry = value == value and learn(tree.tally, place, node.key, value)
  elseif math_type(value) and last then
    entry = learn_from(tree.tally, place, node.key,
      stat.is_float and last + 0.0 or last)
  end
  if entry then tree.stats[entry] = stat end
end

local function note(tree, walk, node, kind, value)
  if SCALAR[kind] then
    local stat = scalar(tree, node, kind, value)
    if walk and stat then teach(tree, node, stat, value) end
  elseif rawequal(value, core.null) then
    count(node, "null")
  elseif kind == "table" or kind == "userdata" then
    object(tree, walk, node, value)
  else
    count(node, kind)
  end
end

-- Counts the values of a table that the tally does not know.
local function note_misses(tree, walk, i, n)
  local node, held = tree.nodes[walk.places[i]], walk.contents[i]
  local children, misses = node.children or NOTHING, walk.misses
  for j = 1, n do
    local key = misses[j]
    local child, value = children[key] or child_of(node, key), held[key]
    if child then
      note(tree, walk, child, math_type(value) or type(value), value)
    end
  end
end

--- Adds an example, a table or userdata.
function trees.add(tree, example)
  local walk, i = new_walk(tree), 0
  local is_plain = not tree.shape and not tree.objects
  tree.n = tree.n + 1
  object(tree, walk, tree.root, example)
  while i < walk.n do
    local misses
    i, walk.n, misses = walk_on(tree.tally, i + 1, walk.n, walk.places,
      walk.contents, walk.misses, is_plain, "shape")
    note_misses(tree, walk, i, misses)
  end
  tree.tables = walk.n
end

--- Adds one value, or nil for none, under some keys.  Returns false if a key
-- cannot be part of a path.
function trees.feed(tree, keys, value)
  local node = tree.root
  for _, key in ipairs(keys) do
    if not path.is_key(key) then return false end
    node = child_of(node, key)
  end
  if value == nil then
    count(node, "absent")
  else
    note(tree, nil, node, math_type(value) or type(value), value)
    node.fed = node.fed + 1
  end
  return true
end

-- }======================================================

-- {======================================================
-- Trees
-- =======================================================

-- Moves the counts of the tally to the statistics.
local function settle(tree)
  for entry, stat in next, tree.stats do
    local n, greatest = private.tally_take(tree.tally, entry)
    stat.n = stat.n + n
    values.widen(stat, greatest, greatest)
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
  node.fed = (node.fed or 0) + (other.fed or 0)
  local trouble = other.trouble
  if trouble then note_trouble(node, trouble.message, trouble.n) end
end

--- Adds the values of another tree.
function trees.merge(tree, other)
  settle(tree)
  settle(other)
  tree.n = tree.n + other.n
  local nodes, others, i = { tree.root }, { other.root }, 1
  while nodes[i] do
    local node, its = nodes[i], others[i]
    merge_node(node, its, tree.most)
    for key, child in next, its.children or NOTHING do
      nodes[#nodes + 1], others[#others + 1] = child_of(node, key), child
    end
    i = i + 1
  end
end

--- Returns the nodes of a tree, each after the node above it; in the order of
-- their paths if `sorted`.
function trees.nodes(tree, sorted)
  settle(tree)
  local list, n, stack, top = {}, 0, { tree.root }, 1
  while top > 0 do
    local node = stack[top]
    local children = node.children
    n, top = n + 1, top - 1
    list[n] = node
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
    if node[kind] and kind ~= "absent" then n = n + node[kind].n end
  end
  return n
end

--- Returns how often there was no value at a node, though there was a table
-- above it.
function trees.missing(node)
  local above = node.up and node.up.table
  local of_examples = trees.present(node) - (node.fed or 0)
  return (node.absent and node.absent.n or 0) +
    math.max(0, (above and above.n or 0) - of_examples)
end

-- }======================================================

return trees

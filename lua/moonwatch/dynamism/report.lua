--- mw.dynamism: what varies between examples, and what was the same in all.
-- SPDX-License-Identifier: MIT
--
-- A report has a tree of the values that were seen (see tree.lua).  Each method
-- computes its result from the tree anew.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local trees = require "moonwatch.dynamism.tree"
local path = require "moonwatch.path"
local values = require "moonwatch.dynamism.values"

local KEEP = 16

local Report, state_of, new = check.class "report"

local dynamism = {}

local function is_report(value)
  return core.private.metatable(value) == Report
end

--- Returns what a report knows; nil if the value is no report.
function dynamism.state(value)
  return is_report(value) and value[Report] or nil
end

-- {======================================================
-- Adding
-- =======================================================

local function is_example(value)
  return type(value) == "table" or type(value) == "userdata"
end

--- Adds one example, a table or userdata.  Returns the report.
function Report:add(example)
  local its = state_of(self, "add")
  check.argument(is_example(example), 1, "add", "table or userdata", example)
  trees.add(its.tree, example)
  return self
end

--- Adds all that another report knows, as if this report had been given the
-- other's examples, too.  Returns the report.
function Report:merge(other)
  local its = state_of(self, "merge")
  check.argument(is_report(other), 1, "merge", "report", other)
  other = other[Report]
  check.that(its.keep == other.keep, 1, "merge",
    "it keeps another number of values")
  trees.merge(its.tree, other.tree)
  return self
end

--- Returns the number of examples.
function Report:examples()
  return state_of(self, "examples").tree.n
end

-- }======================================================

-- {======================================================
-- Dimensions
-- =======================================================

local NUMBERS = { "boolean", "integer", "float" }

-- Returns the number of values; if there were more than are known, one more.
local function size(stat)
  return stat.size + (stat.over and 1 or 0) + (stat.nan and 1 or 0)
end

-- Returns the number of values in two statistics together.
local function union(a, b)
  if not a or not b then return size(a or b) end
  local n = size(a)
  if b.nan and not a.nan then n = n + 1 end
  for value in next, b.seen do
    if not a.seen[value] then n = n + 1 end
  end
  return n
end

-- Tells whether the two nodes saw more than one number or boolean.
local function is_dynamic(node, other)
  local n = 0
  for i = 1, #NUMBERS do
    local kind = NUMBERS[i]
    local a, b = node[kind], other and other[kind]
    if a or b then n = n + union(a, b) end
  end
  return n > 1
end

-- Returns the booleans of a node, or nil if the node has no dimension.
local function dims_of(node)
  local sizes = node.shaped and node.shaped.dims
  local is_scalar = node.boolean or node.integer or node.float
  if not sizes and not is_scalar then return nil end
  local dims = {}
  for i = 1, sizes and #sizes or 0 do dims[i] = is_dynamic(sizes[i]) end
  if is_scalar then dims[1] = is_dynamic(node, sizes and sizes[1]) end
  return dims
end

--- Returns which dimensions vary: top key -> path -> array of booleans.
function Report:dims()
  self = state_of(self, "dims")
  local result, tops, name = {}, {}, path.namer()
  for _, node in ipairs(trees.nodes(self.tree)) do
    local up = node.up
    if up then tops[node] = tops[up] or node end
    local dims = dims_of(node)
    if dims then
      local top = "L" -- for examples with a shape
      if up then top = tops[node].key end
      result[top] = result[top] or {}
      result[top][name(node)] = dims
    end
  end
  return result
end

-- }======================================================

-- {======================================================
-- Changes
-- =======================================================

local function describe_values(entry, node, keep)
  local list, n = {}, node.null and 1 or 0
  for _, kind in ipairs(trees.KINDS) do
    local stat = trees.SCALAR[kind] and node[kind]
    if stat then
      local distinct = values.distinct(stat, math.max(1, keep))
      n = distinct and n and n + distinct
      values.list(stat, list, keep)
    end
  end
  entry.values, entry.distinct = list, n and n <= keep and n or "many"
  if n ~= 0 and n ~= 1 then entry.varies.value = true end
end

local function describe_bounds(entry, node)
  local bounds = {}
  for _, kind in ipairs { "integer", "float" } do
    local stat = node[kind]
    if stat then values.widen(bounds, stat.min, stat.max) end
  end
  entry.min, entry.max = bounds.min, bounds.max
end

local function describe_lengths(entry, node)
  local length = {}
  local of_tables, of_strings = node.table, node.string
  if of_strings then values.widen(length, of_strings.min, of_strings.max) end
  if of_tables then
    values.widen(length, of_tables.min, of_tables.max)
    if of_tables.min ~= of_tables.max then entry.varies.length = true end
  end
  if length.max then entry.length = length end
end

local describe

local function describe_shape(entry, stat, keep, confidence)
  entry.ranks, entry.dims = {}, {}
  for rank in next, stat.ranks do entry.ranks[#entry.ranks + 1] = rank end
  table.sort(entry.ranks)
  if #entry.ranks > 1 then entry.varies.rank = true end
  for i, dim in ipairs(stat.dims) do
    entry.dims[i] = describe(dim, keep, confidence)
    if entry.dims[i].varies.value then entry.varies.value = true end
  end
end

function describe(node, keep, confidence)
  local entry = { kinds = {}, varies = {}, examples = trees.present(node),
    missing = trees.missing(node) }
  for _, kind in ipairs(trees.KINDS) do
    if node[kind] then
      if next(entry.kinds) then entry.varies.kind = true end
      entry.kinds[kind] = node[kind].n
    end
  end
  if entry.missing > 0 then entry.varies.presence = true end
  describe_values(entry, node, keep)
  describe_bounds(entry, node)
  describe_lengths(entry, node)
  if node.shaped then describe_shape(entry, node.shaped, keep, confidence) end
  entry.verdict = next(entry.varies) and "varying" or
    entry.examples < confidence and "unsure" or "constant"
  return entry
end

-- A table is reported if there is more to say than that it is a table.
local function is_worth_telling(entry, node)
  return not entry.kinds.table or next(entry.varies) or entry.length.max > 0 or
    not node.children
end

--- Returns all that is known, by path.  Each entry is a table:
--     keys                 the path as an array of keys
--     examples, missing    how often there was a value, how often none
--     kinds                kind -> how often
--     verdict              "constant", "varying", or "unsure" if there were
--                          too few examples to say "constant"
--     varies               the set of what varies: "value", "kind",
--                          "presence", "length", "rank"
--     distinct, values     the number of scalars, or "many"; and the scalars
--                          in order (of many, the least)
--     min, max             of numbers
--     length               of tables and strings: { min, max }
--     ranks, dims          of shaped values: the ranks, and the dimensions,
--                          each with fields as above
function Report:changes()
  self = state_of(self, "changes")
  local result, name = {}, path.namer()
  for _, node in ipairs(trees.nodes(self.tree)) do
    local entry = describe(node, self.keep, self.confidence)
    if entry.examples + entry.missing > 0 and is_worth_telling(entry, node) then
      entry.keys = path.keys(node)
      result[name(node)] = entry
    end
  end
  return result
end

--- Returns what the report leaves out because it cannot be read or has no path:
-- path of the table -> message.
function Report:left_out()
  self = state_of(self, "left_out")
  local result = {}
  for _, node in ipairs(trees.nodes(self.tree)) do
    local message = node.trouble and node.trouble.message
    if not message and node.shared then
      message = "too many paths lead to the tables in it"
    end
    if message then result[path.text(path.keys(node))] = message end
  end
  return result
end

-- }======================================================

dynamism.OPTIONS = {
  shape = "function", objects = "function", keep = "count",
  confidence = "count",
}

--- Returns what is wrong with an array of examples, or nil.
function dynamism.mistake_in(examples)
  for i, example in ipairs(examples) do
    if not is_example(example) then
      return ("example %d is a %s"):format(i, type(example))
    end
  end
  if examples[1] ~= nil then return nil end
  local step, state, first = pairs(examples)
  return step(state, first) ~= nil and "the examples are not an array" or nil
end

--- Returns what a report of examples knows; examples and options must be good.
function dynamism.learn(examples, opts)
  local keep = opts.keep or KEEP
  local its = {
    tree = trees.new(math.max(1, keep), opts.shape, opts.objects),
    keep = keep, confidence = opts.confidence or 1,
  }
  for _, example in ipairs(examples) do trees.add(its.tree, example) end
  return its
end

--- Returns a report of an array of examples, which may be nil.
function dynamism.dynamism(examples, opts)
  check.argument(examples == nil or type(examples) == "table", 1, "dynamism",
    "table", examples)
  local mistake = dynamism.mistake_in(examples or {})
  check.that(not mistake, 1, "dynamism", mistake)
  opts = check.options(opts, dynamism.OPTIONS, 2, "dynamism")
  return new(dynamism.learn(examples or {}, opts))
end

return dynamism

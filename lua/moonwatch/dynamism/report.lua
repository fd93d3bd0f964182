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

-- Tells whether the two nodes saw more than one number or boolean.
local function is_dynamic(node, other)
  local n = 0
  for _, kind in ipairs { "boolean", "integer", "float" } do
    local all = node[kind]
    if other and other[kind] then
      all = values.none()
      values.merge(all, other[kind], math.huge)
      if node[kind] then values.merge(all, node[kind], math.huge) end
    end
    if all then
      n = n + all.size + (all.over and 1 or 0) + (all.nan and 1 or 0)
    end
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
  local entry = { kinds = {}, varies = {}, values = {},
    examples = trees.present(node), missing = trees.missing(node) }
  local varies, length, n = entry.varies, {}, node.null and 1 or 0
  for _, kind in ipairs(trees.KINDS) do
    local stat = node[kind]
    if stat then
      if next(entry.kinds) then varies.kind = true end
      entry.kinds[kind] = stat.n
    end
    if stat and trees.SCALAR[kind] then
      local distinct = values.distinct(stat, math.max(1, keep))
      n = distinct and n and n + distinct
      values.list(stat, entry.values, keep)
    end
    if stat and (kind == "integer" or kind == "float") then
      values.widen(entry, stat.min, stat.max)
    elseif stat and (kind == "string" or kind == "table") then
      values.widen(length, stat.min, stat.max)
    end
  end
  entry.distinct = n and n <= keep and n or "many"
  if n ~= 0 and n ~= 1 then varies.value = true end
  if length.max then entry.length = length end
  if node.table and node.table.min ~= node.table.max then
    varies.length = true
  end
  if entry.missing > 0 then varies.presence = true end
  if node.shaped then describe_shape(entry, node.shaped, keep, confidence) end
  entry.verdict = next(varies) and "varying" or
    entry.examples < confidence and "unsure" or "constant"
  return entry
end

-- A table is reported if there is more to say than that it is a table.
local function is_worth_telling(entry, node)
  return not entry.kinds.table or next(entry.varies) or entry.length.max > 0 or
    not node.children
end

--- Returns all that is known, by path: see `moonwatch.Change` in the reference.
-- A verdict is "unsure" if there were too few examples to say "constant".
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

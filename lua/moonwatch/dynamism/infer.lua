--- mw.infer: what examples have in common, to test other examples.
-- SPDX-License-Identifier: MIT
--
-- A specialisation is a list of places.  Each place comes after the place above
-- it, in the order of the keys:
--
--     place { up, key, at index in the list
--             children       places
--             kinds          kind -> limits, a table:
--                              only       the value, if it was always the same
--                              min, max   of numbers
--                              nan        was NaN seen?
--                              length     { min, max } of lists
--                              ranks      rank -> true
--                              dims       places without keys
--             any            is every value allowed?
--             optional       may the value be nil?
--             is_closed      are fields without a place refused? }
--
-- Places with fewer examples than `confidence` limit the kinds only.

local check = require "moonwatch.check"
local dynamism = require "moonwatch.dynamism.report"
local guard_source = require "moonwatch.dynamism.guard"
local nested = require "moonwatch.dynamism.nested"
local trees = require "moonwatch.dynamism.tree"
local path = require "moonwatch.path"
local values = require "moonwatch.dynamism.values"

local Specialisation, state_of, new = check.class "specialisation"

-- In some graphs the tree does not tell a table from a table above it, or from
-- other tables.
local AS_KIND = { cycle = "table", shared = "table" }

local function limits_of(stat, kind, is_sure, is_single)
  local limits = { nan = stat.nan }
  if kind == "table" then
    if is_sure and (stat.max or 0) > 0 then
      limits.length = { min = stat.min, max = stat.max }
    end
  elseif is_sure and trees.SCALAR[kind] then
    if is_single then limits.only = values.only(stat) end
    if kind ~= "string" and kind ~= "boolean" then
      limits.min, limits.max = stat.min, stat.max
    end
  end
  return limits
end

local function limit(place, node, confidence)
  place.kinds = {}
  local is_sure = trees.present(node) >= confidence
  local n = 0
  for _, kind in ipairs(trees.KINDS) do n = n + (node[kind] and 1 or 0) end
  for _, kind in ipairs(trees.KINDS) do
    local stat = node[kind]
    if stat then
      local limits = limits_of(stat, kind, is_sure, n == 1)
      if stat.dims then
        limits.ranks, limits.dims = stat.ranks, {}
        for i, dim in ipairs(stat.dims) do
          limits.dims[i] = limit({}, dim, confidence)
        end
      end
      if AS_KIND[kind] then place.is_open, kind = true, AS_KIND[kind] end
      place.kinds[kind] = place.kinds[kind] or limits
    end
  end
  place.any = place.kinds.unreadable ~= nil or next(place.kinds) == nil
  return place
end

local function make(report, is_exact)
  local list, places = {}, {}
  for i, node in ipairs(trees.nodes(report.tree, true)) do
    local up = places[node.up]
    local place = limit({ up = up, key = node.key, at = i, children = {} },
      node, report.confidence)
    place.optional = trees.missing(node) > 0
    place.is_closed = is_exact and (place.kinds.table or place.any) and
      not (place.is_open or node.odd or node.unreadable)
    if up then up.children[#up.children + 1] = place end
    list[i], places[node] = place, place
  end
  return new { list = list, shape = report.tree.shape,
    objects = report.tree.objects }
end

local OF_REPORTS = { exact = "boolean" }

local OF_EXAMPLES = { exact = "boolean" }
for option, kind in next, dynamism.OPTIONS do OF_EXAMPLES[option] = kind end

--- Infers what examples have in common.  The examples are an array, with the
-- options of mw.dynamism, or a report.  With the option `exact`, the
-- specialisation refuses tables with fields that no example had.
local function infer(examples, opts)
  local report = dynamism.state(examples)
  if report then
    opts = check.options(opts, OF_REPORTS, 2, "infer")
    return make(report, opts.exact)
  end
  check.argument(type(examples) == "table", 1, "infer", "table or report",
    examples)
  local mistake = dynamism.mistake_in(examples)
  check.that(not mistake, 1, "infer", mistake)
  opts = check.options(opts, OF_EXAMPLES, 2, "infer")
  return make(dynamism.learn(examples, opts), opts.exact)
end

--- Tells whether an example is like the known ones.  Returns true; or false and
-- the path of the first place that differs (of the table, for an unknown
-- field).
function Specialisation:matches(example)
  self = state_of(self, "matches")
  local guard = self.guard
  if not guard then
    local chunk, message = self.chunk
    if not chunk then
      chunk, message = load(guard_source(self.list, self.objects ~= nil),
        "=(specialisation)")
      if not chunk then error(message, 0) end -- memory has run out
      self.chunk = chunk
    end
    local known = {} -- for this example's objects
    guard = chunk(self.shape,
      function(value) return nested.opened(value, self, known) end)
    if not self.objects then self.guard = guard end
  end
  return guard(example)
end

-- Returns the value that a place always has, and its kind; or nil.
local function constant_of(place)
  local kind, limits = next(place.kinds)
  if not kind or place.optional or next(place.kinds, kind) then return nil end
  return limits.only, kind
end

--- Returns the values that are always the same: path -> value.
function Specialisation:constants()
  self = state_of(self, "constants")
  local result = {}
  for _, place in ipairs(self.list) do
    local value = constant_of(place)
    if value ~= nil then result[path.text(path.keys(place))] = value end
  end
  return result
end

local function describe(place)
  local entry = { kinds = {}, optional = place.optional }
  for kind, limits in next, place.kinds do
    entry.kinds[#entry.kinds + 1] = kind
    values.widen(entry, limits.min, limits.max)
    entry.length = entry.length or limits.length
    if limits.dims then
      entry.dims = {}
      for i, dim in ipairs(limits.dims) do entry.dims[i] = describe(dim) end
    end
  end
  table.sort(entry.kinds)
  return entry
end

--- Returns the other places: path -> { kinds = array of names, min, max, length
-- = { min, max }, dims, optional }.  A table is among them if its length or its
-- kind varies, or if it may be missing.
function Specialisation:varying()
  self = state_of(self, "varying")
  local result = {}
  for _, place in ipairs(self.list) do
    local entry = describe(place)
    local length = entry.length
    local is_plain = #entry.kinds == 1 and place.kinds.table and
      not entry.optional and (not length or length.min == length.max)
    if constant_of(place) == nil and not is_plain and #entry.kinds > 0 then
      result[path.text(path.keys(place))] = entry
    end
  end
  return result
end

--- Returns the source of a Lua chunk that returns a function, which does what
-- `matches` does.  The chunk is to be called with `opts.shape`, if
-- there was that option.  Returns nil and a message if objects were opened.
function Specialisation:to_lua()
  self = state_of(self, "to_lua")
  if self.objects then
    return nil, "what objects look like when they are opened is not in source"
  end
  return guard_source(self.list)
end

return infer

--- mw.metrics: numbers that are collected between an entry and the outermost
-- exit.
-- SPDX-License-Identifier: MIT
--
-- In the state, `values` is the table for the report; `kinds` says by which
-- method each metric was made.  A new context is entered once, so that `local m
-- <close> = mw.metrics()` is a scope; if `enter` is the first method that is
-- called, the context begins anew.

local check = require "moonwatch.check"
local protect = require "moonwatch.protect"
local same = require "moonwatch.same"
local private = require("moonwatch.core").private

local Metrics, state_of, new = check.class("metrics", "metrics:set")

-- All copies of this file share the set of the states of the contexts that are
-- entered, with the number of the entry; and the sums of all reports.
private.metrics = private.metrics or setmetatable({}, { __mode = "k" })
private.metrics_sums = private.metrics_sums or {}

local entries = 0

local function misuse(level, name, message, ...)
  error(("'%s': " .. message):format(name, ...), level + 1)
end

local function begin(self)
  self.values, self.kinds = {}, {}
  self.start = private.nanoseconds()
  entries = entries + 1
  private.metrics[self] = entries
end

local function kind_of(value) return math.type(value) or type(value) end

-- Raises unless the schema of the context has the metric, with this type.
local function check_schema(self, level, name, metric, is)
  local wanted = self.schema and self.schema[metric]
  if self.schema and not wanted then
    misuse(level + 1, name, "the schema has no '%s'", metric)
  end
  if wanted and wanted ~= is and
    not (wanted == "number" and (is == "integer" or is == "float")) then
    misuse(level + 1, name, "'%s' has the type %s, not %s", metric, wanted, is)
  end
end

--- Enters the context, which may be entered already.  Returns the context, for
-- `<close>`.
function Metrics:enter()
  local its = state_of(self, "enter")
  if its.fresh or its.depth == 0 then begin(its) end
  its.depth = its.fresh and 1 or its.depth + 1
  its.fresh = false
  return self
end

-- Ends one entry, and reports if that was the outermost one.
local function leave(self, err)
  local stop = private.nanoseconds()
  self.depth, self.fresh = self.depth - 1, false
  if self.depth > 0 then return end
  local values, sums = self.values, private.metrics_sums
  for metric, value in next, values do
    if math.type(value) then sums[metric] = (sums[metric] or 0) + value end
  end
  self.values, self.kinds, self.last = nil, nil, values
  private.metrics[self] = nil
  if self.on_exit then
    protect("metrics", self.on_exit, self.start, stop, values, err)
  end
end

--- Leaves the context.  The outermost `leave` reports the metrics, with the
-- error `err` if there was one.
function Metrics:leave(err)
  self = state_of(self, "leave")
  if self.depth == 0 then misuse(2, "leave", "it was not entered") end
  leave(self, err)
end

function Metrics:__close(err)
  self = self[Metrics]
  if self.depth > 0 then leave(self, err) end
end

function Metrics:__gc()
  self = self[Metrics]
  if self.depth == 0 or self.fresh then return end
  self.depth = 1
  leave(self)
end

-- Every method that writes a metric calls this function first.  Returns the
-- state.
local function open(self, name, metric)
  self = state_of(self, name, 1)
  if self.depth == 0 then misuse(3, name, "the metrics are not entered") end
  if type(metric) ~= "string" then
    error(("bad argument #1 to '%s' (string expected, got %s)"):format(name,
      type(metric)), 3)
  end
  self.fresh = false
  return self
end

-- Gives a metric its kind and value.
local function assign(self, metric, kind, value)
  self.values[metric], self.kinds[metric] = value, kind
end

-- Returns the value of a metric that only methods of this kind may make; nil if
-- there is none.
local function of_kind(self, level, name, metric, kind)
  check_schema(self, level + 1, name, metric, kind)
  local former = self.kinds[metric]
  if former and former ~= kind then
    misuse(level + 1, name, "'%s' is a %s, not a %s", metric, former, kind)
  end
  return self.values[metric]
end

local function is_key(value) return value ~= nil and value == value end

-- Raises unless the method `name` can set a metric.
local function check_value(self, name, metric, value, overwrite)
  if self.kinds[metric] and not overwrite then
    misuse(3, name, "'%s' is set already", metric)
  end
  check_schema(self, 3, name, metric, kind_of(value))
end

--- Adds `n` (or 1) to a metric, which begins with 0.
function Metrics:increment(metric, n)
  self = open(self, "increment", metric)
  check.argument(n == nil or type(n) == "number", 2, "increment", "number", n)
  local value = self.values[metric]
  if value ~= nil and math.type(value) == nil then
    misuse(2, "increment", "'%s' is not a number", metric)
  end
  value = (value or 0) + (n or 1)
  check_schema(self, 2, "increment", metric, math.type(value))
  assign(self, metric, "value", value)
end

--- Sets a metric; `overwrite` allows a second time.
function Metrics:set(metric, value, overwrite)
  self = open(self, "set", metric)
  check.that(value ~= nil, 2, "set", "value expected, got nil")
  check_value(self, "set", metric, value, overwrite)
  assign(self, metric, "value", value)
end

--- Sets all metrics in a table; if one of them is wrong, sets none.
function Metrics:update(values, overwrite)
  self = open(self, "update", "")
  check.argument(type(values) == "table", 1, "update", "table", values)
  local its = { values = {}, kinds = {} } -- those of before, and these
  for metric, value in next, self.values do
    assign(its, metric, self.kinds[metric], value)
  end
  for metric, value in pairs(values) do
    check.that(type(metric) == "string", 1, "update", "a key is not a string")
    check_value(self, "update", metric, value, overwrite)
    assign(its, metric, "value", value)
  end
  self.values, self.kinds = its.values, its.kinds
end

-- Puts a field into a metric that is a table of some kind.
local function put(self, name, metric, kind, key, value)
  check.argument(is_key(key), 2, name, "key", key, 1)
  local its = of_kind(self, 3, name, metric, kind) or {}
  its[key] = value
  assign(self, metric, kind, its)
end

--- Sets a field of a metric that is a table.
function Metrics:set_key(metric, key, value)
  self = open(self, "set_key", metric)
  put(self, "set_key", metric, "table", key, value)
end

--- Adds a member to a metric that is a set: { [member] = true }.
function Metrics:add_to_set(metric, member)
  self = open(self, "add_to_set", metric)
  put(self, "add_to_set", metric, "set", member, true)
end

-- Puts an entry into a sorted list of `n`, unless its key is there with a value
-- that is as large.
local function keep_top(list, entry, n)
  for i, its in ipairs(list) do
    if same(its.key, entry.key) then
      if its.value >= entry.value then return end
      table.remove(list, i)
      break
    end
  end
  local at = #list + 1
  while at > 1 and list[at - 1].value < entry.value do at = at - 1 end
  table.insert(list, at, entry)
  for i = #list, n + 1, -1 do list[i] = nil end
end

--- Keeps the `n` keys with the largest values, as an array of { key, value }.
-- The largest value comes first; of equal values the one that came first does.
function Metrics:top_n(metric, key, value, n)
  self = open(self, "top_n", metric)
  check.argument(key ~= nil, 2, "top_n", "key", key)
  check.argument(type(value) == "number" and value == value, 3, "top_n",
    "number", value)
  check.argument(math.type(n) == "integer" and n > 0, 4, "top_n",
    "positive integer", n)
  local list = of_kind(self, 2, "top_n", metric, "list") or {}
  keep_top(list, { key = key, value = value }, n)
  assign(self, metric, "list", list)
end

--- Tells whether the context is entered.
function Metrics:in_progress()
  return state_of(self, "in_progress").depth > 0
end

--- Returns the metrics as the text of a JSON object: those of now, or of the
-- last report.
function Metrics:to_json()
  self = state_of(self, "to_json")
  return private.json(self.values or self.last or {})
end

local metrics = {}

--- Adds to a column of all contexts that are entered.  Never raises.
function metrics.column(column, n)
  for context in pairs(private.metrics) do
    local value = context.values[column] or 0
    if math.type(value) and
      (not context.schema or context.schema[column]) then
      assign(context, column, "value", value + n)
    end
  end
end

local TYPES = { integer = true, float = true, number = true, string = true,
  boolean = true, table = true, set = true, list = true }

local OPTIONS = { schema = "table", on_exit = "function" }

local function mistake_in(schema)
  for metric, kind in next, schema do
    if type(metric) ~= "string" then
      return "a name in the schema is no string"
    end
    if not TYPES[kind] then
      return ("the schema has an unknown type for '%s'"):format(metric)
    end
  end
end

-- Returns a context.  The last exit calls `on_exit(start_ns, end_ns, metrics,
-- error)` once.
local function new_metrics(_, opts)
  if type(opts) == "function" then opts = { on_exit = opts } end
  check.argument(opts == nil or type(opts) == "table", 1, "metrics",
    "function", opts)
  opts = check.options(opts, OPTIONS, 1, "metrics")
  local mistake = opts.schema and mistake_in(opts.schema)
  check.that(not mistake, 1, "metrics", mistake)
  local self = { on_exit = opts.on_exit, depth = 1, fresh = true, last = false }
  if opts.schema then
    self.schema = {}
    for metric, kind in next, opts.schema do self.schema[metric] = kind end
  end
  self.context = new(self)
  begin(self)
  return self.context
end

local Contexts = { __call = new_metrics, __metatable = false }

-- mw.metrics is called, and has a function.
metrics.metrics = setmetatable({
  --- Returns the context that was entered last among those that are entered.
  current = function()
    local last, number
    for its, n in next, private.metrics do
      if not number or n > number then last, number = its, n end
    end
    return last and last.context
  end,
}, Contexts)

return metrics

--- mw.metrics: numbers that are collected between an entry and the outermost
-- exit.
-- SPDX-License-Identifier: MIT
--
-- In the state, `values` is the table for the report, or `last` that of the
-- former one; `kinds` says by which method each metric was made.  A new context
-- is entered once, so that `local m <close> = mw.metrics()` is a scope; if
-- `enter` is the first method that is called, the context begins anew.

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

-- Raises if something is `wrong`; called by the method `name`, or at a `depth`
-- below the method.
local function misuse(name, wrong, depth)
  if wrong then error(("'%s': %s"):format(name, wrong), 3 + (depth or 0)) end
end

local function begin(self)
  self.values, self.kinds = {}, {}
  self.start = private.nanoseconds()
  entries = entries + 1
  private.metrics[self] = entries
end

-- Returns what the context's schema has against a metric of this type, or nil.
local function mistake_of(self, metric, is)
  local wanted = self.schema and self.schema[metric]
  if self.schema and not wanted then
    return ("the schema has no '%s'"):format(metric)
  end
  if wanted and wanted ~= is and
    not (wanted == "number" and (is == "integer" or is == "float")) then
    return ("'%s' has the type %s, not %s"):format(metric, wanted, is)
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
  self.values, self.last = nil, values
  private.metrics[self] = nil
  if self.on_exit then
    protect("metrics", self.on_exit, self.start, stop, values, err)
  end
end

--- Leaves the context.  The outermost `leave` reports the metrics, with the
-- error `err` if there was one.
function Metrics:leave(err)
  self = state_of(self, "leave")
  misuse("leave", self.depth == 0 and "it was not entered")
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
  misuse(name, self.depth == 0 and "the metrics are not entered", 1)
  check.argument(type(metric) == "string", 1, name, "string", metric, 1)
  self.fresh = false
  return self
end

-- Gives a metric its kind and value.
local function assign(self, metric, kind, value)
  self.values[metric], self.kinds[metric] = value, kind
end

-- Calls put(table, ...) with the table of a metric that only methods of this
-- kind may make; the first change makes the metric.
local function change(self, name, metric, kind, put, ...)
  local former, its = self.kinds[metric], self.values[metric] or {}
  misuse(name, mistake_of(self, metric, kind) or former and former ~= kind and
    ("'%s' is a %s, not a %s"):format(metric, former, kind), 1)
  put(its, ...)
  assign(self, metric, kind, its)
end

local function is_key(value) return value ~= nil and value == value end

-- Raises unless the method `name` can set a metric.
local function check_value(self, name, metric, value, overwrite)
  misuse(name, self.kinds[metric] and not overwrite and
    ("'%s' is set already"):format(metric) or
    mistake_of(self, metric, math.type(value) or type(value)), 1)
end

--- Adds `n` (or 1) to a metric, which begins with 0.
function Metrics:increment(metric, n)
  self = open(self, "increment", metric)
  check.argument(n == nil or type(n) == "number", 2, "increment", "number", n)
  local value = self.values[metric]
  misuse("increment", value ~= nil and not math.type(value) and
    ("'%s' is not a number"):format(metric))
  value = (value or 0) + (n or 1)
  misuse("increment", mistake_of(self, metric, math.type(value)))
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

--- Sets a field of a metric that is a table.
function Metrics:set_key(metric, key, value)
  self = open(self, "set_key", metric)
  check.argument(is_key(key), 2, "set_key", "key", key)
  change(self, "set_key", metric, "table", rawset, key, value)
end

--- Adds a member to a metric that is a set: { [member] = true }.
function Metrics:add_to_set(metric, member)
  self = open(self, "add_to_set", metric)
  check.argument(is_key(member), 2, "add_to_set", "key", member)
  change(self, "add_to_set", metric, "set", rawset, member, true)
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
  change(self, "top_n", metric, "list", keep_top, { key = key, value = value },
    n)
end

--- Tells whether the context is entered.
function Metrics:in_progress()
  return state_of(self, "in_progress").depth > 0
end

local metrics = {}

--- Returns a copy of a table whose keys are texts, as in an object of JSON.
function metrics.named(t)
  local copy = {}
  for key, value in next, t do
    copy[(math.type(key) or type(key) == "boolean") and tostring(key) or
      key] = value
  end
  return copy
end

--- Returns the metrics as the text of a JSON object: those of now, or of the
-- last report.  What is a table or a set is an object, whatever its keys are.
function Metrics:to_json()
  self = state_of(self, "to_json")
  local values = {}
  for metric, value in next, self.values or self.last do
    local kind = self.kinds[metric]
    values[metric] = (kind == "table" or kind == "set") and
      metrics.named(value) or value
  end
  return private.json(values)
end

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

-- Returns a context.  The last exit calls `on_exit(start_ns, end_ns, metrics,
-- error)` once.
local function new_metrics(_, opts)
  if type(opts) == "function" then opts = { on_exit = opts } end
  check.argument(opts == nil or type(opts) == "table", 1, "metrics",
    "function", opts)
  opts = check.options(opts, OPTIONS, 1, "metrics")
  local self = { on_exit = opts.on_exit, depth = 1, fresh = true,
    schema = opts.schema and {} }
  for metric, kind in next, opts.schema or {} do
    check.that(type(metric) == "string", 1, "metrics",
      "a name in the schema is no string")
    check.that(TYPES[kind], 1, "metrics",
      ("the schema has an unknown type for '%s'"):format(metric))
    self.schema[metric] = kind
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

--- mw.times, mw.time_spent, mw.frame: where the time went.
-- SPDX-License-Identifier: MIT
--
-- The durations of a name are a ring of the last ones.  All times in this file
-- are nanoseconds.

local check = require "moonwatch.check"
local metrics = require "moonwatch.metrics"
local path = require "moonwatch.path"
local private = require("moonwatch.core").private

local KEPT = 1024

-- All copies of this file share the state, because they share the scopes.
private.times = private.times or {
  names = {}, spent = {}, total = 0, frame = 0,
}
local state = private.times

local times = {}

-- A measured scope has been closed.  The other arguments tell of a scope with a
-- column whether it was the outermost one of its coroutine: with its name, with
-- its column, and of all.  The core calls this where no debug hook raises.
function times.closed(name, ns, column, counts_name, counts_column, counts)
  local its = state.names[name] or { count = 0, sum = 0, min = ns, max = ns }
  its[its.count % KEPT + 1] = ns
  its.count, its.sum = its.count + 1, its.sum + ns
  its.min, its.max = math.min(its.min, ns), math.max(its.max, ns)
  state.names[name] = its
  if not column then return end
  local spent = state.spent
  if counts_name then spent[name] = (spent[name] or 0) + ns end
  if counts then state.total = state.total + ns end
  if counts_column then metrics.column(column, ns // 1000) end
end

private.keep("timer", times.closed)

local function seconds(ns) return ns / 1e9 end

-- Returns the durations that are kept of a name, in seconds, oldest first.
local function durations(its)
  local list = {}
  for i = math.max(its.count - KEPT, 0), its.count - 1 do
    list[#list + 1] = seconds(its[i % KEPT + 1])
  end
  return list
end

local function aggregated(its)
  return {
    count = its.count, sum = seconds(its.sum), min = seconds(its.min),
    max = seconds(its.max),
  }
end

local formats = {}

function formats.table(aggregate)
  local result = {}
  for name, its in pairs(state.names) do
    result[name] = (aggregate and aggregated or durations)(its)
  end
  return result
end

local function fixed(s) return ("%.9f"):format(s) end

-- Returns the rows of a report: its head, and the durations or what they are
-- together, sorted by name.
local function rows(aggregate)
  local list = { aggregate and { "name", "count", "sum", "min", "max" } or
    { "name", "seconds" } }
  local all = formats.table(aggregate)
  for _, name in ipairs(path.sorted_keys(all)) do
    local its = all[name]
    if aggregate then
      list[#list + 1] = { name, its.count, fixed(its.sum), fixed(its.min),
        fixed(its.max) }
    end
    for _, s in ipairs(its) do list[#list + 1] = { name, fixed(s) } end
  end
  return list
end

function formats.csv(aggregate)
  local list = rows(aggregate)
  for i, row in ipairs(list) do
    if row[1]:find '[",\r\n]' then
      row[1] = '"' .. row[1]:gsub('"', '""') .. '"'
    end
    list[i] = table.concat(row, ",") .. "\n"
  end
  return table.concat(list)
end

local NAME = 40 -- characters

-- Returns rows as text.
local function text_of(list)
  for i, row in ipairs(list) do
    local line = row[1]:gsub("%c", "?")
    line = line .. (" "):rep(NAME - (utf8.len(line) or #line))
    for k = 2, #row do line = line .. (" %14s"):format(row[k]) end
    list[i] = line .. "\n"
  end
  return table.concat(list)
end

function formats.text(aggregate) return text_of(rows(aggregate)) end

--- Returns the durations of scopes by name, in seconds: as "text" (the
-- default), "csv" or a "table".  These are the last 1,024 of each name; if
-- `aggregate` is true, the count, sum, minimum and maximum of all.
function times.times(format, aggregate)
  check.dot("times", format)
  check.that(format == nil or formats[format] ~= nil, 1, "times",
    "'text', 'csv' or 'table' expected")
  check.argument(aggregate == nil or type(aggregate) == "boolean", 2, "times",
    "boolean", aggregate)
  return formats[format or "text"](aggregate)
end

--- Returns the seconds of the scopes with a column by name, and their `total`.
function times.time_spent(...)
  check.nothing("time_spent", ...)
  local result = {}
  for name, ns in pairs(state.spent) do result[name] = seconds(ns) end
  result.total = seconds(state.total)
  return result
end

--- Returns the seconds of the scopes with a column as text.
function times.spent_text()
  local list = {}
  for i, name in ipairs(path.sorted_keys(state.spent)) do
    list[i] = { name, fixed(seconds(state.spent[name])) }
  end
  list[#list + 1] = { "total", fixed(seconds(state.total)) }
  return text_of(list)
end

--- Forgets all durations and all times spent.
function times.reset_times(...)
  check.nothing("reset_times", ...)
  state.names, state.spent, state.total = {}, {}, 0
end

--- Returns the number of the frame.
function times.frame(...)
  check.nothing("frame", ...)
  return state.frame
end

--- Begins the next frame.  Returns its number.  A program that is told how long
-- the frame took may pass that on.
function times.advance_frame(...)
  check.dot("advance_frame", ...)
  state.frame = state.frame + 1
  return state.frame
end

--- Goes back to frame 0.
function times.reset_frames(...)
  check.nothing("reset_frames", ...)
  state.frame = 0
end

return times

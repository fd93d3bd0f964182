--- mw.times, mw.time_spent, mw.frame: where the time went.
-- SPDX-License-Identifier: MIT
--
-- The durations of a name are a ring of the last ones.  All times in this file
-- are nanoseconds.

local check = require "moonwatch.check"
local metrics = require "moonwatch.metrics"
local private = require("moonwatch.core").private

local KEPT = 1024

-- All copies of this file share the state, because they share the scopes.
private.times = private.times or {
  names = {}, spent = {}, total = 0, frame = 0,
}
local state = private.times

local times = {}

-- {======================================================
-- Measuring
-- =======================================================

local function note(name, ns)
  local its = state.names[name]
  if not its then
    state.names[name] = { ns, count = 1, sum = ns, min = ns, max = ns }
    return
  end
  its[its.count % KEPT + 1] = ns
  its.count, its.sum = its.count + 1, its.sum + ns
  its.min, its.max = math.min(its.min, ns), math.max(its.max, ns)
end

-- A measured scope has been closed.  The other arguments tell of a scope with a
-- column whether it was the outermost one of its coroutine: with its name, with
-- its column, and of all.  The core calls this where no debug hook raises.
function times.closed(name, ns, column, counts_name, counts_column, counts)
  note(name, ns)
  if not column then return end
  local spent = state.spent
  if counts_name then spent[name] = (spent[name] or 0) + ns end
  if counts then state.total = state.total + ns end
  if counts_column then metrics.column(column, ns // 1000) end
end

private.timer(times.closed)

-- }======================================================

-- {======================================================
-- Telling
-- =======================================================

local function names()
  local list = {}
  for name in pairs(state.names) do list[#list + 1] = name end
  table.sort(list)
  return list
end

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

local function fixed(x) return ("%.9f"):format(x) end

local function field(text)
  if not text:find '[",\r\n]' then return text end
  return '"' .. text:gsub('"', '""') .. '"'
end

function formats.csv(aggregate)
  local lines = { aggregate and "name,count,sum,min,max" or "name,seconds" }
  for _, name in ipairs(names()) do
    local its = state.names[name]
    if aggregate then
      local a = aggregated(its)
      lines[#lines + 1] = table.concat({ field(name), a.count, fixed(a.sum),
        fixed(a.min), fixed(a.max) }, ",")
    else
      for _, duration in ipairs(durations(its)) do
        lines[#lines + 1] = field(name) .. "," .. fixed(duration)
      end
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

-- Returns the name as one line of text.
local function plain(name) return (name:gsub("%c", "?")) end

local WIDTH = 100 -- of text
local NAME = 40

-- Returns the name as a column of text: the begin and the end of a long one.
-- Counts characters, or bytes if the name is not UTF-8.
local function column(name)
  name = plain(name)
  local offset, n = utf8.offset, utf8.len(name)
  if not n then
    n, offset = #name, function(_, i) return i > 0 and i or #name + 1 + i end
  end
  if n > NAME then
    name = name:sub(1, offset(name, NAME // 2 - 1) - 1) .. "..." ..
      name:sub((offset(name, 1 - NAME // 2)))
    n = NAME
  end
  return name .. (" "):rep(NAME - n)
end

local LINE = "%s %9s %14s %14s %14s"

-- Adds lines with the durations of a name, in each as many as there is room
-- for.
local function list_durations(lines, name, its)
  local line, width = column(name), NAME
  for _, duration in ipairs(durations(its)) do
    local text = (" %14s"):format(fixed(duration))
    if width + #text > WIDTH then
      lines[#lines + 1] = line
      line, width = (" "):rep(NAME), NAME
    end
    line, width = line .. text, width + #text
  end
  lines[#lines + 1] = line
end

function formats.text(aggregate)
  local lines = { column "name" .. (" %14s"):format "seconds" }
  if aggregate then
    lines[1] = LINE:format(column "name", "count", "sum", "min", "max")
  end
  for _, name in ipairs(names()) do
    local its = state.names[name]
    if aggregate then
      local a = aggregated(its)
      lines[#lines + 1] = LINE:format(column(name), a.count, fixed(a.sum),
        fixed(a.min), fixed(a.max))
    else
      list_durations(lines, name, its)
    end
  end
  return table.concat(lines, "\n") .. "\n"
end

--- Returns the durations of scopes by name, in seconds: as "text" (the
-- default), "csv" or a "table".  These are the last 1,024 of each name; if
-- `aggregate` is true, the count, sum, minimum and maximum of all.
function times.times(format, aggregate)
  check.dot("times", format)
  check.that(format == nil or formats[format] ~= nil, 1, "times",
    "'text', 'csv' or 'table' expected")
  check.argument(aggregate == nil or type(aggregate) == "boolean", 2, "times",
    "boolean", aggregate)
  local write = formats[format or "text"]
  return (write(aggregate))
end

--- Returns the seconds of the scopes with a column by name, their `total`, and
-- the `wall` time in which there was such a scope.
function times.time_spent(...)
  check.nothing("time_spent", ...)
  local result = {}
  for name, ns in pairs(state.spent) do result[name] = seconds(ns) end
  result.total = seconds(state.total)
  result.wall = seconds(private.wall())
  return result
end

--- Returns the seconds of the scopes with a column as text.
function times.spent_text()
  local lines, list = {}, {}
  for name in pairs(state.spent) do list[#list + 1] = name end
  table.sort(list)
  for i, name in ipairs(list) do
    lines[i] = ("%s %14s\n"):format(column(name),
      fixed(seconds(state.spent[name])))
  end
  lines[#lines + 1] = ("%s %14s\n"):format(column "total",
    fixed(seconds(state.total)))
  lines[#lines + 1] = ("%s %14s\n"):format(column "wall",
    fixed(seconds(private.wall())))
  return table.concat(lines)
end

local function reset()
  state.names, state.spent, state.total = {}, {}, 0
  private.wall(true)
end

--- Forgets all durations and all times spent.
function times.reset_times(...)
  check.nothing("reset_times", ...)
  reset()
end

-- }======================================================

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

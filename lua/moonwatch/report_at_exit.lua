--- mw.report_at_exit: what was measured and counted, written at the end.
-- SPDX-License-Identifier: MIT
--
-- The finaliser of a handle writes the report.  The library holds the handles,
-- so their finalisers run when the Lua state closes, before the library's own.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local counters = require "moonwatch.counters"
local metrics = require "moonwatch.metrics"
local times = require "moonwatch.times"

local private = core.private

local Report, state_of, new = check.class "report"

-- All copies of this file share the set of reports.
private.reports = private.reports or {}

local function text()
  return table.concat {
    "Times\n\n", times.times("text", true), "\nTime spent\n\n",
    times.spent_text(), "\nCounters\n\n", tostring(counters.counters),
    "\nMetrics\n\n", counters.text(private.metrics_sums),
  }
end

local function json()
  local sections = {}
  for name, section in pairs(counters.counters) do
    sections[name] = metrics.named(section)
  end
  return private.json {
    times = times.times("table", true), spent = times.time_spent(),
    counters = metrics.named(sections), metrics = private.metrics_sums,
  } .. "\n"
end

function Report:__gc()
  local path = self[Report].path
  if not path then return end
  local report = path:find "%.json$" and json() or text()
  local file, message = io.open(path, "w")
  local ok = file
  if file then
    ok, message = file:write(report)
    file:close()
  end
  if ok then return end
  message = "cannot write the report: " .. message
  if private.handler() then return private.late_error(message, "report") end
  warn("moonwatch: ", message) -- no call comes after the end
end

--- Writes no report.
function Report:cancel()
  state_of(self, "cancel").path = nil
  private.reports[self] = nil
end

--- Writes a report of the whole program's times, counters and metrics to a
-- file when the Lua state closes: as text, or as JSON if the name of the file
-- ends so.  Returns a handle.
local function report_at_exit(path)
  check.argument(type(path) == "string", 1, "report_at_exit", "string", path)
  local self = new { path = path }
  private.reports[self] = true
  return self
end

return report_at_exit

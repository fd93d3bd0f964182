-- Scenarios for spec/support/faults.c: traces and times.  See scenarios.lua.

local attempt = dofile "spec/support/attempt.lua"
local check, whole, look_back = attempt.check, attempt.whole, attempt.look_back

local scenarios = {}

-- The trace that the last run left.
local trace

-- Calls `f` with a running trace, and checks that nothing of the trace is left.
local function traced(f)
  local mw = require "moonwatch"
  if trace then trace:stop() end
  trace = mw.trace { capacity = 64, sources = { "watch", "transaction" },
    where = true }
  trace:start()
  f(mw)
  trace:stop()
end

function scenarios.scopes()
  traced(function(mw)
    for i = 1, 5 do
      local scope <close> = mw.timed("a name that is longer than others " .. i,
        { category = "category", args = { i = i } })
      mw.current_scope():add("key", i)
      check(mw.current_scope() == scope and mw.outermost_scope() == scope)
      scope:increment "n"
      scope:insert("set", i)
      mw.instant("instant", { i })
      mw.counter("counter", i)
    end
    local inside = coroutine.wrap(function()
      local scope <close> = mw.timed("inside", { column = "inside_us" })
      coroutine.yield(1)
      return scope
    end)
    check(inside() == 1 and inside() ~= nil)
  end)
end

function scenarios.traced_writes()
  traced(function(mw)
    local Class = { __name = "Class" }
    local object = mw.track(setmetatable({ x = 0 }, Class))
    local context <close> = mw.context(function() return "context" end)
    mw.watch(object, function() end, { once = false })
    for i = 1, 3 do
      object.x = i
      check(object.x == i)
    end
    local ok, err = mw.transaction(function() object.x = 10 end)
    if not ok then error(err, 0) end
    check(object.x == 10 and context)
    object.y = setmetatable({}, Class)
    object.y = ("text"):rep(100)
  end)
end

function scenarios.written_traces()
  traced(function(mw)
    for i = 1, 3 do mw.timed("step " .. i):close() end
    for _, format in ipairs { "chrome", "speedscope", "html" } do
      local ok, message = trace:write("/dev/null", format)
      if not ok then error(message, 0) end
    end
  end)
end

function scenarios.measured()
  local mw = require "moonwatch"
  local reports = 0
  local metrics = mw.metrics(function() reports = reports + 1 end):enter()
  for _ = 1, 3 do
    local scope <close> = mw.timed("phase", { column = "phase_us" })
    check(scope)
  end
  metrics:leave()
  check(reports == 1)
  check(mw.time_spent().phase > 0)
  check(mw.times "csv" and mw.times("text", true))
end

function scenarios.cleanups()
  local mw = require "moonwatch"
  local scope, owner = {}, {}
  local handle = mw.cleanup(scope, "name", 1)
  mw.cleanup_for(owner, handle)
  local seen = mw.once(2)
  check(seen(scope) and seen(owner) and not seen(scope))
  mw.count("section", "name")
  handle:run()
  check(scope.name == nil)
end

function scenarios.told_counters()
  local mw = require "moonwatch"
  mw.reset_counters()
  mw.count("section", "name", 2)
  mw.counters.other = { a = 1 }
  mw.counters.other.b = 2
  check(mw.counted "other" == 3 and mw.counters.section.name == 2)
  check(mw.counters.section.absent == 0)
  check(tostring(mw.counters):find "section")
  check(tostring(mw.counters.other):find "b")
  check(tostring(mw.counters.none) == "")
  for name in pairs(mw.counters) do check(name) end
  mw.counters.section = nil
  check(mw.counted "section" == 0)
  mw.report_at_exit("/dev/null"):cancel()
  local metrics = mw.metrics { schema = { n = "integer" } }
  metrics:increment "n"
  check(metrics:in_progress())
  check(mw.metrics.current() == metrics)
  check(metrics:to_json() == '{"n":1}')
  metrics:leave()
  mw.reset_counters()
end

function scenarios.cleared_traces()
  traced(function(mw)
    for i = 1, 3 do
      mw.instant("before", { i })
      check(trace:clear():len() == 0 and trace:lost() == 0)
      mw.counter("after", i)
    end
  end)
end

-- What was not counted is not reported.
function scenarios.counted()
  look_back()
  local mw = require "moonwatch"
  local values, reports = nil, 0
  local metrics = mw.metrics(function(_, _, its)
    values, reports = its, reports + 1
  end)
  local function has(metric, value)
    metrics:leave()
    return reports == 1 and values[metric] == value
  end
  local function unless(metric)
    return function() return has(metric, nil) end
  end
  whole(unless "n", metrics.increment, metrics, "n", 2)
  whole(unless "set", metrics.set, metrics, "set", 1)
  whole(unless "table", metrics.set_key, metrics, "table", "key", 1)
  whole(unless "members", metrics.add_to_set, metrics, "members", 5)
  whole(unless "top", metrics.top_n, metrics, "top", "a", 1, 2)
  local all = {}
  for i = 1, 9 do all["value " .. i] = i end
  whole(function()
    local can_update = pcall(metrics.update, metrics, all)
    return can_update and has("value 9", 9)
  end, metrics.update, metrics, all)
  do
    local again <close> = metrics:enter()
    check(again == metrics)
  end
  check(reports == 0)
  metrics:leave()
  check(reports == 1 and values.n == 2 and values.set == 1)
  check(values.table.key == 1 and values.members[5] and #values.top == 1)
  check(values["value 9"] == 9)
end

-- What is open and lost is ended by the collector.
function scenarios.lost_scopes()
  local mw = require "moonwatch"
  local reports = 0
  collectgarbage() -- ends the trace of the last run
  collectgarbage()
  mw.reset_times()
  mw.timing(true)
  local ok, message = pcall(function()
    do
      local running = mw.trace():start()
      mw.timed "lost"
      mw.metrics(function() reports = reports + 1 end):enter()
      check(running:len() + running:lost() > 0)
    end
    for _ = 1, 3 do collectgarbage() end
  end)
  mw.timing(false)
  if not ok then error(message, 0) end
  local next_one <close> = mw.trace():start()
  local times = mw.times "table"
  mw.reset_times()
  if reports == 0 or not times.lost then error("not enough memory", 0) end
  check(next_one:len() == 0 and #times.lost == 1)
end

function scenarios.frames()
  local mw = require "moonwatch"
  mw.reset_frames()
  check(mw.advance_frame() == 1 and mw.frame() == 1)
end

return scenarios

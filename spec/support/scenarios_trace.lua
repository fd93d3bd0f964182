-- Scenarios for spec/support/faults.c: traces and times.  See scenarios.lua.

local scenarios = {}

local function check(ok, what)
  if not ok then error(what or "the outcome is wrong", 0) end
end

-- The trace that the last run left.
local trace

-- Calls `f` with a running trace, and checks that nothing of the trace is left.
local function traced(f)
  local mw = require "moonwatch"
  if trace then trace:stop() end
  trace = mw.trace { capacity = 64, sources = { "watch", "transaction" } }
  trace:start()
  f(mw)
  trace:stop()
end

function scenarios.scopes()
  traced(function(mw)
    for i = 1, 5 do
      local scope <close> = mw.timed("a name that is longer than others " .. i,
        { category = "category", args = { i = i } })
      scope:add("key", i)
      scope:increment "n"
      scope:insert("set", i)
      mw.instant("instant", { i })
      mw.counter("counter", i)
    end
    coroutine.wrap(function() mw.timed("inside"):close() end)()
  end)
end

function scenarios.traced_writes()
  traced(function(mw)
    local object = mw.track { x = 0 }
    local context <close> = mw.context(function() return "context" end)
    mw.watch(object, function() end, { once = false })
    for i = 1, 3 do
      object.x = i
      check(object.x == i)
    end
    local ok, err = mw.transaction(function() object.x = 10 end)
    if not ok then error(err, 0) end
    check(object.x == 10 and context)
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

return scenarios

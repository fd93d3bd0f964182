-- Calls that change something other than objects, interrupted at each of their
-- instructions: see spec/support/interrupted.lua.

local interrupted = require "spec.support.interrupted"
local mw = require "moonwatch"
local policy_file = require "spec.support.policy_file"

local function fields(t)
  local list = {}
  for key, value in pairs(t) do
    list[#list + 1] = tostring(key) .. "=" ..
      (type(value) == "table" and "{" .. fields(value) .. "}" or
        tostring(value))
  end
  table.sort(list)
  return table.concat(list, " ")
end

-- Interrupts `act` at each instruction.  The state is then as before or as
-- afterwards; and if the act is made once more, as afterwards or `again`.
local function check(case)
  local function finish(its) if case.finish then case.finish(its) end end
  local whole = case.make()
  local undone = case.state(whole)
  finish(whole)
  whole = case.make()
  case.act(whole)
  local done = case.state(whole)
  finish(whole)
  assert.not_equal(undone, done)
  local n, fired, ok, err = 0
  repeat
    n = n + 1
    local its = case.make()
    fired, ok, err = interrupted(n, case.act, its)
    assert(fired or ok, err)
    local state = case.state(its)
    if state ~= undone and state ~= done then
      assert.equal(done, "interrupted at " .. n .. " " .. state)
    end
    finish(its)
  until not fired
end

local cases = {}

-- Environments ----------------------------------------------------------

local ORIGINAL = { next = next, rawget = rawget, rawset = rawset,
  rawlen = rawlen, setmetatable = setmetatable }

local function env_state(its)
  local n = 0
  for name, fn in pairs(ORIGINAL) do
    if its.env[name] == fn then n = n + 1 end
  end
  return n
end

local function new_env()
  local env = {}
  for name, fn in pairs(ORIGINAL) do env[name] = fn end
  return { env = env }
end

cases["mw.see_through"] = { make = new_env, state = env_state,
  act = function(its) its.handle = mw.see_through(its.env) end }

cases["see_through:cancel"] = { state = env_state,
  make = function()
    local its = new_env()
    its.handle = mw.see_through(its.env)
    return its
  end,
  act = function(its) its.handle:cancel() end }

-- Memos -----------------------------------------------------------------

local function new_memo()
  local its = { obj = { x = 1 }, other = { y = 1 } }
  its.memo = mw.memo(function() return its.obj.x + its.other.y end, its.obj)
  its.memo()
  return its
end

cases["memo:on"] = { make = new_memo,
  act = function(its) its.memo:on(its.other) end,
  state = function(its)
    local valid = its.memo:valid()
    its.memo()
    its.other.y = 2
    return tostring(valid and its.memo:valid()) .. its.memo()
  end }

cases["memo:invalidate"] = { make = new_memo,
  act = function(its) its.memo:invalidate() end,
  state = function(its) return tostring(its.memo:valid()) end }

cases["a memo that computes"] = {
  make = function()
    local its = new_memo()
    its.above = mw.memo(function() return its.memo() * 2 end, its.memo)
    its.above()
    its.obj.x = 5
    return its
  end,
  act = function(its) its.value = its.above() end,
  state = function(its)
    local value = its.above()
    its.obj.x = 6
    return ("%s %d %d"):format(its.value, value, its.above())
  end }

-- Classes ---------------------------------------------------------------

local function new_class()
  local class = {}
  class.__index = class
  function class.new() return setmetatable({}, class) end
  function class:init() return self end
  return { class = class, new = class.new, init = class.init }
end

local function class_state(its)
  return ("%s %s"):format(its.class.new == its.new, its.class.init == its.init)
end

cases["mw.instrument"] = { make = new_class, state = class_state,
  act = function(its) its.handle = mw.instrument(its.class) end }

cases["instrument's handle:cancel"] = { state = class_state,
  make = function()
    local its = new_class()
    its.handle = mw.instrument(its.class)
    return its
  end,
  act = function(its) its.handle:cancel() end }

cases["mw.mark_dynamic"] = { make = new_class,
  act = function(its) mw.mark_dynamic(its.class) end,
  state = function(its) return tostring(mw.is_marked(its.class)) end }

local names = 0

cases["mw.name_class"] = {
  make = function()
    local its = new_class()
    names = names + 1
    its.name = "interrupted " .. names
    return its
  end,
  act = function(its) mw.name_class(its.name, its.class) end,
  state = function(its)
    local ok = mw.snapshot { child = its.class.new() }
    return tostring(ok ~= nil)
  end }

cases["mw.name_class of a class with another name"] = {
  make = function()
    local its = cases["mw.name_class"].make()
    mw.name_class(its.name .. " former", its.class)
    return its
  end,
  act = cases["mw.name_class"].act,
  state = function(its)
    local bytes = assert(mw.snapshot { child = its.class.new() })
    return ("%s %s"):format(bytes:find(its.name, 1, true) ~= nil,
      bytes:find(its.name .. " former", 1, true) ~= nil)
  end }

cases["mw.refresh"] = {
  make = function()
    local its = new_class()
    its.objects = { its.class.new(), its.class.new() }
    for _, obj in ipairs(its.objects) do mw.track(obj) end
    its.class.__add = function() return 1 end
    return its
  end,
  act = function(its) mw.refresh(its.class) end,
  state = function(its)
    local n = 0
    for _, obj in ipairs(its.objects) do
      if pcall(function() return obj + 1 end) then n = n + 1 end
    end
    return n
  end }

-- Policies --------------------------------------------------------------

local function policy_text(n)
  return ("return { rules = { { 'rule', function() return %d end } } }")
    :format(n)
end

local function new_policy()
  local path = os.tmpname()
  policy_file.write(path, policy_text(1))
  return { path = path, policy = assert(mw.load_policy(path)) }
end

local function policy_state(its)
  local former = its.policy:use()
  local value = mw.is_dynamic {}
  former:use()
  return tostring(value)
end

for _, name in ipairs { "reload", "poll" } do
  cases["policy:" .. name] = { state = policy_state,
    make = function()
      local its = new_policy()
      policy_file.write(its.path, policy_text(20))
      return its
    end,
    act = function(its) its.policy[name](its.policy) end,
    finish = function(its) os.remove(its.path) end }
end

-- Snapshots -------------------------------------------------------------

cases["mw.restore into a root"] = {
  make = function()
    local root = mw.track({ a = 1, list = { 1, 2 }, gone = { 1 } },
      { deep = true })
    local bytes = mw.snapshot { a = 2, list = { 2, 2, { 3 } }, new = {} }
    return { root = root, bytes = bytes }
  end,
  act = function(its) assert(mw.restore(its.bytes, { into = its.root })) end,
  state = function(its) return fields(mw.plain(its.root)) end }

-- Numbers ---------------------------------------------------------------

local function counter_state() return tostring(mw.counters) end

local function new_counters()
  mw.reset_counters()
  mw.count("section", "a")
  mw.count("other", "b", 3)
  return {}
end

cases["mw.count"] = { make = new_counters, state = counter_state,
  act = function() mw.count("new", "a") end }
cases["mw.reset_counters"] = { make = new_counters, state = counter_state,
  act = function() mw.reset_counters() end }
cases["mw.counters with a new section"] = {
  make = new_counters, state = counter_state,
  act = function() mw.counters.section = { c = 1, d = 2 } end }
cases["mw.counters with a section less"] = {
  make = new_counters, state = counter_state,
  act = function() mw.counters.section = nil end }
cases["mw.advance_frame"] = {
  make = function() mw.reset_frames() return {} end,
  act = function() mw.advance_frame() end,
  state = function() return mw.frame() end }

local function metrics_state(its)
  local metrics = its.metrics
  local depth = 0
  local text = metrics:to_json()
  for _, name in ipairs { "set", "new", "top", "keys", "members", "also" } do
    text = text .. tostring(pcall(metrics.set, metrics, name, 1))
  end
  while metrics:in_progress() do
    metrics:leave()
    depth = depth + 1
  end
  return text .. depth
end

local function metrics_case(act)
  return { make = function()
    local its = {}
    its.metrics = mw.metrics()
    its.metrics:set("set", 1)
    its.metrics:top_n("top", "a", 1, 2)
    its.metrics:top_n("top", "b", 2, 2)
    its.metrics:set_key("keys", "a", 1)
    its.metrics:add_to_set("members", "a")
    return its
  end, state = metrics_state, act = function(its) act(its.metrics) end }
end

cases["metrics:set"] = metrics_case(function(m) m:set("new", 5) end)
cases["metrics:increment"] = metrics_case(function(m)
  m:increment("new", 5, { also = 1 })
end)
cases["metrics:update"] = metrics_case(function(m)
  m:update({ set = 2, new = 3, also = 4 }, true)
end)
cases["metrics:set_key"] = metrics_case(function(m)
  m:set_key("keys", "b", 2)
end)
cases["metrics:set_key anew"] = metrics_case(function(m)
  m:set_key("new", "b", 2)
end)
cases["metrics:add_to_set"] = metrics_case(function(m)
  m:add_to_set("members", "b")
end)
cases["metrics:top_n"] = metrics_case(function(m) m:top_n("top", "a", 5, 2) end)
cases["metrics:top_n that drops"] = metrics_case(function(m)
  m:top_n("top", "c", 5, 2)
end)
cases["metrics:enter"] = metrics_case(function(m) m:enter() end)
cases["metrics:leave"] = metrics_case(function(m) m:leave() end)

-- Scopes ----------------------------------------------------------------

-- A scope that nobody has got ends when it is collected.
local function timed_state()
  collectgarbage()
  do
    local scope <close> = mw.timed("after", { column = "after_us" })
    scope:add("x", 1)
  end
  local spent = mw.time_spent()
  local list = {}
  for name, its in pairs(mw.times("table", true)) do
    list[#list + 1] = name .. its.count
  end
  table.sort(list)
  return table.concat(list, " ") .. tostring(spent.after > 0) ..
    tostring(spent.total >= spent.after) ..
    tostring((spent.scope or 0) <= spent.total)
end

local function new_times()
  mw.reset_times()
  return {}
end

cases["a measured scope"] = { make = new_times,
  act = function()
    local scope <close> = mw.timed("scope", { column = "column_us" })
    scope:add("x", 1)
  end,
  state = timed_state }

cases["mw.reset_times"] = {
  make = function()
    mw.reset_times()
    do
      local scope <close> = mw.timed("scope", { column = "column_us" })
      scope:add("x", 1)
    end
    return {}
  end,
  act = function() mw.reset_times() end,
  state = function()
    local spent = mw.time_spent()
    return ("%s %s %s"):format(next(mw.times "table"), spent.scope ~= nil,
      spent.total > 0)
  end }

-- Others ----------------------------------------------------------------

local function seen_state(its)
  local list = { its.seen:len() }
  for i = 1, 5 do
    list[#list + 1] = tostring(its.seen(i)) .. its.seen:len()
  end
  its.seen:clear()
  list[#list + 1] = its.seen:len()
  list[#list + 1] = tostring(its.seen(1))
  return table.concat(list, " ")
end

local function new_seen()
  local its = { seen = mw.once(3) }
  for i = 1, 3 do its.seen(i) end
  return its
end

cases["a seen-set"] = { make = new_seen, state = seen_state,
  act = function(its) its.seen(4) end }
cases["a seen-set, with a known key"] = { make = new_seen,
  act = function(its) its.seen(1) end,
  state = function(its)
    its.seen(4) -- forgets one
    return tostring(its.seen(1)) .. its.seen:len()
  end }
cases["seen:clear"] = { make = new_seen, state = seen_state,
  act = function(its) its.seen:clear() end }

local function context_state(its)
  local obj = { x = 1 }
  mw.watch(obj, function() end)
  its.asked = 0
  local trace <close> = mw.trace { sources = { "watch" } }
  trace:start()
  obj.x = 2
  trace:stop()
  return tostring(its.asked)
end

local function new_context()
  local its = { asked = 0 }
  function its.hook() -- a hook whose handle nobody has got says nothing later
    if its.done then return nil end
    its.asked = its.asked + 1
    return "text"
  end
  return its
end

cases["mw.context"] = { make = new_context, state = context_state,
  act = function(its) its.handle = mw.context(its.hook) end,
  finish = function(its)
    its.done = true
    if its.handle then its.handle:cancel() end
  end }
cases["context's handle:cancel"] = { state = context_state,
  make = function()
    local its = new_context()
    its.handle = mw.context(its.hook)
    return its
  end,
  act = function(its) its.handle:cancel() end,
  finish = function(its)
    its.done = true
    its.handle:cancel()
  end }

cases["mw.cleanup_for"] = {
  make = function()
    local its = { owner = {}, scope = {} }
    its.handle = mw.cleanup(its.scope, "x", 1)
    return its
  end,
  act = function(its) mw.cleanup_for(its.owner, its.handle) end,
  state = function(its)
    its.owner = nil
    collectgarbage()
    collectgarbage()
    mw.reap()
    return tostring(its.scope.x)
  end }

-- Maps, clocks, guards, traces ----------------------------------------------

local function new_map()
  local its = { map = mw.weakmap(), key = {}, other = {} }
  its.map:set(its.key, 1)
  return its
end

local function map_state(its)
  return ("%d %s %s"):format(its.map:len(), its.map:get(its.key),
    its.map:get(its.other))
end

for name, act in pairs {
  set = function(its) its.map:set(its.other, 2) end,
  remove = function(its) its.map:remove(its.key) end,
  clear = function(its) its.map:clear() end,
} do
  cases["map:" .. name] = { make = new_map, act = act, state = map_state }
end

local function new_clock()
  local its = { clock = mw.clock "interrupted", a = {}, b = {} }
  its.clock:reset()
  its.clock:advance()
  its.clock:tag(its.a)
  return its
end

local function clock_state(its)
  return ("%d %d %d"):format(its.clock:now(), its.clock:generation(its.a),
    its.clock:generation(its.b))
end

for name, act in pairs {
  advance = function(its) its.clock:advance() end,
  tag = function(its) its.clock:tag(its.b) end,
  reset = function(its) its.clock:reset() end,
} do
  cases["clock:" .. name] = { make = new_clock, act = act, state = clock_state }
end

cases["guard:revalidate"] = {
  make = function()
    local its = { guard = mw.guard(), obj = { x = 1 } }
    mw.watch(its.obj, its.guard)
    its.obj.x = 2
    return its
  end,
  act = function(its) its.guard:revalidate() end,
  state = function(its) return tostring(its.guard.valid) end }

cases["mw.on_error"] = {
  make = function() return { handler = function() end } end,
  act = function(its) mw.on_error(its.handler) end,
  state = function(its)
    local former = mw.on_error(nil)
    return tostring(former == its.handler)
  end }

local function new_trace()
  local its = { trace = mw.trace() }
  its.trace:start()
  mw.instant "before"
  return its
end

local function trace_state(its)
  local n = its.trace:len()
  mw.instant "after"
  its.trace:stop()
  return ("%d %d"):format(n, its.trace:len())
end

for name, act in pairs {
  ["trace:stop"] = function(its) its.trace:stop() end,
  ["trace:clear"] = function(its) its.trace:clear() end,
  ["mw.instant"] = function() mw.instant("now", { a = 1 }) end,
  ["mw.counter"] = function() mw.counter("now", 1) end,
} do
  cases[name] = { make = new_trace, act = act, state = trace_state }
end

cases["trace:start"] = { state = trace_state,
  make = function() return { trace = mw.trace() } end,
  act = function(its) its.trace:start() end }

cases["mw.timing"] = {
  make = function()
    mw.timing(false)
    mw.reset_times()
    return {}
  end,
  act = function() mw.timing(true) end,
  state = function()
    mw.timed("timing"):close()
    mw.timing(false)
    return tostring(next(mw.times "table"))
  end }

cases["mw.reset_frames"] = {
  make = function()
    mw.advance_frame()
    return {}
  end,
  act = function() mw.reset_frames() end,
  state = function()
    local frame = mw.frame()
    mw.reset_frames()
    return tostring(frame > 0)
  end }

cases["metrics:finish"] = {
  make = function()
    local its = {}
    its.metrics = mw.metrics { runtime = true }
    its.metrics:set("set", 1)
    return its
  end,
  act = function(its) its.metrics:finish() end,
  state = function(its)
    return tostring(its.metrics:in_progress()) .. its.metrics:to_json()
  end }

cases["mw.report_at_exit, and its cancel"] = {
  make = function() return { path = os.tmpname() } end,
  act = function(its) its.report = mw.report_at_exit(its.path) end,
  state = function(its)
    local is_there = its.report ~= nil
    local reports = require("moonwatch.core").private.reports
    for report in pairs(reports or {}) do report:cancel() end
    return tostring(is_there)
  end,
  finish = function(its)
    if its.report then interrupted(5, its.report.cancel, its.report) end
    os.remove(its.path)
  end }

for name, act in pairs {
  add = function(its) its.scope:add("data", 7) end,
  increment = function(its) its.scope:increment("data", 7) end,
  insert = function(its) its.scope:insert("data", 7) end,
} do
  cases["timed:" .. name] = { act = act,
    make = function()
      local its = { trace = mw.trace() }
      its.trace:start()
      its.scope = mw.timed "scope"
      return its
    end,
    state = function(its)
      its.scope:close()
      its.trace:stop()
      local path = os.tmpname()
      assert(its.trace:write(path))
      local file = assert(io.open(path))
      local text = file:read "a"
      file:close()
      os.remove(path)
      return tostring(text:find '"data"' ~= nil)
    end }
end

cases["box:call"] = {
  make = function()
    local its = { env = { n = 0 } }
    its.box = mw.sandbox { env = { its = its.env } }
    its.fn = assert(its.box:load "its.n = its.n + 1")
    return its
  end,
  act = function(its) its.box:call(its.fn) end,
  state = function(its)
    local n = its.env.n
    assert(its.box:call(its.fn))
    return ("%d %d"):format(n, its.env.n - n)
  end }

describe("an error from outside", function()
  for name, case in pairs(cases) do
    it("leaves " .. name .. " done or not done", function() check(case) end)
  end
end)

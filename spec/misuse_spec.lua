-- Misuse that would be silent otherwise.

local mw = require "moonwatch"
local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"

local function nothing() end

-- Checks that a function of this file raises an error with this text, and that
-- the error names a line of the function.
local function refused(text, f)
  local message = error_of(f)
  local line = tonumber(message:match "^spec/misuse_spec.lua:(%d+): ")
  local info = debug.getinfo(f, "S")
  assert.is_true(line and info.linedefined <= line and
    line <= info.lastlinedefined or false, message)
  assert.is_truthy(message:find(text, 1, true), message)
end

local function class()
  local c = {}
  c.__index = c
  function c.new() return setmetatable({}, c) end
  function c.update() end
  return c
end

-- One object of each class of the library: name, how it is made, and what to
-- use instead of setting a field.
local CLASSES = {
  { "weakmap", mw.weakmap, "map:set" },
  { "clock", mw.clock },
  { "guard", mw.guard, "guard:revalidate" },
  { "watch", function() return mw.watch({}, nothing) end },
  { "memo", function() return mw.memo(nothing) end },
  { "batch", mw.batch },
  { "transaction", mw.begin },
  { "effects", function() return (select(2, mw.transaction(nothing))) end },
  { "plan", mw.plan },
  { "scope", function() return mw.plan():scope() end },
  { "cell", function() return mw.plan():new_cell(1) end },
  { "hook", function() return mw.plan():hook({}, "on", nothing) end },
  { "history", mw.history },
  { "hierarchy", mw.hierarchy },
  { "scope", function() return mw.hierarchy():scope {} end },
  { "handle", function() return mw.hierarchy():on {} end },
  { "handle", function()
    return mw.hierarchy():instrument(class(), { "update" })
  end },
  { "handle", function() return mw.instrument(class()) end },
  { "policy", function() return mw.policy {} end },
  { "report", mw.dynamism },
  { "specialisation", function() return mw.infer { {} } end },
  { "recorder", mw.recorder },
  { "origin", function() return mw.origin "x" end },
  { "trace", mw.trace },
  { "scope", function() return mw.timed "x" end, "scope:add" },
  { "metrics", mw.metrics, "metrics:set" },
  { "seen-set", mw.once },
  { "report", function() return mw.report_at_exit "/dev/null" end },
  { "context", function() return mw.context(nothing) end },
  { "cleanup", function() return mw.cleanup({}, "x", {}) end },
  { "see_through", function() return mw.see_through {} end },
}

-- Ends what an object has begun.
local function finish(object)
  if type(object) ~= "userdata" and type(object) ~= "table" then return end
  local close = object.close or object.cancel or object.rollback or
    object.remove or object.stop
  if close then pcall(close, object) end
end

describe("setting a field of an object of the library", function()
  for _, entry in ipairs(CLASSES) do
    local name, make, use = table.unpack(entry)
    local hint = use and (" (use %s)"):format(use) or ""

    it("is misuse: " .. name, function()
      local object = make()
      local keys = { "vlaid", "valid", "get", "close", "its", "limit",
        "on_exit", "n", 1, 1.5, true, object, nothing }
      for _, key in ipairs(keys) do
        local what = type(key) == "string" and "'" .. key .. "'" or
          ("(a %s)"):format(type(key))
        for _, value in ipairs { 1, false } do
          refused(("field %s of the %s cannot be set%s"):format(what, name,
            hint), function() object[key] = value end)
        end
      end
      refused("cannot be set", function() object.vlaid = nil end)
      finish(object)
    end)
  end

  it("is misuse also for fields that can be read", function()
    local policy = mw.policy {}
    refused("field 'errors' of the policy cannot be set", function()
      policy.errors = {}
    end)
    assert.same({}, policy.errors)
    local hook = mw.plan():hook({}, "on", nothing)
    refused("field 'index' of the hook cannot be set", function()
      hook.index = 5
    end)
    assert.equal(0, hook.index)
    local h = mw.hierarchy()
    local scope <close> = h:scope {}
    local former = scope.name
    refused("field 'name' of the scope cannot be set", function()
      scope.name = "x"
    end)
    assert.equal(former, scope.name)
    local guard = mw.guard()
    refused("field 'valid' of the guard cannot be set (use guard:revalidate)",
      function() guard.valid = true end)
    assert.is_true(guard.valid)
  end)

  it("is misuse for what the object knows of itself", function()
    local history = mw.history { limit = 3 }
    for _, key in ipairs { "limit", "on_step", "at", "steps", "names" } do
      refused("field '" .. key .. "' of the history cannot be set", function()
        history[key] = nil
      end)
    end
    local obj = mw.track { n = 0 }
    history:run("one", function() obj.n = 1 end)
    assert.equal("one", history:undo())
    local metrics = mw.metrics(nothing)
    refused("(use metrics:set)", function() metrics.on_exit = print end)
    refused("(use metrics:set)", function() metrics.depth = 0 end)
    metrics:leave()
  end)

  it("is fine for the library's table and for counters", function()
    mw.own = 5
    assert.equal(5, mw.own)
    mw.own = nil
    mw.counters.spec.misuse = 2
    assert.equal(2, mw.counters.spec.misuse)
  end)

  it("leaves the object as it was", function()
    local map, key = mw.weakmap(), {}
    refused("field (a table) of the weakmap cannot be set (use map:set)",
      function() map[key] = 1 end)
    assert.is_false(map:has(key))
    assert.equal(0, #map)
    local memo = mw.memo(function() return 7 end)
    refused("field 'results' of the memo cannot be set", function()
      memo.results = { n = 1, 8 }
    end)
    assert.equal(7, memo())
  end)
end)

describe("an object in a place that it is not for", function()
  it("is misuse: a handle that is to be unwatched", function()
    local n, object = 0, { hp = 1 }
    local handle = mw.watch(object, function() n = n + 1 end)
    local what = " (watch cannot be watched; handle:cancel() ends its watch)"
    refused("bad argument #1 to 'unwatch'" .. what,
      function() mw.unwatch(handle) end)
    refused("bad argument #1 to 'watch'" .. what,
      function() mw.watch(handle, nothing) end)
    refused("bad argument #1 to 'track'" .. what,
      function() mw.track(handle) end)
    object.hp = 2
    assert.equal(1, n)
    assert.is_true(handle:alive())
  end)

  it("is misuse: any object of the library that is to be unwatched", function()
    for _, entry in ipairs(CLASSES) do
      local object = entry[2]()
      refused(("bad argument #1 to 'unwatch' (%s cannot be watched"):format(
        entry[1]), function() mw.unwatch(object) end)
      finish(object)
    end
  end)

  it("is misuse: an object in place of options", function()
    local world = { hp = 10 }
    refused("unknown option 'hp'; mw.feed { root = object } is meant",
      function() mw.feed(world) end)
    local bytes = assert(mw.snapshot(world))
    refused("unknown option 'hp'; mw.restore(bytes, { into = object }) is " ..
      "meant",
      function() mw.restore(bytes, world) end)
  end)
end)

describe("a field of an object of the library that is not there", function()
  it("is nil", function()
    for _, entry in ipairs(CLASSES) do
      local object = entry[2]()
      assert.is_nil(object.nothing_of_that_name, entry[1])
      finish(object)
    end
    assert.is_nil(mw.private)
    assert.is_nil(mw.wathc)
  end)
end)

describe("calling a function of the library with a colon", function()
  local class_of = class()
  local ARGUMENTS = {
    array = { {} },
    batch = { nothing },
    begin = { "label" },
    changed_since = { {}, 1 },
    check_replay = { {}, nothing },
    cleanup = { {}, "x", 1 },
    cleanup_for = { {}, {} },
    clock = { "name" },
    context = { nothing },
    count = { "section", "name" },
    counted = { "section" },
    counter = { "name", 1 },
    current_scope = { "name" },
    diff = { {}, {} },
    dynamism = { {} },
    effects = { {} },
    feed = { {} },
    hash = { {} },
    hierarchy = { {} },
    history = { { limit = 1 } },
    id = { {} },
    infer = { { {} } },
    instant = { "name" },
    instrument = { class_of },
    is_dynamic = { {} },
    is_marked = { {} },
    is_watched = { {} },
    last_change = { {} },
    load_policy = { "path" },
    mark_dynamic = { {} },
    memo = { nothing, {} },
    metrics = { nothing },
    mutations = { {} },
    name_class = { "x", class_of },
    normalize_name = { "L" },
    object = { 1 },
    object_like = { {} },
    on_error = { nothing },
    once = { 5 },
    origin = { "x" },
    patch = { {}, {} },
    patch_bytes = { {}, "" },
    paths = { {}, {} },
    plain = { {} },
    policy = { {} },
    raw = { {} },
    reap = { 1 },
    recorder = { {} },
    refresh = { class_of },
    report_at_exit = { "x" },
    restore = { "" },
    sandbox = { {} },
    see_through = { {} },
    setmetatable = { {}, {} },
    skeleton = { {} },
    snapshot = { {} },
    sync = { {} },
    timed = { "name" },
    times = { "text" },
    timing = { true },
    to_nested = { {} },
    touch = { {} },
    trace = { {} },
    track = { {} },
    transaction = { nothing },
    untrack = { {} },
    unwatch = { {} },
    watch = { {}, nothing },
    weakmap = { nothing },
    why = { {}, "x" },
  }

  it("is told to use a dot", function()
    for name, f in pairs(mw) do
      if type(f) == "function" then
        local arguments = ARGUMENTS[name] or {}
        refused(("calling '%s' with a colon (use a dot: mw.%s)"):format(name,
          name), function() mw[name](mw, table.unpack(arguments)) end)
      end
    end
    assert.is_false(mw.is_watched({}))
  end)

  it("does nothing", function()
    local obj = {}
    misuse("use a dot: mw.setmetatable", mw.setmetatable, mw, obj, {})
    misuse("use a dot: mw.see_through", mw.see_through, mw, obj)
    assert.is_nil(rawget(obj, "next"))
    misuse("use a dot: mw.watch", mw.watch, mw, obj, nothing)
    assert.is_false(mw.is_watched(obj))
    mw.count("section", "name")
    misuse("use a dot: mw.reset_counters", mw.reset_counters, mw)
    assert.equal(1, mw.counters.section.name)
    mw.counters.section = nil
  end)
end)

describe("an argument of what takes none", function()
  local function refuses(name, f, ...)
    misuse(("bad argument #1 to '%s' (no argument expected, got table)")
      :format(name), f, ...)
  end

  it("is misuse for functions that somebody might give one", function()
    for _, name in ipairs { "frame", "guard", "memory", "outermost_scope",
      "reset_counters", "reset_frames", "reset_times", "time_spent" } do
      refuses(name, mw[name], {})
    end
  end)

  it("is misuse for methods that would do more or less than that", function()
    local history, obj = mw.history(), mw.track { n = 0 }
    history:run("one", function() obj.n = 1 end)
    misuse("bad argument #1 to 'undo' (no argument expected, got number)",
      history.undo, history, 2)
    assert.equal(1, obj.n)
    assert.equal("one", history:undo())
    refuses("redo", history.redo, history, {})
    assert.equal(0, obj.n)
    refuses("seal", history.seal, history, {})

    local _, fx = mw.transaction(function() obj.n = 2 end)
    refuses("rollback", fx.rollback, fx, { on_conflict = nothing })
    assert.equal(2, obj.n)

    local map = mw.weakmap()
    map:set(obj, 1)
    refuses("clear", map.clear, map, {})
    assert.equal(1, #map)
    local plan = mw.plan()
    plan:track(obj)
    refuses("clear", plan.clear, plan, obj)
    assert.is_true(plan:contains(obj))
    local seen = mw.once()
    seen(obj)
    refuses("clear", seen.clear, seen, {})
    assert.is_false(seen(obj))

    local clock = mw.clock "spec.nothing"
    local now = clock:now()
    refuses("advance", clock.advance, clock, {})
    refuses("reset", clock.reset, clock, {})
    assert.equal(now, clock:now())
    local policy = mw.policy {}
    refuses("reload", policy.reload, policy, {})
  end)

  it("is fine where an error closes a trace, which gets the error", function()
    local ok, message = pcall(function()
      local _ <close> = mw.trace():start()
      error("as it is", 0)
    end)
    assert.is_false(ok)
    assert.equal("as it is", message)
  end)

  it("is fine for nil, and where a frame's time is passed on", function()
    assert.equal("guard", tostring(mw.guard(nil)):match "%a+")
    local frame = mw.frame()
    assert.equal(frame + 1, mw.advance_frame(0.016))
    mw.reset_frames()
  end)
end)


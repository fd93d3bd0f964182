-- The library, docs/reference.lua, the pages and the types agree.

local files = require "docs.make.files"
local model = require "docs.make.model"
local mw = require "moonwatch"
local pages = require "docs.make.pages"

local groups = files.reference()

-- Lists of names as one text, for messages that say which is missing.
local function sorted(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return table.concat(list, "\n")
end

local function nothing() end

local Class = { __name = "Class", update = nothing }
Class.__index = Class

local function effects_of(f)
  local _, effects = mw.transaction(f)
  return effects
end

-- Returns objects of each class of the library, and functions that let go of
-- what they hold.
local function make_objects()
  local fx, h = mw.plan(), mw.hierarchy()
  local batch, tx = mw.batch(), mw.begin()
  batch:close()
  tx:rollback()
  return {
    Batch = { batch },
    Cell = { fx:new_cell(1) },
    Cleanup = { mw.cleanup({}, "name", 1) },
    Clock = { mw.clock() },
    Effects = { effects_of(nothing) },
    Written = { mw.report_at_exit "/dev/null" },
    Feed = { mw.feed() },
    Guard = { mw.guard() },
    Handle = { mw.instrument { new = nothing }, h:on {},
      h:instrument(Class, { "update" }), mw.see_through {},
      mw.context(nothing) },
    Hierarchy = { h },
    History = { mw.history() },
    Hook = { fx:hook({}, "event", nothing) },
    Memo = { mw.memo(nothing) },
    MakeMetrics = { mw.metrics },
    Metrics = { mw.metrics() },
    Origin = { mw.origin "name" },
    Plan = { fx },
    Policy = { mw.policy {} },
    Recorder = { mw.recorder() },
    Report = { mw.dynamism() },
    Sandbox = { mw.sandbox() }, Scope = { fx:scope(), h:scope({}) },
    Seen = { mw.once() },
    Specialisation = { mw.infer { {} } },
    TimedScope = { mw.timed("name", { column = "name_us" }), mw.timed "name" },
    Trace = { mw.trace() },
    Transaction = { tx },
    Watch = { mw.watch({}, nothing) },
    WeakMap = { mw.weakmap() },
  }
end

local function let_go(objects)
  for _, kind in ipairs { "Cleanup", "Written", "Handle", "Watch" } do
    for _, handle in ipairs(objects[kind]) do handle:cancel() end
  end
  for _, kind in ipairs { "Scope", "TimedScope", "Hierarchy", "Feed" } do
    for _, scope in ipairs(objects[kind]) do scope:close() end
  end
  mw.reset_times()
end

-- Returns the set of the methods that an object has.
local function methods_of(obj)
  local set, mt = {}, debug.getmetatable(obj)
  local function add(t)
    for name, value in pairs(t) do
      if type(value) == "function" and not name:find "^__" then
        set[name] = true
      end
    end
  end
  if type(mt.__index) == "table" then add(mt.__index) end
  if type(obj) == "table" then
    for name, value in next, obj do -- its fast methods, which are in C
      if type(value) == "function" and debug.getinfo(value).what == "C" then
        set[name] = true
      end
    end
  end
  return set
end

local classes = {}
model.each(groups, function(item)
  if item.kind == "class" then classes[item.name] = item end
end)

-- Returns the sets of the methods and of the fields that a class has in the
-- reference, with those of its parent.
local function members_of(class, methods, fields)
  methods, fields = methods or {}, fields or {}
  for _, member in ipairs(class.items) do
    local name = member.name:match "[^.:]+$"
    if member.kind == "function" then methods[name] = true
    else fields[name] = true end
  end
  if class.parent then members_of(classes[class.parent], methods, fields) end
  return methods, fields
end

-- Returns the options of functions in C: class -> set of names.
local function options_in_c()
  local of = { sandbox = "SandboxOptions", watch = "WatchOptions",
    track = "TrackOptions",
    timed = "TimedOptions", trace = "TraceOptions" }
  local result = {}
  for path in io.popen "ls engine/bind/*/*.c":lines() do
    local pattern = "mwb_option [%w_]+%[%] =(.-)};.-mwb_read_options%(" ..
      'L, "([%w_]+)"'
    for list, name in files.read(path):gmatch(pattern) do
      local set = {}
      for option, at in list:gmatch '[{(]"([%w_]+)",()' do
        set[option] = not list:find('^[^"\n]*GONE', at) or nil
      end
      result[assert(of[name], name)] = set
    end
  end
  return result
end

describe("the reference", function()
  it("has each field of the library, and no other", function()
    local there, described = {}, {}
    for name in pairs(mw) do there["mw." .. name] = true end
    model.each(groups, function(item)
      if item.name:find "^mw%.[%w_]+$" then described[item.name] = true end
    end)
    assert.equal(sorted(there), sorted(described))
  end)

  it("has each method of each class, and no other", function()
    local objects = make_objects()
    for name, class in pairs(classes) do
      if class.variable then
        assert.is_truthy(objects[name], name .. " has no object here")
      end
    end
    for name, list in pairs(objects) do
      for _, obj in ipairs(list) do
        local methods, fields = members_of(classes[name])
        if type(debug.getmetatable(obj).__index) == "table" then
          assert.equal(sorted(methods), sorted(methods_of(obj)), name)
        end
        for _, set in ipairs { methods, fields } do
          for member in pairs(set) do
            assert.is_not_nil(obj[member], name .. "." .. member)
          end
        end
      end
    end
    let_go(objects)
  end)

  it("knows the options", function()
    local function infer(opts) mw.infer({ {} }, opts) end
    local function apply(opts) effects_of(nothing):apply(opts) end
    local function watch(opts) mw.watch({}, nothing, opts) end
    local function memo(opts) mw.memo(nothing):on({}, opts) end
    local function track(opts) mw.track({}, opts) end
    local readers = {
      ApplyOptions = apply, ClassRules = function(rules)
        mw.policy { classes = { Class = rules } }
      end,
      FeedOptions = function(opts) mw.feed(opts):close() end,
      DynamismOptions = function(opts) mw.dynamism({}, opts) end,
      HierarchyEvents = function(opts) mw.hierarchy():on(opts) end,
      RecordOptions = function(opts) mw.hierarchy():record(opts) end,
      HierarchyOptions = mw.hierarchy, HistoryOptions = mw.history,
      InferOptions = infer, InstrumentRules = function(rules)
        mw.instrument({}, rules):cancel()
      end,
      MemoOptions = memo, MetricsOptions = mw.metrics,
      NameRules = function(rules)
        mw.name_class("Class of the reference", Class, rules)
      end,
      NestedOptions = function(opts) mw.to_nested({}, opts) end,
      PlanOptions = mw.plan, PolicyDefinition = mw.policy,
      PastOptions = function(opts)
        local recorder <close> = mw.recorder()
        recorder:past({}, 1, opts)
      end,
      RecorderOptions = function(opts) mw.recorder(opts):stop() end,
      ReplayOptions = function(opts) mw.check_replay({}, nothing, opts) end,
      SnapshotOptions = function(opts) mw.snapshot({}, opts) end,
      RestoreOptions = function(opts) mw.restore("", opts) end,
      SandboxOptions = mw.sandbox,
      SkeletonOptions = function(opts) mw.skeleton({}, opts) end,
      TimedOptions = function(opts) mw.timed("name", opts):close() end,
      TraceOptions = mw.trace, TrackOptions = track,
      TransactionOptions = function(opts) mw.begin(opts):rollback() end,
      WatchOptions = watch,
    }
    for name in pairs(classes) do
      if name:find "Options$" or name:find "Rules$" then
        assert.is_truthy(readers[name], name)
      end
    end
    local in_c = options_in_c()
    for name, read in pairs(readers) do
      local _, fields = members_of(classes[name])
      local known = in_c[name] or {}
      -- a function in Lua looks at each option that it knows
      pcall(read, setmetatable({}, {
        __index = function(_, field) known[field] = true end }))
      if name ~= "MemoOptions" then -- it has those of a watch
        assert.equal(sorted(known), sorted(fields), name)
      end
      for field in pairs(fields) do
        -- no option is a coroutine
        local ok, message = pcall(read, { [field] = coroutine.create(nothing) })
        assert.is_true(ok or not message:find "unknown",
          ("%s.%s: %s"):format(name, field, message))
      end
      local _, message = pcall(read, { nonsense = true })
      assert.matches("unknown %l+ 'nonsense'", message, name)
    end
  end)

  it("has the parameters of functions that are written in Lua", function()
    local objects = make_objects()
    model.each(groups, function(item, _, class)
      if item.kind ~= "function" then return end
      local holder = class and objects[class.name][1] or mw
      local info = debug.getinfo(holder[item.name:match "[^.:]+$"], "Su")
      if info.what == "C" then return end
      local n, is_vararg = item.name:find ":" and 1 or 0, false
      for _, p in ipairs(item.params) do
        if p.name == "..." then is_vararg = true else n = n + 1 end
      end
      if info.isvararg and not is_vararg then return end -- counts arguments
      if item.name == "effects:to_lua" then n = n + 1 end -- of plans
      assert.equal(n, info.nparams, item.name)
      assert.equal(is_vararg, info.isvararg, item.name)
    end)
    let_go(objects)
  end)

  it("calls no two things alike", function()
    local known = {}
    model.each(groups, function(item, group, class)
      local name = (class and class.name .. " " or "") .. item.name
      assert.is_nil(known[name], name)
      known[name] = true
      assert.matches("^[%u`].*[.%?]$", item.text, name)
      if class and class.variable then
        assert.matches("^" .. class.variable .. "[.:][%w_]+$", item.name)
      end
      local anchor = group.page .. pages.anchor(item.label)
      if not class then
        assert.is_nil(known[anchor], anchor)
        known[anchor] = true
      end
    end)
  end)

  it("stands on the pages and in the types as it is now", function()
    for _, made in ipairs(files.made()) do
      local path, text = made[1], made[2]
      assert.is_true(files.read(path) == text,
        path .. " is out of date: say `make reference`")
    end
  end)

  it("has each group on its page, and all names in the index", function()
    for _, group in ipairs(groups) do
      local _, n = files.read("docs/" .. group.page .. ".md"):gsub(
        "<!%-%- reference:" .. group.page .. " %-%->", "")
      assert.equal(1, n, group.page)
    end
    local index = files.read "docs/index.md"
    model.each(groups, function(item, _, class)
      if class and not class.variable then return end
      local name = class and item.name or item.label
      assert.is_truthy(index:find(("[`%s`]"):format(name), 1, true), name)
    end)
  end)
end)

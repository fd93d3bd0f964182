-- Scenarios for want of memory: the rest.  See scenarios.lua.

local attempt = dofile "spec/support/attempt.lua"
local check, whole, look_back = attempt.check, attempt.whole, attempt.look_back

local scenarios = {}

function scenarios.maps()
  look_back()
  local mw = require "moonwatch"
  local map, key = mw.weakmap(), {}
  local value = { key }
  whole(function() return not map:has(key) and map:len() == 0 end,
    map.set, map, key, value)
  check(map:has(key) and map:len() == 1 and map:get(key) == value)
  for k, v in map:pairs() do check(k == key and v == value) end
  check(map:remove(key) == value and not map:has(key))
end

function scenarios.instrumented()
  look_back()
  local mw = require "moonwatch"
  local Class = { __name = "Class" }
  Class.__index = Class
  function Class.new() return setmetatable({}, Class) end
  local new, clock = Class.new, mw.clock()
  local before = clock:now()
  local handle <close> = whole(function(had_memory)
    return clock:now() == before and (Class.new == new or not had_memory)
  end, mw.instrument, Class)
  check(Class.new ~= new and clock:now() == before + 1)
  check(clock:is_current(Class.new()))
  handle:cancel()
  check(Class.new == new)
end

function scenarios.changes()
  look_back()
  local mw = require "moonwatch"
  local obj, heard, after = { x = 1 }, 0, 0
  local function guard() heard = heard + 1 end
  local watch <close> = mw.watch(obj, guard, { once = false })
  local other = mw.watch(obj, function() after = after + 1 end,
    { once = false, phase = "after" })
  local n = mw.clock():advance()
  whole(function() return heard == after end, mw.touch, obj, "x")
  check(heard == 1 and after == 1 and mw.mutations(obj) == 1)
  check(mw.last_change(obj) == n and mw.changed_since(obj, n))
  rawset(obj, "y", 5)
  whole(function() return obj.y == 5 or mw.sync(obj) end, mw.sync, obj)
  check(obj.y == 5 and heard == 2)
  other:cancel()
  obj.x = 2
  check(heard == 3 and after == 2 and watch:alive() and not other:alive())
end

function scenarios.memos()
  look_back()
  local mw = require "moonwatch"
  local obj, n = { x = 1 }, 0
  local memo = mw.memo(function()
    n = n + 1
    return { obj.x }
  end, obj)
  local function is_stale() return not memo:valid() and memo()[1] == obj.x end
  check(whole(is_stale, memo)[1] == 1 and memo:valid())
  memo:invalidate()
  whole(is_stale, memo)
  obj.x = 2
  check(whole(is_stale, memo)[1] == 2 and n == 3)
end

-- A copy of a cycle, of an object with a class, and of a key.
function scenarios.plain_copies()
  look_back()
  local mw = require "moonwatch"
  local class = { __newindex = rawset }
  local root = { list = {}, at = setmetatable({ x = 1 }, class) }
  for i = 1, 20 do root.list[i] = { root, i } end
  root[root.list] = "key"
  mw.track(root, { deep = true })
  local copy = whole(function() return mw.mutations(root) == 0 end, mw.plain,
    root)
  check(copy.list[20][1] == copy and copy.list[20][2] == 20)
  check(copy[copy.list] == "key" and rawget(copy.at, "x") == 1)
  check(getmetatable(copy.at) == class and getmetatable(copy) == nil)
  local none = getmetatable(root)
  local ok, err = pcall(function() none.x = 1 end)
  check(not ok and next(none) == nil)
  if err:find "not enough memory" then error(err, 0) end
end

function scenarios.seeing_through()
  look_back()
  local mw = require "moonwatch"
  local env, watched_env = { next = next }, {}
  mw.watch(watched_env, function() error("called", 0) end, { once = false })
  whole(function() return env.next == next and env.rawset == nil end,
    mw.see_through, env):cancel()
  check(env.next == next and env.rawset == nil)
  do
    local _ <close> = whole(function(had_memory)
      return watched_env.next == nil or not had_memory
    end, mw.see_through, watched_env)
    local obj = mw.track { x = 1 }
    whole(function() return obj.y == nil end, watched_env.rawset, obj, "y", {})
    check(obj.y and next(obj) == nil and watched_env.rawget(obj, "x") == 1)
    check(watched_env.rawlen(obj) == 0 and watched_env.next(obj))
    whole(function() return getmetatable(obj) ~= env end,
      watched_env.setmetatable, obj, env)
    check(getmetatable(obj) == env)
  end
  check(watched_env.next == nil)
end

-- A memo is right whatever there was no memory for.
function scenarios.memos_of_memos()
  look_back()
  local mw = require "moonwatch"
  local obj, root = { x = 1 }, { { y = 1 } }
  local lowest = mw.memo(function() return obj.x end, obj)
  local top = lowest
  for _ = 1, 40 do
    local below = top
    top = mw.memo(function() return below() end, below, obj)
  end
  local sum = mw.memo(function() return top() + root[1].y end, top)
  whole(function() return not mw.is_watched(root) end, sum.on, sum, root,
    { deep = true })
  check(sum() == 2)
  root[1].y = 2
  check(sum() == 3)
  for i = 1, 3 do
    obj.x = i
    if i == 2 then mw.unwatch(obj) end
    check(sum() == i + root[1].y)
  end
  sum:invalidate()
  check(not sum:valid() and sum() == 3 + root[1].y and sum:valid())
end

function scenarios.userdata_classes()
  look_back()
  local mw = require "moonwatch"
  local class = getmetatable(io.stdout)
  local fields, heard = {}, 0
  local function first(_, key, value) fields[key] = value end
  local function second(_, key, value) fields[key] = value + 1 end
  class.__newindex = first
  local file = io.tmpfile()
  local watch = whole(function() return not mw.is_watched(file) end, mw.watch,
    file, function() heard = heard + 1 end, { once = false })
  file.x = 1
  check(heard == 1 and fields.x == 1)
  check(watch:alive())
  class.__newindex = second
  whole(function() return heard == 1 end, mw.refresh, class)
  file.x = 1
  check(heard == 2 and fields.x == 2)
  class.__newindex = first
  check(whole(function() return true end, mw.refresh, class) >= 1)
  file.x = 1
  check(heard == 3 and fields.x == 1)
  mw.unwatch(file)
  file.x = 2
  check(heard == 3 and fields.x == 2)
  class.__newindex = nil -- objects of earlier runs are watched, perhaps
  file:close()
end

-- Whatever fails, a rollback gives fields and state of a userdata back.
function scenarios.userdata_states()
  look_back()
  local mw = require "moonwatch"
  local class = getmetatable(io.stdout)
  local fields, text = { n = 0 }, "a"
  local methods = setmetatable(class.__index, { __index = fields })
  local file
  class.__newindex = function(self, key, value)
    if self ~= file then return end -- what an earlier run could not take back
    fields[key] = type(value) == "string" and value .. "+" or value
  end
  function methods.write(_, more) text = text .. more end
  local former = mw.policy({ classes = { ["FILE*"] = {
    mutators = { "write" },
    snapshot = function() return { text } end,
    restore = function(_, state) text = state[1] end,
  } } }):use()
  file = mw.track(io.tmpfile())
  local function run()
    file.x = "x"
    file:write "b"
    file.n = 1
    file.n = 2
  end
  local function is_old()
    return text == "a" and fields.x == nil and fields.n == 0
  end
  -- Where no memory comes any more, Lua may be unable to call the functions of
  -- the policy, which take states back.
  local function check_old()
    if pcall(string.rep, "x", 1000) then check(is_old()) end
  end
  local ok, fx = mw.transaction(run)
  if not ok then
    check_old()
    error(fx, 0)
  end
  check(text == "ab" and fields.x == "x+" and fields.n == 2 and #fx == 4)
  fx:rollback()
  check(is_old())
  local redone, message = fx:apply()
  if not redone then
    check_old()
    error(message, 0)
  end
  check(text == "ab" and fields.n == 2)
  mw.untrack(file)
  file:close()
  former:use()
end

-- The writes are heard at the end, or, where the end has no memory, not at all.
function scenarios.batches_in_coroutines()
  look_back()
  local mw = require "moonwatch"
  local obj, heard = { x = 0 }, nil
  mw.watch(obj, function(_, _, _, new) heard = new end,
    { once = false, equal = "skip" })
  do
    local b <close> = mw.batch()
    obj.x = 1
    b:close()
    check(heard == 1)
  end
  do
    local _ <close> = mw.batch()
    obj.x = 2
  end
  check(heard == 2)
  local run = coroutine.wrap(function()
    mw.batch(function()
      for i = 3, 40 do
        obj["field " .. i] = i
        obj.x = i
        coroutine.yield()
      end
    end)
    return true
  end)
  local outside = coroutine.wrap(function()
    local _ <close> = mw.batch()
    coroutine.yield()
  end)
  outside()
  repeat
    obj.y = not obj.y
    check(heard == obj.y)
  until run()
  check(heard == 40)
end

-- What is not remembered is new the next time.
function scenarios.seen()
  look_back()
  local mw = require "moonwatch"
  local seen, a, b = mw.once(2), {}, {}
  for i = 0, 2 do
    local key = i == 0 and a or i == 1 and b or "key " .. i
    local known = seen:len()
    check(whole(function()
      return seen:len() == known and seen(key) and not seen(key) and
        seen "x" and seen "y" and seen(key) and seen "x" and not seen(key) and
        seen:len() == 2
    end, seen, key))
  end
  check(#seen == 2 and seen(a))
  seen:clear()
  check(seen:len() == 0 and seen(a))
end

function scenarios.names()
  look_back()
  local mw = require "moonwatch"
  local scope, owner = {}, {}
  local handle = whole(function() return scope.name == nil end,
    mw.cleanup, scope, "name", 1)
  local pending = handle:pending()
  check(handle:alive() and scope.name == 1)
  whole(function() return handle:alive() and scope.name == 1 end,
    mw.cleanup_for, owner, handle)
  handle:run()
  check(not handle:alive() and handle:pending() == pending - 1)
  check(mw.normalize_name "L.x[1].y" == "L['x'][1]['y']")
  check(mw.diff(mw.object_like {}, {})[1] == nil)
  check(mw.diff(mw.array {}, {})[1] == nil)
end

-- What a rule of a file is shown, is there and cannot be changed.
function scenarios.views()
  look_back()
  local mw = require "moonwatch"
  local class = { inherited = "yes", inner = { deep = {} } }
  class.__index = class
  local obj = setmetatable({ x = 1 }, class)
  mw.track(obj)
  local policy, message = mw.load_policy "spec/support/showing_policy.lua"
  if not policy then error(message, 0) end
  local former = policy:use()
  local ok, shown = pcall(mw.is_dynamic, obj)
  former:use()
  if not ok then error(shown, 0) end
  if not shown then error("not enough memory", 0) end
  check(shown.is and shown.now == mw.clock():now())
  check(shown.inherited == "yes" and #shown.entries == 3)
  check(shown.class.inner.deep ~= class.inner.deep)
  check(shown.index == shown.class and shown.raw.x == 1)
  local n = 0
  for key, value in pairs(shown.class) do
    n = n + 1
    check(class[key] == value or type(value) == "table")
  end
  check(n == 3)
  ok, message = pcall(function() shown.class.x = 1 end)
  check(not ok and class.x == nil)
  if not message:find "read%-only" then error(message, 0) end
end

-- A box answers, or there is no memory; nothing of it stays.
function scenarios.boxes()
  look_back()
  local mw = require "moonwatch"
  local hook = debug.gethook()
  local function is_free() return debug.gethook() == hook and
    ("x").rep == string.rep end
  local box = whole(is_free, mw.sandbox,
    { env = { print = print, n = 5 }, name = "box", memory = 1000000 })
  local add = whole(is_free, function()
    local f, message = box:load "return n + ..., ('x'):rep(3), {}"
    if not f then error(message, 0) end
    return f
  end)
  whole(is_free, function()
    local ok, n, text = box:call(add, 2)
    if not ok then error(n, 0) end
    check(n == 7 and text == "xxx")
  end)
  whole(is_free, function()
    local f, message = box:load [[
      local co = coroutine.wrap(function(s) coroutine.yield(s:find "b+") end)
      local t = { co "abc" }
      table.sort(t)
      for _, c in utf8.codes "ab" do t[#t + 1] = c end
      for k in pairs(t) do t[k] = nil end
      error {}]]
    if not f then error(message, 0) end
    local ok
    ok, message = box:call(f)
    if not message:find "error object" then error(message, 0) end
    check(not ok)
  end)
  local instructions, bytes = box:used()
  check(instructions > 0 and bytes > 0)
end

function scenarios.policies_from_files()
  look_back()
  local mw = require "moonwatch"
  local path = "spec/support/failing_policy.lua"
  local policy, message = mw.load_policy(path)
  if not policy then error(message, 0) end
  local class = { fixed = "x" }
  class.__index = class
  local function is_whole()
    local former = policy:use()
    local value = mw.is_dynamic(setmetatable({}, class))
    former:use()
    return value == "fixed: x"
  end
  check(not policy:poll())
  check(whole(is_whole, policy.reload, policy))
  check(is_whole())
end

function scenarios.rules()
  local mw = require "moonwatch"
  local parent = { inherited = "yes", __len = function() end }
  parent.__index = parent
  local policy = mw.policy { rules = { { "asks", function(obj, ctx)
    return ctx.lookup(obj, "inherited") == "yes" and
      ctx.metamethod(obj, "__len") ~= nil and ctx.class(obj) == parent and
      ctx.raw(obj) ~= obj and not ctx.is_marked(parent)
  end } } }
  local obj = setmetatable({}, parent)
  mw.track(obj)
  local former = policy:use()
  local ok, value = pcall(mw.is_dynamic, obj)
  former:use()
  if not ok then error(value, 0) end
  if value ~= true then
    for _, err in pairs(policy.errors) do
      error(err:match "not enough memory", 0)
    end
  end
  check(value)
end

-- A policy is in force or it is not; without memory, methods may stay wrapped.
function scenarios.used()
  look_back()
  local mw = require "moonwatch"
  local class = { __name = "Used" }
  class.__index = class
  function class.hit() end
  local hit, heard = class.hit, 0
  local obj = setmetatable({}, class)
  mw.watch(obj, function() heard = heard + 1 end, { once = false })
  local policy = mw.policy {
    rules = { { "all", function() return true end } },
    classes = { [class] = { mutators = { "hit" } } },
  }
  local former
  local function is_not_used()
    obj:hit()
    return not mw.is_dynamic(obj)
  end
  former = whole(is_not_used, policy.use, policy)
  check(mw.is_dynamic(obj) == true)
  obj:hit()
  check(heard == 1)
  whole(function(had_memory)
    obj:hit()
    local value = mw.is_dynamic(obj)
    former:use()
    return value == true and (heard == 2 and class.hit == hit or
      not had_memory)
  end, former.use, former)
  check(class.hit == hit)
end

-- Fields of the library's objects, of which some can be read and none be set.
function scenarios.fields()
  look_back()
  local mw = require "moonwatch"
  local map, policy = mw.weakmap(), mw.policy {}
  local hook = mw.plan():hook({}, "event", check)
  local h = mw.hierarchy { class_name = function() return "Name" end }
  local scope <close> = h:scope {}
  check(scope.name == "Name" and hook.index == 0 and not next(policy.errors))
  for _, object in ipairs { map, policy, hook, scope } do
    local ok, err = pcall(function() object.vlaid = true end)
    if err == "not enough memory" then error(err, 0) end
    check(not ok and err:find "field 'vlaid' of the " and not object.vlaid)
  end
end

-- Effects that are taken back, and made again.
function scenarios.taken_back()
  look_back()
  local mw = require "moonwatch"
  local obj = mw.track { x = 1 }
  local done, fx = mw.transaction(function() obj.x = 2 end)
  if not done then error(fx, 0) end
  whole(function() return obj.x == 2 end, fx.rollback, fx)
  check(obj.x == 1)
  whole(function() return obj.x == 1 end, fx.apply, fx)
  check(obj.x == 2)
  whole(function() return obj.x == 2 end, fx.rollback, fx)
end

function scenarios.examples()
  local mw = require "moonwatch"
  local opts = { keep = 2 }
  local report, other = mw.dynamism(nil, opts), mw.dynamism(nil, opts)
  for i = 1, 3 do
    report:add { i = i, t = { "a", i / 2 } }
    other:add { i = -i, t = { "b" } }
  end
  check(report:merge(other) == report and report:examples() == 6)
  local changes = report:changes()
  check(changes["L['i']"].min == -3 and changes["L['t']"].length.max == 2)
  local spec = mw.infer(report)
  check(next(spec:constants()) == nil and spec:varying()["L['i']"].max == 3)
  local source, message = spec:to_lua()
  if not source then error(message, 0) end
  local chunk
  chunk, message = load(source)
  if not chunk then error(message, 0) end
  check(chunk()({ i = 0, t = { "a" } }))
  local copy = mw.skeleton { { shape = { 2 } }, { x = 1 } }
  check(copy[1].meta and copy[1].shape[1] == 2 and copy[2].x == 1)
  local nested = mw.to_nested { n = 1, p = { shape = { 1 } } }
  check(nested.n == 1 and nested._parameters.p)
end

-- Returns how many items an iterator has.
local function count(iterator)
  local n = 0
  for _ in iterator do n = n + 1 end
  return n
end

function scenarios.feeds()
  look_back()
  collectgarbage() -- finds a transaction that Lua had no memory to close
  local mw = require "moonwatch"
  local gone = { inner = {} }
  local root = { list = { { n = 1 }, { n = 2 } }, gone = gone }
  root[root.list] = gone.inner
  local anywhere <close> = mw.feed { capacity = 1000 }
  local feed = whole(function(had_memory)
    return not had_memory or getmetatable(root) == nil
  end, function()
    return mw.feed { root = root, not_from = "network" }
  end)
  local function write()
    mw.origin("network", function() root.list[1].n = 3 end)
    local tx <close> = mw.begin()
    root.list[2].n = 4
    table.remove(root.list, 1)
    root.gone = nil
    root.new = { { text = ("text"):rep(100) }, gone.inner }
    tx:commit()
  end
  write()
  check(feed:pending() + feed:lost() == 6, "waiting or lost")
  -- list[1], list[2], list[1].n, gone, new, new[1], new[1].text, new[2], and
  -- what has left: the first of the list, gone
  local function changes() return count(feed:changes()) == 10 end
  local function is_waiting()
    return feed:lost() > 0 or feed:pending() == 0 or changes()
  end
  whole(is_waiting, function()
    check(changes() or feed:lost() > 0, "changes")
  end)
  for i = 1, 40 do root.list[1].n = i end
  gone.inner.n = 1
  check(count(feed:read()) == 41 or feed:lost() > 0, "entries")
  check(count(anywhere:changes()) > 0)
  root.gone = gone
  check(count(feed:changes()) == 2 or feed:lost() > 0, "come back")
  check(feed:seq() == anywhere:seq() + anywhere:pending())
  check(feed:lost() >= 0)
  local bytes, seq = mw.snapshot(root)
  root.list[1].n = 0
  local late <close> = mw.feed { root = root, since = seq }
  check(bytes and (late and late:pending() == 1 or feed:lost() > 0), "late")
  feed:close()
  if late then late:close() end
  check(getmetatable(root) == nil, "still tracked")
  check(not mw.feed { root = root, since = seq }, "since untracked")
  check(getmetatable(root) == nil, "tracked for nothing")
end

function scenarios.snapshots()
  look_back()
  local mw = require "moonwatch"
  local live = { list = { { n = 1 } }, n = 0.5 }
  live.by = { [live.list] = "list" }
  local bytes, why = mw.snapshot(live)
  if not bytes then error(why, 0) end
  local copy
  copy, why = mw.restore(bytes)
  if not copy then error(why, 0) end
  check(copy.list[1].n == 1 and copy.by[copy.list] == "list")
  local first = live.list[1]
  local function before() return live.n == 2 and first.n == 3 and live.more end
  live.n, first.n, live.more = 2, 3, {}
  local root = whole(function(had_memory) return before() or not had_memory end,
    function()
      local done, problem = mw.restore(bytes, { into = live })
      if not done then error(problem, 0) end
      return done
    end)
  check(live.n == 0.5 and first.n == 1 and not live.more)
  check(root == live and live.list[1] == first)
end

function scenarios.hashes()
  look_back()
  local mw = require "moonwatch"
  local function hash(root)
    local result, why = mw.hash(root)
    if not result then error(why, 0) end
    return result
  end
  local function yes() return true end
  local live = mw.track({ list = { { n = 1 } } }, { deep = true })
  local one = hash { list = { { n = 1 } } }
  check(whole(yes, hash, live) == one)
  local other = { list = { { n = 2 } } }
  live.list[1].n = 2
  for i = 2, 40 do
    live.list[i] = { live.list }
    other.list[i] = { other.list }
  end
  other.list[41] = { [other.list[1]] = true }
  live.list[41] = { [live.list[1]] = true }
  check(whole(yes, hash, live) == hash(other))
end

return scenarios

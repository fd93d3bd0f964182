-- The ways of watches.  A statement is one that a user writes; each way of
-- ways.statements makes what the statement needs and returns
--
--   run          run(count) does the statement so many times
--   start, stop  what comes before the runs that are measured, and after them
--
-- What must live meanwhile are upvalues of `run`.

local floor = require "floor"
local mw = require "moonwatch"
local proxies = require "proxies"

local ways = { statements = {} }
local statements = ways.statements

local function nothing() end

local function heard() end

local KEPT, ONCE = { once = false }, { once = true }

local function new_fields() return { x = 1, y = 2 } end

-- Statements ------------------------------------------------------------

-- Does nothing: what the loop itself costs.
function statements.loop()
  return function(count)
    for _ = 1, count do end -- luacheck: ignore 542
  end, nothing, nothing
end

-- obj.x = i.  `kept` lives as long.
local function writing(obj, kept)
  return function(count)
    for i = 1, count do obj.x = i end
    assert(obj.x == count)
    return kept
  end, nothing, nothing
end

local function reading(obj)
  return function(count)
    local x
    for _ = 1, count do x = obj.x end
    assert(x == obj.x)
  end, nothing, nothing
end

-- Nobody waits ----------------------------------------------------------

local function new_shadow(new_write)
  local shadow = new_fields()
  local meta = { __index = shadow, __newindex = new_write(shadow) }
  return setmetatable({}, meta)
end

-- The least that a __newindex costs: a C closure that stores.
function ways.new_floor() return new_shadow(floor.store) end

function statements.floor() return writing(ways.new_floor()) end

-- A proxy that counts, and remembers the value before.
function statements.counting()
  local count, before = 0, nil
  local obj = new_shadow(function(shadow)
    return function(_, k, v)
      count = count + 1
      local old = shadow[k]
      before = old
      shadow[k] = v
    end
  end)
  return writing(obj, function() return count, before end)
end

local function new_watched(guard, opts)
  local obj = new_fields()
  return obj, mw.watch(obj, guard or heard, opts or KEPT)
end

function statements.cancelled()
  local obj, handle = new_watched()
  handle:cancel()
  return writing(obj)
end

-- One-shot watches of this object and of others, all of which have fired.
function statements.fired()
  local objects = {}
  for i = 1, 100 do
    objects[i] = new_fields()
    mw.watch(objects[i], heard, ONCE)
    mw.watch(objects[i], mw.guard(), ONCE)
    mw.watch(objects[i], { invalidate = heard }, ONCE)
  end
  for i = 1, 100 do objects[i].x = 0 end
  return writing(objects[1], objects)
end

-- Others are waited for.
function statements.others()
  local objects = {}
  for i = 1, 100 do objects[i] = new_watched() end
  local obj, handle = new_watched()
  handle:cancel()
  return writing(obj, objects)
end

function statements.tracked() return writing(mw.track(new_fields())) end

-- Another key -----------------------------------------------------------

local function waiting_for(new_opts, count)
  local obj, handles = new_fields(), {}
  for i = 1, count do handles[i] = mw.watch(obj, heard, new_opts(i)) end
  return writing(obj, handles)
end

local function other_key() return { key = "y", once = false } end

function statements.other_key() return waiting_for(other_key, 1) end

function statements.other_key_100() return waiting_for(other_key, 100) end

function statements.other_keys_100()
  return waiting_for(function(i)
    return { key = "key " .. i, once = false }
  end, 100)
end

function statements.other_list()
  local keys = {}
  for i = 1, 100 do keys[i] = "key " .. i end
  return waiting_for(function() return { keys = keys, once = false } end, 1)
end

-- Guards that have died wait for another key.
function statements.other_key_dead()
  local obj = new_fields()
  for _ = 1, 1000 do
    mw.watch(obj, { invalidate = heard }, other_key())
    mw.watch(obj, mw.guard(), other_key())
  end
  return writing(obj)
end

-- A thousand watches of another key have been cancelled.
function statements.other_key_cancelled()
  local obj = new_fields()
  for _ = 1, 1000 do mw.watch(obj, heard, other_key()):cancel() end
  return writing(obj)
end

-- Somebody waits --------------------------------------------------------

function statements.flag()
  local flag = mw.guard()
  return writing(new_watched(flag), flag)
end

function statements.proxy_flag()
  local flag = { valid = true }
  return writing(proxies.flagged(new_fields(), flag), flag)
end

function statements.guard() return writing((new_watched())) end

function statements.check()
  return writing(new_watched(heard, { phase = "check" }))
end

function statements.of_class()
  local class = {}
  class.__index = class
  local obj = setmetatable(new_fields(), class)
  mw.watch(obj, heard):cancel()
  return writing(obj)
end

local function new_method()
  local class = { x = heard }
  class.__index = class
  return class
end

function statements.read_chain()
  return reading(setmetatable({}, { __index =
    setmetatable({}, new_method()) }))
end

function statements.read_method()
  local obj = setmetatable({ y = 1 }, new_method())
  mw.watch(obj, heard, KEPT)
  return reading(obj)
end

local function fields_1000()
  local obj = {}
  for i = 1, 1000 do obj["field" .. i] = i end
  return obj
end

function statements.loop_1000()
  local obj = fields_1000()
  return function(count)
    for _ = 1, count do
      for k, v in pairs(obj) do heard(obj, k, nil, v, "existing") end
    end
  end, nothing, nothing
end

function statements.existing_1000()
  local obj = fields_1000()
  local opts = { existing = true, once = false }
  mw.watch(obj, heard, KEPT)
  return function(count)
    for _ = 1, count do mw.watch(obj, heard, opts):cancel() end
  end, nothing, nothing
end

function statements.proxy() return writing(proxies.new(new_fields(), heard)) end

function statements.guards_10()
  local obj = new_fields()
  for _ = 1, 10 do mw.watch(obj, heard, KEPT) end
  return writing(obj)
end

function statements.proxy_10()
  local listeners = {}
  for i = 1, 10 do listeners[i] = heard end
  return writing(proxies.with_many(new_fields(), listeners))
end

function statements.method()
  local guard = { invalidate = heard }
  return writing(new_watched(guard), guard)
end

function statements.key()
  return writing((new_watched(heard, { key = "x", once = false })))
end

function statements.proxy_key()
  return writing(proxies.by_key(new_fields(), { x = heard }))
end

function statements.after()
  return writing((new_watched(heard, { phase = "after", once = false })))
end

-- Below -----------------------------------------------------------------

-- A root, and what is so many tables below.
local function new_tree(depth)
  local root = new_fields()
  local at = root
  for _ = 1, depth do
    at.below = new_fields()
    at = at.below
  end
  return root
end

-- The lowest table.
local function bottom(root)
  while root.below do root = root.below end
  return root
end

local function below(depth, guard)
  local root = new_tree(depth)
  local handle = mw.watch(root, guard, { deep = true, once = false })
  local run, start, stop = writing(bottom(root), { root, guard })
  return run, start, stop, handle
end

function statements.below_2() return below(2, heard) end

function statements.below_3() return below(3, heard) end

function statements.below_10() return below(10, heard) end

function statements.below_flag() return below(3, mw.guard()) end

-- A root that nobody hears any more.
function statements.below_cancelled()
  local run, start, stop, handle = below(3, heard)
  handle:cancel()
  return run, start, stop
end

-- A one-shot watch of the root has fired.
function statements.below_fired()
  local root = new_tree(3)
  mw.watch(root, heard, { deep = true, once = true })
  bottom(root).x = 0
  return writing(bottom(root), root)
end

-- Another root is heard, which does not lead here.
function statements.below_others()
  local other = new_tree(3)
  mw.watch(other, heard, { deep = true, once = false })
  local root = mw.track(new_tree(3), { deep = true })
  return writing(bottom(root), { root, other })
end

function statements.below_tracked()
  local root = mw.track(new_tree(3), { deep = true })
  return writing(bottom(root), root)
end

function statements.proxy_below_3()
  local root = proxies.deep(new_tree(3), heard)
  return writing(bottom(root), root)
end

function statements.proxy_below_10()
  local root = proxies.deep(new_tree(10), heard)
  return writing(bottom(root), root)
end

function statements.proxy_below_flag()
  local flag = { valid = true }
  local root = proxies.deep_flagged(new_tree(3), flag)
  return writing(bottom(root), root)
end

-- Batches, transactions, traces -----------------------------------------

local function write_two(obj, i)
  obj.x = i
  obj.y = i
end

-- A batch of two writes.
local function batching(obj, batch)
  return function(count)
    for i = 1, count do batch(write_two, obj, i) end
  end, nothing, nothing
end

function statements.batch() return batching(new_watched(), mw.batch) end

function statements.proxy_batch()
  return batching(proxies.batched(new_fields(), heard), proxies.batch)
end

local function write_many(obj, count)
  for i = 1, count do obj.x = i end
end

-- One batch of many writes.
local function batched(obj, batch)
  return function(count) batch(write_many, obj, count) end, nothing, nothing
end

function statements.in_batch() return batched(new_watched(), mw.batch) end

function statements.proxy_in_batch()
  return batched(proxies.batched(new_fields(), heard), proxies.batch)
end

function statements.in_transaction()
  local obj, tx = mw.track(new_fields()), nil
  mw.watch(obj, heard, KEPT)
  return writing(obj), function() tx = mw.begin() end,
    function() tx:commit() end
end

function statements.proxy_in_transaction()
  local log = {}
  return writing(proxies.logged(new_fields(), heard, log)),
    function() log.entries = {} end, function() log.entries = false end
end

local CAPACITY = 65536

function statements.traced()
  local trace = mw.trace { capacity = CAPACITY, sources = { "watch" } }
  return writing((new_watched())), function() trace:start() end,
    function() trace:stop() end
end

function statements.proxy_traced()
  return writing(proxies.traced(new_fields(), heard, CAPACITY))
end

-- Reading ---------------------------------------------------------------

function statements.read_shadow()
  return reading(new_shadow(function(shadow) return shadow end))
end

function statements.read() return reading((new_watched())) end

local function walking(t)
  return function(count)
    local n = 0
    for _ = 1, count do
      for _ in pairs(t) do n = n + 1 end
    end
    assert(n == 100 * count)
  end, nothing, nothing
end

local function new_record()
  local t = {}
  for i = 1, 100 do t["field " .. i] = i end
  return t
end

local function new_list(count)
  local t = {}
  for i = 1, count do t[i] = i end
  return t
end

local function watch(obj)
  mw.watch(obj, heard, KEPT)
  return obj
end

function statements.pairs_plain() return walking(new_record()) end

function statements.pairs() return walking(watch(new_record())) end

function statements.pairs_proxy()
  return walking(proxies.with_pairs(new_record()))
end

function statements.pairs_list_plain() return walking(new_list(100)) end

function statements.pairs_list() return walking(watch(new_list(100))) end

-- Lists -----------------------------------------------------------------

local LENGTH = 30

local function measuring(t)
  return function(count)
    local n
    for _ = 1, count do n = #t end
    assert(n == LENGTH)
  end, nothing, nothing
end

-- An element comes at the front and goes.
local function at_front(t)
  local insert, remove = table.insert, table.remove
  return function(count)
    for i = 1, count do
      insert(t, 1, i)
      remove(t, 1)
    end
    assert(#t == LENGTH)
  end, nothing, nothing
end

-- ... and at the back.
local function at_back(t)
  return function(count)
    for i = 1, count do
      t[#t + 1] = i
      t[#t] = nil
    end
    assert(#t == LENGTH)
  end, nothing, nothing
end

-- A list for which nobody waits.
local function new_quiet()
  local list = new_list(LENGTH)
  mw.watch(list, heard):cancel()
  return list
end

local function new_heard() return watch(new_list(LENGTH)) end

local function new_proxy() return proxies.list(new_list(LENGTH)) end

local function new_calling() return proxies.list(new_list(LENGTH), heard) end

function statements.length() return measuring(new_quiet()) end

function statements.length_proxy() return measuring(new_proxy()) end

function statements.front() return at_front(new_quiet()) end

function statements.front_proxy() return at_front(new_proxy()) end

function statements.front_heard() return at_front(new_heard()) end

function statements.front_calling() return at_front(new_calling()) end

function statements.back() return at_back(new_quiet()) end

function statements.back_proxy() return at_back(new_proxy()) end

function statements.back_heard() return at_back(new_heard()) end

function statements.back_calling() return at_back(new_calling()) end

-- Many objects ----------------------------------------------------------

local guard = mw.guard()

function ways.watch(list)
  for i = 1, #list do mw.watch(list[i], guard) end
end

function ways.watch_unwatch(list)
  for i = 1, #list do
    mw.watch(list[i], guard)
    mw.unwatch(list[i])
  end
end

function ways.watch_deeply(list)
  mw.watch(list, guard, { deep = true })
  mw.unwatch(list)
end

-- The first watch of each, which stays.
function ways.first_watch(list)
  for i = 1, #list do mw.watch(list[i], heard, KEPT) end
end

function ways.first_proxy(list)
  for i = 1, #list do list[i] = proxies.new(list[i], heard) end
end

-- In pure Lua: moves two fields to a shadow, and back.
local function hide(obj)
  local shadow = { x = obj.x, y = obj.y }
  obj.x, obj.y = nil, nil
  return setmetatable(obj, { __index = shadow, __newindex = shadow })
end

local function show(obj)
  local shadow = getmetatable(obj).__index
  setmetatable(obj, nil)
  obj.x, obj.y = shadow.x, shadow.y
end

function ways.hide(list)
  for i = 1, #list do hide(list[i]) end
end

function ways.hide_show(list)
  for i = 1, #list do
    hide(list[i])
    show(list[i])
  end
end

-- Memory ----------------------------------------------------------------

-- Each fills a list with objects, all of which it makes.
ways.live = {}

function ways.live.plain(list)
  for i = 1, #list do list[i] = new_fields() end
end

function ways.live.proxy(list)
  for i = 1, #list do list[i] = proxies.new(new_fields(), heard) end
end

function ways.live.watched(list)
  for i = 1, #list do list[i] = new_watched() end
end

-- Each returns a large table.
ways.large = {}

local function new_array()
  local t = {}
  for i = 1, 1 << 17 do t[i] = i end
  return t
end

local function new_fields_of_many()
  local t = {}
  for i = 1, 1 << 16 do t[i + 0.5] = i end
  return t
end

ways.large.array = new_array
ways.large.fields = new_fields_of_many

function ways.large.watched_array() return watch(new_array()) end

function ways.large.watched_fields() return watch(new_fields_of_many()) end

-- Guards ----------------------------------------------------------------

-- Each makes guards, and returns them and a function that makes all invalid.
ways.guards = {}

function ways.guards.pure(count)
  local guards = {}
  for i = 1, count do guards[i] = { valid = true } end
  return guards, function()
    for i = 1, count do guards[i].valid = false end
  end
end

function ways.guards.one_write(count)
  local obj, guards = new_fields(), {}
  for i = 1, count do
    guards[i] = mw.guard()
    mw.watch(obj, guards[i], ONCE)
  end
  return guards, function() obj.x = 2 end
end

-- Each makes so many cells, each computed from the one before by a guard, and
-- returns the first and the last.
ways.cells = {}

function ways.cells.watched(count)
  local cells = {}
  for i = 1, count do cells[i] = { value = 0 } end
  for i = 1, count - 1 do
    mw.watch(cells[i], function(_, _, _, new)
      cells[i + 1].value = new + 1
    end, KEPT)
  end
  return cells[1], cells[count]
end

function ways.cells.proxies(count)
  local cells = {}
  for i = 1, count do
    cells[i] = proxies.new({ value = 0 }, i < count and
      function(_, _, _, new) cells[i + 1].value = new + 1 end or nil)
  end
  return cells[1], cells[count]
end

-- Adds these to the others.
return function(all)
  for name, way in pairs(ways) do all[name] = way end
end

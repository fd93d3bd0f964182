-- Random programs of coroutines that are dropped, closed or left in the middle
-- of transactions, batches, origins and steps of histories, while the collector
-- runs in the middle of calls of every kind.  Objects of the program have
-- finalisers that write, cancel, close, read, and call what the library refuses
-- while it is at work.
--
-- What the program writes is kept as a plain list for each field.  A
-- transaction that was lost is taken back sometime; when does not matter, since
-- a rollback leaves the field as if the writes had never been made: once all is
-- collected, a field has the last value that was not taken back.  Where it
-- depends on the time of a collection who owns a write, the field is unsure,
-- and only those who follow it (a feed, a guard) are compared.
--
-- Half of the programs are loose: all their fields are unsure, since they drop
-- handles and go on, and finalisers write what others write.
--
-- A program is a list of numbers, one a step.

local mw = require "moonwatch"
local worlds = require "spec.support.worlds"

local lost_world = {}

local OBJECTS, JOBS, DEPTH = 6, 6, 5
local KEYS = { "a", "b", "c", 1, 2, 3, ("long "):rep(20) }
local FAIL, ALL = { "one level fails" }, { "the coroutine fails" }
local AT_WORK = "the library is at work"
local UNDER_WAY = "while a run is under way" -- of the history

local World = {}
World.__index = World

function World:say(text, ...)
  self.lines[#self.lines + 1] = text:format(...)
end

-- Notes what is wrong where nothing can raise.
function World:complain(text, ...)
  self.wrong = self.wrong or text:format(...)
end

-- {======================================================
-- The model
-- =======================================================

-- The jobs that run or wait, the outermost first.  A finaliser of one world
-- may run while another world runs: it writes for a job of that one.
local stack = {}

-- Is a transaction about to begin or end?
local unsure = false

-- Returns the transaction that owns what the innermost job does.
local function owner_now()
  local its = stack[#stack]
  local found = its.open[#its.open]
  if found then return found end
  for i = 1, #stack - 1 do
    local last = stack[i].open[#stack[i].open]
    if last and (not found or last.order > found.order) then found = last end
  end
  return found
end

-- Returns the transaction that owns a write made now, and whether that is
-- unsure.
local function owner_of_write()
  local its = stack[#stack]
  if not its then return nil end
  if unsure or its.loose or its.co ~= coroutine.running() then
    return nil, true
  end
  return owner_now()
end

local order = 0

local function begin(its)
  order = order + 1
  local owner = { order = order, parent = owner_now(), state = "open",
    job = its, chains = {} }
  its.open[#its.open + 1] = owner
  return owner
end

local function finish(owner, state)
  local open = owner.job.open
  for i = #open, 1, -1 do
    if open[i] == owner then table.remove(open, i) end
  end
  owner.state = state
  if state ~= "committed" then return end
  local parent = owner.parent
  while parent and parent.state ~= "open" do
    -- nobody knows whether a lost one was open at this time
    if parent.state == "lost" then
      for _, chain in ipairs(owner.chains) do chain.unsure = true end
    end
    parent = parent.parent
  end
  owner.into = parent
  if not parent then return end
  table.move(owner.chains, 1, #owner.chains, #parent.chains + 1,
    parent.chains)
end

local function is_final(owner)
  while owner do
    if owner.state ~= "committed" then return false end
    owner = owner.into
  end
  return true
end

function World:note_write(i, key, value)
  local fields = self.fields[i]
  local chain = fields[key]
  if not chain then
    chain = { { value = nil } }
    fields[key] = chain
  end
  local owner, is_unsure = owner_of_write()
  self:say("  %d.%s = %s, of %s", i, tostring(key):sub(1, 12),
    self.numbers[value] or value, owner and owner.order)
  if is_unsure then chain.unsure = true end
  chain[#chain + 1] = { value = value, owner = owner }
  if owner then owner.chains[#owner.chains + 1] = chain end
end

-- }======================================================

-- {======================================================
-- Finalisers
-- =======================================================

function World:object(choose) return self.objects[choose(OBJECTS)] end

function World:value(choose)
  self.serial = self.serial + 1
  local kind = choose(8)
  if kind == 1 then return nil end
  if kind == 2 then return self:object(choose) end
  return kind == 3 and "text " .. self.serial or self.serial
end

function World:write(choose)
  local i, key, value = choose(OBJECTS), KEYS[choose(#KEYS)],
    self:value(choose)
  self:note_write(i, key, value)
  self.objects[i][key] = value
end

-- Both fields always have the same value, where no finaliser writes them: no
-- transaction ends between them, but one that a loose program has lost.
function World:write_pair(object)
  local its = stack[#stack]
  if its and its.loose then self.torn = true end
  self.serial = self.serial + 1
  local value = self.serial
  object.x = value
  object.y = value
end

-- What reads, in whatever middle.
local READS = {
  function(self, choose) return mw.id(self:object(choose)) end,
  function(self) return self.feed:pending() + self.feed:seq() end,
  function(self) return self.slow:lost() end,
  function(self) return self.recorder:len() + self.recorder:lost() end,
  function(self, choose)
    return tostring(mw.why(self:object(choose), KEYS[choose(#KEYS)]))
  end,
  function(self, choose)
    local key = KEYS[choose(#KEYS)]
    return tostring(self.recorder:why(self:object(choose), key))
  end,
  function(self, choose)
    local object, seq = self:object(choose), self.feed:seq()
    return self.recorder:past(object, seq, { deep = choose(2) == 1 })
  end,
  function(self) return self.history:can_undo() end,
  function(self) return self.history:labels() end,
  function(self, choose) return mw.is_watched(self:object(choose)) end,
  function(self, choose) return mw.mutations(self:object(choose)) end,
  function(self) return mw.hash(self.root) end,
  function(self) return mw.snapshot(self.root) end,
  function(self) return mw.plain(self.root) end,
  function(self, choose) return mw.paths(self.root, self:object(choose)) end,
  function(self) return self.memo:valid() end,
  function(self) return #self.map end,
  function(self, choose)
    local n = 0
    for _ in pairs(self:object(choose)) do n = n + 1 end
    return n
  end,
  function() return mw.memory().total end,
}

-- What the library refuses while it is at work.
local CALLS = {
  function(self)
    local tx = mw.begin()
    self:write_pair(self.late)
    tx:commit()
  end,
  function(self)
    mw.transaction(function() self:write_pair(self.late) end)
  end,
  function(self)
    mw.transaction(function()
      self:write_pair(self.late)
      error(FAIL, 0)
    end)
  end,
  function(self)
    mw.batch(function() self:write_pair(self.late) end)
  end,
  function(self)
    mw.origin("finaliser", function() self:write_pair(self.late) end)
  end,
  function(self)
    self.history:run("finaliser", function() self:write_pair(self.late) end)
  end,
  function(self) self.history:undo() end,
  function(self) self.history:redo() end,
  function(self) for _ in self.slow:changes() do end end,
  function(self) for _ in self.slow:read() do end end,
  function(self, choose)
    self.watches[#self.watches + 1] =
      mw.watch(self:object(choose), function() end, { once = false })
  end,
  function() mw.track({ a = { b = {} } }, { deep = true }).a.b = nil end,
  function(self) self.memo() end,
  function(self) mw.feed { root = self.root } end,
  function() mw.recorder { capacity = 10 } end,
  function(self)
    local bytes = self.bytes
    if bytes then mw.restore(bytes, { into = self.side.doc }) end
  end,
  function(self, choose) self.map:set(self:object(choose), {}) end,
  function() mw.reap() end,
}

local FINALISERS = {
  function(self) -- a field of its own
    self.fields_of_finalisers = self.fields_of_finalisers + 1
    local n = self.fields_of_finalisers
    local i, key = n % OBJECTS + 1, "finaliser " .. n
    self:note_write(i, key, n)
    -- the next call tells of what is written now, whoever makes that call
    if not pcall(mw.guard) then self.fields[i][key].unsure = true end
    self.objects[i][key] = n
  end,
  function(self, choose) -- of all
    if self.loose then
      self:write(choose)
    else
      self.side.list[choose(3)] = choose(9)
    end
  end,
  function(self, choose)
    local watch = table.remove(self.watches, choose(#self.watches + 1))
    if watch then watch:cancel() end
  end,
  function(self)
    local feed = table.remove(self.feeds)
    if feed then feed:close() end
  end,
  function(self, choose) READS[choose(#READS)](self, choose) end,
  function(self, choose) READS[choose(#READS)](self, choose) end,
  function(self, choose)
    local n = choose(#CALLS)
    local ok, err = pcall(CALLS[n], self, choose)
    if ok then return end
    self.refused = (self.refused or 0) + 1
    local text = tostring(err)
    if not text:find(AT_WORK, 1, true) and not text:find(UNDER_WAY, 1, true)
    then
      error(("call %d: %s"):format(n, text), 0)
    end
  end,
}

local function close(scope) local _ <close> = scope end

local Mortal = {}

function Mortal:__gc()
  local world, choose = self.world, worlds.chooser(self.number)
  local what, ok, err = "of a scope"
  if self.scope then
    ok, err = pcall(close, self.scope)
  else
    what = choose(#FINALISERS)
    ok, err = pcall(FINALISERS[what], world, choose)
  end
  if not ok then
    world:complain("finaliser %s: %s", what, tostring(err))
  end
end

-- Returns an object whose finaliser does something, or closes a scope.
function World:mortal(choose, scope)
  return setmetatable({ world = self, number = choose(1 << 30),
    scope = scope }, Mortal)
end

-- }======================================================

-- {======================================================
-- Steps
-- =======================================================

local actions = {}

function actions.write(self, _, choose)
  for _ = 1, choose(4) do self:write(choose) end
end

-- Only the coroutine has the handle, and perhaps an object that closes it.
function actions.begin(self, its, choose, depth)
  unsure = true
  local tx = mw.begin()
  local owner = begin(its)
  unsure = false
  self:say("begin of %d", its.id)
  local _ = choose(2) == 1 and self:mortal(choose, tx)
  local how = self:level(its, depth + 1)
  if how == "all" or (self.loose and choose(4) == 1) then
    self:say("leave in %d", its.id)
    finish(owner, "lost")
    return how
  end
  self:say("%s in %d", how, its.id)
  unsure = true
  if how == "return" then tx:commit() else tx:rollback() end
  finish(owner, how == "return" and "committed" or "rolled back")
  unsure = false
end

function actions.block(self, its, _, depth)
  local how
  do
    unsure = true
    local tx <close> = mw.begin "block"
    local owner = begin(its)
    unsure = false
    self:say("block of %d", its.id)
    how = self:level(its, depth + 1)
    unsure = true
    if how == "return" then tx:commit() end
    finish(owner, how == "return" and "committed" or "rolled back")
  end
  unsure = false
  self:say("end of block, %s in %d", how, its.id)
  return how == "all" and how or nil
end

-- Calls call(fn) with a function that does steps in a transaction.
local function transaction(self, its, depth, call)
  local owner, how
  unsure = true
  local ok, err = call(function()
    owner = begin(its)
    unsure = false
    how = self:level(its, depth + 1)
    unsure = true
    if how ~= "return" then error(how == "fail" and FAIL or ALL, 0) end
  end)
  if not ok and err ~= FAIL and err ~= ALL then error(err, 0) end
  finish(owner, ok and "committed" or "rolled back")
  unsure = false
  self:say("end of transaction, %s in %d", how, its.id)
  return how == "all" and how or nil
end

function actions.transaction(self, its, _, depth)
  self:say("transaction of %d", its.id)
  return transaction(self, its, depth, mw.transaction)
end

-- A run in a run is part of it.
function actions.run(self, its, choose, depth)
  if its.runs then return end
  its.runs = true
  self:say("run of %d", its.id)
  local how = transaction(self, its, depth, function(fn)
    return pcall(self.steps_taken.run, self.steps_taken, "run " .. choose(3),
      fn)
  end)
  its.runs = nil
  return how
end

-- Steps in what owns no writes: a scope, or a function.
local function scope(self, its, choose, depth, make, ...)
  local how
  if choose(2) == 1 then
    local handle = make(...)
    local _ = choose(2) == 1 and self:mortal(choose, handle)
    how = self:level(its, depth + 1)
    if how ~= "all" and choose(2) == 1 then close(handle) end
    return how == "all" and how or nil
  end
  local args = table.pack(...)
  args[#args + 1] = function()
    how = self:level(its, depth + 1)
    if how ~= "return" then error(how == "fail" and FAIL or ALL, 0) end
  end
  local ok, err = pcall(make, table.unpack(args))
  if not ok and err ~= FAIL and err ~= ALL then error(err, 0) end
  return how == "all" and how or nil
end

function actions.batch(self, its, choose, depth)
  self:say("batch of %d", its.id)
  return scope(self, its, choose, depth, mw.batch)
end

function actions.origin(self, its, choose, depth)
  self:say("origin of %d", its.id)
  return scope(self, its, choose, depth, mw.origin, "somebody")
end

function actions.spawn(self)
  if #self.jobs >= JOBS then return end
  self.last = self.last + 1
  local its = { id = self.last, open = {}, loose = self.loose }
  self:say("spawn %d", its.id)
  its.co = coroutine.create(function()
    local how = self:level(its, 1)
    if how == "fail" then error(FAIL, 0) end
    if how == "all" then error(ALL, 0) end
  end)
  self.jobs[#self.jobs + 1] = its
  self:drive(its)
end

-- Returns one of the coroutines that can be resumed.
function World:suspended(choose)
  local found = {}
  for _, its in ipairs(self.jobs) do
    if coroutine.status(its.co) == "suspended" then found[#found + 1] = its end
  end
  return found[choose(#found + 1)]
end

function World:forget(its)
  for i, other in ipairs(self.jobs) do
    if other == its then table.remove(self.jobs, i) end
  end
  while #its.open > 0 do finish(its.open[#its.open], "lost") end
  its.co = nil
end

function actions.drop(self, _, choose)
  local its = self:suspended(choose)
  if not its then return end
  self:say("drop %d", its.id)
  self:forget(its)
end

function actions.close(self, _, choose)
  local its = self:suspended(choose)
  if not its then return end
  self:say("close %d", its.id)
  unsure = true
  local ok, err = coroutine.close(its.co)
  if not ok then error(err, 0) end
  self:forget(its)
  unsure = false
end

function actions.mortals(self, _, choose)
  for _ = 1, choose(10) do self:mortal(choose) end
end

function actions.collect(_, _, choose)
  collectgarbage "step"
  if choose(20) == 1 then collectgarbage() end
end

function actions.look(self)
  self:say "look"
  for object, key, _, new in self.feed:changes() do
    local i = self.numbers[object]
    if i then self.copies[i][key] = new end
  end
end

function actions.look_slowly(self, _, choose)
  self:say "look slowly"
  if choose(2) == 1 then
    for _ in self.slow:changes() do end
  else
    for entry in self.slow:read() do tostring(entry) end
  end
end

function actions.feed(self, _, choose)
  self:say "feed"
  local since = choose(2) == 1 and self.feed:seq() or nil
  local root = choose(2) == 1 and self.root or nil
  local feed = mw.feed { root = root, since = since, capacity = choose(200) }
  if choose(2) == 1 and feed then
    self.feeds[#self.feeds + 1] = feed
  end
end

function actions.recorder(self, _, choose)
  self:say "recorder"
  local recorder = mw.recorder { capacity = choose(100),
    rolled_back = choose(2) == 1, where = choose(2) == 1 }
  if choose(2) == 1 then recorder:stop() end
  if choose(2) == 1 then self.other = recorder end
end

function actions.entries(self)
  self:say "entries"
  local last
  for entry in self.recorder:entries() do
    if entry.seq then
      if last and entry.seq ~= last + 1 then
        error(("entry %d after %d"):format(entry.seq, last), 0)
      end
      last = entry.seq
    end
    tostring(entry)
  end
end

function actions.read(self, _, choose)
  local n = choose(#READS)
  self:say("read %d", n)
  READS[n](self, choose)
end
actions.read2, actions.read3 = actions.read, actions.read

function actions.call(self, _, choose)
  local n = choose(#CALLS)
  self:say("call %d", n)
  CALLS[n](self, choose)
end
actions.call2, actions.call3 = actions.call, actions.call

function actions.save(self)
  self:say "save"
  local bytes, message = mw.snapshot(self.root)
  if not bytes then error(message, 0) end
  local copy = assert(mw.restore(bytes))
  if mw.snapshot(copy) ~= bytes then error("another snapshot", 0) end
  self.bytes = assert(mw.snapshot(self.side.doc))
end

function actions.restore(self)
  self:say "restore"
  self:write_pair(self.side.doc)
  if self.bytes then
    assert(mw.restore(self.bytes, { into = self.side.doc }))
  end
end

function actions.effects(self, _, choose)
  self:say "effects"
  local ok, fx = mw.transaction(function()
    self:write_pair(self.side)
    self.side.table = { x = { y = choose(9) } }
    self.side.list[choose(3)] = choose(9)
  end)
  if not ok then error(fx, 0) end
  local bytes = fx:to_bytes(self.side)
  fx:to_patch(self.side)
  fx:rollback()
  local what = choose(4)
  if what == 1 then
    fx:apply { on_conflict = function() return "overwrite" end }
  elseif what == 2 and bytes then
    mw.patch_bytes(self.side, bytes)
  elseif what == 3 then
    fx:squash():invert()
  end
end

function actions.plan(self)
  self:say "plan"
  local plan = mw.plan()
  self.serial = self.serial + 1
  local value = self.serial
  plan:track(self.side)
  plan:store(self.side, "x", value)
  plan:store(self.side, "y", value)
  plan:apply()
end

function actions.watch(self, _, choose)
  local kind, object = choose(4), self:object(choose)
  self:say("watch %d", kind)
  local guard = function() self.side.log = choose(100) end
  local opts = { once = choose(3) == 1, phase = choose(2) == 1 and "after"
    or nil, deep = choose(2) == 1 }
  if kind == 1 then
    guard = mw.guard()
  elseif kind == 2 then
    guard = { invalidate = guard }
  end
  if kind == 1 then opts.phase = nil end
  self.watches[#self.watches + 1] = mw.watch(object, guard, opts)
end

function actions.cancel(self, _, choose)
  local watch = table.remove(self.watches, choose(#self.watches + 1))
  if watch then watch:cancel() end
end

function actions.memo(self)
  local object = self.objects[1]
  self.memo = mw.memo(function() return object.a end, object)
end

function actions.unwatch(_, _, choose)
  local object = { a = { b = {} }, c = choose(9) }
  if choose(2) == 1 then mw.track(object, { deep = true }) end
  mw.watch(object, function() end, { deep = choose(2) == 1 })
  object.a.b.c = choose(9)
  if choose(2) == 1 then mw.unwatch(object) end
  if choose(2) == 1 then mw.untrack(object) end
end

-- How often each action is chosen.
local OFTEN = {
  write = 16, begin = 5, block = 3, transaction = 5, run = 3, batch = 3,
  origin = 2, spawn = 6, drop = 4, close = 2, mortals = 8, collect = 2,
  look = 4, look_slowly = 2, feed = 2, recorder = 1, entries = 1, read = 3,
  read2 = 2, read3 = 2, call = 2, call2 = 2, call3 = 2, save = 1, restore = 2,
  effects = 2, plan = 1, watch = 3, cancel = 1, memo = 1, unwatch = 1,
  ["return"] = 8, fail = 3, all = 3,
}
local NAMES = {}
do
  local sorted = {}
  for name in pairs(OFTEN) do sorted[#sorted + 1] = name end
  table.sort(sorted)
  for _, name in ipairs(sorted) do
    for _ = 1, OFTEN[name] do NAMES[#NAMES + 1] = name end
  end
end

-- These take writes back, perhaps those of a finaliser that runs meanwhile.
local TAKES_BACK = { call = true, call2 = true, call3 = true, restore = true,
  effects = true }

local LEVELS = { begin = true, block = true, transaction = true, run = true,
  batch = true, origin = true }

-- Lets a coroutine do a step, or hand it on.
function World:drive(its, step)
  local co = its.co
  stack[#stack + 1] = its
  local ok, err = coroutine.resume(co, step)
  stack[#stack] = nil
  if not ok and err ~= FAIL and err ~= ALL then
    error(debug.traceback(co, tostring(err)), 0)
  end
  if coroutine.status(co) == "dead" then self:forget(its) end
end

-- Lets the collector run in the middle of what comes next: after a minor
-- collection, the next one is when the heap has grown by a hundredth.
local function aim(choose)
  if not lost_world.generational then return end
  collectgarbage "step"
  local room = collectgarbage "count" * 1024 // 100 - choose(6000)
  if room > 0 then string.rep("x", room // 1) end
end

-- Does steps in the running coroutine until one ends the block.  Returns how:
-- "return", "fail" or "all".
function World:level(its, depth)
  while true do
    local step
    if its.is_main then
      step = self:next_step()
      if not step then return "return" end
    else
      step = coroutine.yield()
    end
    local way, name = table.remove(step.ways), step.name
    if way and way.co then
      self:drive(way, step)
    elseif name == "return" or name == "fail" or name == "all" then
      if depth > 0 and not (its.is_main and name == "all") then
        return name
      end
    elseif depth < DEPTH or not LEVELS[name] then
      if step.choose(2) == 1 then aim(step.choose) end
      unsure = TAKES_BACK[name] or false
      local how = actions[name](self, its, step.choose, depth)
      unsure = false
      if how == "all" then return how end
    end
  end
end

function World:next_step()
  self.at = self.at + 1
  local number = self.steps[self.at]
  if not number then return nil end
  local choose, ways = worlds.chooser(number), {}
  for _ = 1, choose(4) - 1 do
    local its, again = self:suspended(choose), false
    for _, way in ipairs(ways) do again = again or way == its end
    if its and not again then ways[#ways + 1] = its end
  end
  return { ways = ways, name = NAMES[choose(#NAMES)], choose = choose }
end

-- }======================================================

-- {======================================================
-- Programs
-- =======================================================

local function new_world(steps, choose)
  local self = setmetatable({ steps = steps, at = 1, lines = {}, jobs = {},
    last = 0, serial = 100, objects = {}, numbers = {}, fields = {},
    copies = {}, mirrors = {}, watches = {}, feeds = {},
    fields_of_finalisers = 0 }, World)
  self.loose = choose(2) == 1
  self.root = { objects = self.objects }
  for i = 1, OBJECTS do
    self.objects[i] = { a = i, i }
    self.numbers[self.objects[i]] = i
  end
  mw.track(self.root, { deep = true })
  for i, object in ipairs(self.objects) do
    self.fields[i] = { a = { { value = i } }, { { value = i } } }
    self.copies[i] = { a = i, i }
    mw.track(object)
    if choose(3) == 1 then
      self.mirrors[i] = { a = i, i }
      mw.watch(object, function()
        local mirror = {}
        for key, value in pairs(object) do mirror[key] = value end
        self.mirrors[i] = mirror
      end, { phase = "after", once = false })
    end
  end
  self.side = mw.track({ x = 0, y = 0, list = {}, doc = { x = 0, y = 0 } },
    { deep = true })
  self.late = mw.track { x = 0, y = 0 }
  self.feed = mw.feed { root = self.root, capacity = 100000 }
  self.slow = mw.feed { capacity = choose(50) }
  self.recorder = mw.recorder { capacity = choose(1000),
    rolled_back = choose(2) == 1 }
  self.history = mw.history { limit = choose(5) }
  self.steps_taken = mw.history { limit = 3 }
  self.map = mw.weakmap(choose(2) == 1 and function() end or nil)
  actions.memo(self)
  return self
end

local V5 = _VERSION == "Lua 5.5"

local function set_generational(minor)
  if V5 then
    collectgarbage("param", "minormul", minor)
  else
    collectgarbage("generational", minor, 100)
  end
end

local function set_incremental(pause, multiplier, step)
  if V5 then
    collectgarbage("param", "pause", pause)
    collectgarbage("param", "stepmul", multiplier)
    collectgarbage("param", "stepsize", 1 << step)
  else
    collectgarbage("incremental", pause, multiplier, step)
  end
end

-- Returns whether the collector is generational, and stays so.
local function is_generational()
  local former = collectgarbage "incremental"
  collectgarbage(former)
  return former == "generational"
end

--- Calls f() while collections are frequent.
function lost_world.collecting(f)
  lost_world.generational = is_generational()
  local ok, err = pcall(f)
  if lost_world.generational then
    set_generational(20)
  else
    set_incremental(200, 100, 13)
  end
  if not ok then error(err, 0) end
end

local STEPS = { 5, 8, 10, 13 }

local function tune(choose)
  if lost_world.generational then
    set_generational(choose(2))
  else
    set_incremental(100, 8 * choose(4), STEPS[choose(#STEPS)])
  end
end

--- Runs a program.  Returns its world, for `lost_world.settle`.
function lost_world.run(steps)
  local choose = worlds.chooser(steps[1] or 1)
  tune(choose)
  local self = new_world(steps, choose)
  local main = { is_main = true, id = 0, open = {}, loose = self.loose }
  main.co = coroutine.create(function() self:level(main, 0) end)
  unsure = false
  local ok, err = pcall(self.drive, self, main)
  stack = {}
  unsure = false
  if not ok then self:complain("%s", err) end
  while #self.jobs > 0 do self:forget(self.jobs[#self.jobs]) end
  return self
end

local function text(self, value)
  local i = self.numbers[value]
  return i and "object " .. i or ("%q"):format(value):sub(1, 20)
end

-- Compares an object with what it should hold.
function World:compare(i, what, expected)
  local object, is = self.objects[i], {}
  for key, value in pairs(object) do is[key] = value end
  for key in pairs(expected) do
    if is[key] == nil then is[key] = false end
  end
  for key in pairs(is) do
    if not rawequal(object[key], expected[key]) then
      self:complain("%s of object %d is %s, and %s is %s", text(self, key), i,
        text(self, object[key]), what, text(self, expected[key]))
    end
  end
end

-- Compares all, once what was lost is collected.
function World:check()
  actions.look(self)
  for i, object in ipairs(self.objects) do
    for key, chain in pairs(self.fields[i]) do
      local value
      for _, write in ipairs(chain) do
        if is_final(write.owner) then value = write.value end
      end
      if not self.loose and not chain.unsure and
        not rawequal(object[key], value) then
        self:complain("%s of object %d is %s, not %s", text(self, key), i,
          text(self, object[key]), text(self, value))
      end
      local entry = self.recorder:why(object, key)
      if entry and (entry.open or not rawequal(entry.new, object[key]) and
        not entry.rolled_back) then
        self:complain("why of %s of object %d says %s, which is %s",
          text(self, key), i, tostring(entry), text(self, object[key]))
      end
    end
    for key in pairs(object) do
      if not self.fields[i][key] then
        self:complain("object %d has %s", i, text(self, key))
      end
    end
    self:compare(i, "the feed's copy", self.copies[i])
    if self.mirrors[i] then
      self:compare(i, "the guard's copy", self.mirrors[i])
    end
  end
  local side = self.side
  if side.x ~= side.y and not self.torn then
    self:complain("torn: %s, %s", side.x, side.y)
  end
  if self.memo() ~= self.objects[1].a then self:complain "an old memo" end
  self.recorder:stop()
  self.feed:close()
  self.slow:close()
  -- entries lead to this world, and so to who has them
  for _, feed in ipairs(self.feeds) do feed:close() end
  if self.other then self.other:stop() end
end

--- Collects what the programs have lost, and compares.  Returns the first
-- world in which something is wrong; its field `wrong` says what.
function lost_world.settle(lost)
  collectgarbage()
  collectgarbage() -- what a finaliser has dropped
  mw.reap()
  local found
  for _, self in ipairs(lost) do
    local ok, err = pcall(self.check, self)
    if not ok then self:complain("at the end: %s", tostring(err)) end
    if self.wrong then found = found or self end
  end
  return found
end

-- }======================================================

return lost_world

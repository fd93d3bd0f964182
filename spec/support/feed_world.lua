-- Random programs of coroutines that hold transactions, with feeds of different
-- speed and capacity beside a feed that reads everything at once.
--
-- Who applies what a feed gives has a copy.  After each look, the copy is
-- compared with what was delivered: the contents of the objects, where fields
-- that open transactions have written hold what was there before.  What is not
-- intercepted, because it was put below a table that an open transaction has
-- taken out, is not compared before it is back.
--
-- The copy has the objects that the feed has told of and has not called
-- detached: these are the ones that the root leads to.  What the reader has put
-- in itself, below what it knew, the feed does not tell of, wherever others
-- move it.
--
-- A program is a list of numbers, one a step.

local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local worlds = require "spec.support.worlds"

local private = require("moonwatch.core").private

local feed_world = {}

local JOBS, POOL = 4, 10
local KEYS = { "a", "b", "c", 1, 2, 3, 1.5, true, ("long "):rep(20), false }

local World = {}
World.__index = World

function World:say(text, ...)
  self.lines[#self.lines + 1] = text:format(...)
end

-- {======================================================
-- What was delivered
-- =======================================================

-- Returns a function from an object to what it holds as delivered.
local function delivered()
  local now = private.delivered_now()
  return function(object)
    local parts = now and now[object]
    return parts and parts[1] or raw_of(object)
  end
end

local function fail(text, ...) error({ text:format(...) }, 0) end

function World:name(value)
  for i, object in ipairs(self.pool) do
    if object == value then return "o" .. i end
  end
  return value == self.root and "root" or tostring(value)
end

-- {======================================================
-- Copies
-- =======================================================

local Copy = {}
Copy.__index = Copy

-- Returns whether all writes to what is below the root are recorded now.
function Copy:take(root)
  local contents, recorded = delivered(), true
  self.of, self.put, self.new = {}, {}, {}
  local function take(object)
    if self.of[object] then return self.of[object] end
    recorded = recorded and private.intercepts(object)
    local copy = {}
    self.of[object] = copy
    for key, value in next, contents(object) do
      copy[key] = type(value) == "table" and take(value) or value
    end
    return copy
  end
  take(root)
  return recorded
end

function Copy:set(object, key, new)
  local copy = self.of[object]
  if not copy then fail("a change of what is not known") end
  if type(new) == "table" then
    new = self.of[new] or fail("a table that is not known")
  end
  copy[key] = new
end

function Copy:apply(changes)
  local came = {}
  for object, key, old, new, kind, mark in changes do
    self.world:say("    %s[%s]: %s -> %s, %s", self.world:name(object),
      self.world:name(key), self.world:name(old), self.world:name(new), kind)
    if kind == "attach" then
      self.of[new], came[new] = {}, true
      if mark ~= self.world.marks[new] then fail "another mark" end
    end
    if kind == "detach" then
      if not self.of[object] then fail "a detachment of what is not known" end
      self.of[object] = nil
    elseif kind == "class" then
      if not self.of[object] then fail "a class of what is not known" end
      if old == new then fail "no change of class" end
    else
      self:set(object, key, new)
    end
  end
  self:forget_put()
  for object, holder in pairs(self.put) do
    if came[object] and not came[holder] then fail "an own table came" end
  end
  self.put = {}
end

-- What nobody tracks for a while the feed tells anew.
function Copy:forget_put(all)
  for object in pairs(self.put) do
    if all or not private.intercepts(object) then self.put[object] = nil end
  end
end

-- The copy knows what the root leads to, and what the reader itself has put in
-- since the last look; what came and went between two looks has no detachment.
function Copy:check_known(root)
  local reachable = self:reachable(root)
  for object in pairs(self.of) do
    if not reachable[object] and not self.new[object] then
      fail("%s has left without a word", self.world:name(object))
    end
  end
  self:prune(root)
  self.new = {}
end

-- Forgets what the root does not lead to.
function Copy:prune(root)
  local reachable = self:reachable(root)
  for object in pairs(self.of) do
    if not reachable[object] then self.of[object] = nil end
  end
end

-- A table that comes in by a write of the reader's own.
function Copy:put_in(object, holder)
  local function add(value)
    if type(value) ~= "table" then return value end
    local copy = {}
    self.of[value], self.new[value] = copy, true
    for k, v in pairs(value) do copy[k] = add(v) end
    return copy
  end
  add(object)
  self.put[object] = holder
end

-- Returns the set of the objects that the copy of the root leads to.
function Copy:reachable(root)
  local set, object_of = {}, {}
  for object, copy in pairs(self.of) do object_of[copy] = object end
  local function add(copy)
    if set[object_of[copy]] then return end
    set[object_of[copy]] = true
    for _, value in pairs(copy) do
      if type(value) == "table" then add(value) end
    end
  end
  add(self.of[root])
  return set
end

-- Compares the copy of an object with what was delivered, and all below.
function Copy:compare(root)
  local contents, seen = delivered(), {}
  local function compare(object, copy)
    if self.of[object] ~= copy then
      fail("another copy of %s", self.world:name(object))
    end
    if seen[object] then return end
    seen[object] = true
    if not private.intercepts(object) then return end
    local is = contents(object)
    for key, value in next, is do
      local its = copy[key]
      local where = ("%s[%s]"):format(self.world:name(object),
        self.world:name(key))
      if type(value) == "table" then
        if type(its) ~= "table" then
          fail("%s is %s, not %s", where, tostring(its),
            self.world:name(value))
        end
        compare(value, its)
      elseif not rawequal(its, value) then
        fail("%s is %s, not %s", where, tostring(its), tostring(value))
      end
    end
    for key in next, copy do
      if is[key] == nil then
        fail("%s[%s] is gone", self.world:name(object), self.world:name(key))
      end
    end
  end
  compare(root, self.of[root])
end

-- }======================================================

-- {======================================================
-- Readers
-- =======================================================

-- A reader below the root.
local Below = {}
Below.__index = Below

function Below:open(since)
  self.copy = setmetatable({ world = self.world }, Copy)
  if since then
    local _, seq = mw.snapshot({})
    if self.copy:take(self.world.root) then
      self.pending = seq
      return
    end
  end
  self:begin(nil)
end

function Below:begin(since)
  self.pending = nil
  self.feed = mw.feed { root = self.world.root, capacity = self.capacity,
    since = since, not_from = self.origin }
  if not since then self.copy:take(self.world.root) end
  return self.feed
end

function Below:look()
  local is_late = self.pending
  if self.pending and not self:begin(self.pending) then
    self:begin(nil) -- not all was kept
  end
  local lost = self.feed:lost()
  if lost > self.lost then
    for _ in self.feed:changes() do end
    self.lost = lost
    self.world:say("    lost")
    self.copy:take(self.world.root)
  else
    self.copy:apply(self.feed:changes())
    if is_late then self.copy:prune(self.world.root) end
    self.copy:check_known(self.world.root)
  end
  if self.feed:pending() ~= 0 then fail "pending" end
  self.copy:compare(self.world.root)
  self.known = self.copy:reachable(self.world.root)
end

function Below:close()
  if self.feed then self.feed:close() end
  self.feed, self.lost = nil, 0
end

-- A reader of what is tracked, which applies entries or changes.
local Anywhere = {}
Anywhere.__index = Anywhere

function Anywhere:open()
  self.feed = mw.feed { capacity = self.capacity }
  self:take()
end

function Anywhere:take()
  local contents = delivered()
  self.of = {}
  for _, object in ipairs(self.world.tracked) do
    local copy = {}
    self.of[object] = copy
    for key, value in next, contents(object) do copy[key] = value end
  end
end

function Anywhere:look()
  local lost = self.feed:lost()
  if lost > self.lost then
    for _ in self.feed:read() do end
    self.lost = lost
    self:take()
    return
  end
  local function set(object, key, new)
    if self.of[object] and key ~= nil then self.of[object][key] = new end
  end
  if self.squashed then
    for object, key, _, new in self.feed:changes() do set(object, key, new) end
  else
    for entry in self.feed:read() do set(entry.object, entry.key, entry.new) end
  end
  local contents = delivered()
  for object, copy in pairs(self.of) do
    local is = contents(object)
    for key, value in next, is do
      if not rawequal(copy[key], value) then
        fail("anywhere, [%s] is %s, not %s", tostring(key),
          tostring(copy[key]), tostring(value))
      end
    end
    for key in next, copy do
      if is[key] == nil then fail("anywhere, [%s] is gone", tostring(key)) end
    end
  end
end

function Anywhere:close()
  self.feed:close()
  self.lost = 0
end

-- }======================================================

-- {======================================================
-- Steps
-- =======================================================

function World:object(choose)
  local i = choose(#self.pool + 1)
  return self.pool[i] or self.root
end

function World:key(choose)
  if choose(12) == 1 then return self:object(choose) end
  return KEYS[choose(#KEYS)]
end

local DEEDS = {}

local function put(self, choose, value)
  local object, key = self:object(choose), self:key(choose)
  self:say("  %s[%s] = %s", self:name(object), self:name(key),
    self:name(value))
  object[key] = value
end

function DEEDS.scalar(self, choose) put(self, choose, choose(100)) end
function DEEDS.text(self, choose) put(self, choose, "text " .. choose(3)) end
function DEEDS.remove(self, choose) put(self, choose, nil) end
function DEEDS.table(self, choose) put(self, choose, self:object(choose)) end
DEEDS.table2, DEEDS.table3 = DEEDS.table, DEEDS.table

function DEEDS.new(self, choose)
  local i = choose(POOL)
  self.pool[i] = { a = choose(9), b = { c = choose(9) } }
  if choose(3) == 1 then
    self.marks[mw.array(self.pool[i])] = "array"
    self.marks[mw.object_like(self.pool[i].b)] = "object"
  end
  self:say("  o%d is new", i)
end

function DEEDS.move(self, choose)
  local from, to = self:object(choose), self:object(choose)
  local key, other = self:key(choose), self:key(choose)
  self:say("  move %s[%s] to %s[%s]", self:name(from), self:name(key),
    self:name(to), self:name(other))
  local value = from[key]
  from[key] = nil
  to[other] = value
end

function DEEDS.insert(self, choose)
  local object = self:object(choose)
  if #object > 20 then return end
  self:say("  insert into %s", self:name(object))
  table.insert(object, 1, self:object(choose))
end

function DEEDS.shift(self, choose)
  local object = self:object(choose)
  if #object == 0 then return end
  self:say("  remove from %s", self:name(object))
  table.remove(object, 1)
end

-- Is the object below the root now?
function World:is_below(object)
  local seen, list = { [self.root] = true }, { self.root }
  for _, parent in ipairs(list) do
    for _, value in pairs(parent) do
      if type(value) == "table" and not seen[value] then
        seen[value] = true
        list[#list + 1] = value
      end
    end
  end
  return seen[object]
end

-- A write that the last reader makes itself, and does not want to be told of.
-- A write that changes nothing has no entry, so the feed does not know of it;
-- nor has one to what nobody tracks while an open transaction has taken it out.
function DEEDS.own(self, choose, job)
  local reader, object = self.own, self:object(choose)
  local key, value = KEYS[choose(#KEYS)], self:object(choose)
  local known = reader.copy:reachable(self.root)
  if #job.open > 0 or reader.pending or not known[object]
    or not private.intercepts(object) then return end
  if not (known[value] and self:is_below(value)) then
    value = choose(2) == 1 and choose(9) or nil
  end
  local i = choose(3) == 1 and choose(POOL)
  if i then
    value = { a = choose(9), b = { c = choose(9) } }
    self.pool[i] = value
  end
  if value == object[key] then return end
  self:say("  own: %s[%s] = %s", self:name(object), self:name(key),
    self:name(value))
  local was_known = reader.known and reader.known[object]
  mw.origin("own", function() object[key] = value end)
  if i then reader.copy:put_in(value, was_known and object) end
  reader.copy:set(object, key, value)
end
DEEDS.own2, DEEDS.own3, DEEDS.own4 = DEEDS.own, DEEDS.own, DEEDS.own

-- Many writes, so that what has left is let go.
function DEEDS.settle(self)
  self:say "  settle"
  for i = 1, 70 do self.root.settled = i % 3 end
  mw.id(self.root)
end

-- What is below an object is let go, in part perhaps, changes unseen, and comes
-- back.
function DEEDS.away(self, choose)
  local holder, key = self.root, KEYS[choose(#KEYS)]
  local object = choose(2) == 1 and self:object(choose) or { far = {} }
  if object == self.root then return end
  if object.far then
    local last = object
    for i = 1, choose(200) do
      last.near = { a = i }
      last = last.near
    end
    object.last = last
  end
  self:say("  root[%s] = %s goes away", tostring(key), self:name(object))
  local again = choose(3) == 1 and KEYS[choose(#KEYS)] or key
  holder[key], holder[again] = object, object
  if choose(2) == 1 then self.readers[choose(#self.readers)]:look() end
  holder[key], holder[again] = nil, nil
  for _ = 1, choose(4) - 1 do mw.id(self.root) end
  for i = 1, choose(80) - 40 do holder.settled = i % 3 end
  object.a = choose(100)
  if object.last then object.last.a = choose(100) end
  if choose(2) == 1 then holder[key], holder[again] = object, object end
end
DEEDS.away2 = DEEDS.away

function DEEDS.collect(self)
  self:say "  collect"
  collectgarbage()
end

function DEEDS.class(self, choose)
  local object = self:object(choose)
  self:say("  class of %s", self:name(object))
  mw.setmetatable(object, choose(2) == 1 and { __name = "class" } or nil)
end

function DEEDS.untrack(self, choose)
  for _, job in ipairs(self.jobs) do
    if #job.open > 0 then return end -- some of what it wrote would be dropped
  end
  local object = choose(3) == 1 and self.root or self.pool[choose(POOL)]
  self:say("  untrack %s", self:name(object))
  mw.untrack(object)
end

function DEEDS.track(self, choose)
  local object, deep = self:object(choose), choose(2) == 1
  self:say("  track %s, %s", self:name(object), deep)
  mw.track(object, { deep = deep })
end

function DEEDS.begin(self, _, job)
  if #job.open > 3 then return end
  self:say "  begin"
  job.open[#job.open + 1] = mw.begin()
end
DEEDS.begin2 = DEEDS.begin

function DEEDS.commit(self, choose, job)
  if #job.open == 0 then return end
  self:say "  commit"
  table.remove(job.open, choose(#job.open)):commit()
end

function DEEDS.rollback(self, choose, job)
  if #job.open == 0 then return end
  self:say "  roll back"
  table.remove(job.open, choose(#job.open)):rollback()
end

function DEEDS.batch(self, choose)
  self:say "  batch"
  mw.batch(function()
    for _ = 1, 3 do put(self, choose, choose(3)) end
  end)
end

function DEEDS.look(self, choose)
  local i = choose(#self.readers)
  self:say("  look %d", i)
  self.readers[i]:look()
end
DEEDS.look2, DEEDS.look3 = DEEDS.look, DEEDS.look

function DEEDS.reopen(self, choose)
  local i, since = choose(#self.readers), self.stays and choose(3) > 1
  if self.stays and i == 1 then return end
  self:say("  reopen %d, %s", i, since)
  self.readers[i]:close()
  self.readers[i]:open(since)
end

-- In these, objects may be let go, and come back.
local LETS_GO = { away = true, away2 = true, settle = true, collect = true,
  untrack = true, track = true, reopen = true }

local NAMES = {}
for name in pairs(DEEDS) do NAMES[#NAMES + 1] = name end
table.sort(NAMES)

-- }======================================================

local function new_job()
  local job = { open = {} }
  job.run = coroutine.wrap(function()
    while true do coroutine.yield((coroutine.yield())(job)) end
  end)
  job.run()
  return job
end

local function new_world(choose)
  local world = setmetatable({ lines = {}, pool = {}, jobs = {},
    tracked = {}, readers = {}, marks = {} }, World)
  world.stays = choose(2) == 1 -- is what is below the root always tracked?
  world.root = {}
  for i = 1, POOL do world.pool[i] = { a = i } end
  for i = 1, POOL // 2 do
    (choose(2) == 1 and world.root or world.pool[choose(i)])[i] = world.pool[i]
  end
  for i = 1, JOBS do world.jobs[i] = new_job() end
  world.list = mw.feed { capacity = 1000000 }
  for i, capacity in ipairs { 100000, 100000, 20, 100000 } do
    local reader = setmetatable({ world = world, capacity = capacity,
      lost = 0, origin = i == 4 and "own" or nil }, Below)
    reader:open()
    world.readers[#world.readers + 1] = reader
    world.own = reader
  end
  -- objects that are tracked by themselves, for as long as the program runs
  for i = 1, 3 do
    world.tracked[i] = mw.track {}
    world.pool[#world.pool + 1] = world.tracked[i]
  end
  for _, squashed in ipairs { true, false } do
    local reader = setmetatable({ world = world, capacity = 100000, lost = 0,
      squashed = squashed }, Anywhere)
    reader:open()
    world.readers[#world.readers + 1] = reader
  end
  return world
end

-- Runs a program.  Returns nothing if all is right, else what is wrong, and a
-- list of what was done.
function feed_world.compare(steps)
  local world = new_world(worlds.chooser(steps[1]))
  local seq = world.list:seq()
  local function step(number)
    local choose = worlds.chooser(number)
    local name, job = NAMES[choose(#NAMES)], world.jobs[choose(JOBS)]
    world:say("%s", name)
    job.run(function() DEEDS[name](world, choose, job) end)
    job.run()
    world.own.copy:forget_put(LETS_GO[name])
    for entry in world.list:read() do
      seq = seq + 1
      if entry.seq ~= seq then fail("number %d, not %d", entry.seq, seq) end
    end
  end
  local ok, message = pcall(function()
    for i = 2, #steps do step(steps[i]) end
    for _, reader in ipairs(world.readers) do reader:look() end
    for _, job in ipairs(world.jobs) do
      for _, tx in ipairs(job.open) do tx:commit() end
    end
    for _, reader in ipairs(world.readers) do reader:look() end
  end)
  for _, reader in ipairs(world.readers) do reader:close() end
  for _, job in ipairs(world.jobs) do
    for _, tx in ipairs(job.open) do pcall(tx.rollback, tx) end
  end
  world.list:close()
  if ok then return nil end
  return type(message) == "table" and message[1] or tostring(message),
    world.lines
end

function feed_world.shrink(steps)
  local n = #steps // 2
  while n > 0 do
    local i = 2
    while i <= #steps do
      local rest = table.move(steps, 1, i - 1, 1, {})
      table.move(steps, i + n, #steps, i, rest)
      if feed_world.compare(rest) then steps = rest else i = i + n end
    end
    n = n // 2
  end
  return steps
end

return feed_world

-- Random programs of coroutines that hold transactions, in the library and in a
-- simulation: the list of all writes to each field, each with its owner.  A
-- rollback removes the owner's writes; the field has the value of the last
-- write that is left.  Nobody sees the writes to globals that no open
-- transaction tracks: they change the value of the last write.
--
-- Some programs have batches; what guards hear is not compared in these.
-- Programs with recorders also compare what is delivered: see
-- recorder_world.lua.
--
-- A program is a list of numbers.  Each number is one step: it says by which
-- coroutines the step goes, and what the last of these does.

local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local private = require("moonwatch.core").private
local support = require "support"
local worlds = require "spec.support.worlds"

local CLASS = {} -- the key of an object's class in the simulation
local FAIL = setmetatable({}, { __tostring = function() return "fails" end })
local MOST = 6 -- coroutines at a time

local LONG = ("long "):rep(20)

local CLASSES = {
  { __index = { inherited = 1 } },
  { __newindex = function(t, k, v) rawset(t, k, v) end },
  { __index = function() return nil end },
  {},
}


local STORING = CLASSES[2]

local USERDATA = 11 -- the object that is one; its fields are in a table

-- Returns a new userdata, and the table that holds its fields.
local function new_userdata(fields)
  return support.userdata {
    __index = function(_, key) return fields[key] end,
    __newindex = function(_, key, value) rawset(fields, key, value) end,
  }, fields
end

local GLOBALS = 12 -- a table that only transactions track

local CELLS = { 13, 14, 15 } -- the objects that are upvalues, which plans write
local LAST_TABLE = 12

-- Returns functions that have upvalues, and the upvalues' cells and names.
local function new_cells()
  local x, y, z = nil, nil, nil
  local functions = {
    function() return x end, function() return y end, function() return z end,
  }
  local cells, names = {}, {}
  for n, fn in ipairs(functions) do
    cells[n] = private.cell(fn, 1)
    names[n] = select(3, private.cell_value(cells[n]))
  end
  return functions, cells, names
end

local World = {}
World.__index = World

-- {======================================================
-- The simulation
-- =======================================================

local function is_same(a, b)
  return rawequal(a, b) and math.type(a) == math.type(b) and
    (a ~= 0 or 1 / a == 1 / b)
end

-- Returns the list of the writes to a field.
function World:chain(i, key)
  local chain = self.fields[i][key]
  if not chain then
    chain = { { value = nil, final = true }, object = i, key = key }
    self.fields[i][key] = chain
    self.chains[#self.chains + 1] = chain
  end
  return chain
end

local function value_of(chain) return chain[#chain].value end

-- Returns the transaction that owns a write which the running coroutine makes.
function World:owner()
  local stack = self.stack
  local its = stack[#stack].owners
  if #its > 0 then return its[#its] end
  local found
  for i = 1, #stack - 1 do
    its = stack[i].owners
    local last = its[#its]
    if last and (not found or last.order > found.order) then found = last end
  end
  return found
end

function World:expect(...)
  local event = table.pack(...)
  if self.heard[event[1]] then
    self.expected[#self.expected + 1] = event
  end
end

-- Does an open transaction track the globals?
function World:has_globals()
  for owner in pairs(self.open) do
    if owner.globals then return true end
  end
  return false
end

function World:note_write(i, key, value, because)
  local write = { value = value, because = because }
  if self.before_write then self:before_write(i, write) end
  local chain, owner = self:chain(i, key), self:owner()
  if i == GLOBALS and not self:has_globals() then
    chain[#chain].value = value
    return
  end
  local old = value_of(chain)
  local kind = key == CLASS and "metatable" or value == nil and "delete" or
    old == nil and "insert" or "update"
  self:expect(i, key, old, value, kind)
  if old == nil and value == nil and key ~= CLASS and i < USERDATA and
    value_of(self:chain(i, CLASS)) == STORING then
    return -- its function stores nothing
  end
  self.seq = self.seq + 1
  write.owner, write.seq, write.chain = owner, self.seq, chain
  chain[#chain + 1] = write
  if self.note_delivery then
    write.origin, write.is_read = self:origin(), #self.recorders > 0
    if owner then
      owner.writes[#owner.writes + 1] = write
    else
      self:note_delivery(nil, { write })
    end
  end
  if not owner then return end
  write.noted =
    { seq = self.seq, object = i, key = key, old = old, new = value }
  owner.entries[#owner.entries + 1] = write.noted
end

function World:begin(job, opts)
  self.order = self.order + 1
  local owner = { order = self.order, parent = self:owner(), job = job,
    entries = {}, writes = {}, open = true,
    globals = opts and opts.globals,
    label = type(opts) == "table" and opts.label or
      type(opts) == "string" and opts or nil }
  job.owners[#job.owners + 1] = owner
  self.open[owner] = true
  return owner
end

function World:leave(owner)
  local its = owner.job.owners
  for i = #its, 1, -1 do
    if its[i] == owner then table.remove(its, i) end
  end
  owner.open = false
  self.open[owner] = nil
end

function World:note_commit(owner)
  self:leave(owner)
  local parent = owner.parent
  while parent and not parent.open do parent = parent.parent end
  if not parent and self.note_delivery then
    self:note_delivery(owner, owner.writes)
  end
  for _, chain in ipairs(self.chains) do
    for _, write in ipairs(chain) do
      if write.owner == owner then write.owner = parent end
    end
  end
  if not parent then return end
  for _, name in ipairs { "entries", "writes" } do
    local list = parent[name]
    table.move(owner[name], 1, #owner[name], #list + 1, list)
    table.sort(list, function(a, b) return a.seq < b.seq end)
  end
end

-- Removes the writes of an owner from those to a field.  A write that comes
-- later has never seen them, unless nobody can take it back any more.
local function remove_writes(chain, owner)
  for i = #chain, 1, -1 do
    if chain[i].owner == owner then table.remove(chain, i) end
  end
  for i = #chain, 2, -1 do
    local write = chain[i]
    if write.owner then write.noted.old = chain[i - 1].value end
  end
end

function World:note_rollback(owner)
  self:leave(owner)
  if self.note_taken then self:note_taken(owner) end
  for _, chain in ipairs(self.chains) do
    local old = value_of(chain)
    remove_writes(chain, owner)
    local new = value_of(chain)
    if not is_same(old, new) then
      self:expect(chain.object, chain.key, old, new, "rollback")
    end
  end
end

-- }======================================================

-- {======================================================
-- Comparing
-- =======================================================

local function complain(...) error(table.concat({ ... }), 0) end

-- What makes a long string in a buffer makes Lua 5.5 collect, also where the
-- collector is stopped: `table.concat`, or to read a file.
require "spec.support.load_all"

local function join(texts)
  local joined = ""
  for _, text in ipairs(texts) do joined = joined .. text .. "\n" end
  return joined
end

function World:text(value)
  if value == CLASS then return "(class)" end
  if type(value) == "string" then
    return #value > 40 and "LONG" .. value:sub(-1) or ("%q"):format(value)
  end
  for i, obj in ipairs(self.objects) do
    if rawequal(value, obj) then return "object " .. i end
  end
  for i, class in ipairs(CLASSES) do
    if value == class then return "class " .. i end
  end
  return tostring(value)
end

-- A float that is an integer is the same key as that.
function World:key_text(key)
  return self:text(math.type(key) == "float" and math.tointeger(key) or key)
end

function World:event_text(event)
  return ("%s of %s in object %d: %s > %s"):format(event[5],
    self:key_text(event[2]), event[1], self:text(event[3]), self:text(event[4]))
end

-- Compares what an object holds with the simulation.
function World:check_object(i)
  local raw, fields = self.hidden, self.fields[i]
  if i > LAST_TABLE then
    local _, value = private.cell_value(self.objects[i])
    raw = { [self.names[i]] = value }
  elseif i ~= USERDATA then
    raw = raw_of(self.objects[i])
  end
  for key, chain in pairs(fields) do
    local real = nil
    if key ~= CLASS then real = rawget(raw, key)
    elseif value_of(chain) ~= nil or getmetatable(self.objects[i]) ~=
      self.no_class then
      real = getmetatable(self.objects[i])
    end
    if not is_same(real, value_of(chain)) then
      complain("field ", self:text(key), " of object ", i, " is ",
        self:text(real), ", not ", self:text(value_of(chain)))
    end
  end
  for key in next, raw do
    if not fields[key] then
      complain("object ", i, " has ", self:text(key))
    end
  end
end

function World:check_objects()
  for i = 1, #self.objects do self:check_object(i) end
end

-- Compares what guards have heard with what they were to hear, in any order if
-- it was a rollback.
function World:check_events()
  local real, expected = self.events, self.expected
  self.events, self.expected = {}, {}
  if self.has_batches or self.lost_count and self.lost_count > 1 then
    return
  end
  local function list(events)
    local texts = {}
    for i, event in ipairs(events) do texts[i] = self:event_text(event) end
    table.sort(texts)
    return join(texts)
  end
  local a, b = list(expected), list(real)
  if a ~= b then
    complain("guards were to hear\n", a, "\nbut heard\n", b)
  end
end

function World:entry_text(e)
  return ("%s of %s in object %s: %s > %s"):format(e.kind,
    self:key_text(e.key), tostring(e.object), self:text(e.old),
    self:text(e.new))
end

-- Returns the kind of a write; nil for a write that changes nothing.
local function kind_of(key, old, new)
  return key == CLASS and "metatable" or old ~= nil and new ~= nil and "update"
    or old ~= nil and "delete" or new ~= nil and "insert" or nil
end

-- Returns the entries that change something, with their kinds.
local function changes(entries)
  local list = {}
  for _, e in ipairs(entries) do
    e.kind = kind_of(e.key, e.old, e.new)
    if e.kind then list[#list + 1] = e end
  end
  return list
end

function World:texts_of(entries)
  local texts = {}
  for i, e in ipairs(changes(entries)) do texts[i] = self:entry_text(e) end
  return join(texts)
end

function World:check_effects(fx, expected)
  local entries = {}
  for e in fx:entries() do
    entries[#entries + 1] = { kind = e.kind, object = self.numbers[e.object],
      old = e.old, new = e.new, key = e.kind == "metatable" and CLASS or e.key }
  end
  for _, e in ipairs(entries) do
    if e.kind ~= kind_of(e.key, e.old, e.new) then
      complain("effects have the kind ", e.kind, " of ", self:entry_text(e))
    end
  end
  local real = self:texts_of(entries)
  if real ~= expected or fx:len() ~= #entries then
    complain("effects are to have\n", expected, "\nbut have\n", real)
  end
end

-- Keeps effects; they are compared again at the end.
function World:keep_effects(fx, expected)
  self:check_effects(fx, expected)
  self.kept[#self.kept + 1] = { fx = fx, expected = expected }
end

function World:check()
  self:check_objects()
  self:check_events()
  if self.recorders then self:check_recorders() end
end

-- }======================================================

-- {======================================================
-- Steps
-- =======================================================

function World:log(...)
  self.lines[#self.lines + 1] = table.concat({ ... }, " ")
end

-- Numbers of long strings are made anew, so that equal ones have two addresses.
function World:key(choose)
  local n = choose(13)
  if n <= 4 then return ("abcd"):sub(n, n) end
  if n <= 6 then return LONG .. n end
  if n <= 9 then return n - 6 end
  if n == 10 then return 1.5 end
  if n == 11 then return 2.0 ^ 53 end
  if n == 12 then return choose(2) == 1 end
  return self.objects[choose(9)]
end

function World:value(choose)
  local n = choose(12)
  if n <= 3 then return nil end
  if n <= 6 then return choose(10) end
  if n == 7 then return choose(4) / 2 end
  if n == 8 then return choose(2) == 1 end
  if n == 9 then return LONG .. choose(3) end
  if n == 10 then return "short " .. choose(3) end
  return self.objects[choose(9)]
end

local LIST = 3

local actions = {}

function actions.write(self, _, choose)
  local i = choose(LAST_TABLE)
  if choose(3) == 1 then i = choose(2) end
  if i == LIST then i = 1 end
  local key, value = self:key(choose), self:value(choose)
  -- No entry tells who has made a nil of nothing.
  if i == GLOBALS and value == nil and value_of(self:chain(i, key)) == nil then
    return
  end
  self:log("write", self:text(key), "of object", i, self:text(value))
  self:note_write(i, key, value)
  self.objects[i][key] = value
end

function actions.cell(self, _, choose)
  if self.recorders then return end
  local n, value = choose(#CELLS), self:value(choose)
  self:log("cell", n, self:text(value))
  self:note_write(CELLS[n], self.names[CELLS[n]], value)
  local plan = mw.plan()
  plan:store_cell(plan:track_cell(self.functions[n], 1), value)
  assert(plan:apply())
end

-- Options of a transaction, or nil.
function World:options(choose)
  local n = choose(8)
  if self.recorders then return n <= 2 and "label" or nil end
  if n == 1 then return "label" end
  if n == 2 then return { globals = self.objects[GLOBALS] } end
  if n > 4 then return nil end
  return { label = "both", where = true, globals = self.objects[GLOBALS] }
end

function actions.several(self, its, choose)
  for _ = 1, choose(25) do actions.write(self, its, choose) end
end

function actions.insert(self, _, choose)
  local list = self.objects[LIST]
  local n = #list
  local at, value = choose(n + 1), choose(100)
  self:log("insert at", at, value)
  for i = n + 1, at + 1, -1 do
    self:note_write(LIST, i, value_of(self:chain(LIST, i - 1)))
  end
  self:note_write(LIST, at, value)
  table.insert(list, at, value)
end

function actions.remove(self, _, choose)
  local list = self.objects[LIST]
  local n = #list
  if n == 0 then return end
  local at = choose(n)
  self:log("remove at", at)
  for i = at, n - 1 do
    self:note_write(LIST, i, value_of(self:chain(LIST, i + 1)))
  end
  self:note_write(LIST, n, nil)
  table.remove(list, at)
end

function actions.swap(self, _, choose)
  local list = self.objects[LIST]
  local a, b = choose(5), choose(5)
  self:log("swap", a, b)
  local x, y = value_of(self:chain(LIST, a)), value_of(self:chain(LIST, b))
  self:note_write(LIST, b, x) -- Lua assigns from the right
  self:note_write(LIST, a, y)
  list[a], list[b] = list[b], list[a]
end

function actions.class(self, _, choose)
  local i, class = 3 + choose(2), CLASSES[choose(#CLASSES + 1)]
  self:log("class of object", i, self:text(class))
  self:note_write(i, CLASS, class)
  mw.setmetatable(self.objects[i], class)
end

-- Nothing else than the track records object 10.
function actions.untrack(self)
  self:log("untrack")
  if self.forget_past then self:forget_past(10) end
  for owner in pairs(self.open) do
    local entries = owner.entries
    for at = #entries, 1, -1 do
      if entries[at].object == 10 then table.remove(entries, at) end
    end
    for at = #owner.writes, 1, -1 do
      local chain = owner.writes[at].chain
      if chain.object == 10 then table.remove(owner.writes, at) end
    end
  end
  for _, chain in pairs(self.fields[10]) do
    local value = value_of(chain)
    for at = #chain, 1, -1 do chain[at] = nil end
    chain[1] = { value = value, final = true }
  end
  mw.untrack(self.objects[10])
  assert(raw_of(self.objects[10]) == self.objects[10])
  mw.track(self.objects[10])
end

-- Ends a transaction with its handle.  The effects are those of the program.
function World:end_by(tx, owner, commits)
  local expected = self:texts_of(owner.entries)
  if commits then self:note_commit(owner) else self:note_rollback(owner) end
  local fx = assert(commits and tx:commit() or not commits and tx:rollback())
  self:keep_effects(fx, expected)
end

local function is_alive(probe) return next(probe) ~= nil end

-- Returns a table that is empty when the value has been collected.
local function probe_of(value)
  return setmetatable({ value }, { __mode = "v" })
end

function actions.begin(self, its, choose)
  local opts = self:options(choose)
  local owner = self:begin(its, opts)
  local tx = mw.begin(opts)
  self:log("begin", owner.order, "of", its.id)
  owner.handle = probe_of(tx)
  self.handles[#self.handles + 1] = { tx = tx, owner = owner }
end

local function wipe(n, ...)
  if n > 0 then return wipe(n - 1, nil, nil, nil, ...) end
end

function actions.begin_lost(self, its, choose)
  actions.begin(self, its, choose)
  self:log("which is lost")
  self.handles[#self.handles] = nil
  wipe(8)
end

function actions.finish(self, _, choose)
  if #self.handles == 0 then return end
  local at, how = choose(#self.handles), choose(5)
  local its = table.remove(self.handles, at)
  local owner = its.owner
  self:log(how <= 2 and "commit" or how <= 4 and "rollback" or "lose",
    owner.order)
  if how == 5 then
    its.tx = nil
  elseif owner.open then
    assert(its.tx:is_open())
    self:end_by(its.tx, owner, how <= 2)
    assert(not its.tx:is_open())
    assert(not pcall(its.tx.commit, its.tx))
  else
    assert(not its.tx:is_open())
    local ok, result = pcall(its.tx.commit, its.tx)
    assert(not ok or result == nil)
  end
  wipe(8)
end

-- Runs more steps in a transaction, which ends with them.
function actions.block(self, its, choose, depth)
  local owner, how, opts = nil, choose(4), self:options(choose)
  local ok, err = pcall(function()
    owner = self:begin(its, opts)
    self:log("block", owner.order, "of", its.id)
    local tx <close> = mw.begin(opts)
    local handle = { tx = tx, owner = owner }
    owner.handle, owner.closes = probe_of(tx), true
    if choose(3) == 1 then self.handles[#self.handles + 1] = handle end
    local failed = self:level(its, depth + 1) == "fail"
    self:log("end of block", owner.order, failed and "fails" or how)
    if not owner.open then
      if failed then error(FAIL, 0) end
      return
    end
    for i, other in ipairs(self.handles) do
      if other.tx == tx then table.remove(self.handles, i) end
    end
    if failed then
      self:note_rollback(owner)
      error(FAIL, 0)
    elseif how <= 3 then
      self:end_by(tx, owner, how <= 2)
    else
      self:note_rollback(owner)
    end
  end)
  if not ok and err ~= FAIL then error(err, 0) end
end

function actions.transaction(self, its, choose, depth)
  local owner, expected, failed
  local opts = self:options(choose)
  local function run(...)
    owner = self:begin(its, opts)
    owner.closes = true
    self:log("transaction", owner.order, "of", its.id)
    failed = self:level(its, depth + 1) == "fail"
    self:log("end of transaction", owner.order, failed and "fails" or "")
    if not owner.open then
      if failed then error(FAIL, 0) end
      return ...
    end
    expected = self:texts_of(owner.entries)
    if failed then
      self:note_rollback(owner)
      error(FAIL, 0)
    end
    self:note_commit(owner)
    return ...
  end
  local ok, fx, result
  if opts then
    ok, fx, result = mw.transaction(opts, run, 5)
  else
    ok, fx, result = mw.transaction(run, 5)
  end
  if failed then
    if ok or fx ~= FAIL then complain("no error, but ", tostring(fx)) end
  else
    if not ok then error(fx, 0) end
    assert(result == 5)
    self:keep_effects(fx, expected)
  end
end

function actions.batch(self, its, _, depth)
  if not self.has_batches then return end
  self:log("batch of", its.id)
  local ok, err = pcall(mw.batch, function()
    local failed = self:level(its, depth + 1) == "fail"
    self:log("end of batch of", its.id, failed and "fails" or "")
    if failed then error(FAIL, 0) end
  end)
  if not ok and err ~= FAIL then error(err, 0) end
end

-- Runs more steps with an origin.
function actions.origin(self, its, choose, depth)
  if not self.recorders then return end
  local name = "origin " .. choose(3)
  self.order = self.order + 1
  local origins, origin = its.origins, { order = self.order, name = name }
  origins[#origins + 1] = origin
  self:log("origin", name, "of", its.id)
  local ok, err = pcall(mw.origin, name, function()
    local failed = self:level(its, depth + 1) == "fail"
    self:log("end of", name, "of", its.id, failed and "fails" or "")
    if failed then error(FAIL, 0) end
  end)
  for i, other in ipairs(origins) do
    if other == origin then table.remove(origins, i) end
  end
  if not ok and err ~= FAIL then error(err, 0) end
end

function actions.record(self, _, choose)
  if self.recorders then self:record(choose) end
end

function actions.unrecord(self, _, choose)
  if self.recorders then self:unrecord(choose) end
end

-- Returns the coroutines that can be resumed.
function World:suspended()
  local found = {}
  for _, id in ipairs(self.ids) do
    if coroutine.status(self.jobs[id].co) == "suspended" then
      found[#found + 1] = id
    end
  end
  return found
end

function World:forget(id)
  for i, other in ipairs(self.ids) do
    if other == id then table.remove(self.ids, i) end
  end
  self.jobs[id].co = nil
  self.jobs[id] = nil
end

function actions.spawn(self)
  if #self.ids >= MOST then return end
  self.last_id = self.last_id + 1
  local its = { id = self.last_id, owners = {}, origins = {} }
  self:log("spawn", its.id)
  local co = coroutine.create(function()
    if self:level(its, 1) == "fail" then error(FAIL, 0) end
  end)
  its.probe = probe_of(co)
  its.co = co
  self.jobs[its.id] = its
  self.ids[#self.ids + 1] = its.id
  coroutine.resume(co)
end

function actions.close(self, _, choose)
  local ids = self:suspended()
  if #ids == 0 then return end
  local its = self.jobs[ids[choose(#ids)]]
  self:log("close", its.id)
  for i = #its.owners, 1, -1 do
    local owner = its.owners[i]
    if owner.closes then
      self:note_rollback(owner)
      self.lost_count = (self.lost_count or 0) + 1
    end
  end
  assert(coroutine.close(its.co))
  self:forget(its.id)
  wipe(8)
end

function actions.drop(self, _, choose)
  local ids = self:suspended()
  if #ids == 0 then return end
  local its = self.jobs[ids[choose(#ids)]]
  self:log("drop", its.id)
  its.suspended = true
  its.co = nil
  self:forget(its.id)
  wipe(8)
end

-- Transactions that were lost are taken back by the next call; what has been
-- collected says which these are: the handles, and of those in mw.transaction
-- the coroutines.
function actions.collect(self)
  local before = {}
  for owner in pairs(self.open) do before[#before + 1] = owner end
  self.lost_count = 0 -- guards cannot know the state yet
  collectgarbage()
  collectgarbage()
  mw.reap(0)
  for _, owner in ipairs(before) do
    local its = owner.job
    local lost = its.suspended and not is_alive(its.probe)
    if owner.handle then lost = not is_alive(owner.handle) end
    if lost then
      self:log("found lost", owner.order)
      self:note_rollback(owner)
      self.lost_count = self.lost_count + 1
    end
  end
  if #before > 0 then self.losses = self.losses + self.lost_count end
end

-- How often each action is chosen.
local OFTEN = {
  write = 16, cell = 5, several = 1, insert = 2, remove = 2, swap = 2,
  class = 1,
  begin = 3, begin_lost = 1, finish = 5, block = 4, transaction = 4, batch = 2,
  untrack = 1, origin = 2, record = 1, unrecord = 1,
  ["return"] = 8, fail = 3, spawn = 3, close = 1, drop = 1, collect = 1,
}
local names = {}
do
  local sorted = {}
  for name in pairs(OFTEN) do sorted[#sorted + 1] = name end
  table.sort(sorted)
  for _, name in ipairs(sorted) do
    for _ = 1, OFTEN[name] do names[#names + 1] = name end
  end
end

-- Resumes another coroutine, which does the step or hands it on.
function World:drive(id, step)
  local its = self.jobs[id]
  local co = its.co
  self.stack[#self.stack + 1] = its
  local ok, err = coroutine.resume(co, step)
  self.stack[#self.stack] = nil
  if not ok and err ~= FAIL then error(err, 0) end
  if coroutine.status(co) == "dead" then self:forget(id) end
end

-- Does steps in the running coroutine until one ends the block.
function World:level(its, depth)
  while true do
    local step
    if its.is_main then
      step = self:next_step()
      if not step then return "return" end
    else
      step = coroutine.yield()
    end
    local way = table.remove(step.ways, 1)
    if way then
      self:drive(way, step)
    elseif step.name == "return" or step.name == "fail" then
      if depth > 0 then
        self:log(step.name, "in", its.id)
        return step.name
      end
    elseif depth < 6 or not (step.name == "block" or
      step.name == "transaction" or step.name == "batch" or
      step.name == "origin") then
      actions[step.name](self, its, step.choose, depth)
    end
    wipe(4)
    if its.is_main then
      self:check()
      self.lost_count = nil
    end
  end
end

function World:next_step()
  self.at = self.at + 1
  local number = self.steps[self.at]
  if not number then return nil end
  local choose = worlds.chooser(number)
  local ids, ways = self:suspended(), {}
  for _ = 1, choose(4) - 1 do
    if #ids > 0 then
      ways[#ways + 1] = table.remove(ids, choose(#ids))
    end
  end
  self:log("--", self.at, table.concat(ways, " > "))
  return { ways = ways, name = names[choose(#names)], choose = choose }
end

-- }======================================================

local function make(first)
  local choose = worlds.chooser(first)
  local self = setmetatable({
    objects = {}, numbers = {}, fields = {}, chains = {}, seq = 0, order = 0,
    last_id = 0, jobs = {}, ids = {}, handles = {}, kept = {}, events = {},
    expected = {}, heard = {}, lines = {}, at = 1, losses = 0, open = {},
    names = {},
  }, World)
  local keep = { {}, { a = 1 }, { a = 2 } }
  keep[1].a, keep[2].b = keep[2], keep[3]
  local objects = {
    { a = 1, b = "two", [LONG .. 5] = 3 }, { 1, 2, a = 5 },
    { 1, 2, 3, 4, 5, 6 }, setmetatable({ a = 1 }, CLASSES[1]),
    setmetatable({ a = 1 }, CLASSES[2]), { keep = keep, a = keep[2] },
    keep[1], keep[2], keep[3], { a = 1, d = 2 },
  }
  objects[USERDATA], self.hidden = new_userdata { a = 1, [LONG .. 6] = 2 }
  objects[GLOBALS] = { a = 1, b = "two" }
  local cells, cell_names
  self.functions, cells, cell_names = new_cells()
  for n, i in ipairs(CELLS) do
    objects[i], self.names[i] = cells[n], cell_names[n]
  end
  self.objects = objects
  for i, obj in ipairs(objects) do
    self.numbers[obj] = i
    self.fields[i] = {}
    for key, value in pairs(i == USERDATA and self.hidden or
      i > LAST_TABLE and {} or obj) do
      self:chain(i, key)[1].value = value
    end
    if i < USERDATA then self:chain(i, CLASS)[1].value = getmetatable(obj) end
  end
  self:chain(4, CLASS)
  for i = 1, 5 do mw.track(objects[i]) end
  mw.track(objects[10])
  mw.track(objects[USERDATA])
  mw.track(objects[6], { deep = true })
  self.no_class = getmetatable(objects[1])
  local function guard(obj, key, old, new, kind)
    if kind == "metatable" or (kind == "rollback" and key == nil) then
      key = CLASS
    end
    local i = self.numbers[obj]
    self.events[#self.events + 1] = { i, key, old, new, kind }
    if kind == "rollback" and not self.lost_count and not self.failed and
      not self.has_batches then
      local ok, err = pcall(self.check_objects, self)
      if not ok then self.failed = "in a guard, " .. err end
    end
  end
  for i in ipairs(objects) do
    if i ~= 10 and i < GLOBALS and choose(2) == 1 then
      mw.watch(objects[i], guard, { once = false })
      self.heard[i] = true
    end
  end
  self.has_batches = choose(4) == 1
  if choose(2) == 1 then
    mw.watch(objects[6], function(_, path) assert(#path > 0) end,
      { deep = true, once = false })
  end
  return self
end

local transaction_world = { complain = complain,
  value_of = value_of, changes = changes, CLASS = CLASS, USERDATA = USERDATA }

-- Runs a program, or raises what is wrong.
local function run(self)
  local main = { is_main = true, id = 0, owners = {}, origins = {} }
  self.stack = { main }
  self:level(main, 0)
  self:check()
  local choose = worlds.chooser(#self.steps)
  while #self.handles > 0 do
    actions.finish(self, main, choose)
    self:check()
    self.lost_count = nil
  end
  for _, id in ipairs(self:suspended()) do
    self.jobs[id].suspended, self.jobs[id].co = true, nil
    self:forget(id)
  end
  actions.collect(self)
  self:check()
  self.lost_count = nil
  for _, kept in ipairs(self.kept) do
    self:check_effects(kept.fx, kept.expected)
  end
  if self.failed then error(self.failed, 0) end
end

--- Runs a program.  Returns nothing if the library does what the simulation
-- does, else what is wrong, and what the program did.  `extend` is called with
-- the world before.
function transaction_world.compare(steps, extend)
  local running = collectgarbage "isrunning"
  collectgarbage "stop"
  local self = make(steps[1] or 1)
  self.steps = steps
  if extend then extend(self) end
  local ok, err = xpcall(run, function(e)
    if type(e) == "string" and e:find "lua:%d" then
      return debug.traceback(e)
    end
    return e
  end, self)
  for _, obj in ipairs(self.objects) do
    if not ok then pcall(mw.unwatch, obj) end
  end
  for _, its in ipairs(self.recorders or {}) do its.recorder:stop() end
  if running then collectgarbage "restart" end
  if not ok then return tostring(err), self.lines end
end

--- Returns a shorter program in which something is wrong as well.
function transaction_world.shrink(steps, extend)
  local n = #steps // 2
  while n > 0 do
    local i = 2
    while i <= #steps do
      local rest = table.move(steps, 1, i - 1, 1, {})
      table.move(steps, i + n, #steps, i, rest)
      collectgarbage() -- what the last program has left open
      collectgarbage()
      if transaction_world.compare(rest, extend) then
        steps = rest
      else
        i = i + n
      end
    end
    n = n // 2
  end
  return steps
end

return transaction_world

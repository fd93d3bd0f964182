-- Programs of transaction_world.lua with recorders: all that is delivered, as a
-- plain list, beside recorders of different capacities; what recorders with
-- `rolled_back` keep; the values that fields had after an entry.
--
-- A write is final when nobody can take it back.  A final write is delivered,
-- with the value of the final write before it as the old value, unless a later
-- write to the field was final before.  Origins and causes are known of writes
-- that were made while a recorder ran.  Cells and globals are left out: who
-- records them no more does not see what is written to them.

local mw = require "moonwatch"
local transaction_world = require "spec.support.transaction_world"
local worlds = require "spec.support.worlds"

local CLASS, USERDATA = transaction_world.CLASS, transaction_world.USERDATA
local complain = transaction_world.complain
local value_of, changes = transaction_world.value_of, transaction_world.changes

local GUARDED, LOG = 2, 0 -- a guard of the first one writes to the second one

local extension = {}

-- {======================================================
-- The simulation
-- =======================================================

-- A guard writes before the write that it is told of is stored.
function extension:before_write(i, write)
  if i ~= GUARDED or not self.logs then return end
  local n = value_of(self:chain(LOG, "n")) or 0
  self:note_write(LOG, "n", n + 1, write)
end

-- Returns the origin of a write that the running coroutine makes.
function extension:origin()
  local stack = self.stack
  local its = stack[#stack].origins
  if #its > 0 then return its[#its].name end
  local found
  for i = 1, #stack - 1 do
    local last = stack[i].origins[#stack[i].origins]
    if last and (not found or last.order > found.order) then found = last end
  end
  return found and found.name
end

-- Returns the final value before a write; nothing if a later one is final.
local function final_before(write)
  local value, found
  for i = #write.chain, 1, -1 do
    local other = write.chain[i]
    if other == write then
      found = true
    elseif other.final then
      if not found then return false end
      value = other.value
      break
    end
  end
  return found, value
end

local function kind_of(key, old, new)
  if key == CLASS then return "metatable" end
  return old == nil and "insert" or new == nil and "delete" or "update"
end

function extension:note_delivery(owner, writes)
  for _, write in ipairs(writes) do
    local counts, old = final_before(write)
    local chain = write.chain
    if counts then
      write.final = true
      if chain.key == CLASS or old ~= nil or write.value ~= nil then
        local entry = { object = chain.object, key = chain.key, old = old,
          new = write.value, kind = kind_of(chain.key, old, write.value),
          owner = owner, origin = write.origin, because = write.because,
          is_read = write.is_read }
        write.entry = entry
        self.delivered[#self.delivered + 1] = entry
        entry.at = #self.delivered
        for _, its in ipairs(self.recorders) do
          its.n = its.n + 1
          its.lost = its.n - math.min(its.n, its.capacity)
        end
      end
    end
  end
end

function extension:note_taken(owner)
  for _, its in ipairs(self.recorders) do
    if its.taken then
      for _, entry in ipairs(changes(owner.entries)) do
        its.taken[#its.taken + 1] = { entry = entry, at = #self.delivered }
        if #its.taken > its.capacity then table.remove(its.taken, 1) end
      end
    end
  end
end

-- An object that was untracked, with writes that nobody takes back now, has no
-- past that is known.
function extension:forget_past(i)
  for at = #self.copies, 1, -1 do
    if self.copies[at].object == i then table.remove(self.copies, at) end
  end
end

-- }======================================================

-- {======================================================
-- Steps
-- =======================================================

function extension:record(choose)
  if #self.recorders >= 4 then return end
  local capacity = choose(2) == 1 and choose(20) or 10000
  local takes = choose(3) == 1
  self:log("record", capacity, takes and "with what is taken back" or "")
  table.insert(self.recorders, {
    capacity = capacity, n = 0, lost = 0, from = #self.delivered,
    taken = takes and {} or nil,
    recorder = mw.recorder { capacity = capacity, where = choose(4) == 1,
      rolled_back = takes, scopes = choose(2) == 1 },
  })
end

function extension:unrecord(choose)
  if #self.recorders == 0 then return end
  local its = table.remove(self.recorders, choose(#self.recorders))
  self:log("end a recorder of", its.capacity)
  if choose(2) == 1 then its.recorder:stop() end
end

-- }======================================================

-- {======================================================
-- Comparing
-- =======================================================

local function text_of(self, e)
  local key = e.key
  return ("%s of %s in object %s: %s > %s by %s"):format(e.kind,
    self:key_text(key), tostring(e.object), self:text(e.old), self:text(e.new),
    tostring(e.origin))
end

local function plain(self, e)
  return { kind = e.kind, object = self.numbers[e.object], old = e.old,
    new = e.new, origin = e.origin,
    key = e.kind == "metatable" and CLASS or e.key }
end

local function check_transaction(self, real, expected)
  local owner, tx = expected.owner, real.transaction
  if not owner then
    if tx ~= nil then complain("the transaction is ", tostring(tx)) end
  elseif owner.label then
    if tx ~= owner.label then complain("no label, but ", tostring(tx)) end
  else
    self.transactions[owner] = self.transactions[owner] or tx
    if math.type(tx) ~= "integer" or tx ~= self.transactions[owner] then
      complain("transaction ", tostring(tx), " is not ",
        tostring(self.transactions[owner]))
    end
  end
end

-- A cause that this recorder keeps is known.
local function check_cause(real, expected, first)
  local cause = expected.because and expected.because.entry
  local seq = cause and cause.seq
  if real.because ~= nil and real.because ~= seq then
    complain("because ", tostring(real.because), ", not ", tostring(seq))
  end
  if seq and cause.at >= first and expected.is_read and not real.because then
    complain("the cause is unknown")
  end
end

local function check_entry(self, real, expected, first, last)
  if not expected.is_read then expected.origin = real.origin end
  local a, b = text_of(self, expected), text_of(self, plain(self, real))
  if a ~= b then complain("to deliver: ", a, "\nbut delivered: ", b) end
  expected.seq = expected.seq or real.seq
  if real.seq ~= expected.seq or last and real.seq ~= last + 1 then
    complain("number ", tostring(real.seq), " after ", tostring(last))
  end
  check_transaction(self, real, expected)
  check_cause(real, expected, first)
  local _ = tostring(real)
end

-- All numbers first: an entry may come before its cause.
local function number_entries(self, its, first)
  local at = first
  for e in its.recorder:entries() do
    if not e.rolled_back then
      local expected = self.delivered[at]
      if expected then expected.seq = expected.seq or e.seq end
      at = at + 1
    end
  end
end

local function check_recorder(self, its)
  local first = its.from + its.lost + 1
  local at, last, taken = first, nil, 0
  number_entries(self, its, first)
  for real in its.recorder:entries() do
    if real.rolled_back then
      taken = taken + 1
      if its.taken and not self.unordered then
        local expected = its.taken[taken]
        local wanted = expected and self:entry_text(expected.entry)
        local got = self:entry_text(plain(self, real))
        if got ~= wanted or expected.at ~= at - 1 and expected.at >= first then
          complain("to take back: ", tostring(wanted), "\nbut took: ", got)
        end
      end
    else
      local expected = self.delivered[at]
      if not expected then
        complain("too many: ", text_of(self, plain(self, real)))
      end
      check_entry(self, real, expected, first, last)
      at, last = at + 1, real.seq
    end
  end
  if at ~= #self.delivered + 1 then
    complain("not delivered: ", text_of(self, self.delivered[at]))
  end
  if taken ~= (its.taken and #its.taken or 0) and not self.unordered then
    complain("taken back are ", taken, ", not ", its.taken and #its.taken or 0)
  end
  if not its.taken and its.recorder:lost() ~= its.lost or
    its.recorder:len() ~= at - first + taken then
    complain("lost ", its.recorder:lost(), ", not ", its.lost)
  end
end

-- Returns what an object holds of which nothing can be taken back.
local function final_state(self, i)
  local state = {}
  for key, chain in pairs(self.fields[i]) do
    for at = #chain, 1, -1 do
      if chain[at].final then
        if key ~= CLASS then state[key] = chain[at].value end
        break
      end
    end
  end
  return state
end

local function check_past(self, its, copy)
  local first, entry = its.from + its.lost + 1, self.delivered[copy.at]
  if not entry or not entry.seq or copy.at < first then return end
  local past, message = its.recorder:past(self.objects[copy.object], entry.seq)
  if not past then complain("no past: ", message) end
  for key, value in pairs(copy.state) do
    if not rawequal(past[key], value) and value == value then
      complain("object ", copy.object, " held ", self:text(value), " in ",
        self:text(key), ", not ", self:text(past[key]))
    end
  end
  for key in pairs(past) do
    if copy.state[key] == nil then
      complain("object ", copy.object, " did not have ", self:text(key))
    end
  end
end

-- Asks for the last write of a field.
local function check_why(self, its, chain)
  local i, key = chain.object, chain.key
  if key == CLASS or i >= USERDATA then return end
  local e = its.recorder:why(self.objects[i], key)
  local last = chain[#chain]
  if e and e.rolled_back then return end
  if last.owner and last.owner.open then
    if not e or e.open and not rawequal(e.new, last.value) then
      if e or last.entry then complain("why is not of the open write") end
    end
    local noted = last.noted
    if e and e.open and changes { noted } [1] and
      not rawequal(e.old, noted.old) then
      complain("before the open write there was ", self:text(noted.old),
        ", not ", self:text(e.old))
    end
    return
  end
  local found
  for at = #self.delivered, 1, -1 do
    local d = self.delivered[at]
    if d.object == i and rawequal(d.key, key) then
      found = d
      break
    end
  end
  local first = its.from + its.lost + 1
  if found and found.at >= first and not e then
    complain("why does not know ", text_of(self, found))
  end
  if e and not e.open and found and found.seq and e.seq ~= found.seq then
    complain("why is of ", tostring(e.seq), ", not of ", tostring(found.seq))
  end
end

function extension:check_recorders()
  self:check_object(LOG)
  if self.lost_count and self.lost_count > 1 then self.unordered = true end
  for _, its in ipairs(self.recorders) do check_recorder(self, its) end
  local choose = worlds.chooser(#self.lines)
  if choose(4) == 1 then
    local i = choose(10)
    table.insert(self.copies, { at = #self.delivered, object = i,
      state = final_state(self, i) })
  end
  for _, its in ipairs(self.recorders) do
    if #self.copies > 0 then
      check_past(self, its, self.copies[choose(#self.copies)])
    end
    check_why(self, its, self.chains[choose(#self.chains)])
  end
end

-- }======================================================

local function extend(self)
  for name, f in pairs(extension) do self[name] = f end
  self.recorders, self.delivered, self.copies, self.transactions =
    {}, {}, {}, {}
  self.objects[LOG] = mw.track {}
  self.numbers[self.objects[LOG]], self.fields[LOG] = LOG, {}
  self.logs = not self.has_batches
  local log = self.objects[LOG]
  if self.logs then
    mw.watch(self.objects[GUARDED], function(_, _, _, _, kind)
      if kind ~= "rollback" then log.n = (log.n or 0) + 1 end
    end, { once = false })
  end
  self:record(worlds.chooser(#self.steps))
end

local recorder_world = {}

--- Runs a program: see transaction_world.compare.
function recorder_world.compare(steps)
  return transaction_world.compare(steps, extend)
end

function recorder_world.shrink(steps)
  return transaction_world.shrink(steps, extend)
end

return recorder_world

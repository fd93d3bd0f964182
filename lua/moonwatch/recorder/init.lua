--- mw.recorder, mw.why: what was written, by whom, where and because of what.
-- SPDX-License-Identifier: MIT
--
-- A recorder is a reader of the journal that reads nothing: the journal keeps
-- what the recorder has not missed.  A recorder that has stopped has a look at
-- the entries of that time instead.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local entry = require "moonwatch.recorder.entry"
local taken = require "moonwatch.recorder.taken"

local text = require "moonwatch.recorder.text"

local private = core.private
local now = private.now

local Recorder, state_of, new = check.class "recorder"

local recorder = {}

local recorders = private.recorders

-- Returns the running recorder that was made last, or nil.
local function last_one()
  local last
  for self in pairs(recorders) do
    if not self.look and self.number > (last and last.number or 0) then
      last = self
    end
  end
  return last
end

-- Merges two arrays of names by their orders, which ascend; returns both.
local function merge(a, of_a, b, of_b)
  if not a[1] then return b, of_b end
  local names, orders, i, j = {}, {}, 1, 1
  while a[i] or b[j] do
    local n = #names + 1
    if not b[j] or a[i] and of_a[i] < of_b[j] then
      names[n], orders[n], i = a[i], of_a[i], i + 1
    else
      names[n], orders[n], j = b[j], of_b[j], j + 1
    end
  end
  return names, orders
end

-- When a write comes and others execute than at the last write, the core asks
-- for the names of what executes in a coroutine, and the orders of their
-- entering.
private.keep("paths", function(co)
  local names, orders = {}, {}
  for _, path in next, private.hierarchies do
    names, orders = merge(names, orders, path(co))
  end
  return names, orders
end)

-- Returns the numbers of the first and the last entry.  Forgets what is older
-- than the recorder's seconds.
local function range(self)
  if self.look then return self.first, self.last end
  local seq = self.seconds and private.entry_since(now() - self.seconds)
  if seq and seq > private.reader_state(self.reader) then
    private.seek_reader(self.reader, seq)
    if self.taken then self.taken:forget(seq - 1) end
  end
  local first, _, last = private.reader_state(self.reader)
  return first, last
end

--- Returns an iterator of the entries, those with the number `seq` and later.
-- What was taken back stands where that happened.
function Recorder:entries(seq)
  self = state_of(self, "entries")
  check.argument(seq == nil or math.type(seq) == "integer", 1, "entries",
    "integer", seq)
  local first, last = range(self)
  local from = math.max(first, seq or first)
  local look, n, skip = self.look, self.n, 0
  if look then skip = math.max(0, from - (last - n + 1))
  else look, n = private.look(from, last) end
  local delivered = entry.each(look, n, skip)
  if not self.taken then return delivered end
  return self.taken:between(delivered, math.max(seq or 0, 0))
end

--- Returns how many entries there are.
function Recorder:len()
  self = state_of(self, "len")
  local first, last = range(self)
  return last - first + 1 + (self.taken and self.taken:len() or 0)
end

Recorder.__len = Recorder.len

--- Returns how many entries were forgotten because there was no room.
function Recorder:lost()
  self = state_of(self, "lost")
  local lost = self.missed or select(2, private.reader_state(self.reader))
  return lost + (self.taken and self.taken.lost or 0)
end

-- Returns what running recorders keep of what is taken back; the program may
-- have dropped some recorders.
local function keepers()
  local list = {}
  for self in pairs(recorders) do
    if self.taken and not self.look then list[#list + 1] = self.taken end
  end
  return list
end

-- Recorders keep what is taken back.  Where memory runs out, the rest counts as
-- lost.
local function keep_taken(entries, at)
  local list = keepers()
  for _, its in ipairs(list) do its:expect(#entries) end
  for _, values in ipairs(entries) do
    local e, order = text.owned("rolled_back", table.unpack(values, 1, 12))
    for _, its in ipairs(list) do its:keep(e, values[1], order, at) end
  end
  private.keep("taken", list[1] and keep_taken or nil)
end

-- The core tells of what is taken back if a recorder keeps that.
local function tell_taken()
  private.keep("taken", keepers()[1] and keep_taken or nil)
end

local function stop(self)
  if self.look or private.put_off(stop, self) then return end
  local first, last = range(self)
  local lost = select(2, private.reader_state(self.reader))
  local look, n = private.look(first, last)
  self.first, self.last, self.missed = first, last, lost
  self.look, self.n = look, n
  private.close_reader(self.reader)
  tell_taken()
end

--- Ends the recording; the entries stay.
function Recorder:stop() stop(state_of(self, "stop")) end

Recorder.__close = Recorder.stop

local OPTIONS = {
  capacity = "count", seconds = "number", where = "boolean",
  scopes = "boolean", rolled_back = "boolean",
}

local CAPACITY = 65536

--- Begins to record.
function recorder.recorder(opts)
  opts = check.options(opts, OPTIONS, 1, "recorder")
  local capacity, seconds = opts.capacity or CAPACITY, opts.seconds
  check.that(capacity > 0, 1, "recorder", "option 'capacity' is not positive")
  check.that(not seconds or seconds > 0, 1, "recorder",
    "option 'seconds' is not positive")
  local state = {
    seconds = seconds or false, look = false, missed = false, first = 1,
    last = 0, n = 0, reader = false, number = 0,
    taken = opts.rolled_back and taken.new(capacity) or false,
  }
  local self = new(state)
  state.reader = private.open_reader(capacity, opts.where or false,
    opts.scopes ~= false, true)
  local last = last_one()
  state.number = last and last.number + 1 or 1
  recorders[state] = true
  if state.taken then tell_taken() end
  return self
end

-- Returns the last delivered entry of a field that is kept.
local function find_kept(self, obj, key)
  for i = self.n, 1, -1 do
    local object, its_key, _, _, kind = private.look_entry(self.look, i)
    if rawequal(object, obj) and rawequal(its_key, key) and
      kind ~= "metatable" and kind ~= "call" then
      return entry.of(self.look, i)
    end
  end
end

-- Likewise, while the recorder runs; or the last writer of what is there now.
-- Only of a table can be said that nothing is there.
local function find_last(obj, key)
  local seq = private.find_entry(obj, key)
  if seq then return entry.of(private.look(seq, seq), 1) end
  local value
  if type(obj) == "table" then
    value = rawget(private.raw(obj), key)
    if value == nil then return nil end
  end
  return entry.new(private.kept_writer(obj, key, value))
end

local function why(self, obj, key)
  local undone, at, order
  if self.taken then undone, at, order = self.taken:find(obj, key) end
  if not self.look then
    local open, its = text.owned("open", private.open_entry(obj, key))
    if open and undone and order > its then return undone end
    if open then return open end
  end
  local last = self.look and find_kept(self, obj, key) or
    not self.look and find_last(obj, key) or nil
  if undone and at >= (last and last.seq or 0) then return undone end
  return last
end

--- Returns the entry of the last write to a field, or nil.
function Recorder:why(obj, key)
  return why(state_of(self, "why"), obj, key)
end

--- Likewise, of the running recorder that was made last.  Of an object that
-- nobody records, nil and a message.
function recorder.why(obj, key)
  check.dot("why", obj)
  local its = last_one()
  if not its then return nil, "no recorder is running" end
  local last = why(its, obj, key)
  if last or private.intercepts(obj) then return last end
  return nil, "the object is neither watched nor tracked: see mw.track"
end

local ABSENT = {}

-- Returns object -> key -> what the field held after the entry `seq`, for the
-- fields that were written since.
local function written_since(seq, last)
  local look, n = private.look(seq + 1, last)
  local fields = {}
  for i = n, 1, -1 do
    local object, key, old, _, kind = private.look_entry(look, i)
    if object ~= nil and key ~= nil and kind ~= "metatable" and
      kind ~= "call" then
      local its = fields[object] or {}
      fields[object] = its
      its[key] = old == nil and ABSENT or old
    end
  end
  return fields
end

-- Returns a copy of what an object held.  Writes of open transactions are not
-- delivered.
local function contents(obj, before, fields)
  local copy = {}
  local parts = before[obj]
  for key, value in next, parts and parts[1] or private.raw(obj) do
    copy[key] = value
  end
  for key, value in next, fields[obj] or {} do
    copy[key] = nil
    if value ~= ABSENT then copy[key] = value end
  end
  return copy
end

-- Replaces the tables in the fields of a copy by copies, and so on below.
local function copy_below(root, copy, before, fields)
  local copies, queue = { [root] = copy }, { root }
  for _, parent in ipairs(queue) do -- which grows
    local its = copies[parent]
    for key, value in next, its do
      if type(value) == "table" and
        (copies[value] or private.enters(root, parent, key, value)) then
        if not copies[value] then
          copies[value] = contents(value, before, fields)
          queue[#queue + 1] = value
        end
        its[key] = copies[value]
      end
    end
  end
end

--- Returns what an object held after an entry: from what it holds now, back
-- through the entries since.
function Recorder:past(obj, seq, opts)
  self = state_of(self, "past")
  check.argument(type(obj) == "table", 1, "past", "table", obj)
  check.argument(math.type(seq) == "integer", 2, "past", "integer", seq)
  opts = check.options(opts, { deep = "boolean" }, 3, "past")
  if self.look then return nil, "the recorder has stopped" end
  local first, last = range(self)
  if seq > last then
    return nil, ("there is no entry %d yet"):format(seq)
  elseif seq < first - 1 then
    return nil, ("the entries after %d are not kept"):format(seq)
  end
  local before, fields = private.delivered_now() or {}, written_since(seq, last)
  local copy = contents(obj, before, fields)
  if opts.deep then copy_below(obj, copy, before, fields) end
  return copy
end

return recorder

--- mw.recorder, mw.why: what was written, by whom, where and because of what.
-- SPDX-License-Identifier: MIT
--
-- A recorder is a reader of the journal that reads nothing: the journal keeps
-- what the recorder has not missed.  A recorder that has stopped has a look at
-- the entries of that time instead.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local past = require "moonwatch.recorder.past"
local protect = require "moonwatch.protect"

require "moonwatch.recorder.text"

local private = core.private
local now = private.now

local Recorder, state_of, new = check.class "recorder"

local recorder = {}

-- The running recorders, in the order in which they were made; all copies of
-- this file share the list.  A recorder that the program has dropped is not in
-- the list any more.
private.recorders = private.recorders or setmetatable({}, { __mode = "v" })
local running = private.recorders

-- {======================================================
-- Entries that are kept
-- =======================================================

-- Forgets what is older than the recorder's seconds.
local function forget_old(self)
  if not self.seconds then return end
  local seq = private.entry_since(self.reader, now() - self.seconds)
  if seq then private.seek_reader(self.reader, seq) end
end

-- Returns the numbers of the first and the last entry.
local function range(self)
  if self.look then return self.first, self.last end
  forget_old(self)
  local first, _, last = private.reader_state(self.reader)
  return first, last
end

-- Returns a look at the entries from `seq` on, and how many there are.
local function look_from(self, seq)
  local first, last = range(self)
  if self.look then return self.look, math.max(first, seq or first) end
  return private.look(math.max(first, seq or first), last), nil
end

--- Returns an iterator of the entries, those with the number `seq` and later.
function Recorder:entries(seq)
  self = state_of(self, "entries")
  check.argument(seq == nil or math.type(seq) == "integer", 1, "entries",
    "integer", seq)
  local look, from = look_from(self, seq)
  return recorder.iterate(self, look, from)
end

-- What was taken back stands between the delivered entries, where it happened.
function recorder.iterate(self, look, from)
  local delivered = private.look_entries(look, from)
  if not self.taken then return delivered end
  return self.taken:between(delivered, from)
end

--- Returns how many entries there are.
function Recorder:len()
  local first, last = range(state_of(self, "len"))
  return last - first + 1
end

Recorder.__len = Recorder.len

--- Returns how many entries were forgotten because there was no room.
function Recorder:lost()
  self = state_of(self, "lost")
  if self.look then return self.missed end
  local _, lost = private.reader_state(self.reader)
  return lost
end

-- }======================================================

-- {======================================================
-- Beginning and ending
-- =======================================================

-- A look comes before the end, so an error on the way changes nothing.
local function stop(self)
  if self.look then return end
  local first, last = range(self)
  local _, lost = private.reader_state(self.reader)
  local look = private.look(first, last)
  self.first, self.last, self.missed, self.look = first, last, lost, look
  private.close_reader(self.reader)
  for i = #running, 1, -1 do
    if running[i] == self then table.remove(running, i) end
  end
end

--- Ends the recording; the entries stay.
function Recorder:stop() private.quietly(stop, state_of(self, "stop")) end

function Recorder:__close() private.quietly(stop, state_of(self, "stop")) end

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
  local state = { seconds = seconds }
  local self = new(state)
  state.reader = private.open_reader(capacity, false, opts.where or false,
    opts.scopes ~= false)
  running[#running + 1] = state
  return self
end

-- }======================================================

-- {======================================================
-- Questions
-- =======================================================

-- Returns the last entry of a field in a recorder that has stopped.
local function find_in(self, obj, key)
  for i = self.last - self.first + 1, 1, -1 do
    local object, its_key = private.look_entry(self.look, i)
    if rawequal(object, obj) and rawequal(its_key, key) then
      return private.look_entries(self.look, self.first + i - 1)()
    end
  end
end

local function why(self, obj, key)
  if self.look then return find_in(self, obj, key) end
  local open = private.open_entry(obj, key)
  if open then return open end
  local first = range(self)
  local seq = private.find_entry(obj, key, math.maxinteger)
  if seq and seq >= first then
    return private.look_entries((private.look(seq, seq)))()
  end
end

--- Returns the entry of the last write to a field, or nil.
function Recorder:why(obj, key)
  return why(state_of(self, "why"), obj, key)
end

--- Likewise, of the running recorder that was made last.
function recorder.why(obj, key)
  check.dot("why", obj)
  local self = running[#running]
  if not self then return nil, "no recorder is running" end
  return why(self, obj, key)
end

--- Returns what an object held after an entry.
function Recorder:past(obj, seq, opts)
  self = state_of(self, "past")
  check.argument(type(obj) == "table", 1, "past", "table", obj)
  check.argument(math.type(seq) == "integer", 2, "past", "integer", seq)
  opts = check.options(opts, { deep = "boolean" }, 3, "past")
  local first, last = range(self)
  return past.of(self.look, first, last, obj, seq, opts.deep)
end

-- }======================================================

return recorder

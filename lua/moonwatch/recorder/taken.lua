--- What was taken back, for a recorder that keeps this, too.
-- SPDX-License-Identifier: MIT
--
-- The entries stand in a queue, each with the number of the entry that was
-- delivered last when the transaction was taken back:
--
--     entries   e1  e2  e3  ...
--     at        17  17  25  ...
--     numbers   ..  ..  ..  ...   as causes: see `private.caused_by`
--     orders    ..  ..  ..  ...   in the program; 0: a final write has followed
--               FIRST       LAST
--
-- The core counts the entries that are taken back.  So an entry is lost that is
-- counted and was not put into the queue, for want of memory, or that was
-- dropped for want of room.

local private = require "moonwatch.core".private

local Taken = {}
Taken.__index = Taken

function Taken.new(capacity)
  return setmetatable({
    capacity = capacity, first = 1, last = 0, dropped = 0, at = {},
    entries = {}, numbers = {}, orders = {}, begun = private.undone(),
    ended = false,
  }, Taken)
end

function Taken:len() return self.last - self.first + 1 end

--- Returns how many entries were lost, until there were `ended` in all.
function Taken:lost()
  local n = (self.ended or private.undone()) - self.begun
  return n - self.last + self.dropped
end

local function drop_first(self)
  self.at[self.first], self.entries[self.first] = nil, nil
  self.numbers[self.first], self.orders[self.first] = nil, nil
  self.first = self.first + 1
end

local function keep(self, entries, at)
  for i, entry in ipairs(entries) do
    local last = self.last + 1
    self.at[last], self.entries[last] = at, entry
    self.numbers[last] = entries.numbers[i]
    self.orders[last] = entries.orders[i]
    self.last = last
    if self:len() > self.capacity then
      drop_first(self)
      self.dropped = self.dropped + 1
    end
  end
end

--- Keeps the entries of a transaction that was taken back, or loses those for
-- which there is no memory.
function Taken:keep(entries, at) pcall(keep, self, entries, at) end

--- Forgets what was taken back before the entry `at` was delivered.
function Taken:forget(at)
  while self.first <= self.last and self.at[self.first] < at do
    drop_first(self)
  end
end

--- Returns an iterator of the entries of `delivered`, from the number `from`
-- on, and of what was taken back between these, until now: a loop may write.
function Taken:between(delivered, from)
  local first, i = self.first, 1
  while first <= self.last and self.at[first] < from - 1 do
    first = first + 1
  end
  local times = table.move(self.at, first, self.last, 1, {})
  local entries = table.move(self.entries, first, self.last, 1, {})
  local waiting = delivered()
  return function()
    local at = times[i]
    if at and (not waiting or at < waiting.seq) then
      i = i + 1
      return entries[i - 1]
    end
    local entry = waiting
    if entry then waiting = delivered() end
    return entry
  end
end

--- Returns the last write of a field, when it was taken back, and its order; or
-- nil.  Transactions may be taken back in another order than they wrote.
function Taken:find(obj, key)
  local found, order = nil, 0
  for i = self.last, self.first, -1 do
    local e = self.entries[i]
    if self.orders[i] > order and rawequal(e.object, obj) and
      rawequal(e.key, key) and e.kind ~= "metatable" and e.kind ~= "call" then
      found, order = i, self.orders[i]
    end
  end
  if found then return self.entries[found], self.at[found], order end
end

--- Returns the numbers of an entry, or nil.
function Taken:numbers_of(entry)
  for i = self.last, self.first, -1 do
    if rawequal(self.entries[i], entry) then return self.numbers[i] end
  end
end

--- Returns the entry that has a number as a cause, or nil.
function Taken:caused_by(number)
  for i = self.last, self.first, -1 do
    if self.numbers[i] >> 32 == number then return self.entries[i] end
  end
end

return Taken

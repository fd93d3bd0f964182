--- What was taken back, for a recorder that keeps this, too.
-- SPDX-License-Identifier: MIT
--
-- The entries stand in a queue, each with the number of the entry that was
-- delivered last when the transaction was taken back:
--
--     entries   e1  e2  e3  ...
--     at        17  17  25  ...
--               first       last
--
-- An entry has an order, its place in the program: transactions may be taken
-- back in another order than they wrote.  It has two numbers in one, as causes:
-- its own (the upper 32 bits), and that of its cause.  The place of the last
-- write of each field, the entries by their numbers, and the numbers by entries
-- are known, so that nobody looks through the queue.

local Taken = {}
Taken.__index = Taken

function Taken.new(capacity)
  return setmetatable({
    capacity = capacity, first = 1, last = 0, lost = 0, at = {},
    entries = {}, orders = {}, numbers = {}, numbered = {}, fields = {},
  }, Taken)
end

function Taken:len() return self.last - self.first + 1 end

local function drop_first(self)
  local place = self.first
  local entry = self.entries[place]
  local number = (self.numbers[entry] or 0) >> 32
  local fields = self.fields[entry.object]
  if fields and entry.key ~= nil and fields[entry.key] == place then
    fields[entry.key] = nil
    if next(fields) == nil then self.fields[entry.object] = nil end
  end
  if self.numbered[number] == entry then self.numbered[number] = nil end
  self.numbers[entry], self.at[place] = nil, nil
  self.entries[place], self.orders[place] = nil, nil
  self.first = place + 1
end

-- Does the entry, with its order, write its field last, as far as is known?
-- 0 is the order where a final write has followed.
local function is_last(self, entry, order)
  if order == 0 or entry.kind == "metatable" or entry.kind == "call" then
    return false
  end
  local fields = self.fields[entry.object]
  local place = fields and fields[entry.key]
  return not place or self.orders[place] < order
end

local function add(self, entry, numbers, order, at)
  local place, object = self.last + 1, entry.object
  self.entries[place], self.at[place], self.orders[place] = entry, at, order
  self.numbers[entry], self.numbered[numbers >> 32] = numbers, entry
  self.last, self.lost = place, self.lost - 1
  if is_last(self, entry, order) then
    local fields = self.fields[object] or {}
    fields[entry.key] = place
    self.fields[object] = fields
  end
end

--- So many entries of a transaction are taken back: until they are kept, they
-- count as lost.
function Taken:expect(n) self.lost = self.lost + n end

--- Keeps such an entry.
function Taken:keep(entry, numbers, order, at)
  add(self, entry, numbers, order, at)
  if self:len() > self.capacity then
    drop_first(self)
    self.lost = self.lost + 1
  end
end

--- Forgets what was taken back before the entry `at` was delivered.
function Taken:forget(at)
  while self.first <= self.last and self.at[self.first] < at do
    drop_first(self)
  end
end

-- Returns the place of the first entry that was taken back at `at` or later.
local function find_at(self, at)
  local low, high = self.first, self.last + 1
  while low < high do
    local middle = (low + high) // 2
    if self.at[middle] < at then low = middle + 1 else high = middle end
  end
  return low
end

--- Returns an iterator of the entries of `delivered`, from the number `from`
-- on, and of what was taken back between these, until now: a loop may write.
function Taken:between(delivered, from)
  local first, i = find_at(self, from - 1), 1
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
-- nil.
function Taken:find(obj, key)
  local fields = self.fields[obj]
  local place = fields and fields[key]
  if not place then return nil end
  return self.entries[place], self.at[place], self.orders[place]
end

--- Returns the entry that has a number as a cause, or nil.
function Taken:caused_by(number) return self.numbered[number] end

return Taken

--- What was taken back, for a recorder that keeps this, too.
-- SPDX-License-Identifier: MIT
--
-- A queue of { entry, numbers, order, at }, from `first` to `last`: `at` is the
-- number of the entry that was delivered last when the entry was taken back.
-- The order is its place in the program, for transactions may be taken back in
-- another order than they wrote; it is 0 where a final write of the field has
-- followed.  The numbers are two in one, as causes: that of the entry (the
-- upper 32 bits), and that of its cause.  `fields` has the last write of each
-- field: object -> key -> one in the queue.

local Taken = {}
Taken.__index = Taken

function Taken.new(capacity)
  return setmetatable({
    capacity = capacity, first = 1, last = 0, lost = 0, fields = {},
  }, Taken)
end

function Taken:len() return self.last - self.first + 1 end

local function drop_first(self)
  local its = self[self.first]
  local entry = its.entry
  local fields = self.fields[entry.object]
  if fields and fields[entry.key] == its then
    fields[entry.key] = nil
    if next(fields) == nil then self.fields[entry.object] = nil end
  end
  self[self.first], self.first = nil, self.first + 1
end

--- So many entries of a transaction are taken back: until they are kept, they
-- count as lost.
function Taken:expect(n) self.lost = self.lost + n end

--- Keeps such an entry.
function Taken:keep(entry, numbers, order, at)
  local its = { entry = entry, numbers = numbers, order = order, at = at }
  self[self.last + 1] = its
  self.last, self.lost = self.last + 1, self.lost - 1
  if entry.kind ~= "metatable" and entry.kind ~= "call" then
    local fields = self.fields[entry.object] or {}
    local former = fields[entry.key]
    if order > (former and former.order or 0) then
      fields[entry.key], self.fields[entry.object] = its, fields
    end
  end
  if self:len() > self.capacity then
    drop_first(self)
    self.lost = self.lost + 1
  end
end

--- Forgets what was taken back before the entry `at` was delivered.
function Taken:forget(at)
  while self.first <= self.last and self[self.first].at < at do
    drop_first(self)
  end
end

--- Returns an iterator of the entries of `delivered`, from the number `from`
-- on, and of what was taken back between these, until now: a loop may write.
function Taken:between(delivered, from)
  local items, i = table.move(self, self.first, self.last, 1, {}), 1
  while items[i] and items[i].at < from - 1 do i = i + 1 end
  local waiting = delivered()
  return function()
    local its, entry = items[i], waiting
    if its and (not waiting or its.at < waiting.seq) then
      i = i + 1
      return its.entry
    end
    if entry then waiting = delivered() end
    return entry
  end
end

--- Returns the last write of a field, when it was taken back, and its order; or
-- nil.
function Taken:find(obj, key)
  local its = self.fields[obj] and self.fields[obj][key]
  if its then return its.entry, its.at, its.order end
end

--- Returns the entry that has a number as a cause, or nil.
function Taken:caused_by(number)
  for i = self.last, self.first, -1 do
    if self[i].numbers >> 32 == number then return self[i].entry end
  end
end

return Taken

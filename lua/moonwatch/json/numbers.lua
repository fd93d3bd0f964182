--- Numbers for the values of documents: equal values have the same number.
-- SPDX-License-Identifier: MIT
--
-- Scalars have positive numbers, tables negative ones.  The number of a table
-- is that of another one with the same kind and the same members, by number, if
-- there is one.  To find it, the names and numbers of the members are mixed
-- into a sum:
--
--     twins[sum]     a table with that sum; another one with the same sum that
--                    is not equal stands at a greater sum
--     owners[sum]    the table's side
--
-- A table that is the same on both sides without a look at its contents has a
-- number of its own, in `identity`.
--
-- A side is one of two documents: the function that returns the contents of its
-- tables, and the numbers of its tables.
--
-- The walk needs no recursion, because documents may be deep.  The frame of a
-- depth is used again and again, because most tables are small:
--
--     table, held, kind    the table, its contents, what it is
--     key, n, sum          the last member that was mixed in, the number of
--                          members so far, and the sum

local core = require "moonwatch.core"
local json = require "moonwatch.json"

local raw, type, next, getmetatable = core.private.raw, type, next, getmetatable

local Numbers = {}
Numbers.__index = Numbers

local Side = {}
Side.__index = Side

--- Returns the contents of a table, as a table without a class.
function Side:contents(t)
  if self.of == raw and getmetatable(t) == nil then return t end
  return json.plain(self.of(t))
end

--- Returns the kind of a table: "array", "object" or "either".
function Side:kind(t)
  local key = next(self.of(t))
  if key == nil then return json.mark(t) or "either" end
  return type(key) == "string" and "object" or "array"
end

function Numbers:scalar(value)
  local number = self.scalars[value]
  if not number then
    number = self.n + 1
    self.n, self.scalars[value] = number, number
  end
  return number
end

-- Tells whether the table of a frame is equal to one that has a number.
function Numbers:same(side, frame, owner, twin)
  if owner:kind(twin) ~= frame.kind then return false end
  local scalars, numbers, its = self.scalars, side.numbers, owner.numbers
  local n, held = 0, frame.held
  for key, value in next, owner:contents(twin) do
    local other = held[key]
    local number = scalars[value] or its[value]
    if number ~= (scalars[other] or numbers[other]) then return false end
    n = n + 1
  end
  return n == frame.n
end

-- Returns the number of the table of a frame, whose members are mixed in.
function Numbers:table(side, frame)
  local sum = frame.sum
  while self.twins[sum] do
    local twin, owner = self.twins[sum], self.owners[sum]
    if self:same(side, frame, owner, twin) then return owner.numbers[twin] end
    sum = sum + 1
  end
  self.twins[sum], self.owners[sum] = frame.table, side
  self.tables = self.tables - 1
  return self.tables
end

-- Returns the number of a table that is known to be the same on both sides, or
-- nil.
function Numbers:own(side, t)
  if not self.is_same or not self.is_same(t) then return nil end
  local number = self.identity[t] or self.tables - 1
  if number < self.tables then self.tables = number end
  self.identity[t], side.numbers[t] = number, number
  return number
end

local A, B = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F -- odd and irregular
local KINDS = { array = A, object = B, either = A ~ B }

local function open(frames, depth, side, t)
  local frame, kind = frames[depth] or {}, side:kind(t)
  frames[depth] = frame
  frame.table, frame.held, frame.kind = t, side:contents(t), kind
  frame.key, frame.n, frame.sum = nil, 0, KINDS[kind]
  return frame
end

-- Mixes members in, up to a table that has no number.  Returns that table, or
-- nil at the end.
function Numbers:mix(side, frame)
  local scalars, numbers, last = self.scalars, side.numbers, frame.key
  local n, sum, is_array = frame.n, frame.sum, frame.kind == "array"
  for key, value in next, frame.held, last do
    local number = scalars[value] or numbers[value]
    if not number and type(value) == "table" then
      number = self:own(side, value)
      if not number then
        frame.key, frame.n, frame.sum = last, n, sum
        return value
      end
    end
    number = number or self:scalar(value)
    local name = is_array and key or scalars[key] or self:scalar(key)
    local mixed = name * A ~ number * B
    n, sum, last = n + 1, sum + mixed * (mixed >> 32), key
  end
  frame.n, frame.sum = n, sum
  return nil
end

-- Gives numbers to a table and to all below it.
function Numbers:walk(side, t)
  local frames, depth, numbers = {}, 1, side.numbers
  local frame = open(frames, depth, side, t)
  while depth > 0 do
    local below = self:mix(side, frame)
    if below then
      depth = depth + 1
      frame = open(frames, depth, side, below)
    else
      numbers[frame.table] = self:table(side, frame)
      depth = depth - 1
      frame = frames[depth]
    end
  end
  return numbers[t]
end

--- Returns the number of a value on a side, which is JSON.
function Numbers:of(side, value)
  if type(value) ~= "table" then return self:scalar(value) end
  return side.numbers[value] or self:own(side, value) or
    self:walk(side, value)
end

local function new_side(contents)
  return setmetatable({ of = contents, numbers = {} }, Side)
end

--- Returns numbers for two documents, and their sides.  `before(t)` and
-- `after(t)` return the contents of the tables of the documents.  If
-- `is_same(t)` is true, a table has the same contents in both.
return function(before, after, is_same)
  return setmetatable({ n = 0, tables = 0, scalars = {}, twins = {},
    owners = {}, is_same = is_same, identity = {} }, Numbers),
    new_side(before), new_side(after)
end

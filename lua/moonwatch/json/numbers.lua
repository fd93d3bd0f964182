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
-- A side is one of two documents: the function that returns the contents of its
-- tables, and the numbers of its tables.

local core = require "moonwatch.core"
local json = require "moonwatch.json"

local raw, type, next, getmetatable = core.raw, type, next, getmetatable

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

-- Tells whether a table has a kind and members, given by number.
function Numbers:same(kind, size, members, side, twin)
  if side:kind(twin) ~= kind then return false end
  local n = 0
  for key, value in next, side:contents(twin) do
    if self:of(side, value) ~= members[key] then return false end
    n = n + 1
  end
  return n == size
end

local A, B = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F -- odd and irregular
local KINDS = { array = A, object = B, either = A ~ B }

function Numbers:sum(members, kind)
  local sum = KINDS[kind]
  for key, number in next, members do
    local name = kind == "array" and key or self:scalar(key)
    local mixed = name * A ~ number * B
    sum = sum + mixed * (mixed >> 32)
  end
  return sum
end

-- Returns the number of a table, whose members have the numbers `members`.
function Numbers:table(side, t, members, kind, size)
  local sum = self:sum(members, kind)
  while self.twins[sum] do
    local twin, owner = self.twins[sum], self.owners[sum]
    if self:same(kind, size, members, owner, twin) then
      return owner.numbers[twin]
    end
    sum = sum + A
  end
  self.twins[sum], self.owners[sum] = t, side
  self.tables = self.tables - 1
  return self.tables
end

--- Returns the number of a value on a side, which is JSON.
function Numbers:of(side, value)
  if type(value) ~= "table" then return self:scalar(value) end
  return side.numbers[value] or json.fold(value, side.rules)
end

function Numbers:side(contents)
  local side = setmetatable({ of = contents, numbers = {} }, Side)
  side.rules = {
    contents = contents, known = side.numbers,
    scalar = function(value) return self:scalar(value) end,
    table = function(...) return self:table(side, ...) end,
  }
  return side
end

--- Returns numbers for two documents, and their sides.  `before(t)` and
-- `after(t)` return the contents of the tables of the documents.
return function(before, after)
  local self = setmetatable({ n = 0, tables = 0, scalars = {}, twins = {},
    owners = {} }, Numbers)
  return self, self:side(before), self:side(after)
end

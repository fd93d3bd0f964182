--- Statistics of the values of one kind at one place: how many, which, and
-- their bounds.
-- SPDX-License-Identifier: MIT
--
--     n         observations
--     seen      value -> true; of numbers but NaN, strings, booleans (as keys,
--               floats may become integers)
--     is_float  are the values floats?
--     size      number of values in `seen`
--     nan       was NaN seen?
--     over      were there more values than `seen` may hold?  Then `seen` has
--               the least ones
--     heap      then the values in `seen`: no value comes before those at twice
--               its place and the next, so the first is the greatest
--     room      then the number of values that may still come into `seen`: Lua
--               makes a table without free places anew, so `seen` has as many
--               free places as values at first, and is replaced when they are
--               used up
--     min, max  of numbers but NaN; of strings, of their lengths
--
-- The statistics do not depend on the order of observations, so two of them can
-- be merged into those of all observations.

local core = require "moonwatch.core"
local path = require "moonwatch.path"

local empty_set = core.private.empty_set
local before = path.before
local type = type

local values = {}

--- Returns statistics of no observation.
function values.none(is_float)
  return { n = 0, seen = {}, size = 0, is_float = is_float }
end

--- Returns statistics of one observation of a kind: "boolean", "integer",
-- "float" or "string".
function values.new(kind, value)
  local is_float = kind == "float"
  if value ~= value then
    local self = values.none(is_float)
    self.n, self.nan = 1, true
    return self
  end
  local bound = kind ~= "boolean" and (kind == "string" and #value or value)
    or nil
  return { n = 1, seen = { [value] = true }, size = 1, is_float = is_float,
    min = bound, max = bound }
end

-- {======================================================
-- Observing
-- =======================================================

-- Puts a value into the heap from place `i` downwards.
local function sift(heap, i, value)
  local n = #heap
  while 2 * i <= n do
    local child = 2 * i
    if child < n and before(heap[child], heap[child + 1]) then
      child = child + 1
    end
    if not before(value, heap[child]) then break end
    heap[i] = heap[child]
    i = child
  end
  heap[i] = value
end

local function new_heap(seen)
  local heap = {}
  for value in next, seen do heap[#heap + 1] = value end
  for i = #heap // 2, 1, -1 do sift(heap, i, heap[i]) end
  return heap
end

-- Returns the same set with as many free places as values.
local function with_room(seen, size)
  local set = empty_set(2 * size)
  for value in next, seen do set[value] = true end
  return set
end

-- Replaces the greatest value that is kept by a lesser one.
local function replace(self, value)
  local heap = self.heap or new_heap(self.seen)
  self.heap, self.over = heap, true
  local last = heap[1]
  if last == nil or not before(value, last) then return end
  if not self.room or self.room == 0 then
    self.seen, self.room = with_room(self.seen, self.size), self.size
  end
  self.seen[last] = nil
  self.seen[value] = true
  self.room = self.room - 1
  sift(heap, 1, value)
end

local function keep(self, value, most)
  if self.size == most then return replace(self, value) end
  self.seen[value] = true
  self.size = self.size + 1
end

--- Widens the bounds to hold `low` and `high`, unless they are nil.
function values.widen(self, low, high)
  if not low then return end
  if not self.min or low < self.min then self.min = low end
  if not self.max or high > self.max then self.max = high end
end

local widen = values.widen

--- Adds an observation of a value that is not in `seen`, which keeps no more
-- than `most` values.
function values.add(self, value, most)
  self.n = self.n + 1
  if value ~= value then
    self.nan = true
    return
  end
  if type(value) == "number" then
    widen(self, value, value)
  elseif type(value) == "string" then
    widen(self, #value, #value)
  end
  keep(self, value, most)
end

--- Adds the observations of other statistics.
function values.merge(self, other, most)
  self.n = self.n + other.n
  self.nan = self.nan or other.nan
  self.over = self.over or other.over
  widen(self, other.min, other.max)
  for value in next, other.seen do
    if not self.seen[value] then keep(self, value, most) end
  end
end

-- }======================================================

-- {======================================================
-- Results
-- =======================================================

--- Returns the number of different values; nil if there are more than `most`.
function values.distinct(self, most)
  local n = self.size + (self.nan and 1 or 0)
  return not self.over and n <= most and n or nil
end

local function ascending(seen)
  local list = {}
  for value in next, seen do list[#list + 1] = value end
  table.sort(list, before)
  return list
end

-- Returns a key of `seen` as the value that was observed.
local function restored(self, value)
  return self.is_float and value + 0.0 or value
end

--- Adds the values to a list, in order, until the list has `most` elements.
function values.list(self, list, most)
  for _, value in ipairs(ascending(self.seen)) do
    if #list < most then list[#list + 1] = restored(self, value) end
  end
  if self.nan and #list < most then list[#list + 1] = 0 / 0 end
end

--- Returns the value if there was only one, or nil.
function values.only(self)
  if self.over or self.size + (self.nan and 1 or 0) ~= 1 then return nil end
  if self.nan then return 0 / 0 end
  return restored(self, (next(self.seen)))
end

-- }======================================================

return values

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
--     over      were there more values than are kept?  Then these are the least
--     last      then no value that comes after it is kept
--     min, max  of numbers but NaN; of strings, of their lengths
--
-- The statistics do not depend on the order of observations, so two of them can
-- be merged into those of all observations.  Between two results `seen` may
-- have up to twice as many values as are kept; then the greatest go at once.

local path = require "moonwatch.path"

local before = path.before
local type = type

local values = {}

--- Returns statistics of no observation.
function values.none(is_float)
  return { n = 0, seen = {}, size = 0, is_float = is_float }
end

local function ascending(seen)
  local list = {}
  for value in next, seen do list[#list + 1] = value end
  table.sort(list, before)
  return list
end

--- Lets the greatest values go, so that no more than `most` are kept.
function values.trim(self, most)
  if self.size <= most then return end
  local list = ascending(self.seen)
  self.seen, self.size, self.over, self.last = {}, most, true, list[most]
  for i = 1, most do self.seen[list[i]] = true end
end

local function keep(self, value, most)
  if self.over and self.last ~= nil and before(self.last, value) then return end
  self.seen[value] = true
  self.size = self.size + 1
  if self.size >= 2 * most then values.trim(self, most) end
end

--- Widens the bounds to hold `low` and `high`, unless they are nil.
function values.widen(self, low, high)
  if not low then return end
  if not self.min or low < self.min then self.min = low end
  if not self.max or high > self.max then self.max = high end
end

local widen = values.widen

--- Adds an observation, where `most` values are kept.
function values.add(self, value, most)
  self.n = self.n + 1
  if self.seen[value] then return end
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

--- Returns the number of different values; nil if there are more than `most`.
function values.distinct(self, most)
  local n = self.size + (self.nan and 1 or 0)
  return not self.over and n <= most and n or nil
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

return values

--- mw.diff: the JSON patch that makes one document equal to another.
-- SPDX-License-Identifier: MIT
--
-- First both documents are compared side by side.  What follows goes only where
-- they differ, and values get numbers where elements of lists may have moved.
--
-- A place is a node of a pointer.
--
-- A table in two places is never changed inside, because that would change the
-- other place too: each place gets another value.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local json = require "moonwatch.json"
local align = require "moonwatch.json.align"
local compare = require "moonwatch.json.compare"
local new_numbers = require "moonwatch.json.numbers"
local pointer = require "moonwatch.json.pointer"

local raw = core.private.raw

local diff = {}

local Diff = {}
Diff.__index = Diff

-- Returns about the length of the text of a value of the second document.  What
-- is the same in both has not been looked at, and may be no JSON.
function Diff:length(value)
  if type(value) == "string" then return #value + 2 end
  if type(value) ~= "table" then
    return value == json.null and 4 or #tostring(value)
  end
  local length = self.lengths[value]
  if not length then
    length, self.lengths[value] = 2, 0 -- for a table inside itself
    for key, member in next, (self.b:open(value)) do
      length = length + self:length(member) +
        (type(key) == "string" and #key + 4 or 1)
    end
    self.lengths[value] = length
  end
  return length
end

local OPERATION = 35 -- bytes, with neither path nor value

-- Writes an operation down, with a copy of its value, which must not change
-- with the document.
function Diff:write(op, up, key, value)
  local path = pointer.of { up = up, key = key }
  self.text = self.text + OPERATION + #path
  if op ~= "remove" then
    self.text = self.text + self:length(value)
    if type(value) == "table" then value = json.copy(value, self.after) end
  end
  self.list[#self.list + 1] = { op = op, path = path, value = value }
end

-- Makes an object equal to another, in the order of the keys.  Members are
-- removed last, because an empty table no longer shows that it is an object.
function Diff:objects(at, x, y)
  local changed, removed = {}, {}
  for key, old in next, x do
    local new = y[key]
    if new == nil then
      removed[#removed + 1] = key
    elseif self.comparison:differ(old, new) then
      changed[#changed + 1] = key
    end
  end
  for key in next, y do
    if x[key] == nil then changed[#changed + 1] = key end
  end
  table.sort(changed)
  table.sort(removed)
  for _, key in ipairs(changed) do
    if x[key] == nil then
      self:write("add", at, key, y[key])
    else
      self:change(at, key, x[key], y[key])
    end
  end
  for _, key in ipairs(removed) do self:write("remove", at, key) end
end

-- Which elements of lists stay or change, and which come and go: `mates` has
-- the positions in x of those that do not go, with those in y.

-- Iterates over the runs between mates from a position on, to n in one list and
-- m in the other: the elements i to i_end - 1 become elements j to j_end - 1.
local function runs(mates, first, n, m)
  local i_end, j_end = first - 1, first - 1
  return function()
    local i, j = i_end + 1, j_end + 1
    if i > n + 1 then return nil end
    i_end = i
    while i_end <= n and not mates[i_end] do i_end = i_end + 1 end
    j_end = i_end <= n and mates[i_end] or m + 1
    return i, i_end, j, j_end
  end
end

-- Returns the cost to make one element another, as a part of the cost to
-- replace it.
function Diff:cost(x, y)
  if self.numbers:equal(x, y) then return 0 end
  if type(x) ~= "table" or type(y) ~= "table" then return 1 end
  local old, kind = self.a:open(x)
  local new, other = self.b:open(y)
  if kind ~= other then return 1 end
  local cost, whole = 0, OPERATION + self:length(y)
  for key in next, old do
    if new[key] == nil then cost = cost + OPERATION end
  end
  for key, value in next, new do
    local former = old[key]
    if former == nil or not self.numbers:equal(former, value) then
      cost = cost + OPERATION + self:length(value)
    end
    if cost >= whole then return 1 end
  end
  return cost / whole
end

-- Returns the cost of the operations for a run, as far as it is below `most`.
function Diff:cost_of_run(x, y, i, i_end, j, j_end, most)
  local both = math.min(i_end - i, j_end - j)
  local sum = math.max(i_end - i, j_end - j) - both
  for k = 0, both - 1 do
    if sum >= most then break end
    sum = sum + self:cost(x[i + k], y[j + k])
  end
  return sum
end

-- Adds the mates of the elements from `first` to n in x and m in y, unless the
-- patch is then longer than one that leaves each element at its place.
function Diff:align(mates, x, y, first, n, m)
  local found, cost = {}, 0
  align(found, self.numbers, x, y, first, n + 1, first, m + 1)
  for i, i_end, j, j_end in runs(found, first, n, m) do
    cost = cost + self:cost_of_run(x, y, i, i_end, j, j_end, math.huge)
    if i_end <= n then cost = cost + self:cost(x[i_end], y[j_end]) end
  end
  if cost > self:cost_of_run(x, y, first, n + 1, first, m + 1, cost + 1) then
    return
  end
  for i = first, n do mates[i] = found[i] end
end

local FEW = 4 -- the part of a list that may differ without a look for moves

-- Returns the mates.
function Diff:mates(x, y)
  local n, m, mates, places = #x, #y, {}, {}
  for i = 1, math.min(n, m) do
    mates[i] = i
    if self.comparison:differ(x[i], y[i]) then places[#places + 1] = i end
  end
  if n ~= m or #places >= n // FEW then
    self:align(mates, x, y, places[1] or math.min(n, m) + 1, n, m)
    return mates
  end
  local k = 1
  while places[k] do -- neighbours that differ
    local first, last = places[k], places[k]
    while places[k + 1] == last + 1 do k, last = k + 1, last + 1 end
    if first < last then self:align(mates, x, y, first, last, last) end
    k = k + 1
  end
  return mates
end

function Diff:arrays(at, x, y)
  local n, m = #x, #y
  for from, i_end, j, j_end in runs(self:mates(x, y), 1, n, m) do
    local i = from
    -- All elements before the run are as in y already, so indices are of y.
    while i < i_end and j < j_end do
      self:change(at, j, x[i], y[j], true)
      i, j = i + 1, j + 1
    end
    for index = j + i_end - i - 1, j, -1 do self:write("remove", at, index) end
    for index = j, j_end - 1 do self:write("add", at, index, y[index]) end
    if i_end <= n then self:change(at, j_end, x[i_end], y[j_end], true) end
  end
end

-- A patch takes the steps "-" and "0" into an empty table for steps into an
-- array.
local function misleads(kind_x, kind_y, y)
  return kind_x == "either" and kind_y == "object" and
    (y["-"] ~= nil or y["0"] ~= nil)
end

-- Makes the inside of a value equal to that of another.  Returns false if the
-- value must be replaced.
function Diff:change_inside(at, x, y)
  if type(x) ~= "table" or type(y) ~= "table" or self.comparison.shared[x] or
    self.is_shared and self.is_shared(x) then
    return false
  end
  local held_x, kind_x = self.a:open(x)
  local held_y, kind_y = self.b:open(y)
  if misleads(kind_x, kind_y, held_y) then return false end
  if kind_x == "either" then kind_x = kind_y end
  if kind_y ~= "either" and kind_x ~= kind_y then return false end
  local method = kind_x == "array" and self.arrays or self.objects
  method(self, at, held_x, held_y)
  return true
end

-- Makes a value equal to another.  An element of a list is replaced where that
-- is shorter than what changes its inside.
function Diff:change(up, key, x, y, is_element)
  if not self.comparison:differ(x, y) then return end
  local list, text, at = self.list, self.text, { up = up, key = key }
  local n = #list
  if self:change_inside(at, x, y) then
    if not is_element or #list < n + 2 or self.text - text <=
      OPERATION + #pointer.of(at) + self:length(y) then
      return
    end
    for i = #list, n + 1, -1 do list[i] = nil end
    self.text = text
  end
  self:write("replace", up, key, y)
end

local function run(self, x, y)
  local comparison = compare(x, y, self.before, self.after, self.same)
  self.comparison, self.a, self.b = comparison, comparison.a, comparison.b
  self.numbers = new_numbers(self.a, self.b, self.same)
  self:change(nil, nil, x, y)
end

--- Returns the operations of a patch that makes `a` equal to `b`; nil and a
-- message if one of them is not JSON.  `before(t)` and `after(t)`, if given,
-- return the contents of the tables of `a` and of `b`.  If `same(t)` is true
-- for a table of both, the table is equal to itself without a look at its
-- contents.  `is_shared(t)` tells which other tables of `a` are in two places.
function diff.operations(a, b, before, after, same, is_shared)
  local self = setmetatable({ before = before or raw, after = after or raw,
    same = same, is_shared = is_shared, lengths = {}, list = json.array {},
    text = 0 }, Diff)
  local ok, problem = pcall(run, self, a, b)
  if ok then return self.list end
  return nil, json.problem(problem)
end

--- The same function with the checks of a public one.
function diff.diff(a, b)
  check.argument(a ~= nil, 1, "diff", "value", a)
  check.argument(b ~= nil, 2, "diff", "value", b)
  return diff.operations(a, b)
end

return diff

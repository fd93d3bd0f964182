--- mw.diff: the JSON patch that makes one document equal to another.
-- SPDX-License-Identifier: MIT
--
-- First both documents are compared side by side.  What follows goes only where
-- they differ, and values get numbers where elements of lists may have moved.
--
-- The work to do is a stack.  An item is an operation to write down; a pair of
-- values { at, x, y } to make equal; or, below the items for the inside of a
-- list's element, { at, y, from, text } to look at the operations from there
-- on, which may be longer than another element.  A place `at` is a node of a
-- pointer.
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
local side = require "moonwatch.json.side"

local raw = core.private.raw

local diff = {}

local Diff = {}
Diff.__index = Diff

-- {======================================================
-- Values
-- =======================================================

local function length_of_scalar(value)
  if type(value) == "string" then return #value + 2 end
  return value == json.null and 4 or #tostring(value)
end

local function length_of_table(_, members, kind)
  local n = 2
  for key, length in next, members do
    n = n + length + (kind == "object" and #key + 4 or 1)
  end
  return n
end

-- Returns about the length of the text of a value of the second document.  What
-- is the same in both has not been looked at, and may be no JSON.
function Diff:length(value)
  if self.lengths[value] then return self.lengths[value] end
  local length, message = json.fold(value, {
    contents = self.b.of, known = self.lengths,
    scalar = length_of_scalar, table = length_of_table,
  })
  return length or error { message = message }
end

local OPERATION = 35 -- bytes, with neither path nor value

-- }======================================================

-- {======================================================
-- Objects
-- =======================================================

local function operation(op, up, key, value)
  return { op = op, at = { up = up, key = key }, value = value }
end

-- Returns the steps that make an object equal to another, in the order of the
-- keys.  Members are removed last, because an empty table no longer shows that
-- it is an object.
function Diff:objects(at, x, y)
  local changed, removed, steps = {}, {}, {}
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
  for i, key in ipairs(changed) do
    local old, new = x[key], y[key]
    steps[i] = old == nil and operation("add", at, key, new) or
      { at = { up = at, key = key }, x = old, y = new }
  end
  for _, key in ipairs(removed) do
    steps[#steps + 1] = operation("remove", at, key)
  end
  return steps
end

-- }======================================================

-- {======================================================
-- Lists: which elements stay or change, and which come and go
--
-- `mates` has the positions in x of such elements, with those in y.
-- =======================================================

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

-- Adds the step that makes an element equal to another, which is to be at j.
local function add_pair(steps, at, x, y, i, j)
  steps[#steps + 1] = { at = { up = at, key = j }, x = x[i], y = y[j],
    is_element = true }
end

-- Adds the steps that make a run of `x` equal to a run of `y`.  All elements
-- before the run are as in `y` already, so indices are those of `y`.
local function replace_run(steps, at, x, y, i, i_end, j, j_end)
  while i < i_end and j < j_end do
    add_pair(steps, at, x, y, i, j)
    i, j = i + 1, j + 1
  end
  for index = j + i_end - i - 1, j, -1 do
    steps[#steps + 1] = operation("remove", at, index)
  end
  for index = j, j_end - 1 do
    steps[#steps + 1] = operation("add", at, index, y[index])
  end
end

function Diff:arrays(at, x, y)
  local steps, n, m = {}, #x, #y
  for i, i_end, j, j_end in runs(self:mates(x, y), 1, n, m) do
    replace_run(steps, at, x, y, i, i_end, j, j_end)
    if i_end <= n and self.comparison:differ(x[i_end], y[j_end]) then
      add_pair(steps, at, x, y, i_end, j_end)
    end
  end
  return steps
end

-- }======================================================

-- {======================================================
-- The stack
-- =======================================================

-- A patch takes the steps "-" and "0" into an empty table for steps into an
-- array.
local function misleads(kind_x, kind_y, y)
  return kind_x == "either" and kind_y == "object" and
    (y["-"] ~= nil or y["0"] ~= nil)
end

-- Returns the steps from one value to another; nil if the value must be
-- replaced.
function Diff:steps(at, x, y)
  if type(x) ~= "table" or type(y) ~= "table" or self.comparison.shared[x] or
    self.is_shared and self.is_shared(x) then
    return nil
  end
  local held_x, kind_x = self.a:open(x)
  local held_y, kind_y = self.b:open(y)
  if misleads(kind_x, kind_y, held_y) then return nil end
  if kind_x == "either" then kind_x = kind_y end
  if kind_y ~= "either" and kind_x ~= kind_y then return nil end
  local method = kind_x == "array" and self.arrays or self.objects
  return method(self, at, held_x, held_y)
end

-- An operation gets a copy of its value, which must not change with the
-- document.
function Diff:write_down(list, op, at, value)
  local path = pointer.of(at)
  self.text = self.text + OPERATION + #path
  if op ~= "remove" then
    self.text = self.text + self:length(value)
    if type(value) == "table" then value = json.copy(value, self.b.of) end
  end
  list[#list + 1] = { op = op, path = path, value = value }
end

function Diff:look_into(list, stack, pair)
  if not self.comparison:differ(pair.x, pair.y) then return end
  local steps = self:steps(pair.at, pair.x, pair.y)
  if not steps then
    return self:write_down(list, "replace", pair.at, pair.y)
  end
  if pair.is_element then
    stack[#stack + 1] = { at = pair.at, y = pair.y, from = #list,
      text = self.text }
  end
  for i = #steps, 1, -1 do stack[#stack + 1] = steps[i] end
end

-- Replaces an element whose inside was changed, if that is shorter.
function Diff:shorten(list, item)
  local n = #list - item.from
  if n < 2 then return end
  local whole = OPERATION + #pointer.of(item.at) + self:length(item.y)
  if self.text - item.text <= whole then return end
  for i = #list, item.from + 1, -1 do list[i] = nil end
  self.text = item.text
  self:write_down(list, "replace", item.at, item.y)
end

local function run(self, x, y)
  self.comparison = compare(x, y, self.a, self.b, self.same)
  local stack, list = { { at = {}, x = x, y = y } }, json.array {}
  while #stack > 0 do
    local item = table.remove(stack)
    if item.op then
      self:write_down(list, item.op, item.at, item.value)
    elseif item.from then
      self:shorten(list, item)
    else
      self:look_into(list, stack, item)
    end
  end
  return list
end

--- Returns the operations of a patch that makes `a` equal to `b`; nil and a
-- message if one of them is not JSON.  `before(t)` and `after(t)`, if given,
-- return the contents of the tables of `a` and of `b`.  If `same(t)` is true
-- for a table of both, the table is equal to itself without a look at its
-- contents.  `is_shared(t)` tells which other tables of `a` are in two places.
function diff.operations(a, b, before, after, same, is_shared)
  local side_a, side_b = side(before or raw), side(after or raw)
  local self = setmetatable({ same = same, is_shared = is_shared,
    numbers = new_numbers(side_a, side_b, same), a = side_a, b = side_b,
    lengths = {}, text = 0 }, Diff)
  local ok, list = pcall(run, self, a, b)
  if ok then return list end
  if type(list) ~= "table" then error(list, 0) end
  return nil, list.message
end

--- The same function with the checks of a public one.
function diff.diff(a, b)
  check.argument(a ~= nil, 1, "diff", "value", a)
  check.argument(b ~= nil, 2, "diff", "value", b)
  return diff.operations(a, b)
end

return diff

-- }======================================================

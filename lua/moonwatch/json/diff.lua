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
local lcs = require "moonwatch.json.lcs"
local new_numbers = require "moonwatch.json.numbers"
local pointer = require "moonwatch.json.pointer"

local raw = core.private.raw

local diff = {}

local Diff = {}
Diff.__index = Diff

-- {======================================================
-- Values
-- =======================================================

-- Tells whether two values differ that have been compared.
function Diff:differ(x, y)
  if type(x) ~= "table" or type(y) ~= "table" then return x ~= y end
  local others = self.differing[x]
  return others ~= nil and others[y] ~= nil
end

-- Compares two values that are not at the same place.
function Diff:compare(x, y)
  if type(x) ~= "table" or type(y) ~= "table" then return end
  local differing = compare(x, y, self.a.of, self.b.of, self.same)
  for t, others in next, differing do
    local its = self.differing[t] or {}
    self.differing[t] = its
    for other in next, others do its[other] = true end
  end
end

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
    elseif self:differ(old, new) then
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

-- Returns the positions at which two lists have different elements.
function Diff:places(x, y)
  local places, differing = {}, self.differing
  for i = 1, math.min(#x, #y) do
    local old, new = x[i], y[i]
    local may = differing[old] or type(old) ~= "table" or type(new) ~= "table"
    if may and self:differ(old, new) then places[#places + 1] = i end
  end
  return places
end

-- Iterates over the runs between mates: the elements i to i_end - 1 of one list
-- become the elements j to j_end - 1 of the other.
local function runs(mates, n, m)
  local i_end, j_end = 0, 0
  return function()
    local i, j = i_end + 1, j_end + 1
    if i > n + 1 then return nil end
    i_end = i
    while i_end <= n and not mates[i_end] do i_end = i_end + 1 end
    j_end = mates[i_end] or m + 1
    return i, i_end, j, j_end
  end
end

-- Returns the cost to make one element another, as a part of the cost to
-- replace it.
function Diff:cost(x, y)
  local a, b, numbers = self.a, self.b, self.numbers
  if numbers:of(a, x) == numbers:of(b, y) then return 0 end
  if type(x) ~= "table" or type(y) ~= "table" or a:kind(x) ~= b:kind(y) then
    return 1
  end
  local cost, whole = 0, OPERATION + self:length(y)
  local old, new = a:contents(x), b:contents(y)
  for key in next, old do
    if new[key] == nil then cost = cost + OPERATION end
  end
  for key, value in next, new do
    local former = old[key]
    if former == nil or numbers:of(a, former) ~= numbers:of(b, value) then
      cost = cost + OPERATION + self:length(value)
    end
    if cost >= whole then return 1 end
  end
  return cost / whole
end

-- Returns the cost of the operations for a run.  `cost(x, y)` is the cost of
-- one element.
local function cost_of_run(cost, x, y, i, i_end, j, j_end)
  local both = math.min(i_end - i, j_end - j)
  local sum = math.max(i_end - i, j_end - j) - both
  for k = 0, both - 1 do sum = sum + cost(x[i + k], y[j + k]) end
  return sum
end

local function cost_of(cost, mates, x, y)
  local sum, n = 0, #x
  for i, i_end, j, j_end in runs(mates, n, #y) do
    sum = sum + cost_of_run(cost, x, y, i, i_end, j, j_end)
    if i_end <= n then sum = sum + cost(x[i_end], y[j_end]) end
  end
  return sum
end

-- Is the patch with these mates longer than one that leaves each element at its
-- place?
function Diff:is_longer(mates, places, x, y)
  local n, m = #x, #y
  local few = #places + math.abs(n - m)
  local function count(old, new)
    local numbers = self.numbers
    return numbers:of(self.a, old) == numbers:of(self.b, new) and 0 or 1
  end
  if cost_of(count, mates, x, y) <= few then return false end
  local function cost(old, new) return self:cost(old, new) end
  return cost_of(cost, mates, x, y) >
    cost_of_run(cost, x, y, 1, n + 1, 1, m + 1)
end

-- Returns a scalar member of a table, and its key; a boolean says too little.
local function sample(t)
  for key, value in next, t do
    local kind = type(value)
    if kind == "string" or kind == "number" then return value, key end
  end
end

-- Adds the element at place i to a set of samples: key -> value -> the place,
-- or 0 for several; scalars have the key `samples`.  Returns false if the
-- element has no sample.
local function add_sample(samples, side, element, i)
  local value, key = element, samples
  if type(element) == "table" then
    value, key = sample(side:contents(element))
    if value == nil then return false end
  end
  local places = samples[key] or {}
  samples[key] = places
  places[value] = places[value] and places[value] ~= i and 0 or i
  return true
end

-- May an element at place i be equal to one of another place?
local function is_among(samples, side, element, i)
  if type(element) ~= "table" then
    local place = samples[samples] and samples[samples][element]
    return place and place ~= i
  end
  local held = side:contents(element)
  for key, places in next, samples do
    local value = held[key]
    local place = value ~= nil and places[value]
    if place and place ~= i then return true end
  end
  return false
end

-- Has no element moved, for certain?  Elements at other places than `places`
-- are the same in both lists.
function Diff:has_stayed(x, y, places)
  if #x ~= #y or #places >= #x // 4 then return false end
  local old, new, both, a, b = {}, {}, {}, self.a, self.b
  for _, i in ipairs(places) do
    if not add_sample(old, a, x[i], i) or not add_sample(new, b, y[i], i) then
      return false
    end
    add_sample(both, a, x[i], i)
    add_sample(both, b, y[i], i)
  end
  local n = 1 -- of the next place
  for i = 1, #x do
    if i ~= places[n] then
      if is_among(both, a, x[i], i) then return false end
    else
      n = n + 1
      if is_among(new, a, x[i], i) or is_among(old, b, y[i], i) then
        return false
      end
    end
  end
  return true
end

local function numbers_of(numbers, side, list, first)
  local of_list = {}
  for i = first, #list do
    of_list[i - first + 1] = numbers:of(side, list[i])
  end
  return of_list
end

-- Returns the mates; nil if each element best stays at its place.
function Diff:mates(x, y, places)
  if self:has_stayed(x, y, places) then return nil end
  local first = places[1] or math.min(#x, #y) + 1
  local numbers, mates = self.numbers, {}
  for i = 1, first - 1 do mates[i] = i end
  local stay = lcs(numbers_of(numbers, self.a, x, first),
    numbers_of(numbers, self.b, y, first))
  for i, j in next, stay do mates[i + first - 1] = j + first - 1 end
  local found = {}
  for i, i_end, j, j_end in runs(mates, #x, #y) do
    if i < i_end and j < j_end then
      align(numbers, self.a, self.b, x, y, i, i_end, j, j_end,
        function(row, at) found[row] = at end)
    end
  end
  for i, j in next, found do mates[i] = j end
  return not self:is_longer(mates, places, x, y) and mates or nil
end

-- Adds the step that makes an element equal to another, which is to be at j.
local function add_pair(steps, at, x, y, i, j)
  steps[#steps + 1] = { at = { up = at, key = j }, x = x[i], y = y[j],
    is_element = true, moved = i ~= j }
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
  local places, steps, n, m = self:places(x, y), {}, #x, #y
  local mates = self:mates(x, y, places)
  if not mates then
    for _, i in ipairs(places) do add_pair(steps, at, x, y, i, i) end
    local both = math.min(n, m) + 1
    replace_run(steps, at, x, y, both, n + 1, both, m + 1)
    return steps
  end
  for i, i_end, j, j_end in runs(mates, n, m) do
    replace_run(steps, at, x, y, i, i_end, j, j_end)
    if i_end <= n then add_pair(steps, at, x, y, i_end, j_end) end
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
  if type(x) ~= "table" or type(y) ~= "table" or self.shared[x] or
    self.is_shared and self.is_shared(x) then
    return nil
  end
  local held_x, held_y = self.a:contents(x), self.b:contents(y)
  local kind_x, kind_y = self.a:kind(x), self.b:kind(y)
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
  if pair.moved then self:compare(pair.x, pair.y) end
  if not self:differ(pair.x, pair.y) then return end
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

function Diff:run(x, y)
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
  before, after = before or raw, after or raw
  local differing, shared = compare(a, b, before, after, same)
  if not differing then return nil, shared end
  local numbers, side_a, side_b = new_numbers(before, after, same)
  local self = setmetatable({ differing = differing, shared = shared,
    same = same, is_shared = is_shared, numbers = numbers, a = side_a,
    b = side_b, lengths = {}, text = 0 }, Diff)
  local ok, list = pcall(self.run, self, a, b)
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

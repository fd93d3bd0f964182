--- mw.diff: the JSON patch that makes one document another.
-- SPDX-License-Identifier: MIT
--
-- First each value of both documents gets a number, the same for equal values:
-- scalars get one each, tables one by the numbers of their members.  From then
-- on comparing is comparing numbers, and lists of values are lists of numbers.
--
-- What is to be done then is a stack, with the next thing on its top: an
-- operation to write down, or a pair of values { at, x, y } to look into.  A
-- place `at` is a node of a pointer.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local json = require "moonwatch.json"
local lcs = require "moonwatch.json.lcs"
local pointer = require "moonwatch.json.pointer"

local raw = core.raw

local diff = {}

-- {======================================================
-- Numbers for values
-- =======================================================

local function sorted_keys(...)
  local keys, seen = {}, {}
  for _, t in ipairs { ... } do
    for key in next, t do
      if not seen[key] then keys[#keys + 1] = key end
      seen[key] = true
    end
  end
  table.sort(keys)
  return keys
end

local Numbers = {}
Numbers.__index = Numbers

local function new_numbers()
  return setmetatable({ n = 0, scalars = {}, shapes = {} }, Numbers)
end

function Numbers:of(known, value)
  local number = known[value]
  if not number then
    number = self.n + 1
    self.n, known[value] = number, number
  end
  return number
end

-- Equal tables have equal shapes: the kind, and the members' numbers.
function Numbers:shape(members, kind)
  local parts = members
  if kind == "object" then
    parts = {}
    for i, key in ipairs(sorted_keys(members)) do
      parts[i] = self:of(self.scalars, key) .. ":" .. members[key]
    end
  end
  return kind .. table.concat(parts, ",")
end

-- A side is one of the documents: how to get its tables' contents, and by
-- table the numbers, the kinds and how many members there are.
local function new_side(contents)
  return { contents = contents, known = {}, kinds = {}, sizes = {} }
end

function Numbers:number(side, value)
  return json.fold(value, {
    contents = side.contents,
    known = side.known,
    scalar = function(scalar) return self:of(self.scalars, scalar) end,
    table = function(t, members, kind, size)
      side.kinds[t], side.sizes[t] = kind, size
      return self:of(self.shapes, self:shape(members, kind))
    end,
  })
end

-- The number that a value of a document got.
function Numbers:find(side, value)
  return type(value) == "table" and side.known[value] or self.scalars[value]
end

-- }======================================================

-- {======================================================
-- Differences
-- =======================================================

local Diff = {}
Diff.__index = Diff

function Diff:equal(x, y)
  return self.numbers:find(self.a, x) == self.numbers:find(self.b, y)
end

local function operation(op, up, key, value)
  return { op = op, at = { up = up, key = key }, value = value }
end

-- What makes the object at a place another one.  Members are removed last: an
-- empty table would no longer show that it is no array.
function Diff:objects(at, x, y)
  local steps, removed = {}, {}
  for _, key in ipairs(sorted_keys(x, y)) do
    local old, new = rawget(x, key), rawget(y, key)
    if new == nil then
      removed[#removed + 1] = operation("remove", at, key)
    elseif old == nil then
      steps[#steps + 1] = operation("add", at, key, new)
    elseif not self:equal(old, new) then
      steps[#steps + 1] = { at = { up = at, key = key }, x = old, y = new }
    end
  end
  return table.move(removed, 1, #removed, #steps + 1, steps)
end

local function numbers_in(self, side, list)
  local numbers = {}
  for i = 1, rawlen(list) do
    numbers[i] = self.numbers:find(side, rawget(list, i))
  end
  return numbers
end

-- What makes a run of `x` one of `y`.  Before it, everything is as in `y`
-- already, so the index is j.
local function replace_run(steps, at, x, y, i, i_end, j, j_end)
  while i < i_end and j < j_end do
    steps[#steps + 1] = { at = { up = at, key = j },
      x = rawget(x, i), y = rawget(y, j) }
    i, j = i + 1, j + 1
  end
  for index = j + i_end - i - 1, j, -1 do
    steps[#steps + 1] = operation("remove", at, index)
  end
  for index = j, j_end - 1 do
    steps[#steps + 1] = operation("add", at, index, rawget(y, index))
  end
end

-- Runs of elements between those that go together: the elements i to i_end - 1
-- of one list are those j to j_end - 1 of the other.
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

-- How many members two values have in common; 0 if they are not of a kind.
function Diff:likeness(x, y)
  local kind = self.a.kinds[x]
  if not kind or kind ~= self.b.kinds[y] then return 0 end
  local n, held = 0, self.b.contents(y)
  for key, value in next, self.a.contents(x) do
    local other = rawget(held, key)
    if other ~= nil and self:equal(value, other) then n = n + 1 end
  end
  return n
end

local COMPARED = 2000000 -- members, at most, to align runs

-- How many members there are to compare.
function Diff:comparisons(x, i, i_end, others)
  local n = 0
  for row = i, i_end - 1 do n = n + (self.a.sizes[rawget(x, row)] or 0) + 1 end
  return n * others
end

-- Finds mates in a run for elements that have changed inside: those with which
-- most members stay.  `best[i][j]` is how many that are from i and j on.
function Diff:align(mates, x, y, i, i_end, j, j_end)
  local cost = self:comparisons(x, i, i_end, j_end - j)
  if cost > self.budget then return end
  self.budget = self.budget - cost
  local best, like = { [i_end] = {} }, {}
  for k = j, j_end do best[i_end][k] = 0 end
  for row = i_end - 1, i, -1 do
    best[row], like[row] = { [j_end] = 0 }, {}
    for k = j_end - 1, j, -1 do
      local likeness = self:likeness(rawget(x, row), rawget(y, k))
      like[row][k] = likeness
      best[row][k] = math.max(best[row + 1][k], best[row][k + 1],
        best[row + 1][k + 1] + likeness)
    end
  end
  while i < i_end and j < j_end do
    local likeness, most = like[i][j], best[i][j]
    if likeness > 0 and most == best[i + 1][j + 1] + likeness then
      mates[i] = j
      i, j = i + 1, j + 1
    elseif most == best[i + 1][j] then
      i = i + 1
    else
      j = j + 1
    end
  end
end

function Diff:arrays(at, x, y)
  local n, m, steps = rawlen(x), rawlen(y), {}
  local mates = lcs(numbers_in(self, self.a, x), numbers_in(self, self.b, y))
  for i, i_end, j, j_end in runs(mates, n, m) do
    self:align(mates, x, y, i, i_end, j, j_end)
  end
  for i, i_end, j, j_end in runs(mates, n, m) do
    replace_run(steps, at, x, y, i, i_end, j, j_end)
    if i_end <= n then
      steps[#steps + 1] = { at = { up = at, key = j_end },
        x = rawget(x, i_end), y = rawget(y, j_end) }
    end
  end
  return steps
end

-- Patches take the steps "-" and "0" into an empty table for those of an array.
local function misleads(kind_x, kind_y, y)
  return kind_x == "either" and kind_y == "object" and
    (rawget(y, "-") ~= nil or rawget(y, "0") ~= nil)
end

-- The steps from one value to another; nil if it has to be replaced.
function Diff:steps(at, x, y)
  if type(x) ~= "table" or type(y) ~= "table" then return nil end
  local held_x, held_y = self.a.contents(x), self.b.contents(y)
  local kind_x, kind_y = self.a.kinds[x], self.b.kinds[y]
  if misleads(kind_x, kind_y, held_y) then return nil end
  if kind_x == "either" then kind_x = kind_y end
  if kind_y ~= "either" and kind_x ~= kind_y then return nil end
  local method = kind_x == "array" and self.arrays or self.objects
  return method(self, at, held_x, held_y)
end

-- Operations get copies: they are not to change with the document.
function Diff:write_down(list, op, at, value)
  list[#list + 1] = { op = op, path = pointer.of(at),
    value = json.copy(value, self.b.contents) }
end

function Diff:look_into(list, stack, pair)
  if self:equal(pair.x, pair.y) then return end
  local steps = self:steps(pair.at, pair.x, pair.y)
  if not steps then
    return self:write_down(list, "replace", pair.at, pair.y)
  end
  for i = #steps, 1, -1 do stack[#stack + 1] = steps[i] end
end

function Diff:run(x, y)
  local stack, list = { { at = {}, x = x, y = y } }, json.array {}
  while #stack > 0 do
    local step = table.remove(stack)
    if step.op then
      self:write_down(list, step.op, step.at, step.value)
    else
      self:look_into(list, stack, step)
    end
  end
  return list
end

--- The operations of a patch that makes `a` equal `b`; nil and a message if one
-- of them is not JSON.  If they are given, a table of `a` has what is in the
-- plain table before(t), and one of `b` what is in after(t).
function diff.operations(a, b, before, after)
  local numbers, side_b = new_numbers(), new_side(after or raw)
  local side_a = before and new_side(before) or side_b
  local number, why = numbers:number(side_a, a)
  if number then number, why = numbers:number(side_b, b) end
  if not number then return nil, why end
  local state = { numbers = numbers, a = side_a, b = side_b, budget = COMPARED }
  return setmetatable(state, Diff):run(a, b)
end

--- The same, as the program calls it.
function diff.diff(a, b)
  check.argument(a ~= nil, 1, "diff", "value", a)
  check.argument(b ~= nil, 2, "diff", "value", b)
  return diff.operations(a, b)
end

return diff

-- }======================================================

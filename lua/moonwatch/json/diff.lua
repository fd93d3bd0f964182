--- mw.diff: the JSON patch that makes one document equal to another.
-- SPDX-License-Identifier: MIT
--
-- First each value of both documents gets a number, and equal values get the
-- same number.  A scalar has a number of its own; the number of a table depends
-- on the numbers of its members.  From then on the diff compares numbers, and
-- lists of values are lists of numbers.
--
-- The work to do is a stack.  An item is an operation to write down, or a pair
-- of values { at, x, y } to compare.  A place `at` is a node of a pointer.

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

-- Equal tables have equal shapes: their kind, and the numbers of their members.
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

-- A side is one of the documents: the function that returns the contents of its
-- tables, and by table the number, the kind and the size.
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

-- Returns the number of a value of a document.
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

-- Returns the steps that make an object equal to another.  Members are removed
-- last, because an empty table no longer shows that it is an object.
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

-- Adds the steps that make a run of `x` equal to a run of `y`.  All elements
-- before the run are as in `y` already, so indices are those of `y`.
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

-- Iterates over the runs between elements that stay: the elements i to i_end -
-- 1 of one list become the elements j to j_end - 1 of the other.
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

-- Returns the number of equal members of two values; 0 if their kinds differ.
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

local COMPARED = 2000000 -- members that aligning may compare

-- Returns the number of members that a comparison of runs looks at.
function Diff:comparisons(x, i, i_end, others)
  local n = 0
  for row = i, i_end - 1 do n = n + (self.a.sizes[rawget(x, row)] or 0) + 1 end
  return n * others
end

-- Finds mates in a run for elements that have changed inside, so that most
-- members stay.  `best[i][j]` is the number of members that stay from i and j
-- on.
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

-- A patch takes the steps "-" and "0" into an empty table for steps into an
-- array.
local function misleads(kind_x, kind_y, y)
  return kind_x == "either" and kind_y == "object" and
    (rawget(y, "-") ~= nil or rawget(y, "0") ~= nil)
end

-- Returns the steps from one value to another; nil if the value must be
-- replaced.
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

-- An operation gets a copy of its value, which must not change with the
-- document.
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

--- Returns the operations of a patch that makes `a` equal to `b`; nil and a
-- message if one of them is not JSON.  `before(t)` and `after(t)`, if given,
-- return the contents of the tables of `a` and of `b`.
function diff.operations(a, b, before, after)
  local numbers, side_b = new_numbers(), new_side(after or raw)
  local side_a = before and new_side(before) or side_b
  local number, why = numbers:number(side_a, a)
  if number then number, why = numbers:number(side_b, b) end
  if not number then return nil, why end
  local state = { numbers = numbers, a = side_a, b = side_b, budget = COMPARED }
  return setmetatable(state, Diff):run(a, b)
end

--- The same function with the checks of a public one.
function diff.diff(a, b)
  check.argument(a ~= nil, 1, "diff", "value", a)
  check.argument(b ~= nil, 2, "diff", "value", b)
  return diff.operations(a, b)
end

return diff

-- }======================================================

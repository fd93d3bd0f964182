-- The ways to do something with JSON documents.  Each makes its documents and
-- returns a function that does what is measured with them.

local mw = require "moonwatch"

local ways = {}

local function rows_of(n, make)
  local rows = {}
  for i = 1, n do rows[i] = make(i) end
  return rows
end

local function small(i) return { id = i, x = 0 } end

local function tagged(i)
  return { id = i, name = "row " .. i, price = i * 1.5, tags = { "a", "b" } }
end

local function copy(value)
  if type(value) ~= "table" then return value end
  local t = {}
  for k, v in pairs(value) do t[k] = copy(v) end
  return t
end

-- Differences -----------------------------------------------------------

-- What looks at the differences of two documents has so many operations.
local function diffing(a, b, count)
  return function() assert(#mw.diff(a, b) == count) end
end

-- A list, and the same with an element before the first.
local function two_lists()
  local a, b = rows_of(1000, small), rows_of(1000, small)
  table.insert(b, 1, { id = 0, x = 1 })
  return a, b
end

function ways.copy()
  local _, b = two_lists()
  return function() copy(b) end
end

function ways.diff()
  local a, b = two_lists()
  return diffing(a, b, 1)
end

-- Lists of n rows, with five leaves each, of which ten differ.
local function two_tables(n)
  local a, b = rows_of(n, tagged), rows_of(n, tagged)
  for i = 1, 10 do b[i * n // 10].price = -1 end
  return a, b
end

local function differences(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b and 0 or 1 end
  local n = 0
  for key, value in pairs(a) do n = n + differences(value, b[key]) end
  for key in pairs(b) do
    if a[key] == nil then n = n + 1 end
  end
  return n
end

function ways.compare()
  local a, b = two_tables(2000)
  return function() assert(differences(a, b) == 10) end
end

function ways.diff_few()
  local a, b = two_tables(2000)
  return diffing(a, b, 10)
end

local function shuffled()
  math.randomseed(11)
  local list = rows_of(1000, math.tointeger)
  for i = #list, 2, -1 do
    local j = math.random(i)
    list[i], list[j] = list[j], list[i]
  end
  return list
end

function ways.sort()
  local list = shuffled()
  return function()
    local sorted = table.move(list, 1, #list, 1, {})
    table.sort(sorted, function(a, b) return a < b end)
  end
end

function ways.diff_sorted()
  local list, sorted = shuffled(), rows_of(1000, math.tointeger)
  return function() assert(#mw.diff(list, sorted) < #list) end
end

local function full(i)
  return { id = i, name = "row " .. i, x = 10 * i, y = 20 * i }
end

function ways.copy_rows()
  local rows = rows_of(1600, full)
  return function() copy(rows) end
end

-- Two of four fields of all rows have changed, and one row has gone.
function ways.diff_rows()
  local a, b = rows_of(1600, full), rows_of(1600, full)
  for i = 1, 1600 do b[i].x, b[i].y = -i, -i end
  table.remove(b, 800)
  return diffing(a, b, 1600)
end

-- Patches ---------------------------------------------------------------

-- One row of n is changed, a hundred times.
local function patching(n)
  local document = { rows = rows_of(n, small) }
  local operations = { { op = "replace", path = "/rows/50/x", value = 0 } }
  return function()
    for i = 1, 100 do
      operations[1].value = i
      assert(mw.patch(document, operations))
    end
  end, 100
end

function ways.patch_few() return patching(100) end

function ways.patch_many() return patching(20000) end

-- Growth ----------------------------------------------------------------

local growth = {}

function growth.patch_one(n) return patching(math.max(n, 51)) end

local function operations_of(n, path_of)
  return rows_of(n, function(i)
    return { op = "add", path = "/" .. path_of(i), value = i }
  end)
end

-- A patch with n operations at the front of a list, an operation.
function growth.patch_front(n)
  local list, operations = {}, operations_of(n, function() return 0 end)
  return function() assert(mw.patch(list, operations)) end, n
end

-- ... anywhere in a list.
function growth.patch_anywhere(n)
  local list = rows_of(n, math.tointeger)
  local operations = operations_of(n, function() return math.random(0, n) end)
  return function() assert(mw.patch(list, operations)) end, n
end

-- Ten of n rows differ, a row.
function growth.diff_few(n)
  local a, b = two_tables(n)
  return function() assert(#mw.diff(a, b) == 10) end, n
end

-- There is a row before the first, a row.
function growth.diff_front(n)
  local a, b = rows_of(n, small), rows_of(n + 1, function(i)
    return small(i - 1)
  end)
  return diffing(a, b, 1), n
end

-- Adds these to the others.
return function(all)
  all.documents = ways
  for name, way in pairs(growth) do all.growth[name] = way end
end

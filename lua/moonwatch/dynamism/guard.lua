--- A specialisation (see infer.lua) as the source of a function that tests.
-- SPDX-License-Identifier: MIT
--
-- The source has a function for each place that has places below it: it gets a
-- table, and returns the number of the first place there that differs, or nil.
-- Leaves are tested where they are read, so most tests are an `if`.  What the
-- example's classes may answer is asked in protected calls; a field that cannot
-- be read is like no value.

local literal = require "moonwatch.literal"
local path = require "moonwatch.path"
local shape = require "moonwatch.dynamism.shape"

local function bounds(name, low, high)
  if low == high then return (" and %s == %s"):format(name, literal.of(low)) end
  return (" and %s >= %s and %s <= %s"):format(name, literal.of(low), name,
    literal.of(high))
end

local function number(name, kind, limits)
  local of_kind = ('math_type(%s) == "%s"'):format(name, kind)
  local is_nan = ("%s ~= %s"):format(name, name)
  if limits.only ~= nil and limits.only ~= limits.only then return is_nan end
  if limits.min == nil then return of_kind end
  local text = of_kind .. bounds(name, limits.min, limits.max)
  return limits.nan and ("(%s or %s)"):format(is_nan, text) or text
end

local condition

-- Returns the condition that a list of sizes is within the limits.
local function sizes(limits)
  local ranks = {}
  for rank in next, limits.ranks do ranks[#ranks + 1] = rank end
  table.sort(ranks)
  local tests, least = {}, ranks[1]
  for i, rank in ipairs(ranks) do tests[i] = "#s == " .. rank end
  local text = { "(" .. table.concat(tests, " or ") .. ")" }
  for i, dim in ipairs(limits.dims) do
    local name = ("s[%d]"):format(i)
    text[#text + 1] = ("(%s%s)"):format(least < i and name .. " == nil or " or
      "", condition({}, dim, name))
  end
  return table.concat(text, " and ")
end

-- Returns the condition that a value is a table, or a userdata, without a
-- shape.
local function is_plain(place, name, kind)
  return ('type(%s) == "%s"'):format(name, kind) ..
    (place.kinds.shaped and (" and not sizes_of(%s)"):format(name) or "")
end

-- Returns the condition that a value of this kind is within the limits.
local function of_kind(shapes, place, name, kind)
  local limits = place.kinds[kind]
  if kind == "integer" or kind == "float" then
    return number(name, kind, limits)
  elseif limits.only ~= nil then
    return ("%s == %s"):format(name, literal.of(limits.only))
  elseif kind == "null" then
    return name .. " == null"
  elseif kind == "shaped" then
    shapes[#shapes + 1] = sizes(limits)
    return ("shaped(%s, shapes[%d])"):format(name, #shapes)
  elseif kind == "userdata" then
    return name .. " ~= null and " .. is_plain(place, name, kind)
  elseif kind ~= "table" then
    return ('type(%s) == "%s"'):format(name, kind)
  end
  local length = limits.length
  return is_plain(place, name, kind) .. (length and
    (" and has_length(%s, %d, %d)"):format(name, length.min, length.max) or "")
end

-- Returns the condition that a value is within the limits of a place; adds the
-- conditions of shapes to `shapes`.
function condition(shapes, place, name)
  local tests = { place.optional and name .. " == nil" or nil }
  for _, kind in ipairs(path.sorted_keys(place.kinds)) do
    tests[#tests + 1] = of_kind(shapes, place, name, kind)
  end
  if #tests == 1 then return tests[1] end
  for i, test in ipairs(tests) do
    if test:find " and " then tests[i] = "(" .. test .. ")" end
  end
  return table.concat(tests, " or ")
end

local function has_function(place)
  return #place.children > 0 or place.is_closed
end

-- Adds the test of the value `v` at a place, and of what is below.
local function add_test(lines, shapes, place)
  if not place.any then
    lines[#lines + 1] = ("  if not (%s) then return %d end\n"):format(
      condition(shapes, place, "v"), place.at)
  end
  if has_function(place) then
    lines[#lines + 1] = ("  at = %s and test[%d](v)\n"):format(
      is_plain(place, "v", "table"), place.at)
    lines[#lines + 1] = "  if at then return at end\n"
  end
end

-- Adds the function that tests what is below a place.
local function add_function(lines, shapes, place, is_opened)
  local i = place.at
  lines[#lines + 1] = ("test[%d] = function(t)\n  local v, at\n"):format(i)
  if place.is_closed then
    lines[#lines + 1] = ("  if has_others(t, %d) then return %d end\n"):format(
      i, i)
  end
  lines[#lines + 1] =
    ("  if getmetatable(t) ~= nil then t = readable(t, %d) end\n"):format(i)
  for _, child in ipairs(place.children) do
    lines[#lines + 1] = (is_opened and "  v = open(t%s)\n" or "  v = t%s\n")
      :format(literal.field(child.key))
    add_test(lines, shapes, child)
  end
  lines[#lines + 1] = "end\n"
end

-- `places[i]` is the place above place i, the key there, and the key as a step
-- of a path.
local HEAD = [==[
}
local shape, open = ...
]==] .. shape.SOURCE .. [==[
local function compare_length(t, low, high)
  local n = #t
  if low == high then return n == low end
  return n >= low and n <= high
end

local function has_length(t, low, high)
  if getmetatable(t) == nil then return compare_length(t, low, high) end
  local ok, has = try(compare_length, t, low, high)
  return ok and has
end

local function sizes_of(v) return sizes_by(shape, v) end

local function shaped(v, fits)
  local s = sizes_of(v)
  return s ~= nil and fits(s)
end

-- The keys of the places below each place.
local keys = {}
for i, place in ipairs(places) do
  keys[i] = {}
  if place[1] then keys[place[1]][place[2]] = true end
end

-- Returns those fields of a table that the places below place i are about.
local function readable(t, i)
  local held = {}
  for key in next, keys[i] do
    local ok, value = try(index, t, key)
    if ok then held[key] = value end
  end
  return held
end

local function find_other(t, known)
  for key in pairs(t) do
    if not known[key] then return true end
  end
end

-- An unknown field counts if it is found before the class raises.
local function has_others(t, i)
  local ok, found = try(find_other, t, keys[i])
  return ok and found
end

local test, shapes = {}, {}

]==]

local TAIL = [==[

return function(example)
  local i, steps = test[0](example), {}
  if not i then return true end
  while i do
    table.insert(steps, 1, places[i][3])
    i = places[i][1]
  end
  return false, table.concat(steps)
end
]==]

-- May a value be `null`, or be taken for it?
local function needs_null(list)
  for _, place in ipairs(list) do
    local kinds = place.kinds
    if kinds.null or kinds.userdata or kinds.shaped then return true end
  end
  return false
end

--- Returns the source for the places of a specialisation, to be called with the
-- option `shape` and, if the examples' objects were opened, a function that
-- opens an object.
return function(list, is_opened)
  local lines, shapes = { needs_null(list) and
    'local null = require "moonwatch".null\n' or "local null\n",
    "local places = {\n" }, {}
  for _, place in ipairs(list) do
    local key = place.key
    lines[#lines + 1] = key == nil and '  { nil, nil, "L" },\n' or
      ("  { %d, %s, %s },\n"):format(place.up.at, literal.of(key),
        literal.of(path.step(key)))
  end
  lines[#lines + 1] = HEAD
  for _, place in ipairs(list) do
    if has_function(place) then
      add_function(lines, shapes, place, is_opened)
    end
  end
  lines[#lines + 1] = "test[0] = function(v)\n  local at\n" ..
    (is_opened and "  v = open(v)\n" or "")
  add_test(lines, shapes, list[1])
  lines[#lines + 1] = "end\n"
  for i, text in ipairs(shapes) do
    lines[#lines + 1] = ("shapes[%d] = function(s) return %s end\n"):format(i,
      text)
  end
  lines[#lines + 1] = TAIL
  return table.concat(lines)
end

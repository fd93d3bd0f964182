--- A specialisation (see infer.lua) as the source of a function that tests.
-- SPDX-License-Identifier: MIT
--
-- The source has a function that is fast and may raise: a place is an `if`, a
-- table is a local variable, and the contents of a table are in a block of
-- their own.  Where blocks would be too deep for Lua, a further function
-- continues.  If that function raises, because a class of the example does,
-- the places decide as a list: see matching.lua.

local literal = require "moonwatch.literal"
local matching = require "moonwatch.dynamism.matching"
local path = require "moonwatch.path"

local DEPTH = 16 -- of blocks in a function, which are indented

local Writer = {}
Writer.__index = Writer

function Writer:line(depth, ...)
  self.lines[#self.lines + 1] = ("  "):rep(depth) .. table.concat { ... }
end

-- {======================================================
-- Conditions
-- =======================================================

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
  if limits.nan then text = ("(%s or %s)"):format(is_nan, text) end
  return text
end

local condition

-- Writes the condition of a shape as a function.  Returns the function's
-- number.
function Writer:shape(limits)
  local ranks = {}
  for rank in next, limits.ranks do ranks[#ranks + 1] = rank end
  table.sort(ranks)
  for i, rank in ipairs(ranks) do ranks[i] = "#s == " .. rank end
  local text = { "(" .. table.concat(ranks, " or ") .. ")" }
  for i, dim in ipairs(limits.dims) do
    local name = ("s[%d]"):format(i)
    local test = "(" .. condition(self, dim, name) .. ")"
    for rank in next, limits.ranks do
      if rank < i then
        test = ("(%s == nil or %s)"):format(name, test)
        break
      end
    end
    text[#text + 1] = test
  end
  self.shapes[#self.shapes + 1] = table.concat(text, " and ")
  return #self.shapes
end

-- Returns the condition that a value is a table, or a userdata, without a
-- shape.
local function is_plain(place, name, kind)
  return ('type(%s) == "%s"'):format(name, kind) ..
    (place.kinds.shaped and (" and not sizes_of(%s)"):format(name) or "")
end

local BY_TYPE = { string = true, boolean = true, ["function"] = true,
  thread = true }

-- Returns the condition that a value of this kind is within the limits.
local function of_kind(self, place, name, kind)
  local limits = place.kinds[kind]
  if kind == "integer" or kind == "float" then
    return number(name, kind, limits)
  elseif limits.only ~= nil then
    return ("%s == %s"):format(name, literal.of(limits.only))
  elseif kind == "null" then
    return name .. " == null"
  elseif kind == "shaped" then
    return ("shaped(%s, shapes[%d])"):format(name, self:shape(limits))
  elseif kind == "userdata" then
    return name .. " ~= null and " .. is_plain(place, name, kind)
  elseif BY_TYPE[kind] then
    return ('type(%s) == "%s"'):format(name, kind)
  end
  local length = limits.length
  return is_plain(place, name, "table") ..
    (length and bounds("#" .. name, length.min, length.max) or "")
end

-- Returns the condition that a value is within the limits of a place.
function condition(self, place, name)
  local kinds, tests = {}, {}
  for kind in next, place.kinds do kinds[#kinds + 1] = kind end
  table.sort(kinds)
  for i, kind in ipairs(kinds) do
    tests[i] = of_kind(self, place, name, kind)
  end
  if place.optional then table.insert(tests, 1, name .. " == nil") end
  if #tests == 1 then return tests[1] end
  for i, test in ipairs(tests) do
    if test:find " and " then tests[i] = "(" .. test .. ")" end
  end
  return table.concat(tests, " or ")
end

-- }======================================================

-- {======================================================
-- Statements
-- =======================================================

local function refusal(place) return "return false, " .. place.at end

function Writer:test(place, name, depth)
  if place.any then return end
  local text = condition(self, place, name)
  local simple = text:match "^[%w_]+ == (.*)$"
  if simple and not text:find " and " and not text:find " or " then
    text = ("%s ~= %s"):format(name, simple)
  else
    text = "not (" .. text .. ")"
  end
  self:line(depth, "if ", text, " then")
  self:line(depth + 1, refusal(place))
  self:line(depth, "end")
end

local write

-- Refuses unknown fields.
function Writer:known(place, name, depth)
  if not place.known then return end
  self:line(depth, ("for key in pairs(%s) do"):format(name))
  self:line(depth + 1, ("if not places[%d].known[key] then %s end"):format(
    place.at, refusal(place)))
  self:line(depth, "end")
end

-- Tests the contents of a table, if the value is a table.
function Writer:below(place, name, depth)
  local always = place.kinds.table and not place.optional and
    next(place.kinds) == "table" and next(place.kinds, "table") == nil
  if not always then
    self:line(depth, "if ", is_plain(place, name, "table"), " then")
    depth = depth + 1
  end
  self:known(place, name, depth)
  if depth > DEPTH then
    self.parts[#self.parts + 1] = place
    self:line(depth, ("local ok, where = parts[%d](%s)"):format(#self.parts,
      name))
    self:line(depth, "if not ok then return false, where end")
  else
    for _, child in ipairs(place.children) do
      write(self, child, name, depth)
    end
  end
  if not always then self:line(depth - 1, "end") end
end

function write(self, place, above, depth)
  local value = above .. literal.field(place.key)
  local is_leaf = #place.children == 0 and
    not (place.known and place.kinds.table)
  if is_leaf then
    if place.any then return end
    self:line(depth, "v = ", value)
    return self:test(place, "v", depth)
  end
  self.last = self.last + 1
  local name = "t" .. self.last
  self:line(depth, "do")
  self:line(depth + 1, "local ", name, " = ", value)
  self:test(place, name, depth + 1)
  self:below(place, name, depth + 1)
  self:line(depth, "end")
end

function Writer:part(i, place)
  self:line(0, ("parts[%d] = function(t)"):format(i))
  self:line(1, "local v")
  for _, child in ipairs(place.children) do write(self, child, "t", 1) end
  self:line(1, "return true, v")
  self:line(0, "end")
  self:line(0, "")
end

-- }======================================================

-- {======================================================
-- The places as a list
-- =======================================================

-- Returns the text of a table, or of another value.
local function text_of(value)
  if type(value) ~= "table" then return literal.of(value) end
  local keys, fields = {}, {}
  for key in next, value do keys[#keys + 1] = key end
  table.sort(keys, path.before)
  for i, key in ipairs(keys) do
    fields[i] = ("[%s] = %s"):format(literal.of(key), text_of(value[key]))
  end
  return "{ " .. table.concat(fields, ", ") .. " }"
end

local LIMITS = { "only", "min", "max", "nan", "length", "ranks" }

local function limits_of(place)
  local result = { any = place.any or nil, kinds = {} }
  for kind, limits in next, place.kinds do
    local its = {}
    for _, name in ipairs(LIMITS) do its[name] = limits[name] end
    if limits.dims then
      its.dims = {}
      for i, dim in ipairs(limits.dims) do its.dims[i] = limits_of(dim) end
    end
    result.kinds[kind] = its
  end
  return result
end

local function row(place)
  local its = limits_of(place)
  its.above, its.key, its.known = place.above, place.key, place.known
  its.optional = place.optional or nil
  its.step = place.up and path.step(place.key) or "L"
  return text_of(its)
end

-- }======================================================

-- The begin of the function that may raise, and what comes after.
local HEAD = [[
local slow = match(places, shape, null)

local function sizes_of(v)
  if type(v) ~= "table" and type(v) ~= "userdata" then return nil end
  if v == null then return nil end
  local list
  if shape then list = shape(v) else list = v.shape end
  return sizes_in(list)
end

local function shaped(v, test)
  local s = sizes_of(v)
  return s ~= nil and test(s)
end

local shapes, parts = {}, {}

]]

local TAIL = [[

local function where(i)
  local steps = {}
  while i do
    steps[#steps + 1], i = places[i].step, places[i].above
  end
  for k = 1, #steps // 2 do
    steps[k], steps[#steps + 1 - k] = steps[#steps + 1 - k], steps[k]
  end
  return table.concat(steps)
end

return function(example)
  local ran, ok, at = pcall(test, example)
  if not ran then
    if ok == "not enough memory" then error(ok, 0) end
    ok, at = slow(example)
  end
  if ok then return true end
  return false, where(at)
end
]]

-- May a value be `null`, or be taken for it?
local function needs_null(list)
  for _, place in ipairs(list) do
    local kinds = place.kinds
    if kinds.null or kinds.userdata or kinds.shaped then return true end
  end
  return false
end

function Writer:head(list)
  local head = { matching.source, "\nlocal shape = ...\n" }
  head[#head + 1] = needs_null(list) and
    'local null = require "moonwatch".null\n' or "local null\n"
  head[#head + 1] = "local places = {}\n"
  for i, place in ipairs(list) do
    head[#head + 1] = ("places[%d] = %s\n"):format(i, row(place))
  end
  head[#head + 1] = HEAD
  for i, test in ipairs(self.shapes) do
    head[#head + 1] = ("shapes[%d] = function(s)\n  return %s\nend\n\n"):format(
      i, test)
  end
  return head
end

-- Returns the texts of a list as one.  `table.concat` would fail if there is no
-- memory at once, because its buffer does not ask for a collection.
local function join(list)
  while #list > 1 do
    local pairs_of = {}
    for i = 1, #list, 2 do
      pairs_of[#pairs_of + 1] = list[i] .. (list[i + 1] or "")
    end
    list = pairs_of
  end
  return list[1]
end

--- Returns the source for the places of a specialisation.
return function(list)
  local self = setmetatable({ lines = {}, shapes = {}, parts = {}, last = 0 },
    Writer)
  self:line(0, "local function test(L)")
  self:line(1, "local v")
  self:test(list[1], "L", 1)
  self:below(list[1], "L", 1)
  self:line(1, "return true")
  self:line(0, "end")
  local main = self.lines
  self.lines = {}
  local i = 1
  while self.parts[i] do
    self:part(i, self.parts[i])
    i = i + 1
  end
  self:line(0, "")
  local text = self:head(list)
  for _, lines in ipairs { self.lines, main } do
    for _, line in ipairs(lines) do text[#text + 1] = line .. "\n" end
  end
  text[#text + 1] = TAIL
  return join(text)
end

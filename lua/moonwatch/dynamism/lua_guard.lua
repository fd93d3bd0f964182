--- A specialisation (see infer.lua) as the source of a function that tests.
-- SPDX-License-Identifier: MIT
--
-- A place is an `if`, a table is a local variable, and the contents of a table
-- are in a block of their own.  Where blocks would be too deep for Lua, a
-- further function continues.

local literal = require "moonwatch.literal"
local path = require "moonwatch.path"

local DEPTH = 50 -- of blocks in a function

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
  if limits.min == nil then
    return limits.nan and limits.only ~= nil and is_nan or of_kind
  end
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

-- Returns the condition that a value is a table whose fields are tested.
local function is_table(place, name)
  return ('type(%s) == "table"'):format(name) ..
    (place.kinds.shaped and (" and not sizes(%s)"):format(name) or "")
end

local BY_TYPE = { string = true, boolean = true, ["function"] = true,
  thread = true, userdata = true }

-- Returns the condition that a value of this kind is within the limits.
local function of_kind(self, place, name, kind)
  local limits = place.kinds[kind]
  if kind == "integer" or kind == "float" then
    return number(name, kind, limits)
  elseif limits.only ~= nil then
    return ("%s == %s"):format(name, literal.of(limits.only))
  elseif kind == "null" then
    self.uses_null = true
    return name .. " == null"
  elseif kind == "shaped" then
    return ("shaped(%s, shapes[%d])"):format(name, self:shape(limits))
  elseif BY_TYPE[kind] then
    return ('type(%s) == "%s"'):format(name, kind)
  end
  local length = limits.length
  return is_table(place, name) ..
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

local function refusal(place)
  return "return false, " .. literal.of(path.text(path.keys(place)))
end

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
  local keys = {}
  for i, child in ipairs(place.children) do
    keys[i] = ("[%s] = true"):format(literal.of(child.key))
  end
  self.keys[#self.keys + 1] = "{ " .. table.concat(keys, ", ") .. " }"
  self:line(depth, ("for key in pairs(%s) do"):format(name))
  self:line(depth + 1, ("if not keys[%d][key] then %s end"):format(#self.keys,
    refusal(place)))
  self:line(depth, "end")
end

-- Tests the contents of a table, if the value is a table.
function Writer:below(place, name, depth)
  local always = place.kinds.table and not place.optional and
    next(place.kinds) == "table" and next(place.kinds, "table") == nil
  if not always then
    self:line(depth, "if ", is_table(place, name), " then")
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

local SHAPED = [[
local shape = ... or function(v) return v.shape end

local function sizes(v)
  if type(v) ~= "table" and type(v) ~= "userdata" then return nil end
  local s = shape(v)
  if type(s) ~= "table" then return nil end
  for i = 1, #s do
    if not math_type(s[i]) then return nil end
  end
  return s
end

local function shaped(v, test)
  local s = sizes(v)
  return s ~= nil and test(s)
end

]]

-- Returns the variables that the function uses.
function Writer:head()
  local head = { "local math_type, type = math.type, type\n" }
  if self.uses_null then
    head[#head + 1] = 'local null = require "moonwatch".null\n'
  end
  if #self.parts > 0 then head[#head + 1] = "local parts = {}\n" end
  if #self.shapes > 0 then head[#head + 1] = SHAPED .. "local shapes = {}\n" end
  if #self.keys > 0 then head[#head + 1] = "local keys = {}\n" end
  for i, keys in ipairs(self.keys) do
    head[#head + 1] = ("keys[%d] = %s\n"):format(i, keys)
  end
  for i, test in ipairs(self.shapes) do
    head[#head + 1] = ("shapes[%d] = function(s)\n  return %s\nend\n"):format(i,
      test)
  end
  return table.concat(head) .. "\n"
end

--- Returns the source for the places of a specialisation.
return function(list)
  local self = setmetatable({ lines = {}, shapes = {}, parts = {}, keys = {},
    last = 0 },
    Writer)
  self:line(0, "return function(L)")
  self:line(1, "local v")
  self:test(list[1], "L", 1)
  self:below(list[1], "L", 1)
  self:line(1, "return true")
  self:line(0, "end")
  self:line(0, "")
  local main = self.lines
  self.lines = {}
  local i = 1
  while self.parts[i] do
    self:part(i, self.parts[i])
    i = i + 1
  end
  return self:head() .. table.concat(self.lines, "\n") ..
    table.concat(main, "\n")
end

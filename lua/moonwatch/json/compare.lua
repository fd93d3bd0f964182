--- Two documents side by side: which of their tables differ.
-- SPDX-License-Identifier: MIT
--
-- The walk goes in depth to each pair of tables that are at one place, once;
-- where one document has no table, NONE stands in its place.  First the members
-- of `x` are looked at, then those of `y` that `x` lacks.  Where the kinds of
-- both are not the same, each is looked at without the other.
--
--     mates[x], differing[x]   the first table that stood where x is, and
--                              whether they differ
--     others[x][y]             do x and a further table differ?
--     keys[depth]              the key of the member that is looked at in the
--                              table at that depth; the root is at 2

local core = require "moonwatch.core"
local json = require "moonwatch.json"

local raw, mark = core.private.raw, json.mark
local null, utf8_len = core.null, utf8.len
local type, next, rawlen, integer = type, next, rawlen, math.type
local getmetatable = getmetatable

local NONE = {}

-- One of the documents: the function that returns the contents of its tables,
-- and the numbers of its tables (see numbers.lua).
local Side = {}
Side.__index = Side

--- Returns the contents of a table, as a table without a class; its kind by one
-- key, "array", "object" or "either"; and whether its mark says the same.
function Side:open(t)
  local held = t
  if getmetatable(t) ~= nil or self.of ~= raw then
    held = self.of(t)
    if getmetatable(held) ~= nil then
      local plain = {}
      for key, value in next, held do plain[key] = value end
      held = plain
    end
  end
  local said, key = mark(t), next(held)
  if key == nil then return held, said or "either", true end
  local kind = type(key) == "string" and "object" or "array"
  return held, kind, said == nil or said == kind
end

local Comparison = {}
Comparison.__index = Comparison

-- Fails with what is wrong with the member at a depth.
function Comparison:fail(what, depth)
  local node = {}
  for i = 2, depth do node = { up = node, key = self.keys[i] } end
  json.fail(what, node)
end

-- Is a value of this type, which is equal to its counterpart, a scalar?
local function is_good(kind, value)
  if kind == "number" then return value - value == 0 end
  return kind == "string" and utf8_len(value) or value == null
end

-- Fails if a value, which is no table, is no scalar either.
function Comparison:check_scalar(value)
  local what = value ~= nil and json.fault(value)
  if what then self:fail(what, self.depth) end
end

-- Notes that JSON has such a key in objects, or fails.
function Comparison:check_name(key)
  if type(key) ~= "string" then self:fail(json.NO_KIND, self.depth - 1) end
  if not utf8_len(key) then
    self:fail("a key that is not UTF-8", self.depth - 1)
  end
  self.names[key] = true
end

-- Tells whether the values at one place differ, which are not the same scalar.
function Comparison:differ_at(value, other)
  local x = type(value) == "table" and value or NONE
  local y = type(other) == "table" and other or NONE
  if x == NONE then self:check_scalar(value) end
  if y == NONE then self:check_scalar(other) end
  if x == NONE and y == NONE then return true end
  if self.same and rawequal(x, y) and self.same(x) then return false end
  if x ~= NONE and self.seen then
    if self.seen[x] then self.shared[x] = true end
    self.seen[x] = true
  end
  local differs, others = self.differing[x], self.others[x]
  if self.mates[x] ~= y then differs = others and others[y] end
  if differs == nil then return self:tables(x, y) end
  return differs
end

-- Looks at the members of a table beside those of another, or only at those
-- that the other lacks.  Returns the number of members that both have, and
-- whether any differ.
function Comparison:members(held, kind, beside, is_rest)
  local names, length = self.names, kind == "array" and rawlen(held)
  local n, both, differs = 0, 0, false
  for key, value in next, held do
    n = n + 1
    if not length then
      if not names[key] then self:check_name(key) end
    elseif key ~= n and (integer(key) ~= "integer" or key < 1 or key > length)
    then
      self:fail(json.NO_KIND, self.depth - 1)
    end
    local other, its = beside[key], type(value)
    if other ~= nil then both = both + 1 end
    if (its == "table" or value ~= other or
      its ~= "boolean" and not is_good(its, value)) and
      not (is_rest and other ~= nil) then
      if is_rest then value, other = nil, value end
      self.keys[self.depth] = key
      if self:differ_at(value, other) then differs = true end
    end
  end
  if length and n ~= length then self:fail(json.NO_KIND, self.depth - 1) end
  return both, differs
end

-- Looks at two tables, and returns whether they differ.
function Comparison:tables(x, y)
  local in_x, in_y, depth = self.in_x, self.in_y, self.depth
  if in_x[x] or in_y[y] then self:fail("a table inside itself", depth) end
  local held, kind, is_x, rest, other, is_y = NONE, nil, true, NONE, nil, true
  if x ~= NONE then held, kind, is_x = self.a:open(x) end
  if y ~= NONE then rest, other, is_y = self.b:open(y) end
  if not (is_x and is_y) then self:fail(json.NO_KIND, depth) end
  local agree = kind and other and
    (kind == other or kind == "either" or other == "either")
  in_x[x], in_y[y], self.depth = x ~= NONE, y ~= NONE, depth + 1
  local n, differs = self:members(held, kind, agree and rest or NONE)
  for _ in next, rest do n = n - 1 end
  if n < 0 then self:members(rest, other, agree and held or NONE, true) end
  in_x[x], in_y[y], self.depth = nil, nil, depth
  differs = differs or n < 0 or not agree
  if self.mates[x] == nil then
    self.mates[x], self.differing[x] = y, differs
  else
    self.others[x] = self.others[x] or {}
    self.others[x][y] = differs
  end
  return differs
end

--- Tells whether two values differ, each of which is anywhere in its document.
function Comparison:differ(x, y)
  if type(x) ~= "table" or type(y) ~= "table" then return x ~= y end
  return self:differ_at(x, y)
end

--- Compares two documents; raises a table with a message if one of them is not
-- JSON.  `of_x(t)` and `of_y(t)` return the contents of their tables.  `same`,
-- if given, tells which tables are equal to themselves without a look at their
-- contents.  In `a` and `b` are the sides, in `shared` is the set of tables of
-- `x` that are in two places.
return function(x, y, of_x, of_y, same)
  local self = setmetatable({ same = same,
    a = setmetatable({ of = of_x, numbers = {} }, Side),
    b = setmetatable({ of = of_y, numbers = {} }, Side), keys = {}, depth = 1,
    in_x = {}, in_y = {}, mates = {}, differing = {}, others = {}, names = {},
    seen = {}, shared = {} }, Comparison)
  self:members({ x }, "array", { y })
  self.seen = nil -- tables that are compared again are in no further places
  return self
end

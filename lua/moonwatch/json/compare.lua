--- Two documents side by side: which of their tables differ.
-- SPDX-License-Identifier: MIT
--
-- The walk goes in depth to each pair of tables that are at one place, once.  A
-- frame has the pair at a depth, of which one may be nil: first the fields of
-- `x` are looked at, then those of `y` that `x` lacks.  Where the kinds of both
-- are not the same, each is looked at without the other.
--
--     mates[x], differing[x]   the first table that stood where x is, and
--                              whether they differ
--     others[x][y]             do x and a further table differ?
--     alone_x[x], alone_y[y]   have they been looked at where there was none?

local core = require "moonwatch.core"
local json = require "moonwatch.json"

local null, utf8_len = core.null, utf8.len
local type, next, rawlen, integer = type, next, rawlen, math.type

local Comparison = {}
Comparison.__index = Comparison

local NONE = {} -- the contents of a table that is not there

-- Fails with what is wrong at a key of the tables that are being looked at.
function Comparison:fail(what, key)
  local node, frames = {}, self.frames
  for i = 3, self.depth do node = { up = node, key = frames[i].at } end
  if key ~= nil and self.depth > 1 then node = { up = node, key = key } end
  error { message = json.message(what, node) }
end

-- {======================================================
-- Pairs
-- =======================================================

-- Tells whether two tables differ, of which one may be nil; nil if they have
-- not been looked at.
function Comparison:known(x, y)
  if not x then return self.alone_y[y] end
  if not y then return self.alone_x[x] end
  if self.mates[x] == y then return self.differing[x] end
  local others = self.others[x]
  return others and others[y]
end

-- Looks at two tables from now on, which are at a key of those before.
function Comparison:enter(x, y, key)
  if x and self.in_x[x] or y and self.in_y[y] then
    self:fail("a table inside itself", key)
  end
  local depth, held, kind, rest, other = self.depth + 1, NONE, nil, NONE, nil
  local is_good, is_other_good = true, true
  local frame = self.frames[depth] or {}
  self.frames[depth], self.depth = frame, depth
  frame.at = key
  if x then
    held, kind, is_good = self.a:open(x)
    self.in_x[x] = true
  end
  if y then
    rest, other, is_other_good = self.b:open(y)
    self.in_y[y] = true
  end
  if not (is_good and is_other_good) then self:fail(json.NO_KIND) end
  local agree = x and y and
    (kind == other or kind == "either" or other == "either")
  frame.x, frame.y, frame.differs = x, y, not agree
  frame.held, frame.kind, frame.beside = held, kind, agree and rest or NONE
  frame.rest, frame.other, frame.former = rest, other, agree and held or NONE
  frame.key, frame.n, frame.both, frame.is_rest = nil, 0, 0, false
end

function Comparison:leave(frame)
  local x, y, differs = frame.x, frame.y, frame.differs
  if x then self.in_x[x] = nil end
  if y then self.in_y[y] = nil end
  if not x then
    self.alone_y[y] = true
  elseif not y then
    self.alone_x[x] = true
  elseif self.mates[x] == nil then
    self.mates[x], self.differing[x] = y, differs
  else
    self.others[x] = self.others[x] or {}
    self.others[x][y] = differs
  end
  self.depth = self.depth - 1
  if differs then self.frames[self.depth].differs = true end
end

-- }======================================================

-- {======================================================
-- Members
-- =======================================================

-- Is a value of this type, which is equal to its counterpart, a scalar?
local function is_good(kind, value)
  if kind == "number" then return value - value == 0 end
  return kind == "string" and utf8_len(value) or value == null
end

-- Fails if a value, which is no table, is no scalar either.
function Comparison:check_scalar(value, key)
  local what = value ~= nil and json.fault(value)
  if what then self:fail(what, key) end
end

-- Looks at the values at one place.  Returns true if they are tables that have
-- yet to be looked at, which are entered.
function Comparison:place(frame, key, value, other)
  local x = type(value) == "table" and value
  local y = type(other) == "table" and other
  if not x then self:check_scalar(value, key) end
  if not y then self:check_scalar(other, key) end
  if not (x and y) then frame.differs = true end
  if not (x or y) then return false end
  if self.same and rawequal(x, y) and self.same(x) then return false end
  if x and self.seen then
    if self.seen[x] then self.shared[x] = true end
    self.seen[x] = true
  end
  local differs = self:known(x, y)
  if differs == nil then self:enter(x, y, key) end
  if differs then frame.differs = true end
  return differs == nil
end

-- Notes that JSON has such a key in objects, or fails.
function Comparison:check_name(key)
  if type(key) ~= "string" then self:fail(json.NO_KIND) end
  if not utf8_len(key) then self:fail "a key that is not UTF-8" end
  self.names[key] = true
end

-- Looks at the members of a table of a frame.  Returns true if others, in
-- further tables, come before the rest.
function Comparison:advance(frame)
  local held, beside, names = frame.held, frame.beside, self.names
  local length = frame.kind == "array" and rawlen(held)
  local n, both, is_rest = frame.n, frame.both, frame.is_rest
  for key, value in next, held, frame.key do
    n = n + 1
    if not length then
      if not names[key] then self:check_name(key) end
    elseif key ~= n and (integer(key) ~= "integer" or key < 1 or key > length)
    then
      self:fail(json.NO_KIND)
    end
    local other, kind = beside[key], type(value)
    if other ~= nil then both = both + 1 end
    if kind == "table" or value ~= other or
      kind ~= "boolean" and not is_good(kind, value) then
      frame.key, frame.n, frame.both = key, n, both
      if is_rest and other == nil and self:place(frame, key, nil, value) or
        not is_rest and self:place(frame, key, value, other) then
        return true
      end
    end
  end
  if length and n ~= length then self:fail(json.NO_KIND) end
  frame.both = both
  return false
end

-- Goes over to the fields that are in `rest` alone.  Returns false if there are
-- none, or they have been looked at.
local function turn(frame)
  local n = frame.is_rest and 0 or frame.both
  for _ in next, frame.is_rest and NONE or frame.rest do n = n - 1 end
  if n == 0 then return false end
  frame.held, frame.kind, frame.beside = frame.rest, frame.other, frame.former
  frame.key, frame.n, frame.both, frame.is_rest = nil, 0, 0, true
  return true
end

-- }======================================================

-- Compares two values, which are at the top of their documents.
function Comparison:walk(x, y)
  local frame = { held = { x }, beside = { y }, rest = { y }, former = { x },
    kind = "array", other = "array", n = 0, both = 0 }
  self.frames[1], self.depth = frame, 1
  while true do
    frame = self.frames[self.depth]
    if not self:advance(frame) and not turn(frame) then
      if self.depth == 1 then return frame.differs or false end
      self:leave(frame)
    end
  end
end

--- Tells whether two values differ, each of which is anywhere in its document.
function Comparison:differ(x, y)
  if type(x) ~= "table" or type(y) ~= "table" then return x ~= y end
  if self.same and rawequal(x, y) and self.same(x) then return false end
  local differs = self:known(x, y)
  if differs == nil then return self:walk(x, y) end
  return differs
end

--- Compares two documents; raises a table with a message if one of them is not
-- JSON.  `a` and `b` are their sides.  `same`, if given, tells which tables are
-- equal to themselves without a look at their contents.  In `shared` is the set
-- of tables of `x` that are in two places.
return function(x, y, a, b, same)
  local self = setmetatable({ a = a, b = b, same = same,
    frames = {}, depth = 0, in_x = {}, in_y = {}, mates = {}, differing = {},
    others = {}, alone_x = {}, alone_y = {}, names = {}, seen = {},
    shared = {} }, Comparison)
  self:walk(x, y)
  self.seen = nil -- tables that are compared again are in no further places
  return self
end

--- Two documents side by side: which of their tables differ.
-- SPDX-License-Identifier: MIT
--
-- The walk goes to each table once, with the table at the same place in the
-- other document, if there is one.  It has a list of pairs:
--
--     xs[p], ys[p]     the tables of pair p; false for one that is not there
--     ups[p]           the pair in which the tables were found, 0 for none
--     differ[p]        true if the tables are not equal
--     halves[p]        true if the pair is one table of the pair above, because
--                      the kinds of its tables are not the same
--
-- `seen` has the first pair of each table of the first document, and
-- `alone_before` of each table of the second document that was alone then; a
-- table may be in both documents.  So a table that comes again is either in two
-- places or within itself.

local core = require "moonwatch.core"
local json = require "moonwatch.json"

local raw, null, mark = core.private.raw, core.null, json.mark
local type, next, rawlen = type, next, rawlen
local getmetatable, utf8_len = getmetatable, utf8.len

local Comparison = {}
Comparison.__index = Comparison

local NONE = {} -- the contents of a table that is not there

-- {======================================================
-- Tables
-- =======================================================

-- Returns the contents of a table, as a table without a class; and its kind by
-- its mark and one key, or nil if these contradict.
local function open(t, contents)
  local held = t
  if getmetatable(t) ~= nil or contents ~= raw then
    held = json.plain(contents(t))
  end
  local said, key = mark(t), next(held)
  if key == nil then return held, said or "either" end
  local kind = type(key) == "string" and "object" or "array"
  return held, (said == nil or said == kind) and kind or nil
end

local function agree(kind, other)
  return kind == other or kind == "either" or other == "either"
end

-- }======================================================

-- {======================================================
-- Pairs
-- =======================================================

-- Tells the pairs above that they differ.
function Comparison:tell(p)
  local differ, ups = self.differ, self.ups
  while p > 0 and not differ[p] do
    differ[p] = true
    p = ups[p]
  end
end

-- Fails with what is wrong with a member of a pair.
local function fail(what, p, key)
  error { what = what, pair = p, key = key }
end

-- Returns the key under which pair p was found; nil if the pair is a half of
-- the one above.
function Comparison:key_of(p)
  local side = self.xs[p] and "xs" or "ys"
  local up, t = self[side][self.ups[p]], self[side][p]
  if self.halves[p] then return nil end
  local contents = side == "xs" and self.before or self.after
  for key, value in next, contents(up) do
    if rawequal(value, t) then return key end
  end
end

-- Fails because a table `t` of a side is within itself: at `key` of pair p, or
-- there is another such table further up.
function Comparison:fail_cycle(side, t, p, key)
  local above, of_side = {}, self[side]
  local at = p
  while at > 0 do
    above[#above + 1] = at
    at = self.ups[at]
  end
  local met = {}
  for i = #above, 1, -1 do
    at = above[i]
    local its = of_side[at]
    if its and met[its] and not self.halves[at] then
      fail("a table inside itself", self.ups[at], self:key_of(at))
    end
    if its then met[its] = true end
  end
  assert(met[t])
  fail("a table inside itself", p, key)
end

-- A pair came again at a key of pair p.
function Comparison:again(former, p, key)
  local at = p
  while at > 0 and at ~= former do at = self.ups[at] end
  if at > 0 then
    local side = self.xs[former] and "xs" or "ys"
    self:fail_cycle(side, self[side][former], p, key)
  end
  if self.xs[former] and self.ys[former] then
    self.links[#self.links + 1] = { former, p }
  end
end

-- Adds a pair that was found in pair p, under a key.
function Comparison:push(x, y, p, key)
  if self.same and rawequal(x, y) and self.same(x) then return end
  local seen, first = x and self.seen or self.alone_before, x or y
  local former = seen[first]
  if not (x and y) then self:tell(p) end
  if former and x then
    self.shared[x] = true
    if self.ys[former] ~= y then
      local others = self.others[x] or {}
      self.others[x] = others
      former = others[y]
      others[y] = former or self.n + 1
    end
  end
  if former then return self:again(former, p, key) end
  local n = self.n + 1
  self.n = n
  self.xs[n], self.ys[n], self.ups[n] = x, y, p
  if not seen[first] then seen[first] = n end
end

-- Adds one of the tables of pair p, whose kinds are not the same.
function Comparison:push_half(x, y, p)
  local n = self.n + 1
  self.n, self.halves[n] = n, true
  self.xs[n], self.ys[n], self.ups[n] = x, y, p
  self:tell(p)
end

-- Looks at a value that has no equal at its place.
function Comparison:alone(value, is_x, p, key)
  if type(value) == "table" then
    return self:push(is_x and value, not is_x and value, p, key)
  end
  local what = json.fault(value)
  if what then fail(what, p, key) end
  self:tell(p)
end

-- Looks at the values at one place, of which at most one is nil.
function Comparison:place(value, other, p, key)
  if type(value) == "table" and type(other) == "table" then
    return self:push(value, other, p, key)
  end
  if value ~= nil then self:alone(value, true, p, key) end
  if other ~= nil then self:alone(other, false, p, key) end
end

-- }======================================================

-- {======================================================
-- Members
-- =======================================================

local function check_name(names, p, key)
  if type(key) ~= "string" then fail(json.NO_KIND, p) end
  if not utf8_len(key) then fail("a key that is not UTF-8", p) end
  names[key] = true
end

-- Is a value of this type, which is equal to its counterpart, a scalar?
local function is_good(kind, value)
  if kind == "string" then return utf8_len(value) end
  if kind == "number" then return value - value == 0 end
  return kind == "boolean" or value == null
end

function Comparison:objects(p, x, y)
  local names, n = self.names, 0
  for key, value in next, x do
    if not names[key] then check_name(names, p, key) end
    local other = y[key]
    if other ~= nil then n = n + 1 end
    local kind = type(value)
    if kind == "table" and type(other) == "table" then
      self:push(value, other, p, key)
    elseif kind == "table" or value ~= other or not is_good(kind, value) then
      self:place(value, other, p, key)
    end
  end
  for _ in next, y do n = n - 1 end
  if n == 0 then return end
  for key, value in next, y do
    if x[key] == nil then
      if not names[key] then check_name(names, p, key) end
      self:alone(value, false, p, key)
    end
  end
end

-- Returns the length of a table whose keys are 1 to n.
local function length_of(t, p)
  local n, count = rawlen(t), 0
  for _ in next, t do count = count + 1 end
  if count ~= n then fail(json.NO_KIND, p) end
  return n
end

function Comparison:arrays(p, x, y)
  local n, m = length_of(x, p), length_of(y, p)
  for i = 1, n > m and n or m do
    local value, other = x[i], y[i]
    if value == nil and i <= n or other == nil and i <= m then
      fail(json.NO_KIND, p) -- a hole
    end
    local kind = type(value)
    if kind == "table" or value ~= other or not is_good(kind, value) then
      self:place(value, other, p, i)
    end
  end
end

-- Looks at the members of a pair.
function Comparison:visit(p)
  local x, y = self.xs[p], self.ys[p]
  local held_x, held_y, kind, other = NONE, NONE, false, false
  if x then held_x, kind = open(x, self.before) end
  if y then held_y, other = open(y, self.after) end
  if kind == nil or other == nil then fail(json.NO_KIND, p) end
  if kind and other and kind ~= other and not agree(kind, other) then
    self:push_half(x, false, p)
    self:push_half(false, y, p)
  elseif kind == "array" or other == "array" then
    self:arrays(p, held_x, held_y)
  else
    self:objects(p, held_x, held_y)
  end
end

-- }======================================================

-- {======================================================
-- Comparisons
-- =======================================================

local function message(self, err)
  local keys, p = { err.key }, err.pair
  while p > 0 and self.ups[p] > 0 do
    keys[#keys + 1] = self:key_of(p)
    p = self.ups[p]
  end
  local node = {}
  for i = #keys, 1, -1 do node = { up = node, key = keys[i] } end
  return json.message(err.what, node)
end

-- A pair that came again tells its other places, too.
function Comparison:settle()
  local again
  repeat
    again = false
    for _, link in ipairs(self.links) do
      if self.differ[link[1]] and not self.differ[link[2]] then
        self:tell(link[2])
        again = true
      end
    end
  until not again
end

function Comparison:walk(x, y)
  self:place(x, y, 0)
  local p = 0
  while p < self.n do
    p = p + 1
    self:visit(p)
  end
  self:settle()
end

-- Returns the tables that differ: table -> other table -> true.
function Comparison:result()
  local map, xs, ys = {}, self.xs, self.ys
  for p in next, self.differ do
    local x, y = xs[p], ys[p]
    if x and y then
      map[x] = map[x] or {}
      map[x][y] = true
    end
  end
  return map
end

--- Compares two documents.  `before(t)` and `after(t)` return the contents of
-- their tables.  Returns the tables that differ, table -> other -> true, and
-- the set of tables of `a` that are in two places; or nil and a message if one
-- of the documents is not JSON.  `same`, if given, tells which tables are equal
-- to themselves without a look at their contents.
return function(a, b, before, after, same)
  local self = setmetatable({ n = 0, xs = {}, ys = {}, ups = {}, differ = {},
    halves = {}, seen = {}, alone_before = {}, others = {}, links = {},
    shared = {}, names = {},
    before = before, after = after, same = same }, Comparison)
  local ok, err = pcall(self.walk, self, a, b)
  if ok then return self:result(), self.shared end
  if type(err) ~= "table" then error(err, 0) end
  return nil, message(self, err)
end

-- }======================================================

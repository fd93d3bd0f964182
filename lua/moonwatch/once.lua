--- mw.once: has this been seen before?
-- SPDX-License-Identifier: MIT
--
-- The keys are a ring of nodes around the set itself, the one that was asked
-- for last first.  Objects are known by their serials, so none is kept alive.

local check = require "moonwatch.check"
local core = require "moonwatch.core"

local Seen = {}
Seen.__index = Seen
Seen.__name = "seen-set"
Seen.__metatable = false

local MAX = 4096
local OBJECTS = { table = true, userdata = true, ["function"] = true,
  thread = true }

local function unlink(node)
  node.before.after, node.after.before = node.after, node.before
end

local function put_first(list, node)
  node.before, node.after = list, list.after
  list.after.before, list.after = node, node
end

local function forget_last(self)
  local node = self.list.before
  unlink(node)
  node.where[node.key] = nil
  self.n = self.n - 1
end

-- Where a key is known, and as what.  A light userdata is no object.
local function place(self, key)
  if not OBJECTS[type(key)] then return self.values, key end
  local ok, id = pcall(core.id, key)
  if ok then return self.objects, id end
  if id == "not enough memory" then error(id, 0) end
  return self.values, key
end

--- Is it the first time that it is asked for this key, as far as it knows?
function Seen:__call(key)
  check.argument(key ~= nil and key == key, 1, "seen", "key", key)
  local where, known = place(self, key)
  local node = where[known]
  if node then
    unlink(node)
    put_first(self.list, node)
    return false
  end
  node = { where = where, key = known, before = false, after = false }
  where[known] = node
  put_first(self.list, node)
  self.n = self.n + 1
  if self.n > self.max then forget_last(self) end
  return true
end

--- How many keys it knows.
function Seen:len() return self.n end

Seen.__len = Seen.len

--- Forgets all.
function Seen:clear()
  local list = {}
  list.before, list.after = list, list
  self.list, self.values, self.objects, self.n = list, {}, {}, 0
end

--- A set that answers true the first time for each key, and forgets those that
-- were not asked for the longest when there are more than `max`.
local function once(max)
  check.argument(max == nil or math.type(max) == "integer" and max > 0, 1,
    "once", "positive integer", max)
  local self = setmetatable({ max = max or MAX }, Seen)
  self:clear()
  return self
end

return once

--- mw.once: a set that tells whether a key is seen for the first time.
-- SPDX-License-Identifier: MIT
--
-- The keys are nodes in a ring, with the set's list as head; the key that was
-- seen last comes first.  The set knows an object by its serial, so it keeps no
-- object alive.

local check = require "moonwatch.check"
local core = require "moonwatch.core"

local Seen, state_of, new = check.class "seen-set"

local MAX = 4096
local is_object = core.private.is_object

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

--- Returns true if the set sees the key for the first time, or has forgotten
-- the key.
function Seen:__call(key)
  check.argument(key ~= nil and key == key, 1, "seen", "key", key)
  self = self[Seen]
  local where, known = self.values, key
  if is_object(key) then where, known = self.objects, core.id(key) end
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

--- Returns the number of keys that the set knows.
function Seen:len()
  return state_of(self, "len").n
end

Seen.__len = Seen.len

local function clear(self)
  local list = {}
  list.before, list.after = list, list
  self.list, self.values, self.objects, self.n = list, {}, {}, 0
end

--- Forgets all keys.
function Seen:clear(...)
  self = state_of(self, "clear")
  check.nothing("clear", ...)
  clear(self)
end

--- Returns a set that is called with a key and returns true the first time.  Of
-- more than `max` keys the set forgets the key that it has not seen for the
-- longest time.
local function once(max)
  check.argument(max == nil or math.type(max) == "integer" and max > 0, 1,
    "once", "positive integer", max)
  local its = { max = max or MAX }
  clear(its)
  return new(its)
end

return once

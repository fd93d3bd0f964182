--- Writes to tables that are not made yet.
-- SPDX-License-Identifier: MIT
--
--     pending: table -> key -> value, or ABSENT for a key to delete
--     entries: { object, key } of each pair in `pending`, in the order of the
--              first stores
--
-- `load`, `length` and `contents` return what they would after the writes.

local core = require "moonwatch.core"
local recorded = require "moonwatch.effects.recorded"

local raw = core.raw

local Draft = {}
Draft.__index = Draft

local ABSENT = {}

function Draft:load(t, key)
  local of_table = self.pending[t]
  local value = of_table and of_table[key]
  if value == nil then return rawget(raw(t), key) end
  if value ~= ABSENT then return value end
end

--- Stores a value; nil deletes the key.
function Draft:store(t, key, value)
  local of_table = self.pending[t] or {}
  self.pending[t] = of_table
  if of_table[key] == nil then
    self.entries[#self.entries + 1] = { object = t, key = key }
  end
  if value == nil then value = ABSENT end
  of_table[key] = value
end

--- Returns the length of an array.  The search begins at the last known length.
function Draft:length(t)
  local n = self.lengths[t] or rawlen(raw(t))
  while self:load(t, n + 1) ~= nil do n = n + 1 end
  while n > 0 and self:load(t, n) == nil do n = n - 1 end
  self.lengths[t] = n
  return n
end

--- Returns a plain table with the contents of `t`, which must not be written
-- to.
function Draft:contents(t)
  if not self.pending[t] then return raw(t) end
  local held = {}
  for key, value in next, raw(t) do held[key] = value end
  for key, value in next, self.pending[t] do
    if value == ABSENT then held[key] = nil else held[key] = value end
  end
  return held
end

local function holds(t, key, value)
  return rawequal(rawget(raw(t), key), value)
end

--- Makes the writes that change a value.  Returns their effects; or nil, an
-- error and the entry whose write raised the error, and nothing has changed.
function Draft:apply()
  local list = {}
  for _, entry in ipairs(self.entries) do
    local new = self:load(entry.object, entry.key)
    if not holds(entry.object, entry.key, new) then
      entry.new = new
      list[#list + 1] = entry
    end
  end
  local fx, problem, entry = recorded.write(function() return list end)
  if not fx then return nil, problem, entry end
  recorded.raise(problem)
  return fx
end

return function()
  return setmetatable({ pending = {}, entries = {}, lengths = {} }, Draft)
end

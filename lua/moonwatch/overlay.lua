--- Writes that have not happened yet.
-- SPDX-License-Identifier: MIT
--
--     pending: table -> key -> value, or ABSENT when the key is to be deleted
--     entries: { object, key } of each pair in `pending`, in the order in which
--              they were stored first
--
-- `load`, `length` and `contents` answer as if the writes had been done.

local core = require "moonwatch.core"

local raw = core.raw

local Overlay = {}
Overlay.__index = Overlay

local ABSENT = {}

function Overlay:load(t, key)
  local of_table = self.pending[t]
  local value = of_table and of_table[key]
  if value == nil then return rawget(raw(t), key) end
  if value ~= ABSENT then return value end
end

--- A value of nil deletes.
function Overlay:store(t, key, value)
  local of_table = self.pending[t] or {}
  self.pending[t] = of_table
  if of_table[key] == nil then
    self.entries[#self.entries + 1] = { object = t, key = key }
  end
  if value == nil then value = ABSENT end
  of_table[key] = value
end

--- The length of an array, found from where it was the last time.
function Overlay:length(t)
  local n = self.lengths[t] or rawlen(raw(t))
  while self:load(t, n + 1) ~= nil do n = n + 1 end
  while n > 0 and self:load(t, n) == nil do n = n - 1 end
  self.lengths[t] = n
  return n
end

--- A plain table with what is in `t`; not to be written to.
function Overlay:contents(t)
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

local function assign(t, key, value) t[key] = value end

-- A class that refuses what was there before is not asked twice.
local function put_back(written)
  for i = #written, 1, -1 do
    local t, key, old = table.unpack(written[i], 1, 3)
    if not holds(t, key, old) then pcall(assign, t, key, old) end
    if not holds(t, key, old) then rawset(raw(t), key, old) end
  end
end

--- Does the writes that change anything.  Answers true; or nil, an error and
-- the entry whose write raised it, after undoing the others.
function Overlay:apply()
  local written = {}
  for _, entry in ipairs(self.entries) do
    local t, key = entry.object, entry.key
    local new = self:load(t, key)
    if not holds(t, key, new) then
      written[#written + 1] = { t, key, rawget(raw(t), key) }
      local ok, err = pcall(assign, t, key, new)
      if not ok then
        put_back(written)
        return nil, err, entry
      end
    end
  end
  return true
end

return function()
  return setmetatable({ pending = {}, entries = {}, lengths = {} }, Overlay)
end

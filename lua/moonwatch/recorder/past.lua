--- What an object held after an entry: from what it holds now, back through the
-- entries since.
-- SPDX-License-Identifier: MIT

local core = require "moonwatch.core"

local private = core.private
local look_entry, enters = private.look_entry, private.enters

local past = {}

local ABSENT = {}

-- Returns object -> key -> what the field held after the entry `seq`, for the
-- fields that were written since.
local function written_since(seq, last)
  local look, n = private.look(seq + 1, last)
  local fields = {}
  for i = n, 1, -1 do
    local object, key, old, _, kind = look_entry(look, i)
    if object ~= nil and key ~= nil and kind ~= "metatable" and
      kind ~= "call" then
      local its = fields[object] or {}
      fields[object] = its
      its[key] = old == nil and ABSENT or old
    end
  end
  return fields
end

-- Returns a copy of what an object held.  Writes of open transactions are not
-- delivered.
local function contents(obj, before, fields)
  local copy = {}
  local parts = before[obj]
  for key, value in next, parts and parts[1] or private.raw(obj) do
    copy[key] = value
  end
  for key, value in next, fields[obj] or {} do
    copy[key] = nil
    if value ~= ABSENT then copy[key] = value end
  end
  return copy
end

-- Replaces the tables in the fields of a copy by copies, and so on below.
local function copy_below(root, copy, before, fields)
  local copies, queue = { [root] = copy }, { root }
  local i = 1
  while queue[i] do
    local parent = queue[i]
    local its = copies[parent]
    for key, value in next, its do
      if type(value) == "table" and
        (copies[value] or enters(root, parent, key, value)) then
        if not copies[value] then
          copies[value] = contents(value, before, fields)
          queue[#queue + 1] = value
        end
        its[key] = copies[value]
      end
    end
    i = i + 1
  end
end

--- Returns what `obj` held after the entry `seq`, with `deep` what was below,
-- or nil and why.  The entries from `first` to `last` are kept.
function past.of(first, last, obj, seq, deep)
  if seq > last then
    return nil, ("there is no entry %d yet"):format(seq)
  elseif seq < first - 1 then
    return nil, ("the entries after %d are not kept"):format(seq)
  end
  local before, fields = private.delivered_now() or {}, written_since(seq, last)
  local copy = contents(obj, before, fields)
  if deep then copy_below(obj, copy, before, fields) end
  return copy
end

return past

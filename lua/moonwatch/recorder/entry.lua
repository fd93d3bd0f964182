--- Entries of the journal, as programs get them.
-- SPDX-License-Identifier: MIT
--
--     entry: { look, number in the look }, until a field is read
--
-- An entry is a table that gets its fields, and another class, when the first
-- one is read.  So whoever looks at a few of many entries pays for these.

local core = require "moonwatch.core"

local private = core.private
local look_entry = private.look_entry
local next, rawget, rawset, setmetatable = next, rawget, rawset, setmetatable

local entry = {}

-- The classes of entries that have their fields, and that have not.  The core
-- knows entries by `is_entry`.
local Entry = { __name = "entry", __metatable = false, is_entry = true }
local Late = { __name = "entry", __metatable = false, is_entry = true }
private.add_class(Entry)
private.add_class(Late)
Entry.__newindex = nil

-- Gives an entry its fields, if there are any.  The array of scopes is a copy,
-- which the program may change.
local function fill(e, object, key, old, new, kind, seq, where, context,
  because)
  if not kind then return end
  e.object, e.key, e.kind, e.seq = object, key, kind, seq
  if old ~= nil then e.old = old end
  if new ~= nil then e.new = new end
  if where then e.where = where end
  if because then e.because = because end
  if context then
    local transaction, origin, scope =
      context.transaction, context.origin, context.scope
    e.epoch = context.epoch
    if transaction then e.transaction = transaction end
    if origin then e.origin = origin end
    if scope then e.scope = table.move(scope, 1, #scope, 1, {}) end
  end
  e[1], e[2] = nil, nil -- last: without memory, the rest comes later
end

-- The program may set fields, 1 and 2 as well: the core looks at what these
-- are.
local function fill_late(e)
  fill(e, look_entry(rawget(e, 1), rawget(e, 2), e, Entry))
end

function Entry.__index(e, key)
  fill_late(e)
  return rawget(e, key)
end

function Entry.__pairs(e)
  fill_late(e)
  return next, e
end

Late.__index, Late.__pairs = Entry.__index, Entry.__pairs

function Late.__newindex(e, key, value)
  fill_late(e)
  rawset(e, key, value)
end

--- Sets the function that makes an entry a text.
function entry.text(f) Entry.__tostring, Late.__tostring = f, f end

--- Returns entry number `i` of a look.
function entry.of(look, i) return setmetatable({ look, i }, Late) end

--- Returns an iterator of a look's entries, but the first `skip`, of `n`.
function entry.each(look, n, skip)
  local i = skip or 0
  return function()
    if i >= n then return nil end
    i = i + 1
    return setmetatable({ look, i }, Late)
  end
end

--- Returns an entry that the core knows otherwise; nil for nothing.
function entry.new(...)
  if select("#", ...) == 0 then return nil end
  local e = {}
  fill(e, ...)
  return setmetatable(e, Entry)
end

private.keep("each", entry.each)

return entry

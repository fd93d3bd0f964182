--- Entries of the journal, as programs get them.
-- SPDX-License-Identifier: MIT
--
--     entry: { look, number in the look }, until a field is read
--
-- An entry is a table that gets its fields when the first one is read.  So
-- whoever looks at a few of many entries pays for these.

local core = require "moonwatch.core"

local private = core.private
local look_entry = private.look_entry
local next, rawget, rawset = next, rawget, rawset

local entry = {}

local Entry = { __name = "entry", __metatable = false }
private.add_class(Entry)

-- Gives an entry its fields, if there are any.  The array of scopes is a copy,
-- which the program may change.
local function fill(e, object, key, old, new, kind, seq, where, context,
  because)
  if not kind then return end
  rawset(e, 1, nil)
  rawset(e, 2, nil)
  rawset(e, "object", object)
  rawset(e, "key", key)
  rawset(e, "old", old)
  rawset(e, "new", new)
  rawset(e, "kind", kind)
  rawset(e, "seq", seq)
  rawset(e, "where", where)
  rawset(e, "because", because)
  if not context then return end
  rawset(e, "epoch", context.epoch)
  rawset(e, "transaction", context.transaction)
  rawset(e, "origin", context.origin)
  local scope = context.scope
  rawset(e, "scope", scope and table.move(scope, 1, #scope, 1, {}))
end

-- The program may set fields, 1 and 2 as well: the core looks at what these
-- are.
local function fill_late(e) fill(e, look_entry(rawget(e, 1), rawget(e, 2))) end

function Entry.__index(e, key)
  fill_late(e)
  return rawget(e, key)
end

function Entry.__newindex(e, key, value)
  fill_late(e)
  rawset(e, key, value)
end

function Entry.__pairs(e)
  fill_late(e)
  return next, e
end

--- Sets the function that makes an entry a text.
function entry.text(f) Entry.__tostring = f end

--- Returns entry number `i` of a look.
function entry.of(look, i) return setmetatable({ look, i }, Entry) end

--- Returns an iterator of a look's entries, but the first `skip`, of `n`.
function entry.each(look, n, skip)
  local i = skip or 0
  return function()
    if i >= n then return nil end
    i = i + 1
    return setmetatable({ look, i }, Entry)
  end
end

--- Returns an entry that the core knows otherwise; nil for nothing.
function entry.new(...)
  if select("#", ...) == 0 then return nil end
  local e = {}
  fill(e, ...)
  return setmetatable(e, Entry)
end

private.entry_class(Entry, entry.each)

return entry

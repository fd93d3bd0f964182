--- What entries do to each field, all together.
-- SPDX-License-Identifier: MIT
--
--     list     fields { first, last: the entries, at }, in the order of the
--              first entries
--     fields   object -> name of the field -> the field in the list
--     changed  how many fields are another than before
--     n        how many entries there are
--
-- `at` is the number of the first entry of a field, or of that which has set it
-- again after a delete.  Fields of a userdata may be part of its state, so they
-- are not folded across a call.

local state = require "moonwatch.effects.state"

local get = require("moonwatch.core").private.entry

local fold = {}

local CLASS, STATE, NAN = {}, {}, {}

--- Returns the name of a field, by which tables can find it, for the key and
-- the kind of an entry.  The class of an object, whose entries have no key, the
-- state of a userdata, and NaN have names, too.
function fold.name_of(key, kind)
  if kind == "call" then return STATE end
  if key == nil then return CLASS end
  return key == key and key or NAN
end

local name_of = fold.name_of

--- Returns an entry of effects, or nil behind the last one.  The `object` of an
-- entry is nil if the object has died.
function fold.entry(fx, i)
  local object, key, old, new, kind, where = get(fx, i)
  if not kind then return nil end
  return { object = object, key = key, old = old, new = new, kind = kind,
    where = where }
end

--- Returns an array of the entries whose objects are alive.
function fold.list(fx)
  local list = {}
  for i = 1, #fx do
    local e = fold.entry(fx, i)
    if e.object ~= nil then list[#list + 1] = e end
  end
  return list
end

--- Returns a fold of no entries.
function fold.new()
  return {
    list = {}, fields = setmetatable({}, { __mode = "k" }), changed = 0, n = 0,
  }
end

--- Did the field hold a value before?
function fold.was(field)
  local e = field.first
  return e.kind ~= "insert" and (e.kind ~= "raw" or e.old ~= nil)
end

--- Does it hold a value afterwards?
function fold.is(field)
  local e = field.last
  return e.kind ~= "delete" and (e.kind ~= "raw" or e.new ~= nil)
end

-- Returns the kind of the net change of a field; nil if the field is as it was.
local function net_kind(field)
  local was, is, e = fold.was(field), fold.is(field), field.last
  if was == is and (not is or state.same_value(e, field.first.old, e.new)) then
    return nil
  end
  if e.kind == "metatable" or e.kind == "call" then return e.kind end
  return was and (is and "update" or "delete") or "insert"
end

--- Adds the entries of effects.  Returns the fold.
function fold.add(self, fx)
  for _, e in ipairs(fold.list(fx)) do
    local object, name = e.object, name_of(e.key, e.kind)
    local its = self.fields[object] or {}
    if (its[STATE] ~= nil) ~= (name == STATE) then its = {} end
    local field = its[name]
    self.n = self.n + 1
    if not field then
      field = { first = e, last = e, at = self.n }
      self.list[#self.list + 1] = field
      self.fields[object], its[name] = its, field
    else
      if net_kind(field) then self.changed = self.changed - 1 end
      if not fold.is(field) then field.at = self.n end
      field.last = e
    end
    if net_kind(field) then self.changed = self.changed + 1 end
  end
  return self
end

--- Returns at most one entry for each field, for the fields that are another
-- than before.
function fold.entries(self)
  local fields, entries = {}, {}
  for _, field in ipairs(self.list) do
    if net_kind(field) then fields[#fields + 1] = field end
  end
  table.sort(fields, function(a, b) return a.at < b.at end)
  for i, field in ipairs(fields) do
    local e = field.last
    entries[i] = {
      object = e.object, key = field.first.key, old = field.first.old,
      new = e.new, kind = net_kind(field), where = e.where,
    }
  end
  return entries
end

return fold

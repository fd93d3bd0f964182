--- JSON in Lua's tables: null, arrays and objects, copies.
-- SPDX-License-Identifier: MIT
--
-- A mark says whether a table is an array or an object.  Marks are the tags of
-- a clock, so they are weak and belong to the identity of a table: an even
-- generation marks an array, an odd one an object.  Without a mark the keys
-- decide; an empty table without a mark is "either", and equals the empty array
-- and the empty object.
--
-- A watched table does not hold its own contents.  So the functions here read a
-- table only by `contents`, a function that returns a plain table with the
-- contents of a table (`core.private.raw` by default).

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local pointer = require "moonwatch.json.pointer"

local private = core.private
local raw, rawequal, type = private.raw, rawequal, type
local integer = math.type

local json = { null = core.null }

-- {======================================================
-- Marks
-- =======================================================

local marks = core.clock "moonwatch.array"
local generation = marks.generation
local KINDS, NUMBERS = { [0] = "array", "object" }, { array = 1, object = 2 }

local function mark(t, kind)
  private.set_mark(t, NUMBERS[kind])
  return t
end

--- Returns the mark of a table: "array", "object" or nil.
function json.mark(t)
  local said = generation(marks, t)
  return said >= 0 and KINDS[said % 2] or nil
end

--- Marks a table as an array.  Returns the table.
function json.array(t)
  check.argument(type(t) == "table", 1, "array", "table", t)
  return mark(t, "array")
end

--- Marks a table as an object.  Returns the table.
function json.object_like(t)
  check.argument(type(t) == "table", 1, "object_like", "table", t)
  return mark(t, "object")
end

--- Gives a table a mark, which is like the result of `json.mark`.
function json.set_mark(t, kind)
  private.set_mark(t, NUMBERS[kind] or 0)
end

-- Returns the kind of a table by its keys, or nil if JSON has none such; and
-- the number of members.  `n` positive integer keys with the maximum `n` are
-- the keys of an array.  With `most` only so many keys are looked at; then the
-- kind is that of a table with those keys.
local function shape(held, most)
  local strings, indices, last = 0, 0, 0
  for key in next, held do
    if strings + indices == most then
      last = indices -- the others may be between these
      break
    end
    if type(key) == "string" then
      strings = strings + 1
    elseif integer(key) == "integer" and key > 0 then
      indices = indices + 1
      if key > last then last = key end
    else
      return nil
    end
  end
  if strings == 0 and last == indices then
    return last == 0 and "either" or "array", last
  end
  return indices == 0 and "object" or nil, strings
end

-- Returns "array", "object" or "either", and the number of members; nil if JSON
-- has no such table.
local function kind_and_size(t, held)
  local kind, size = shape(held)
  local said = json.mark(t)
  if said and kind == "either" then kind = said end
  if said and kind ~= said then return nil end
  return kind, size
end

local LOOK = 32 -- keys

--- Returns the kind alone, by the mark or else by the first keys, so that large
-- tables cost no more than small ones.
function json.kind(t)
  return json.mark(t) or (shape(raw(t), LOOK))
end

-- }======================================================

-- {======================================================
-- Documents, without recursion, because documents may be deep
-- =======================================================

--- Returns a table with the same contents and without a class.
function json.plain(t)
  if getmetatable(t) == nil then return t end
  local plain = {}
  for key, value in next, t do plain[key] = value end
  return plain
end

--- What is wrong with a table that is neither array nor object.
json.NO_KIND = "a table whose keys are neither strings nor 1 to n"

--- Returns what is wrong with a value that is no table, or nil.
function json.fault(value)
  local kind = type(value)
  if kind == "string" then
    return not utf8.len(value) and "a string that is not UTF-8" or nil
  end
  if kind == "number" then
    return value - value ~= 0 and ("the number %s"):format(value) or nil
  end
  if kind == "boolean" or rawequal(value, json.null) then return nil end
  return "a " .. kind
end

--- Returns the message for what is wrong at a place.
function json.message(what, node)
  return ("not JSON: %s at '%s'"):format(what, pointer.of(node))
end

-- A frame is a table whose members are being folded, and a node of a pointer.
local function open(t, up, rules, within)
  if within[t] then return nil, "a table inside itself" end
  local held = (rules.contents or raw)(t)
  local kind, size = kind_and_size(t, held)
  if not kind then return nil, json.NO_KIND end
  within[t] = true
  return { up = up, table = t, held = held, kind = kind, size = size,
    members = {} }
end

local function close(frame, rules, within)
  within[frame.table] = nil
  local result = rules.table(frame.table, frame.members, frame.kind, frame.size)
  if rules.known then rules.known[frame.table] = result end
  frame = frame.up
  frame.members[frame.key] = result
  return frame
end

--- Folds a document from its leaves to its root.  `rules.scalar(value)` returns
-- the result for a value that is no table; `rules.table(t, members, kind,
-- size)` returns the result for a table, and `members` has the results for its
-- members.  No result is nil.  `rules.known` has results for tables that are
-- known already, and receives the others.  Returns the result for the root; nil
-- and a message if the value is not JSON.
function json.fold(value, rules)
  local frame, within = { held = { value }, members = {} }, {}
  local known = rules.known or {}
  while true do
    local key, member = next(frame.held, frame.key)
    frame.key = key
    if key == nil then
      if not frame.up then return frame.members[1] end
      frame = close(frame, rules, within)
    elseif type(key) == "string" and not utf8.len(key) then
      return nil, json.message("a key that is not UTF-8", frame.up)
    elseif type(member) ~= "table" then
      local what = json.fault(member)
      if what then return nil, json.message(what, frame) end
      frame.members[key] = rules.scalar(member)
    elseif known[member] ~= nil then
      frame.members[key] = known[member]
    else
      local below, what = open(member, frame, rules, within)
      if not below then return nil, json.message(what, frame) end
      frame = below
    end
  end
end

local function itself(value) return value end

local function keep_mark(t, copy)
  local kind = json.mark(t)
  return kind and mark(copy, kind) or copy
end

--- Returns a deep copy with the same marks; nil and a message if the value is
-- not JSON.
function json.copy(value, contents)
  return json.fold(value,
    { contents = contents, scalar = itself, table = keep_mark })
end

-- }======================================================

return json

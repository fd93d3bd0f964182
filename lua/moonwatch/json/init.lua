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

-- Returns the kind of a table by its keys, or nil if JSON has none such.  `n`
-- positive integer keys with the maximum `n` are the keys of an array.  With
-- `most` only so many keys are looked at; then the kind is that of a table with
-- those keys.
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
    return last == 0 and "either" or "array"
  end
  return indices == 0 and "object" or nil
end

local LOOK = 32 -- keys

--- Returns the kind alone, by the mark or else by the first keys, so that large
-- tables cost no more than small ones.
function json.kind(t)
  return json.mark(t) or shape(raw(t), LOOK)
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

--- Raises a table with that message.
function json.fail(what, node)
  error { message = json.message(what, node) }
end

--- Returns the message of what was raised: by `fail`, or for a document that is
-- too deep; raises all else.
function json.problem(err)
  if type(err) == "table" then return err.message end
  if type(err) == "string" and err:find("stack overflow", 1, true) then
    return "it has too many tables in each other"
  end
  error(err, 0)
end

-- Copies a table, whose place is the node `at`; `within` has the tables that
-- are around it.
local function copy(t, contents, at, within)
  if within[t] then json.fail("a table inside itself", at) end
  local held, said = contents(t), json.mark(t)
  local kind = shape(held)
  if not kind or said and kind ~= "either" and kind ~= said then
    json.fail(json.NO_KIND, at)
  end
  local node, result = { up = at }, {}
  within[t] = true
  for key, value in next, held do
    if type(key) == "string" and not utf8.len(key) then
      json.fail("a key that is not UTF-8", at)
    end
    node.key = key
    if type(value) == "table" then
      value = copy(value, contents, node, within)
    else
      local what = json.fault(value)
      if what then json.fail(what, node) end
    end
    result[key] = value
  end
  within[t] = nil
  return said and mark(result, said) or result
end

--- Returns a deep copy with the same marks; raises a table with a message if
-- the value is not JSON.
function json.copy(value, contents)
  local root = {}
  if type(value) == "table" then
    return copy(value, contents or raw, root, {})
  end
  local what = json.fault(value)
  if what then json.fail(what, root) end
  return value
end

return json

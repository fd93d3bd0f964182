--- An entry as a sentence: what was written, where, by whom, because of what.
-- SPDX-License-Identifier: MIT
--
--     hp of Level.enemies.3: 10 -> 0, combat.lua:41, in Level > Combat
--       because target of Level.player: nil -> Level.enemies.3, input.lua:17

local core = require "moonwatch.core"
local entry = require "moonwatch.recorder.entry"
local label = require "moonwatch.trace.label"
local literal = require "moonwatch.literal"
local object_class = require "moonwatch.policy.object_class"

local G = _G -- a program may take the global away
local private = core.private
local way, metatable = private.way, private.metatable

local text = {}

local LONGEST = 60 -- a string that is longer is cut

local function is_word(key)
  return type(key) == "string" and #key <= LONGEST and
    key:find "^[%a_][%w_]*$" ~= nil
end

local function one_line(s)
  return (s:gsub("%c", function(c) return literal.of(c):sub(2, -2) end))
end

-- Cuts a long string between two characters of UTF-8.
local function quoted(s)
  if #s <= LONGEST then return literal.of(s) end
  local short = s:sub(1, LONGEST)
  if s:find("^[\x80-\xBF]", LONGEST + 1) then
    short = short:gsub("[\xC0-\xFF][\x80-\xBF]*$", "")
  end
  return literal.of(short .. "...")
end

-- Returns what people call an object that is in no other object.
local function own_name(obj, numbered)
  if rawequal(obj, G) then return "_G" end
  local name = label.of(obj)
  if not name then return ("%s#%d"):format(type(obj), core.id(obj)) end
  return numbered and ("%s#%d"):format(name, core.id(obj)) or name
end

-- Returns the step of a way.  A key that is an object may be below itself.
local function step_of(key)
  if is_word(key) or math.type(key) == "integer" then return "." .. key end
  local is_object = type(key) == "table" or type(key) == "userdata"
  return "[" .. (is_object and own_name(key, true) or text.of_value(key)) .. "]"
end

local GONE = "an object that is gone"

--- Returns the name of an object: that which `name_of` gives it, its name in a
-- hierarchy, its way below a tracked root, or its class and number.
function text.of_object(obj, name_of)
  if obj == nil then return GONE end
  local name = name_of and name_of(obj) or label.in_hierarchy(obj)
  if name then return name end
  local root, keys = way(obj)
  if root == nil then return own_name(obj, true) end
  local steps = { rawequal(root, G) and is_word(keys[1]) and
    table.remove(keys, 1) or own_name(root) }
  for _, key in ipairs(keys) do steps[#steps + 1] = step_of(key) end
  return table.concat(steps)
end

--- Returns a value as text; an object by its name.
function text.of_value(value, name_of)
  local kind = type(value)
  if kind == "string" then return quoted(value) end
  if value == core.null then return "null" end
  if kind ~= "table" and kind ~= "userdata" and kind ~= "function" and
    kind ~= "thread" then
    return tostring(value)
  end
  if name_of then return name_of(value, true) end
  if way(value) == nil and not label.in_hierarchy(value) and
    metatable(value) == nil then
    return ("%s#%d"):format(kind, core.id(value))
  end
  return text.of_object(value)
end

-- Returns the name of the class with a metatable.
local function class_text(mt)
  if type(mt) ~= "table" then return text.of_value(mt) end
  return label.class(object_class.of_metatable(mt), mt) or text.of_value(mt)
end

local function what_of(e, name_of)
  local object = text.of_object(e.object, name_of)
  if e.kind == "metatable" then return "class of " .. object end
  local key = e.key
  key = (is_word(key) or math.type(key) == "integer") and tostring(key) or
    "[" .. text.of_value(key, name_of) .. "]"
  return ("%s%s of %s"):format(key, e.kind == "call" and "()" or "", object)
end

-- Returns the old and the new value as text.  A last writer holds no objects.
local function values_of(e, name_of)
  if e.kind == "metatable" then return class_text(e.old), class_text(e.new) end
  local was, is = e.kind == "update", e.kind == "update" or e.kind == "insert"
  return was and e.old == nil and GONE or text.of_value(e.old, name_of),
    is and e.new == nil and GONE or text.of_value(e.new, name_of)
end

-- Returns a line for one entry.
local function line_of(e, name_of)
  local parts = { ("%s: %s -> %s"):format(what_of(e, name_of),
    values_of(e, name_of)) }
  local function add(...) parts[#parts + 1] = (...):format(select(2, ...)) end
  if e.where then add("%s", e.where) end
  if e.scope and e.scope[1] then
    add("in %s", table.concat(e.scope, " > "))
  end
  if type(e.transaction) == "string" then
    add("transaction %s", quoted(e.transaction))
  elseif e.transaction then
    add("transaction %d", e.transaction)
  end
  if e.origin then add("by %s", e.origin) end
  if e.open then add "not committed yet" end
  if e.rolled_back then add "rolled back" end
  return one_line(table.concat(parts, ", ")) -- names have any characters
end

-- The recorders, those that have stopped, too; the program may have dropped
-- some.  All copies of this file share the set.
private.recorders = private.recorders or setmetatable({}, { __mode = "k" })
local recorders = private.recorders

-- Returns the delivered entry with the number `seq`, or nil.
local function entry_of(seq)
  local look, n = private.look(seq, seq)
  if n == 1 then return entry.of(look, 1) end
  for its in pairs(recorders) do
    if its.look and seq >= its.first and seq <= its.last then
      return entry.of(its.look, seq - its.last + its.n)
    end
  end
end

-- The numbers of entries of transactions that are not committed: as a cause
-- (the upper 32 bits), and of their cause.  `because` is the number that a
-- cause has once it is delivered.
private.numbers_of = private.numbers_of or setmetatable({}, { __mode = "k" })
local numbers_of = private.numbers_of

--- Returns an entry of a transaction that is not committed, with its `state`,
-- and its order, from what the core knows; nil for nothing.
function text.owned(state, numbers, order, transaction, ...)
  if not numbers then return nil end
  local e = entry.new(...)
  e.transaction, e[state] = transaction, true
  numbers_of[e] = numbers
  return e, order
end

-- Returns the entry that recorders have kept of what was taken back, with a
-- number as a cause; or nil.
local function taken_back(number)
  for its in pairs(recorders) do
    local found = its.taken and its.taken:caused_by(number)
    if found then return found end
  end
end

-- Returns the entry because of which another was made, or nil.  It may be open,
-- or taken back.
local function cause_of(e)
  if e.because then return entry_of(e.because) end
  local number = (numbers_of[e] or 0) & 0xFFFFFFFF
  if e.seq or number == 0 then return nil end
  local function found(its, ...)
    if its and select("#", ...) == 0 then return entry_of(its) end
    return (text.owned("open", its, ...))
  end
  return found(private.caused_by(number)) or taken_back(number)
end

--- Returns an array of an entry and its causes.
function text.chain(e)
  local chain = {}
  while e do
    chain[#chain + 1] = e
    e = cause_of(e)
  end
  return chain
end

--- Returns a chain as text, a line for each entry.  If given,
-- `name_of(object, is_value)` names objects, of which some are keys or values.
function text.of(chain, name_of)
  local lines = {}
  for i, e in ipairs(chain) do
    lines[i] = (i > 1 and "  because " or "") .. line_of(e, name_of)
  end
  return table.concat(lines, "\n")
end

entry.text(function(e) return text.of(text.chain(e)) end)

return text

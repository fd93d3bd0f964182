--- mw.patch: JSON patches (RFC 6902), applied as a whole or not at all.
-- SPDX-License-Identifier: MIT
--
-- The operations change a document: a root, and a draft of the writes to the
-- tables below it.  The draft is applied when all operations have gone well.
--
-- An operation costs the length of its path.  So of a table on its path only a
-- few keys are looked at, and whether a table is in two places is looked for
-- only if two operations go to the table by different ways: what one of them
-- writes would then be changed by the other.  `places` has the way to each
-- table that was written to or into, `twice` the operation that came by
-- another.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local json = require "moonwatch.json"
local draft = require "moonwatch.json.draft"
local pointer = require "moonwatch.json.pointer"
local state = require "moonwatch.state"

local raw = core.private.raw

-- {======================================================
-- The document
-- =======================================================

local Document = {}
Document.__index = Document

local function new_document(root)
  local store = draft()
  return setmetatable({ root = root, store = store, kinds = {}, places = {},
    twice = {}, is_class = state.classes(root) }, Document), store
end

-- Returns the function by which the functions of json/init.lua read tables.
function Document:reader()
  return function(t) return self.store:contents(t) end
end

-- Returns "array" or "object"; nil if JSON has no such table.  A step into an
-- empty table that may be either decides.
function Document:kind(t, step)
  local kind = self.kinds[t] or json.kind(t)
  if kind == "either" then
    return (step == "-" or step == "0") and "array" or "object"
  end
  self.kinds[t] = kind
  return kind
end

local DIGITS = 15 -- of the largest index

-- Returns the key of a step into an array, or nil if the step is no index.
local function index_of(step)
  local good = step == "0" or step:find "^[1-9]%d*$" and #step <= DIGITS
  return good and tonumber(step) + 1 or nil
end

-- Returns the value and the key of a step into a table; nil if there is no
-- value.
function Document:member(t, step)
  local kind = type(t) == "table" and self:kind(t, step)
  if not kind then return nil end
  if kind == "object" then return self.store:load(t, step), step end
  local index = index_of(step)
  if index then return self.store:list(t):get(index), index end
end

local function missing(steps, n)
  return nil, ("there is no '%s'"):format(pointer.text(steps, n))
end

-- Returns the value to which the first `n` steps lead.
function Document:find(steps, n)
  local value = self.root
  for i = 1, n do
    value = self:member(value, steps[i])
    if value == nil then return missing(steps, i) end
  end
  return value
end

-- Notes that an operation goes from a table to another in it, to write there.
function Document:note(up, key, t)
  local place = self.places[t]
  if not place then
    self.places[t] = { up = up, key = key }
  elseif place.up ~= up or place.key ~= key then
    self.twice[t] = self.twice[t] or self.index
  end
end

-- Returns the table to whose member the steps lead, and the table's kind.  The
-- operation will write to that member, so the way leads to no class.
function Document:parent(steps)
  local n, t = #steps, self.root
  for i = 1, n - 1 do
    local below, key = self:member(t, steps[i])
    if below == nil then return missing(steps, i) end
    if type(below) == "table" then
      if self.is_class(t, key, below) then
        return nil, ("'%s' is a class"):format(pointer.text(steps, i))
      end
      self:note(t, key, below)
    end
    t = below
  end
  local kind = type(t) == "table" and self:kind(t, steps[n])
  if kind then return t, kind end
  return nil, ("'%s' is no array or object"):format(pointer.text(steps, n - 1))
end

-- Returns the first of the operations that came to a table by another way, if
-- the table is in two places.
function Document:shared(root)
  if not next(self.twice) then return nil end
  local seen, queue, first = { [root] = true }, { root }, nil
  while #queue > 0 do
    for _, value in next, raw(table.remove(queue)) do
      if type(value) == "table" then
        local index = seen[value] and self.twice[value]
        if index and index < (first or math.huge) then first = index end
        if not seen[value] then queue[#queue + 1] = value end
        seen[value] = true
      end
    end
  end
  return first
end

-- }======================================================

-- {======================================================
-- Parts of operations
-- =======================================================

function Document:insert(t, step, value)
  local n = self.store:list(t):len()
  local at = step == "-" and n + 1 or index_of(step)
  if not at or at > n + 1 then
    return nil, ("'%s' is neither '-' nor from 0 to %d"):format(step, n)
  end
  self.store:insert(t, at, value)
  return true
end

function Document:add(steps, value)
  if #steps == 0 then
    self.root = value
    return true
  end
  local t, kind = self:parent(steps)
  if t == nil then return nil, kind end
  self.kinds[t] = kind
  if kind == "array" then return self:insert(t, steps[#steps], value) end
  self.store:store(t, steps[#steps], value)
  return true
end

-- Returns the table, the key and the value of a member that there must be.
function Document:there(steps)
  local t, kind = self:parent(steps)
  if t == nil then return nil, kind end
  local value, key = self:member(t, steps[#steps])
  if value == nil then return missing(steps, #steps) end
  return t, key, value, kind
end

-- Returns the value that was removed.
function Document:remove(steps)
  if #steps == 0 then return nil, "there must be a document" end
  local t, key, value, kind = self:there(steps)
  if t == nil then return nil, key end
  if kind == "array" then
    self.store:remove(t, key)
  else
    self.store:store(t, key, nil)
  end
  return value
end

function Document:replace(steps, value)
  if #steps == 0 then return self:add(steps, value) end
  local t, key, _, kind = self:there(steps)
  if t == nil then return nil, key end
  if kind == "array" then
    self.store:set(t, key, value)
  else
    self.store:store(t, key, value)
  end
  return true
end

-- }======================================================

-- {======================================================
-- Operations: each returns true, or nil and a message
-- =======================================================

local operations = {}

function operations.add(document, path, value)
  return document:add(path, value)
end

function operations.replace(document, path, value)
  return document:replace(path, value)
end

function operations.remove(document, path)
  local removed, why = document:remove(path)
  return removed ~= nil or nil, why
end

function operations.test(document, path, value)
  local actual, why = document:find(path, #path)
  if actual == nil then return nil, why end
  if json.equal(actual, value, document:reader()) then return true end
  return nil, "that is not the value"
end

function operations.copy(document, path, _, from)
  local value, why = document:find(from, #from)
  if value == nil then return nil, why end
  value, why = json.copy(value, document:reader())
  if value == nil then return nil, why end
  return document:add(path, value)
end

local function leads_into(from, path)
  for i = 1, #from do
    if from[i] ~= path[i] then return false end
  end
  return true
end

function operations.move(document, path, _, from)
  local value, why = document:find(from, #from)
  if value == nil then return nil, why end
  if leads_into(from, path) then
    if #from == #path then return true end
    return nil, "nothing moves into itself"
  end
  value, why = document:remove(from)
  if value == nil then return nil, why end
  return document:add(path, value)
end

local NEEDS = {
  add = "value", replace = "value", test = "value",
  copy = "from", move = "from",
}

-- }======================================================

-- {======================================================
-- Patches
-- =======================================================

-- Parses the pointer in a field of an operation.
local function steps_in(fields, name)
  local text = rawget(fields, name)
  if type(text) ~= "string" then
    return nil, ("its '%s' is no string"):format(name)
  end
  return pointer.parse(text)
end

local function perform(document, fields)
  local op = rawget(fields, "op")
  local path, why = steps_in(fields, "path")
  if not path then return nil, why end
  local value, from
  if NEEDS[op] == "value" then
    value = rawget(fields, "value")
    if value == nil then return nil, "it has no 'value'" end
    value, why = json.copy(value) -- the document gets its own
    if value == nil then return nil, why end
  elseif NEEDS[op] == "from" then
    from, why = steps_in(fields, "from")
    if not from then return nil, why end
  end
  return operations[op](document, path, value, from)
end

-- Adds the name and the path of an operation to the message of its failure.
local function failed(fields, why)
  local path = rawget(fields, "path")
  local at = type(path) == "string" and (" '%s'"):format(path) or ""
  return nil, ("%s%s: %s"):format(rawget(fields, "op"), at, why)
end

local function run(document, operation)
  if type(operation) ~= "table" then
    return nil, "the operation is a " .. type(operation)
  end
  local fields = raw(operation)
  local op = rawget(fields, "op")
  if type(op) ~= "string" then return nil, "the operation has no 'op'" end
  if not operations[op] then
    return nil, ("there is no operation '%s'"):format(op)
  end
  local ok, why = perform(document, fields)
  if ok then return true end
  return failed(fields, why)
end

--- Applies JSON patch operations to a document.  Returns the root, which is
-- another value if an operation replaced the document itself; or nil, a message
-- and the index of the operation that failed, and nothing has changed.
local function patch(root, list)
  check.argument(type(root) == "table", 1, "patch", "table", root)
  check.argument(type(list) == "table", 2, "patch", "table", list)
  local held = raw(list)
  local kind = json.kind(list)
  if kind ~= "array" and kind ~= "either" then
    return nil, "the operations are not an array"
  end
  local document, store = new_document(root)
  for index = 1, rawlen(held) do
    document.index, store.index = index, index
    local ok, why = run(document, rawget(held, index))
    if not ok then return nil, why, index end
  end
  local shared = document:shared(root)
  if shared then
    local _, why = failed(raw(rawget(held, shared)),
      "it changes a table that is in two places")
    return nil, why, shared
  end
  local ok, err, entry = store:apply()
  if not ok then
    return nil, err, entry and store:writer(entry.object, entry.key)
  end
  return document.root
end

return patch

-- }======================================================

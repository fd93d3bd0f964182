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
local compare = require "moonwatch.json.compare"
local draft = require "moonwatch.json.draft"
local pointer = require "moonwatch.json.pointer"
local state = require "moonwatch.state"

local raw = core.private.raw

-- What goes wrong in an operation is raised as { message }.
local function fail(what, ...) error { message = what:format(...) } end

local Document = {}
Document.__index = Document

local function new_document(root)
  local store = draft()
  return setmetatable({ root = root, store = store, kinds = {}, places = {},
    twice = {}, is_class = state.classes(root),
    contents = function(t) return store:contents(t) end }, Document)
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
  local is_index = step == "0" or step:find "^[1-9]%d*$" and #step <= DIGITS
  return is_index and tonumber(step) + 1 or nil
end

-- Returns the value and the key of the i-th step into a table, or fails.
function Document:member(t, steps, i)
  local step, value, key = steps[i], nil, nil
  local kind = type(t) == "table" and self:kind(t, step)
  if kind == "object" then
    value, key = self.store:load(t, step), step
  elseif kind then
    key = index_of(step)
    value = key and self.store:list(t):get(key)
  end
  if value == nil then fail("there is no '%s'", pointer.text(steps, i)) end
  return value, key
end

-- Returns the value to which the steps lead.
function Document:find(steps)
  local value = self.root
  for i = 1, #steps do value = self:member(value, steps, i) end
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

-- Returns the table to whose member the steps lead, the last step, and the
-- table's kind.  The operation will write to that member, so the way leads to
-- no class.
function Document:parent(steps)
  local n, t = #steps, self.root
  for i = 1, n - 1 do
    local below, key = self:member(t, steps, i)
    if type(below) == "table" then
      if self.is_class(t, key, below) then
        fail("'%s' is a class", pointer.text(steps, i))
      end
      self:note(t, key, below)
    end
    t = below
  end
  local kind = type(t) == "table" and self:kind(t, steps[n])
  if kind then return t, steps[n], kind end
  fail("'%s' is no array or object", pointer.text(steps, n - 1))
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

local operations = {}

function operations.add(document, path, value)
  if #path == 0 then
    document.root = value
    return
  end
  local t, step, kind = document:parent(path)
  local store = document.store
  document.kinds[t] = kind
  if kind == "object" then return store:store(t, step, value) end
  local n = store:list(t):len()
  local at = step == "-" and n + 1 or index_of(step)
  if not at or at > n + 1 then
    fail("'%s' is neither '-' nor from 0 to %d", step, n)
  end
  store:insert(t, at, value)
end

function operations.replace(document, path, value)
  if #path == 0 then return operations.add(document, path, value) end
  local t, _, kind = document:parent(path)
  local _, key = document:member(t, path, #path)
  local store = document.store
  return (kind == "array" and store.set or store.store)(store, t, key, value)
end

function operations.remove(document, path)
  if #path == 0 then fail "there must be a document" end
  local t, _, kind = document:parent(path)
  local value, key = document:member(t, path, #path)
  local store = document.store
  ;(kind == "array" and store.remove or store.store)(store, t, key, nil)
  return value
end

function operations.test(document, path, value)
  local actual = document:find(path)
  local comparison = compare(actual, value, document.contents, raw)
  if comparison:differ(actual, value) then
    fail "that is not the value"
  end
end

function operations.copy(document, path, _, from)
  local value = document:find(from)
  operations.add(document, path, json.copy(value, document.contents))
end

function operations.move(document, path, _, from)
  document:find(from)
  local into, away = pointer.text(path, #path), pointer.text(from, #from)
  if into == away then return end
  if (into .. "/"):find(away .. "/", 1, true) == 1 then
    fail "nothing moves into itself"
  end
  operations.add(document, path, operations.remove(document, from))
end

local NEEDS = {
  add = "value", replace = "value", test = "value",
  copy = "from", move = "from",
}

-- Parses the pointer in a field of an operation.
local function steps_in(fields, name)
  local text = rawget(fields, name)
  if type(text) ~= "string" then fail("its '%s' is no string", name) end
  local steps, message = pointer.parse(text)
  if not steps then error { message = message } end
  return steps
end

-- Returns what comes before the message of an operation's failure.
local function title(fields)
  local path = rawget(fields, "path")
  local at = type(path) == "string" and (" '%s'"):format(path) or ""
  return ("%s%s: "):format(rawget(fields, "op"), at)
end

local function run(document, operation)
  document.title = ""
  if type(operation) ~= "table" then
    fail("the operation is a %s", type(operation))
  end
  local fields = raw(operation)
  local op = rawget(fields, "op")
  if type(op) ~= "string" then fail "the operation has no 'op'" end
  if not operations[op] then fail("there is no operation '%s'", op) end
  document.title = title(fields)
  local path, value, from = steps_in(fields, "path"), nil, nil
  if NEEDS[op] == "value" then
    value = rawget(fields, "value")
    if value == nil then fail "it has no 'value'" end
    value = json.copy(value) -- the document gets its own
  elseif NEEDS[op] == "from" then
    from = steps_in(fields, "from")
  end
  operations[op](document, path, value, from)
end

local function run_all(document, list)
  for index = 1, rawlen(list) do
    document.index, document.store.index = index, index
    run(document, rawget(list, index))
  end
end

--- Applies JSON patch operations to a document.  Returns the root, which is
-- another value if an operation replaced the document itself; or nil, a message
-- and the index of the operation that failed, and nothing has changed.
local function patch(root, list)
  check.argument(type(root) == "table", 1, "patch", "table", root)
  check.argument(type(list) == "table", 2, "patch", "table", list)
  local held, kind = raw(list), json.kind(list)
  if kind ~= "array" and kind ~= "either" then
    return nil, "the operations are not an array"
  end
  local document = new_document(root)
  local ok, err = pcall(run_all, document, held)
  if not ok then
    return nil, document.title .. json.problem(err), document.index
  end
  local shared, store = document:shared(root), document.store
  if shared then
    return nil, title(raw(rawget(held, shared))) ..
      "it changes a table that is in two places", shared
  end
  local done, problem, entry = store:apply()
  if not done then
    return nil, problem, entry and store:writer(entry.object, entry.key)
  end
  return document.root
end

return patch

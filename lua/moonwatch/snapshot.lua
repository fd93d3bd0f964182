--- mw.snapshot, mw.restore: the state below an object as bytes, and back;
-- mw.hash: is it the same?
-- SPDX-License-Identifier: MIT
--
-- The core writes and reads the bytes.  The functions here know classes and
-- policies, and change a live root into the state that was read: what is the
-- same by its path from the root and by its kind stays, and changes in one
-- transaction.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local json = require "moonwatch.json"
local named = require "moonwatch.policy.named"
local path = require "moonwatch.path"
local policy = require "moonwatch.policy"
local recorded = require "moonwatch.effects.recorded"
local same = require "moonwatch.same"
local state = require "moonwatch.effects.state"

local private = core.private
local raw = private.raw
local metatable = private.metatable

local snapshot = {}

local MEMORY = "not enough memory"

-- Returns the name of an object's class, and the state of a userdata; nil if
-- the object cannot be said.  `class` is the class that the object had when its
-- state was delivered.
local function describe(object, class)
  if type(object) == "table" then
    return named.name(named.of(object, class or metatable(object)))
  end
  if not policy.states.has(object) then return nil end
  return policy.userdata_name(object), policy.states.snapshot(object)
end

-- Returns in words where something is that cannot be said: `way` has what, and
-- the keys to it, the last one first.
local function where_of(way)
  local keys = {}
  for i = #way, 2, -1 do
    local key = way[i]
    if not path.is_key(key) then key = ("(a %s)"):format(type(key)) end
    keys[#keys + 1] = key
  end
  return ("cannot say %s: %s"):format(path.text(keys), way[1])
end

--- Returns what the core's `snapshot` does for these arguments; or nil, and the
-- array with what cannot be said and its way.  When a class is found late, or
-- something is refused that may be in a class, all classes are looked for.
function snapshot.write(root, describer, descend, names, hashes)
  local classes, is_last = {}, false
  while true do
    local way = {}
    local ok, result, seq = pcall(private.snapshot, root, describer, descend,
      names, hashes, classes, way)
    if ok then return result, seq end
    if not rawequal(result, way) then error(result, 0) end -- a rule's own
    if is_last and way[1] then return nil, way end
    if not is_last then private.find_classes(root, classes) end
    is_last = true
  end
end

local function write(root, descend, hashes)
  policy.current()
  local result, more = snapshot.write(root, describe, descend, named.all(),
    hashes)
  if not result then return nil, where_of(more) end
  return result, more
end

local OPTIONS = { descend = "function" }

--- Returns the state below an object as bytes, and the number of the last entry
-- that was delivered; or nil and a message.
function snapshot.snapshot(root, opts)
  check.argument(type(root) == "table", 1, "snapshot", "table", root)
  opts = check.options(opts, OPTIONS, 2, "snapshot", "option")
  return write(root, opts.descend)
end

--- Returns the hash of the state below an object, which a snapshot would have;
-- or nil and a message.
function snapshot.hash(root)
  check.argument(type(root) == "table", 1, "hash", "table", root)
  local hash, message = write(root, nil, true)
  if not hash then return nil, message end
  return hash
end

-- What is wrong with bytes, in an array; other errors are the program's.
local Refusal = {}

local function refuse(message, ...)
  error(setmetatable({ message:format(...) }, Refusal), 0)
end

--- Returns the class of a name.
function snapshot.class_of(name)
  local class = named.class(name)
  if class == nil then refuse("no class has the name '%s'", name) end
  return class
end

-- Returns the result of a rule or a class, which may raise.
local function ask(what, f, ...)
  local ok, result = pcall(f, ...)
  if ok then return result end
  if result == MEMORY then error(result, 0) end
  refuse("%s: %s", what, tostring(result))
end

--- Returns a new object of the class of a name.
function snapshot.make(name, is_userdata)
  local what = ("class '%s' makes no object"):format(name)
  local object = is_userdata and named.class(name) == nil and
    ask(what, policy.new_userdata, name) or nil
  if object ~= nil then return object end
  return ask(what, policy.new_object, snapshot.class_of(name), is_userdata)
end

-- Returns the name of an object's class; nil for one that nobody has named.
local function kind_of(object)
  if type(object) == "userdata" then return policy.userdata_name(object) end
  return named.name(named.of(object, metatable(object)))
end

-- Returns the keys in an order that all programs have; objects come last.
local function ordered(keys)
  local plain, objects = {}, {}
  for key in next, keys do
    if path.is_key(key) then
      plain[key] = true
    else
      objects[#objects + 1] = key
    end
  end
  local list = path.sorted_keys(plain)
  return table.move(objects, 1, #objects, #list + 1, list)
end

-- Adds the writes of fields that hold something else, and then those that take
-- away fields, but for those that are no state: the last element of a list
-- first.  `differs` has live tables, and what they are to hold, as the core has
-- found.
local function add_changes(writes, differs, is_state)
  local deletes = {}
  for i = 1, #differs, 2 do
    local object, wanted = differs[i], differs[i + 1]
    local contents, ignored = raw(object), policy.ignored(object) or {}
    local changed, gone = {}, {}
    for key, value in next, wanted do
      if not same(value, rawget(contents, key)) then changed[key] = true end
    end
    for key, value in next, contents do
      if wanted[key] == nil and not ignored[key] and
        is_state(object, key, value) then
        gone[key] = true
      end
    end
    for _, key in ipairs(ordered(changed)) do
      writes[#writes + 1] =
        { object = object, key = key, new = wanted[key], kind = "update" }
    end
    local keys = ordered(gone)
    for n = #keys, 1, -1 do
      deletes[#deletes + 1] =
        { object = object, key = keys[n], kind = "delete" }
    end
  end
  table.move(deletes, 1, #deletes, #writes + 1, writes)
end

-- Notes that userdata have tables of their states in common: `owners` has the
-- first owner of each table, `shared` those that are not alone.
local function note_tables(object, its, held, owners, shared)
  local list = { its }
  while #list > 0 do
    local t = table.remove(list)
    if type(t) == "table" and not held[t] and owners[t] ~= object then
      if owners[t] then shared[owners[t]], shared[object] = true, true end
      if not owners[t] then
        owners[t] = object
        for key, value in next, raw(t) do
          list[#list + 1], list[#list + 2] = key, value
        end
      end
    end
  end
end

-- Fills new userdata, and adds the writes that give live ones their states, as
-- far as these differ; those that have tables in common differ together.
-- `held` has the objects that fields lead to, which are the same by identity.
local function add_states(writes, userdata, states, held, stays)
  local owners, shared, is = {}, {}, {}
  local all, all_is = {}, {} -- of those with tables in common
  for _, object in ipairs(next(stays) ~= nil and userdata or {}) do
    note_tables(object, states[object], held, owners, shared)
    if stays[object] then
      is[object] = policy.states.snapshot(object)
      note_tables(object, is[object], held, owners, shared)
    end
  end
  for object in next, shared do
    all_is[#all + 1] = is[object] or false -- a new one differs
    all[#all + 1] = states[object]
  end
  local all_same = state.same(all, all_is, held)
  for i = #userdata, 1, -1 do -- a state may contain userdata
    local object = userdata[i]
    local wanted = states[object]
    if not stays[object] then
      ask("a userdata takes no such state", policy.states.restore, object,
        wanted)
    elseif shared[object] and not all_same or
      not shared[object] and not state.same(wanted, is[object], held) then
      writes[#writes + 1] =
        { object = object, key = "restore", new = wanted, kind = "call" }
    end
  end
end

-- Returns a function that tells whether a field is part of the state.
local function state_rule(root, classes)
  return function(object, key, value)
    if type(value) ~= "table" or named.name(value) then return true end
    if classes[value] or private.is_class(value) then return false end
    return private.enters(root, object, key, value)
  end
end

--- Gives tables their marks.  These are no writes, so a rollback is told of
-- those of live tables.
function snapshot.mark_all(marks, stays)
  for i = 1, #marks, 2 do
    local object, was = marks[i], json.mark(marks[i])
    if stays[object] then
      private.on_rollback(function() json.set_mark(object, was) end)
    end
    private.set_mark(object, marks[i + 1])
  end
end

local INTO = { into = "table" }

local SECOND = "table expected, got number: mw.snapshot returns two values; " ..
  "write mw.restore((mw.snapshot(root)))"

--- Returns the state of a snapshot: as new objects, or with `into` in a live
-- root.  Returns nil and a message if the bytes are no good.
function snapshot.restore(bytes, opts)
  check.argument(type(bytes) == "string", 1, "restore", "string", bytes)
  check.that(type(opts) ~= "number", 2, "restore", SECOND)
  opts = check.options(opts, INTO, 2, "restore", "option")
  policy.current()
  local ok, root, userdata, states, held, stays, differs, marks, classes =
    pcall(private.restore, bytes, snapshot.make, snapshot.class_of, opts.into,
      kind_of)
  if not ok then
    if type(root) ~= "table" then error(root, 0) end
    return nil, "bad snapshot: " .. root[1]
  end
  if not root then return nil, "the root is of another kind" end
  local writes = {}
  local fine, err = pcall(add_states, writes, userdata, states, held, stays)
  if not fine then
    if getmetatable(err) ~= Refusal then error(err, 0) end
    return nil, "bad snapshot: " .. err[1]
  end
  if not opts.into then
    snapshot.mark_all(marks, stays)
    return root
  end
  add_changes(writes, differs, state_rule(root, classes))
  if not writes[1] and not marks[1] then return root end
  local fx, problem = recorded.write(function()
    snapshot.mark_all(marks, stays)
    return writes
  end, true)
  if not fx then return nil, problem end
  recorded.raise(problem)
  return root
end

return snapshot

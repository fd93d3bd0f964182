--- Recorded effects: writes as a value that can be undone and done again.
-- SPDX-License-Identifier: MIT
--
-- The core makes and holds effects, which never change.  The functions here are
-- their methods, and what other modules need of them.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local name_of = require "moonwatch.effects.name_of"
local reads = require "moonwatch.effects.reads"
local same = require "moonwatch.same"
local state = require "moonwatch.effects.state"
local transaction = require "moonwatch.transaction"

local private = core.private
local get, make = private.entry, private.effects

local recorded = {}

--- Raises unless `self` is effects; called by the method `name`.
function recorded.check(self, name)
  check.self(private.is_effects(self), name, "effects", self)
end

local its_own = recorded.check

local function check_other(other, name)
  if not private.is_effects(other) then
    error(("bad argument #1 to '%s' (effects expected, got %s)"):format(name,
      type(other)), 3)
  end
end

-- {======================================================
-- Entries
-- =======================================================

local function entry_at(self, i)
  local object, key, old, new, kind, where = get(self, i)
  if not kind then return nil end
  return {
    object = object, key = key, old = old, new = new, kind = kind,
    where = where,
  }
end

-- Returns entry -> the number of the write that has undone the entry, which is
-- the cause of the write that does it again.
local function causes_of(self, list)
  local causes, n = {}, 0
  for i = 1, #self do
    local object, _, _, _, _, _, cause = get(self, i)
    if object ~= nil then
      n = n + 1
      if cause then causes[list[n]] = cause end
    end
  end
  return causes
end

--- Returns an array of the entries whose objects are alive.
function recorded.list(self)
  local list = {}
  for i = 1, #self do
    local entry = entry_at(self, i)
    if entry.object ~= nil then list[#list + 1] = entry end
  end
  return list
end

--- Returns an iterator of all entries, in the order of the program.  The
-- `object` of an entry is nil if the object has died.
function recorded:entries()
  its_own(self, "entries")
  local i = 0
  return function()
    i = i + 1
    return entry_at(self, i)
  end
end

--- Returns the objects that were written, in the order of their first writes.
function recorded:objects()
  its_own(self, "objects")
  local objects, seen = {}, {}
  for _, entry in ipairs(recorded.list(self)) do
    local object = entry.object
    if not seen[object] then objects[#objects + 1] = object end
    seen[object] = true
  end
  return objects
end

--- Returns the reads of the transaction as an array of { object = obj, key =
-- key }; a read of a whole object has no key.  Returns nil if the transaction
-- did not ask for reads.
function recorded:reads()
  its_own(self, "reads")
  local its = transaction.reads[self]
  return its and reads.list(its)
end

-- }======================================================

-- {======================================================
-- Algebra
-- =======================================================

local INVERSE = { insert = "delete", delete = "insert" }

--- Returns effects that undo these.
function recorded:invert()
  its_own(self, "invert")
  local list = recorded.list(self)
  local inverse = {}
  for i = #list, 1, -1 do
    local e = list[i]
    inverse[#inverse + 1] = {
      object = e.object, key = e.key, old = e.new, new = e.old,
      kind = INVERSE[e.kind] or e.kind, where = e.where,
    }
  end
  return make(inverse, self)
end

--- Returns these effects followed by the others.
function recorded:concat(other)
  its_own(self, "concat")
  check_other(other, "concat")
  local list = recorded.list(self)
  for _, e in ipairs(recorded.list(other)) do list[#list + 1] = e end
  return make(list, other, self)
end

-- Returns the kind of an entry.  A raw write, whose kind does not say what it
-- changed, was to a table.
local function kind_of(e)
  if e.kind ~= "raw" then return e.kind end
  return e.old == nil and "insert" or e.new == nil and "delete" or "update"
end

-- Returns the kind of the net change of a field; nil if the field is as it was.
local function net_kind(e)
  local was, is = e.first ~= "insert", e.kind ~= "delete"
  if was == is and (not is or state.same_value(e, e.old, e.new)) then
    return nil
  end
  if e.kind == "metatable" or e.kind == "call" then return e.kind end
  return was and (is and "update" or "delete") or "insert"
end

local STATE = name_of(nil, "call")

-- Merges an entry into the net change of its field, in `list` and by name in
-- `fields`.  A field that is set again after a delete comes last.  Fields of a
-- userdata may be part of its state, so they are not merged across a call.
local function merge(list, fields, e)
  e.kind = kind_of(e)
  local of_object, name = fields[e.object] or {}, name_of(e.key, e.kind)
  if (of_object[STATE] ~= nil) ~= (name == STATE) then of_object = {} end
  local former = of_object[name]
  fields[e.object], of_object[name] = of_object, former or e
  if not former then
    e.first = e.kind
  elseif former.kind == "delete" then
    former.gone = true
    e.first, e.old = former.first, former.old
    of_object[name] = e
  else
    former.new, former.kind, former.where = e.new, e.kind, e.where
    return
  end
  list[#list + 1] = e
end

--- Returns the same change with at most one entry for each field.
function recorded:squash()
  its_own(self, "squash")
  local list, fields, squashed = {}, {}, {}
  for _, e in ipairs(recorded.list(self)) do merge(list, fields, e) end
  for _, e in ipairs(list) do
    e.kind = net_kind(e)
    if e.kind and not e.gone then squashed[#squashed + 1] = e end
  end
  return make(squashed, self)
end

-- Returns the last entry of each field, by object and name, and the first
-- entries in order.
local function outcome(self)
  local fields, order = {}, {}
  for _, e in ipairs(recorded.list(self)) do
    fields[e.object] = fields[e.object] or {}
    local name = name_of(e.key, e.kind)
    if not fields[e.object][name] then order[#order + 1] = e end
    fields[e.object][name] = e
  end
  return fields, order
end

local function at(fields, object, name)
  return fields[object] and fields[object][name]
end

local WHOLE = {} -- the key of a read of a whole object

local function fields_read(self)
  local fields = {}
  for _, read in ipairs(self:reads() or {}) do
    local its = fields[read.object] or {}
    fields[read.object] = its
    its[read.key == nil and WHOLE or name_of(read.key)] = true
  end
  return fields
end

-- Adds the fields that the reader has read and the other has written, in the
-- order of the writes.
local function add_reads(conflicts, reader, written, order)
  local fields = fields_read(reader)
  for _, e in ipairs(order) do
    local name = name_of(e.key, e.kind)
    if at(fields, e.object, name) or at(fields, e.object, WHOLE) then
      conflicts[#conflicts + 1] = {
        object = e.object, key = e.key, kind = "read",
        entry = written[e.object][name],
      }
    end
  end
end

--- Returns the conflicts of these effects with the others: an array of the
-- fields to which both gave different values, and of the fields that one has
-- written and the other has read, as far as the reads are known.
function recorded:conflicts(other)
  its_own(self, "conflicts")
  check_other(other, "conflicts")
  local mine, order = outcome(self)
  local theirs, their_order = outcome(other)
  local conflicts = {}
  for _, e in ipairs(order) do
    local name = name_of(e.key, e.kind)
    local a, b = mine[e.object][name], at(theirs, e.object, name)
    if b and not state.same_value(a, a.new, b.new) then
      conflicts[#conflicts + 1] = {
        object = e.object, key = e.key, kind = "write", entry = a, other = b,
      }
    end
  end
  add_reads(conflicts, self, theirs, their_order)
  add_reads(conflicts, other, mine, order)
  return conflicts
end

-- }======================================================

-- {======================================================
-- Undoing and applying
-- =======================================================

--- Raises the first error of a guard, which is in the table `problem`, or does
-- nothing for nil.  An error of a guard does not stop an operation, so it is
-- raised at the end.
function recorded.raise(problem)
  if problem then error(problem[1], 0) end
end

-- Returns what the checks want instead of the old values, the last write
-- first.
local function ask_undo(self)
  local instead = {}
  for i = #self, 1, -1 do
    local object, key, old, _, kind = private.entry(self, i)
    if object ~= nil then
      local call = kind == "call"
      kind = kind == "metatable" and kind or "rollback"
      local value = private.ask(object, key, old, kind, call)
      if not same(value, old) then
        instead[#instead + 1] = { object, key, value, call }
      end
    end
  end
  return instead
end

local function undo(fx)
  local intact = private.intact(fx)
  local problem = private.undo(fx)
  if intact then private.see(fx) end
  return problem
end

-- Returns the value that a field has now, as it is stored.
local function actual(e)
  local object = e.object
  if e.kind == "metatable" then return private.metatable(object) end
  if e.kind == "call" then return private.state(object) end
  if private.is_cell(object) then
    local _, value = private.cell_value(object)
    return value
  end
  if type(object) == "table" then return rawget(private.raw(object), e.key) end
  return object[e.key]
end

-- The set of the effects that `rollback` has taken back.  All copies of this
-- file share the set.
private.taken_back = private.taken_back or setmetatable({}, { __mode = "k" })
local taken_back = private.taken_back

-- Puts effects into the set, or takes them out, until the transaction around
-- is taken back.
local function mark(fx, is)
  local was = taken_back[fx]
  if was == is then return end
  private.on_rollback(function() taken_back[fx] = was end)
  taken_back[fx] = is
end

local function take_back(fx)
  local problem = undo(fx)
  mark(fx, true)
  return problem
end

-- Returns what the field of an entry holds when the entries before have been
-- written: a list of one value, which the next entry of the field gets too.  A
-- field of a userdata may be part of the state that a mutator changes.  So a
-- field that was written before a call, or after one, holds what the entry
-- says, unless an entry before found something else.
local function held(objects, e, from)
  local is_call, name = e.kind == "call", name_of(e.key, e.kind)
  local its = objects[e.object]
  if not its or its.is_call ~= is_call then
    its = {
      is_call = is_call, values = {}, differs = its and its.differs,
      is_expected = its and not its.differs,
    }
    objects[e.object] = its
  end
  local value = its.values[name]
  if not value then
    value = { its.is_expected and e[from] }
    if not its.is_expected then value[1] = actual(e) end
    its.values[name] = value
  end
  return value, its
end

-- Do all fields hold the values from before the effects?
local function is_done(self)
  local objects = {}
  for _, e in ipairs(recorded.list(self)) do
    local value = held(objects, e, "old")
    if not value.is_seen and not state.same_value(e, value[1], e.old) then
      return false
    end
    value.is_seen = true
  end
  return true
end

--- Gives all fields the values from before the effects.  Returns the effects.
-- A second time, there must be a field that holds something else.
function recorded:rollback(...)
  its_own(self, "rollback")
  check.nothing("rollback", ...)
  if taken_back[self] and is_done(self) then
    error("calling 'rollback' on effects that are taken back already", 2)
  end
  local problem = transaction.attempt(take_back, self)
  if problem ~= nil then error(problem, 0) end
  return self
end

local function copy(entry)
  local its = {}
  for name, value in pairs(entry) do its[name] = value end
  return its
end

-- Returns the entries to write, of which each field holds the value at `from`
-- ("old" or "new") and gets the other; or nil and the entry that conflicts.
-- The program is at `level`.
local function choose(list, on_conflict, from, level)
  local chosen, objects, to = {}, {}, from == "old" and "new" or "old"
  for _, e in ipairs(list) do
    local value, its = held(objects, e, from)
    local decision = "overwrite"
    if not state.same_value(e, value[1], e[from]) then
      its.differs = true
      decision = on_conflict and on_conflict(copy(e), value[1]) or "abort"
    end
    if decision == "abort" then return nil, e end
    if decision == "overwrite" then
      chosen[#chosen + 1] = e
      value[1] = e[to]
    elseif decision ~= "skip" then
      error(("on_conflict returned '%s', neither 'skip', 'overwrite' nor " ..
        "'abort'"):format(tostring(decision)), level)
    end
  end
  return chosen
end

local function conflict(e)
  return nil, ("%s has changed meanwhile"):format(
    e.kind == "metatable" and "the class" or
    ("field '%s'"):format(tostring(e.key))), e
end

local function reversed(list)
  local n, back = #list, {}
  for i, e in ipairs(list) do back[n + 1 - i] = e end
  return back
end

-- A class may store another value than it is given.  Only tracked objects note
-- the values that their classes store.
local function tell_all(list, told)
  for _, e in ipairs(list) do
    local mt = private.metatable(e.object)
    if type(e.object) == "table" and type(mt) == "table" and
      rawget(private.raw(mt), "__newindex") ~= nil and
      not private.intercepts(e.object) then
      told[#told + 1] = e.object
      core.track(e.object)
    end
  end
end

local function set_class(e)
  if private.intercepts(e.object) then
    private.set_class(e.object, e.new)
  else
    private.note(e.object, nil, private.metatable(e.object), e.new)
    setmetatable(e.object, e.new)
  end
end

-- Tells whether the class of a table decides about a write to the field.
local function has_say(e)
  local mt = type(e.object) == "table" and private.metatable(e.object)
  return mt and type(rawget(private.raw(mt), "__newindex")) == "function" and
    e.new ~= nil and rawget(private.raw(e.object), e.key) == nil
end

local DIVERTED = {}

local function by_class(e, progress)
  local failed, err = private.assign(e.object, e.key, e.new)
  if failed then progress.problem = progress.problem or { err } end
  if not same(rawget(private.raw(e.object), e.key), e.new) then
    error(DIVERTED, 0)
  end
end

-- Stores the value of an entry once more, unless the class refuses the value.
local function store(e, progress)
  if has_say(e) then
    if not private.intercepts(e.object) then
      progress.told[#progress.told + 1] = e.object
      core.track(e.object)
    end
    local ok, err = transaction.run(nil, nil, nil, by_class, e, progress)
    if ok then return end
    if err ~= DIVERTED then error(err, 0) end
  end
  return private.assign(e.object, e.key, e.new, true, e.kind == "call")
end

-- Asks the checks about all entries before the first is written.  Returns the
-- entries with the values that the checks want.
local function ask_all(list, progress)
  local asked = list
  for i, e in ipairs(list) do
    progress.at = e
    local kind = e.kind == "metatable" and e.kind or "apply"
    local value = private.ask(e.object, e.key, e.new, kind, e.kind == "call")
    if not same(value, e.new) then
      if asked == list then asked = table.move(list, 1, #list, 1, {}) end
      asked[i] = copy(e)
      asked[i].new = value
    end
  end
  return asked
end

local function write_one(e, progress)
  if e.kind == "metatable" then return set_class(e) end
  local failed, err
  if progress.stored then
    failed, err = store(e, progress)
  else
    failed, err = private.assign(e.object, e.key, e.new, false,
      e.kind == "call")
  end
  if failed then progress.problem = progress.problem or { err } end
end

-- Writes the entries that `prepare` returns.  Sets `at` of `progress` to the
-- entry under way, and `problem` to the first error of a guard.
local function write(prepare, progress)
  private.on_end(function()
    for _, object in ipairs(progress.told) do private.end_track(object) end
  end)
  local list = ask_all(prepare(), progress)
  if not progress.stored then tell_all(list, progress.told) end
  for i, e in ipairs(list) do
    progress.at = e
    local cause = progress.causes[i]
    if cause then
      private.memo.because(cause, write_one, e, progress)
    else
      write_one(e, progress)
    end
  end
end

--- Writes all entries in the list that `prepare()` returns, or nothing.
-- Returns the effects of the writes, and the first error of a guard in a table;
-- or nil, a message and the entry that failed.  With `stored`, tables get the
-- values of the entries, whatever their classes would store.  `done(a, b)` is
-- called while the writes can still be taken back.  `causes[i]` is the number
-- of the write that is the cause of the i-th, if that is known.
function recorded.write(prepare, stored, done, a, b, causes)
  local progress = { told = {}, stored = stored, causes = causes or {} }
  local ok, fx = transaction.run(done, a, b, write, prepare, progress)
  if not ok then return nil, tostring(fx), progress.at end
  return fx, progress.problem
end

local function redo(self, on_conflict, level, done, a, b)
  local all = recorded.list(self)
  local list, e = choose(all, on_conflict, "old", level)
  if not list then return conflict(e) end
  local causes, of = {}, causes_of(self, all)
  if next(of) then
    for i, its in ipairs(list) do causes[i] = of[its] end
  end
  return recorded.write(function()
    mark(self, nil)
    return list
  end, true, done, a, b, causes)
end

-- Gives the fields their old values.  Returns the first error of a guard in a
-- table, or nil.
local function go_back(fx)
  local intact = private.intact(fx)
  local instead = ask_undo(fx)
  local problem = private.undo(fx)
  problem = problem ~= nil and { problem } or nil
  for _, its in ipairs(instead) do
    local failed, err = private.assign(its[1], its[2], its[3], true, its[4])
    if failed then problem = problem or { err } end
  end
  if intact then private.see(fx) end
  return problem
end

local function undo_chosen(self, on_conflict, level, done, a, b)
  local list = reversed(recorded.list(self))
  local chosen, e = choose(list, on_conflict, "new", level)
  if not chosen then return conflict(e) end
  local fx = #chosen == #self and self or make(reversed(chosen))
  local ok, effects, problem = transaction.run(done, a, b, go_back, fx)
  if not ok then return nil, tostring(effects) end
  return effects, problem
end

--- Undoes the effects (`by` is -1) or writes them again (1), if the objects
-- hold what they held then; else `on_conflict` decides.  Returns what `write`
-- returns.
function recorded.travel(self, by, on_conflict, done, a, b)
  return (by < 0 and undo_chosen or redo)(self, on_conflict, 5, done, a, b)
end

local OPTIONS = { on_conflict = "function" }

--- Writes all entries again if each object holds the values from before the
-- effects.  Returns the effects of the writes; or nil, a message and the entry
-- in question, and nothing has changed.
function recorded:apply(opts)
  its_own(self, "apply")
  opts = check.options(opts, OPTIONS, 1, "apply")
  local fx, problem, e = redo(self, opts.on_conflict, 4)
  if not fx then return nil, problem, e end
  recorded.raise(problem)
  return fx
end

-- }======================================================

return recorded

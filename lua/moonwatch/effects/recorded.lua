--- Recorded effects: writes as a value that can be undone and done again.
-- SPDX-License-Identifier: MIT
--
-- The core makes and holds effects, which never change.  The functions here are
-- their methods, and what other modules need of them.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local fold = require "moonwatch.effects.fold"
local state = require "moonwatch.effects.state"
local transaction = require "moonwatch.transaction"

local private = core.private
local get = private.entry
local entry_at, name_of = fold.entry, fold.name_of

local recorded = {}

-- Squashed effects have the writes to a table that was put somewhere and taken
-- out again, but not the writes that put it there.  So, if they have written
-- what nobody tracks any more, they know the links of the effects that they
-- were made of: effects -> array of links; and links are the id of an object ->
-- array of the ids below, which keep nothing alive.  All copies of this file
-- share the table.
private.passing = private.passing or setmetatable({}, { __mode = "k" })
local formers = private.passing

-- Links an id to those of the tables in a table.  Returns the ids below.
local function link(links, id, values)
  local its = links[id] or {}
  links[id] = its
  for _, value in next, values do
    if type(value) == "table" then its[#its + 1] = core.id(value) end
  end
  return its
end

--- Returns links: the objects that the effects wrote, to the tables that they
-- put into each or took out of it.
function recorded.links(fx)
  local links = {}
  for i = 1, #fx do
    local object, _, old, new, kind = get(fx, i)
    local values = kind ~= "metatable" and { old, new } or {}
    if object ~= nil then link(links, core.id(object), values) end
  end
  for _, its in ipairs(formers[fx] or {}) do
    for id, list in next, its do
      local all = links[id] or {}
      links[id] = table.move(list, 1, #list, #all + 1, all)
    end
  end
  return links
end

-- Adds what is in the tables that nobody tracks any more.  Returns the links.
local function with_contents(links)
  local queue, seen = {}, {}
  for _, its in next, links do table.move(its, 1, #its, #queue + 1, queue) end
  for _, id in ipairs(queue) do -- which grows
    local object = core.object(id)
    if object and not seen[id] and not private.intercepts(object) then
      local its = link(links, id, private.raw(object))
      table.move(its, 1, #its, #queue + 1, queue)
    end
    seen[id] = true
  end
  return links
end

--- Effects know what the ones know that they are made of.  Returns the effects.
function recorded.inherit(fx, ...)
  for _, other in ipairs { ... } do
    local its = formers[other]
    if its then
      local all = formers[fx] or {}
      formers[fx] = table.move(its, 1, #its, #all + 1, all)
    end
  end
  return fx
end

-- Returns effects with the entries in a list, made of former ones.
local function make(list, ...)
  return recorded.inherit(private.effects(list, ...), ...)
end

--- Raises unless `self` is effects; called by the method `name`.
function recorded.check(self, name)
  check.self(private.is_effects(self), name, "effects", self)
end

local its_own = recorded.check

local function check_other(other, name)
  check.argument(private.is_effects(other), 1, name, "effects", other, 1)
end

-- {======================================================
-- Entries
-- =======================================================

--- Returns an array of the entries whose objects are alive.
recorded.list = fold.list

--- Returns an iterator of all entries, in the order of the program.
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
  return transaction.reads(self)
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
  return make(inverse, self, nil, true)
end

--- Returns these effects followed by the others.
function recorded:concat(other)
  its_own(self, "concat")
  check_other(other, "concat")
  local list = recorded.list(self)
  for _, e in ipairs(recorded.list(other)) do list[#list + 1] = e end
  return make(list, other, self)
end

--- Returns the same change with at most one entry for each field.
function recorded:squash()
  its_own(self, "squash")
  local list = fold.entries(fold.add(fold.new(), self))
  local fx = make(list, self)
  for _, e in ipairs(list) do
    if type(e.object) == "table" and not private.intercepts(e.object) then
      formers[fx] = { with_contents(recorded.links(self)) }
      break
    end
  end
  return fx
end

local WHOLE = {} -- the key of a read of a whole object

-- Adds the fields that the reader has read and the other has written, in the
-- order of the writes.
local function add_reads(conflicts, reader, written)
  local read = {}
  for _, its in ipairs(reader:reads() or {}) do
    read[its.object] = read[its.object] or {}
    read[its.object][its.key == nil and WHOLE or name_of(its.key)] = true
  end
  for _, field in ipairs(written.list) do
    local e = field.first
    local its = read[e.object]
    if its and (its[name_of(e.key, e.kind)] or its[WHOLE]) then
      conflicts[#conflicts + 1] = { object = e.object, key = e.key,
        kind = "read", entry = field.last }
    end
  end
end

--- Returns the conflicts of these effects with the others: an array of the
-- fields to which both gave different values, and of the fields that one has
-- written and the other has read, as far as the reads are known.
function recorded:conflicts(other)
  its_own(self, "conflicts")
  check_other(other, "conflicts")
  local mine = fold.add(fold.new(), self)
  local theirs = fold.add(fold.new(), other)
  local conflicts = {}
  for _, field in ipairs(mine.list) do
    local a, fields = field.last, theirs.fields[field.last.object]
    local b = fields and fields[name_of(a.key, a.kind)]
    if b and not state.same_value(a, a.new, b.last.new) then
      conflicts[#conflicts + 1] = { object = a.object, key = a.key,
        kind = "write", entry = a, other = b.last }
    end
  end
  add_reads(conflicts, self, theirs)
  add_reads(conflicts, other, mine)
  return conflicts
end

-- }======================================================

-- {======================================================
-- Undoing and applying
-- =======================================================

-- The core looks at the fields, asks the checks, and stores: see apply.c.

--- Raises the first error of a guard, which is in the table `problem`, or does
-- nothing for nil.  An error of a guard does not stop an operation, so it is
-- raised at the end.
function recorded.raise(problem)
  if problem then error(problem[1], 0) end
end

--- Gives all fields the values from before the effects.  Returns the effects.
function recorded:rollback(...)
  its_own(self, "rollback")
  check.nothing("rollback", ...)
  local ok, err, problem = private.run(nil, nil, true, private.store, self)
  if not ok then error(err, 0) end
  recorded.raise(problem)
  return self
end

local DECISIONS = { abort = true, overwrite = true, skip = true }

-- Returns the number of the first entry for which a position of a list came or
-- went.
local function entry_of_list(self, known)
  for i = 1, #self do
    local object, key, old, new = get(self, i)
    if object == known.object and math.type(key) == "integer" and
      (old == nil) ~= (new == nil) then
      return i
    end
  end
end

-- Decides about the fields that hold something else, and about a list that is
-- another one (see lists.lua).  Returns a message and the entry in question, or
-- nil and what the core writes instead of the entries.  The program is at
-- `level`.
local function choose(self, by, on_conflict, list, level)
  local numbers, values = private.changed(self, state.same, by < 0)
  if not numbers and not list then return nil end
  local instead = {}
  -- Asks about the entry number `i`; skips those of its object for which
  -- `is_its(name)`.
  local function aborts(i, actual, is_its)
    local e = entry_at(self, i)
    local object, decision = e.object, "abort"
    if on_conflict then decision = on_conflict(e, actual) or decision end
    if not DECISIONS[decision] then
      error(("on_conflict returned '%s', neither 'skip', 'overwrite' nor " ..
        "'abort'"):format(tostring(decision)), level + 1)
    end
    for n = 1, decision == "skip" and #self or 0 do
      local its, key, _, _, kind = get(self, n)
      if its == object and is_its(name_of(key, kind)) then
        instead[n] = false
      end
    end
    return decision == "abort"
  end
  for _, i in ipairs(numbers or {}) do
    local _, key, _, _, kind = get(self, i)
    local name = name_of(key, kind)
    local function is_its(other) return other == name end
    if instead[i] == nil and aborts(i, values[i], is_its) then
      local what = kind == "metatable" and "the class" or
        ("field '%s'"):format(tostring(key))
      return what .. " has changed meanwhile", entry_at(self, i)
    end
  end
  if not list then return nil, instead end
  local i = entry_of_list(self, list)
  local object, key = get(self, i)
  local function is_position(name) return math.type(name) == "integer" end
  if aborts(i, rawget(private.raw(object), key), is_position) then
    return ("the list has changed meanwhile, at or behind its position %d")
      :format(list.first), entry_at(self, i)
  end
  return nil, instead
end

--- Undoes the effects (`by` is -1) or writes them again (1), if the objects
-- hold what they held then, and no `list` is given that is another one (see
-- lists.lua); else `on_conflict` decides.  Returns the effects of the writes,
-- and the first error of a guard in a table; or nil, a message and the entry in
-- question.  The program is at `level`; mark and label are the transaction's,
-- and `bare` asks for true instead of effects.
function recorded.travel(self, by, on_conflict, level, bare, mark_of, label,
  list)
  local message, its = choose(self, by, on_conflict, list, level + 1)
  if message then return nil, message, its end
  local progress = {}
  local ok, fx, problem = private.run(mark_of, label, bare,
    private.store, self, by, its, progress)
  if ok then return fx, problem end
  return nil, tostring(fx), progress.at and entry_at(self, progress.at)
end

local OPTIONS = { on_conflict = "function" }

--- Writes all entries again if each object holds the values from before the
-- effects.  Returns the effects of the writes; or nil, a message and the entry
-- in question, and nothing has changed.
function recorded:apply(opts)
  its_own(self, "apply")
  opts = check.options(opts, OPTIONS, 1, "apply")
  local fx, problem, e = recorded.travel(self, 1, opts.on_conflict, 3,
    false)
  if not fx then return nil, problem, e end
  recorded.raise(problem)
  return fx
end

-- A class may store another value than it is given.  Only tracked objects note
-- the values that their classes store.  Returns the objects that are tracked
-- for that.
local function track_some(list)
  local tracked = {}
  for _, e in ipairs(list) do
    local mt = private.metatable(e.object)
    if type(e.object) == "table" and type(mt) == "table" and
      rawget(private.raw(mt), "__newindex") ~= nil and
      not private.intercepts(e.object) then
      tracked[#tracked + 1] = e.object
      core.track(e.object)
    end
  end
  return tracked
end

-- Writes the entries that `prepare` returns.  Sets `list` of `progress` to
-- them, and `at` to the number of the entry that fails.
local function write(prepare, stored, progress)
  progress.list = prepare()
  if not stored then progress.tracked = track_some(progress.list) end
  return private.store(private.effects(progress.list), stored and 1 or 0, nil,
    progress)
end

--- Writes all entries in the list that `prepare()` returns, or nothing.
-- Returns the effects of the writes, and the first error of a guard in a table;
-- or nil, a message and the entry that failed.  With `stored`, tables get the
-- values of the entries, whatever their classes would store.
function recorded.write(prepare, stored)
  local progress = { tracked = {} }
  local ok, fx, problem = private.run(nil, nil, false, write, prepare,
    stored, progress)
  for _, object in ipairs(progress.tracked) do private.end_track(object) end
  if ok then return fx, problem end
  return nil, tostring(fx), progress.at and progress.list[progress.at]
end

-- }======================================================

return recorded

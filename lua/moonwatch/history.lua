--- mw.history: steps that can be undone and done again.
-- SPDX-License-Identifier: MIT
--
--     steps    step  step  step  step
--               ^           ^     ^
--             first         at   last
--
-- The steps from `first` to `at` are done, those up to `last` are undone.  Of a
-- step there are
--
--     label
--     fx      its effects; of a stroke, those of its first run
--     runs    of a stroke, the effects of its runs, which are merged
--     fold    what the runs do together, as far as somebody has asked
--     lists   the lists whose length it has changed: see lists.lua
--     id      of the state after it
--     time    of its last run
--
-- An id is given once: `last_id` is the last one.  `base` is the id of the
-- state before all steps.  `saved` is the id of the state that the program has
-- saved; if that cannot come back, it is false, or the id of no step.  If the
-- history is `sealed`, the next run is a step of its own; if not, no step is
-- undone.
--
-- A run is a transaction that is marked with the history.  What changes the
-- history is a *deed*, a function of the state.  A deed in a transaction has a
-- note of what it changes, and so have the deeds after it.  When that
-- transaction is taken back, the deed and those after it are reverted, the last
-- one first, and then those after it are done again: the history is as without
-- it.  Each note has the `next` one, and the transaction has its own; so they
-- go with the transaction.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local fold = require "moonwatch.effects.fold"
local lists = require "moonwatch.effects.lists"
local recorded = require "moonwatch.effects.recorded"

local private = core.private
local run, is_in_run = private.run, private.is_in_run
local on_rollback, in_transaction = private.on_rollback, private.in_transaction
local now = private.now

local History, state_of, new = check.class "history"

-- {======================================================
-- Deeds that can be reverted
-- =======================================================

local SCALARS = { "first", "at", "last", "base", "sealed" }

-- Changes a field; the numbers of the history are in each note anyway.
local function change(self, t, key, value)
  local note = self.note
  if note then note[#note + 1] = { t, key, t[key], value } end
  t[key] = value
end

local function perform(self, note)
  for _, name in ipairs(SCALARS) do note[name] = self[name] end
  self.note = note
  note.deed(self, table.unpack(note.arguments))
  self.note = nil
end

local function revert(self, note)
  for i = #note, 1, -1 do
    local t, key, old, new_value = table.unpack(note[i], 1, 4)
    if t[key] == new_value then t[key] = old end -- not what was saved since
    note[i] = nil
  end
  for _, name in ipairs(SCALARS) do self[name] = note[name] end
end

-- The last note is a weak key: a weak value is gone before the finaliser of a
-- lost transaction takes its deeds back.
local function set_last_note(self, note)
  local former = next(self.notes)
  if former then self.notes[former] = nil end
  self.notes[note] = true
end

-- Reverts the deed of a note, and does those after it again.
local function withdraw(self, note)
  local list, last = {}, note
  local later = note
  while later do
    if later.deed then list[#list + 1] = later end
    later = later.next
  end
  for i = #list, 1, -1 do revert(self, list[i]) end
  note.deed, note.next = nil, nil
  for i = 2, #list do
    -- the states after these are not those that there were
    if list[i - 1].was_saved or list[i].was_saved then self.saved = false end
    perform(self, list[i])
    last.next, last = list[i], list[i]
  end
  set_last_note(self, last)
end

-- What the collector finds in the midst of a deed waits for its end.
local function withdraw_waiting(self)
  while self.waiting and not self.busy do
    local note = self.waiting[1]
    self.waiting, self.busy = self.waiting[2], true
    withdraw(self, note)
    self.busy = false
  end
end

-- The transaction of a deed is taken back.
local function take_back(self, note)
  self.waiting = { note, self.waiting }
  withdraw_waiting(self)
end

-- Does a deed.
local function act(self, deed, ...)
  self.busy = true
  local nested = in_transaction()
  if nested or next(self.notes) then
    local note = { deed = deed, arguments = { ... } }
    if nested then on_rollback(function() take_back(self, note) end) end
    local last = next(self.notes)
    if last then last.next = note end
    set_last_note(self, note)
    perform(self, note)
  else
    deed(self, ...)
  end
  self.busy = false
  withdraw_waiting(self)
end

-- }======================================================

-- {======================================================
-- Steps
-- =======================================================

-- Returns the id of the state after the step `at`.
local function id_at(self, at)
  return at < self.first and self.base or self.steps[at].id
end

-- Returns what the runs of a stroke do together.  It is right as far as it has
-- the first runs.
local function fold_of(step)
  local runs, known = step.runs, step.fold
  step.fold = nil
  if not known or runs[known.runs] ~= known.run then
    known = fold.new()
    known.runs = 0
  end
  for i = known.runs + 1, #runs do
    fold.add(known, runs[i])
    known.effects = nil
  end
  known.runs, known.run, step.fold = #runs, runs[#runs], known
  return known
end

-- Returns the effects of a step.
local function effects_of(step)
  if not step.runs then return step.fx end
  local its = fold_of(step)
  its.effects = its.effects or private.effects(fold.entries(its))
  return its.effects
end

-- Forgets the steps after `i`.
local function cut(self, i)
  for k = self.last, i + 1, -1 do change(self, self.steps, k, nil) end
  self.last = i
end

-- A deed: a step is done.
local function put(self, step)
  local at, first = self.at + 1, self.first
  cut(self, at - 1)
  change(self, self.steps, at, step)
  self.at, self.last, self.sealed = at, at, false
  if at - first >= self.limit then
    self.base = self.steps[first].id
    change(self, self.steps, first, nil)
    self.first = first + 1
  end
end

-- Does a run with this label, whose runs are merged, become one step with the
-- step `at`, before it?
local function merges(self, label, at, time)
  local step = self.steps[at]
  return at >= self.first and step.label == label and self.saved ~= step.id and
    (not self.merge_window or time - step.time <= self.merge_window)
end

-- Takes the stroke, which is the last step, out if it does nothing.  The state
-- after it is that before.
local function drop_empty(self)
  local step = self.steps[self.at]
  if fold_of(step).changed > 0 then return end
  cut(self, self.at - 1)
  self.at, self.sealed = self.last, true
  if self.saved == step.id then
    change(self, self, "saved", id_at(self, self.at))
  end
end

-- A deed: a run becomes a step, or part of the last one.  A stroke that does
-- nothing is no step.
local function add(self, step)
  local last = self.steps[self.at]
  if self.sealed or not self.merging[step.label] or
    not merges(self, step.label, self.at, step.time) then
    return put(self, step)
  end
  if not last.runs then change(self, last, "runs", { last.fx }) end
  change(self, last.runs, #last.runs + 1, step.fx)
  change(self, last, "lists", lists.join(last.lists, step.lists))
  change(self, last, "time", step.time)
  drop_empty(self)
end

-- A deed: runs with this label are merged from now on, and `step` stands for
-- the last steps with the label.
local function join(self, label, step)
  local steps, at = self.steps, self.at
  local first, runs, joined = at, {}, nil
  change(self, self.merging, label, true)
  if at == self.last and at >= self.first and steps[at].label == label then
    while merges(self, label, first - 1, steps[first].time) do
      first = first - 1
    end
  end
  if first == at then return end
  for i = first, at do
    local its = steps[i].runs or { steps[i].fx }
    table.move(its, 1, #its, #runs + 1, runs)
    joined = lists.join(joined, steps[i].lists)
  end
  step.id, step.time, step.label = steps[at].id, steps[at].time, label
  step.runs, step.lists = runs, joined
  cut(self, first)
  change(self, steps, first, step)
  self.at = first
  drop_empty(self)
end

-- A deed: a step was undone (`by` is -1) or done again (1), unless it went
-- while it was written.
local function go(self, step, by)
  local number = by < 0 and self.at or self.at + 1
  if self.steps[number] ~= step then return end
  self.sealed, self.at = true, self.at + by
end

-- A deed.
local function seal(self) self.sealed = true end

-- }======================================================

-- {======================================================
-- Runs
-- =======================================================

-- Makes a step of the effects of a run.  Returns whether it is one.
local function keep(self, label, fx)
  local changes, has_longer = private.changes(fx)
  if not changes or changes == "state" and
    fold.add(fold.new(), fx).changed == 0 then
    return false
  end
  self.last_id = self.last_id + 1
  act(self, add, {
    label = label, fx = fx, id = self.last_id,
    time = self.merge_window and now(), lists = has_longer and lists.of(fx),
  })
  return true
end

-- A run has returned.  If there is no memory for the step, there was no run.
local function finish(self, label, ok, fx, ...)
  if not ok then error(fx, 0) end
  local kept, is_step = pcall(keep, self, label, fx)
  if not kept then
    self.note, self.busy = nil, false
    private.take_back(fx)
    withdraw_waiting(self)
    error(is_step, 0)
  end
  if is_step and self.on_step then self.on_step(fx, label, "run") end
  return ...
end

-- Results of a run inside another run.
local function inner(ok, fx, ...)
  if not ok then error(fx, 0) end
  return ...
end

--- Calls `fn(...)` as a step and returns its results.  If the function raises,
-- all writes are taken back, and the error goes on.  A run that changes nothing
-- is no step; a run inside another run is part of the outer step.
function History:run(label, fn, ...)
  self = state_of(self, "run")
  check.argument(type(label) == "string", 1, "run", "string", label)
  check.argument(type(fn) == "function", 2, "run", "function", fn)
  if is_in_run(self) then return inner(run(nil, nil, false, fn, ...)) end
  return finish(self, label, run(self, label, false, fn, ...))
end

-- }======================================================

-- {======================================================
-- Undo and redo
-- =======================================================

-- Undoes (`by` is -1) or does again (1) the step `number`; called by the method
-- that the program calls.
local function travel(self, number, by)
  local step = self.steps[number]
  local list = step.lists and lists.find_changed(step.lists, by)
  local fx, problem, entry = recorded.travel(effects_of(step), by,
    self.on_conflict, 4, not self.on_step, self,
    step.label, list)
  if not fx then return nil, problem, entry end
  act(self, go, step, by)
  if step.lists then lists.note(step.lists, by) end
  if self.on_step then
    self.on_step(fx, step.label, by < 0 and "undo" or "redo")
  end
  recorded.raise(problem)
  return step.label
end

-- Returns the state of a history that has no run under way.
local function idle_state(history, name)
  local self = state_of(history, name, 1)
  if is_in_run(self) then
    error(("calling '%s' while a run is under way"):format(name), 3)
  end
  return self
end

--- Takes the last step back.  Returns its label; nil if there is no step; nil,
-- a message and the entry if the objects have changed meanwhile, or a check
-- refuses.
function History:undo(...)
  local its = idle_state(self, "undo")
  check.nothing("undo", ...)
  if its.at < its.first then return nil end
  local label, message, entry = travel(its, its.at, -1)
  return label, message, entry
end

--- Does the step again that was undone last.  Returns what `undo` returns.
function History:redo(...)
  local its = idle_state(self, "redo")
  check.nothing("redo", ...)
  if its.at >= its.last then return nil end
  local label, message, entry = travel(its, its.at + 1, 1)
  return label, message, entry
end

-- }======================================================

-- {======================================================
-- The state of a history
-- =======================================================

-- Returns the state of a history; lost transactions have been taken back.
local function reading_state(history, name)
  private.catch_up()
  local self = state_of(history, name, 1)
  return self
end

--- Tells whether there is a step to undo.
function History:can_undo()
  self = reading_state(self, "can_undo")
  return self.at >= self.first
end

--- Tells whether there is a step to do again.
function History:can_redo()
  self = reading_state(self, "can_redo")
  return self.at < self.last
end

--- Returns an array of the labels of the steps that are done.
function History:labels()
  self = reading_state(self, "labels")
  local labels = {}
  for i = self.first, self.at do labels[#labels + 1] = self.steps[i].label end
  return labels
end

--- The program has saved the present state.
function History:mark_saved()
  self = reading_state(self, "mark_saved")
  self.saved = id_at(self, self.at)
  local note = next(self.notes)
  if note then note.was_saved = true end
end

--- Tells whether the present state is the saved one.
function History:is_saved()
  self = reading_state(self, "is_saved")
  return self.saved == id_at(self, self.at)
end

--- Makes one step of successive runs with this label, from now on.  The last
-- steps with the label become one step as well, unless a step is undone.
function History:merge(label)
  self = state_of(self, "merge")
  check.argument(type(label) == "string", 1, "merge", "string", label)
  act(self, join, label, {})
end

--- Makes the next run a step of its own, though its label is merged.
function History:seal(...)
  self = state_of(self, "seal")
  check.nothing("seal", ...)
  act(self, seal)
end

-- }======================================================

local OPTIONS = {
  limit = "number", merge_window = "number", on_step = "function",
  on_conflict = "function",
}

--- Returns a history.  `limit` is the number of steps that the history keeps
-- (all); `merge_window` is the number of seconds after which runs are no longer
-- merged (never); `on_step(effects, label, direction)` is called after each
-- run, undo and redo; `on_conflict(entry, actual)` decides as for
-- `effects:apply`.
return function(opts)
  opts = check.options(opts, OPTIONS, 1, "history")
  check.that(not opts.limit or opts.limit >= 1, 1, "history",
    "option 'limit' is less than 1")
  return new {
    steps = {}, first = 1, at = 0, last = 0, sealed = false,
    base = 0, last_id = 0, saved = 0,
    note = nil, notes = setmetatable({}, { __mode = "k" }), merging = {},
    limit = opts.limit or math.huge, merge_window = opts.merge_window,
    on_step = opts.on_step, on_conflict = opts.on_conflict,
  }
end

--- mw.history: steps that can be undone and done again.
-- SPDX-License-Identifier: MIT
--
--     steps    step  step  step  step
--               ^           ^     ^
--             first         at   last
--
-- The steps from `first` to `at` are done, those up to `last` are undone.  A
-- step never becomes another one:
--
--     label
--     fx       its effects; of a stroke, those of its last run
--     runs, n  of a stroke, the effects of its runs, which are merged, and how
--              many there are; a longer stroke may have the same array
--     fold     what the runs do together, as far as somebody has asked
--     lists    the lists whose length it has changed: see lists.lua
--     id       of the state after it
--     time     of its last run
--
-- An id is given once: `last_id` is the last one.  `base` is the id of the
-- state before all steps.  `saved` is the id of the state that the program has
-- saved; if that cannot come back, it is false, or the id of no step.  If the
-- history is `sealed`, the next run is a step of its own; if not, no step is
-- undone.
--
-- All this is the *state* of the history, one table.  A run is a transaction
-- that is marked with the history.  What changes the state is a *deed*, and a
-- deed in a transaction is withdrawn if that is taken back, in any order.  So,
-- from the first such deed on, the history has the state before it, the
-- `origin`, and all `deeds` since: the state is what they make of the origin.
-- A withdrawn deed makes the state `stale`, and whoever wants it next makes it
-- anew.  So a deed may be withdrawn at any time, in the midst of another one.
--
-- `notes` has the functions that withdraw deeds, which belong to transactions.
-- When the last one has gone, the origin goes.  They are weak keys: a weak
-- value would be gone before the finaliser of a lost transaction calls it.
--
-- While a history is `busy` with a deed, a finaliser that finds it so reads the
-- last state, which changes where nothing is allocated, and can do no deed.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local fold = require "moonwatch.effects.fold"
local lists = require "moonwatch.effects.lists"
local recorded = require "moonwatch.effects.recorded"

local private = core.private
local run, is_in_run = private.run, private.is_in_run
local extras_of_caller, now = private.extras, private.now

local History, state_of, new = check.class "history"

-- {======================================================
-- Deeds
-- =======================================================

local function copy(t)
  local its = {}
  for key, value in next, t do its[key] = value end
  return its
end

-- Returns a copy of a state.
local function fork(state)
  local its = copy(state)
  its.steps, its.merging = copy(state.steps), copy(state.merging)
  return its
end

local Busy = { __close = function(self) self.busy = false end }

-- Makes the state of a history, which is busy, what its deeds make of it.
local function settle(self)
  while self.stale do
    local state = fork(self.origin)
    self.stale = false
    for _, its in ipairs(self.deeds) do
      if its.deed then its.deed(state, table.unpack(its, 1, 5)) end
    end
    self.state = state
  end
  if self.origin and next(self.notes) == nil then
    self.origin, self.deeds = nil, {}
  end
end

-- Returns the state of a history.
local function present(self)
  if self.origin and not self.busy then
    local _ <close> = self
    self.busy = true
    settle(self)
  end
  return self.state
end

-- A deed: the state with an id was saved.
local function save(state, id) state.saved = id end

-- The transaction of a deed is taken back.  Saved states with later ids are
-- other ones without the deed.
local function withdraw(self, its)
  for i = #self.deeds, 1, -1 do
    local later = self.deeds[i]
    if later == its then break end
    if later.deed == save and (later[1] or 0) > its.last_id then
      later[1] = false
    end
  end
  its.deed, self.stale = nil, true
end

-- Does a deed, in the transaction with these extras, if any.
local function act(self, extras, deed, ...)
  if self.busy then private.refuse() end
  local _ <close> = self
  self.busy = true
  settle(self)
  if extras and not self.origin then
    self.origin, self.state = self.state, fork(self.state)
  end
  if self.origin then
    local its = { deed = deed, last_id = self.last_id, ... }
    self.deeds[#self.deeds + 1] = its
    if extras then
      local function withdrawn() withdraw(self, its) end
      extras[#extras + 1], self.notes[withdrawn] = withdrawn, true
    end
  end
  deed(self.state, ...)
end

-- }======================================================

-- {======================================================
-- Steps
-- =======================================================

-- Returns the id of the state after the step `at`.
local function id_at(state, at)
  return at < state.first and state.base or state.steps[at].id
end

-- Returns what the runs of a stroke do together.
local function fold_of(step)
  local its = step.fold
  if not its or its.runs ~= step.runs or its.count > step.n then
    its = fold.new()
    its.runs, its.count = step.runs, 0
  end
  for i = its.count + 1, step.n do
    fold.add(its, step.runs[i])
    its.effects = nil
  end
  its.count, step.fold = step.n, its
  return its
end

-- Returns the effects of a step.
local function effects_of(step)
  if not step.runs then return step.fx end
  local its = fold_of(step)
  its.effects = its.effects or private.effects(fold.entries(its))
  return its.effects
end

-- Forgets the steps after `i`.
local function cut(state, i)
  for k = state.last, i + 1, -1 do state.steps[k] = nil end
  state.last = i
end

-- Puts a step behind those that are done.
local function put(state, step)
  local at, first = state.at + 1, state.first
  cut(state, at - 1)
  state.steps[at] = step
  state.at, state.last, state.sealed = at, at, false
  if at - first >= state.limit then
    state.base = state.steps[first].id
    state.steps[first], state.first = nil, first + 1
  end
end

-- Does a run with this label, whose runs are merged, become one step with the
-- step `at`, before it?
local function merges(state, label, at, time)
  local step = state.steps[at]
  return at >= state.first and step.label == label and
    state.saved ~= step.id and
    (not state.merge_window or time - step.time <= state.merge_window)
end

-- A stroke takes the place of the steps from `first` on; if it does nothing,
-- the state after it is that before.
local function put_stroke(state, first, step)
  local is_step = fold_of(step).changed > 0 -- without memory, nothing happens
  state.at = first - 1
  if is_step then return put(state, step) end
  cut(state, state.at)
  state.sealed = true
  if state.saved == step.id then state.saved = id_at(state, state.at) end
end

-- A deed: a run becomes a step, or part of the last one.
local function add(state, label, fx, id, time, its_lists)
  local step = { label = label, fx = fx, id = id, time = time,
    lists = its_lists }
  if state.sealed or not state.merging[label] or
    not merges(state, label, state.at, time) then
    return put(state, step)
  end
  local last = state.steps[state.at]
  local runs, n = last.runs or { last.fx }, last.n or 1
  if runs[n + 1] then runs = table.move(runs, 1, n, 1, {}) end
  runs[n + 1] = fx
  step.runs, step.n, step.fold = runs, n + 1, last.fold
  step.lists = lists.join(last.lists, its_lists)
  put_stroke(state, state.at, step)
end

-- A deed: runs with this label are merged from now on, and so are the last
-- steps with the label.
local function join(state, label)
  local steps, at, first = state.steps, state.at, state.at
  state.merging[label] = true
  if at == state.last and at >= state.first and steps[at].label == label then
    while merges(state, label, first - 1, steps[first].time) do
      first = first - 1
    end
  end
  if first == at then return end
  local runs, joined = {}, nil
  for i = first, at do
    local its = steps[i]
    table.move(its.runs or { its.fx }, 1, its.n or 1, #runs + 1, runs)
    joined = lists.join(joined, its.lists)
  end
  local last, sealed = steps[at], state.sealed
  put_stroke(state, first, { label = label, fx = last.fx, runs = runs,
    n = #runs, id = last.id, time = last.time, lists = joined })
  state.sealed = state.sealed or sealed
end

-- A deed: the step with an id was undone (`by` is -1) or done again (1), unless
-- it went while it was written.
local function go(state, id, by)
  local step = state.steps[by < 0 and state.at or state.at + 1]
  if not step or step.id ~= id then return end
  state.sealed, state.at = true, state.at + by
end

-- A deed.
local function seal(state) state.sealed = true end

-- }======================================================

-- {======================================================
-- Runs, undo and redo
-- =======================================================

-- Makes a step of the effects of a run.  Returns whether it is one.
local function keep(self, label, fx)
  local changes, has_longer = private.changes(fx)
  if not changes or changes == "state" and
    fold.add(fold.new(), fx).changed == 0 then
    return false
  end
  self.last_id = self.last_id + 1
  act(self, extras_of_caller(), add, label, fx, self.last_id,
    self.state.merge_window and now(), has_longer and lists.of(fx))
  return true
end

-- A run has returned, of the history `self`, or in another run of it (false).
-- If there is no memory for the step, there was no run.
local function finish(self, label, ok, fx, ...)
  if not ok then error(fx, 0) end
  if not self then return ... end
  local kept, is_step = pcall(keep, self, label, fx)
  if not kept then
    private.store(fx)
    error(is_step, 0)
  end
  if is_step and self.on_step then self.on_step(fx, label, "run") end
  return ...
end

--- Calls `fn(...)` as a step and returns its results.  If the function raises,
-- all writes are taken back, and the error goes on.  A run that changes nothing
-- is no step; a run inside another run is part of the outer step.
function History:run(label, fn, ...)
  self = state_of(self, "run")
  check.argument(type(label) == "string", 1, "run", "string", label)
  check.argument(type(fn) == "function", 2, "run", "function", fn)
  local outer = not is_in_run(self) and self
  return finish(outer, label, run(outer, label, not outer, fn, ...))
end

-- Undoes the last step (`by` is -1) or does the next one again (1); called by
-- the method that the program calls.
local function travel(self, by)
  local state = present(self)
  local number = by < 0 and state.at or state.at + 1
  if number < state.first or number > state.last then return nil end
  local step = state.steps[number]
  local list = step.lists and lists.find_changed(step.lists, by)
  local fx, problem, entry = recorded.travel(effects_of(step), by,
    self.on_conflict, 4, not self.on_step, self, step.label, list)
  if not fx then return nil, problem, entry end
  act(self, extras_of_caller(), go, step.id, by)
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
  if self.busy then private.refuse() end
  return self
end

--- Takes the last step back.  Returns its label; nil if there is no step; nil,
-- a message and the entry if the objects have changed meanwhile, or a check
-- refuses.
function History:undo(...)
  local its = idle_state(self, "undo")
  check.nothing("undo", ...)
  local label, message, entry = travel(its, -1)
  return label, message, entry
end

--- Does the step again that was undone last.  Returns what `undo` returns.
function History:redo(...)
  local its = idle_state(self, "redo")
  check.nothing("redo", ...)
  local label, message, entry = travel(its, 1)
  return label, message, entry
end

-- }======================================================

-- {======================================================
-- The state of a history
-- =======================================================

-- Returns the state of a history, and what the history is besides; lost
-- transactions have been taken back.
local function reading_state(history, name)
  private.catch_up()
  local self = state_of(history, name, 1)
  return present(self), self
end

--- Tells whether there is a step to undo.
function History:can_undo()
  local state = reading_state(self, "can_undo")
  return state.at >= state.first
end

--- Tells whether there is a step to do again.
function History:can_redo()
  local state = reading_state(self, "can_redo")
  return state.at < state.last
end

--- Returns an array of the labels of the steps that are done.
function History:labels()
  local state, labels = reading_state(self, "labels"), {}
  for i = state.first, state.at do
    labels[#labels + 1] = state.steps[i].label
  end
  return labels
end

--- The program has saved the present state, which no rollback changes.
function History:mark_saved()
  local state, its = reading_state(self, "mark_saved")
  act(its, nil, save, id_at(state, state.at))
end

--- Tells whether the present state is the saved one.
function History:is_saved()
  local state = reading_state(self, "is_saved")
  return state.saved == id_at(state, state.at)
end

--- Makes one step of successive runs with this label, from now on.  The last
-- steps with the label become one step as well, unless a step is undone.
function History:merge(label)
  self = state_of(self, "merge")
  check.argument(type(label) == "string", 1, "merge", "string", label)
  act(self, extras_of_caller(), join, label)
end

--- Makes the next run a step of its own, though its label is merged.
function History:seal(...)
  self = state_of(self, "seal")
  check.nothing("seal", ...)
  act(self, extras_of_caller(), seal)
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
  return new(setmetatable({
    state = {
      steps = {}, first = 1, at = 0, last = 0, base = 0, saved = 0,
      sealed = false, merging = {},
      limit = opts.limit or math.huge, merge_window = opts.merge_window,
    },
    origin = nil, deeds = {}, stale = false, last_id = 0,
    notes = setmetatable({}, { __mode = "k" }),
    on_step = opts.on_step, on_conflict = opts.on_conflict,
  }, Busy))
end

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
--     fx      its effects, or a stroke: those of runs that are merged
--     lists   the lists whose length it has changed: see lists.lua
--     id      of the state after it
--     time    of its last run, if there is a window
--
-- An id is given once: `last_id` is the last one.  `base` is the id of the
-- state before all steps.  `saved` is the id of the state that the program has
-- saved; if that cannot come back, it is false, or the id of no step.  If the
-- history is `sealed`, the next run is a step of its own; if not, no step is
-- undone.
--
-- A run is a transaction that is marked with the history.  What changes the
-- history in a transaction registers what takes the change back.  Others may
-- have changed the history by then: a run is taken out wherever it stands, and
-- a step that is missing is put in where it stood.  `puts` holds weakly what is
-- known of each run in a transaction, in the order in which the steps were put;
-- it has OUT when the step is taken out.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local lists = require "moonwatch.effects.lists"
local recorded = require "moonwatch.effects.recorded"
local stroke = require "moonwatch.effects.stroke"

local private = core.private
local run, is_in_run = private.run, private.is_in_run
local on_rollback, in_transaction = private.on_rollback, private.in_transaction
local now = private.now

local OUT = "out"

local History, state_of, new = check.class "history"

-- {======================================================
-- Steps
-- =======================================================

local function new_id(self)
  self.last_id = self.last_id + 1
  return self.last_id
end

-- Returns the id of the state after the step `at`.
local function id_at(self, at)
  return at < self.first and self.base or self.steps[at].id
end

-- Returns the place of the step whose field `name` has the value.
local function place_of(self, name, value)
  for i = self.last, self.first, -1 do
    if self.steps[i][name] == value then return i end
  end
end

-- The states from the step `i` on are not those any more that there were.
local function change_states(self, i)
  for k = i, self.last do
    if self.saved == self.steps[k].id then self.saved = false end
  end
end

local function move(self, from, to)
  table.move(self.steps, from, math.max(from, self.last + 1), to)
end

local function remove(self, i)
  change_states(self, i)
  move(self, i + 1, i)
  self.last = self.last - 1
  if self.at >= i then self.at = self.at - 1 end
end

-- Puts a step in after the step with the id `before`.
local function insert(self, before, step)
  local i = (place_of(self, "id", before) or self.first - 1) + 1
  change_states(self, i)
  move(self, i, i + 1)
  self.steps[i] = step
  self.last = self.last + 1
  if self.at >= i - 1 then self.at = self.at + 1 end
end

-- Takes the effects of a run out.  Returns the place where the step stood, or
-- nil.
local function take_out(self, fx)
  for i = self.last, self.first, -1 do
    local step = self.steps[i]
    if step.fx == fx then
      remove(self, i)
      return i
    elseif stroke.has(step.fx, fx) then
      change_states(self, i)
      step.fx:take_out(fx)
      step.lists = lists.of(step.fx.parts)
      if step.fx:is_empty() then remove(self, i) end
      return i
    end
  end
end

-- }======================================================

-- {======================================================
-- Runs
-- =======================================================

-- Returns the steps from `i` on.
local function list_from(self, i)
  return table.move(self.steps, i, self.last, 1, {})
end

-- Forgets the steps after `i`.
local function cut(self, i)
  for k = self.last, i + 1, -1 do self.steps[k] = nil end
  self.last = i
end

local function drop_oldest(self)
  local first = self.first
  self.base = self.steps[first].id
  self.steps[first] = nil
  self.first = first + 1
end

-- The steps that a run dropped, which stood at `i`, come back; or the next run
-- has dropped them now.
local function bring_back(self, known, i)
  local undone, next = known.undone, known.number + 1
  while self.puts[next] == OUT do next = next + 1 end
  local other = self.puts[next]
  if other then
    other.undone = other.undone or undone
  elseif next > self.n_puts and i and i > self.last then
    table.move(undone, 1, #undone, self.last + 1, self.steps)
    self.last = self.last + #undone
  end
end

-- Without a run, each later one would have dropped by the limit what the one
-- before has dropped.  Returns what would be there.
local function hand_on(self, fx, known, is_there)
  local oldest = known.oldest
  for k = known.number + 1, self.n_puts do
    local other = self.puts[k]
    local its = other and other ~= OUT and other.oldest
    if its then
      if oldest and not is_there then oldest.first = its.first end
      other.oldest, oldest = oldest, its
      if its.step.fx == fx then return nil end
    end
  end
  return oldest
end

-- The limit has made room for a run that is taken out.
local function bring_back_oldest(self, fx, known, i)
  local oldest = hand_on(self, fx, known, i ~= nil)
  if i and oldest and self.first == oldest.first + 1 then
    self.steps[oldest.first] = oldest.step
    self.first, self.base = oldest.first, oldest.base
  elseif self.base == known.id then
    self.base = known.base
  end
end

-- The transaction of a run is taken back.
local function withdraw(self, fx, known)
  local i = take_out(self, fx)
  if not i then change_states(self, self.first) end
  self.sealed = not i or i <= self.last or known.sealed
  if known.undone then bring_back(self, known, i) end
  bring_back_oldest(self, fx, known, i)
  self.puts[known.number] = OUT
  while self.puts[self.n_puts] == OUT do
    self.puts[self.n_puts] = nil
    self.n_puts = self.n_puts - 1
  end
end

-- Notes what there is before a run is put, so that it can be withdrawn.
local function note(self, fx, known)
  local at, first = self.at, self.first
  known.number, known.sealed = self.n_puts + 1, self.sealed
  known.base, known.id = self.base, self.last_id + 1
  known.undone = at < self.last and list_from(self, at + 1)
  known.oldest = at + 1 - first >= self.limit and
    { first = first, step = self.steps[first], base = self.base }
  self.puts[known.number] = known
  known.back = function() withdraw(self, fx, known) end
end

local function put(self, step, known)
  if known then note(self, step.fx, known) end
  local at = self.at + 1
  step.id = new_id(self)
  self.steps[at] = step
  self.n_puts = self.n_puts + 1
  if at < self.last then cut(self, at) end
  self.at, self.last, self.sealed = at, at, false
  if at - self.first >= self.limit then drop_oldest(self) end
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
local function drop_empty(self, step)
  if not step.fx:is_empty() then return end
  local before = id_at(self, self.at - 1)
  local is_saved = self.saved == step.id
  step.before, step.is_saved = before, is_saved
  remove(self, self.at)
  if is_saved then self.saved = before end
  step.is_out, self.sealed = true, true
end

-- Puts a stroke in again that was taken out.
local function restore(self, step)
  if not step.is_out then return end
  local was_saved = step.is_saved and self.saved == step.before
  insert(self, step.before, step)
  if was_saved then self.saved = step.id end
  step.is_out, step.is_saved = false, false
end

-- Takes a run out of the stroke to which it was added.
local function split_off(self, step, fx, time)
  restore(self, step)
  local i = take_out(self, fx)
  local is_there = i and self.steps[i] == step
  if is_there then step.time = time end
  self.sealed = not (is_there and i == self.last and self.at == i)
end

-- Adds effects to the last step.  A stroke that does nothing is no step.
local function merge(self, fx, its_lists, time, known)
  local step = self.steps[self.at]
  local merged, former = stroke.of(step.fx), step.time
  merged:add(fx)
  step.fx, step.lists = merged, lists.join(step.lists, its_lists)
  if known then
    known.back = function() split_off(self, step, fx, former) end
  end
  step.time = time
  drop_empty(self, step)
end

-- Returns a step for a run that begins.  There is a place for the step then, so
-- that to put a plain one needs no memory.
local function prepare_step(self, label)
  local at = self.at + 1
  if self.steps[at] == nil then self.steps[at] = false end
  return { label = label, fx = false, id = 0 }
end

-- The effects of a run become a step, or part of one.
local function add(self, step, fx, known)
  local its_lists, time = lists.of_run(fx), self.merge_window and now()
  if self.merging[step.label] and not self.sealed and
    merges(self, step.label, self.at, time) then
    merge(self, fx, its_lists, time, known)
  else
    step.fx = fx
    if its_lists then step.lists = its_lists end
    if time then step.time = time end
    put(self, step, known)
  end
end

-- A run has returned.  If there is no memory for the step, there was no run.
local function finish(self, step, known, ok, fx, ...)
  if not ok then error(fx, 0) end
  if stroke.changes_nothing(fx) then return ... end
  local added, err = pcall(add, self, step, fx, known)
  if not added then
    private.take_back(fx)
    error(err, 0)
  end
  if self.on_step then self.on_step(fx, step.label, "run") end
  return ...
end

-- Results of a run inside another run.
local function inner(ok, fx, ...)
  if not ok then error(fx, 0) end
  return ...
end

-- Registers in the transaction that is open that `known.back()` is called if it
-- is taken back.
local function prepare(known)
  on_rollback(function() if known.back then known.back() end end)
end

local function run_in_transaction(known, fn, ...)
  prepare(known)
  return fn(...)
end

--- Calls `fn(...)` as a step and returns its results.  If the function raises,
-- all writes are taken back, and the error goes on.  A run that changes nothing
-- is no step; a run inside another run is part of the outer step.
function History:run(label, fn, ...)
  self = state_of(self, "run")
  check.argument(type(label) == "string", 1, "run", "string", label)
  check.argument(type(fn) == "function", 2, "run", "function", fn)
  if not in_transaction() then
    return finish(self, prepare_step(self, label), nil,
      run(self, label, fn, ...))
  end
  if is_in_run(self) then return inner(run(nil, nil, fn, ...)) end
  local known = {}
  return finish(self, prepare_step(self, label), known,
    run(self, label, run_in_transaction, known, fn, ...))
end

-- }======================================================

-- {======================================================
-- Undo and redo
-- =======================================================

-- The transaction in which a step was undone (`by` is -1) or done again (1) is
-- taken back.  Others may have dropped a step that is undone, or have put steps
-- after one that is done.
local function turn_back(self, by, step, before, sealed)
  local i = place_of(self, "id", step.id)
  if by < 0 and not i then
    insert(self, before, step)
  elseif by < 0 then
    if self.at == i - 1 then self.at = i end
  elseif i and self.at == i then
    self.at = i - 1
  elseif i and self.at > i then
    remove(self, i)
  end
  self.sealed = sealed or self.at < self.last or
    id_at(self, self.at) ~= step.id
end

-- The step is undone, or done again.
local function arrive(self, step, by, known)
  local number, sealed = by < 0 and self.at or self.at + 1, self.sealed
  if self.steps[number] ~= step then return end -- it went while it was written
  if known then
    local before = id_at(self, number - 1)
    known.back = function() turn_back(self, by, step, before, sealed) end
  end
  self.sealed = true
  self.at = self.at + by
  if step.lists then lists.note(step.lists, by) end
end

-- Undoes (`by` is -1) or does again (1) the step `number`; called by the method
-- that the program calls.
local function travel(self, number, by, nested)
  local step, known = self.steps[number], nested and {}
  local list = step.lists and lists.find_changed(step.lists, by)
  local fx, problem, entry = recorded.travel(stroke.effects(step.fx), by,
    self.on_conflict, 4, self.on_step and run or private.run_bare, self,
    step.label, list, known and function() prepare(known) end)
  if not fx then return nil, problem, entry end
  arrive(self, step, by, known)
  if self.on_step then
    self.on_step(fx, step.label, by < 0 and "undo" or "redo")
  end
  recorded.raise(problem)
  return step.label
end

-- Returns the state of a history that has no run under way, and whether there
-- is a transaction.
local function idle_state(history, name)
  local self, nested = state_of(history, name, 1), in_transaction()
  if nested and is_in_run(self) then
    error(("calling '%s' while a run is under way"):format(name), 3)
  end
  return self, nested
end

--- Takes the last step back.  Returns its label; nil if there is no step; nil,
-- a message and the entry if the objects have changed meanwhile, or a check
-- refuses.
function History:undo(...)
  local its, nested = idle_state(self, "undo")
  check.nothing("undo", ...)
  if its.at < its.first then return nil end
  local label, message, entry = travel(its, its.at, -1, nested)
  return label, message, entry
end

--- Does the step again that was undone last.  Returns what `undo` returns.
function History:redo(...)
  local its, nested = idle_state(self, "redo")
  check.nothing("redo", ...)
  if its.at >= its.last then return nil end
  local label, message, entry = travel(its, its.at + 1, 1, nested)
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
end

--- Tells whether the present state is the saved one.
function History:is_saved()
  self = reading_state(self, "is_saved")
  return self.saved == id_at(self, self.at)
end

-- Takes the steps apart that `merge` has joined, unless other runs were added
-- or taken out since.
local function split(self, step, former, runs)
  restore(self, step)
  local i = place_of(self, "id", step.id)
  if not i or step.fx:count() ~= runs then return end
  local saved, before = self.saved, id_at(self, i - 1)
  remove(self, i)
  for _, its in ipairs(former) do
    insert(self, before, its)
    before = its.id
  end
  self.saved = saved
end

-- Makes one step of the last steps, from `first` on, or none.  The state after
-- them is the same.
local function join(self, first, known)
  local former, effects, joined = list_from(self, first), {}, nil
  for i, its in ipairs(former) do
    effects[i] = its.fx
    joined = lists.join(joined, its.lists)
  end
  local last, merged = former[#former], stroke.join(effects)
  local step = {
    label = last.label, fx = merged, lists = joined, id = last.id,
    time = last.time,
  }
  local runs, sealed = merged:count(), self.sealed
  if known then
    known.back = function()
      split(self, step, former, runs)
      self.sealed = sealed or self.at < self.last
    end
  end
  self.steps[first] = step
  cut(self, first)
  self.at = first
  drop_empty(self, step)
end

--- Makes one step of successive runs with this label, from now on.  The last
-- steps with the label become one step as well, unless a step is undone.
function History:merge(label)
  self = state_of(self, "merge")
  check.argument(type(label) == "string", 1, "merge", "string", label)
  local merging, former = self.merging, self.merging[label]
  on_rollback(function() merging[label] = former end)
  local known = in_transaction() and {}
  if known then prepare(known) end
  local at = self.at
  local first = at
  if at >= self.first and at == self.last and self.steps[at].label == label then
    while merges(self, label, first - 1, self.steps[first].time) do
      first = first - 1
    end
  end
  if first < at then join(self, first, known) end
  merging[label] = true
end

--- Makes the next run a step of its own, though its label is merged.
function History:seal(...)
  self = state_of(self, "seal")
  check.nothing("seal", ...)
  if self.sealed then return end
  on_rollback(function() self.sealed = self.at < self.last end)
  self.sealed = true
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
    n_puts = 0, puts = setmetatable({}, { __mode = "v" }), merging = {},
    limit = opts.limit or math.huge, merge_window = opts.merge_window,
    on_step = opts.on_step, on_conflict = opts.on_conflict,
  }
end

--- mw.history: steps that can be undone and done again.
-- SPDX-License-Identifier: MIT
--
--     names    "a"   "b"   "c"   "d"
--     steps    fx    fx  stroke   fx
--               ^           ^     ^
--             first        at    last
--
-- The steps up to `at` are done, the others are undone.  A step is effects, or
-- a stroke: runs that are merged.  If there is a window, `times` has the time
-- of each step's last run.
-- `saved` is the last step at the time when the program saved, START if there
-- was no step, nil if the saved state cannot come back.  If the history is
-- `sealed`, the next run is a step of its own.
--
-- A run is a transaction that is marked with the history.  What a run changes
-- in the history, the core calls for within the commit, where no debug hook
-- raises.  A change of the history in a transaction registers what takes the
-- change back.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local protect = require "moonwatch.protect"
local recorded = require "moonwatch.effects.recorded"
local stroke = require "moonwatch.effects.stroke"

local private = core.private
local run, is_in_run = private.run, private.is_in_run
local on_rollback, now = private.on_rollback, private.now

local rawmetatable = debug.getmetatable

local History, check_self = check.class "history"

local START = {}

local function check_idle(self, name)
  if is_in_run(self) then
    error(("calling '%s' while a run is under way"):format(name), 4)
  end
end

local function step_at(self, at)
  if at < self.first then return START end
  return self.steps[at]
end

-- {======================================================
-- Runs
-- =======================================================

-- Drops the steps that were undone, if any.  Returns what brings them back.
local function drop_undone(self)
  local names, steps, at, last = self.names, self.steps, self.at, self.last
  local saved = self.saved
  if at == last then return nil end
  local former = { table.move(names, at + 1, last, 1, {}),
    table.move(steps, at + 1, last, 1, {}) }
  for i = last, at + 1, -1 do
    if saved == steps[i] then self.saved = nil end
    names[i], steps[i] = nil, nil
  end
  self.last = at
  return function()
    table.move(former[1], 1, last - at, at + 1, names)
    table.move(former[2], 1, last - at, at + 1, steps)
    self.at, self.last, self.saved = at, last, saved
  end
end

-- Drops the oldest step.  Returns what brings it back.
local function drop_oldest(self)
  local first = self.first
  local label, step, saved = self.names[first], self.steps[first], self.saved
  local time = self.times[first]
  if saved == START then self.saved = nil end
  if saved == step then self.saved = START end
  self.names[first], self.steps[first], self.times[first] = nil, nil, nil
  self.first = first + 1
  return function()
    self.names[first], self.steps[first] = label, step
    self.times[first] = time
    self.first, self.saved = first, saved
  end
end

-- Takes a step out, which may have moved down meanwhile.
local function remove(self, step)
  local names, steps = self.names, self.steps
  for i = self.last, self.first, -1 do
    if steps[i] == step then
      table.move(names, i + 1, self.last + 1, i)
      table.move(steps, i + 1, self.last + 1, i)
      self.last = self.last - 1
      if self.at >= i then self.at = self.at - 1 end
      if self.saved == step then self.saved = nil end
      return
    end
  end
end

-- Registers what takes the last step out again.
local function put_in_transaction(self, step, undropped, restored)
  on_rollback(function()
    remove(self, step)
    if restored then restored() end
    if undropped then undropped() end
    self.sealed = true
  end)
end

local function put(self, label, step, nested)
  local undropped = self.at ~= self.last and drop_undone(self)
  local at = self.last + 1
  self.names[at], self.steps[at] = label, step
  if self.merge_window then self.times[at] = now() end
  self.at, self.last, self.sealed = at, at, false
  local restored = at - self.first >= self.limit and drop_oldest(self)
  if nested then put_in_transaction(self, step, undropped, restored) end
end

-- Does a run with this label become one step with the step `at`, before it?
local function merges(self, label, at, time)
  return self.merging[label] and at >= self.first and
    self.names[at] == label and self.saved ~= self.steps[at] and
    (not self.merge_window or time - self.times[at] <= self.merge_window)
end

-- Adds effects to the last step.  A stroke that does nothing is no step.
local function merge(self, label, fx, nested)
  local former, at = self.steps[self.at], self.at
  local merged = stroke.of(former)
  local shrink = merged:add(fx)
  self.steps[at] = merged
  if self.merge_window then self.times[at] = now() end
  if merged:is_empty() then
    remove(self, merged)
    self.sealed = true
  end
  if nested then
    on_rollback(function()
      remove(self, merged)
      shrink()
      put(self, label, former)
      self.sealed = true
    end)
  end
end

-- The run has returned.  The core knows of a single write whether it changes
-- anything, but not of a mutator's call.
local function add(self, label, fx, nested)
  if (#fx > 1 or private.has_states) and stroke.changes_nothing(fx) then
    return
  end
  if self.merging[label] and not self.sealed and
    merges(self, label, self.at, now()) then
    drop_undone(self)
    merge(self, label, fx, nested)
  else
    put(self, label, fx, nested)
  end
end

local function tell(self, fx, label, direction)
  if self.on_step then
    protect("on_step", self.on_step, fx, label, direction)
  end
end

local function finish(self, label, ok, fx, ...)
  if not ok then error(fx, 0) end
  if self.on_step and #fx > 0 and not stroke.changes_nothing(fx) then
    tell(self, fx, label, "run")
  end
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
  if rawmetatable(self) ~= History or type(label) ~= "string" or
    type(fn) ~= "function" then
    check_self(self, "run")
    check.argument(type(label) == "string", 1, "run", "string", label)
    check.argument(type(fn) == "function", 2, "run", "function", fn)
  end
  if is_in_run(self) then return inner(run(nil, nil, nil, fn, ...)) end
  return finish(self, label, run(add, self, label, fn, ...))
end

-- }======================================================

-- {======================================================
-- Undo and redo
-- =======================================================

-- The writes of an undo or a redo are made: `to` is the last step done then.
local function arrive(self, to, _, nested)
  local at = self.at
  self.at, self.sealed = to, true
  if nested then on_rollback(function() self.at = at end) end
end

-- Undoes (by -1) or does again (by 1) the step `number`.
local function travel(self, number, by)
  local step, to = self.steps[number], by < 0 and number - 1 or number
  local label, direction = self.names[number], by < 0 and "undo" or "redo"
  local fx = stroke.effects(step)
  local done, problem, entry = recorded.travel(fx, by, self.on_conflict, arrive,
    self, to)
  if not done then return nil, problem, entry end
  tell(self, done, label, direction)
  recorded.raise(problem)
  return label
end

local function undo(self)
  check_idle(self, "undo")
  if self.at < self.first then return nil end
  return travel(self, self.at, -1)
end

local function redo(self)
  check_idle(self, "redo")
  if self.at >= self.last then return nil end
  return travel(self, self.at + 1, 1)
end

--- Takes the last step back.  Returns its label; nil if there is no step; nil,
-- a message and the entry if the objects have changed meanwhile, or a check
-- refuses.  The core undoes what is simple, and leaves the rest to `undo`.
History.undo = private.traveller(History, undo, -1)

--- Does the step again that was undone last.  Returns what `undo` returns.
History.redo = private.traveller(History, redo, 1)

-- }======================================================

-- {======================================================
-- The state of a history
-- =======================================================

function History:can_undo()
  check_self(self, "can_undo")
  return self.at >= self.first
end

function History:can_redo()
  check_self(self, "can_redo")
  return self.at < self.last
end

--- Returns the labels of the steps that can be undone, oldest first.
function History:labels()
  check_self(self, "labels")
  return table.move(self.names, self.first, self.at, 1, {})
end

--- Tells the history that the program has saved the present state.
function History:mark_saved()
  check_self(self, "mark_saved")
  self.saved = step_at(self, self.at)
end

--- Tells whether the present state is the saved one.
function History:is_saved()
  check_self(self, "is_saved")
  return self.saved == step_at(self, self.at)
end

--- Makes one step of successive runs with this label, from now on.  The last
-- steps with the label become one step as well, unless a step is undone.
function History:merge(label)
  check_self(self, "merge")
  check.argument(type(label) == "string", 1, "merge", "string", label)
  self.merging[label] = true
  local at = self.at
  if at < self.last or self.names[at] ~= label then return end
  local first = at
  while merges(self, label, first - 1, self.times[first]) do
    first = first - 1
  end
  local merged = stroke.of(self.steps[first])
  for i = first + 1, at do merged:add(self.steps[i]) end
  if first == at then return end
  local time = self.times[at]
  if self.saved == self.steps[at] then self.saved = merged end
  for i = at, first + 1, -1 do self.names[i], self.steps[i] = nil, nil end
  self.steps[first], self.times[first] = merged, time
  self.at, self.last = first, first
end

--- Makes the next run a step of its own, though its label is merged.
function History:seal()
  check_self(self, "seal")
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
  return setmetatable({
    names = {}, steps = {}, times = {}, sealed = false,
    first = 1, at = 0, last = 0, saved = START,
    merging = {}, limit = opts.limit or math.huge,
    merge_window = opts.merge_window, on_step = opts.on_step,
    on_conflict = opts.on_conflict,
  }, History)
end

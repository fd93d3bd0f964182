--- mw.history: steps that can be undone and done again.
-- SPDX-License-Identifier: MIT
--
-- `steps` has the effects and the label of each run, oldest first; the first
-- `at` steps are done, the others are undone.  `saved` is the last step at the
-- time when the program saved, START if there was no step, nil if the saved
-- state cannot come back.  During a run the run's token is alive.  `running`
-- holds the token weakly, because the run may be in a coroutine that is never
-- resumed.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local recorded = require "moonwatch.effects.recorded"
local transaction = require "moonwatch.transaction"

local private = core.private

local History, check_self = check.class "history"

local START = {}

local function check_idle(self, name)
  if self.running.token then
    error(("calling '%s' while a run is under way"):format(name), 3)
  end
end

local function last(self)
  return self.steps[self.at] or START
end

local function drop_oldest(self)
  if #self.steps <= self.limit then return end
  if self.saved == START then self.saved = nil end
  local step = table.remove(self.steps, 1)
  if self.saved == step then self.saved = START end
  self.at = self.at - 1
end

-- Tells whether a step becomes one step with the step before it.
local function merges(self, former, step)
  return former and self.merging[step.label] and former.label == step.label and
    self.saved ~= former and step.time - former.time <= self.merge_window
end

-- Puts a step after the first `at` steps, or merges the step with the last of
-- them.  Steps that were undone are dropped.  If memory runs out, nothing
-- changes.
local function put(self, step, at)
  local steps, fx = self.steps, step.fx
  while merges(self, steps[at], step) do
    fx = steps[at].fx:concat(fx):squash()
    at = at - 1
  end
  for i = at + 1, #steps do
    if self.saved == steps[i] and steps[i] ~= step then self.saved = nil end
  end
  steps[at + 1] = step
  step.fx, self.at = fx, at + 1
  for i = #steps, self.at + 1, -1 do steps[i] = nil end
  drop_oldest(self)
end

-- Remembers the state of the history.  If a transaction around this call is
-- taken back, the history takes the state back, too.
local function remember(self)
  local steps, at = table.move(self.steps, 1, #self.steps, 1, {}), self.at
  local fxs, saved = {}, self.saved
  for i, step in ipairs(steps) do fxs[i] = step.fx end
  transaction.on_rollback(function()
    self.steps, self.at, self.saved = steps, at, saved
    for i, step in ipairs(steps) do step.fx = fxs[i] end
  end)
end

local function add(self, label, fx)
  put(self, { label = label, fx = fx, time = private.now() }, self.at)
end

-- Ends a run.  `token` keeps the token of the outermost run alive until here.
local function finish(self, token, ok, fx, ...)
  if token then self.running.token = nil end
  if not ok then error(fx, 0) end
  return ...
end

--- Calls `fn(...)` as a step and returns its results.  If the function raises,
-- all writes are taken back, and the error goes on.  A run that writes nothing
-- is no step; a run inside another run is part of the outer step.
function History:run(label, fn, ...)
  check_self(self, "run")
  check.argument(type(label) == "string", 1, "run", "string", label)
  check.argument(type(fn) == "function", 2, "run", "function", fn)
  local token = not self.running.token and {} or nil
  self.running.token = self.running.token or token
  local function done(fx)
    if token and #fx > 0 then add(self, label, fx) end
  end
  if token and transaction.is_open() then remember(self) end
  return finish(self, token, transaction.run(done, fn, ...))
end

--- Takes the last step back.  Returns its label; nil if there is no step; nil
-- and a message if a check refuses.
function History:undo()
  check_self(self, "undo")
  check_idle(self, "undo")
  local step = self.steps[self.at]
  if not step then return nil end
  if transaction.is_open() then remember(self) end
  local done, problem = recorded.undo_asked(step.fx)
  if not done then return nil, problem end
  self.at = self.at - 1
  recorded.raise(problem)
  return step.label
end

--- Does the step again that was undone last.  Returns its label; nil if there
-- is no such step; nil and a message if the objects have changed meanwhile.
function History:redo()
  check_self(self, "redo")
  check_idle(self, "redo")
  local step = self.steps[self.at + 1]
  if not step then return nil end
  if transaction.is_open() then remember(self) end
  local fx, problem = recorded.redo(step.fx)
  if not fx then return nil, problem end
  self.at = self.at + 1
  recorded.raise(problem)
  return step.label
end

function History:can_undo()
  check_self(self, "can_undo")
  return self.at > 0
end

function History:can_redo()
  check_self(self, "can_redo")
  return self.at < #self.steps
end

--- Returns the labels of the steps that can be undone, oldest first.
function History:labels()
  check_self(self, "labels")
  local labels = {}
  for i = 1, self.at do labels[i] = self.steps[i].label end
  return labels
end

--- Tells the history that the program has saved the present state.
function History:mark_saved()
  check_self(self, "mark_saved")
  self.saved = last(self)
end

--- Tells whether the present state is the saved one.
function History:is_saved()
  check_self(self, "is_saved")
  return self.saved == last(self)
end

--- Makes one step of successive runs with this label, from now on.  The last
-- steps with the label become one step as well, unless a step is undone.
function History:merge(label)
  check_self(self, "merge")
  check.argument(type(label) == "string", 1, "merge", "string", label)
  self.merging[label] = true
  if self.at == #self.steps and self.at > 1 then
    put(self, self.steps[self.at], self.at - 1)
  end
end

local OPTIONS = { limit = "number", merge_window = "number" }

--- Returns a history.  `limit` is the number of steps that the history keeps
-- (all); `merge_window` is the number of seconds after which runs are no longer
-- merged (never).
return function(opts)
  opts = check.options(opts, OPTIONS, 1, "history")
  check.that(not opts.limit or opts.limit >= 1, 1, "history",
    "option 'limit' is less than 1")
  return setmetatable({
    steps = {}, at = 0, saved = START, merging = {},
    running = setmetatable({}, { __mode = "v" }),
    limit = opts.limit or math.huge,
    merge_window = opts.merge_window or math.huge,
  }, History)
end

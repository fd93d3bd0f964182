--- mw.history: steps that can be undone and done again.
-- SPDX-License-Identifier: MIT
--
-- `steps` are the effects of each run with its label, oldest first; the first
-- `at` of them are done, the others were undone.  `saved` is the step that was
-- last when the program saved, START when there was none, nil when that state
-- cannot come back.  While a run is under way its token is alive, which
-- `running` holds weakly: the run may be in a coroutine that nobody resumes.

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

-- Is the step one with that before?
local function merges(self, former, step)
  return former and self.merging[step.label] and former.label == step.label and
    self.saved ~= former and step.time - former.time <= self.merge_window
end

-- Makes a step the last one, after the first `at` or as one with the last of
-- these.  What was undone cannot be done again after it.  If there is no memory
-- for that, nothing is changed.
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

-- If a transaction around it is taken back, so is what is done here.
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

-- Ends a run; the token of the outermost one is on its stack until here.
local function finish(self, token, ok, fx, ...)
  if token then self.running.token = nil end
  if not ok then error(fx, 0) end
  return ...
end

--- Calls `fn(...)` as a step.  If it raises, all is as before, and the error
-- goes on.  What writes nothing is no step; a run in another one is part of it.
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

--- Takes the last step back.  Answers its label, or nil when there is none.
function History:undo()
  check_self(self, "undo")
  check_idle(self, "undo")
  local step = self.steps[self.at]
  if not step then return nil end
  if transaction.is_open() then remember(self) end
  local problem = recorded.undo(step.fx)
  self.at = self.at - 1
  recorded.raise(problem)
  return step.label
end

--- Does the step again that was undone last.  Answers its label; nil when there
-- is none; nil and a message when the objects have changed meanwhile.
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

--- The labels of the steps that can be undone, oldest first.
function History:labels()
  check_self(self, "labels")
  local labels = {}
  for i = 1, self.at do labels[i] = self.steps[i].label end
  return labels
end

--- The program has saved what there is now.
function History:mark_saved()
  check_self(self, "mark_saved")
  self.saved = last(self)
end

--- Is what there is now what the program saved?
function History:is_saved()
  check_self(self, "is_saved")
  return self.saved == last(self)
end

--- Runs with this label that follow each other become one step: the last ones,
-- unless something is undone, and those from now on.
function History:merge(label)
  check_self(self, "merge")
  check.argument(type(label) == "string", 1, "merge", "string", label)
  self.merging[label] = true
  if self.at == #self.steps and self.at > 1 then
    put(self, self.steps[self.at], self.at - 1)
  end
end

local OPTIONS = { limit = "number", merge_window = "number" }

--- Makes a history.  `limit`: how many steps are kept (all); `merge_window`:
-- seconds after which runs are not merged any more (never).
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

--- mw.history: steps that can be undone and done again.
-- SPDX-License-Identifier: MIT
--
--     names    "a"   "b"   "c"   "d"
--     steps    fx    fx  stroke   fx
--               ^           ^     ^
--             first        at    last
--
-- The steps up to `at` are done, the others are undone.  A step is effects, or
-- a stroke: runs that are merged.  `times` has the time of each step's last run
-- if there is a window.
-- `saved` is the last step at the time when the program saved; `base[1]`, which
-- is weak, stands for no step: it is the last one that the limit has dropped.
-- If the saved state cannot come back, `saved` is found nowhere, or is nil.  If
-- the history is `sealed`, the next run is a step of its own; if not, no step
-- is undone.
--
-- A run is a transaction that is marked with the history.  What a run changes
-- in the history, the core calls for within the commit, where no debug hook
-- raises.  A change of the history in a transaction registers first what takes
-- the change back.  Others may have changed the history by then: a run is taken
-- out wherever it stands, and a step that is missing is put in where it stood.
-- `puts` holds weakly what these functions know of each step, in the order in
-- which the steps were put, which is OUT when the step is taken out.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local protect = require "moonwatch.protect"
local recorded = require "moonwatch.effects.recorded"
local stroke = require "moonwatch.effects.stroke"

local private = core.private
local run, is_in_run = private.run, private.is_in_run
local on_rollback, in_transaction = private.on_rollback, private.in_transaction
local now = private.now

local rawmetatable = debug.getmetatable

local History, check_self = check.class "history"

local OUT = "out"

local function check_idle(self, name)
  if is_in_run(self) then
    error(("calling '%s' while a run is under way"):format(name), 4)
  end
end

-- {======================================================
-- Steps
-- =======================================================

-- Returns the step `at`, or what stands for the state before all steps.
local function step_at(self, at)
  if at < self.first then return self.base[1] end
  return self.steps[at]
end

local function place_of(self, step)
  for i = self.last, self.first, -1 do
    if self.steps[i] == step then return i end
  end
end

-- The states from the step `i` on are not those any more that there were.
local function change_states(self, i)
  local saved = place_of(self, self.saved)
  if saved and saved >= i then self.saved = nil end
end

local function move(self, from, to)
  local last = math.max(from, self.last + 1)
  table.move(self.names, from, last, to)
  table.move(self.steps, from, last, to)
  table.move(self.times, from, last, to)
end

local function remove(self, i)
  change_states(self, i)
  move(self, i + 1, i)
  self.last = self.last - 1
  if self.at >= i then self.at = self.at - 1 end
end

-- Puts a step in after the step `before`.
local function insert(self, before, label, step, time)
  local i = (place_of(self, before) or self.first - 1) + 1
  change_states(self, i)
  move(self, i, i + 1)
  self.names[i], self.steps[i], self.times[i] = label, step, time
  self.last = self.last + 1
  if self.at >= i - 1 then self.at = self.at + 1 end
end

-- Takes the effects of a run out.  Returns the place where the step stood, or
-- nil.
local function take_out(self, fx)
  for i = self.last, self.first, -1 do
    local step = self.steps[i]
    if step == fx then
      remove(self, i)
      return i
    elseif stroke.has(step, fx) then
      change_states(self, i)
      step:take_out(fx)
      if step:is_empty() then remove(self, i) end
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
  return {
    n = self.last - i + 1,
    names = table.move(self.names, i, self.last, 1, {}),
    steps = table.move(self.steps, i, self.last, 1, {}),
    times = table.move(self.times, i, self.last, 1, {}),
  }
end

-- Forgets the steps after `i`.
local function cut(self, i)
  for k = self.last, i + 1, -1 do
    self.names[k], self.steps[k], self.times[k] = nil, nil, nil
  end
  self.last = i
end

local function oldest_of(self)
  local first = self.first
  return {
    first = first, label = self.names[first], step = self.steps[first],
    time = self.times[first], base = self.base[1],
  }
end

local function drop_oldest(self)
  local first = self.first
  self.base[1] = self.steps[first]
  self.names[first], self.steps[first], self.times[first] = nil, nil, nil
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
    for _, name in ipairs { "names", "steps", "times" } do
      table.move(undone[name], 1, undone.n, self.last + 1, self[name])
    end
    self.last = self.last + undone.n
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
      if its.step == fx then return nil end
    end
  end
  return oldest
end

-- The limit has made room for a run that is taken out.
local function bring_back_oldest(self, fx, known, i)
  local oldest = hand_on(self, fx, known, i ~= nil)
  if i and oldest and self.first == oldest.first + 1 then
    local first = oldest.first
    self.names[first], self.steps[first] = oldest.label, oldest.step
    self.times[first] = oldest.time
    self.first, self.base[1] = first, oldest.base
  elseif self.base[1] == fx then
    self.base[1] = known.base
  end
end

-- The transaction of a run is taken back.
local function withdraw(self, fx, known)
  if not known.is_put then return end
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

-- Registers that a run is withdrawn if its transaction is taken back.  Returns
-- what is known of the run.
local function register(self, fx)
  local at, number = self.at, self.n_puts + 1
  local known = {
    is_put = false, number = number, sealed = self.sealed, base = self.base[1],
    undone = at < self.last and list_from(self, at + 1),
    oldest = at + 1 - self.first >= self.limit and oldest_of(self),
  }
  on_rollback(function() withdraw(self, fx, known) end)
  self.puts[number] = known
  return known
end

local function put(self, label, fx, nested)
  local at = self.at + 1
  local known = nested and register(self, fx)
  self.names[at], self.steps[at] = label, fx
  if self.merge_window then self.times[at] = now() end
  self.n_puts = self.n_puts + 1
  if at < self.last then cut(self, at) end
  self.at, self.last, self.sealed = at, at, false
  if at - self.first >= self.limit then drop_oldest(self) end
  if known then known.is_put = true end
end

-- Does a run with this label, whose runs are merged, become one step with the
-- step `at`, before it?
local function merges(self, label, at, time)
  return at >= self.first and self.names[at] == label and
    self.saved ~= self.steps[at] and
    (not self.merge_window or time - self.times[at] <= self.merge_window)
end

-- Takes the stroke, which is the last step, out if it does nothing.
local function drop_empty(self, merged)
  if not merged:is_empty() then return end
  merged.before = step_at(self, self.at - 1)
  remove(self, self.at)
  merged.is_out, self.sealed = true, true
end

-- Puts a stroke in again that was taken out.
local function restore(self, label, merged, time)
  if not merged.is_out then return end
  insert(self, merged.before, label, merged, time)
  merged.is_out, merged.before = false, false
end

-- Registers that a run is taken out of the stroke, which is the last step.
local function register_part(self, label, merged, fx)
  local time = self.times[self.at]
  on_rollback(function()
    restore(self, label, merged, time)
    local i = take_out(self, fx)
    local is_there = i and self.steps[i] == merged
    if is_there then self.times[i] = time end
    self.sealed = not (is_there and i == self.last and self.at == i)
  end)
end

-- Adds effects to the last step.  A stroke that does nothing is no step.
local function merge(self, label, fx, nested)
  local at = self.at
  local merged = stroke.of(self.steps[at])
  if nested then register_part(self, label, merged, fx) end
  merged:add(fx)
  self.steps[at] = merged
  if self.merge_window then self.times[at] = now() end
  drop_empty(self, merged)
end

-- The run has returned.  The core knows of a single write whether it changes
-- anything, but not of a mutator's call.
local function add(self, label, fx, nested)
  if (#fx > 1 or private.has_states) and stroke.changes_nothing(fx) then
    return
  end
  if self.merging[label] and not self.sealed and
    merges(self, label, self.at, now()) then
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

-- Registers that the step is done, or undone, if the transaction around it is
-- taken back.  Others may have dropped a step that is undone, or have put steps
-- after one that is done.
local function register_travel(self, number, by)
  local step, sealed = self.steps[number], self.sealed
  local label, time = self.names[number], self.times[number]
  local before = step_at(self, number - 1)
  on_rollback(function()
    local i = place_of(self, step)
    if by < 0 and not i then
      insert(self, before, label, step, time)
    elseif by < 0 then
      if self.at == i - 1 then self.at = i end
    elseif i and self.at == i then
      self.at = i - 1
    elseif i and self.at > i then
      remove(self, i)
    end
    self.sealed = sealed or self.at < self.last or
      step_at(self, self.at) ~= step
  end)
end

-- The writes of an undo or a redo are made.
local function arrive(self, by, _, nested)
  local number = by < 0 and self.at or self.at + 1
  if nested then register_travel(self, number, by) end
  self.sealed = true
  self.at = self.at + by
end

-- Undoes (by -1) or does again (by 1) the step `number`.
local function travel(self, number, by)
  local at = self.at
  local label, direction = self.names[number], by < 0 and "undo" or "redo"
  local fx = stroke.effects(self.steps[number])
  local done, problem, entry = recorded.travel(fx, by, self.on_conflict, arrive,
    self, by)
  if not done then return nil, problem, entry end
  if self.at == at then arrive(self, by, done, in_transaction()) end
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
  local base = self.base[1] or {}
  self.base[1] = base
  self.saved = step_at(self, self.at)
end

--- Tells whether the present state is the saved one.
function History:is_saved()
  check_self(self, "is_saved")
  return self.saved ~= nil and self.saved == step_at(self, self.at)
end

-- Takes the steps apart that `merge` has joined, unless other runs were added
-- or taken out since.
local function split(self, merged, former, runs)
  restore(self, former.names[1], merged)
  local i = place_of(self, merged)
  if not i or merged:count() ~= runs then return end
  local saved, before = self.saved, step_at(self, i - 1)
  remove(self, i)
  for k = 1, former.n do
    insert(self, before, former.names[k], former.steps[k], former.times[k])
    before = former.steps[k]
  end
  self.saved = saved == merged and before or saved
end

-- Makes one step of the last steps, from `first` on, or none.
local function join(self, first)
  local former = list_from(self, first)
  local merged = stroke.join(former.steps)
  local runs, sealed = merged:count(), self.sealed
  on_rollback(function()
    split(self, merged, former, runs)
    self.sealed = sealed or self.at < self.last
  end)
  if self.saved == self.steps[self.at] then self.saved = merged end
  self.steps[first], self.times[first] = merged, self.times[self.at]
  self.at = first
  cut(self, first)
  drop_empty(self, merged)
end

-- What needs memory comes before the first change.
local function merge_from_now_on(self, label)
  local merging, former = self.merging, self.merging[label]
  merging[label] = former or false -- there is a place
  on_rollback(function() merging[label] = former end)
  local at = self.at
  local first = at
  if at == self.last and self.names[at] == label then
    while merges(self, label, first - 1, self.times[first]) do
      first = first - 1
    end
  end
  if first < at then join(self, first) end
  merging[label] = true
end

--- Makes one step of successive runs with this label, from now on.  The last
-- steps with the label become one step as well, unless a step is undone.
function History:merge(label)
  check_self(self, "merge")
  check.argument(type(label) == "string", 1, "merge", "string", label)
  private.quietly(merge_from_now_on, self, label)
end

--- Makes the next run a step of its own, though its label is merged.
function History:seal()
  check_self(self, "seal")
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
  local base = {}
  return setmetatable({
    names = {}, steps = {}, times = {}, sealed = false,
    first = 1, at = 0, last = 0, saved = base,
    base = setmetatable({ base }, { __mode = "v" }),
    puts = setmetatable({}, { __mode = "v" }), n_puts = 0,
    merging = {}, limit = opts.limit or math.huge,
    merge_window = opts.merge_window, on_step = opts.on_step,
    on_conflict = opts.on_conflict,
  }, History)
end

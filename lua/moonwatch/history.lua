--- mw.history: steps that can be undone and done again.
-- SPDX-License-Identifier: MIT
--
--     names    "a"   "b"   "c"   "d"
--     steps    fx    fx  stroke   fx
--               ^           ^     ^
--             FIRST        AT    LAST
--
-- The steps from FIRST to AT are done, those up to LAST are undone.  A step is
-- effects, or a stroke: runs that are merged.  `times` has the time of each
-- step's last run if there is a window.
-- `saved` is the last step at the time when the program saved; BASE[1], which
-- is weak, stands for no step: it is the last one that the limit has dropped.
-- If the saved state cannot come back, `saved` is found nowhere, or is nil.  If
-- the history is SEALED, the next run is a step of its own; if not, no step
-- is undone.
--
-- The core knows the fields with numbers.  The core runs, undoes and does again
-- what is simple, and leaves the rest to the functions here: see history.c.
-- All runs of a history that is SPECIAL (true) are left to these; false or a
-- limit is simple.
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

local History, state_of, new = check.class "history"

local OUT = "out"

-- Fields of the state of a history: as in history.c, which hands the state on.
local AT <const>, FIRST <const>, LAST <const> = 1, 2, 3
local SEALED <const>, N_PUTS <const> = 4, 5
local NAMES <const>, STEPS <const> = 6, 7
local ON_STEP <const>, SPECIAL <const>, BASE <const> = 8, 9, 10

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
  if at < self[FIRST] then return self[BASE][1] end
  return self[STEPS][at]
end

local function place_of(self, step)
  for i = self[LAST], self[FIRST], -1 do
    if self[STEPS][i] == step then return i end
  end
end

-- The states from the step `i` on are not those any more that there were.
local function change_states(self, i)
  local saved = place_of(self, self.saved)
  if saved and saved >= i then self.saved = nil end
end

local function move(self, from, to)
  local last = math.max(from, self[LAST] + 1)
  table.move(self[NAMES], from, last, to)
  table.move(self[STEPS], from, last, to)
  table.move(self.times, from, last, to)
end

local function remove(self, i)
  change_states(self, i)
  move(self, i + 1, i)
  self[LAST] = self[LAST] - 1
  if self[AT] >= i then self[AT] = self[AT] - 1 end
end

-- Puts a step in after the step `before`.
local function insert(self, before, label, step, time)
  local i = (place_of(self, before) or self[FIRST] - 1) + 1
  change_states(self, i)
  move(self, i, i + 1)
  self[NAMES][i], self[STEPS][i], self.times[i] = label, step, time
  self[LAST] = self[LAST] + 1
  if self[AT] >= i - 1 then self[AT] = self[AT] + 1 end
end

-- Takes the effects of a run out.  Returns the place where the step stood, or
-- nil.
local function take_out(self, fx)
  for i = self[LAST], self[FIRST], -1 do
    local step = self[STEPS][i]
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
    n = self[LAST] - i + 1,
    names = table.move(self[NAMES], i, self[LAST], 1, {}),
    steps = table.move(self[STEPS], i, self[LAST], 1, {}),
    times = table.move(self.times, i, self[LAST], 1, {}),
  }
end

-- Forgets the steps after `i`.
local function cut(self, i)
  for k = self[LAST], i + 1, -1 do
    self[NAMES][k], self[STEPS][k], self.times[k] = nil, nil, nil
  end
  self[LAST] = i
end

local function oldest_of(self)
  local first = self[FIRST]
  return {
    first = first, label = self[NAMES][first], step = self[STEPS][first],
    time = self.times[first], base = self[BASE][1],
  }
end

local function drop_oldest(self)
  local first = self[FIRST]
  self[BASE][1] = self[STEPS][first]
  self[NAMES][first], self[STEPS][first], self.times[first] = nil, nil, nil
  self[FIRST] = first + 1
end

-- The steps that a run dropped, which stood at `i`, come back; or the next run
-- has dropped them now.
local function bring_back(self, known, i)
  local undone, next = known.undone, known.number + 1
  while self.puts[next] == OUT do next = next + 1 end
  local other = self.puts[next]
  if other then
    other.undone = other.undone or undone
  elseif next > self[N_PUTS] and i and i > self[LAST] then
    local n, to = undone.n, self[LAST] + 1
    table.move(undone.names, 1, n, to, self[NAMES])
    table.move(undone.steps, 1, n, to, self[STEPS])
    table.move(undone.times, 1, n, to, self.times)
    self[LAST] = self[LAST] + undone.n
  end
end

-- Without a run, each later one would have dropped by the limit what the one
-- before has dropped.  Returns what would be there.
local function hand_on(self, fx, known, is_there)
  local oldest = known.oldest
  for k = known.number + 1, self[N_PUTS] do
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
  if i and oldest and self[FIRST] == oldest.first + 1 then
    local first = oldest.first
    self[NAMES][first], self[STEPS][first] = oldest.label, oldest.step
    self.times[first] = oldest.time
    self[FIRST], self[BASE][1] = first, oldest.base
  elseif self[BASE][1] == fx then
    self[BASE][1] = known.base
  end
end

-- The transaction of a run is taken back.
local function withdraw(self, fx, known)
  if not known.is_put then return end
  local i = take_out(self, fx)
  if not i then change_states(self, self[FIRST]) end
  self[SEALED] = not i or i <= self[LAST] or known.sealed
  if known.undone then bring_back(self, known, i) end
  bring_back_oldest(self, fx, known, i)
  self.puts[known.number] = OUT
  while self.puts[self[N_PUTS]] == OUT do
    self.puts[self[N_PUTS]] = nil
    self[N_PUTS] = self[N_PUTS] - 1
  end
end

-- Registers that a run is withdrawn if its transaction is taken back.  Returns
-- what is known of the run.
local function register(self, fx)
  local at, number = self[AT], self[N_PUTS] + 1
  local known = {
    is_put = false, number = number, sealed = self[SEALED],
    base = self[BASE][1],
    undone = at < self[LAST] and list_from(self, at + 1),
    oldest = at + 1 - self[FIRST] >= self.limit and oldest_of(self),
  }
  on_rollback(function() withdraw(self, fx, known) end)
  self.puts[number] = known
  return known
end

local function put(self, label, fx, nested)
  local at = self[AT] + 1
  local known = nested and register(self, fx)
  self[NAMES][at], self[STEPS][at] = label, fx
  if self.merge_window then self.times[at] = now() end
  self[N_PUTS] = self[N_PUTS] + 1
  if at < self[LAST] then cut(self, at) end
  self[AT], self[LAST], self[SEALED] = at, at, false
  if at - self[FIRST] >= self.limit then drop_oldest(self) end
  if known then known.is_put = true end
end

-- Does a run with this label, whose runs are merged, become one step with the
-- step `at`, before it?
local function merges(self, label, at, time)
  return at >= self[FIRST] and self[NAMES][at] == label and
    self.saved ~= self[STEPS][at] and
    (not self.merge_window or time - self.times[at] <= self.merge_window)
end

-- Takes the stroke, which is the last step, out if it does nothing.
local function drop_empty(self, merged)
  if not merged:is_empty() then return end
  merged.before = step_at(self, self[AT] - 1)
  remove(self, self[AT])
  merged.is_out, self[SEALED] = true, true
end

-- Puts a stroke in again that was taken out.
local function restore(self, label, merged, time)
  if not merged.is_out then return end
  insert(self, merged.before, label, merged, time)
  merged.is_out, merged.before = false, false
end

-- Registers that a run is taken out of the stroke, which is the last step.
local function register_part(self, label, merged, fx)
  local time = self.times[self[AT]]
  on_rollback(function()
    restore(self, label, merged, time)
    local i = take_out(self, fx)
    local is_there = i and self[STEPS][i] == merged
    if is_there then self.times[i] = time end
    self[SEALED] = not (is_there and i == self[LAST] and self[AT] == i)
  end)
end

-- Adds effects to the last step.  A stroke that does nothing is no step.
local function merge(self, label, fx, nested)
  local at = self[AT]
  local merged = stroke.of(self[STEPS][at])
  if nested then register_part(self, label, merged, fx) end
  merged:add(fx)
  self[STEPS][at] = merged
  if self.merge_window then self.times[at] = now() end
  drop_empty(self, merged)
end

-- The run has returned.  The core knows of a single write whether it changes
-- anything, but not of a mutator's call.
local function add(self, label, fx, nested)
  if (#fx > 1 or private.has_states) and stroke.changes_nothing(fx) then
    return
  end
  if self.merging[label] and not self[SEALED] and
    merges(self, label, self[AT], now()) then
    merge(self, label, fx, nested)
  else
    put(self, label, fx, nested)
  end
end

local function tell(self, fx, label, direction)
  if self[ON_STEP] then
    protect("on_step", self[ON_STEP], fx, label, direction)
  end
end

local function finish(self, label, ok, fx, ...)
  if not ok then error(fx, 0) end
  if self[ON_STEP] and #fx > 0 and not stroke.changes_nothing(fx) then
    tell(self, fx, label, "run")
  end
  return ...
end

-- Results of a run inside another run.
local function inner(ok, fx, ...)
  if not ok then error(fx, 0) end
  return ...
end

local function run_step(self, label, fn, ...)
  if is_in_run(self) then return inner(run(nil, nil, nil, fn, ...)) end
  return finish(self, label, run(add, self, label, fn, ...))
end

--- Calls `fn(...)` as a step and returns its results.  If the function raises,
-- all writes are taken back, and the error goes on.  A run that changes nothing
-- is no step; a run inside another run is part of the outer step.
History.run = private.runner(History, run_step, add)

-- }======================================================

-- {======================================================
-- Undo and redo
-- =======================================================

-- Registers that the step is done, or undone, if the transaction around it is
-- taken back.  Others may have dropped a step that is undone, or have put steps
-- after one that is done.
local function register_travel(self, number, by)
  local step, sealed = self[STEPS][number], self[SEALED]
  local label, time = self[NAMES][number], self.times[number]
  local before = step_at(self, number - 1)
  on_rollback(function()
    local i = place_of(self, step)
    if by < 0 and not i then
      insert(self, before, label, step, time)
    elseif by < 0 then
      if self[AT] == i - 1 then self[AT] = i end
    elseif i and self[AT] == i then
      self[AT] = i - 1
    elseif i and self[AT] > i then
      remove(self, i)
    end
    self[SEALED] = sealed or self[AT] < self[LAST] or
      step_at(self, self[AT]) ~= step
  end)
end

-- The writes of an undo or a redo are made.
local function arrive(self, by, _, nested)
  local number = by < 0 and self[AT] or self[AT] + 1
  if nested then register_travel(self, number, by) end
  self[SEALED] = true
  self[AT] = self[AT] + by
end

-- Undoes (by -1) or does again (by 1) the step `number`.
local function travel(self, number, by)
  local at = self[AT]
  local label, direction = self[NAMES][number], by < 0 and "undo" or "redo"
  local fx = stroke.effects(self[STEPS][number])
  local done, problem, entry = recorded.travel(fx, by, self.on_conflict, arrive,
    self, by)
  if not done then return nil, problem, entry end
  if self[AT] == at then arrive(self, by, done, in_transaction()) end
  tell(self, done, label, direction)
  recorded.raise(problem)
  return label
end

local function undo(self)
  check_idle(self, "undo")
  if self[AT] < self[FIRST] then return nil end
  return travel(self, self[AT], -1)
end

local function redo(self)
  check_idle(self, "redo")
  if self[AT] >= self[LAST] then return nil end
  return travel(self, self[AT] + 1, 1)
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
  self = state_of(self, "can_undo")
  return self[AT] >= self[FIRST]
end

function History:can_redo()
  self = state_of(self, "can_redo")
  return self[AT] < self[LAST]
end

--- Returns the labels of the steps that can be undone, oldest first.
function History:labels()
  self = state_of(self, "labels")
  return table.move(self[NAMES], self[FIRST], self[AT], 1, {})
end

--- Tells the history that the program has saved the present state.
function History:mark_saved()
  self = state_of(self, "mark_saved")
  local base = self[BASE][1] or {}
  self[BASE][1] = base
  self.saved = step_at(self, self[AT])
end

--- Tells whether the present state is the saved one.
function History:is_saved()
  self = state_of(self, "is_saved")
  return self.saved ~= nil and self.saved == step_at(self, self[AT])
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
  local runs, sealed = merged:count(), self[SEALED]
  on_rollback(function()
    split(self, merged, former, runs)
    self[SEALED] = sealed or self[AT] < self[LAST]
  end)
  if self.saved == self[STEPS][self[AT]] then self.saved = merged end
  self[STEPS][first], self.times[first] = merged, self.times[self[AT]]
  self[AT] = first
  cut(self, first)
  drop_empty(self, merged)
end

-- What needs memory comes before the first change.
local function merge_from_now_on(self, label)
  local merging, former = self.merging, self.merging[label]
  merging[label] = former or false -- there is a place
  on_rollback(function() merging[label] = former end)
  self[SPECIAL] = true
  local at = self[AT]
  local first = at
  if at == self[LAST] and self[NAMES][at] == label then
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
  self = state_of(self, "merge")
  check.argument(type(label) == "string", 1, "merge", "string", label)
  private.quietly(merge_from_now_on, self, label)
end

--- Makes the next run a step of its own, though its label is merged.
function History:seal()
  self = state_of(self, "seal")
  if self[SEALED] then return end
  on_rollback(function() self[SEALED] = self[AT] < self[LAST] end)
  self[SEALED] = true
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
  local special = opts.merge_window or opts.on_step
  local self = {
    0, 1, 0, false, 0, {}, {}, opts.on_step or false,
    special ~= nil or opts.limit or false, { base },
    times = {}, saved = base,
    puts = setmetatable({}, { __mode = "v" }),
    merging = {}, limit = opts.limit or math.huge,
    merge_window = opts.merge_window, on_conflict = opts.on_conflict,
  }
  setmetatable(self[BASE], { __mode = "v" })
  return new(self)
end

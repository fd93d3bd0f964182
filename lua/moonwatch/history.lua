--- mw.history: steps that can be undone and done again.
-- SPDX-License-Identifier: MIT
--
--     names    "a"   "b"   "c"   "d"
--     steps    fx    fx  stroke   fx
--     ids      3     4      5      7
--               ^           ^     ^
--             FIRST        AT    LAST
--
-- The steps from FIRST to AT are done, those up to LAST are undone.  A step is
-- effects, or a stroke: runs that are merged.  `times` has the time of each
-- step's last run if there is a window.
-- An id stands for the state after a step, and is given once: LAST_ID is the
-- last one.  BASE is the id of the state before all steps.  SAVED is the id of
-- the state that the program has saved; if that cannot come back, it is false,
-- or the id of no step.  If the history is SEALED, the next run is a step of
-- its own; if not, no step is undone.
--
-- A history is a userdata of the core.  The core has plain steps, which it
-- runs, undoes and does again without the functions here.  When these ask for
-- the state, there are no plain steps: see history.c.
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

local OUT = "out"

-- Fields of the state of a history: as in history.c.
local AT <const>, FIRST <const>, LAST <const> = 1, 2, 3
local SEALED <const>, LAST_ID <const> = 4, 5
local BASE <const>, SAVED <const> = 6, 7
local NAMES <const>, STEPS <const>, IDS <const> = 8, 9, 10

local open = private.history_state

local function check_idle(history, name)
  if is_in_run(history) then
    error(("calling '%s' while a run is under way"):format(name), 4)
  end
end

-- {======================================================
-- Steps
-- =======================================================

local function new_id(self)
  self[LAST_ID] = self[LAST_ID] + 1
  return self[LAST_ID]
end

-- Returns the id of the state after the step `at`.
local function id_at(self, at)
  return at < self[FIRST] and self[BASE] or self[IDS][at]
end

local function place_of(self, step)
  for i = self[LAST], self[FIRST], -1 do
    if self[STEPS][i] == step then return i end
  end
end

-- Returns the place of the step after which the state has the id.
local function place_of_id(self, id)
  for i = self[LAST], self[FIRST], -1 do
    if self[IDS][i] == id then return i end
  end
end

-- The states from the step `i` on are not those any more that there were.
local function change_states(self, i)
  for k = i, self[LAST] do
    if self[SAVED] == self[IDS][k] then self[SAVED] = false end
  end
end

-- Arrays with something of each step.
local ARRAYS = { NAMES, STEPS, IDS, "times" }

local function move(self, from, to)
  local last = math.max(from, self[LAST] + 1)
  for _, name in ipairs(ARRAYS) do
    table.move(self[name], from, last, to)
  end
end

local function set(self, i, label, step, id, time)
  self[NAMES][i], self[STEPS][i], self[IDS][i] = label, step, id
  self.times[i] = time
end

local function remove(self, i)
  change_states(self, i)
  move(self, i + 1, i)
  self[LAST] = self[LAST] - 1
  if self[AT] >= i then self[AT] = self[AT] - 1 end
end

-- Puts a step in after the step with the id `before`.
local function insert(self, before, label, step, id, time)
  local i = (place_of_id(self, before) or self[FIRST] - 1) + 1
  change_states(self, i)
  move(self, i, i + 1)
  set(self, i, label, step, id, time)
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
  local list = { n = self[LAST] - i + 1 }
  for _, name in ipairs(ARRAYS) do
    list[name] = table.move(self[name], i, self[LAST], 1, {})
  end
  return list
end

-- Forgets the steps after `i`.
local function cut(self, i)
  for k = self[LAST], i + 1, -1 do set(self, k) end
  self[LAST] = i
end

local function oldest_of(self)
  local first = self[FIRST]
  return {
    first = first, label = self[NAMES][first], step = self[STEPS][first],
    id = self[IDS][first], time = self.times[first], base = self[BASE],
  }
end

local function drop_oldest(self)
  local first = self[FIRST]
  self[BASE] = self[IDS][first]
  set(self, first)
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
  elseif next > self.n_puts and i and i > self[LAST] then
    for _, name in ipairs(ARRAYS) do
      table.move(undone[name], 1, undone.n, self[LAST] + 1, self[name])
    end
    self[LAST] = self[LAST] + undone.n
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
  if i and oldest and self[FIRST] == oldest.first + 1 then
    local first = oldest.first
    set(self, first, oldest.label, oldest.step, oldest.id, oldest.time)
    self[FIRST], self[BASE] = first, oldest.base
  elseif self[BASE] == known.id then
    self[BASE] = known.base
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
  while self.puts[self.n_puts] == OUT do
    self.puts[self.n_puts] = nil
    self.n_puts = self.n_puts - 1
  end
end

-- Registers that a run is withdrawn if its transaction is taken back.  Returns
-- what is known of the run.
local function register(self, fx)
  local at, number = self[AT], self.n_puts + 1
  local known = {
    is_put = false, number = number, sealed = self[SEALED],
    base = self[BASE], id = self[LAST_ID] + 1,
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
  set(self, at, label, fx, new_id(self), self.merge_window and now())
  self.n_puts = self.n_puts + 1
  if at < self[LAST] then cut(self, at) end
  self[AT], self[LAST], self[SEALED] = at, at, false
  if at - self[FIRST] >= self.limit then drop_oldest(self) end
  if known then known.is_put = true end
end

-- Does a run with this label, whose runs are merged, become one step with the
-- step `at`, before it?
local function merges(self, label, at, time)
  return at >= self[FIRST] and self[NAMES][at] == label and
    self[SAVED] ~= self[IDS][at] and
    (not self.merge_window or time - self.times[at] <= self.merge_window)
end

-- Takes the stroke, which is the last step, out if it does nothing.  The state
-- after it is that before.
local function drop_empty(self, merged)
  if not merged:is_empty() then return end
  local at = self[AT]
  local id, before = self[IDS][at], id_at(self, at - 1)
  local is_saved = self[SAVED] == id
  merged.id, merged.before, merged.is_saved = id, before, is_saved
  remove(self, at)
  if is_saved then self[SAVED] = before end
  merged.is_out, self[SEALED] = true, true
end

-- Puts a stroke in again that was taken out.
local function restore(self, label, merged, time)
  if not merged.is_out then return end
  local was_saved = merged.is_saved and self[SAVED] == merged.before
  insert(self, merged.before, label, merged, merged.id, time)
  if was_saved then self[SAVED] = merged.id end
  merged.is_out, merged.is_saved = false, false
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
local function add(history, label, fx, nested)
  local self = open(history)
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
  if self.on_step then
    protect("on_step", self.on_step, fx, label, direction)
  end
end

local function finish(history, label, ok, fx, ...)
  if not ok then error(fx, 0) end
  local self = open(history)
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

-- Calls `fn(...)` as a step and returns its results.  If the function raises,
-- all writes are taken back, and the error goes on.  A run that changes nothing
-- is no step; a run inside another run is part of the outer step.
local function run_step(history, label, fn, ...)
  if is_in_run(history) then return inner(run(nil, nil, nil, fn, ...)) end
  return finish(history, label, run(add, history, label, fn, ...))
end

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
  local before, id = id_at(self, number - 1), self[IDS][number]
  on_rollback(function()
    local i = place_of(self, step)
    if by < 0 and not i then
      insert(self, before, label, step, id, time)
    elseif by < 0 then
      if self[AT] == i - 1 then self[AT] = i end
    elseif i and self[AT] == i then
      self[AT] = i - 1
    elseif i and self[AT] > i then
      remove(self, i)
    end
    self[SEALED] = sealed or self[AT] < self[LAST] or
      id_at(self, self[AT]) ~= id
  end)
end

-- The writes of an undo (`by` is -1) or a redo (1) are made.
local function arrive(history, by, nested)
  local self = open(history)
  local number = by < 0 and self[AT] or self[AT] + 1
  if nested then register_travel(self, number, by) end
  self[SEALED] = true
  self[AT] = self[AT] + by
end

-- The transaction of the writes has the step's label.
local function undone(history, _, _, nested) arrive(history, -1, nested) end

local function redone(history, _, _, nested) arrive(history, 1, nested) end

-- Undoes (by -1) or does again (by 1) the step `number`.
local function travel(history, number, by)
  local self = open(history)
  local at = self[AT]
  local label, direction = self[NAMES][number], by < 0 and "undo" or "redo"
  local fx = stroke.effects(self[STEPS][number])
  local done, problem, entry = recorded.travel(fx, by, self.on_conflict,
    by < 0 and undone or redone, history, label)
  if not done then return nil, problem, entry end
  if self[AT] == at then arrive(history, by, in_transaction()) end
  tell(self, done, label, direction)
  recorded.raise(problem)
  return label
end

-- Takes the last step back.  Returns its label; nil if there is no step; nil,
-- a message and the entry if the objects have changed meanwhile, or a check
-- refuses.
local function undo(history)
  check_idle(history, "undo")
  local self = open(history)
  if self[AT] < self[FIRST] then return nil end
  return travel(history, self[AT], -1)
end

-- Does the step again that was undone last.  Returns what `undo` returns.
local function redo(history)
  check_idle(history, "redo")
  local self = open(history)
  if self[AT] >= self[LAST] then return nil end
  return travel(history, self[AT] + 1, 1)
end

private.prepare_histories(run_step, add, undo, redo)

-- }======================================================

-- {======================================================
-- The state of a history
-- =======================================================

-- The core has the other methods.
local History = private.history_methods

-- Returns the state of a history; `name` is the method that is called.
local function state_of(history, name)
  local self = open(history)
  check.self(self, name, "history", history)
  return self
end

-- Takes the steps apart that `merge` has joined, unless other runs were added
-- or taken out since.
local function split(self, merged, former, runs)
  restore(self, former[NAMES][1], merged)
  local i = place_of(self, merged)
  if not i or merged:count() ~= runs then return end
  local saved, before = self[SAVED], id_at(self, i - 1)
  remove(self, i)
  for k = 1, former.n do
    local id = former[IDS][k]
    insert(self, before, former[NAMES][k], former[STEPS][k], id,
      former.times[k])
    before = id
  end
  self[SAVED] = saved
end

-- Makes one step of the last steps, from `first` on, or none.  The state after
-- them is the same.
local function join(self, first)
  local former = list_from(self, first)
  local merged = stroke.join(former[STEPS])
  local runs, sealed = merged:count(), self[SEALED]
  on_rollback(function()
    split(self, merged, former, runs)
    self[SEALED] = sealed or self[AT] < self[LAST]
  end)
  local at = self[AT]
  self[STEPS][first], self[IDS][first] = merged, self[IDS][at]
  self.times[first] = self.times[at]
  cut(self, first)
  self[AT] = first
  drop_empty(self, merged)
end

-- What needs memory comes before the first change.
local function merge_from_now_on(history, label)
  local self = open(history)
  local merging, former = self.merging, self.merging[label]
  merging[label] = former or false -- there is a place
  on_rollback(function() merging[label] = former end)
  private.make_special(history)
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
  state_of(self, "merge")
  check.argument(type(label) == "string", 1, "merge", "string", label)
  private.quietly(merge_from_now_on, self, label)
end

--- Makes the next run a step of its own, though its label is merged.
function History:seal(...)
  self = state_of(self, "seal")
  check.nothing("seal", ...)
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
  local self = {
    0, 1, 0, false, 0, 0, 0, {}, {}, {}, times = {},
    n_puts = 0, puts = setmetatable({}, { __mode = "v" }), merging = {},
    limit = opts.limit or math.huge, merge_window = opts.merge_window,
    on_step = opts.on_step, on_conflict = opts.on_conflict,
  }
  local is_special = opts.merge_window or opts.on_step
  return private.new_history(self, is_special, opts.limit or 0)
end

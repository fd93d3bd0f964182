--- Applying pending effects.
-- SPDX-License-Identifier: MIT
--
-- The effects are applied in a transaction, and the transaction decides what
-- became of them: if it is taken back, the effects get back what they had to
-- do.  Before the writes, all that there is to do is taken out of the effects;
-- what the program adds while they are written is for the next time.

local core = require "moonwatch.core"
local hook = require "moonwatch.effects.hook"
local name_of = require "moonwatch.effects.name_of"
local pending = require "moonwatch.effects.pending"
local protect = require "moonwatch.protect"
local recorded = require "moonwatch.effects.recorded"
local transaction = require "moonwatch.transaction"

local private = core.private

local perform = {}

local MEMORY = "not enough memory"

-- {======================================================
-- Before and after
-- =======================================================

local function copy(t)
  local result = {}
  for key, value in next, t do result[key] = value end
  return result
end

--- Returns a copy of the state of effects.
function perform.copy(its)
  local result = copy(its)
  result.items, result.of = copy(its.items), copy(its.of)
  result.globals = {}
  for name, envs in next, its.globals do result.globals[name] = copy(envs) end
  result.pending = pending.copy(its.pending)
  return result
end

-- The transaction was taken back: the effects get back what they had to do.  If
-- they had been applied, what was added meanwhile comes last; `clear` makes
-- another life of them, with other scopes.
local function give_back(self, applying)
  local before = applying.before
  for i = #applying.hooks, 1, -1 do
    protect("the end of a hook", hook.undo, applying.hooks[i])
  end
  if not applying.is_done then
    self.its = before
  elseif self.its.scopes == before.scopes then
    local later = self.its.pending
    self.its.pending = before.pending
    pending.add(before.pending, later)
  end
end

-- }======================================================

-- {======================================================
-- Saves and hooks
-- =======================================================

local function check_all(now)
  for i, save in ipairs(now.saves) do
    if save[1].save == nil then
      error(("save %d: its object has no method 'save'"):format(i), 0)
    end
  end
  for _, its in ipairs(pending.hooks(now)) do hook.check(its) end
end

-- Makes the saves, also those that a save adds, and registers the hooks.
-- Raises before the first call if one of them is impossible.
local function call(self, applying)
  local now = self.its.pending
  check_all(now)
  local save = now.saves[1]
  while save do
    save[1]:save(table.unpack(save, 2, save.n))
    applying.saved = applying.saved + 1
    save = now.saves[applying.saved + 1]
  end
  for _, its in ipairs(pending.hooks(now)) do
    applying.hooks[#applying.hooks + 1] = its
    hook.register(its)
  end
end

-- }======================================================

-- {======================================================
-- Writes
-- =======================================================

-- The key of a cell is the key that a transaction uses for the cell.
local function key_of(item, entry)
  if private.is_cell(item.object) then
    return (select(3, private.cell_value(item.object)))
  end
  return item.env and item.name or entry.key
end

--- Returns the writes that there are to do, in the order of the program.
function perform.writes(self)
  local list = {}
  for i, entry in ipairs(pending.writes(self.its.pending)) do
    local item = self.its.of[entry.object]
    list[i] = {
      object = item.env or item.object, key = key_of(item, entry),
      new = entry.value, kind = entry.deleted and "delete" or "update",
      where = entry.where,
    }
  end
  return list
end

-- Returns the value that a field holds, raw.
local function value_of(e)
  if private.is_cell(e.object) then
    return select(2, private.cell_value(e.object))
  elseif type(e.object) == "table" then
    return rawget(private.raw(e.object), e.key)
  end
  return e.object[e.key]
end

--- Returns the writes that there are to do as effects, and the calls that come
-- before: the saves and the hooks.
function perform.preview(self)
  local now, calls, entries = self.its.pending, {}, {}
  for _, save in ipairs(now.saves) do
    calls[#calls + 1] = table.pack(save[1], "save",
      table.unpack(save, 2, save.n))
  end
  for _, its in ipairs(pending.hooks(now)) do
    calls[#calls + 1] = table.pack(its.object, "on", its.event, its.fn)
  end
  for _, e in ipairs(perform.writes(self)) do
    e.old = value_of(e)
    if e.old == nil and e.kind == "update" then e.kind = "insert" end
    if e.old ~= nil or e.kind == "insert" then entries[#entries + 1] = e end
  end
  return private.effects(entries), calls
end

-- Takes all that there is to do out of the effects, but for what the functions
-- that register hooks have added.
local function take(self, applying)
  local now, rest = self.its.pending, pending.none()
  local last = applying.hooks[#applying.hooks]
  for index, its in next, now.hooks do
    if last and index > last.index then rest.hooks[index] = its end
  end
  table.move(now.saves, applying.saved + 1, #now.saves, 1, rest.saves)
  applying.finals = now.finals
  self.its.pending, self.its.applying = rest, false
end

-- }======================================================

-- {======================================================
-- Afterwards
-- =======================================================

-- Calls the callbacks.  Returns the first error in a table, or nil.
local function finish(applying, problem)
  for _, final in ipairs(applying.finals) do
    local ok, err = pcall(final)
    if not ok then problem = problem or { err } end
  end
  return problem
end

-- Returns the same effects; each entry knows where the write was stored.
local function placed(fx, list)
  local places, entries = {}, recorded.list(fx)
  for _, e in ipairs(list) do
    local its = places[e.object] or {}
    places[e.object] = its
    its[name_of(e.key)] = e.where
  end
  for _, e in ipairs(entries) do
    local its = places[e.object]
    e.where = its and its[name_of(e.key)] or e.where
  end
  return private.effects(entries)
end

-- The message says what cannot be taken back.
local function told(message, saved)
  if saved == 0 or message == MEMORY then return message end
  return ("%s (%d %s made)"):format(message, saved,
    saved == 1 and "save was" or "saves were")
end

-- }======================================================

--- Applies effects: saves, hooks, the writes in the order of the program,
-- callbacks.  Returns the effects of the writes; or nil, a message and the
-- entry that failed.
function perform.apply(self)
  local applying = {
    before = perform.copy(self.its), hooks = {}, saved = 0, finals = {},
    is_done = false,
  }
  local list
  local function prepare()
    transaction.on_rollback(function() give_back(self, applying) end)
    self.its.applying = true
    call(self, applying)
    list = perform.writes(self)
    take(self, applying)
    return list
  end
  local fx, problem, entry = recorded.write(prepare)
  if not fx then return nil, told(problem, applying.saved), entry end
  if self.opts.where then fx = placed(fx, list) end
  problem = finish(applying, problem)
  applying.is_done = true
  recorded.raise(problem)
  return fx
end

return perform

--- Applying a plan.
-- SPDX-License-Identifier: MIT
--
-- The writes are made in a transaction, and the transaction decides what became
-- of them: if it is taken back, the plan gets back what it had to do.  Before
-- the writes, all that there is to do is taken out of the plan; what the
-- program adds while they are made is for the next time.

local core = require "moonwatch.core"
local hook = require "moonwatch.effects.hook"
local name_of = require("moonwatch.effects.fold").name_of
local pending = require "moonwatch.effects.pending"
local protect = require "moonwatch.protect"
local recorded = require "moonwatch.effects.recorded"
local transaction = require "moonwatch.transaction"

local private = core.private

local perform = {}

local MEMORY = "not enough memory"

-- The transaction was taken back: the plan gets back what it had to do.  If it
-- had been applied, what was added meanwhile comes last; `clear` makes another
-- life of it, with other scopes.
local function give_back(self, applying)
  for i = #applying.hooks, 1, -1 do
    protect("the end of a hook", hook.undo, applying.hooks[i])
  end
  local later = self.its
  if not applying.is_done then
    self.its, self.applying = applying.before, false
  elseif self.scopes == applying.scopes then
    self.its = applying.before
    pending.add(self.its, later)
  end
end

-- Makes the saves, also those that a save adds, and registers the hooks.
-- Raises before the first call if one of them is impossible.
local function call(self, applying)
  local its = self.its
  for i, save in ipairs(its.saves) do
    if save[1].save == nil then
      error(("save %d: its object has no method 'save'"):format(i), 0)
    end
  end
  for _, registered in ipairs(pending.hooks_of(its)) do
    hook.check(registered)
  end
  local save = its.saves[1]
  while save do
    save[1]:save(table.unpack(save, 2, save.n))
    applying.saved = applying.saved + 1
    save = its.saves[applying.saved + 1]
  end
  for _, registered in ipairs(pending.hooks_of(its)) do
    applying.hooks[#applying.hooks + 1] = registered
    hook.register(registered)
  end
end

-- Returns the writes that there are to do, in the order of the program.  The
-- key of a cell is the key that a transaction uses for the cell.
local function writes_of(its)
  local list = pending.writes(its)
  for i, entry in ipairs(list) do
    local item, key = its.of[entry.object], entry.key
    if private.is_cell(item.object) then
      key = select(3, private.cell_value(item.object))
    end
    list[i] = {
      object = item.env or item.object, key = item.env and item.name or key,
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
  local calls, entries = {}, {}
  for _, save in ipairs(self.its.saves) do
    calls[#calls + 1] = table.pack(save[1], "save",
      table.unpack(save, 2, save.n))
  end
  for _, its in ipairs(pending.hooks_of(self.its)) do
    calls[#calls + 1] = table.pack(its.object, "on", its.event, its.fn)
  end
  for _, e in ipairs(writes_of(self.its)) do
    e.old = value_of(e)
    if e.old == nil and e.kind == "update" then e.kind = "insert" end
    if e.old ~= nil or e.kind == "insert" then entries[#entries + 1] = e end
  end
  return private.effects(entries), calls
end

-- Takes all that there is to do out of the plan, but for what the functions
-- that register hooks have added.
local function take(self, applying)
  local its, rest = self.its, pending.none()
  local last = applying.hooks[#applying.hooks]
  for index, registered in next, its.hooks do
    if last and index > last.index then rest.hooks[index] = registered end
  end
  table.move(its.saves, applying.saved + 1, #its.saves, 1, rest.saves)
  for _, name in ipairs { "items", "of", "globals", "tracked" } do
    rest[name] = its[name]
  end
  applying.finals, self.its, self.applying = its.finals, rest, false
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

--- Applies a plan: saves, hooks, the writes in the order of the program,
-- callbacks.  Returns the effects of the writes; or nil, a message, which says
-- what cannot be taken back, and the entry that failed.
function perform.apply(self)
  local applying = {
    before = pending.copy(self.its), scopes = self.scopes, hooks = {},
    saved = 0, is_done = false,
  }
  local list
  local fx, problem, entry = recorded.write(function()
    transaction.on_rollback(function() give_back(self, applying) end)
    self.applying = true
    call(self, applying)
    list = writes_of(self.its)
    take(self, applying)
    return list
  end)
  if not fx then
    if applying.saved > 0 and problem ~= MEMORY then
      problem = ("%s (%d %s made)"):format(problem, applying.saved,
        applying.saved == 1 and "save was" or "saves were")
    end
    return nil, problem, entry
  end
  if self.opts.where then fx = placed(fx, list) end
  for _, final in ipairs(applying.finals) do
    local ok, err = pcall(final)
    if not ok then problem = problem or { err } end
  end
  applying.is_done = true
  recorded.raise(problem)
  return fx
end

return perform

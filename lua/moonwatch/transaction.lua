--- mw.begin, mw.transaction: what a piece of code writes, recorded and undone.
-- SPDX-License-Identifier: MIT
--
-- Those that are open are a stack, for all of them read one journal: `mark` is
-- where each began.  The stack knows them by what is in `its`; the program has
-- a handle, so that one that it loses is found by the collector.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local reads = require "moonwatch.reads"
local same = require "moonwatch.same"

local private = core.private

-- One stack for all copies of this file, as there is one journal.
private.transactions = private.transactions or {}
local stack = private.transactions
local traced = private.traced()

local transaction = {}

local NONE = {}

-- {======================================================
-- Cells: upvalues are compared when a transaction begins or ends
-- =======================================================

-- The upvalues of the functions, with what is known of each: its value, and
-- the place in the journal where that was noted.
local function read_cells(functions)
  local cells = {}
  for _, fn in ipairs(functions) do
    local i = 1
    local cell = private.cell(fn, i)
    while cell do
      if not cells[cell] then
        local _, value = private.cell_value(cell)
        cells[#cells + 1] = cell
        cells[cell] = { value = value, at = 0 }
      end
      i = i + 1
      cell = private.cell(fn, i)
    end
  end
  return cells
end

--- Says that what a cell has now is noted already.
function transaction.noted(cell)
  local _, value = private.cell_value(cell)
  local at = private.position()
  for _, its in ipairs(stack) do
    local known = its.cells and its.cells[cell]
    if known then known.value, known.at = value, at end
  end
end

-- Calls `f(cell, known)` for the cells of all that are open.
local function each_cell(f, ...)
  for _, its in ipairs(stack) do
    for _, cell in ipairs(its.cells or NONE) do
      f(cell, its.cells[cell], ...)
    end
  end
end

local function note(cell, known)
  local _, value = private.cell_value(cell)
  if same(value, known.value) then return end
  private.note(cell, private.cell_name(cell), known.value, value)
  transaction.noted(cell)
end

local function note_cells() each_cell(note) end

-- What was noted after the mark is taken back now.
local function know(cell, known, mark)
  if known.at > mark then transaction.noted(cell) end
end

--- Effects were taken back, and that is noted.
function transaction.undone(fx)
  local wanted = false
  for _, its in ipairs(stack) do wanted = wanted or its.cells ~= nil end
  for i = 1, wanted and #fx or 0 do
    local object = private.entry(fx, i)
    if private.is_cell(object) then transaction.noted(object) end
  end
end

--- Is any under way?
function transaction.is_open() return stack[1] ~= nil end

--- Calls `f` if the innermost transaction, or one further out, is taken back.
-- To be called before anything is changed.
function transaction.on_rollback(f)
  local its = stack[#stack]
  if not its then return end
  its.undone = its.undone or {}
  table.insert(its.undone, f)
end

-- What is to be called is the next one's now.
local function hand_out(its)
  local outer = stack[#stack - 1]
  for _, f in ipairs(its.undone or NONE) do
    if outer then
      outer.undone = outer.undone or {}
      table.insert(outer.undone, f)
    end
  end
  its.undone = nil
end

local function tell_undone(its)
  local list = its.undone
  its.undone = nil
  for i = list and #list or 0, 1, -1 do list[i]() end
end

-- Takes back all that was noted since `its` began, cells included.  While it
-- is `ending`, guards that hear of that may not end it, nor one further out.
local function take_back(its)
  its.ending = true
  local ok, problem = pcall(private.rewind, its.mark, its.refs)
  its.ending = false
  if not ok then error(problem, 0) end
  tell_undone(its)
  each_cell(know, its.mark)
  return problem
end

-- }======================================================

-- {======================================================
-- Beginning and ending
-- =======================================================

local function prepare(its, opts)
  its.where = opts.where
  if opts.cells then its.cells = read_cells(opts.cells) end
  if opts.globals and not private.is_tracked(opts.globals) then
    its.globals = core.track(opts.globals)
  end
  its.wants_reads, its.reads = opts.reads, false
end

local function forget_globals(its)
  if its.globals then core.untrack(its.globals) end
  its.globals = nil
end

-- A trace is told how it ended.  If there is no memory for that, the collector
-- ends the scope.
local function close_scope(its)
  local scope = its.scope
  its.scope = nil
  scope:add("result", its.committed and "commit" or "rollback")
  scope:close()
end

-- Takes the innermost one from the stack.
local function pop()
  local its = stack[#stack]
  stack[#stack] = nil
  its.open = false
  private.unrecord(its.where)
  if its.reads then reads.finish() end
  forget_globals(its)
  if its.scope then pcall(close_scope, its) end
end

-- Is it, or one in it, taken back just now?
local function is_ending(its)
  for i = #stack, 1, -1 do
    if stack[i].ending then return true end
    if stack[i] == its then return false end
  end
  return false
end

-- Those that began later and were not ended are part of it now.
local function end_inner(its)
  if is_ending(its) then
    error("a transaction ends while it is taken back", 0)
  end
  note_cells()
  while stack[#stack] ~= its do
    hand_out(stack[#stack])
    pop()
  end
end

-- Those that nobody can end any more.  If there is no memory for that, it is
-- tried again with the next one.
local function end_abandoned()
  local its = stack[#stack]
  while its and its.abandoned and not its.ending do
    note_cells()
    if its.open then take_back(its) end
    pop()
    its = stack[#stack]
  end
end

-- From when it is open, the collector ends it if the rest fails.
local function open(its)
  end_abandoned()
  note_cells()
  local n = #stack + 1
  stack[n] = its
  local ok, mark, refs = pcall(private.record, its.where)
  if not ok then
    stack[n] = nil
    error(mark, 0)
  end
  its.mark, its.refs, its.open = mark, refs, true
  if traced.transaction then
    its.scope = private.begin_scope("transaction", "transaction")
  end
  if its.wants_reads then its.reads = reads.begin() end
end

-- `done(fx)`, if there is one, is called while there is still a way back.
local function commit(its, done)
  end_inner(its)
  local fx = private.cut(its.mark)
  if done then done(fx) end
  if its.reads then transaction.reads[fx] = its.reads end
  hand_out(its)
  its.committed = true
  pop()
  its.committed = false
  end_abandoned()
  return fx
end

-- Answers the first error of a guard.
local function rewind(its)
  end_inner(its)
  local problem = take_back(its)
  pop()
  end_abandoned()
  return problem
end

--- Effects -> what was read, of those that know.
transaction.reads = setmetatable({}, { __mode = "k" })

-- }======================================================

-- {======================================================
-- What programs see
-- =======================================================

local Transaction = {}
Transaction.__index = Transaction
Transaction.__name = "transaction"
Transaction.__metatable = false

local function its_own(self, name)
  if private.metatable(self) ~= Transaction then
    error(("calling '%s' on bad self (transaction expected, got %s)"):format(
      name, type(self)), 3)
  end
  if not self.its.open then
    error(("calling '%s' on a transaction that has ended"):format(name), 3)
  end
  if is_ending(self.its) then
    error(("calling '%s' while the transaction is taken back"):format(name), 3)
  end
  return self.its
end

--- Ends it; what it wrote stays.  Answers the effects.
function Transaction:commit()
  local fx = commit(its_own(self, "commit"))
  return fx
end

--- Ends it and takes back what it wrote.  Answers the effects, for a later
-- `apply`.
function Transaction:rollback()
  local its = its_own(self, "rollback")
  end_inner(its)
  local fx = private.cut(its.mark)
  if its.reads then transaction.reads[fx] = its.reads end
  local problem = rewind(its)
  if problem ~= nil then error(problem, 0) end
  return fx
end

-- The error of a guard that has nowhere to go.
local function tell(problem)
  if problem ~= nil then warn("error in a guard (", tostring(problem), ")") end
end

function Transaction:__close(err)
  if not self.its.open then return end
  local problem = rewind(self.its)
  if err ~= nil then return tell(problem) end
  if problem ~= nil then error(problem, 0) end
end

function Transaction:__gc()
  self.its.abandoned, self.its.ending = true, false
  end_abandoned()
  if not self.its.open then forget_globals(self.its) end
end

-- One that no program has, to be used again: handles have a finaliser, which
-- makes them dear.
local spare

local function new_handle()
  return setmetatable({
    its = { open = false, ending = false, mark = 0, refs = 0,
      abandoned = false, committed = false }, -- set without memory
  }, Transaction)
end

local OPTIONS = {
  where = "boolean", globals = "table", cells = "table", reads = "boolean",
}

--- Begins to record what is written to all watched and tracked objects.
function transaction.begin(opts)
  check.argument(opts == nil or type(opts) == "table", 1, "begin", "table",
    opts)
  opts = opts or NONE
  check.options(opts, OPTIONS, 1, "begin")
  for i, fn in ipairs(opts.cells or NONE) do
    check.that(type(fn) == "function", 1, "begin",
      ("number %d in option 'cells' is not a function"):format(i))
  end
  local self = new_handle()
  prepare(self.its, opts)
  open(self.its)
  return self
end

local function fail(self, err)
  tell(rewind(self.its))
  return false, err
end

-- The function has raised, and what it wrote is undone, but for cells.  What
-- guards wrote when they heard of that stays.
local function fail_undone(self, err, problem)
  tell(problem)
  each_cell(know, self.its.mark)
  self.its.mark, self.its.refs = private.position()
  return fail(self, err)
end

-- Ends the transaction of a function that has returned or raised; in this case
-- most is undone.  Like everybody who ends one, it has the handle on its stack,
-- so that the collector does not find it meanwhile.
local function finish(self, done, ok, ...)
  if not self.its.open then
    if not ok then return false, (...) end
    error("'transaction': it was ended by the end of one further out", 2)
  end
  if not ok then return fail_undone(self, ...) end
  local fx
  ok, fx = pcall(commit, self.its, done)
  if not ok then return fail(self, fx) end
  spare = self
  return true, fx, ...
end

--- Calls `fn(...)` in a transaction, and `done` with the effects: if that
-- raises, it is as if `fn` had.
function transaction.run_until(done, fn, ...)
  local self = spare
  spare = nil
  if not self then self = new_handle() end
  open(self.its)
  return finish(self, done, private.protect(self.its, fn, ...))
end

--- Calls `fn(...)` in a transaction of its own.  Answers true, the effects and
-- the results; or false and the error, and then nothing is changed.
function transaction.run(fn, ...)
  check.argument(type(fn) == "function", 1, "transaction", "function", fn)
  return transaction.run_until(nil, fn, ...)
end

--- Calls `f(...)`; if it raises, what it wrote is taken back, and the error
-- goes on.  Answers its result.
function transaction.attempt(f, ...)
  local ok, fx, result = transaction.run(f, ...)
  if not ok then error(fx, 0) end
  return result
end

-- }======================================================

return transaction

--- mw.begin, mw.transaction: what a piece of code writes, recorded and undone.
-- SPDX-License-Identifier: MIT
--
-- Those that are open are a stack, for all of them read one journal: `mark` is
-- where each began.  The stack knows them by what is in `its`; the program has
-- a handle, so that one that it loses is found by the collector.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local reads = require "moonwatch.reads"

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

local function same(a, b)
  return rawequal(a, b) or a ~= a and b ~= b
end

-- The upvalues of the functions, with their values.
local function read_cells(functions)
  local cells = {}
  for _, fn in ipairs(functions) do
    local i = 1
    local cell = private.cell(fn, i)
    while cell do
      if not cells[cell] then
        local _, value = private.cell_value(cell)
        cells[#cells + 1] = cell
        cells[cell] = { value }
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
  for _, its in ipairs(stack) do
    if its.cells and its.cells[cell] then its.cells[cell] = { value } end
  end
end

-- Calls `f(cell, value, former value)` for what has changed in the cells of all
-- that are open, which need not know it again.
local function each_change(f)
  for _, its in ipairs(stack) do
    for _, cell in ipairs(its.cells or NONE) do
      local _, value = private.cell_value(cell)
      local former = its.cells[cell]
      if not same(value, former[1]) then
        f(cell, value, former[1])
        transaction.noted(cell)
      end
    end
  end
end

local function note(cell, value, former)
  private.note(cell, private.cell_name(cell), former, value)
end

local function note_cells() each_change(note) end

local function know() end

-- Takes back all that was noted since `its` began, cells included.
local function take_back(its)
  local problem = private.rewind(its.mark, its.refs)
  each_change(know)
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
  its.wants_reads = opts.reads
end

-- One that could not be opened is taken from the stack by the next.  From when
-- it is open, the collector ends it if the rest fails.
local function open(its)
  note_cells()
  while stack[1] and not stack[#stack].open do stack[#stack] = nil end
  stack[#stack + 1] = its
  its.mark, its.refs = private.record(its.where)
  its.open = true
  if traced.transaction then
    its.scope = private.begin_scope("transaction", "transaction")
  end
  if its.wants_reads then its.reads = reads.begin() end
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
  if its.open then
    its.open = false
    private.unrecord(its.where)
  end
  if its.reads then reads.finish() end
  forget_globals(its)
  if its.scope then pcall(close_scope, its) end
end

-- Those that began later and were not ended are part of it now.
local function end_inner(its)
  note_cells()
  while stack[#stack] ~= its do pop() end
end

-- Those that nobody can end any more.
local function end_abandoned()
  local its = stack[#stack]
  while its and its.abandoned do
    note_cells()
    take_back(its)
    pop()
    its = stack[#stack]
  end
end

local function commit(its)
  end_inner(its)
  local fx = private.cut(its.mark)
  if its.reads then transaction.reads[fx] = its.reads end
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
  self.its.abandoned = true
  if self.its.open then end_abandoned() else forget_globals(self.its) end
end

-- One that no program has, to be used again: handles have a finaliser, which
-- makes them dear.
local spare

local function new_handle()
  return setmetatable({ its = { open = false, mark = 0, refs = 0 } },
    Transaction)
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
  self.its.mark, self.its.refs = private.position()
  return fail(self, err)
end

-- Ends the transaction of a function that has returned or raised; in this case
-- most is undone.  Like everybody who ends one, it has the handle on its stack,
-- so that the collector does not find it meanwhile.
local function finish(self, ok, ...)
  if not self.its.open then
    if not ok then return false, (...) end
    error("'transaction': it was ended by the end of one further out", 2)
  end
  if not ok then return fail_undone(self, ...) end
  local fx
  ok, fx = pcall(commit, self.its)
  if not ok then return fail(self, fx) end
  spare = self
  return true, fx, ...
end

--- Calls `fn(...)` in a transaction of its own.  Answers true, the effects and
-- the results; or false and the error, and then nothing is changed.
function transaction.run(fn, ...)
  check.argument(type(fn) == "function", 1, "transaction", "function", fn)
  local self = spare
  spare = nil
  if not self then self = new_handle() end
  open(self.its)
  return finish(self, private.protect(self.its, fn, ...))
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

--- mw.begin, mw.transaction: the writes of a piece of code, recorded and
-- undone.
-- SPDX-License-Identifier: MIT
--
-- The open transactions are a stack, because all of them read one journal;
-- `mark` is the place in the journal where a transaction began.  The stack
-- holds the state of a transaction, `its`; the program holds a handle, so that
-- the collector finds a transaction whose handle the program has lost.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local reads = require "moonwatch.effects.reads"
local same = require "moonwatch.same"

local private = core.private

-- All copies of this file share the stack, because they share the journal.
private.transactions = private.transactions or {}
local stack = private.transactions
local traced = private.traced()

local transaction = {}

local NONE = {}

-- {======================================================
-- Cells: upvalues are compared when a transaction begins or ends
-- =======================================================

-- Returns the cells of the functions' upvalues.  For each cell the transaction
-- knows the value, and the place in the journal where the value was noted.
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

--- Tells all open transactions that the journal has the present value of a
-- cell.
function transaction.noted(cell)
  local _, value = private.cell_value(cell)
  local at = private.position()
  for _, its in ipairs(stack) do
    local known = its.cells and its.cells[cell]
    if known then known.value, known.at = value, at end
  end
end

-- Calls `f(cell, known)` for each cell of each open transaction.
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

-- A rollback to the mark has changed the cells that were noted after the mark.
local function know(cell, known, mark)
  if known.at > mark then transaction.noted(cell) end
end

--- Tells the open transactions that effects were undone, with an entry in the
-- journal for each cell.
function transaction.undone(fx)
  local wanted = false
  for _, its in ipairs(stack) do wanted = wanted or its.cells ~= nil end
  for i = 1, wanted and #fx or 0 do
    local object = private.entry(fx, i)
    if private.is_cell(object) then transaction.noted(object) end
  end
end

--- Tells whether a transaction is open.
function transaction.is_open() return stack[1] ~= nil end

--- Calls `f` if the innermost transaction, or one around it, is taken back.  To
-- be called before the first change.
function transaction.on_rollback(f)
  local its = stack[#stack]
  if not its then return end
  its.undone = its.undone or {}
  table.insert(its.undone, f)
end

-- Gives the functions that `on_rollback` was given to the outer transaction.
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

-- Takes back all writes since `its` began, cells included.  During that time
-- (`ending`) a guard may end neither this transaction nor one around it.
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

-- Tells the trace how the transaction ended.  If there is no memory for that,
-- the collector closes the scope.
local function close_scope(its)
  local scope = its.scope
  its.scope = nil
  scope:add("result", its.committed and "commit" or "rollback")
  scope:close()
end

-- Takes the innermost transaction from the stack.
local function pop()
  local its = stack[#stack]
  stack[#stack] = nil
  its.open = false
  private.unrecord(its.where)
  if its.reads then reads.finish() end
  forget_globals(its)
  if its.scope then pcall(close_scope, its) end
end

-- Tells whether the transaction, or one inside it, is being taken back now.
local function is_ending(its)
  for i = #stack, 1, -1 do
    if stack[i].ending then return true end
    if stack[i] == its then return false end
  end
  return false
end

-- Open transactions inside `its` become part of `its`.
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

-- Ends the innermost transactions whose handles are lost.  If there is no
-- memory for that, the end of the next transaction tries again.
local function end_abandoned()
  local its = stack[#stack]
  while its and its.abandoned and not its.ending do
    note_cells()
    if its.open then take_back(its) end
    pop()
    its = stack[#stack]
  end
end

-- The core takes the folder of the file that calls `record`, which is this
-- file, for the folder of the library; a line in that folder is no line of the
-- program.  So the core must be called from here, and not by pcall.
local function record(where)
  local mark, refs = private.record(where)
  return mark, refs
end

-- Once `its` is open, the collector can end the transaction if the rest fails.
local function open(its)
  end_abandoned()
  note_cells()
  local n = #stack + 1
  stack[n] = its
  local ok, mark, refs = pcall(record, its.where)
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

-- Ends a transaction and keeps its writes.  `done(fx)` is called while the
-- writes can still be taken back.
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

-- Ends a transaction and takes its writes back.  Returns the first error of a
-- guard.
local function rewind(its)
  end_inner(its)
  local problem = take_back(its)
  pop()
  end_abandoned()
  return problem
end

--- Effects -> the reads of their transaction, if the program asked for reads.
transaction.reads = setmetatable({}, { __mode = "k" })

-- }======================================================

-- {======================================================
-- The functions of programs
-- =======================================================

local Transaction, check_self = check.class "transaction"

local function its_own(self, name)
  check_self(self, name, 1)
  if not self.its.open then
    error(("calling '%s' on a transaction that has ended"):format(name), 3)
  end
  if is_ending(self.its) then
    error(("calling '%s' while the transaction is taken back"):format(name), 3)
  end
  return self.its
end

--- Ends the transaction and keeps its writes.  Returns the effects.
function Transaction:commit()
  local fx = commit(its_own(self, "commit"))
  return fx
end

--- Ends the transaction and takes its writes back.  Returns the effects, which
-- can be applied later.
function Transaction:rollback()
  local its = its_own(self, "rollback")
  end_inner(its)
  local fx = private.cut(its.mark)
  if its.reads then transaction.reads[fx] = its.reads end
  local problem = rewind(its)
  if problem ~= nil then error(problem, 0) end
  return fx
end

-- Warns of an error of a guard that cannot be raised.
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

-- A handle that no program has, for the next transaction of a function: handles
-- have a finaliser, which makes new ones expensive.
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

--- Begins to record the writes to all watched and tracked objects.  Returns the
-- transaction.
function transaction.begin(opts)
  opts = check.options(opts, OPTIONS, 1, "begin")
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

-- The function has raised, and the core has undone its writes, except those to
-- cells.  The writes of guards that heard of the undoing stay.
local function fail_undone(self, err, problem)
  tell(problem)
  each_cell(know, self.its.mark)
  self.its.mark, self.its.refs = private.position()
  return fail(self, err)
end

-- Ends the transaction of a function that has returned or raised; the core has
-- undone most writes of a function that raised.  `self` is on the stack, so
-- that the collector does not find the handle meanwhile.
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

--- Calls `fn(...)` in a transaction, and `done` with the effects.  An error in
-- `done` counts as an error in `fn`.  Returns true, the effects and the results
-- of `fn`; or false and the error, and nothing has changed.
function transaction.run(done, fn, ...)
  local self = spare
  spare = nil
  if not self then self = new_handle() end
  open(self.its)
  return finish(self, done, private.protect(self.its, fn, ...))
end

--- Calls `fn(...)` in a transaction of its own.  Returns true, the effects and
-- the results of `fn`; or false and the error, and nothing has changed.
function transaction.transaction(fn, ...)
  check.argument(type(fn) == "function", 1, "transaction", "function", fn)
  return transaction.run(nil, fn, ...)
end

--- Calls `f(...)` and returns its result.  If `f` raises, its writes are taken
-- back, and the error goes on.
function transaction.attempt(f, ...)
  local ok, fx, result = transaction.run(nil, f, ...)
  if not ok then error(fx, 0) end
  return result
end

-- }======================================================

return transaction

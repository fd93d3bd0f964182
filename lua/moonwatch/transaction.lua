--- What the core does not do for mw.begin and mw.transaction: options, and the
-- parts of a transaction that are not writes.
-- SPDX-License-Identifier: MIT
--
-- The core begins and ends transactions.  It calls the functions below where no
-- debug hook of the program can raise.

local check = require "moonwatch.check"
local core = require "moonwatch.core"

local private = core.private

local transaction = {
  begin = private.begin, transaction = private.transaction,
}

-- While a transaction asks for reads, the core calls `note` for each read of a
-- table that is tracked then.  Effects -> the reads of their transaction, if
-- the program asked for reads; all copies of this file share the table.
private.reads = private.reads or setmetatable({}, { __mode = "k" })
local reads_of = private.reads

-- The table of globals may be tracked, and noting a read must not read a
-- global.
local id_of, ipairs, remove = core.id, ipairs, table.remove

-- All copies of this file share the list of readers.
private.readers = private.readers or {}
local readers = private.readers

local WHOLE = {} -- the key for a whole object

-- A set of reads has the keys by the serial of the object, and a list in order.
local function note(obj, key)
  local id = id_of(obj)
  if key == nil then key = WHOLE end
  for _, its in ipairs(readers) do
    local keys = its[id] or {}
    its[id] = keys
    if key == key and not keys[key] then
      keys[key] = true
      its.list[#its.list + 1] = { id = id, key = key }
    end
  end
end

-- Begins to note reads.  Returns the set of the reads.
local function begin_reads()
  local its = { list = {} }
  private.begin_reads(note)
  readers[#readers + 1] = its
  return its
end

-- Ends a reader.
local function finish_reads(its)
  local n = #readers
  while n > 0 and readers[n] ~= its do n = n - 1 end
  if n > 0 then remove(readers, n) end
  if #readers == 0 then private.end_reads() end
end

--- Returns the reads of a transaction as an array of { object, key }, in order,
-- or nil; a read of a whole object has no key.  Objects that have died are left
-- out.
function transaction.reads(fx)
  local its, list = reads_of[fx], {}
  for _, read in ipairs(its and its.list or list) do
    local key = read.key
    if key == WHOLE then key = nil end
    local object = core.object(read.id)
    if object ~= nil then list[#list + 1] = { object = object, key = key } end
  end
  return its and list
end

-- Tables of globals that transactions track -> how many of these are open.
private.globals = private.globals or {}
local tracked = private.globals

local function track(env)
  if tracked[env] then
    tracked[env] = tracked[env] + 1
  elseif not private.is_tracked(env) then
    core.track(env)
    tracked[env] = 1
  end
end

local function untrack(env)
  if not tracked[env] then return end
  tracked[env] = tracked[env] > 1 and tracked[env] - 1 or nil
  if not tracked[env] then private.end_track(env) end
end

-- The extras of a transaction are a table, which the core has until the end:
--
--     where, label    options
--     globals, reads  likewise
--     tracks, set     are the globals tracked, and the set of the reads,
--     keep(fx)        which this function keeps with the effects
--     finish()        ends what a file of the library has begun besides
--     scope           of a running trace
--     1, 2, ...       what is called if the transaction is taken back:
--                     functions, and the extras of transactions inside

local OPTIONS = {
  where = "boolean", globals = "table", reads = "boolean", label = "string",
}

-- Reads the first argument of the function `name`: a label or options.  Returns
-- the extras.
local function prepare(opts, name)
  if type(opts) == "string" then return { label = opts } end
  check.argument(type(opts) == "table", 1, name, "string or table", opts, 1)
  check.options(opts, OPTIONS, 1, name, nil, 1)
  return { where = opts.where, label = opts.label, globals = opts.globals,
    reads = opts.reads }
end

local function begin(extras, is_traced)
  if is_traced then
    extras.scope = private.begin_scope("transaction", "transaction")
  end
  if extras.globals then
    track(extras.globals)
    extras.tracks = true
  end
  if extras.reads then
    extras.set = begin_reads()
    function extras.keep(fx) reads_of[fx] = extras.set end
  end
end

local function end_scope(scope, committed)
  scope:add("result", committed and "commit" or "rollback")
  scope:close()
end

-- Calls the functions in an array, the last one first.  Returns the first
-- error.
local function call_all(functions, err)
  for i = #functions, 1, -1 do
    local f = functions[i]
    functions[i] = nil
    if type(f) == "table" then
      err = call_all(f, err)
    else
      local ok, its = pcall(f)
      if not ok and err == nil then err = its end
    end
  end
  return err
end

local function finish(extras, committed)
  if extras.finish then pcall(extras.finish) end
  if extras.set then pcall(finish_reads, extras.set) end
  if extras.tracks then pcall(untrack, extras.globals) end
  if extras.scope then pcall(end_scope, extras.scope, committed) end
  if not committed then return call_all(extras) end
end

private.keep("extras", { prepare, begin, finish })

--- Calls `f()` if the transaction that is open, or one around it, is taken
-- back.
function transaction.on_rollback(f)
  local extras = private.extras()
  if extras then extras[#extras + 1] = f end
end

private.on_rollback = transaction.on_rollback

return transaction

--- What the core does not do for mw.begin and mw.transaction: options, and the
-- parts of a transaction that are not writes.
-- SPDX-License-Identifier: MIT
--
-- The core begins and ends transactions.  It calls the functions below where no
-- debug hook of the program can raise.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local reads = require "moonwatch.effects.reads"

local private = core.private

local transaction = {
  begin = private.begin, transaction = private.transaction,
  run = private.run, on_rollback = private.on_rollback,
}

--- Effects -> the reads of their transaction, if the program asked for reads.
-- All copies of this file share the table.
private.reads = private.reads or setmetatable({}, { __mode = "k" })
transaction.reads = private.reads

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

-- Returns functions that begin what `opts` asks for, keep the results with the
-- effects, and end what they began; or nil.
local function parts_of(opts)
  if not opts.globals and not opts.reads then return nil end
  local its, begun
  local function start()
    if opts.globals then
      track(opts.globals)
      begun = true
    end
    if opts.reads then its = reads.begin() end
  end
  local function keep(fx) transaction.reads[fx] = its end
  local function finish()
    if its then reads.finish(its) end
    if begun then untrack(opts.globals) end
  end
  return start, opts.reads and keep, finish
end

local OPTIONS = {
  where = "boolean", globals = "table", reads = "boolean", label = "string",
}

-- Reads the first argument of the function `name`: a label or options.  Returns
-- what the core needs.
local function prepare(opts, name)
  if type(opts) == "string" then return false, opts end
  check.argument(type(opts) == "table", 1, name, "string or table", opts)
  check.options(opts, OPTIONS, 1, name)
  return opts.where, opts.label, parts_of(opts)
end

local function begin_scope()
  return private.begin_scope("transaction", "transaction")
end

local function end_scope(scope, committed)
  scope:add("result", committed and "commit" or "rollback")
  scope:close()
end

private.prepare(prepare, begin_scope, end_scope)

--- Calls `f(...)` and returns its result.  If `f` raises, its writes are taken
-- back, and the error goes on.
function transaction.attempt(f, ...)
  local ok, err, result = private.run_bare(nil, nil, f, ...)
  if not ok then error(err, 0) end
  return result
end

return transaction

-- The ways of what must not grow with the number of entries, of transactions or
-- of coroutines: see ways_of_growth.lua.

local mw = require "moonwatch"

local growth = {}

local WRITES = 1000

-- Entries ---------------------------------------------------------------

-- Returns a function that makes `n` writes to the fields of 100 objects.
local function writer(n)
  local objects = {}
  for i = 1, 100 do objects[i] = mw.track { a = 0, b = 0 } end
  return function()
    for i = 1, n do
      local obj = objects[i % 100 + 1]
      obj[i % 3 == 0 and "a" or "b"] = i
    end
  end
end

local function recorded(n)
  local ok, fx = mw.transaction(writer(n))
  assert(ok and #fx == n)
  return fx
end

-- Writes in an open transaction.
function growth.record(n)
  local write, tx = writer(n), nil
  return function()
    tx = mw.begin()
    write()
    return tx
  end, n
end

function growth.commit(n)
  local write, tx = writer(n), mw.begin()
  write()
  return function() return tx:commit() end, n
end

-- Closing, and so without effects.
function growth.rollback(n)
  local write, tx = writer(n), mw.begin()
  write()
  return function()
    local _ <close> = tx
  end, n
end

function growth.effects_rollback(n)
  local fx = recorded(n)
  return function() fx:rollback() end, n
end

function growth.effects_apply(n)
  local fx = recorded(n)
  fx:rollback()
  return function() assert(fx:apply()) end, n
end

function growth.squash(n)
  local fx = recorded(n)
  return function() return fx:squash() end, n
end

function growth.concat(n)
  local fx, other = recorded(n), recorded(1)
  return function() return fx:concat(other) end, n
end

-- A patch that puts elements at the front of a list of `n`, an element.
function growth.patch_front(n)
  local root, operations = mw.track({ list = {} }, { deep = true }), {}
  for i = 1, n do root.list[i] = i end
  for i = 1, n do
    operations[i] = { op = "add", path = "/list/0", value = i }
  end
  return function() assert(mw.patch(root, operations)) end, n
end

-- Transactions in transactions ------------------------------------------

-- Begun one in the other, with a write in each, and ended by the method.
local function nested(ending)
  return function(n)
    local obj = mw.track { x = 0 }
    return function()
      local list = {}
      for i = 1, n do
        list[i] = mw.begin()
        obj.x = i
      end
      for i = n, 1, -1 do list[i][ending](list[i]) end
    end, n
  end
end

growth.nested_begin, growth.nested_rollback = nested "commit", nested "rollback"

local function nest(obj, n)
  local tx <close> = mw.begin()
  obj.x = n
  if n > 1 then nest(obj, n - 1) end
  tx:commit()
end

-- In a recursion.
function growth.nested_recursion(n)
  local obj = mw.track { x = 0 }
  return function() nest(obj, n) end, n
end

-- Histories -------------------------------------------------------------

-- Steps beyond the limit, each.
function growth.history_limit(n)
  local obj, history = mw.track { x = 0 }, mw.history { limit = n }
  local function step(i) obj.x = i end
  for i = 1, n do history:run("step", step, i) end
  return function()
    for i = 1, WRITES do history:run("step", step, i) end
  end, WRITES
end

-- Runs that are merged into one step, each.
function growth.history_merge(n)
  local obj, history = mw.track { x = 0 }, mw.history { merge_window = 1000 }
  local function step(i) obj.x = i end
  history:merge "stroke"
  return function()
    for i = 1, n do history:run("stroke", step, i) end
  end, n
end

-- Reads -----------------------------------------------------------------

-- Reads that a transaction notes, each.
function growth.reads_of(n)
  local objects = {}
  for i = 1, n do objects[i] = mw.track { x = i } end
  return function()
    local tx = mw.begin { reads = true }
    local sum = 0
    for i = 1, n do sum = sum + objects[i].x end
    tx:commit()
    return sum
  end, n
end

-- Coroutines ------------------------------------------------------------

-- Opens a scope, asks for it, and closes it.
local function look_at_scopes(looks)
  for _ = 1, looks do
    local scope <close> = mw.timed("inner", { column = "inner_us" })
    assert(mw.current_scope() == scope and mw.outermost_scope())
  end
end

function growth.scopes(n)
  local open = {}
  collectgarbage() -- ends the scopes of another round
  collectgarbage()
  for i = 1, n do
    open[i] = mw.timed("outer " .. i % 100, { column = "outer_us" })
  end
  return function()
    look_at_scopes(WRITES)
    return open
  end, WRITES
end

function growth.among_scopes(n)
  local list = {}
  for i = 1, n do
    list[i] = coroutine.wrap(function()
      local scope <close> = mw.timed("other", { column = "other_us" })
      coroutine.yield(scope)
    end)
    list[i]()
  end
  local own <close> = mw.timed "own"
  return function()
    look_at_scopes(WRITES)
    return list, own
  end, WRITES
end

-- Suspended coroutines that each hold a transaction, or a batch.
local function waiting(n, begin)
  local list = {}
  for i = 1, n do
    list[i] = coroutine.wrap(function()
      local tx = begin()
      coroutine.yield()
      tx:close()
    end)
    list[i]()
  end
  return list
end

local function hold() return mw.begin() end

local function writing(obj)
  for i = 1, WRITES do obj.x = i end
end

-- The main coroutine writes, without a transaction.
function growth.among(n)
  local obj, list = mw.track { x = 0 }, waiting(n, hold)
  return function()
    writing(obj)
    return list
  end, WRITES
end

-- ... with one.
function growth.among_own(n)
  local obj, list = mw.track { x = 0 }, waiting(n, hold)
  return function()
    local _ <close> = mw.begin()
    writing(obj)
    return list
  end, WRITES
end

-- Another coroutine with one.
function growth.among_coroutine_own(n)
  local obj, list = mw.track { x = 0 }, waiting(n, hold)
  return coroutine.wrap(function()
    local _ <close> = mw.begin()
    writing(obj)
    return list
  end), WRITES
end

-- ... without one.
function growth.among_coroutine(n)
  local obj, list = mw.track { x = 0 }, waiting(n, hold)
  return coroutine.wrap(function()
    writing(obj)
    return list
  end), WRITES
end

-- A write in a batch, while coroutines wait that each hold one.
function growth.among_batches(n)
  local obj, list = { x = 0 }, waiting(n, mw.batch)
  mw.watch(obj, function() end, { once = false })
  return coroutine.wrap(function()
    local _ <close> = mw.batch()
    writing(obj)
    return list
  end), WRITES
end

-- Coroutines that begin, write and end in turns, a coroutine.
function growth.turns(n)
  local obj = mw.track { x = 0 }
  return function()
    local list = {}
    for i = 1, n do
      list[i] = coroutine.wrap(function()
        local tx = mw.begin()
        obj.x = i
        coroutine.yield()
        tx:commit()
      end)
      list[i]()
    end
    for i = 1, n do list[i]() end
  end, n
end

-- The same with batches.
function growth.turns_of_batches(n)
  local obj = { x = 0 }
  mw.watch(obj, function() end, { once = false })
  return function()
    local list = {}
    for i = 1, n do
      list[i] = coroutine.wrap(function()
        local b = mw.batch()
        obj.x = i
        coroutine.yield()
        b:close()
      end)
      list[i]()
    end
    for i = 1, n do list[i]() end
  end, n
end

-- Adds these to the others.
return function(all)
  for name, way in pairs(growth) do all.growth[name] = way end
end

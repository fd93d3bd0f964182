-- Scenarios for spec/support/faults.c: recorders and origins.  An entry for
-- which there is no memory is lost, and the recorders know; the write is made.
-- See scenarios.lua.

local attempt = dofile "spec/support/attempt.lua"
local check, whole, look_back = attempt.check, attempt.whole, attempt.look_back

local scenarios = {}

-- That of the last run.
local recorder

local function record(mw, opts)
  collectgarbage() -- ends what the last run has left open
  collectgarbage()
  mw.transaction(function() end)
  if recorder then recorder:stop() end
  recorder = mw.recorder(opts)
  return recorder
end

-- Each entry follows the one before, or some were lost between.  The program
-- may set fields of its own.
local function check_entries(its, copy)
  local n, last = 0, nil
  for e in its:entries() do
    n = n + 1
    e.number = n
    check(e.number == n)
    check(not last or e.seq > last)
    last = e.seq
    if e.object == copy.object and e.kind ~= "metatable" then
      copy[e.key] = e.new
    end
  end
  check(n == its:len())
  return n
end

-- Ends a transaction, which is to be open.
local function is_open(tx)
  local its = tx:is_open()
  if its then tx:rollback() end
  return its
end

function scenarios.recorders()
  local mw = require "moonwatch"
  local Class = { __name = "Class" }
  local r = record(mw, { where = true })
  local t = mw.track(setmetatable({}, Class))
  local other = mw.track {}
  mw.watch(t, function(_, _, _, new) other.x = new end, { once = false })
  for i = 1, 5 do
    t.x = i
    check(t.x == i)
    t["key " .. i] = ("a text that is longer than others "):rep(i)
  end
  t[t], t[1.5], t[true], t.x = {}, print, other, nil
  local n = check_entries(r, { object = t })
  check(n + r:lost() == 28 and #r == n)
  if r:lost() == 0 then
    local e = r:why(t, "key 5")
    check(e.key == "key 5" and e.kind == "insert")
    check(r:why(other, "x").because == r:why(t, t).seq)
    check(tostring(e):find '^%["key 5"%] of Class#%d+: nil %-> "a text')
    for key in pairs(e) do check(key) end
    e.mine = 1
    check(e.mine == 1)
  end
end

function scenarios.recorded_transactions()
  look_back()
  local mw = require "moonwatch"
  local r = record(mw, { capacity = 300, scopes = false })
  local t, u = mw.track { x = 0 }, mw.track {}
  local tx = mw.begin "label"
  t.x, t.y, t.z = 1, "two", { 3 }
  coroutine.wrap(function()
    local inner = mw.begin()
    u.a, t.x = 1, 2
    inner:commit()
  end)()
  check(r:len() == 0 and mw.why(t, "x").open)
  whole(function() return r:len() + r:lost() == 0 and is_open(tx) end,
    tx.commit, tx)
  check(r:len() + r:lost() == 5)
  if r:lost() == 0 then
    check(mw.why(t, "x").transaction == "label")
    check(r:past(t, mw.why(t, "y").seq).y == "two")
    check(r:past(t, mw.why(t, "x").seq, { deep = true }).z[1] == 3)
  end
end

-- The names of what executes are looked for at a write, and kept.
function scenarios.recorded_scopes()
  local mw = require "moonwatch"
  local r = record(mw)
  local class = { __name = "Class" }
  local root = setmetatable({ its = setmetatable({}, class) }, class)
  local t, h = mw.track {}, mw.hierarchy {}
  for i = 1, 3 do
    h:enter(root)
    h:enter(root.its)
    t.x = i
    h:leave(root.its)
    h:leave(root)
  end
  check(t.x == 3 and r:len() + r:lost() == 3)
  for e in r:entries() do
    check(not e.scope or table.concat(e.scope, ">") == "Class>Class.its")
  end
  h:close()
end

-- If there is no memory for the step, the write may be recorded, and that it
-- was taken back.
function scenarios.recorded_runs()
  look_back()
  local mw = require "moonwatch"
  local r = record(mw)
  local t, history = mw.track { x = 0 }, mw.history()
  whole(function(had_memory)
    local n = r:len() + r:lost()
    return t.x == 0 and n % 2 == 0 or not had_memory and t.x == 1 and n == 1
  end, history.run, history, "label", function() t.x = 1 end)
  check(t.x == 1 and r:len() + r:lost() == 1)
  check(r:lost() > 0 or r:why(t, "x").transaction == "label")
end

function scenarios.recorded_rollbacks()
  look_back()
  local mw = require "moonwatch"
  local r = record(mw, { rolled_back = true })
  local t = mw.track { x = 0 }
  local guard <close> = mw.watch(t, function() t.a = 1 end, { key = "y",
    once = true })
  local tx = mw.begin "label"
  t.x, t.y, t.z = 1, "two", { 3 }
  whole(function()
    local x, n = t.x, r:len() + r:lost()
    if is_open(tx) then return x == 1 and n == 0 end
    return x == 0 and t.z == nil -- all is taken back, but not told of
  end, tx.rollback, tx)
  check(t.x == 0 and t.z == nil)
  local n = r:len() + r:lost() -- less if there was no memory to tell of them
  check(guard and n <= 4, "kept or lost")
  for e in r:entries() do check(e.rolled_back and e.transaction == "label") end
  local why, has_all = r:why(t, "a"), r:len() == 4
  check(why and tostring(why):find "because" or not has_all, "cause")
  t.x = 5
  check(r:lost() > 0 or r:why(t, "x").new == 5)
end

-- The ring forgets, and knows the last writers of what is there.
function scenarios.last_writers()
  local mw = require "moonwatch"
  local r = record(mw, { capacity = 5, where = true, seconds = 100 })
  local t, u = mw.track {}, mw.track {}
  t.x, t.y = 1, { 2 }
  for i = 1, 600 do u.n = i end
  check(u.n == 600 and r:len() <= 5)
  local e = r:why(t, "x")
  check(not e or e.new == 1)
end

function scenarios.stopped_recorders()
  look_back()
  local mw = require "moonwatch"
  local t = mw.track {}
  local r = record(mw)
  t.x, t.y = 1, {}
  local n = r:len()
  whole(function() return r:len() == n end, r.stop, r)
  t.x = 2
  check(r:len() == n and n + r:lost() == 2)
  check(n < 2 or r:why(t, "x").new == 1)
  check(check_entries(r, { object = t }) == n)
end

function scenarios.new_recorders()
  look_back()
  local mw = require "moonwatch"
  if recorder then recorder:stop() end
  local t = mw.track {}
  recorder = whole(function() return mw.why(t, "x") == nil end, mw.recorder,
    { capacity = 1000, where = true, rolled_back = true })
  do
    local its <close> = recorder
    t.x = 1
    check(its:len() + its:lost() == 1)
  end
  t.x = 2
  check(recorder:len() + recorder:lost() == 1)
end

function scenarios.origins()
  look_back()
  local mw = require "moonwatch"
  local r = record(mw)
  local t = mw.track {}
  local function write(x)
    t.x = x
    local e = r:why(t, "x")
    return e and e.origin
  end
  local function is_nobody()
    local its = write(0)
    return its == nil
  end
  local name = whole(is_nobody, mw.origin,
    "a name that is not short, so that it is allocated", write, 1)
  check(name == nil or #name > 40)
  do
    local o <close> = whole(is_nobody, mw.origin, "value")
    check(mw.current_origin() == "value")
    name = write(2)
    check(name == nil or name == "value")
    o:close()
    check(is_nobody())
  end
  local co = coroutine.wrap(function()
    return mw.origin("inside", function()
      coroutine.yield()
      return write(3)
    end)
  end)
  co()
  check(is_nobody())
  name = co()
  check(name == nil or name == "inside")
  check(is_nobody())
end

return scenarios

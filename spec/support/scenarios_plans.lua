-- Scenarios for want of memory: what plans are asked, told and made to forget.
-- See scenarios.lua.

local attempt = dofile "spec/support/attempt.lua"
local check, whole, look_back = attempt.check, attempt.whole, attempt.look_back

local scenarios = {}

local function none() return true end

function scenarios.plan_tracking()
  look_back()
  local fx = require("moonwatch").plan()
  local a, env, upvalue, class = {}, { level = 1 }, 1, {}
  local function f() return upvalue end
  local function can_track() return fx:track(a) == a end
  local function can_track_cell() return fx:track_cell(f, 1) ~= nil end
  local function can_track_global()
    fx:track_global(env, "level")
    return fx:load_global "level" == 1
  end
  local function is_empty() return fx:is_empty() and #fx:modified() == 0 end

  whole(can_track, fx.track, fx, a)
  local cell = whole(can_track_cell, fx.track_cell, fx, f, 1)
  whole(can_track_global, fx.track_global, fx, env, "level")
  check(fx:contains(a) and fx:contains(cell) and not fx:contains(env))
  check(fx:load_cell(cell) == 1 and fx:load_global "level" == 1)
  local fresh = whole(is_empty, fx.track_new, fx, class)
  check(fx:contains(fresh) and fx:is_modified(fresh) and not fx:is_empty())
  fx:clear()
  check(fx:new_cell "value" ~= nil)
  check(not fx:contains(a) and #fx:modified() == 1)
  fx:clear()
  local new_cell = fx:new_cell()
  whole(function() return not fx:has_pending(new_cell) end,
    fx.store_cell, fx, new_cell, 5)
  check(fx:load_cell(new_cell) == 5)
end

-- What was not stored is not pending, and is not applied.
function scenarios.plan_stores()
  look_back()
  local fx = require("moonwatch").plan()
  local a, env, upvalue = { x = 1, y = 2 }, { level = 1 }, 1
  local function f() return upvalue end
  local cell = fx:track_cell(f, 1)
  fx:track(a)
  fx:track_global(env, "level")
  local writes = 0
  local function has_stored(key, value, what)
    local v, how = fx:load(a, key)
    local applied = fx:apply()
    return v == value and how == what and applied:len() == writes
  end

  whole(function() return has_stored("x", 1, "real") end,
    fx.store, fx, a, "x", 5)
  writes = 1
  check(fx:has_pending(a) and fx:has_pending(a, "x"))
  whole(function() return has_stored("x", 5, "pending") end,
    fx.delete, fx, a, "x")
  whole(function() return has_stored("x", nil, "deleted") end,
    fx.store, fx, a, "x", 6)
  whole(function() return has_stored("y", 2, "real") end,
    fx.delete, fx, a, "y")
  writes = 2
  whole(function() return fx:load_cell(cell) == 1 and fx:apply():len() == 2 end,
    fx.store_cell, fx, cell, 7)
  writes = 3
  whole(function()
    return fx:load_global "level" == 1 and fx:apply():len() == 3
  end, fx.store_global, fx, "level", 8)
  local list = fx:modified()
  check(#list == 3 and list[2] == a and fx:is_modified(a))
  local applied, message = fx:apply()
  if not applied then error(message, 0) end
  check(applied:len() == 4 and a.x == 6 and a.y == nil and upvalue == 7)
  check(env.level == 8 and fx:is_empty())
end

function scenarios.plan_calls()
  look_back()
  local mw = require "moonwatch"
  local fx = mw.plan()
  local saved, hooked, handles, ended = 0, 0, 0, 0
  local ctx = { save = function(_, a, b) saved = saved + (b or a) end }
  local handle = { cancel = function() handles = handles - 1 end }
  local object = { on = function()
    hooked, handles = hooked + 1, handles + 1
    return handle
  end }
  local function is_empty() return fx:is_empty() end

  whole(is_empty, fx.save, fx, ctx, 1, 2)
  local hook = whole(function() return saved == 0 and not fx:is_empty() end,
    fx.hook, fx, object, "event", none)
  local other = fx:hook(object, "event", none)
  other:remove()
  fx:finally(function() ended = ended + 1 end)
  local clone = fx:clone()
  check(clone == fx and clone:diff(fx) == nil)
  local applied, message = fx:apply()
  if not applied then error(message, 0) end
  check(saved == 2 and hooked == 1 and handles == 1 and ended == 1)
  hook:remove()
  hook:cancel()
  check(handles == 0)
  -- A plan that cannot be applied takes its hooks back, if there is memory.
  local strict = setmetatable({}, {
    __newindex = function() error("no", 0) end,
  })
  fx:track(strict)
  fx:hook(object, "event", none)
  fx:store(strict, "x", 1)
  applied, message = fx:apply()
  check({} and not applied and message) -- raises if there is no memory
  if handles > 0 then error("not enough memory", 0) end
  if not message:find "no$" then error(message, 0) end
end

-- In a scope, what is older is not written, unless it is allowed.
function scenarios.plan_scopes()
  look_back()
  local fx = require("moonwatch").plan()
  local old = {}
  fx:track(old)
  local function can_store() return (pcall(fx.store, fx, old, "x", 1)) end
  local scope = whole(can_store, fx.scope, fx)
  local ok, message = pcall(fx.store, fx, old, "x", 1)
  check(not ok)
  if not message:find "outside" then error(message, 0) end
  whole(function() return scope and not can_store() end, fx.allow, fx, old)
  fx:store(old, "x", 1)
  scope:close()
  do
    local inner <close> = fx:scope()
    fx:store(fx:track_new {}, "y", inner ~= nil)
  end
  fx:scope()
  scope = nil -- luacheck: ignore 311
  collectgarbage()
  collectgarbage() -- ends the lost one
  fx:store(old, "x", 2)
  check(#fx:modified() == 2)
end

function scenarios.plan_pruned()
  look_back()
  local fx = require("moonwatch").plan()
  local old = { x = 1 }
  fx:track(old)
  local kept, lost, below = fx:track_new {}, fx:track_new {}, fx:track_new {}
  fx:store(old, "kept", kept)
  fx:store(kept, "n", 1)
  fx:store(lost, "below", below)
  fx:store(below, "up", lost)
  check(fx:prune() == 2)
  check(not fx:contains(lost) and fx:load(kept, "n") == 1)
  local applied, message = fx:apply()
  if not applied then error(message, 0) end
  check(applied:len() == 2 and old.kept == kept and kept.n == 1)
end

-- What one plan takes over from another, marks, and removes by its index.
function scenarios.plan_adopts()
  look_back()
  local mw = require "moonwatch"
  local fx, other = mw.plan(), mw.plan { where = true }
  local a, b, env = {}, {}, { level = 1 }
  other:track(a)
  other:track(b)
  other:track_global(env, "level")
  fx:track(b)
  whole(function() return not fx:contains(a) and fx:contains(b) end,
    fx.adopt, fx, other)
  check(fx:contains(a) and fx:load_global("level", env) == 1)
  whole(function() return fx:is_empty() end, fx.mark, fx, a)
  check(fx:is_modified(a) and not fx:is_modified(b))
  fx:hook({ on = none }, "event", none)
  whole(function() return fx:remove_hook(0) end, fx.remove_hook, fx, 0)
  check(not fx:remove_hook(0))
  local text, short = other:to_lua { a = a }
  if not text then error(short, 0) end
  check(text == "\n" or text == "")
  whole(function() return not other:has_pending(a) end, other.store, other, a,
    "x", 1)
  local applied, message = other:apply()
  if not applied then error(message, 0) end
  check(applied:len() == 1 and a.x == 1)
end

-- A plan that was applied in a transaction that failed is as it was.
function scenarios.plan_taken_back()
  look_back()
  local mw = require "moonwatch"
  local fx, a, hooked = mw.plan(), { x = 1 }, 0
  local handle = { remove = function() hooked = hooked - 1 end }
  local object = { on = function()
    hooked = hooked + 1
    return handle
  end }
  fx:track(a)
  fx:store(a, "x", 2)
  fx:hook(object, "event", none)
  -- A plan that had no memory may be unusable; the objects are not.
  local function is_whole(had_memory)
    return a.x == 1 and
      (not had_memory or hooked == 0 and fx:load(a, "x") == 2)
  end
  whole(is_whole, function()
    local _, err = mw.transaction(function()
      local applied, message = fx:apply()
      if not applied then error(message, 0) end
      fx:store(a, "y", 3)
      error("no", 0)
    end)
    if err ~= "no" then error(err, 0) end
    none {} -- raises if there is no memory
    check(is_whole(false))
  end)
  local left = hooked -- by a rollback that had no memory to remove a hook
  local applied, message = fx:apply()
  if not applied then error(message, 0) end
  check(applied:len() == 2 and a.x == 2 and a.y == 3 and hooked == left + 1)
end

return scenarios

-- Scenarios for want of memory: a C program beside Lua.  See scenarios.lua and
-- host.c.

local host = require "host"
local attempt = dofile "spec/support/attempt.lua"
local check, whole, look_back = attempt.check, attempt.whole, attempt.look_back

local scenarios = {}

-- The ship is guarded, and is taken back with Lua's transaction.
function scenarios.structs()
  look_back()
  local mw = require "moonwatch"
  local chest = mw.track { gold = 10 }
  host.launch(100)
  local function is_old()
    return host.ship() == 100 and chest.gold == 10
  end
  local ok, message = mw.transaction(function()
    chest.gold = 3
    host.sail(60)
    check(host.ship() == 60)
    mw.transaction(function() host.sail(50) end)
    error("the mast breaks", 0)
  end)
  check(not ok and is_old())
  if message ~= "the mast breaks" then error(message, 0) end
  local _, fx = mw.transaction(function()
    host.sail(70)
    chest.gold = 5
  end)
  if type(fx) == "string" then
    check(is_old())
    error(fx, 0)
  end
  check(fx:len() == 1 and host.ship() == 70)
  local before = select(2, host.ship())
  host.sail(80)
  local hull, calls = host.ship()
  check(hull == 80 and calls == before + 1)
end

-- Lua's guards do what they do without a program beside Lua.
function scenarios.guards_beside_a_host()
  look_back()
  local mw = require "moonwatch"
  local chest = { gold = 10 }
  host.launch(100)
  mw.watch(chest, function() error("refused", 0) end, { phase = "check" })
  local ok, message = pcall(function() chest.gold = 3 end)
  check(not ok and chest.gold == 10)
  if message ~= "refused" then error(message, 0) end
end

-- Whatever fails, C's writes to tables are made and recorded, or not made.
function scenarios.writes_of_c_to_tables()
  look_back()
  local mw = require "moonwatch"
  local chest, heard = { gold = 10 }, { "key", "old", "new", "kind" }
  mw.watch(chest, function(_, key, old, new, kind) -- an error stops no write
    heard[1], heard[2], heard[3], heard[4] = key, old, new, kind
  end, { once = false })
  local function write()
    host.put(chest, "gold", 3)
    host.put(chest, "silver", 5)
    host.put(chest, "gold", nil)
  end
  local function is_old() return chest.gold == 10 and chest.silver == nil end
  local ok, fx = mw.transaction(write)
  if not ok then
    check(is_old(), "a write of C was left")
    error(fx, 0)
  end
  check(fx:len() == 3 and chest.silver == 5 and chest.gold == nil)
  check(heard[1] == "gold" and heard[2] == 3 and heard[4] == "delete")
  fx:rollback()
  check(is_old())
  whole(is_old, host.put, chest, "gold", 4)
  check(chest.gold == 4 and heard[2] == 10 and heard[3] == 4)
end

-- A userdata keeps what C wrote where the report fails; C has the old value.
function scenarios.writes_of_c_to_userdata()
  look_back()
  local mw = require "moonwatch"
  local crate, heard = host.crate(), nil
  mw.watch(crate, function(_, key, old, new, kind)
    heard = { key, old, new, kind }
  end, { once = false })
  local function fill(weight)
    local old = crate.weight
    local ok, message = pcall(host.fill, crate, weight)
    if ok then return end
    crate.weight = old -- a write of Lua's
    error(message, 0)
  end
  local ok, fx = mw.transaction(function()
    fill(7)
    fill(9)
  end)
  if not ok then
    check(crate.weight ~= 9)
    error(fx, 0)
  end
  check(fx:len() == 2 and crate.weight == 9)
  check(heard[1] == "weight" and heard[2] == 7 and heard[3] == 9)
  fx:rollback()
  check(crate.weight == 0)
  heard = nil
  host.shake(crate)
  check(heard[4] == "touch")
end

function scenarios.handles_of_c()
  look_back()
  local mw = require "moonwatch"
  local object = {}
  check(not host.handle {})
  whole(function() return true end, mw.id, object)
  local known, again = host.handle(object)
  check(known and again == object)
end

-- Lua uses an engine of the program.
function scenarios.opening_attached()
  check(host.attach())
  local ok, mw = pcall(require, "moonwatch")
  if not ok then
    error(mw:find "not enough memory" and "not enough memory" or mw, 0)
  end
  host.launch(1)
  local object = mw.track { x = 1 }
  local done, fx = mw.transaction(function()
    object.x = 2
    host.sail(2)
  end)
  if not done then
    check(host.ship() == 1 and object.x == 1)
    error(fx, 0)
  end
  check(host.ship() == 2 and object.x == 2)
end

return scenarios

-- What spec/support/faults.c runs with failing allocations: each function does
-- something with the library and raises when the outcome is wrong.  It may run
-- a second time in the same state, after the first run ended for want of
-- memory.

local scenarios = {}

-- Raises without needing memory, for there may be none left.
local function check(ok)
  if not ok then error("the outcome is wrong", 0) end
end

local function objects(n)
  local list = {}
  for i = 1, n do list[i] = {} end
  return list
end

-- Begins without the library; all others have loaded it before.
function scenarios.opening()
  local core = require "moonwatch.core"
  local object = {}
  check(core.object(core.id(object)) == object)
end

function scenarios.ids()
  local mw = require "moonwatch"
  local list = objects(300)
  for i = 1, #list do
    check(mw.object(mw.id(list[i])) == list[i])
  end
  for i = 2, #list do check(mw.id(list[i - 1]) ~= mw.id(list[i])) end
end

function scenarios.clocks()
  local mw = require "moonwatch"
  local clock = mw.clock("a name that is not short, so that it is allocated")
  local start = clock:advance()
  local list = objects(300)
  for i = 1, #list do clock:tag(list[i]) end
  local n = 0
  for _, generation in clock:since(start) do
    check(generation == start)
    n = n + 1
  end
  check(n == #list)
end

function scenarios.reset()
  local mw = require "moonwatch"
  local clock = mw.clock "reset"
  local object = clock:tag {}
  clock:reset()
  check(clock:now() == 0 and clock:generation(object) == -1)
end

function scenarios.weakmaps()
  local mw = require "moonwatch"
  local map = mw.weakmap()
  local list = objects(200)
  for i = 1, #list do map:set(list[i], { list[i] }) end
  for i = 1, #list, 2 do check(map:remove(list[i])[1] == list[i]) end
  check(#map == 100)
  local n = 0
  for key, value in pairs(map) do
    check(value[1] == key)
    n = n + 1
  end
  check(n == 100)
  map:clear()
  check(#map == 0 and map:get(list[2], "none") == "none")
end

function scenarios.deaths()
  local mw = require "moonwatch"
  local told = 0
  local map = mw.weakmap(function(value, id)
    check(value > 0 and mw.object(id) == nil)
    told = told + 1
  end)
  for i = 1, 50 do map:set({}, i) end
  for _ = 1, 9 do -- short of memory, Lua leaves some finalisers for later
    collectgarbage()
    while mw.reap(7) > 0 do end
  end
  check(#map == 0)
  check(told == 50)
end

function scenarios.marks()
  local mw = require "moonwatch"
  local class = {}
  mw.mark_dynamic(class)
  check(mw.is_marked(class))
  mw.mark_dynamic(class, false)
  check(not mw.is_marked(class))
end

-- An object is plain until a watch has gone well, and watched until an unwatch
-- has.
function scenarios.watches()
  local mw = require "moonwatch"
  local n = 0
  local function guard(_, key, _, new, kind)
    check(key == "x" and new == "new" and kind == "update")
    n = n + 1
  end
  for i = 1, 20 do
    local obj = { i, x = i, y = {} }
    local ok, message = pcall(mw.watch, obj, guard, { keys = { "x", "z" } })
    if not ok then
      check(getmetatable(obj) == nil and not mw.is_watched(obj))
      check(rawget(obj, "x") == i and rawlen(obj) == 1)
      error(message, 0)
    end
    obj.x = "new"
    for j = 1, 20 do obj[j] = j end
    check(n == i and #obj == 20 and mw.mutations(obj) == 21)
    ok, message = pcall(mw.unwatch, obj)
    check(obj.x == "new" and #obj == 20)
    check((getmetatable(obj) == nil) == ok)
    if not ok then error(message, 0) end
  end
end

function scenarios.guards()
  local mw = require "moonwatch"
  local obj, guards = setmetatable({}, { __index = { x = 1 } }), {}
  for i = 1, 40 do
    guards[i] = mw.guard()
    mw.watch(obj, guards[i])
  end
  local object = { invalidate = function() guards[1]:revalidate() end }
  mw.watch(obj, object, { phase = "after" })
  obj.y = obj.x
  for i = 1, 40 do check(guards[i].valid == (i == 1)) end
  mw.setmetatable(obj, nil)
  check(obj.x == nil and obj.y == 1)
end

function scenarios.batches()
  local mw = require "moonwatch"
  local obj, n = { x = 0 }, 0
  local twice = mw.memo(function() return 2 * obj.x end, obj)
  mw.watch(obj, function(_, key, old, new)
    check(key == "x" and old == 0 and new == 20)
    n = n + 1
  end)
  check(twice() == 0)
  mw.batch(function()
    for i = 1, 20 do
      obj["key " .. i] = i
      obj.x = i
    end
  end)
  check(n == 1 and twice() == 40)
end

-- What is below an object is plain, or it is all included.
function scenarios.deep()
  local mw = require "moonwatch"
  local heard = 0
  local function guard(_, path, _, new)
    check(path[#path] == "x" or path[1] == "a" and new ~= 1)
    heard = heard + 1
  end
  local root, branch = { a = { b = { c = {} } } }, { d = { e = {} } }
  branch.d.back = branch
  local opts = { deep = true, once = false }
  local ok, message = pcall(mw.watch, root, guard, opts)
  local c = root.a.b.c
  check(mw.is_watched(root) == ok and mw.is_watched(c) == ok)
  if not ok then
    check(getmetatable(root) == nil and getmetatable(c) == nil)
    check(rawget(root, "a") ~= nil)
    error(message, 0)
  end
  c.x = 1
  ok, message = pcall(function() root.a.new = branch end)
  check((root.a.new == branch) == ok)
  check(mw.is_watched(branch) == ok and mw.is_watched(branch.d.e) == ok)
  if not ok then
    check(getmetatable(branch) == nil and getmetatable(branch.d) == nil)
    error(message, 0)
  end
  branch.d.e.x = 2
  root.a = nil
  check(heard >= 3 and not mw.is_watched(c) and not mw.is_watched(branch))
  mw.unwatch(root)
end

function scenarios.policies()
  local mw = require "moonwatch"
  local class = { __name = "Class" }
  class.__index = class
  function class.new() return setmetatable({}, class) end
  function class:change() self.x = 1 end
  local policy = mw.policy {
    rules = { { "new", function(obj, ctx)
      return ctx.clock:is_current(obj) or nil
    end } },
    classes = { Class = { mutators = { "change" } } },
  }
  local former = policy:use()
  local obj = class.new()
  mw.clock():advance()
  local ok, value = pcall(mw.is_dynamic, obj)
  check(not ok or value == false)
  local called = 0
  ok, value = pcall(mw.watch, obj, function() called = called + 1 end)
  if ok then
    ok, value = pcall(obj.change, obj)
    check(not ok or called == 1)
    mw.unwatch(obj)
  end
  former:use()
  if not ok then error(value, 0) end
end

-- A transaction leaves all as it was, or all is written; so do those that undo
-- and redo it.
function scenarios.transactions()
  local mw = require "moonwatch"
  local obj = mw.track { x = 0 }
  local function is(x)
    local n = 0
    for _ in next, mw.raw(obj) do n = n + 1 end
    return obj.x == x and n == (x == 0 and 1 or 11)
  end
  local ok, fx = mw.transaction(function()
    for i = 1, 10 do
      obj["key " .. i] = { i }
      obj.x = i
    end
  end)
  check(is(ok and 10 or 0))
  if not ok then error(fx, 0) end
  local fine, message = pcall(fx.rollback, fx)
  check(is(fine and 0 or 10))
  if not fine then error(message, 0) end
  local again
  again, message = fx:apply()
  check(is(again and 10 or 0))
  if not again then error(message, 0) end
  check(fx:squash():len() == 11)
  check(fx:invert():apply():len() == 20 and is(0))
end

function scenarios.nesting()
  local mw = require "moonwatch"
  local obj, y = mw.track { x = 0, inner = {} }, 0
  local function read() return y end
  local tx = mw.begin { cells = { read }, where = true }
  local ok, message = pcall(function()
    obj.x = 1
    local inner, err = mw.transaction(function()
      y, obj.x, obj.z = 1, 2, { 1 }
      error("inner", 0)
    end)
    check(not inner and obj.x == 1 and obj.z == nil)
    if err ~= "inner" then error(err, 0) end
    check(y == 0)
    y = 2
  end)
  local fine, fx = pcall(tx.rollback, tx)
  if fine and ok then check(fx:len() == 2 and obj.x == 0 and y == 0) end
  if not fine then
    tx = nil -- luacheck: ignore
    error(fx, 0)
  end
  if not ok then error(message, 0) end
end

function scenarios.plans()
  local mw = require "moonwatch"
  local obj, other = { x = 0 }, {}
  local fx = mw.effects()
  fx:track(obj)
  fx:track(other)
  local new = fx:track_new {}
  for i = 1, 10 do
    fx:store(obj, "key " .. i, { i })
    fx:store(new, i, obj)
  end
  fx:store(other, "new", new)
  check(fx:prune() == 0)
  check(fx:clone() == fx)
  local result, message = fx:apply()
  check((other.new == new) == (result ~= nil))
  check((obj["key 1"] ~= nil) == (result ~= nil))
  check((new[10] ~= nil) == (result ~= nil))
  if not result then error(message, 0) end
  check(result:len() == 21)
end

function scenarios.misuse()
  local mw = require "moonwatch"
  local ok, message = pcall(mw.id, 5)
  check(not ok and (message:find "bad argument" or message:find "memory"))
end

return scenarios

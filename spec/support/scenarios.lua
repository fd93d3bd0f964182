-- What spec/support/faults.c runs with failing allocations: each function does
-- something with the library and raises when the outcome is wrong.  It may run
-- a second time in the same state, after the first run ended for want of
-- memory.

local scenarios = {}

-- Raises without needing memory, for there may be none left.
local function check(ok, what)
  if not ok then error(what or "the outcome is wrong", 0) end
end

local function objects(n)
  local list = {}
  for i = 1, n do list[i] = {} end
  return list
end

-- Scenarios named opening begin without the library; all others have loaded all
-- of it before.
function scenarios.opening()
  local core = require "moonwatch.core"
  local object = {}
  check(core.object(core.id(object)) == object)
end

-- `require` puts a text of its own around the message; the library does not,
-- for what it loads later.
function scenarios.opening_all()
  local ok, mw = pcall(require, "moonwatch")
  if not ok then
    error(mw:find "not enough memory" and "not enough memory" or mw, 0)
  end
  local object = setmetatable({ x = 1 }, { __index = {} })
  mw.watch(object, function() end)
  local done, fx = mw.transaction(function() object.x = 2 end)
  if not done then error(fx, 0) end
  check(fx:to_lua { object = object } == "object.x = 2\n")
  mw.timing(true)
  do local _ <close> = mw.timed "scope" end
  mw.timing(false)
  for _ in pairs(mw) do end
  local plain = { x = 1 }
  mw.watch(plain, function() end)
  for key in pairs(plain) do check(key == "x") end
  check(mw.to_nested({ 5 })[1] == 5)
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

function scenarios.memory()
  local mw = require "moonwatch"
  local obj = mw.track {}
  local tx <close> = mw.begin()
  obj.x = 1
  local its = mw.memory()
  check(tx and its.journal > 0 and its.total == its.objects + its.watches +
    its.journal + its.names + its.traces)
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

function scenarios.terms()
  local mw = require "moonwatch"
  local told, refused = 0, 0
  local obj = { x = 1 }
  mw.watch(obj, function() told = told + 1 end, { once = false,
    when = function(_, _, _, new) return new ~= 3 end })
  mw.watch(obj, function(_, _, _, new)
    if new == 4 then
      refused = refused + 1
      error("no", 0)
    end
  end, { phase = "check" })
  obj.x = 2
  obj.x = 3
  local ok, message = pcall(function() obj.x = 4 end)
  if refused == 0 then error(message, 0) end
  check(not ok and obj.x == 3 and told == 1)
  local keys = 0
  mw.watch({ 1, { 2 } }, function() keys = keys + 1 end,
    { existing = true, deep = true })
  check(keys == 3)
end

-- A class that changes, and keeps fields raw.
function scenarios.classes()
  local mw = require "moonwatch"
  local class = { __index = { a = 1 } }
  local obj = setmetatable({ x = 1 }, class)
  local told = 0
  mw.watch(obj, function() told = told + 1 end, { once = false })
  check(obj.a == 1)
  function class.__index(self, key)
    rawset(self, key, 2)
    return 2
  end
  function class.__newindex(self, key, value)
    rawset(self, "n", value)
    rawset(self, key, value)
  end
  function class.__tostring() return "class" end
  local ok, message = pcall(mw.refresh, class)
  if not ok then
    mw.unwatch(obj)
    check(rawget(obj, "x") == 1)
    error(message, 0)
  end
  check(tostring(obj) == "class")
  check(obj.b == 2)
  obj.c = 3
  mw.sync(obj)
  check(obj.n == 3 and obj.c == 3 and told == 3)
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
    for i = 1, 300 do obj[i] = i end -- more than a batch leaves to the next
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
  local stored = root.a.new == branch -- also if there was none for the guard
  check(stored or not ok)
  check(mw.is_watched(branch) == stored)
  check(mw.is_watched(branch.d.e) == stored)
  check(stored or getmetatable(branch) == nil)
  check(stored or getmetatable(branch.d) == nil)
  if not ok then error(message, 0) end
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
  ok, value = pcall(mw.watch, obj, function() called = called + 1 end,
    { once = true })
  if ok then
    ok, value = pcall(obj.change, obj)
    check(not ok or called == 1)
    mw.unwatch(obj)
  end
  former:use()
  if not ok then error(value, 0) end
end

-- A class has its methods back when what was watched of it is dead, or is told
-- later that there was no memory.
function scenarios.mortals()
  local mw = require "moonwatch"
  local class = { __name = "Mortal" }
  class.__index = class
  function class.hit() end
  local plain = class.hit
  local former = mw.policy({
    classes = { Mortal = { mutators = { "hit" } } },
  }):use()
  local ok, message = pcall(function()
    for _ = 1, 3 do mw.watch(setmetatable({}, class), plain) end
    check(class.hit ~= plain)
  end)
  for _ = 1, 3 do
    collectgarbage()
    local fine, why = pcall(mw.reap)
    if not fine then ok, message = false, why end
  end
  check(not ok or class.hit == plain)
  former:use()
  check(class.hit == plain)
  if not ok then error(message, 0) end
end

-- Whatever becomes of a file's rules, nothing of its budget stays, and no
-- answer is wrong for want of memory, unless a rule catches that itself.
function scenarios.policy_files()
  local mw = require "moonwatch"
  local function handler() end
  local function long()
    local text = "x"
    for _ = 1, 24 do text = text .. text end
    return text
  end
  local class = { name = "a name", spend = long, __call = long }
  class.__index = class
  local object = setmetatable({}, class)
  local fixed = setmetatable({}, { __index = { fixed = "x" } })
  local policy, message = mw.load_policy "spec/support/failing_policy.lua"
  if not policy then error(message, 0) end
  local former, hook = policy:use(), debug.gethook()
  mw.on_error(handler)
  local ok, value = pcall(mw.is_dynamic, object)
  check(debug.gethook() == hook and ("x").rep == string.rep)
  local caught = value == false -- by a rule, when there was none
  check(not ok or caught or value == "answer: a name")
  for _ = 1, 2 do
    local fine, other = pcall(mw.is_dynamic, fixed)
    check(not fine or other == "fixed: x")
  end
  local had, last = pcall(mw.on_error)
  former:use()
  check(not had or last == handler)
  if not ok then error(value, 0) end
  local n = 0
  for _ in pairs(policy.errors) do n = n + 1 end
  check(caught or n == 5)
  check(#long() == 2 ^ 24)
end

dofile "spec/support/scenarios_effects.lua" (scenarios, check)

-- What runs is entered and left, or nothing is.
function scenarios.hierarchies()
  local mw = require "moonwatch"
  local Foo = { __name = "Foo", calls = 0 }
  Foo.__index = Foo
  function Foo:update()
    Foo.calls = Foo.calls + 1
    for _, foo in ipairs(self) do foo:update() end
  end
  local update = Foo.update
  local obj = setmetatable({}, Foo)
  for i = 1, 10 do obj[i] = setmetatable({}, Foo) end
  local h <close> = mw.hierarchy()
  local handle <close> = h:instrument(Foo, { "update" })
  local ok, message = pcall(function()
    h:record()
    obj:update()
    coroutine.wrap(function() obj:update() end)()
  end)
  check(require("moonwatch.core").private.its(h).engine.frames() == 0)
  if not ok then error(message, 0) end
  check(h:name_of(obj[10]) == "Foo.10" and Foo.calls == 22)
  handle:cancel()
  check(Foo.update == update)
end

function scenarios.reports()
  local mw = require "moonwatch"
  local report = mw.dynamism(nil, { keep = 2 })
  for i = 1, 4 do
    local t = { i = i, s = "a" }
    report:add { a = t, b = { t, { shape = { i, 1 } } } }
  end
  local dims = report:dims()
  check(dims.a["L['a']['i']"][1] and dims.b["L['b'][1]['i']"][1])
  check(dims.b["L['b'][2]"][1] and not dims.b["L['b'][2]"][2])
  check(report:examples() == 4)
  check(not mw.infer(report):matches {})
end

function scenarios.misuse()
  local mw = require "moonwatch"
  local ok, message = pcall(mw.id, 5)
  check(not ok and (message:find "bad argument" or message:find "memory"))
end

-- A table is stored again after there was no memory for what is below it.
function scenarios.storing_again()
  local mw = require "moonwatch"
  local root, child, n = {}, { inner = {} }, 0
  mw.watch(root, function() n = n + 1 end, { deep = true, once = false })
  local tx = mw.begin()
  pcall(function() root.x = child end)
  root.x = child
  n = 0
  child.inner.y = 1
  tx:commit()
  assert(n == 1, "what is below is not heard")
end

-- A field holds one of two tables, whichever the store left there, and that one
-- is below the root.
function scenarios.replacing_tables()
  local mw = require "moonwatch"
  local old, new = { inner = {} }, { inner = {} }
  local root = { x = old, y = 1, z = { inner = {} } }
  local function below()
    return { [old] = root.x == old,
      [new] = root.x == new or root.y == new or root.z == new }
  end
  local failed
  local function try(f)
    local ok, message = pcall(f)
    if not ok then failed = message end
    for value, is_below in pairs(below()) do
      check(mw.is_watched(value) == is_below)
      check(mw.is_watched(value.inner) == is_below)
    end
  end
  mw.watch(root, mw.guard(), { deep = true, once = false })
  local tx = mw.begin()
  try(function() root.x = new end)
  try(function() root.x = old end)
  try(function() root.y = new end)
  try(function() root.x = root.x end)
  try(function() root.z = new end)
  try(function() root.y = nil end)
  tx:rollback()
  mw.reap()
  try(function() end)
  if failed then error(failed, 0) end
end

-- A path, or a rule, includes what it should, or nothing.
function scenarios.filtered_watches()
  local mw = require "moonwatch"
  local n = 0
  local function guard() n = n + 1 end
  local world = { enemies = { { hp = 1 } }, level = {} }
  local failed
  for _, opts in ipairs {
    { path = { "enemies", mw.any, "hp" }, once = false, equal = "skip" },
    { deep = true, once = false,
      descend = function(_, key) return key ~= "level" end },
  } do
    local ok, message = pcall(mw.watch, world, guard, opts)
    check(mw.is_watched(world) == ok)
    check(mw.is_watched(world.enemies[1]) == ok)
    check(not mw.is_watched(world.level))
    if ok then
      local new = { hp = 2 }
      ok, message = pcall(function() world.enemies[1] = new end)
      local stored = world.enemies[1] == new
      check(stored or not ok)
      check(mw.is_watched(new) == stored)
      n = 0
      if ok then world.enemies[1].hp = 3 end
      check(n == (ok and 1 or 0))
    end
    if not ok then failed = message end
    mw.unwatch(world)
  end
  if failed then error(failed, 0) end
end

function scenarios.paths()
  local mw = require "moonwatch"
  local leaf = {}
  local root = { a = { leaf = leaf }, b = { leaf } }
  mw.track(root, { deep = true })
  local ways = mw.paths(root, leaf)
  check(#ways == 2 and #ways[1] == 2 and #ways[2] == 2)
  mw.untrack(root)
end

for _, file in ipairs { "plans", "recorded", "recorder", "hierarchy", "trace",
  "rest", "host" } do
  local more = dofile("spec/support/scenarios_" .. file .. ".lua")
  for name, scenario in pairs(more) do scenarios[name] = scenario end
end

return scenarios

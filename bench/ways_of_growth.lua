-- The ways of what must not grow.  Each makes things of a size and returns a
-- function that does what is measured with them, and how many times that is
-- done.

local mw = require "moonwatch"

local ways = { growth = {} }
local growth = ways.growth

local function heard() end

local KEPT, DEEP = { once = false }, { deep = true, once = false }

local WRITES = 1000

local function writing(obj)
  return function()
    for i = 1, WRITES do obj.x = i end
    assert(obj.x == WRITES)
  end, WRITES
end

-- Watches of one object -------------------------------------------------

-- A write to a key, while guards wait for other keys, one each.
function growth.other_keys(n)
  local obj = { x = 0 }
  for i = 1, n do mw.watch(obj, heard, { key = "key " .. i, once = false }) end
  return writing(obj)
end

-- ... for one other key.
function growth.other_key(n)
  local obj, opts = { x = 0 }, { key = "y", once = false }
  for _ = 1, n do mw.watch(obj, heard, opts) end
  return writing(obj)
end

-- ... for that key, of which all but one are of others.
function growth.one_of_keys(n)
  local obj = { x = 0 }
  for i = 1, n do mw.watch(obj, heard, { key = "key " .. i, once = false }) end
  mw.watch(obj, heard, { key = "x", once = false })
  return writing(obj)
end

local function dead_guards(n, opts)
  local obj = { x = 0 }
  for _ = 1, n do mw.watch(obj, { invalidate = heard }, opts) end
  collectgarbage()
  mw.reap()
  return writing(obj)
end

function growth.dead_of_other_key(n)
  return dead_guards(n, { key = "y", once = false })
end

function growth.dead(n) return dead_guards(n, KEPT) end

-- Watches of other objects.
function growth.other_objects(n)
  local objects = {}
  for i = 1, n do
    objects[i] = { x = 0 }
    mw.watch(objects[i], heard, KEPT)
  end
  return writing(objects[1])
end

-- A write to an object that guards wait for, a guard.
function growth.guards(n)
  local obj = { x = 0 }
  for _ = 1, n do mw.watch(obj, heard, KEPT) end
  return function() obj.x = 1 end, n
end

local function handles_of(n)
  local obj, handles = { x = 0 }, {}
  for i = 1, n do handles[i] = mw.watch(obj, heard, KEPT) end
  return handles
end

local function cancelling(handles)
  return function()
    for i = 1, #handles do handles[i]:cancel() end
  end, #handles
end

function growth.cancel(n) return cancelling(handles_of(n)) end

-- The last first.
function growth.cancel_last(n)
  local handles = handles_of(n)
  for i = 1, n // 2 do
    handles[i], handles[n - i + 1] = handles[n - i + 1], handles[i]
  end
  return cancelling(handles)
end

function growth.cancel_shuffled(n)
  local handles = handles_of(n)
  for i = n, 2, -1 do
    local j = math.random(i)
    handles[i], handles[j] = handles[j], handles[i]
  end
  return cancelling(handles)
end

-- Fields ----------------------------------------------------------------

-- What `rawset` kept in a watched object is found.
function growth.sync(n)
  local obj = {}
  mw.watch(obj, heard, KEPT)
  for i = 1, n do rawset(obj, "field " .. i, i) end
  return function() assert(mw.sync(obj)) end, n
end

-- A new field of an object whose class keeps it by `rawset`.
function growth.class_keeps(n)
  local class = { __newindex = function(t, k, v) rawset(t, k, v) end }
  local obj = {}
  for i = 1, n do obj["field " .. i] = i end
  mw.watch(setmetatable(obj, class), heard, KEPT)
  return function()
    for i = 1, 100 do obj[i] = i end
  end, 100
end

-- The same in an array.  It has room for the fields: where a table with an
-- array gets more of it, Lua counts the whole array, watched or not.
function growth.class_keeps_array(n)
  local class = { __newindex = function(t, k, v) rawset(t, k, v) end }
  local obj = {}
  for i = 1, n do obj[i] = i end
  for i = 1, 1000 do obj["field " .. i] = i end
  mw.watch(setmetatable(obj, class), heard, KEPT)
  for i = 1, 1000 do obj["field " .. i] = nil end
  return function()
    for i = 1, 100 do obj["field " .. i] = i end
  end, 100
end

-- Trees -----------------------------------------------------------------

local function new_chain(n)
  local root = {}
  local at = root
  for _ = 1, n do
    at.below = {}
    at = at.below
  end
  return root, at
end

-- A write so many tables below a deep watch, a table.
function growth.deep_write(n)
  local root, at = new_chain(n)
  mw.watch(root, function(_, path) assert(#path == n + 1) end, DEEP)
  return function() at.x = 1 end, n
end

-- The same for a flag.
function growth.deep_flag(n)
  local root, at = new_chain(n)
  local flag = mw.guard()
  mw.watch(root, flag, DEEP)
  return function()
    at.x = 1
    return flag
  end, n
end

-- So many tables below a root that is tracked: nobody hears the write.
function growth.deep_quiet(n)
  local root, at = new_chain(n)
  mw.track(root, { deep = true })
  local run, count = writing(at)
  return function() return run(), root end, count
end

local function growing(root, n)
  return function()
    local last = root
    for i = 1, n do
      last.next = { value = i }
      last = last.next
    end
  end, n
end

-- A list that grows at its end, a node, and nobody hears that.
function growth.chain(n) return growing(mw.track({}, { deep = true }), n) end

-- A flag hears.
function growth.chain_flag(n)
  local root, flag = {}, mw.guard()
  mw.watch(root, flag, DEEP)
  local run = growing(root, n)
  return function() return run(), flag end, n
end

-- It grows at its front.
function growth.chain_front(n)
  local root = mw.track({}, { deep = true })
  return function()
    for i = 1, n do root.first = { value = i, next = root.first } end
  end, n
end

-- A list of that length comes below a root, and goes, a node.
function growth.attach(n)
  local root, list = mw.track({}, { deep = true }), new_chain(n)
  return function()
    root.list = list
    root.list = nil
  end, n
end

-- A watch of a path that leads to ten objects, in a world of that many.
function growth.path(n)
  local world = { enemies = {}, level = {} }
  for i = 1, 10 do world.enemies[i] = { hp = i } end
  for i = 1, n do world.level[i] = { i } end
  local opts = { path = { "enemies", mw.any, "hp" }, once = false }
  return function()
    for _ = 1, 100 do
      mw.watch(world, heard, opts)
      world.enemies[1].hp = 1
      mw.unwatch(world)
    end
  end, 100
end

-- It moves from one place to another: is taken out, and put in.
function growth.move(n)
  local root, list = mw.track({ a = {}, b = {} }, { deep = true }), new_chain(n)
  root.a.list = list
  return function()
    for _ = 1, 100 do
      root.a.list = nil
      root.b.list = list
      root.b.list = nil
      root.a.list = list
    end
  end, 200
end

-- A list is put in a place before it is taken out of another, and somebody asks
-- for the way to it.
function growth.move_list(n)
  local root, list = mw.track({ a = {}, b = {} }, { deep = true }), {}
  for i = 1, n do list[i] = { i } end
  root.a.list = list
  return function()
    for _ = 1, 100 do
      root.b.list = list
      root.a.list = nil
      assert(#mw.paths(root, list) == 1)
      root.a.list = list
      root.b.list = nil
      assert(#mw.paths(root, list) == 1)
    end
  end, 200
end

-- The parts of a scene, each watched deeply, and each leads to all others: a
-- watch of one reaches n tables.
local function new_scene(n)
  local scene = { children = {} }
  for i = 1, n do scene.children[i] = { parent = scene } end
  return scene
end

local function watch_parts(scene)
  local children = scene.children
  for i = 1, #children do mw.watch(children[i], heard, DEEP) end
end

function growth.roots(n)
  local scene = new_scene(n)
  return function() watch_parts(scene) end, n * n
end

-- A write that all of them hear, a root.
function growth.roots_write(n)
  local scene = new_scene(n)
  watch_parts(scene)
  return function() scene.title = "x" end, n
end

local function new_roots(n, opts)
  local leaf, roots = { x = 0 }, {}
  for i = 1, n do
    roots[i] = { leaf = leaf }
    mw.watch(roots[i], heard, opts)
  end
  return leaf, roots
end

-- A write that one root hears, below others whose watches have fired.
function growth.roots_fired(n)
  local leaf, roots = new_roots(n, { deep = true })
  leaf.x = 1
  roots[0] = { leaf = leaf }
  mw.watch(roots[0], heard, DEEP)
  local run, count = writing(leaf)
  return function() return run(), roots end, count
end

-- A write that n roots hear at the end of a batch, a root.
function growth.roots_batch(n)
  local leaf, roots = new_roots(n, DEEP)
  return function()
    mw.batch(function() leaf.x = 1 end)
    return roots
  end, n
end

-- Batches ---------------------------------------------------------------

-- A batch in which so many objects are written, an object.
function growth.batch(n)
  local objects = {}
  for i = 1, n do
    objects[i] = { x = 0 }
    mw.watch(objects[i], heard, KEPT)
  end
  return function()
    mw.batch(function()
      for i = 1, n do objects[i].x = 1 end
    end)
  end, n
end

-- Memos -----------------------------------------------------------------

-- A change below a chain of memos, whose last is asked for, a memo.
function growth.memo_chain(n)
  local obj, last = { x = 1 }, nil
  for _ = 1, n do
    local below = last
    last = mw.memo(function() return below and below() or obj.x end,
      below or obj)
  end
  last()
  return function()
    obj.x = 2
    assert(last() == 2)
  end, n
end

-- A change below a memo that n memos ask, a memo.
function growth.memo_fan(n)
  local obj, fan = { x = 1 }, {}
  local source = mw.memo(function() return obj.x end, obj)
  for i = 1, n do
    fan[i] = mw.memo(function() return source() end, source)
    fan[i]()
  end
  return function()
    obj.x = 2
    for i = 1, n do fan[i]() end
  end, n
end

-- Layers of diamonds, each a pair of memos that ask both of the pair before.
function growth.memo_diamonds(n)
  local obj = { x = 1 }
  local function read() return obj.x end
  local left, right = mw.memo(read, obj), mw.memo(read, obj)
  for _ = 3, n, 2 do
    local a, b = left, right
    local function ask() return (a() + b()) // 2 end
    left, right = mw.memo(ask, a, b), mw.memo(ask, a, b)
  end
  local function run()
    obj.x = obj.x + 1
    assert(left() == obj.x and right() == obj.x)
  end
  run()
  return run, n
end

-- One of n memos of an object each changes, with a memo above; all are asked.
function growth.memo_one(n)
  local objects, memos = {}, {}
  for i = 1, n do
    local obj = { x = i }
    local below = mw.memo(function() return obj.x end, obj)
    objects[i], memos[i] = obj, mw.memo(function() return below() end, below)
    memos[i]()
  end
  local function run()
    for i = 1, 100 do
      local obj, memo = objects[i % n + 1], memos[i % n + 1]
      obj.x = i
      assert(memo() == i)
    end
  end
  run()
  return run, 100
end

-- Plans -----------------------------------------------------------------

local function new_plan(n)
  local fx, objects = mw.plan(), {}
  for i = 1, n do
    objects[i] = fx:track { x = 0 }
    fx:store(objects[i], "x", i)
  end
  return fx, objects
end

-- A plan of so many writes is made and applied, a write.
function growth.plan_apply(n)
  return function() assert(new_plan(n):apply()) end, n
end

function growth.plan_clone(n)
  local fx = new_plan(n)
  return function() return fx:clone() end, n
end

function growth.plan_diff(n)
  local fx = new_plan(n)
  local clone = fx:clone()
  return function() assert(fx == clone) end, n
end

-- Of each object, one that nothing reaches is new.
function growth.plan_prune(n)
  local fx = new_plan(n)
  for _ = 1, n do fx:track_new {} end
  return function() fx:prune() end, n
end

-- Hooks are removed, the last first.
function growth.plan_hooks(n)
  local fx, hooks = mw.plan(), {}
  for i = 1, n do hooks[i] = fx:hook(hooks, "event", heard) end
  return function()
    for i = n, 1, -1 do hooks[i]:remove() end
    assert(fx:is_empty())
  end, n
end

-- Scopes in scopes, with a write in each, a scope.
function growth.plan_scopes(n)
  local fx, total, scopes = mw.plan(), {}, {}
  fx:track(total)
  fx:allow(total)
  return function()
    for i = 1, n do
      scopes[i] = fx:scope()
      fx:store(total, "x", i)
    end
    for i = n, 1, -1 do scopes[i]:close() end
  end, n
end

-- Effects of one write in a world of n objects ---------------------------

local function world_of(n)
  local world = { units = {} }
  for i = 1, n do world.units[i] = { hp = i } end
  local middle = world.units[n // 2 + 1]
  mw.track(world, { deep = true })
  return world, middle
end

local function describing(method, names)
  return function(n)
    local world, unit = world_of(n)
    local _, fx = mw.transaction(function() unit.hp = 0 end)
    local root = names and { world = world } or world
    return function()
      for _ = 1, 100 do assert(fx[method](fx, root)) end
    end, 100
  end
end

growth.to_bytes = describing "to_bytes"
growth.to_patch = describing "to_patch"
growth.to_lua = describing("to_lua", true)
growth.only = describing "only"

-- ... of n writes, a write.
function growth.to_bytes_of(n)
  local world = world_of(n)
  local _, fx = mw.transaction(function()
    for _, unit in ipairs(world.units) do unit.hp = 0 end
  end)
  return function() assert(fx:to_bytes(world)) end, n
end

-- ... n levels below the root, a level.
function growth.deep_place(n)
  local world = {}
  local at = world
  for _ = 1, n do
    at.next = {}
    at = at.next
  end
  mw.track(world, { deep = true })
  local _, fx = mw.transaction(function() at.hp = 0 end)
  return function() assert(fx:to_bytes(world)) end, n
end

-- A transaction that reads one of n tracked objects.
function growth.reads(n)
  local objects = {}
  for i = 1, n do objects[i] = mw.track { hp = i } end
  return function()
    for _ = 1, 100 do
      local tx = mw.begin { reads = true }
      assert(objects[1].hp == 1)
      assert(#tx:commit():reads() == 1)
    end
  end, 100
end

-- Hierarchies -----------------------------------------------------------

local function new_class(h, name)
  local class = { __name = name }
  class.__index = class
  function class:update(f) return f and f(self) end
  h:instrument(class, { "update" })
  return class
end

-- A world with `n` parts in a list, which are known.
local function new_parts(n)
  local h = mw.hierarchy()
  local World, Part = new_class(h, "World"), new_class(h, "Part")
  local function part() return setmetatable({}, Part) end
  local world = setmetatable({ list = {} }, World)
  for i = 1, n do world.list[i] = part() end
  world:update()
  return h, world, part
end

local PARTS = 100

-- Parts that come while the world runs, each updated once.
local function spawning(n, key_of, more)
  local _, world, part = new_parts(n)
  local serial = n
  return function()
    world:update(function()
      for _ = 1, PARTS do
        local new = part()
        serial = serial + 1
        if more then more(world, new) end
        world.list[key_of(serial)] = new
        new:update()
      end
    end)
  end, PARTS
end

local function itself(serial) return serial end

function growth.spawn(n) return spawning(n, itself) end

function growth.spawn_keys(n)
  return spawning(n, function(serial) return "key " .. serial end)
end

function growth.spawn_siblings(n)
  return spawning(n, itself, function(world, new)
    new.siblings, new.world = world.list, world
  end)
end

-- ... and the names are asked for.
function growth.spawn_named(n)
  local h, world, part = new_parts(n)
  h:enter(world)
  return function()
    for _ = 1, PARTS do
      local new = part()
      world.list[#world.list + 1] = new
      h:enter(new)
      h:leave(new)
    end
  end, PARTS
end

-- The front of a list is updated and removed; of what Lua moves then, only the
-- first hundred, so that this is not measured.
function growth.remove_front(n)
  local _, world = new_parts(n)
  local count = math.min(n, PARTS)
  return function()
    world:update(function()
      for _ = 1, count do
        local first = world.list[1]
        first:update()
        table.move(world.list, 2, count + 1, 1)
        world.list[count] = first
      end
    end)
  end, count
end

-- Two systems share a list; each updates some of it in turns.
function growth.shared_list(n)
  local _, world = new_parts(n)
  local other = setmetatable({ deep = { world.list } }, getmetatable(world))
  local first = math.max(1, n - PARTS + 1)
  local function update_some()
    for i = first, n do world.list[i]:update() end
  end
  other:update()
  return function()
    world:update(update_some)
    other:update(update_some)
  end, 2 * (n - first + 1)
end

-- An object that is nobody's child is called while a world of `n` executes.
local function logging(n, hook)
  local h, world, part = new_parts(n)
  local logger = part()
  if hook then h:on { enter = hook } end
  world:update(function() logger:update() end)
  return function()
    world:update(function()
      for _ = 1, PARTS do logger:update() end
    end)
  end, PARTS
end

function growth.logger(n) return logging(n) end

function growth.logger_hook(n) return logging(n, heard) end

-- `n` objects execute, one in another; all of them are roots.
local function nested(n, prepare)
  local h = mw.hierarchy()
  local objects = {}
  for i = 1, n do objects[i] = {} end
  local function run()
    for i = 1, n do h:enter(objects[i]) end
    for i = n, 1, -1 do h:leave(objects[i]) end
  end
  run()
  if prepare then prepare(h) end
  return run, n
end

function growth.nested(n) return nested(n) end

function growth.nested_hook(n)
  return nested(n, function(h) h:on { enter = heard, leave = heard } end)
end

function growth.nested_record(n)
  return nested(n, function(h) h:record() end)
end

-- `n` objects are entered by hand, one in another, and each name is made.
function growth.nested_names(n)
  local h = mw.hierarchy()
  local root = {}
  local last = root
  for _ = 2, n do
    last.child = {}
    last = last.child
  end
  return function()
    local path, object = {}, root
    while object do
      h:enter(object)
      path[#path + 1], object = object, object.child
    end
    for i = n, 1, -1 do h:leave(path[i]) end
  end, n
end

-- The first enter of an object with a chain of `n` below it.
local function chained(n, plain)
  local h = mw.hierarchy()
  local Part = new_class(h, "Part")
  local first = setmetatable({}, Part)
  local last = first
  for _ = 1, n do
    last.next = plain and {} or setmetatable({}, Part)
    last = last.next
  end
  return function() first:update() end, n
end

function growth.chain_of_objects(n) return chained(n) end

function growth.chain_of_tables(n) return chained(n, true) end

-- Dynamism --------------------------------------------------------------

-- An example with a value that comes before all that are kept.
function growth.keep(n)
  local report = mw.dynamism({}, { keep = n })
  for i = 0, n do report:add { x = n - i } end
  return function()
    for i = 1, WRITES do report:add { x = -i } end
  end, WRITES
end

-- Snapshots -------------------------------------------------------------

-- A live root gets the bytes of a chain: each object has the next as the value
-- of a field of which the object is the key.
function growth.key_chain(n)
  local root, units = { after = {} }, {}
  for i = 1, n do units[i] = { i } end
  root.first = units[1]
  for i = 2, n do root.after[units[i - 1]] = units[i] end
  local bytes = mw.snapshot(root)
  return function() mw.restore(bytes, { into = root }) end, n
end

-- Adds these to the others.
return function(all)
  for name, way in pairs(ways) do all[name] = way end
end

-- Scenarios for spec/support/faults.c in which something is done as a whole or
-- not at all.

local scenarios = {}
local check

local function allocate() return {} end

-- Was there memory at the end of the last step?
local left_memory = true

local function has_memory() return (pcall(allocate)) end

-- Does what waits for the next call of the library.
local function catch_up()
  pcall(require("moonwatch.core").private.catch_up)
end

-- A step takes objects from one state to another, or it fails and the objects
-- are as before.  If there is no memory to take the writes back, the next call
-- does that.  `state()` returns the state of the objects, or "mixed".  The
-- other arguments are the results of `pcall` of a function that returns nil or
-- false and a message when it fails.
local function step(name, state, from, to, ok, done, ...)
  left_memory = has_memory()
  catch_up()
  local now = state()
  if left_memory then check(now == (ok and done and to or from), name) end
  if not ok then error(done, 0) end
  if not done then error((...), 0) end
  return done, ...
end

-- The last run leaves its objects for the next one, which has memory again.
local left

-- Checks that nothing is being recorded, and that a transaction works.
local function check_closed(object)
  local mw = require "moonwatch"
  collectgarbage()
  mw.reap()
  object.outside = 1
  local ok, fx = mw.transaction(function() object.outside = nil end)
  if not ok then error(fx, 0) end
  check(fx:len() == 1 and object.outside == nil, "it is recorded")
  fx:rollback()
  check(object.outside == 1, "what is recorded is taken back")
  object.outside = nil
end

local function check_left()
  local former = left
  left = nil
  if not former then return end
  collectgarbage() -- finds transactions that nobody can end
  collectgarbage()
  catch_up()
  check(former.state() ~= "mixed", "left in a mixed state")
  check_closed(former.object)
  if former.check then former.check() end
end

-- The error of transactions that are to be taken back.
local UNDONE = {}

local function undone(ok, err)
  if not ok and err == UNDONE then return true end
  return nil, err
end

local function must(ok, ...)
  if not ok then error((...), 0) end
  return ...
end

function scenarios.transactions()
  check_left()
  local mw = require "moonwatch"
  local a, b = { x = 1, gone = "old" }, { 1, 2, 3 }
  mw.track(a)
  mw.track(b)
  local function state()
    if a.x == 1 and a.gone == "old" and a.fresh == nil and b[1] == 1 and
      b[3] == 3 and b[4] == nil and b[20] == nil then return "old" end
    if a.x == 2 and a.gone == nil and a.fresh == "new" and b[1] == 20 and
      b[3] == 18 and b[20] == 1 then return "new" end
    return "mixed"
  end
  left = { state = state, object = a }

  local function fill()
    for i = 1, 20 do b[i] = 21 - i end
  end
  local function mislead()
    a.x, a.other, b[1] = 5, 5, nil
    fill()
    error(UNDONE, 0)
  end
  local function write()
    a.x, a.gone = 2, nil
    must(undone(mw.transaction(mislead)))
    must(mw.transaction(fill))
    a.fresh = "new"
  end
  local function commit()
    local tx <close> = mw.begin { where = true }
    write()
    local inner <close> = mw.begin()
    a.x = 2
    check(inner:is_open())
    inner:commit()
    return tx:commit()
  end
  local function drive()
    local ok, fx = coroutine.wrap(mw.transaction)("label", write)
    return ok and fx or nil, fx
  end
  local function speculate()
    local tx <close> = mw.begin { globals = { n = 1 } }
    write()
    return tx:rollback()
  end
  local function misled() return undone(mw.transaction(mislead)) end

  step("a failing one", state, "old", "old", pcall(misled))
  local _, fx = step("a transaction", state, "old", "new",
    pcall(mw.transaction, write))
  step("rollback", state, "new", "old", pcall(fx.rollback, fx))
  step("apply", state, "old", "new", pcall(fx.apply, fx))
  local back = step("invert", state, "new", "new", pcall(fx.invert, fx))
  step("apply inverse", state, "new", "old", pcall(back.apply, back))
  local plan = step("tx:rollback", state, "old", "old", pcall(speculate))
  step("apply later", state, "old", "new", pcall(plan.apply, plan))
  step("rollback later", state, "new", "old", pcall(plan.rollback, plan))
  fx = step("tx:commit", state, "old", "new", pcall(commit))
  local small = step("squash", state, "new", "new", pcall(fx.squash, fx))
  step("rollback squashed", state, "new", "old", pcall(small.rollback, small))
  fx = step("in a coroutine", state, "old", "new", pcall(drive))
  step("and back", state, "new", "old", pcall(fx.rollback, fx))
  check_left()
end

function scenarios.deep_transactions()
  check_left()
  local mw = require "moonwatch"
  local x = { x = 1 }
  local b, leaf, first = { c = x }, { x = 1 }, { n = 1 }
  local branch, zeroth = { leaf = leaf, up = b }, { n = 0 }
  local root = { a = b, list = { first, { n = 2 }, { n = 3 } } }
  mw.track(root, { deep = true })
  local function state()
    local list = root.list
    if root.a == b and b.c == x and x.x == 1 and root.moved == nil and
      root.new == nil and leaf.x == 1 and list[1] == first and
      list[3].n == 3 and list[4] == nil then return "old" end
    if root.a == nil and b.c == x and x.x == 2 and root.moved == b and
      root.new == branch and leaf.x == 2 and list[1] == zeroth and
      list[2] == first and list[4].n == 3 then return "new" end
    return "mixed"
  end
  left = { state = state, object = x }

  local function detour()
    root.moved, root.a = root.a, nil
    root.twig = branch
    leaf.x = 3
    root.list = nil
    error(UNDONE, 0)
  end
  local function write()
    root.a.c.x = 2
    root.moved, root.a = root.a, nil
    must(undone(mw.transaction(detour)))
    root.new = branch
    leaf.x = 2
    table.insert(root.list, 1, zeroth)
  end
  local function speculate()
    local tx <close> = mw.begin()
    write()
    return tx:rollback()
  end

  local _, fx = step("a transaction", state, "old", "new",
    pcall(mw.transaction, write))
  step("rollback", state, "new", "old", pcall(fx.rollback, fx))
  step("apply", state, "old", "new", pcall(fx.apply, fx))
  step("rollback again", state, "new", "old", pcall(fx.rollback, fx))
  local plan = step("tx:rollback", state, "old", "old", pcall(speculate))
  step("apply later", state, "old", "new", pcall(plan.apply, plan))
  check_left()
  mw.untrack(root)
  check(getmetatable(root) == nil and getmetatable(leaf) == nil)
end

function scenarios.untracked()
  check_left()
  local mw = require "moonwatch"
  local leaf, other = { x = 1 }, mw.track { x = 1 }
  local root = mw.track({ leaf = leaf }, { deep = true })
  local outer = mw.begin()
  local ok, fx = mw.transaction(function()
    for i = 1, 20 do leaf[i], other[i] = tostring(i), tostring(i) end
  end)
  local done = ok and pcall(mw.untrack, root)
  if ok then check(fx:len() == 40) end
  if pcall(outer.rollback, outer) then
    check(other[1] == nil and leaf[1] == (ok and done and "1" or nil))
  end
  if not done then mw.untrack(root) end
end

function scenarios.turns()
  check_left()
  local mw = require "moonwatch"
  local object, first = mw.track { a = "old", kept = true }, nil
  local other = coroutine.wrap(function()
    first = mw.begin()
    object.a, object.new, object.kept = {}, "new", false
    coroutine.yield()
  end)
  other()
  local tx = mw.begin()
  local ok, fx = mw.transaction(function()
    for i = 1, 20 do object[i] = { i } end
    object.a, object.new = 5, nil
  end)
  if ok then ok = pcall(first.rollback, first) end
  if not ok then return end
  check(object.a == 5 and object.new == nil and object.kept == true)
  check(fx:len() == 22)
  local done, effects = pcall(tx.commit, tx)
  if not done then return end
  check(effects:len() == 21)
  for e in effects:entries() do
    check(e.key ~= "new" and (e.key ~= "a" or e.old == "old"))
  end
end

function scenarios.pending()
  check_left()
  local mw = require "moonwatch"
  local a, b, env = { x = 1, gone = "old" }, { 1 }, { level = 1 }
  local upvalue = 1
  local function cell() return upvalue end
  local class = {}
  local n_hooks, n_final = 0, 0
  local handle = { remove = function() n_hooks = n_hooks - 1 end }
  local function on()
    n_hooks = n_hooks + 1
    return handle
  end
  local hooked = { on = on }
  mw.track(a)
  local fx = mw.plan()
  fx:track(a)
  fx:track(b)
  fx:track_global(env, "level")
  local its_cell = fx:track_cell(cell, 1)
  local fresh = fx:track_new(class)
  local function state()
    if a.x == 1 and a.gone == "old" and b[1] == 1 and b[2] == nil and
      b[5] == nil and env.level == 1 and upvalue == 1 and fresh.x == nil then
      return "old"
    end
    if a.x == 2 and a.gone == nil and b[1] == fresh and b[2] == 2 and
      b[5] == 5 and env.level == 2 and upvalue == 2 and fresh.x == 2 then
      return "new"
    end
    return "mixed"
  end
  left = { state = state, object = a }

  fx:store(a, "x", 2)
  fx:delete(a, "gone")
  fx:store(b, 1, fresh)
  fx:store_global("level", 2)
  for i = 2, 5 do fx:store(b, i, i) end
  fx:store_cell(its_cell, 2)
  fx:store(fresh, "x", 2)
  fx:hook(hooked, "event", print)
  fx:finally(function() n_final = n_final + 1 end)
  check(state() == "old")
  -- effects that were not applied can be applied later
  left.check = function()
    if not left_memory or state() ~= "old" or fx:is_empty() then return end
    check(n_final == 0 and n_hooks == 0, "hooks and callbacks are undone")
    check(fx:apply() and state() == "new", "it can be applied later")
  end
  check(fx:clone() == fx)
  local done = step("apply", state, "old", "new", pcall(fx.apply, fx))
  check(n_final == 1 and n_hooks == 1)
  step("rollback", state, "new", "old", pcall(done.rollback, done))
  step("apply again", state, "old", "new", pcall(done.apply, done))
  check_left()
end

function scenarios.histories()
  check_left()
  local mw = require "moonwatch"
  local doc = { text = "a", size = 1 }
  mw.track(doc, { deep = true })
  local history = mw.history { limit = 3 }
  history:merge "typing"
  history:seal()
  local function state()
    if doc.text == "a" and doc.size == 1 and not doc.bold then return "0" end
    if doc.text == "ab" and doc.size == 2 and not doc.bold then return "1" end
    if doc.text == "abc" and doc.size == 3 and not doc.bold then return "2" end
    if doc.text == "abc" and doc.size == 3 and doc.bold then return "3" end
    return "mixed"
  end
  left = { state = state, object = doc }

  local function type_(text)
    doc.text, doc.size = text, #text
    return true
  end
  local function embolden()
    doc.bold = { yes = true }
    return true
  end
  local function spoil()
    doc.text = nil
    doc.bold = {}
    error(UNDONE, 0)
  end
  local function run(...)
    local ok, err = pcall(history.run, history, ...)
    return ok or nil, err
  end
  local undo, redo = history.undo, history.redo

  step("run", state, "0", "1", pcall(run, "typing", type_, "ab"))
  step("merge", state, "1", "2", pcall(run, "typing", type_, "abc"))
  step("a failing run", state, "2", "2", pcall(function()
    return undone(run("spoil", spoil))
  end))
  step("run more", state, "2", "3", pcall(run, "bold", embolden))
  step("undo", state, "3", "2", pcall(undo, history))
  check(history:can_redo())
  step("redo", state, "2", "3", pcall(redo, history))
  step("undo again", state, "3", "2", pcall(undo, history))
  step("undo the first", state, "2", "0", pcall(undo, history))
  check(not history:can_undo() and history:can_redo())
  step("redo the first", state, "0", "2", pcall(redo, history))
  step("run instead", state, "2", "3", pcall(run, "other", embolden))
  check(not history:can_redo() and history:can_undo())
  check_left()
end

function scenarios.patches()
  check_left()
  local mw = require "moonwatch"
  local sword, hero = { n = 1 }, { hp = 10, gone = "old" }
  local doc = { hero = hero, items = { sword, "b", "c" }, extra = { 1 } }
  mw.track(doc, { deep = true })
  local function state()
    local items = doc.items
    if doc.hero == hero and hero.hp == 10 and hero.gone == "old" and
      doc.plan == nil and items[1] == sword and items[2] == "b" and
      items[4] == nil and doc.extra and not hero.extra then return "old" end
    if doc.hero == hero and hero.hp == 7 and hero.gone == nil and
      doc.plan and doc.plan.a[2] == 2 and items[1] == "first" and
      items[2] == sword and items[3] == "b" and items[4] == "c" and
      not doc.extra and hero.extra[1] == 1 then return "new" end
    return "mixed"
  end
  left = { state = state, object = hero }

  local operations = {
    { op = "test", path = "/hero/hp", value = 10 },
    { op = "replace", path = "/hero/hp", value = 7 },
    { op = "add", path = "/items/0", value = "first" },
    { op = "remove", path = "/hero/gone" },
    { op = "add", path = "/plan", value = { a = { 1, 2 } } },
    { op = "move", from = "/extra", path = "/hero/extra" },
  }
  local function recorded()
    return mw.transaction(function()
      local root, why = mw.patch(doc, operations)
      if not root then error(why, 0) end
    end)
  end
  local _, fx = step("a patch recorded", state, "old", "new", pcall(recorded))
  step("rollback", state, "new", "old", pcall(fx.rollback, fx))
  step("a patch", state, "old", "new", pcall(mw.patch, doc, operations))
  check_left()
end

-- The same scenario for a document that is not tracked.
function scenarios.plain_patches()
  local mw = require "moonwatch"
  local copy = { hp = 1 }
  local plain = { items = { copy } }
  local function state()
    if copy.hp == 1 and copy.mp == nil and plain.items[2] == nil then
      return "old"
    end
    if copy.hp == 2 and copy.mp == 3 and plain.items[2] then return "new" end
    return "mixed"
  end
  step("a patch", state, "old", "new", pcall(mw.patch, plain, {
    { op = "replace", path = "/items/0/hp", value = 2 },
    { op = "add", path = "/items/0/mp", value = 3 },
    { op = "copy", from = "/items/0", path = "/items/-" },
  }))
end

function scenarios.diffs()
  local mw = require "moonwatch"
  local a = { list = { 1, 2, { a = 3 } }, gone = { 1 }, same = {},
    rows = { { n = 1, x = 1 }, { n = 2, x = 1 }, { n = 3, x = 1 } } }
  local b = { list = { 0, 1, 2, { a = 4 } }, new = { x = "y" }, same = {},
    rows = { { n = 2, x = 1, y = 1 }, { n = 3, x = 1, y = 1 } } }
  local operations, why = mw.diff(a, b)
  if not operations then error(why, 0) end
  local root
  root, why = mw.patch(a, operations)
  if not root then error(why, 0) end
  check(root == a and #a.list == 4 and a.list[4].a == 4 and not a.gone)
  check(#a.rows == 2 and a.rows[1].n == 2 and a.rows[2].y == 1)
  check(a.new.x == "y" and #mw.diff(a, b) == 0)
end

-- Adds the scenarios to a table; `its_check` raises if its argument is false.
return function(all, its_check)
  check = its_check
  for name, scenario in pairs(scenarios) do all[name] = scenario end
end

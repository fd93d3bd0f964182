-- Scenarios for want of memory: what recorded effects are asked, the forms in
-- which they go elsewhere, and what comes in these.  See scenarios.lua.

local attempt = dofile "spec/support/attempt.lua"
local check, whole, look_back = attempt.check, attempt.whole, attempt.look_back

local scenarios = {}

local function world()
  return { hero = { hp = 10, gone = "old" }, items = { "a", "b" } }
end

local function change(root)
  root.hero.hp, root.hero.gone = 7, nil
  root.hero.new = { 1, { deep = true } }
  table.insert(root.items, 1, "first")
end

local function is_old(root)
  return root.hero.hp == 10 and root.hero.gone == "old" and
    root.hero.new == nil and #root.items == 2 and root.items[1] == "a"
end

local function is_new(root)
  return root.hero.hp == 7 and root.hero.gone == nil and
    root.hero.new and root.hero.new[2].deep and #root.items == 3 and
    root.items[3] == "b"
end

local function record(mw, root)
  mw.track(root, { deep = true })
  local ok, fx = mw.transaction(change, root)
  if not ok then error(fx, 0) end
  return fx
end

local function must(value, message)
  if value == nil then error(message, 0) end
  return value
end

function scenarios.recorded()
  local mw = require "moonwatch"
  local root = world()
  local fx = record(mw, root)
  local n = 0
  for entry in fx:entries() do
    check(entry.object and entry.key and entry.kind)
    n = n + 1
  end
  local objects = fx:objects()
  check(n == fx:len() and #objects == 2 and objects[1] == root.hero)
  check(fx:reads() == nil and #fx:conflicts(fx) == 0)
  local tx <close> = mw.begin { reads = true }
  root.items.n = root.hero.hp
  local mine = tx:commit()
  local reads = mine:reads()
  check(reads[1].object == root and #reads == 3)
  local conflicts = mine:conflicts(fx)
  check(#conflicts == 1 and conflicts[1].kind == "read")
end

-- The same effects in other forms, for copies of the world.
function scenarios.sent()
  look_back()
  local mw = require "moonwatch"
  local root, copy, other = world(), world(), world()
  local fx = record(mw, root)
  local bytes = must(fx:to_bytes(root))
  local operations = must(fx:to_patch(root))
  local source = must(fx:to_lua { root = root })
  mw.track(copy, { deep = true })
  whole(function(had_memory)
    return is_old(copy) or not had_memory and is_new(copy)
  end, mw.patch_bytes, copy, bytes)
  check(is_new(copy))
  whole(function() return is_old(other) end, mw.patch, other, operations)
  check(is_new(other))
  other = world()
  must(load(source, "source", "t", { root = other }))()
  check(is_new(other))
  check(mw.patch_bytes(copy, bytes:sub(1, -2)) == nil)
end

-- Objects of a class, under objects, below a root; read and sent.
function scenarios.named()
  look_back()
  local mw = require "moonwatch"
  local Unit, former = { __name = "Unit" }, { __name = "former" }
  mw.name_class("Unit", former, { replace = true })
  local function is_former()
    local object = mw.track(setmetatable({}, Unit))
    local _, fx = mw.transaction(function() object.cache = 1 end)
    return fx:len() == 1
  end
  whole(is_former, mw.name_class, "Unit", Unit,
    { replace = true, ignore = { "cache" }, new = function()
      return setmetatable({}, Unit)
    end })
  local root = { units = { {}, {} }, orders = {}, other = {} }
  local twin = { units = { {}, {} }, orders = {} }
  root.orders[root.units[2]], twin.orders[twin.units[2]] = {}, {}
  mw.track(root, { deep = true })
  local tx = mw.begin { reads = true }
  local order = root.orders[root.units[2]]
  order.x = setmetatable({ cache = #root.units }, Unit)
  order.work = {}
  order.work.n, root.other.n = 1, 1
  order.work = nil
  local fx = tx:commit()
  check(#fx:reads() >= 4)
  for _ = 1, 40 do check(root.units[1]) end
  local part = must(fx:only(root.orders))
  check(part:len() == 4)
  check(part:to_patch(root) == nil)
  local bytes = must(part:to_bytes(root))
  check(bytes == must(part:to_bytes(root)))
  root.units[1], root.units[2] = root.units[2], root.units[1]
  local none, message = part:to_bytes(root)
  check(none == nil)
  if not message:find "has moved since" then error(message, 0) end
  whole(function() return twin.orders[twin.units[2]].x == nil end,
    mw.patch_bytes, twin, bytes)
  order = twin.orders[twin.units[2]]
  check(getmetatable(order.x) == Unit and order.x.cache == 2)
  check(order.work == nil)
  tx = mw.begin { reads = true }
  check(root.other.n == 1)
  check(#tx:commit():reads() == 2)
end

-- If there is no memory for the step, nor to take the write back, it stays.
function scenarios.steps()
  look_back()
  local mw = require "moonwatch"
  local history, doc = mw.history(), mw.track { x = 0 }
  local function set(x) doc.x = x end
  check(history:is_saved())
  whole(function(had_memory)
    return (doc.x == 0 or not had_memory and doc.x == 1) and
      not history:can_undo()
  end, history.run, history, "one", set, 1)
  history:run("two", set, 2)
  check(not history:is_saved())
  history:mark_saved()
  check(history:is_saved() and table.concat(history:labels()) == "onetwo")
  whole(function() return doc.x == 2 and history:is_saved() end,
    history.undo, history)
  check(doc.x == 1 and not history:is_saved())
  whole(function() return doc.x == 1 and history:can_redo() end,
    history.redo, history)
  check(doc.x == 2 and history:is_saved())
end

-- Steps of a few writes.  If there is no memory for a step of writes that are
-- made, nor to take them back, they stay.
function scenarios.plain_steps()
  look_back()
  local mw = require "moonwatch"
  local history, a, b = mw.history { limit = 3 }, mw.track {}, mw.track {}
  local function labels() return table.concat(history:labels()) end
  local function put(x)
    a.x, a.gone, b[1] = x, nil, { x }
  end
  local function run(label, x)
    local before, was, gone = labels(), a.x, a.gone
    whole(function()
      return labels() == before and
        (a.x == was and a.gone == gone or a.x == x and b[1][1] == x)
    end, history.run, history, label, put, x)
    check(a.x == x and b[1][1] == x)
  end
  a.gone = "gone"
  for i, label in ipairs { "p", "q", "r", "s" } do run(label, "text " .. i) end
  check(labels() == "qrs")
  for i = 3, 2, -1 do
    whole(function() return a.x == "text " .. i + 1 end, history.undo, history)
    check(a.x == "text " .. i)
  end
  run("t", 5)
  run("u", 6)
  check(labels() == "qtu" and not history:can_redo())
  whole(function() return labels() == "qtu" and a.x == 6 end, history.seal,
    history)
  run("v", 7)
  for _, x in ipairs { 6, 5, "text 2" } do
    check(must(history:undo()) and a.x == x)
  end
  check(not history:can_undo())
  for _, x in ipairs { 5, 6, 7 } do check(must(history:redo()) and a.x == x) end
end

-- A history that is used in a transaction that is taken back.
function scenarios.withdrawn_steps()
  look_back()
  local mw = require "moonwatch"
  local history, doc = mw.history { limit = 3 }, mw.track { x = 0 }
  local function run(label, x)
    history:run(label, function() doc.x = x end)
  end
  for x = 1, 3 do run(x < 3 and "one" or "two", x) end
  must(history:undo())
  history:mark_saved()
  -- A history that had no memory may be unusable; the document is not.
  whole(function() return doc.x == 2 end, function()
    local _, err = mw.transaction(function()
      run("three", 4)
      run("four", 5)
      must(history:undo())
      must(history:redo())
      run("four", 6)
      history:merge "four"
      run("four", 7)
      history:seal()
      run("four", 8)
      error "end"
    end)
    if not tostring(err):find "end" then error(err, 0) end
  end)
  check(doc.x == 2)
  if not (table.concat(history:labels()) == "oneone" and history:is_saved() and
    history:can_redo()) then error("not enough memory", 0) end
  check(must(history:redo()) == "two" and doc.x == 3)
  for x = 2, 0, -1 do check(must(history:undo()) and doc.x == x) end
end

-- A stroke is taken back as a whole.
function scenarios.strokes()
  look_back()
  local mw = require "moonwatch"
  local history, doc = mw.history(), mw.track { x = 0 }
  history:merge "type"
  history:run("type", function() doc.x = 1 end)
  whole(function()
    return (doc.x == 1 or doc.x == 2 and doc.y == 2) and #history:labels() == 1
  end, history.run, history, "type", function() doc.x, doc.y = 2, 2 end)
  check(doc.x == 2 and #history:labels() == 1)
  check(must(history:undo()) and doc.x == 0 and doc.y == nil)
  check(must(history:redo()) and doc.x == 2 and doc.y == 2)
  history:run("type", function() doc.x = 3 end)
  whole(function()
    return (doc.x == 3 or doc.x == 2) and #history:labels() <= 2
  end, history.run, history, "type", function() doc.x = 2 end)
  check(#history:labels() == 1 and doc.x == 2)
end

-- Two passes are done, or the root is as it was.
function scenarios.replayed()
  look_back()
  local mw = require "moonwatch"
  local root, n, same, report = world(), 0, nil, nil
  whole(function(had_memory)
    mw.transaction(function() end) -- takes back what had no memory for that
    return is_old(root) or not had_memory and is_new(root)
  end, function()
    same = mw.check_replay(root, function() change(root) end, { frames = 1 })
  end)
  check(same and is_new(root))
  mw.track(root, { deep = true })
  local hero = root.hero
  whole(function(had_memory)
    mw.transaction(function() end)
    return root.hero == hero and hero.hp == 7 or
      not had_memory and root.hero ~= hero and root.hero.hp == 2
  end, function()
    same, report = mw.check_replay(root, function()
      n = n + 1
      root.hero = { hp = 1, near = { root.items } }
      root.hero.hp = 2
      for i = 1, 20 do root.items[i] = n < 3 and i or n end
    end, { frames = 2 })
  end)
  check(same == false and report.frame == 1 and report.second == 3)
  check(#tostring(report) > 0 and report.path[1] == "items")
  check(root.hero.hp == 2 and root.items[20] == 20)
end

-- A transaction whose handle is lost is taken back by the collector.
function scenarios.lost()
  look_back()
  local mw = require "moonwatch"
  local obj = mw.track { x = 1 }
  local function is_back()
    mw.transaction(function() end) -- tries again
    return obj.x == 1
  end
  whole(is_back, function()
    do
      local tx = mw.begin()
      obj.x = tx and 2
    end
    collectgarbage()
    collectgarbage()
    mw.reap()
    if obj.x ~= 1 then error("not enough memory", 0) end
  end)
end

return scenarios

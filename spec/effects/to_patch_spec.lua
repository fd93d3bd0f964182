local json = require "moonwatch.json"
local text = require "spec.support.json"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local private = require("moonwatch.core").private
local worlds = require "spec.support.worlds"

local function effects_of(root, f)
  mw.track(root, { deep = true })
  local ok, effects = mw.transaction(f)
  assert.is_true(ok, effects)
  return effects
end

-- The operations as text.
local function show(operations)
  local list = {}
  for i, operation in ipairs(operations) do
    list[i] = ("%s %s %s"):format(operation.op, operation.path, operation.value)
  end
  return table.concat(list, ", ")
end

-- {======================================================
-- Random documents
-- =======================================================

local function new_document(random, all, depth)
  local t, n = {}, random(0, 5)
  local is_list = random(2) == 1
  for i = 1, n do
    local key = is_list and i or "k" .. random(6)
    t[key] = depth > 0 and random(2) == 1 and
      new_document(random, all, depth - 1) or random(9)
  end
  all[#all + 1] = t
  return t
end

local function is_seen(t) return private.intercepts(t) end

local function change_list(random, t, value)
  local n = #t
  local kind = random(n > 0 and 6 or 2)
  if kind == 1 then
    table.insert(t, random(n + 1), value)
  elseif kind == 2 then
    t[n + 1] = value
  elseif kind == 3 then
    table.remove(t, random(n))
  elseif kind == 4 then
    t[random(n)] = value
  elseif kind == 5 then
    local i, j = random(n), random(n)
    t[i], t[j] = t[j], t[i]
  else
    for i = 1, n // 2 do t[i], t[n + 1 - i] = t[n + 1 - i], t[i] end
  end
end

local function change_object(random, t, value, other)
  local key, kind = "k" .. random(6), random(5)
  if kind == 1 then
    t[key] = nil
  elseif kind == 2 and is_seen(other) and json.kind(other) == "object" then
    local moved = t[key]
    t[key] = nil
    other["k" .. random(6)] = moved
  else
    t[random(30) == 1 and "0" or key] = value
  end
end

local function change(random, all)
  local t, other = all[random(#all)], all[random(#all)]
  if not is_seen(t) then return end
  local value = random(3) == 1 and new_document(random, all, 1) or random(9)
  if random(30) == 1 then value = other end
  local kind = json.kind(t)
  if kind == "array" or kind == "either" and random(2) == 1 then
    change_list(random, t, value)
  else
    change_object(random, t, value, other)
  end
end

local function run(random, all, n)
  local _, fx = mw.transaction(function()
    for _ = 1, n do change(random, all) end
  end)
  return fx
end

-- Returns a copy; nil if the value is not JSON.
local function copied(value)
  local ok, copy = pcall(json.copy, value)
  return ok and copy or nil
end

-- Are the patches of random programs right, also when they are made later?
local function random_patches(n)
  local answers = 0
  worlds.each(n, function(random, message)
    local all = {}
    local root = new_document(random, all, 3)
    mw.track(root, { deep = true })
    run(random, all, random(0, 2))
    local twin = copied(root)
    local effects = run(random, all, random(5))
    local after = copied(root)
    if random(4) == 1 then effects:rollback() end
    mw.reap() -- gives back what has gone: nobody sees writes to that
    for _ = 1, random(0, 4) do change(random, all) end
    local operations = twin and effects:to_patch(root)
    if operations then
      answers = answers + 1
      local result, problem = mw.patch(twin, operations)
      assert.is_truthy(result, message .. ": " .. tostring(problem))
      assert.is_true(text.equal(result, after), message)
    end
    mw.untrack(root)
  end)
  assert.is_true(answers > n // 4)
end

-- }======================================================

describe("the patch of effects", function()
  it("has an operation for each field that was changed", function()
    local root = { hero = { hp = 10, old = 1 }, items = { "a", "b" } }
    local effects = effects_of(root, function()
      root.hero.hp, root.hero.old, root.hero.new = 7, nil, true
      root.hero.hp = 8
    end)
    assert.equal("replace /hero/hp 8, add /hero/new true, remove /hero/old nil",
      show(effects:to_patch(root)))
  end)

  it("has list edits as list edits", function()
    local list = {}
    for i = 1, 1000 do list[i] = i end
    local root = { list = list }
    local effects = effects_of(root, function()
      table.insert(list, 1, "new")
    end)
    assert.equal(1001, effects:len())
    assert.equal("add /list/0 new", show(effects:to_patch(root)))
    effects = effects_of(root, function() table.remove(list, 500) end)
    assert.equal("remove /list/499 nil", show(effects:to_patch(root)))
  end)

  it("is the same when the effects were undone", function()
    local root = { a = { 1 } }
    local effects = effects_of(root, function()
      root.a[2] = 2
      root.b = { c = 1 }
    end)
    local done = effects:to_patch(root)
    effects:rollback()
    assert.same(done, effects:to_patch(root))
    mw.untrack(root)
    local twin = mw.patch({ a = { 1 } }, done)
    assert.same({ a = { 1, 2 }, b = { c = 1 } }, twin)
  end)

  it("cannot be had of what is not below the root", function()
    local root, other = { a = {} }, mw.track {}
    local effects = effects_of(root, function() root.x, other.x = 1, 1 end)
    assert.same({ nil, "there is no way to the object whose field 'x' was " ..
      "written" },
      { effects:to_patch(root) })
    effects = effects_of({ root }, function()
      root.b = { c = 1 }
      root.b.c = 2
      root.a.gone = 1
      root.a = nil
    end)
    assert.is_table(effects:to_patch(root))
  end)

  it("changes each place of a table that is in two", function()
    local pos, list = { x = 1 }, { 1 }
    local root = { start = pos, goal = pos, lists = { list, list } }
    local before = json.copy(root)
    local effects = effects_of(root, function()
      pos.x = 2
      table.insert(list, 1, 0)
    end)
    local operations = assert(effects:to_patch(root))
    assert.is_true(text.equal(root, assert(mw.patch(before, operations))))
    local after = json.copy(root)
    effects:rollback()
    assert(mw.patch(root, operations))
    assert.is_true(text.equal(after, root))
    assert.same({ { 0, 1 }, { 0, 1 } }, json.copy(root.lists))
  end)

  it("has a replacement for each element that was replaced", function()
    local root = { list = {} }
    for i = 1, 1000 do root.list[i] = { id = i } end
    local effects = effects_of(root, function()
      local list = root.list
      list[3], list[900] = list[900], list[3]
      list[3].x = 1
    end)
    local operations = effects:to_patch(root)
    assert.equal(2, #operations)
    assert.same({ id = 900, x = 1 }, operations[1].value)
  end)

  it("is never longer than replacing what differs", function()
    for _, alter in ipairs {
      function(list) for i = 1, #list // 2 do
        local j = #list + 1 - i
        list[i], list[j] = list[j], list[i]
      end end,
      function(list) table.sort(list) end,
      function(list) list[1], list[#list] = list[#list], list[1] end,
      function(list) table.insert(list, table.remove(list, 1)) end,
      function(list) table.insert(list, 1, 0) end,
      function(list) for i = 1, 10 do table.remove(list, i) end end,
      function(list) list[#list + 1], list[1] = 5, 6 end,
    } do
      local list = {}
      for i = 1, 100 do list[i] = i * 37 % 101 end
      local before, differ = { table.unpack(list) }, 0
      local effects = effects_of(list, function() alter(list) end)
      for i = 1, math.max(#list, #before) do
        if list[i] ~= before[i] then differ = differ + 1 end
      end
      local operations = assert(effects:to_patch(list))
      assert.is_true(#operations <= differ)
      local result = assert(mw.patch(before, operations))
      assert.same({ table.unpack(list) }, result)
      mw.untrack(list)
    end
  end)

  it("does not look at what has not changed", function()
    local Unit = { static = {} }
    Unit.__index = Unit
    local function unit(hp)
      return setmetatable({ class = Unit, hp = hp, tell = print }, Unit)
    end
    local root = { units = { unit(1), unit(2), unit(3) }, f = print,
      [1.5] = "no key of JSON" }
    local effects = effects_of(root, function() root.units[2].hp = 5 end)
    assert.equal("replace /units/1/hp 5", show(effects:to_patch(root)))
    effects = effects_of(root, function() root.units[2] = { hp = 7 } end)
    assert.same({ nil, "not JSON: a function at '/units/1/tell'" },
      { effects:to_patch(root) })
  end)

  it("leaves out what was made and dropped", function()
    local root = { total = 0, prices = { 1, 2, 3 } }
    local effects = effects_of(root, function()
      root.work = { f = print }
      for i, price in ipairs(root.prices) do root.work[i] = price end
      root.work.inner = {}
      root.work.inner.x = 1
      root.total, root.work = 6, nil
    end)
    collectgarbage()
    assert.equal("replace /total 6", show(effects:to_patch(root)))
  end)

  it("goes into what has moved and changed", function()
    local root = { a = { x = { n = 1, deep = { 1 } } }, b = {} }
    local effects = effects_of(root, function()
      root.b.y, root.a.x = root.a.x, nil
      root.b.y.n = 2
      root.b.y.deep[2] = 3
    end)
    local twin = { a = { x = { n = 1, deep = { 1 } } }, b = {} }
    assert(mw.patch(twin, assert(effects:to_patch(root))))
    assert.same({ a = {}, b = { y = { n = 2, deep = { 1, 3 } } } }, twin)
  end)

  it("has a table that became another kind as a whole", function()
    local root = { t = { 1, 2 }, empty = {} }
    local effects = effects_of(root, function()
      root.t[1], root.t[2] = nil, nil
      root.t.x = 1
      root.empty["0"] = 1
    end)
    local twin = { t = { 1, 2 }, empty = {} }
    assert(mw.patch(twin, assert(effects:to_patch(root))))
    assert.same({ t = { x = 1 }, empty = { ["0"] = 1 } }, twin)
  end)

  it("is found where only a part is tracked", function()
    local root = { a = mw.track { n = 1, list = { 1 } }, f = print }
    local _, effects = mw.transaction(function() root.a.n = 2 end)
    assert.same({ nil, "not JSON: a function at '/f'" },
      { effects:to_patch(root) })
    assert.equal("replace /n 2", show(effects:to_patch(root.a)))
    root.f = nil
    assert.equal("replace /a/n 2", show(effects:to_patch(root)))
  end)

  it("of a random program is right, or refused", function()
    random_patches(400)
  end)

  it("cannot be had of strings that are not UTF-8", function()
    local root = { name = "a" }
    local effects = effects_of(root, function() root.name = "\xff\xfe" end)
    assert.same({ nil, "not JSON: a string that is not UTF-8 at '/name'" },
      { effects:to_patch(root) })
  end)

  it("cannot be had of what is not JSON", function()
    local root = {}
    local effects = effects_of(root, function() root.f = print end)
    local patch, message = effects:to_patch(root)
    assert.is_nil(patch)
    assert.matches("function", message)
    misuse("bad argument #1 to 'to_patch' (table expected, got nil)",
      effects.to_patch, effects)
  end)
end)

describe("a patch of effects", function()
  it("is refused for a table that has keys of both kinds", function()
    for _, case in ipairs {
      { { name = "n" }, function(t) t[1] = "one" end },
      { { name = "n", 1 }, function(t) t[1] = 2 end },
      { { 1, 2 }, function(t) t.name = "n" end },
      { { 1, name = "n" }, function(t) t.name = nil end },
    } do
      local root = { list = case[1] }
      local fx = effects_of(root, function() case[2](root.list) end)
      local operations, message = fx:to_patch(root)
      assert.is_nil(operations)
      assert.equal("not JSON: " .. json.NO_KIND .. " at '/list'", message)
    end
  end)

  it("is refused for a string that is not UTF-8, wherever it stands", function()
    local bad = "\xff"
    for _, act in ipairs {
      function(root) root.x = bad end,
      function(root) root[bad] = 1 end,
      function(root) root.x = { { y = bad } } end,
      function(root) root.x = { { [bad] = 1 } } end,
      function(root) root.sub[bad].list[1] = 2 end,
      function(root) root.sub[bad].x = 2 end,
    } do
      local root = { sub = { [bad] = { list = { 1 } } } }
      local fx = effects_of(root, function() act(root) end)
      local operations, message = fx:to_patch(root)
      assert.is_nil(operations)
      assert.is_truthy(message:find "UTF%-8")
    end
  end)

  it("is not refused for a list with a function", function()
    local root = { list = { 1, 2, on_change = print } }
    local fx = effects_of(root, function() root.list[2] = 3 end)
    assert.equal("replace /list/1 3", show(assert(fx:to_patch(root))))
  end)

  it("changes no table that another place holds, too", function()
    local function new()
      local shared = { n = 1, inner = { m = 1 } }
      return { a = shared, z = shared, list = { shared, { n = 5 } } }
    end
    for _, act in ipairs {
      function(root) root.z = { n = 2, inner = { m = 1 } } end,
      function(root) root.a = { n = 1, inner = { m = 2 } } end,
      function(root) root.list[1] = { n = 2 } end,
      function(root) root.list[1], root.list[2] = root.list[2], { n = 3 } end,
      function(root) root.a, root.z = root.list[2], { n = 7 } end,
    } do
      local root, target = new(), new()
      local fx = effects_of(root, function() act(root) end)
      assert.is_truthy(mw.patch(target, assert(fx:to_patch(root))))
      assert.same(mw.plain(root), target)
    end
  end)

  it("is refused when a place of the table has gone with what is above",
    function()
      local part = { n = 1 }
      local root = { list = { part }, box = { inner = { part = part } } }
      local fx = effects_of(root, function() part.n = 2 end)
      assert.equal(2, #fx:to_patch(root))
      root.box = nil
      assert.same({ nil, "a table has moved since" }, { fx:to_patch(root) })
      mw.reap()
      assert.same({ nil, "a table has moved since" }, { fx:to_patch(root) })
    end)

  it("is refused for a cycle in what stands alone before, too", function()
    local inner = {}
    local a, b = { k = { inner, 8 } }, { k = {} }
    local root = { a, b }
    local fx = effects_of(root, function()
      root[1], root[2], inner[1] = b, a, a
    end)
    local operations, message = fx:to_patch(root)
    assert.is_nil(operations)
    assert.matches("a table inside itself", message)
  end)

  it("changes a table that comes to another place and is changed", function()
    local function new()
      local shared = { name = "shared" }
      return { c = { of = shared, other = { n = 1 } }, extra = shared }
    end
    local root, target = new(), new()
    local fx = effects_of(root, function()
      root.extra.new = root.c.other
      root.extra = root.c
    end)
    assert.is_truthy(mw.patch(target, assert(fx:to_patch(root))))
    assert.same(mw.plain(root), target)
  end)
end)

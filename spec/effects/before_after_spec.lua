-- Effects that are described later, when the program has gone on: while the
-- paths hold, or not at all.

local json = require "moonwatch.json"
local mw = require "moonwatch"
local private = require("moonwatch.core").private
local raw_of = require "spec.support.raw_of"
local worlds = require "spec.support.worlds"

local TOO_NEW = "a new table has changed since the effects were made"

local function record(f, ...)
  local ok, fx = mw.transaction(f, ...)
  assert.is_true(ok, fx)
  return fx
end

local function tracked(world) return mw.track(world, { deep = true }) end

local function list_of(names)
  local list = {}
  for i, name in ipairs(names) do list[i] = { name = name } end
  return list
end

-- What a list of names is like after the bytes of effects.
local function names_after(names, bytes)
  local list, result = list_of(names), {}
  assert(mw.patch_bytes(list, bytes))
  for i, t in ipairs(list) do result[i] = t.name end
  return table.concat(result, " ")
end

describe("effects that are described later", function()
  it("are refused when a table on the path has moved", function()
    for step, go_on in ipairs {
      function(users) table.remove(users, 1) end,
      function(users) table.insert(users, 1, { name = "new" }) end,
      function(users) users[1], users[2] = users[2], users[1] end,
      function(users) users.other, users[2] = users[2], { name = "new" } end,
      function(users)
        local bob = table.remove(users)
        users.box = { { bob } }
      end,
      function(users) users[2] = nil end,
    } do
      local world = tracked { users = list_of { "ann", "bob" } }
      local users = world.users
      local fx = record(function() users[2].name = "BOB" end)
      go_on(users)
      collectgarbage()
      local message =
        "the object whose field 'name' was written has moved since"
      assert.same({ nil, message }, { fx:to_bytes(world) }, "step " .. step)
      assert.same({ nil, message }, { fx:to_lua { world = world } })
      assert.is_nil((fx:to_patch(world)))
      users[1].name = "ANN"
      world.other, world.users = users, nil
      assert.same({ nil, message }, { fx:to_bytes(world) }, "step " .. step)
    end
  end)

  it("are as they were while the path holds", function()
    for step, go_on in ipairs {
      function(users) users[2].name = "later" end,
      function(users) users[1] = nil end,
      function(users) users.best, users[1] = users[2], { name = "new" } end,
      function(users) mw.watch(users, function() end, { deep = true }) end,
    } do
      local users = tracked(list_of { "ann", "bob" })
      local fx = record(function() users[2].name = "BOB" end)
      go_on(users)
      collectgarbage()
      assert.equal("ann BOB", names_after({ "ann", "bob" },
        assert(fx:to_bytes(users))), "step " .. step)
      assert.equal('local t1 = users[2]\nt1.name = "BOB"\n',
        fx:to_lua { users = users })
    end
  end)

  it("are refused when a new table has changed", function()
    for _, go_on in ipairs {
      function(_, t) t.x = 2 end,
      function(_, t) t.inner.y = 2 end,
      function(_, t) t.inner = nil end,
      function(root, t)
        root.t = nil
        mw.reap()
        t.x = 2
        mw.reap()
      end,
      function(root, t)
        root.t = nil
        mw.reap()
        t.inner.y = 2
        root.again = t
      end,
    } do
      local root, t = tracked { n = 0 }, { x = 1, inner = { y = 1 } }
      local fx = record(function() root.t, root.n = t, 1 end)
      assert(fx:to_bytes(root))
      go_on(root, t)
      for _, method in ipairs { "to_bytes", "to_patch" } do
        local result, message = fx[method](fx, root)
        assert.is_nil(result)
        assert.matches("changed", message)
      end
      assert.is_nil((fx:to_lua { root = root }))
    end
  end)

  it("are refused when a table above has gone", function()
    local root = tracked { box = { list = { {}, { n = 1 } } } }
    local list = root.box.list
    local fx = record(function() list[2].n = 5 end)
    root.box = nil
    mw.reap()
    table.remove(list, 1)
    local message = "the object whose field 'n' was written has moved since"
    assert.same({ nil, message }, { fx:to_bytes(root) })
    assert.same({ nil, message },
      { fx:to_patch(root) })
    assert.same({ nil, "an object that was written has moved since" },
      { fx:only(root) })
  end)

  it("are refused when a key on the way has moved", function()
    local units = { { n = 1 }, { n = 2 } }
    local root = { units = units, orders = { [units[2]] = { n = 0 } } }
    mw.track(root, { deep = true })
    local fx = record(function() root.orders[units[2]].n = 1 end)
    assert(fx:to_bytes(root))
    units[1], units[2] = units[2], units[1]
    assert.same({ nil,
      "the object whose field 'n' was written has moved since" },
      { fx:to_bytes(root) })
  end)

  it("are refused when an object that they put elsewhere has gone since",
    function()
      local root = tracked { units = { {}, { hp = 1 } } }
      local fx = record(function() root.target = root.units[2] end)
      root.units[2] = nil
      assert.same({ nil, "a table has moved since the effects were made" },
        { fx:to_bytes(root) })
    end)

  it("are refused when what holds an object has moved since", function()
    for _, go_on in ipairs {
      function(root) table.remove(root.list, 1) end,
      function(root) root.list, root.other = nil, root.list end,
      function(root)
        local list = root.list
        root.list = nil
        mw.reap()
        root.other = list
      end,
    } do
      local part = { n = 1 }
      local root = tracked { list = { {}, { part = part } } }
      local put = record(function() root.again = part end)
      local both = record(function() root.again, part.n = nil, 2 end)
      local within = record(function()
        root.again, part.n = part, 3
        root.again = nil
      end)
      local wrote = record(function() part.n = 4 end)
      go_on(root)
      for _, fx in ipairs { put, within, wrote } do
        assert.is_nil((fx:to_bytes(root)))
        assert.is_nil((fx:to_lua { root = root }))
      end
      for _, fx in ipairs { both, within, wrote } do
        assert.is_nil((fx:to_patch(root)))
      end
      assert.is_nil((wrote:only(root)))
    end
  end)

  it("are refused when an object that they took out may have stood elsewhere",
    function()
      local part = { n = 1 }
      local root = tracked { a = part, box = { part = part } }
      local fx = record(function() part.n, root.a = 2, nil end)
      assert.equal(2, #fx:to_patch(root))
      root.box = nil
      mw.reap()
      assert.same({ nil, "a table has moved since" }, { fx:to_patch(root) })
    end)

  it("do not mind what else has changed", function()
    local root = tracked { a = { b = {} }, list = {} }
    local fx = record(function() root.a.b.t = { x = 1 } end)
    local bytes = fx:to_bytes(root)
    for i = 1, 1000 do root.list[i] = { i } end
    root.a.other, root.a.b.n = {}, 1
    assert.equal(bytes, fx:to_bytes(root))
    assert.same({ { op = "add", path = "/a/b/t", value = { x = 1 } } },
      json.copy(fx:to_patch(root)))
  end)

  it("do not mind how much has changed elsewhere", function()
    local root, other = tracked { list = {}, a = {} }, tracked { list = {} }
    local fx = record(function() root.a.x = 1 end)
    local bytes = fx:to_bytes(root)
    for i = 1, 20000 do root.list[1], other.list[1] = { i }, { i } end
    assert.equal(bytes, fx:to_bytes(root))
    assert.equal(1, #fx:to_patch(root))
    assert.equal(1, fx:only(root):len())
  end)

  it("are the same when the effects were undone", function()
    local root = tracked { list = { {}, {} } }
    local fx = record(function()
      table.insert(root.list, 1, { new = {} })
      root.list[1].new.x = 1
    end)
    local bytes = assert(fx:to_bytes(root))
    fx:rollback()
    assert.equal(bytes, fx:to_bytes(root))
    local again = assert(fx:apply())
    assert.equal(bytes, again:to_bytes(root))
    again:rollback()
    assert.equal(bytes, again:to_bytes(root))
    again = again:apply()
    root.list[1].new.y = 1
    assert.same({ nil, TOO_NEW }, { again:to_bytes(root) })
  end)

  it("can be had of a transaction that was rolled back", function()
    local root = tracked {}
    local tx = mw.begin()
    root.t = { x = 1 }
    root.t.x = 2
    local fx = tx:rollback()
    local twin = {}
    assert(mw.patch_bytes(twin, assert(fx:to_bytes(root))))
    assert.same({ t = { x = 2 } }, twin)
  end)

  it("are those of the first when they are put together", function()
    local users = tracked(list_of { "ann", "bob" })
    local a = record(function() users[2].name = "BOB" end)
    local b = record(function() table.remove(users, 1) end)
    local c = record(function() users[1].name = users[1].name .. "!" end)
    assert.equal("BOB!", names_after({ "ann", "bob" },
      a:concat(b):concat(c):to_bytes(users)))
    assert.is_nil((a:concat(c):to_bytes(users))) -- it has moved between them
    local back = a:concat(b):invert()
    assert.equal("ann bob", names_after({ "BOB" }, back:to_bytes(users)))
  end)

  it("do not keep what has gone", function()
    local root, gone = tracked { a = {} }, setmetatable({}, { __mode = "v" })
    local fx = record(function() root.a.x = 1 end)
    for i = 1, 10 do
      root.t = { i }
      gone[i], root.t = root.t, nil
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(gone))
    assert(fx:to_bytes(root))
  end)
end)

-- {======================================================
-- Random programs
-- =======================================================

local function is_seen(t) return private.intercepts(t) end

-- Are two worlds the same?  Objects as keys are found once they have a name.
local function same_world(a, b)
  local map, queue, n = { [a] = b }, { a }
  local taken = { [b] = true }
  local function meet(x, y)
    if type(x) ~= "table" or type(y) ~= "table" then
      return rawequal(x, y) or x ~= x and y ~= y
    end
    if map[x] or taken[y] then return map[x] == y end
    map[x], taken[y] = y, true
    queue[#queue + 1] = x
    return true
  end
  repeat
    n = #queue
    for i = 1, n do
      for key, value in pairs(queue[i]) do
        local other = type(key) == "table" and map[key] or key
        if other ~= key or type(key) ~= "table" then
          if not meet(value, map[queue[i]][other]) then return false end
        end
      end
    end
  until #queue == n
  for x, y in pairs(map) do
    local count = 0
    for _ in pairs(x) do count = count + 1 end
    for _ in pairs(y) do count = count - 1 end
    if count ~= 0 then return false end
  end
  return true
end

-- A world with eight tables, some of them under objects, and room for more.
local function new_world(random)
  local tables = {}
  for i = 1, 8 do tables[i] = { i, i * 10, name = "table " .. i } end
  for i = 2, 8 do
    local parent = tables[random(i - 1)]
    local key = i > 3 and random(4) == 1 and tables[random(2, i - 1)]
    parent[key or "child " .. i] = tables[i]
  end
  if random(4) == 1 then tables[8].up = tables[random(8)] end
  return tables
end

local function new_value(random, tables)
  local kinds = {
    function() return random(100) end, function() return tables[random(8)] end,
    function()
      local t = { random(10), inner = { random(10) } }
      tables[random(9, 12)] = t
      return t
    end,
    function() return nil end, function() return tables[random(9, 12)] end,
    function() return { [tables[random(8)]] = random(9) } end,
  }
  return kinds[random(#kinds)]()
end

local function deed(random, tables, seen)
  local t = tables[random(12)] or tables[random(8)]
  local other = tables[random(8)]
  if seen and not (is_seen(t) and is_seen(other)) then return end
  local kind = random(7)
  if kind <= 4 then
    local keys = { "name", "x", random(4), random(6) + 0.5, other }
    t[keys[random(#keys)]] = new_value(random, tables)
  elseif kind == 5 then
    table.insert(t, random(#t + 1), new_value(random, tables) or 5)
  elseif kind == 6 then
    if #t > 0 then table.remove(t, random(#t)) end
  else
    t.moved, other.moved = t.x, t.moved
  end
end

local function run(random, tables, n, seen)
  return record(function()
    for _ = 1, n do deed(random, tables, seen) end
  end)
end

local function go_on(random, tables)
  for _ = 1, random(0, 6) do
    if random(4) == 1 then
      mw.transaction(function()
        deed(random, tables, true)
        error("in the middle", 0)
      end)
    elseif random(5) == 1 then
      run(random, tables, 2, true):rollback()
    else
      deed(random, tables, true)
    end
  end
end

-- Is there an object that is only a key?  No way leads to such an object, and
-- nobody knows that it is there.
local function has_only_key(root)
  local seen, queue, keys = { [root] = true }, { root }, {}
  while #queue > 0 do
    for key, value in next, raw_of(table.remove(queue)) do
      if type(key) == "table" then keys[key] = true end
      if type(value) == "table" and not seen[value] then
        seen[value] = true
        queue[#queue + 1] = value
      end
    end
  end
  for key in pairs(keys) do
    if not seen[key] then return true end
  end
  return false
end

describe("the effects of a random program, described later", function()
  it("are right or refused (SEED=" .. worlds.seed .. ")", function()
    local answers = 0
    worlds.each(700, function(random, message)
      local tables = new_world(random)
      local root = tracked { tables[1] }
      run(random, tables, random(0, 3))
      if has_only_key(root) then return end
      local twins = { worlds.copy(root), worlds.copy(root) }
      local fx = run(random, tables, random(6))
      local after = worlds.copy(root)
      if random(3) == 1 then fx:rollback() end
      mw.reap() -- gives back what has gone: nobody sees writes to that
      go_on(random, tables)
      local bytes = fx:to_bytes(root)
      if bytes then
        answers = answers + 1
        assert(mw.patch_bytes(twins[1], bytes), message)
        assert.is_true(same_world(twins[1], after), message)
        local text = assert(fx:to_lua { root = root })
        assert(load(text, "text", "t", { root = twins[2] }))()
        assert.is_true(same_world(twins[2], after), message)
      end
      mw.untrack(root)
    end)
    assert.is_true(answers > 100)
  end)
end)

-- }======================================================

local mw = require "moonwatch"
local shell = require "spec.support.shell"

local PARTS = { "objects", "watches", "journal", "names", "traces" }

local function sum(memory)
  local bytes = 0
  for _, part in ipairs(PARTS) do bytes = bytes + memory[part] end
  return bytes
end

-- Runs code in a Lua of its own, in which nothing is free to be used again.
local function alone(code)
  shell.with_directory(function(path)
    local file = assert(io.open(path .. "/alone.lua", "w"))
    file:write([[
      local mw = require "moonwatch"
      local function growth(before, part)
        return mw.memory()[part] - before[part]
      end
    ]], code)
    file:close()
    local output, ok = shell.run("%s %s/alone.lua", os.getenv "LUA" or "lua5.4",
      path)
    assert.is_true(ok, output)
  end)
end

describe("mw.memory", function()
  it("says how many bytes each part has, and all have", function()
    local memory = mw.memory()
    local names = {}
    for name, bytes in pairs(memory) do
      names[#names + 1] = name
      assert.equal("integer", math.type(bytes))
      assert.is_true(bytes >= 0)
    end
    table.sort(names)
    assert.same({ "journal", "names", "objects", "total", "traces", "watches" },
      names)
    assert.equal(memory.total, sum(memory))
    assert.is_true(memory.objects > 0)
    memory.total = 0 -- a table of the caller's
    assert.is_true(mw.memory().total > 0)
  end)

  it("says what objects take", function()
    alone [[
      local keep, before = {}, mw.memory()
      for i = 1, 3000 do keep[i] = mw.track {} end
      assert(growth(before, "objects") > 3000 * 40)
      assert(growth(before, "watches") == 0)
    ]]
  end)

  it("says what watches take, and what is below", function()
    alone [[
      local guard, keep, before = mw.guard(), {}, mw.memory()
      for i = 1, 1000 do
        keep[i] = {}
        mw.watch(keep[i], guard, { key = "x", once = false })
      end
      assert(growth(before, "watches") > 1000 * 64)
      before = mw.memory()
      local root = {}
      for i = 1, 1000 do root[i] = { {} } end
      mw.track(root, { deep = true })
      assert(growth(before, "watches") > 2000 * 64)
    ]]
  end)

  it("says what transactions take, until they end", function()
    alone [[
      local obj = mw.track {}
      mw.begin():rollback() -- makes the pages of all transactions
      local before = mw.memory()
      local tx = mw.begin()
      for i = 1, 10000 do obj[i] = i end
      assert(growth(before, "journal") >= 10000 * 40)
      tx:rollback()
      assert(growth(before, "journal") < 10000)
    ]]
  end)

  it("says what coroutines with transactions take", function()
    alone [[
      local obj, before, list = mw.track {}, mw.memory(), {}
      for i = 1, 200 do
        list[i] = coroutine.wrap(function()
          local _ <close> = mw.begin()
          obj[i] = i
          coroutine.yield()
        end)
        list[i]()
      end
      assert(growth(before, "journal") > 200 * 100)
      assert(growth(before, "names") == 0)
      for i = 1, 200 do list[i]() end
    ]]
  end)

  it("says what feeds with a root take, until they are closed", function()
    alone [[
      local root = { list = {} }
      for i = 1, 1000 do root.list[i] = { i } end
      mw.track(root, { deep = true })
      local before = mw.memory()
      local feed = mw.feed { root = root }
      local grown = growth(before, "journal") + growth(before, "watches")
      assert(grown > 1000 * 40 and grown < 1000 * 90, grown)
      assert(growth(before, "names") == 0)
      feed:close()
      assert(growth(before, "journal") < 1000)
    ]]
  end)

  it("says what hierarchies take", function()
    alone [[
      local before, h = mw.memory(), mw.hierarchy()
      h:record(true)
      local objects = {}
      for i = 1, 500 do
        objects[i] = {}
        h:enter(objects[i])
      end
      local grown = growth(before, "names")
      assert(grown > 500 * 32)
      for i = 500, 1, -1 do h:leave(objects[i]) end
      h:close()
      h = nil
      collectgarbage()
      collectgarbage()
      assert(growth(before, "names") < grown)
    ]]
  end)

  it("says what traces take, with their texts", function()
    alone [[
      local before = mw.memory()
      local trace = mw.trace { capacity = 1000 }
      assert(growth(before, "traces") >= 1000 * 64)
      before = mw.memory()
      trace:start()
      for i = 1, 50 do mw.instant("name " .. i, { text = ("x"):rep(100) }) end
      trace:stop()
      assert(growth(before, "traces") >= 5000)
      trace:clear()
      assert(growth(before, "traces") < 5000)
    ]]
  end)

  it("does not grow when it is asked", function()
    local before = mw.memory()
    for _ = 1, 100 do mw.memory() end
    assert.same(before, mw.memory())
  end)
end)

describe("dead objects", function()
  -- Without a call of the library, and in one transaction a frame.
  local frames = {
    writes = "spawn()",
    transactions = "mw.transaction(spawn)",
    ["transactions that fail"] =
      "mw.transaction(function() spawn() error 'fails' end)",
  }

  local mode = collectgarbage "incremental"
  collectgarbage(mode)

  -- How many wait for a collection depends on the heap.
  for name, frame in pairs(frames) do
    it("do not pile up in a program that makes only " .. name, function()
      alone(([[
        collectgarbage "%s"
        local world = mw.track({ units = {} }, { deep = true })
        local _ <close> = mw.recorder { capacity = 1000 }
        local function spawn()
          for i = 1, 50 do
            world.units[i %% 100 + 1] = { hp = i, at = { x = i } }
          end
        end
        for _ = 1, 200 do %s end
        local before = mw.memory()
        for _ = 1, 1000 do %s end -- 100,000 objects
        assert(growth(before, "objects") < 4 << 20)
      ]]):format(mode, frame, frame))
    end)
  end
end)

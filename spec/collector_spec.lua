local mw = require "moonwatch"

local Unit = mw.name_class("collector.Unit", {})
Unit.__index = Unit

local function new_unit(hp)
  return setmetatable({ hp = hp, at = { x = 0 } }, Unit)
end

local function new_world()
  local world = { units = {}, turn = 0 }
  for i = 1, 20 do world.units[i] = new_unit(i) end
  return mw.track(world, { deep = true })
end

local function hear() end

local function play(world)
  for _, unit in ipairs(world.units) do unit.hp = unit.hp + 1 end
end

local function fail(world)
  play(world)
  error("fails", 0)
end

-- Each returns a frame of a program, and what is to be closed at the end.
local frames = {
  ["writes beside a recorder"] = function(world)
    return function() play(world) end, mw.recorder { where = true }
  end,
  ["transactions beside a recorder"] = function(world)
    return function() mw.transaction("frame", play, world) end,
      mw.recorder { where = true, rolled_back = true }
  end,
  ["transactions that fail, beside a recorder"] = function(world)
    return function() mw.transaction("frame", fail, world) end,
      mw.recorder { rolled_back = true }
  end,
  ["transactions of many origins beside a recorder"] = function(world)
    return function()
      mw.transaction(function()
        for i = 1, 20 do mw.origin("player " .. i, play, world) end
      end)
    end, mw.recorder()
  end,
  ["transactions that fail, with a guard"] = function(world)
    mw.watch(world, hear, { deep = true, once = false })
    return function() mw.transaction("frame", fail, world) end
  end,
  ["transactions that fail in coroutines, with a guard"] = function(world)
    mw.watch(world, hear, { deep = true, once = false })
    local function wait(f, ...)
      local co = coroutine.wrap(function(...)
        return mw.transaction(function(...)
          coroutine.yield()
          return f(...)
        end, ...)
      end)
      co(...)
      return co
    end
    return function()
      local first, second = wait(play, world), wait(fail, world)
      first()
      second()
    end
  end,
  ["undo and redo, with a guard"] = function(world)
    mw.watch(world, hear, { deep = true, once = false })
    local history = mw.history { limit = 10 }
    return function()
      history:run("play", play, world)
      history:undo()
      history:redo()
    end
  end,
  ["looks of a feed at changes"] = function(world)
    local feed = mw.feed { root = world }
    return function(i)
      play(world)
      world.units[i % 20 + 1] = new_unit(i)
      for _ in feed:changes() do end
    end, feed
  end,
  ["looks of a feed at entries"] = function(world)
    local feed = mw.feed { root = world }
    return function(i)
      world.units[i % 20 + 1] = new_unit(i)
      for _ in feed:read() do end
    end, feed
  end,
  ["hashes"] = function(world)
    return function()
      play(world)
      assert(mw.hash(world))
    end
  end,
}

-- Collections that end while `f` runs.
local function count_cycles(f)
  local cycles, counts = 0, true
  local function count()
    if not counts then return end
    cycles = cycles + 1
    setmetatable({}, { __gc = count })
  end
  collectgarbage()
  collectgarbage()
  setmetatable({}, { __gc = count })
  f()
  counts = false
  return cycles
end

-- With so much in the heap, a collector that waits for its time does not begin
-- within FRAMES; one that is woken in each of them goes through the heap often.
local HEAP, FRAMES = 200000, 100

describe("the collector waits for its time beside", function()
  local heap, mode = {}, nil

  setup(function()
    mode = collectgarbage "incremental"
    for i = 1, HEAP do heap[i] = { i } end
  end)

  teardown(function()
    collectgarbage(mode)
    for i = #heap, 1, -1 do heap[i] = nil end
  end)

  for name, new in pairs(frames) do
    it(name, function()
      if os.getenv "MOONWATCH_GC" == "often" then return end
      local frame, handle = new(new_world())
      frame(1)
      local cycles = count_cycles(function()
        for i = 1, FRAMES do frame(i) end
      end)
      if handle then (handle.close or handle.stop)(handle) end
      assert.is_true(cycles <= 1, cycles .. " collections")
    end)
  end
end)

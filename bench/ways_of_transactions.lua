-- The ways of transactions and histories: ours, and by hand in Lua.

local mw = require "moonwatch"

local statements, histories = {}, {}

local function nothing() end

-- By hand ---------------------------------------------------------------

-- Returns an object whose writes are logged, and functions that begin, commit
-- and take back.
local function logged()
  local contents, log = { x = 0 }, nil
  local obj = setmetatable({}, {
    __index = contents,
    __newindex = function(object, key, value)
      if log then
        log[#log + 1] = { object = object, key = key, old = contents[key],
          new = value }
      end
      contents[key] = value
    end,
  })
  local function begin() log = {} end
  local function commit()
    local effects = log
    log = nil
    return effects
  end
  local function rollback()
    for i = #log, 1, -1 do contents[log[i].key] = log[i].old end
    log = nil
  end
  local function transaction(fn, ...)
    begin()
    local ok, err = pcall(fn, ...)
    if ok then return true, commit() end
    rollback()
    return false, err
  end
  return obj, transaction, begin, commit
end

-- Statements ------------------------------------------------------------

-- The object and the functions of one way or the other.
local function ours()
  local tx
  return mw.track { x = 0 }, mw.transaction, function() tx = mw.begin() end,
    function() return tx:commit() end
end

local function of_one(obj, transaction)
  local function write(i) obj.x = i end
  return function(count)
    for i = 1, count do transaction(write, i) end
    assert(obj.x == count)
  end
end

local function of_ten(obj, transaction)
  local function write(i)
    for k = 1, 10 do obj.x = i + k end
  end
  return function(count)
    for i = 1, count do transaction(write, i) end
    assert(obj.x == count + 10)
  end
end

local function failing(obj, transaction)
  local function write(i)
    obj.x = i
    error("failed", 0)
  end
  return function(count)
    for i = 1, count do transaction(write, i) end
    assert(obj.x == 0)
  end
end

local function begun(obj, _, begin, commit)
  return function(count)
    for i = 1, count do
      begin()
      obj.x = i
      commit()
    end
  end
end

for name, way in pairs {
  of_one = of_one, of_ten = of_ten, failing = failing, begun = begun,
} do
  statements["log_" .. name] = function()
    return way(logged()), nothing, nothing
  end
  statements["transaction_" .. name] = function()
    return way(ours()), nothing, nothing
  end
end

-- Histories -------------------------------------------------------------

-- Functions that run, undo and redo a step of one write.

function histories.by_hand()
  local doc, log, at = { n = 0 }, {}, 0
  return function(value)
    at = at + 1
    log[at] = { object = doc, key = "n", old = doc.n, new = value }
    doc.n = value
  end, function()
    local step = log[at]
    step.object[step.key] = step.old
    at = at - 1
  end, function()
    at = at + 1
    local step = log[at]
    step.object[step.key] = step.new
  end
end

function histories.history()
  local doc, history, value = mw.track { n = 0 }, mw.history {}, 0
  local function write() doc.n = value end
  return function(new)
    value = new
    history:run("step", write)
  end, function() history:undo() end, function() history:redo() end
end

-- Frames that are run again ---------------------------------------------

local OBJECTS, FRAMES, WRITES = 50000, 8, 200

-- Frames in a world that is tracked deeply.  Returns the world, a frame, and
-- what comes before them.
local function new_frames()
  local list, seed = {}, 1
  for i = 1, OBJECTS do list[i] = { hp = i } end
  local world = mw.track({ list = list }, { deep = true })
  return world, function()
    local units = world.list
    for _ = 1, WRITES do
      seed = (seed * 1103515245 + 12345) % 2147483648
      units[seed % OBJECTS + 1].hp = seed
    end
  end, function() seed = 1 end
end

-- Each returns a function that runs the frames, and how often its time counts,
-- and with how many seconds more.
local replays = {}

function replays.frames()
  local _, frame, before = new_frames()
  return function()
    before()
    for _ = 1, FRAMES do frame() end
  end, 3, 0.002
end

function replays.checked()
  local world, frame, before = new_frames()
  local opts = { frames = FRAMES, before = before }
  return function() assert(mw.check_replay(world, frame, opts)) end, 1, 0
end

return function(ways)
  ways.replays = replays
  for name, way in pairs(statements) do ways.statements[name] = way end
  ways.histories = histories
end

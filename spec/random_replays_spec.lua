local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local picture = require "spec.support.picture"
local worlds = require "spec.support.worlds"

local CLASSES = { { __index = { inherited = 1 } }, {} }
CLASSES[3] = { __newindex = function(t, k, v) rawset(t, k, v) end }

-- A generator of numbers that the frames seed.
local function new_random()
  local state = 1
  local function random(n)
    state = (state * 1103515245 + 12345) % 2147483648
    return (state >> 8) % n + 1
  end
  return random, function(seed) state = seed % 2147483648 end
end

local function new_world(random)
  local root = { list = {}, deep = { a = {}, b = { c = {} } } }
  for i = 1, random(6) do root.list[i] = { x = i, { y = i } } end
  root.deep.shared = root.list[1]
  return root
end

-- Returns the tables in the fields of a table, in the order of the keys.
local function below(t)
  local keys, list = {}, {}
  for key, value in next, raw_of(t) do
    if type(key) ~= "table" and type(value) == "table" then
      keys[#keys + 1] = key
    end
  end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for i, key in ipairs(keys) do list[i] = raw_of(t)[key] end
  return list
end

local function pick(root, random)
  local t = root
  for _ = 1, random(5) do
    local list = below(t)
    if #list == 0 then return t end
    t = list[random(#list)]
  end
  return t
end

local KEYS = { "x", "y", "z", -1, 2.5, 3.5, true } -- makes no holes

local deeds = {
  function(root, random)
    pick(root, random)[KEYS[random(#KEYS)]] = random(100)
  end,
  function(root, random) pick(root, random)[KEYS[random(#KEYS)]] = nil end,
  function(root, random)
    local new = { random(3), inner = { random(3) } }
    new.up = random(3) == 1 and new or nil
    pick(root, random)[KEYS[random(#KEYS)]] = new
    new.inner.later = random(3)
  end,
  function(root, random)
    local key, value = KEYS[random(#KEYS)], pick(root, random)
    pick(root, random)[key] = value
  end,
  function(root, random)
    table.insert(root.list, random(#root.list + 1), { random(3) })
  end,
  function(root, random)
    if #root.list > 0 then table.remove(root.list, random(#root.list)) end
  end,
  function(root, random)
    local class = CLASSES[random(#CLASSES)]
    mw.setmetatable(pick(root, random), class)
  end,
  function(root, random)
    pick(root, random).new = setmetatable({ 1 }, CLASSES[random(#CLASSES)])
  end,
  function(root, random)
    local co = coroutine.wrap(function()
      for i = 1, 3 do
        pick(root, random).y = i
        coroutine.yield()
      end
    end)
    for _ = 1, 3 do co() end
  end,
  function(root, random)
    pick(root, random).set = { [{ random(3) }] = random(3) }
  end,
}

-- Returns a step; in the frame and the pass of `odd`, one of its deeds writes
-- what no other deed writes.
local function new_step(root, random, its, odd)
  return function()
    its.frame = its.frame + 1
    for i = 1, its.deeds do
      if odd and odd.frame == its.frame and odd.deed == i then
        pick(root, random).odd = 1000 + its.frame
      end
      local deed = deeds[random(#deeds)]
      if random(6) > 1 then
        deed(root, random)
      elseif random(2) == 1 or its.is_plain then
        local seed = random(1 << 20)
        if not its.is_plain then
          local other, reseed = new_random()
          reseed(seed)
          mw.transaction(function()
            deed(root, other)
            error "no"
          end)
        end
      else
        random(1 << 20)
        local _, message = mw.transaction(function() end)
        assert(message)
      end
    end
  end
end

-- Returns the world after the frames of a program that nobody checks.
local function plain_world(its, frames)
  local random, reseed = new_random()
  reseed(its.seed)
  local root = new_world(random)
  local step = new_step(root, random, { frame = 0, deeds = its.deeds,
    is_plain = true })
  reseed(its.seed + 1)
  for _ = 1, frames do step() end
  return picture(root)
end

local function check(its)
  local frames = its.frames
  local random, reseed = new_random()
  reseed(its.seed)
  local root = new_world(random)
  local before = picture(root)
  if its.how == "track" then mw.track(root, { deep = true }) end
  if its.how == "below" then mw.track({ { root } }, { deep = true }) end
  if its.how == "shallow" then mw.track(root) end
  local run = { frame = 0, deeds = its.deeds }
  local step = new_step(root, random, run, its.odd)
  local outer = its.taken_back and mw.begin()
  local same, report = mw.check_replay(root, step, { frames = frames,
    before = function() reseed(its.seed + 1) end })
  local text = picture(root)
  if its.odd then
    if same then return "no difference" end
    if report.frame ~= its.odd.frame - frames then
      return ("frame %d: %s"):format(its.odd.frame - frames, tostring(report))
    end
  elseif not same then
    return tostring(report)
  end
  if text ~= plain_world(its, frames) then return text end
  if outer then
    outer:rollback()
    if picture(root) ~= before then return "not taken back" end
  end
  if its.how == "none" and getmetatable(root) then return "tracked" end
end

local HOW = { "track", "none", "below", "shallow" }

describe("a random program that is run again", function()
  it(("differs where it differs, and nowhere else (SEED=%d)")
    :format(worlds.seed), function()
      worlds.each(300, function(random, message)
        local its = {
          seed = random(1 << 30), frames = random(5), deeds = random(8),
          how = HOW[random(#HOW)], taken_back = random(3) == 1,
        }
        if random(2) == 1 then
          its.odd = { frame = its.frames + random(its.frames),
            deed = random(its.deeds) }
        end
        local problem = check(its)
        if problem then
          error(("%s, %s: %s"):format(message, its.how, problem), 0)
        end
      end)
    end)
end)

-- Takes figures in a process of its own, because what a call costs depends on
-- all that the heap has seen before.
--
--   child.lua <measure> <way>...      prints a line of figures for each way
--
-- A measure is one of those below, a way one of ways.lua.  The speed of a
-- machine changes from second to second, so ways that are compared take turns
-- in one process, unless their heaps are what is measured.

package.path = "bench/?.lua;" .. package.path
package.cpath = (os.getenv "BUILD" or "build") .. "/bench/?.so;" ..
  package.cpath

local floor = require "floor"

-- The library keeps the allocator that it finds.
if arg[1]:find "^live" then floor.count_memory() end

local mw = require "moonwatch"
local ways = require "ways"

-- The mode of a state that a program opens (`lua` starts in the other one); and
-- it collects when it is told to.
collectgarbage "incremental"
collectgarbage "stop"

local MANY, MILLION = 100000, 1000000

local function new_objects(count)
  local list = {}
  for i = 1, count do list[i] = {} end
  return list
end

-- Objects to be watched.
local function new_points(count)
  local list = {}
  for i = 1, count do list[i] = { x = 1, y = 2 } end
  return list
end

-- Leaves no garbage, and no deaths for later calls to notice.
local function settle()
  collectgarbage()
  collectgarbage()
  mw.reap()
end

-- Seconds that f(...) takes.
local function time(f, ...)
  local start = floor.now()
  f(...)
  return floor.now() - start
end

local measures = {}

-- Calls -----------------------------------------------------------------

-- Nanoseconds a call for objects that have not been seen before.
function measures.first(way)
  local list = new_objects(MANY)
  settle()
  return time(ways[way], list) * 1e9 / MANY
end

-- What makes objects known to a way, when it is not the way itself.
local before = { read = "write", generation = "tag", get = "set" }

local seen, known = nil, {}

-- 100,000 objects known to a way, in the order they were made in.
local function known_objects(way)
  seen = seen or new_objects(MANY)
  if not known[way] then ways[before[way] or way](seen) end
  known[way] = true
  return seen
end

-- The same in another order, which is the same each time.
local function shuffled_objects(way)
  local list = table.move(known_objects(way), 1, MANY, 1, {})
  math.randomseed(42)
  for i = MANY, 2, -1 do
    local j = math.random(i)
    list[i], list[j] = list[j], list[i]
  end
  return list
end

-- Nanoseconds a call for objects that have been.
function measures.again(way)
  local list = known_objects(way)
  settle()
  return time(ways[way], list) * 1e9 / MANY
end

function measures.shuffled(way)
  local list = shuffled_objects(way)
  settle()
  return time(ways[way], list) * 1e9 / MANY
end

-- Right after a collection, while deaths are being sought.
function measures.collected(way)
  local list = known_objects(way)
  settle()
  collectgarbage()
  return time(ways[way], list) * 1e9 / MANY
end

-- Milliseconds of the longest call while a million objects are first seen: that
-- in which a table grows.
function measures.longest(way)
  local objects, single, longest = new_objects(MILLION), {}, 0
  settle()
  local start = floor.now()
  for i = 1, MILLION do
    single[1] = objects[i]
    ways[way](single)
    local stop = floor.now()
    longest, start = math.max(longest, stop - start), stop
  end
  return longest * 1e3
end

-- Microseconds to find the ten newest, far from one another, in a million.
function measures.newest(way)
  local objects = new_objects(MILLION)
  ways[way](objects)
  local count = ways.newest[way]()
  for i = 1, 10 do ways[way] { objects[i * MILLION // 10] } end
  settle()
  assert(count() == 10)
  return time(count) * 1e6
end

-- Watches ---------------------------------------------------------------

-- What a function returns for a way, which it is asked once.
local made = {}

local function made_by(new, way)
  made[way] = made[way] or table.pack(new[way]())
  return table.unpack(made[way], 1, made[way].n)
end

-- Seconds of statements, with the garbage that they make collected as it comes.
local function time_statements(way, count)
  local run, start, stop = made_by(ways.statements, way)
  settle()
  start()
  collectgarbage "restart"
  local seconds = time(run, count)
  collectgarbage "stop"
  stop()
  return seconds
end

local TAKE = 0.015 -- seconds
local counts = {}

-- Nanoseconds a statement.
function measures.statements(way)
  local count = counts[way]
  if not count then
    local each = time_statements(way, 500) / 500
    count = math.max(100, math.min(MANY, TAKE // each // 1 | 0))
    counts[way] = count
  end
  return time_statements(way, count) * 1e9 / count
end

-- Nanoseconds an object to watch objects that have never been watched, with the
-- memory that this takes.
function measures.first_watch(way)
  local list = new_points(20000)
  settle()
  collectgarbage "restart"
  local seconds = time(ways[way], list)
  collectgarbage "stop"
  return seconds * 1e9 / #list
end

local points

-- Nanoseconds a point, which is afterwards as before.
function measures.points(way)
  points = points or new_points(MANY)
  settle()
  return time(ways[way], points) * 1e9 / MANY
end

-- Nanoseconds a guard to make 100,000 invalid.
function measures.invalidate(way)
  local guards, invalidate = ways.guards[way](MANY)
  settle()
  local seconds = time(invalidate)
  for i = 1, MANY do assert(not guards[i].valid) end
  return seconds * 1e9 / MANY
end

-- How many guards can be called in one another, from a program that has just
-- begun.
function measures.nesting(way)
  local depth = 0
  for n = 2, 200 do
    local first, last = ways.cells[way](n)
    if not pcall(function() first.value = 1 end) then break end
    if last.value ~= n then break end
    depth = n - 1
  end
  return depth
end

-- Policies --------------------------------------------------------------

local function is_dynamic(way)
  local decide = ways.policies[way]()
  local object = setmetatable({ x = 1 }, { x = 2 })
  decide(object)
  return decide, object
end

-- Nanoseconds a decision about one object.
function measures.decide(way)
  local decide, object = is_dynamic(way)
  settle()
  return time(function()
    for _ = 1, MANY do decide(object) end
  end) * 1e9 / MANY
end

-- Nanoseconds a decision about an object of a class that is new each time.
function measures.unknown_class(way)
  local decide = is_dynamic(way)
  local objects = {}
  for i = 1, 1000 do objects[i] = setmetatable({}, {}) end
  settle()
  return time(function()
    for i = 1, #objects do decide(objects[i]) end
  end) * 1e9 / #objects
end

-- Effects ---------------------------------------------------------------

-- Nanoseconds a write that is recorded.
function measures.record(way)
  local obj, start, stop = made_by(ways.recorders, way)
  settle()
  start()
  local seconds = time(function()
    for i = 1, MANY do obj.x = i end
  end)
  stop()
  return seconds * 1e9 / MANY
end

-- Microseconds to find who wrote a field last: in the ring, before that, or
-- before much was taken back.
function measures.why(way)
  local objects, names = {}, { "a", "b", "c", "d" }
  for i = 1, 100 do objects[i] = mw.track {} end
  local recorder = mw.recorder { rolled_back = way == "why_taken" }
  for _, name in ipairs(names) do
    for _, obj in ipairs(objects) do obj[name] = 0 end
  end
  local other, n = mw.track { x = 0 }, way == "why_kept" and 66000 or 65000
  mw.transaction(function()
    for i = 1, n do other.x = i end
    assert(way ~= "why_taken")
  end)
  settle()
  local seconds = time(function()
    for i = 1, 1000 do
      assert(mw.why(objects[i % 100 + 1], names[i % 4 + 1]).new == 0)
    end
  end)
  recorder:stop()
  return seconds * 1e3
end

-- Nanoseconds to take back a write.
function measures.undo(way)
  local count, measured, first, last = made_by(ways.undo, way)
  settle()
  first()
  local seconds = time(measured)
  last()
  return seconds * 1e9 / count
end

local STEPS = 20000 -- of a history

-- Seconds, with the garbage collected as it comes.
local function time_steps(step)
  settle()
  collectgarbage "restart"
  local seconds = time(function()
    for i = 1, STEPS do step(i) end
  end)
  collectgarbage "stop"
  return seconds
end

-- Nanoseconds a step to run, to undo, and to do again.
function measures.history(way)
  local run, undo, redo = ways.histories[way]()
  local ran, undone = time_steps(run), time_steps(undo)
  local redone = time_steps(redo)
  return ran * 1e9 / STEPS, undone * 1e9 / STEPS, redone * 1e9 / STEPS
end

-- Nanoseconds a change: to write and to look, and to look alone.  The least
-- of some tries counts.
function measures.looks(way)
  local write, look, n = ways.looks[way]()
  local both, alone = math.huge, math.huge
  look()
  settle()
  for _ = 1, 20 do
    local writing, looking = time(write), time(look)
    both = math.min(both, writing + looking)
    alone = math.min(alone, looking)
  end
  return both * 1e9 / n, alone * 1e9 / n
end

-- Microseconds of frames, as many times as the way says, and more.  The garbage
-- is collected as it comes, from here on: each `restart` begins a cycle.
function measures.replay(way)
  local run, times, more = made_by(ways.replays, way)
  if not collectgarbage "isrunning" then collectgarbage "restart" end
  run() -- brings the world back into the caches
  return (time(run) * times + more) * 1e6
end

-- Nanoseconds an entry that is looked at, in memory that was used before.
function measures.reads(way)
  local write, look, n = ways.looks[way]()
  local least = math.huge
  for _ = 1, 20 do
    write()
    settle()
    least = math.min(least, time(look))
  end
  return least * 1e9 / n
end

-- Bytes that Lua and the library have for a step.
function measures.live_history(way)
  local run = ways.histories[way]()
  run(0)
  settle()
  local start = floor.live()
  for i = 1, STEPS do run(i) end
  settle()
  local bytes = floor.live() - start
  assert(run)
  return bytes / STEPS
end

-- Microseconds to change one of 1,000 rows.
function measures.row(way)
  local change = made_by(ways.rows, way)
  settle()
  return time(function()
    for i = 1, 100 do change(i) end
  end) * 1e6 / 100
end

-- Microseconds for what is done with two documents.
function measures.documents(way)
  local run, count = made_by(ways.documents, way)
  settle()
  return time(run) * 1e6 / (count or 1)
end

-- Microseconds to write a world, to read it, or to hash it.
function measures.snapshots(way)
  local run = made_by(ways.snapshots, way)
  settle()
  return time(run) * 1e6
end

-- Nanoseconds a table to copy a world.
function measures.plain(way)
  local copies = made_by(ways.copies, way)
  settle()
  return time(copies) * 1e9 / MANY
end

-- Traces ----------------------------------------------------------------

-- Nanoseconds a scope; garbage is collected as it comes, for that is a part of
-- the price.
function measures.scope(way)
  local scopes, first, last = made_by(ways.scopes, way)
  settle()
  first()
  collectgarbage "restart"
  local seconds = time(scopes, MANY)
  collectgarbage "stop"
  last()
  return seconds * 1e9 / MANY
end

-- Milliseconds to write a million events.
function measures.events(way)
  local write = made_by(ways.events, way)
  settle()
  return time(write, "/dev/null") * 1e3
end

-- Hierarchies -----------------------------------------------------------

-- Nanoseconds a method call.
function measures.calls(way)
  local run, calls = made_by(ways.hierarchies, way)
  settle()
  return time(function()
    for _ = 1, MANY do run() end
  end) * 1e9 / MANY / calls
end

-- Examples --------------------------------------------------------------

-- Microseconds an example of 1,000 leaves, of 100, until it is known which of
-- them vary.
function measures.examples(way)
  local list = ways.examples(100)
  settle()
  return time(function()
    assert(ways.dims[way](list) == 150)
  end) * 1e6 / #list
end

-- The same for those that come after 1,000 others.
function measures.more_examples(way)
  local add = made_by(ways.feeds, way)
  local list = ways.examples(100)
  settle()
  return time(function()
    for i = 1, #list do add(list[i]) end
  end) * 1e6 / #list
end

-- Kilobytes of what is known after 1,000 examples.
function measures.memory_examples(way)
  settle()
  local start = collectgarbage "count"
  local add = ways.feeds[way]()
  settle()
  local kilobytes = collectgarbage "count" - start
  assert(add) -- so that it lives
  return kilobytes
end

-- The heap --------------------------------------------------------------

-- Keeps objects in arrays of a size.
local function arrays_of(new, count, size)
  local arrays = {}
  for i = 1, count // size do arrays[i] = new(size) end
  return arrays
end

-- Seconds of the longest step of a cycle of the collector.  The steps are as
-- large as those that it does by itself.
local function longest_of_cycle()
  local longest, done = 0, false
  while not done do
    local start = floor.now()
    done = collectgarbage("step", 0)
    longest = math.max(longest, floor.now() - start)
  end
  return longest
end

-- Milliseconds of the longest step of three cycles.
local function pause(arrays, way)
  for _, objects in ipairs(arrays) do ways[way](objects) end
  settle()
  local longest = 0
  for _ = 1, 3 do longest = math.max(longest, longest_of_cycle()) end
  return longest * 1e3
end

-- The same of 200,000 tracked points, each of which is written twice; with a
-- recorder, whose ring is full.  A sweep waits for memory: the ways have the
-- same points, more of them than a cache holds, or the ratio would be one of
-- places.  Memory is faster at moments: the median of nine cycles counts.
local recorded

function measures.pause_recorded(way)
  if not recorded then
    recorded = arrays_of(new_points, 200000, 1000)
    for _, objects in ipairs(recorded) do
      for _, obj in ipairs(objects) do mw.track(obj) end
    end
  end
  local recorder = way == "recorder" and mw.recorder()
  for n = 1, 2 do
    for _, objects in ipairs(recorded) do
      for _, obj in ipairs(objects) do obj.x = n + 1 end
    end
  end
  settle()
  local list = {}
  for i = 1, 9 do list[i] = longest_of_cycle() * 1e3 end
  table.sort(list)
  if recorder then recorder:stop() end
  return list[5]
end

-- One array of a million is marked in a single step, and a shorter pause hides
-- behind that step ...
function measures.pause(way)
  return pause(arrays_of(new_objects, MILLION, MILLION), way)
end

-- ... but not behind one of these.
function measures.pause_small(way)
  return pause(arrays_of(new_objects, MILLION, 1000), way)
end

-- The same for 100,000 points.
function measures.pause_points(way)
  return pause(arrays_of(new_points, MANY, MANY), way)
end

function measures.pause_points_small(way)
  return pause(arrays_of(new_points, MANY, 1000), way)
end

-- All memory of the process: Lua's count leaves out the engine's.
local function resident()
  for line in io.lines "/proc/self/status" do
    local kilobytes = line:match "^VmRSS:%s*(%d+)"
    if kilobytes then return tonumber(kilobytes) * 1024 end
  end
end

-- Bytes an object that a way adds, with its garbage collected as it comes.
local function memory(objects, way)
  settle()
  local start = resident()
  collectgarbage "restart"
  ways[way](objects)
  collectgarbage "stop"
  settle()
  return (resident() - start) / #objects
end

function measures.memory(way) return memory(new_objects(MILLION), way) end

function measures.memory_points(way) return memory(new_points(MANY), way) end

-- Bytes that Lua and the library have together, of an object and all that
-- watching adds to it.
local function live_objects(way, bytes)
  local list = {}
  for i = 1, MANY do list[i] = false end
  settle()
  local start = bytes()
  collectgarbage "restart"
  ways.live[way](list)
  collectgarbage "stop"
  settle()
  return (bytes() - start) / MANY
end

function measures.live(way) return live_objects(way, floor.live) end

-- Lua's own count.
function measures.count(way)
  return live_objects(way, function() return collectgarbage "count" * 1024 end)
end

-- What the system has given.
function measures.resident(way) return live_objects(way, resident) end

-- Kilobytes of a large table.
function measures.live_large(way)
  ways.large[way]() -- once, for what the library itself keeps
  settle()
  local start = floor.live()
  local t = ways.large[way]()
  settle()
  local bytes = floor.live() - start
  assert(next(t) or #t)
  return bytes / 1024
end

-- Frames ----------------------------------------------------------------

-- Builds a world with the collector running in that mode.
local function build(way, mode)
  math.randomseed(42)
  collectgarbage(mode)
  collectgarbage "restart"
  return ways.worlds[way]()
end

-- Milliseconds: the median frame, the 99th percentile, the longest.
local function frames(way, mode)
  local frame = build(way, mode)
  local times = {}
  for _ = 1, 20 do frame() end
  for i = 1, 300 do times[i] = time(frame) * 1e3 end
  table.sort(times)
  return times[150], times[297], times[300]
end

function measures.frames(way) return frames(way, "incremental") end

function measures.frames_young(way) return frames(way, "generational") end

-- Counts the collector's cycles.
local cycles = 0

local function count_cycles()
  cycles = cycles + 1
  setmetatable({}, { __gc = count_cycles })
end

local BIRTH = 1000 -- allocations from one birth in a world to the next

-- Milliseconds of the longest allocation in each of some cycles, while
-- entities, in arrays of a size, come and go: a step of the collector is done
-- inside of an allocation, and so is a whole collection in the generational
-- mode.
local function longest_allocations(way, mode, size, count)
  local _, entities, birth = build(way, mode)
  local arrays = {}
  for i = 1, #entities, size do
    arrays[#arrays + 1] = table.move(entities, i, i + size - 1, 1, {})
  end
  local all = #entities
  entities = nil -- luacheck: ignore 311
  collectgarbage() -- from here on the next collections are foreseeable
  count_cycles()
  local list, first, n, longest = {}, cycles, 0, 0
  local start = floor.now()
  repeat
    local new = { n }
    n = n + 1
    local stop = floor.now()
    longest, start = math.max(longest, stop - start), stop
    if cycles > first + #list then
      list[#list + 1], longest = longest * 1e3, 0
    elseif n % BIRTH == 0 then
      local i = math.random(all) - 1
      arrays[i // size + 1][i % size + 1] = birth(n)
    end
  until #list == count or not new
  return list
end

-- The least of some cycles: an allocation may also wait for the system.
local function longest_step(way, size)
  return math.min(table.unpack(
    longest_allocations(way, "incremental", size, 4)))
end

function measures.steps(way) return longest_step(way, 50000) end

-- An array is marked in a single step, behind which shorter ones hide.
function measures.steps_small(way) return longest_step(way, 1000) end

-- A collection of what is young, and one of all: the two that follow a full one
-- are of all.
function measures.steps_young(way)
  local list = longest_allocations(way, "generational", 50000, 8)
  return math.min(table.unpack(list, 3)), math.min(list[1], list[2])
end

-- Growth ----------------------------------------------------------------

local SIZES = { 10, 100, 1000, 10000, 100000 }
local PATIENCE = 3 -- seconds for a size

-- Nanoseconds of one, and the seconds that all took.  Small things are made
-- many at a time, for a clock has its limits.
local function grown(way, size)
  local runs, total = {}, 0
  settle()
  local start = floor.now()
  for i = 1, math.max(1, 1000 // size) do
    local run, count = ways.growth[way](size)
    runs[i], total = run, total + count
  end
  local seconds = time(function()
    for i = 1, #runs do runs[i]() end
  end)
  return seconds * 1e9 / total, floor.now() - start
end

-- Nanoseconds of one at each size, as long as that does not take too long.
function measures.growth(way)
  math.randomseed(42)
  local figures, former, last = {}, nil, nil
  for i, size in ipairs(SIZES) do
    if former and last * last / former > PATIENCE then break end
    local least, spent, all = math.huge, math.huge, 0
    repeat
      local figure, seconds = grown(way, size)
      least, spent = math.min(least, figure), math.min(spent, seconds)
      all = all + seconds
    until all > 0.1
    figures[i], former, last = least, last, spent
    -- What is small is made many at a time: more of it takes as long.
    if size <= 1000 then former = former and math.min(former, spent / 10) end
  end
  return table.unpack(figures)
end

-- Running ---------------------------------------------------------------

-- How many takes there are at the most, within LIMIT seconds; the least figures
-- count.
local LIMIT = 0.4
local repeats = {
  again = 5, shuffled = 5, collected = 5,
  decide = 20, unknown_class = 5, statements = 20, first_watch = 5,
  points = 3, invalidate = 3, record = 20, undo = 20, row = 5, history = 5,
  replay = 20, documents = 10, pause_recorded = 3, snapshots = 5,
  plain = 5, scope = 5,
  calls = 20,
  examples = 5, more_examples = 5, guard = 5,
}
local measure, names = arg[1], table.move(arg, 2, #arg, 1, {})
local least, begin = {}, floor.now()

-- Takes the figures of a way, and keeps the least.
local function take(way)
  local figures = table.pack(measures[measure](way))
  local former = least[way]
  if former then
    for i = 1, #former do figures[i] = math.min(former[i], figures[i]) end
  end
  least[way] = figures
end

for i = 1, repeats[measure] or 1 do
  for _, way in ipairs(names) do take(way) end
  if i >= 3 and floor.now() - begin > LIMIT then break end
end
for _, way in ipairs(names) do print(table.concat(least[way], " ")) end
os.exit(true) -- closing the state would take long

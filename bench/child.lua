-- Takes figures in a process of its own, because what a call costs depends on
-- all that the heap has seen before.
--
--   child.lua <measure> <way>...      prints a figure for each way
--
-- A measure is one of those below, a way one of ways.lua.  The speed of a
-- machine changes from second to second, so ways that are compared take turns
-- in one process, unless their heaps are what is measured.

package.path = "bench/?.lua;" .. package.path
package.cpath = (os.getenv "BUILD" or "build") .. "/bench/?.so;" ..
  package.cpath

local floor = require "floor"
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

local one = {}

-- Nanoseconds a statement on one object that a way made.
local function statement(way, statements)
  one[way] = one[way] or ways.one[way]()
  settle()
  return time(statements, one[way], MANY) * 1e9 / MANY
end

function measures.write_one(way) return statement(way, ways.write_one) end

function measures.read_one(way) return statement(way, ways.read_one) end

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

-- What a function answers for a way, which it is asked once.
local made = {}

local function made_by(new, way)
  made[way] = made[way] or table.pack(new[way]())
  return table.unpack(made[way], 1, made[way].n)
end

-- Nanoseconds a write that is recorded.
function measures.record(way)
  local obj, start, stop = made_by(ways.recorders, way)
  settle()
  start()
  local seconds = time(ways.write_one, obj, MANY)
  stop()
  return seconds * 1e9 / MANY
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
  local a, b = ways.two_documents()
  settle()
  return time(ways.documents[way], a, b) * 1e6
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

-- Nanoseconds to test an example.
function measures.guard(way)
  local test, example = made_by(ways.guards_of_examples, way)
  settle()
  return time(function()
    for _ = 1, 1000 do assert(test(example)) end
  end) * 1e9 / 1000
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
local function longest_step()
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
  for _ = 1, 3 do longest = math.max(longest, longest_step()) end
  return longest * 1e3
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

-- Running ---------------------------------------------------------------

local repeats = {
  again = 5, shuffled = 5, collected = 5,
  decide = 20, unknown_class = 5, write_one = 20, read_one = 20,
  points = 3, invalidate = 3, record = 20, undo = 20, row = 5, documents = 10,
  scope = 5,
  calls = 20,
  examples = 5, more_examples = 5, guard = 5,
}
local measure, names = arg[1], table.move(arg, 2, #arg, 1, {})
local least = {}
for _ = 1, repeats[measure] or 1 do
  for i, way in ipairs(names) do
    least[i] = math.min(least[i] or math.huge, measures[measure](way))
  end
end
print(table.concat(least, " "))
os.exit(true) -- closing the state would take long

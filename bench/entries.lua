-- Counts the functions of the library that a write enters, inlined ones
-- included.  `make entries` builds the library for this.
--
--   entries.lua <library>               a line for each way to write
--   entries.lua <library> <way>...      the functions that these enter
--   entries.lua <library> deeds         a line for each of the deeds by which
--                                       the library's weight is judged
--
-- "Files" says in how many files the functions are, a header with its source;
-- "moves", how often a function in one file is followed by one in another.

package.path = "bench/?.lua;" .. package.path
package.cpath = (os.getenv "BUILD" or "build") .. "/bench/?.so;" ..
  package.cpath

local library = arg[1]
local entries = assert(package.loadlib(library, "luaopen_entries"))()

local mw = require "moonwatch"
local statements = require "ways".statements

-- A way, its name, and the most functions that it should enter.
local rows = {
  { "cancelled", "nobody waits" },
  { "fired", "nobody waits: once, fired" },
  { "other_key", "another key", 16 },
  { "other_key_100", "another key, 100 guards", 16 },
  { "other_keys_100", "100 keys, a guard each", 16 },
  { "flag", "a flag", 16 },
  { "guard", "a function", 40 },
  { "guards_10", "10 functions" },
  { "method", "a method" },
  { "below_2", "2 below a deep guard", 120 },
  { "below_3", "3 below a deep guard" },
  { "below_flag", "3 below a deep flag" },
  { "below_tracked", "3 below a deep track" },
  { "in_transaction", "a guard, in a transaction" },
  { "in_batch", "a guard, in a batch" },
  { "traced", "a guard, traced" },
}

-- What a number of statements enters.
local function entered(way, count)
  local run, start, stop = statements[way]()
  collectgarbage()
  mw.reap()
  collectgarbage "stop"
  start()
  run(1) -- the first write may have more to do
  entries.start()
  run(count)
  local list = entries.stop()
  stop()
  collectgarbage "restart"
  return list
end

-- The name and file of each function in a list.
local function named(list)
  local path = os.tmpname()
  local file = assert(io.open(path, "w"))
  for _, address in ipairs(list) do file:write(("0x%x\n"):format(address)) end
  file:close()
  local pipe = assert(io.popen("addr2line -f -e " .. library .. " < " .. path))
  local names, files = {}, {}
  for i = 1, #list do
    names[i] = pipe:read "l"
    local source = pipe:read("l"):gsub("[^/]+/%.%./", "")
    files[i] = source:match "engine/(.+)%.[ch]:%d+" or "?"
  end
  pipe:close()
  os.remove(path)
  return names, files
end

-- How many files there are, how many moves from one to another, and how many
-- of the moves lead back to a file.
local function count_files(files)
  local seen, count, moves, returns = {}, 0, 0, 0
  for i, file in ipairs(files) do
    if i > 1 and file ~= files[i - 1] then
      moves = moves + 1
      if seen[file] then returns = returns + 1 end
    end
    if not seen[file] then count = count + 1 end
    seen[file] = true
  end
  return count, moves, returns
end

local function print_row(way, name, most)
  local one, two = entered(way, 1), entered(way, 2)
  local count = #two - #one
  local _, files = named(one)
  local n_files, moves = count_files(files)
  local verdict = most and (count <= most and "ok" or "over") or ""
  print((("%-28s %9d %6d %6d %5s  %s"):format(name, count, n_files, moves,
    most or "", verdict):gsub(" +$", "")))
end

local function print_functions(way)
  local names, files = named(entered(way, 1))
  print(way .. ": " .. #names)
  for i, name in ipairs(names) do
    print(("  %-24s %s"):format(files[i], name))
  end
end

-- Deeds -------------------------------------------------------------------

-- Each prepares, and returns a function that does it, what must not be lost
-- meanwhile, and what comes before, if anything does.
local deeds = {}

local function in_feed()
  local world = { a = { x = 0 } }
  local feed = mw.feed { root = world }
  return world.a, feed, mw.begin() -- which are kept as long as the object
end

function deeds.put()
  local a, feed, tx = in_feed()
  return function() a.pos = { x = 1 } end, { feed, tx }
end

function deeds.number()
  local a, feed, tx = in_feed()
  return function() a.x = a.x + 1 end, { feed, tx }
end

function deeds.guard()
  local obj = { x = 0 }
  mw.watch(obj, function() end, { once = false })
  return function() obj.x = obj.x + 1 end
end

function deeds.plain()
  local obj = mw.track { x = 0 }
  return function() obj.x = obj.x + 1 end
end

function deeds.transaction()
  local obj = mw.track { x = 0 }
  return function()
    local tx = mw.begin()
    obj.x = obj.x + 1
    tx:commit()
  end
end

function deeds.changes()
  local world = { x = 0 }
  local feed = mw.feed { root = world }
  feed:changes()
  return function() return feed:changes() end, nil,
    function() world.x = world.x + 1 end
end

-- Each step writes `n` fields.
local function history_of(n)
  local obj, history = mw.track {}, mw.history {}
  local function step(i)
    for k = 1, n do obj[k] = i end
  end
  local i = 0
  return function()
    i = i + 1
    history:run("step", step, i)
    history:undo()
  end
end

function deeds.history() return history_of(1) end
function deeds.history_9() return history_of(9) end

-- A deed, its name, and the most functions, files and returns.
local weights = {
  { "put", "a table put below a feed's root", 150, 10, 30 },
  { "number", "a number, there", 40 },
  { "guard", "a function guard", 40 },
  { "plain", "a tracked write", 5 },
  { "transaction", "begin, write, commit", 120 },
  { "changes", "feed:changes() of a write", 120 },
  { "history", "history: run and undo", 250 },
  { "history_9", "the same with nine writes" },
}

-- What a deed enters that was done before.
local function entered_by(deed)
  local run, kept, before = deeds[deed]()
  before = before or function() end
  for _ = 1, 3 do
    before()
    run()
  end
  before()
  collectgarbage()
  mw.reap()
  collectgarbage "stop"
  entries.start()
  run()
  local list = entries.stop()
  collectgarbage "restart"
  return list, kept
end

local function print_deed(deed, name, ...)
  local list = entered_by(deed)
  local files, _, returns = count_files(select(2, named(list)))
  print(("%-32s %9d %6d %8d   %s"):format(name, #list, files, returns,
    table.concat({ ... }, ", ")))
end

if arg[2] == "deeds" then
  print(("%-32s %9s %6s %8s   %s"):format("a deed", "functions", "files",
    "returns", "aims"))
  for _, row in ipairs(weights) do print_deed(table.unpack(row)) end
elseif arg[2] then
  for i = 2, #arg do print_functions(arg[i]) end
else
  print(("%-28s %9s %6s %6s %5s"):format("a write", "functions", "files",
    "moves", "aim"))
  for _, row in ipairs(rows) do print_row(table.unpack(row)) end
end
os.exit(true)

-- Counts the functions of the library that a write enters, inlined ones
-- included.  `make entries` builds the library for this.
--
--   entries.lua <library>               a line for each way to write
--   entries.lua <library> <way>...      the functions that these enter
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

-- How many files there are, and how many moves from one to another.
local function count_files(files)
  local seen, count, moves = {}, 0, 0
  for i, file in ipairs(files) do
    if not seen[file] then count = count + 1 end
    seen[file] = true
    if i > 1 and file ~= files[i - 1] then moves = moves + 1 end
  end
  return count, moves
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

if arg[2] then
  for i = 2, #arg do print_functions(arg[i]) end
else
  print(("%-28s %9s %6s %6s %5s"):format("a write", "functions", "files",
    "moves", "aim"))
  for _, row in ipairs(rows) do print_row(table.unpack(row)) end
end
os.exit(true)

-- Counts the instructions of the statements in bench/watch.lua, which do not
-- depend on how busy the machine is.  They are no times: a miss of the cache
-- counts as much as a hit.
--
--   callgrind.lua [word...]     the rows whose name or way has one of the words
--
-- What the loop itself takes falls away.

package.path = "bench/?.lua;" .. package.path

local LUA = os.getenv "LUA" or "lua5.4"
local COUNT = 1000
local LINE = "%-37s %-20s %9s %9s %6s %5s  %s"

-- Counts the instructions of a program while it collects.
local function instructions(way)
  local pipe = assert(io.popen(("valgrind --tool=callgrind " ..
    "--collect-atstart=no --callgrind-out-file=/dev/null " ..
    "%s bench/statement.lua %s %d 2>&1"):format(LUA, way, COUNT)))
  local text = pipe:read "a"
  local found = text:match "Collected : (%d+)"
  assert(pipe:close() and found, text)
  return tonumber(found)
end

local known = {}

-- Instructions of one statement and its turn of the loop.
local function of_turn(way)
  known[way] = known[way] or instructions(way) / COUNT
  return known[way]
end

local function of_statement(way) return of_turn(way) - of_turn "loop" end

local function is_wanted(row)
  if row.measure ~= "statements" then return false end
  for _, word in ipairs(arg) do
    if row.name:find(word, 1, true) or row.ours:find(word, 1, true) then
      return true
    end
  end
  return #arg == 0
end

local function print_line(...) print((LINE:format(...):gsub(" +$", ""))) end

print_line("instructions", "baseline", "base", "ours", "ratio", "aim", "")
for _, row in ipairs(require "watch") do
  if is_wanted(row) then
    local base, ours = of_statement(row.base), of_statement(row.ours)
    local ratio = ours / base
    print_line(row.name, row.against, ("%.1f"):format(base),
      ("%.1f"):format(ours), ("%.2f"):format(ratio), row.aim or "",
      row.aim and (ratio <= row.aim and "ok" or "over") or "")
    io.stdout:flush()
  end
end

-- Measures moonwatch against baselines that run beside it.
--
--   run.lua [concept...]      all concepts, when none is named
--
-- bench/<concept>.lua is a list of rows:
--
--   name, against     what is measured, and the baseline
--   measure           of child.lua, which takes the figures
--   figure            which of the measure's figures, if not the first
--   ours, base        the ways of ways.lua that are compared
--   zero              a way whose figure is taken off the other two
--   apart             is it a process for each?
--   unit              of the figures; "ns", of a call, if there is none
--   aim               the greatest ratio ours / base, or
--   most, least       the greatest figure of ours, or the smallest
--   rounds            how many, if not ROUNDS
--
-- The ways take turns.  The least figure of each counts; the spread is that of
-- the rounds' ratios.
--
-- A row with `grows` is about the size of things instead:
--
--   grows             the way, one of ways.growth
--   reach             the greatest size, if not 100,000
--   aim               the greatest ratio of the figure at the greatest size to
--                     that at 100; a size that would take too long is over it
--
-- Its figures are nanoseconds at each of SIZES.

package.path = "bench/?.lua;" .. package.path

local ROUNDS = 5
local SIZES = { 10, 100, 1000, 10000, 100000 }
local concepts = { "identity", "clock", "watch", "frames", "growth", "policy",
  "effects", "transactions", "recorder", "readers", "snapshots", "documents",
  "hierarchy", "trace", "dynamism" }

-- Measuring -------------------------------------------------------------

-- What is measured in one process.
local TOGETHER = { { "base", "ours" } }
local APART = { { "zero" }, { "base" }, { "ours" } }

-- The figures of a process: an array for each way.
local function run_child(measure, ways)
  local lua = os.getenv "LUA" or "lua5.4"
  local command = lua .. " bench/child.lua " .. measure .. " " ..
    table.concat(ways, " ")
  local pipe = assert(io.popen(command))
  local list = {}
  for i = 1, #ways do
    list[i] = {}
    for text in (pipe:read "l" or ""):gmatch "%S+" do
      list[i][#list[i] + 1] = tonumber(text)
    end
  end
  assert(pipe:close(), command)
  return list
end

-- What was measured in a round, by measure and ways: rows share processes when
-- they differ in nothing but the figure that they show.
local rounds = {}

local function run_once(round, measure, ways)
  local name = measure .. " " .. table.concat(ways, " ")
  rounds[round] = rounds[round] or {}
  local known = rounds[round]
  known[name] = known[name] or run_child(measure, ways)
  return known[name]
end

-- Sets the figures of some sides of a row.
local function take(row, sides, figures, round)
  local ways = {}
  for i, side in ipairs(sides) do ways[i] = row[side] end
  local taken = run_once(round, row.measure, ways)
  for i, side in ipairs(sides) do figures[side] = taken[i][row.figure or 1] end
end

-- The figures of one round; lowers the least ones.
local function measure_round(row, least, round)
  local figures = { zero = 0 }
  for _, sides in ipairs(row.apart and APART or TOGETHER) do
    if row[sides[1]] then take(row, sides, figures, round) end
  end
  for side, figure in pairs(figures) do
    least[side] = math.min(least[side] or figure, figure)
  end
  return figures
end

local function ratio(figures)
  return (figures.ours - figures.zero) / (figures.base - figures.zero)
end

local function measure(row)
  local least, low, high = {}, math.huge, -math.huge
  for round = 1, row.rounds or ROUNDS do
    local r = ratio(measure_round(row, least, round))
    low, high = math.min(low, r), math.max(high, r)
  end
  return least, low, high
end

-- Nil when there is no aim.
local function is_ok(row)
  if row.aim then return row.ratio <= row.aim end
  if row.most then return row.ours <= row.most end
  if row.least then return row.ours >= row.least end
end

local function result_of(concept, row)
  local least, low, high = measure(row)
  local result = {
    concept = concept, name = row.name, against = row.against,
    unit = row.unit or "ns", aim = row.aim, most = row.most,
    least = row.least, zero = row.zero and least.zero,
    base = least.base - least.zero, ours = least.ours - least.zero,
    ratio = ratio(least), low = low, high = high,
  }
  result.ok = is_ok(result)
  return result
end

-- The ratio is that of the last figure to the second, at 100.
local function growth_of(concept, row)
  local figures = run_child("growth", { row.grows })[1]
  local reached = SIZES[#figures]
  local result = {
    concept = concept, name = row.name, unit = "ns", aim = row.aim,
    reached = reached,
    ratio = figures[3] and figures[#figures] / figures[2],
  }
  for i, figure in ipairs(figures) do result["at_" .. SIZES[i]] = figure end
  if row.aim then
    result.ok = reached >= (row.reach or SIZES[#SIZES]) and
      result.ratio <= row.aim
  end
  return result
end

-- Showing ---------------------------------------------------------------

local LINE = "%-37s %-20s %8s %8s %-5s %5s %6s %6s %16s  %s"
local GROWTH = "%-42s %9s %9s %9s %9s %9s %-3s %6s %6s  %s"

local function figure_text(x) return x and ("%.1f"):format(x) or "" end

local function ratio_text(x)
  if not x then return "" end
  return (x < 1 and "%.3f" or x < 100 and "%.2f" or "%.0f"):format(x)
end

local function verdict(result)
  if result.ok == nil then return "" end
  return result.ok and "ok" or "over"
end

local function print_line(line, ...)
  print((line:format(...):gsub(" +$", "")))
  io.stdout:flush()
end

local function print_head()
  print_line(LINE, "measure", "baseline", "base", "ours", "", "zero", "ratio",
    "aim", "spread", "")
end

local function print_result(r)
  print_line(LINE, r.name, r.against, figure_text(r.base), figure_text(r.ours),
    r.unit, figure_text(r.zero), ratio_text(r.ratio),
    r.most or r.least or ratio_text(r.aim),
    ratio_text(r.low) .. " to " .. ratio_text(r.high), verdict(r))
end

local function print_growth_head()
  print_line(GROWTH, "growth", "10", "100", "1,000", "10,000", "100,000", "",
    "ratio", "aim", "")
end

local function print_growth(r)
  local texts = {}
  for i, size in ipairs(SIZES) do
    local figure = r["at_" .. size]
    texts[i] = figure and figure_text(figure) or "-"
  end
  print_line(GROWTH, r.name, texts[1], texts[2], texts[3], texts[4], texts[5],
    r.unit, ratio_text(r.ratio), ratio_text(r.aim), verdict(r))
end

-- Writing ---------------------------------------------------------------

local encode = { boolean = tostring }

function encode.string(s) return '"' .. s:gsub('["\\]', "\\%0") .. '"' end

-- JSON has no numbers that are not finite.
function encode.number(x)
  return math.abs(x) < math.huge and ("%.14g"):format(x) or "null"
end

local function json(result)
  local fields = {}
  for key, value in pairs(result) do
    fields[#fields + 1] = ('"%s": %s'):format(key, encode[type(value)](value))
  end
  table.sort(fields)
  return "  {" .. table.concat(fields, ", ") .. "}"
end

local function write_json(path, results)
  local lines = {}
  for i, result in ipairs(results) do lines[i] = json(result) end
  local file = assert(io.open(path, "w"))
  file:write("[\n", table.concat(lines, ",\n"), "\n]\n")
  file:close()
end

-- Running ---------------------------------------------------------------

local results, head = {}, nil

-- Prints a head where the kind of rows changes.
local function show(result, print_its_head, print_it)
  if head ~= print_its_head then print_its_head() end
  head = print_its_head
  print_it(result)
  results[#results + 1] = result
end

for _, concept in ipairs(#arg > 0 and arg or concepts) do
  for _, row in ipairs(require(concept)) do
    if row.grows then
      show(growth_of(concept, row), print_growth_head, print_growth)
    else
      show(result_of(concept, row), print_head, print_result)
    end
  end
end
local build = os.getenv "BUILD" or "build"
write_json(os.getenv "BENCH_JSON" or build .. "/bench.json", results)

-- Measures moonwatch against baselines that run beside it.
--
--   run.lua [concept...]      all concepts, when none is named
--
-- bench/<concept>.lua is a list of rows:
--
--   name, against     what is measured, and the baseline
--   measure           of child.lua, which takes the figures
--   ours, base        the ways of ways.lua that are compared
--   zero              a way whose figure is taken off the other two
--   apart             is it a process for each?
--   unit              of the figures; "ns", of a call, if there is none
--   aim               the greatest ratio ours / base, or
--   most              the greatest figure of ours
--   rounds            how many, if not ROUNDS
--
-- The ways take turns.  The least figure of each counts; the spread is that of
-- the rounds' ratios.

package.path = "bench/?.lua;" .. package.path

local ROUNDS = 7
local concepts = { "identity", "clock", "watch", "policy", "effects",
  "hierarchy", "trace", "dynamism" }

-- Measuring -------------------------------------------------------------

-- What is measured in one process.
local TOGETHER = { { "base", "ours" } }
local APART = { { "zero" }, { "base" }, { "ours" } }

-- Runs a process for some of the row's ways, and sets their figures.
local function take(row, sides, figures)
  local lua = os.getenv "LUA" or "lua5.4"
  local command = lua .. " bench/child.lua " .. row.measure
  for _, side in ipairs(sides) do command = command .. " " .. row[side] end
  local pipe = assert(io.popen(command))
  for _, side in ipairs(sides) do figures[side] = pipe:read "n" or 0 end
  assert(pipe:close(), command)
end

-- The figures of one round; lowers the least ones.
local function measure_round(row, least)
  local figures = { zero = 0 }
  for _, sides in ipairs(row.apart and APART or TOGETHER) do
    if row[sides[1]] then take(row, sides, figures) end
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
  for _ = 1, row.rounds or ROUNDS do
    local r = ratio(measure_round(row, least))
    low, high = math.min(low, r), math.max(high, r)
  end
  return least, low, high
end

-- Nil when there is no aim.
local function is_ok(row)
  if row.aim then return row.ratio <= row.aim end
  if row.most then return row.ours <= row.most end
end

local function result_of(concept, row)
  local least, low, high = measure(row)
  local result = {
    concept = concept, name = row.name, against = row.against,
    unit = row.unit or "ns", aim = row.aim, most = row.most,
    zero = row.zero and least.zero, base = least.base - least.zero,
    ours = least.ours - least.zero, ratio = ratio(least),
    low = low, high = high,
  }
  result.ok = is_ok(result)
  return result
end

-- Showing ---------------------------------------------------------------

local LINE = "%-29s %-18s %8s %8s %-5s %5s %6s %6s %16s  %s"

local function figure_text(x) return x and ("%.1f"):format(x) or "" end

local function ratio_text(x)
  return x and (x < 1 and "%.3f" or "%.2f"):format(x) or ""
end

local function verdict(result)
  if result.ok == nil then return "" end
  return result.ok and "ok" or "over"
end

local function print_line(...) print((LINE:format(...):gsub(" +$", ""))) end

local function print_head()
  print_line("measure", "baseline", "base", "ours", "", "zero", "ratio", "aim",
    "spread", "")
end

local function print_result(r)
  print_line(r.name, r.against, figure_text(r.base), figure_text(r.ours),
    r.unit, figure_text(r.zero), ratio_text(r.ratio),
    r.most or ratio_text(r.aim),
    ratio_text(r.low) .. " to " .. ratio_text(r.high), verdict(r))
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

local results = {}
print_head()
for _, concept in ipairs(#arg > 0 and arg or concepts) do
  for _, row in ipairs(require(concept)) do
    results[#results + 1] = result_of(concept, row)
    print_result(results[#results])
  end
end
local build = os.getenv "BUILD" or "build"
write_json(os.getenv "BENCH_JSON" or build .. "/bench.json", results)

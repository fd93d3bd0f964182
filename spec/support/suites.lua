-- Runs all tests.  Ends with one line for all of them: N passed, M failed.

local build = os.getenv "BUILD"
local run, exe = os.getenv "RUN", os.getenv "EXE"
local busted = " spec/support/busted.lua --ignore-lua " ..
  "--output=%s/spec/support/count.lua%s"

-- The sanitizer must be loaded before a plain Lua loads a library that needs
-- it.
local function preload()
  if not build:find "asan" then return "" end
  local pipe = io.popen(os.getenv "CC" .. " -print-file-name=libasan.so")
  local path = pipe:read "l"
  pipe:close()
  -- no quarantine: specs need addresses that come back
  local options = os.getenv "ASAN_OPTIONS" or
    "detect_leaks=0:quarantine_size_mb=0"
  return ("LD_PRELOAD=%s ASAN_OPTIONS=%s "):format(path, options)
end

-- A program with all inside takes values as arguments, where the platform gives
-- a program no environment.
local is_static = (os.getenv "STATIC" or "") ~= ""

local function specs(mode, more)
  local value = "MOONWATCH_GC=" .. mode .. " "
  return preload() .. value .. os.getenv "LUA" ..
    (is_static and " " .. value or "") .. busted:format(os.getenv "PWD", more)
end

-- Only some files: SPECS="spec/feed_spec.lua spec/memo_spec.lua".
local chosen_files = os.getenv "SPECS"

-- Collections take long where many specs have run, and where specs are apart
-- they cannot disturb each other: a program for a few files.
local PARTS = 20

local function add_parts(suites, name, command)
  local parts, n = {}, 0
  for i = 1, PARTS do parts[i] = {} end
  for path in io.popen("ls " ..
    (chosen_files or "$(find spec -name '*_spec.lua' | sort)")):lines() do
    n = n + 1
    table.insert(parts[n % PARTS + 1], path)
  end
  for _, part in ipairs(parts) do
    if part[1] then
      suites[#suites + 1] = { name, command .. " " .. table.concat(part, " ") }
    end
  end
end

-- These take hooks for themselves, begin other programs, or are too long.
local function often()
  local files = {}
  local apart = { command = true, examples = true, json_diff = true,
    patch = true, policy = true, random = true, random_classes = true,
    random_transactions = true, random_recorders = true, readme = true,
    rock = true, sandbox = true, skeleton = true, undo = true }
  for path in io.popen("ls " .. (chosen_files or "spec/*_spec.lua")):lines() do
    if not apart[path:match "([%w_]+)_spec"] then files[#files + 1] = path end
  end
  return specs("often", " --exclude-tags=once,slow " ..
    table.concat(files, " "))
end

-- The same with the library that checks itself.
local function checked(...)
  return ("LUA_CPATH='%s/%s/test/checked/?.so;;' "):format(os.getenv "PWD",
    build) .. specs(...)
end

-- Only some suites: SUITES="engine faults specs".
local chosen = os.getenv "SUITES"

local suites = {
  { "faults", run .. " " .. build .. "/test/faults" .. exe },
  { "engine, without Lua", run .. " " .. build .. "/test/engine" .. exe },
}
add_parts(suites, "specs, incremental",
  specs("incremental", " --exclude-tags=slow"))
add_parts(suites, "specs, generational",
  specs("generational", " --exclude-tags=once,slow"))
if os.getenv "SLOW" then
  suites = { { "specs, slow", specs("incremental", " --tags=slow") } }
end
if os.getenv "SOAK" then
  suites[#suites + 1] = { "specs, often", often() }
  suites[#suites + 1] = { "specs, checked",
    checked("generational", " --exclude-tags=once,slow " ..
      (chosen_files or "")) }
end

if chosen and chosen ~= "" then
  local list = {}
  for _, suite in ipairs(suites) do
    if chosen:find(suite[1]:match "%w+") then list[#list + 1] = suite end
  end
  suites = list
end

-- As many suites run at the same time as there are processors; the output and
-- the status of each go to a file of its own.
local list = os.tmpname()
local file = assert(io.open(list, "wb"))
for _, suite in ipairs(suites) do
  suite.output = os.tmpname()
  file:write(("{ %s; } >%s 2>&1 && echo done >>%s"):format(suite[2],
    suite.output, suite.output), "\0")
end
file:close()
os.execute("xargs -0 -n 1 -P $(getconf _NPROCESSORS_ONLN) sh -c <" .. list)
os.remove(list)

-- Returns what the suite printed, and whether the suite succeeded.
local function finish(suite)
  local output = io.open(suite.output, "rb"):read "a"
  os.remove(suite.output)
  local printed = output:match "^(.*)done\n$"
  return printed or output, printed ~= nil
end

-- The suites of one name are counted together.
local names, counts = {}, {}
local passed, failed, skipped = 0, 0, 0
for _, suite in ipairs(suites) do
  local output, ok = finish(suite)
  local p, f, s = output:match "(%d+) passed, (%d+) failed,? ?(%d*)[^\n]*\n$"
  p, f, s = tonumber(p or 0), tonumber(f or 1), tonumber(s) or 0
  if not ok and f == 0 then f = 1 end
  if f > 0 then print(output) end
  local name = suite[1]
  if not counts[name] then
    names[#names + 1], counts[name] = name, { 0, 0 }
  end
  counts[name][1], counts[name][2] = counts[name][1] + p, counts[name][2] + f
  passed, failed, skipped = passed + p, failed + f, skipped + s
end
for _, name in ipairs(names) do
  print(("%-24s %4d passed, %d failed"):format(name,
    table.unpack(counts[name])))
end
local tail = skipped > 0 and (", %d skipped"):format(skipped) or ""
print(("%d passed, %d failed%s"):format(passed, failed, tail))
os.exit(failed == 0 and passed > 0)

-- Prints what the library weighs: `make weight`.  Below lines by room stand the
-- aims and limits of tools/budgets.lua.

package.path = "./?.lua;" .. package.path

local budgets = require "tools.budgets"
local weigh = require "tools.weigh"

local covered = os.getenv "COVERED"

local function output_of(command)
  local pipe = assert(io.popen(command))
  local text = pipe:read "a"
  pipe:close()
  return text
end

local function row(name, count, aim)
  print(("%-40s %8s %8s"):format(name, count, aim or ""))
end

-- Text and data of a library that is built like any.
local function bytes()
  local text, data = output_of("size " .. os.getenv "SIZED")
    :match "\n%s*(%d+)%s+(%d+)"
  return math.tointeger(text) + math.tointeger(data)
end

-- Runs the programs of the documents and the examples with a library that
-- counts.  Returns the part of its lines that they run, and the functions that
-- they never enter.
local function coverage()
  local quiet = " >/dev/null 2>&1"
  os.execute("find " .. covered .. " -name '*.gcda' -delete")
  os.execute(("LUA_CPATH='%s/?.so;%s' %s spec/support/busted.lua " ..
    "--ignore-lua spec/docs_spec.lua spec/examples_spec.lua%s"):format(covered,
    package.cpath, arg[-1], quiet))
  local lines, run, never = 0, 0, 0
  local report = output_of("find " .. covered ..
    " -name '*.gcda' | xargs gcov -n -f 2>/dev/null")
  for what, name, share, count in
    report:gmatch "(%u%l+) '([^']+)'\nLines executed:([%d.]+)%% of (%d+)\n" do
    if what == "Function" then
      if tonumber(share) == 0 then never = never + 1 end
    elseif name:find "^engine/.*%.c$" then
      lines = lines + count
      run = run + share / 100 * count
    end
  end
  return 100 * run / lines, never
end

local c, state = weigh.c(), weigh.state()
row("", "now", "aim")
row("lines of C", c.lines, 29000)
row("functions of C", c.functions, 1790)
row("lines of Lua", weigh.lua(), budgets.lua[1])
row("bytes of the core: text and data", bytes(), 330000)
row("fields of the state", state.fields)
row("  that all rooms share", state.shared_fields, budgets.fields[1])
row("values in the registry", state.values)
row("  that all rooms share", state.shared_values, budgets.values[1])
local share, never = coverage()
row("lines that documents and examples run", ("%.1f %%"):format(share), "80 %")
row("functions that these never enter", never)
print()
row("lines by room", "now", "aim")
for _, room in ipairs(budgets.rooms) do
  row(room[1], c.rooms[room[1]] or 0, room[2])
end
print()
os.execute("make -s entries WAYS=deeds")

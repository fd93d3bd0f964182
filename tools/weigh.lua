-- Counts what the library weighs, for tools/weight.lua and the lint: lines and
-- functions, and what of the state all rooms share.

local budgets = require "tools.budgets"

local weigh = {}

local function text_of(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

local function lines_of(text) return select(2, text:gsub("\n", "")) end

-- The files that a shell's patterns match.
local function files(patterns)
  local list = {}
  for path in io.popen("ls " .. patterns):lines() do list[#list + 1] = path end
  return list
end

-- A body ends with a brace alone; short functions stand on one line.
local function functions_of(text)
  return select(2, text:gsub("\n}%f[\n]", "")) +
    select(2, text:gsub("\n[%a_][^\n]*%) {[^\n]+}%f[\n]", "")) -
    select(2, text:gsub('\nextern "C" {', ""))
end

local function room_of(path)
  for _, room in ipairs(budgets.rooms) do
    for i = 4, #room do
      if path:find(room[i]) then return room[1] end
    end
  end
end

-- Lines and functions of C in all, lines by room, and the files of no room.
function weigh.c()
  local w = { lines = 0, functions = 0, rooms = {}, homeless = {} }
  for _, path in ipairs(files "engine/*.[ch] engine/bind/*/*.[ch]") do
    local text, room = text_of(path), room_of(path)
    local lines = lines_of(text)
    w.lines = w.lines + lines
    w.functions = w.functions + functions_of(text)
    if room then
      w.rooms[room] = (w.rooms[room] or 0) + lines
    else
      w.homeless[#w.homeless + 1] = path
    end
  end
  return w
end

function weigh.lua()
  local lines = 0
  for path in io.popen "find lua -name '*.lua'":lines() do
    lines = lines + lines_of(text_of(path))
  end
  return lines
end

-- How many names a struct's or enum's body declares.
local function count_names(body, separator)
  local count = 0
  body = body:gsub("/%*.-%*/", "")
  for part in body:gmatch("[^" .. separator .. "]+") do
    if part:find "%w" then
      count = count + 1 + select(2, part:gsub("%b[]", ""):gsub(",", ""))
    end
  end
  return count
end

-- Fields and values of the state: of each room, in the header that declares
-- them; of all rooms, and those that are shared.
function weigh.state()
  local w = { fields = 0, values = 0 }
  for _, path in ipairs(files "engine/bind/*/*.h") do
    local text = text_of(path)
    local fields = text:match "struct mwb_%l-_?state {(.-)\n}"
    local values = text:match "enum {\n  MWB_%u+ = MWB_%u+,?([^=]-)\n}"
    local shared = path:find "bind%.h$"
    if fields then
      local count = count_names(fields, ";")
      w.fields = w.fields + count
      if shared then w.shared_fields = count end
    end
    if values then -- the last marks the end
      local count = count_names(values, ",") - 1
      w.values = w.values + count
      if shared then w.shared_values = count end
    end
  end
  return w
end

-- The complaints about rooms above their limits.
function weigh.complaints()
  local list, c, state = {}, weigh.c(), weigh.state()
  local function check(name, count, limit)
    if count > limit then
      list[#list + 1] = ("%s: %d, more than %d"):format(name, count, limit)
    end
  end
  for _, path in ipairs(c.homeless) do list[#list + 1] = path .. ": no room" end
  for _, room in ipairs(budgets.rooms) do
    check(room[1], c.rooms[room[1]] or 0, room[3])
  end
  check("lines of Lua", weigh.lua(), budgets.lua[2])
  check("fields that all rooms share", state.shared_fields, budgets.fields[2])
  check("values that all rooms share", state.shared_values, budgets.values[2])
  return list
end

return weigh

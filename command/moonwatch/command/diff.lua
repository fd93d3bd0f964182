--- moonwatch diff: tells the operations that make one value another.
-- SPDX-License-Identifier: MIT

local mw = require "moonwatch"
local read = require "moonwatch.command.read"

local diff = {
  summary = "Tell how one value becomes another.",
  description = "Print the operations of RFC 6902 (JSON patch) that turn " ..
    "one value into\nanother: values that Lua files return.",
  example = [[
   echo 'return { hp = 10, bag = { "key" } }' > a.lua
   echo 'return { hp = 7, bag = { "key", "map" } }' > b.lua
   moonwatch diff a.lua b.lua

prints

   [
     {"op":"add","path":"/bag/1","value":"map"},
     {"op":"replace","path":"/hp","value":7}
   ] ]],
}

function diff.define(parser)
  parser:argument("a", "A file that returns a value.")
  parser:argument("b", "A file that returns another value.")
end

-- {======================================================
-- JSON
-- =======================================================

local function quote(s)
  return '"' .. s:gsub('[%c"\\\127]', function(c)
    return (c == '"' or c == "\\") and "\\" .. c or
      ("\\u%04x"):format(c:byte())
  end) .. '"'
end

local function number(n)
  if math.type(n) == "integer" then return ("%d"):format(n) end
  local text = ("%.14g"):format(n)
  if tonumber(text) ~= n then text = ("%.17g"):format(n) end
  text = text:gsub(",", ".") -- in some locales
  return text:find "[.e]" and text or text .. ".0"
end

local encode

local function members(t)
  local list = {}
  for key, value in pairs(t) do
    list[#list + 1] = quote(key) .. ":" .. encode(value)
  end
  table.sort(list)
  return "{" .. table.concat(list, ",") .. "}"
end

function encode(value)
  if value == mw.null then return "null" end
  if type(value) == "string" then return quote(value) end
  if type(value) == "number" then return number(value) end
  if type(value) ~= "table" then return tostring(value) end
  if #value == 0 and next(value) ~= nil then return members(value) end
  local list = {}
  for i, element in ipairs(value) do list[i] = encode(element) end
  return "[" .. table.concat(list, ",") .. "]"
end

-- Returns the text of an operation, with the fields in the usual order.
local function line(operation)
  local list = {}
  for _, name in ipairs { "op", "from", "path", "value" } do
    local value = operation[name]
    if value ~= nil then
      list[#list + 1] = quote(name) .. ":" .. encode(value)
    end
  end
  return "  {" .. table.concat(list, ",") .. "}"
end

-- }======================================================

function diff.run(args)
  local values = {}
  for i, path in ipairs { args.a, args.b } do
    local value, message = read(path)
    if message then
      io.stderr:write("moonwatch: ", message, "\n")
      return 1
    end
    values[i] = value
  end
  local operations, message = mw.diff(values[1], values[2])
  if not operations then
    io.stderr:write("moonwatch: ", message, "\n")
    return 1
  end
  local lines = {}
  for i, operation in ipairs(operations) do lines[i] = line(operation) end
  print(lines[1] and "[\n" .. table.concat(lines, ",\n") .. "\n]" or "[]")
  return 0
end

return diff

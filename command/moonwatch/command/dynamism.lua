--- moonwatch dynamism: tells what varies between examples.
-- SPDX-License-Identifier: MIT

local mw = require "moonwatch"
local progress = require "moonwatch.command.progress"
local read = require "moonwatch.command.read"

local dynamism = {
  summary = "Tell what varies between examples, and what never does.",
  description = "Tell what varies between examples: Lua files that return " ..
    "a table each.",
  example = [[
   echo 'return { kind = "move", x = 1 }' > a.lua
   echo 'return { kind = "move", x = 5 }' > b.lua
   moonwatch dynamism a.lua b.lua

prints

   L['kind']  constant  "move"
   L['x']     varying   integer 1 to 5]],
}

function dynamism.define(parser)
  parser:argument("examples", "Files that return a table."):args "+"
end

local function text_of(value)
  if type(value) ~= "string" then return tostring(value) end
  return (("%q"):format(value):gsub("\\\n", "\\n"))
end

local function names(set)
  local list = {}
  for name in pairs(set) do list[#list + 1] = name end
  table.sort(list)
  return table.concat(list, " or ")
end

-- Returns what a change says of its values.
local function describe(change)
  if change.verdict == "constant" and change.values[1] ~= nil then
    return text_of(change.values[1])
  end
  local text = names(change.kinds)
  local from, to = change.min, change.max
  if from == nil and change.length then
    text, from, to = text .. " of length", change.length.min, change.length.max
  end
  if from ~= nil and from == to then text = text .. " " .. from end
  if from ~= nil and from ~= to then
    text = ("%s %s to %s"):format(text, from, to)
  end
  return change.missing > 0 and text .. " or absent" or text
end

local function print_all(changes)
  local paths, width = {}, 0
  for path in pairs(changes) do
    paths[#paths + 1] = path
    width = math.max(width, #path)
  end
  table.sort(paths)
  for _, path in ipairs(paths) do
    local change = changes[path]
    print(("%s%s  %-8s  %s"):format(path, (" "):rep(width - #path),
      change.verdict, describe(change)))
  end
end

function dynamism.run(args)
  local report = mw.dynamism()
  local step = progress(#args.examples, "examples")
  for i, path in ipairs(args.examples) do
    local example, message = read(path)
    if message == nil and type(example) ~= "table" then
      message = ("%s: a table expected, got %s"):format(path, type(example))
    end
    if message then
      io.stderr:write("moonwatch: ", message, "\n")
      return 1
    end
    report:add(example)
    step(i)
  end
  print_all(report:changes())
  return 0
end

return dynamism

--- effects:to_lua: effects as the source of a Lua program that performs them.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local json = require "moonwatch.json"
local recorded = require "moonwatch.effects.recorded"
local literal = require "moonwatch.literal"
local make_script = require "moonwatch.effects.script"

local Writer = {}
Writer.__index = Writer

-- Returns the text for a field of the library: for null, and for the marks.
function Writer:of_library(field)
  if not self.library then
    self.library = "mw"
    while self.taken[self.library] ~= nil do
      self.library = self.library .. "w"
    end
  end
  return self.library .. "." .. field
end

function Writer:value(value)
  local name = self.names[value]
  if name then return name end
  if value == json.null then return self:of_library "null" end
  return literal.of(value)
end

local function field(self, key)
  if literal.is_name(key) then return "." .. key end
  return "[" .. self:value(key) .. "]"
end

local LOCALS = 150 -- a function may have 200

function Writer:line(...)
  self.lines[#self.lines + 1] = table.concat { ... }
end

-- Gives an object a name that no other object has.  Returns the left side of
-- the assignment.
function Writer:name(object, taken)
  self.last = self.last + 1
  while not self.crowded and taken["t" .. self.last] ~= nil do
    self.last = self.last + 1
  end
  local name = (self.crowded and self.crowded .. "[%d]" or "t%d"):format(
    self.last)
  self.names[object] = name
  return self.crowded and name or "local " .. name
end

-- Puts all objects into one local variable, for which this function finds a
-- name.
function Writer:crowd(taken)
  self.crowded = "t"
  while taken[self.crowded] ~= nil do self.crowded = self.crowded .. "t" end
  self:line("local ", self.crowded, " = {}")
end

function Writer:place(place, names)
  local text = { place.root }
  for _, key in ipairs(place) do text[#text + 1] = field(self, key) end
  if #place == 0 then
    self.names[place.object] = place.root
  else
    self:line(self:name(place.object, names), " = ", table.concat(text))
  end
end

local MARKS = { array = "array", object = "object_like" }

-- The line that makes a new table, with its mark.
function Writer:table(object, names)
  local mark = MARKS[json.mark(object)]
  local made = mark and self:of_library(mark) .. " {}" or "{}"
  self:line(self:name(object, names), " = ", made)
end

function Writer:fields(its)
  local name = self.names[its.object]
  for _, pair in ipairs(its.fields) do
    self:line(name, field(self, pair[1]), " = ", self:value(pair[2]))
  end
  if its.class ~= nil then
    self:line("setmetatable(", name, ", ", self:value(its.class), ")")
  end
end

function Writer:write(write)
  local name = self.names[write.object]
  local value = self:value(write.value)
  if write.kind == "metatable" then
    self:line("setmetatable(", name, ", ", value, ")")
  else
    self:line(name, field(self, write.key), " = ", value)
  end
end

-- A method of the first argument.
function Writer:call(call)
  local arguments = {}
  for i = 3, call.n do arguments[#arguments + 1] = self:value(call[i]) end
  self:line(self.names[call[1]], ":", call[2], "(",
    table.concat(arguments, ", "), ")")
end

local function render(script, names)
  local self = setmetatable({ lines = {}, names = {}, taken = names, last = 0 },
    Writer)
  if #script.places + #script.tables > LOCALS then self:crowd(names) end
  for _, place in ipairs(script.places) do self:place(place, names) end
  for _, its in ipairs(script.tables) do self:table(its.object, names) end
  for _, its in ipairs(script.tables) do self:fields(its) end
  for _, call in ipairs(script.calls) do self:call(call) end
  for _, write in ipairs(script.writes) do self:write(write) end
  self:line ""
  local text = table.concat(self.lines, "\n")
  if not self.library then return text end
  local found = self.library == "mw" and "mw or " or ""
  return ('local %s = %srequire "moonwatch"\n%s'):format(self.library, found,
    text)
end

--- Returns source text that performs the effects in a program in which the
-- objects in `names` are globals of these names; the text finds other objects
-- by their paths, and the library in the global `mw` or by `require`, if it has
-- to.  Returns nil and a message if there is no way to a value.  `calls` are
-- those of effects that are not applied yet.
return function(self, names, calls)
  recorded.check(self, "to_lua")
  check.argument(type(names) == "table", 1, "to_lua", "table", names)
  for name, object in pairs(names) do
    check.that(literal.is_name(name), 1, "to_lua", "the keys are not all names")
    check.that(type(object) == "table", 1, "to_lua",
      "the values are not all tables")
  end
  local script, message = make_script(self, names, calls)
  if not script then return nil, message end
  return render(script, names)
end

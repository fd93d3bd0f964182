--- A specialisation (see infer.lua) as types for the Lua language server.
-- SPDX-License-Identifier: MIT
--
--     ---@class Packet
--     ---@field kind "move"
--     ---@field to Packet.to
--     ---@field tags? string[]

local literal = require "moonwatch.literal"

local Writer = {}
Writer.__index = Writer

local NAMES = {
  integer = "integer", float = "number", string = "string",
  boolean = "boolean", null = "lightuserdata", table = "table",
  shaped = "{ shape: integer[] }", ["function"] = "function",
  userdata = "userdata", thread = "thread", unreadable = "any",
}

-- The type of a place with at most this many known strings lists the strings.
local LITERALS = 8

local function literals(limits)
  local list = {}
  for value in next, limits.values or {} do
    list[#list + 1] = literal.write.string(value)
  end
  table.sort(list)
  return #list > 0 and #list <= LITERALS and table.concat(list, "|") or nil
end

local function of_kind(kind, limits)
  if kind == "string" then return literals(limits) or NAMES.string end
  if limits.only ~= nil and kind ~= "float" then
    return literal.of(limits.only)
  end
  return NAMES[kind]
end

-- Tells whether the keys are 1 to n.
local function is_list(place)
  for i, child in ipairs(place.children) do
    if child.key ~= i then return false end
  end
  return #place.children > 0
end

-- Returns the type of the elements of a list, or nil if their types differ.
function Writer:element(place, class)
  local element
  for _, child in ipairs(place.children) do
    if #child.children > 0 then return nil end
    local its = self:type(child, class, true)
    if element and its ~= element then return nil end
    element = its
  end
  return element:find "[|{]" and "(" .. element .. ")" or element
end

-- Returns the type of a place that is a table, which may become the class
-- `class`.
function Writer:table_type(place, class)
  if #place.children == 0 then return NAMES.table end
  local element = is_list(place) and self:element(place, class)
  if element then return element .. "[]" end
  self.queue[#self.queue + 1] = { place = place, class = class }
  return class
end

function Writer:type(place, class, in_general)
  local names, seen = {}, {}
  if place.any then return "any" end
  for kind, limits in next, place.kinds do
    local name = kind == "table" and self:table_type(place, class) or
      of_kind(kind, in_general and {} or limits)
    if not seen[name] then names[#names + 1] = name end
    seen[name] = true
  end
  table.sort(names)
  return table.concat(names, "|")
end

-- Returns a name for the class of a field that no other class has.
function Writer:name(class, key)
  local name = class .. "." .. tostring(key):gsub("[^%w_]", "_")
  while self.taken[name] do name = name .. "_" end
  self.taken[name] = true
  return name
end

local function field_name(key)
  return literal.is_name(key) and key or "[" .. literal.of(key) .. "]"
end

function Writer:class(place, class)
  self.lines[#self.lines + 1] = "---@class " .. class
  for _, child in ipairs(place.children) do
    local below = #child.children > 0 and self:name(class, child.key)
    self.lines[#self.lines + 1] = ("---@field %s%s %s"):format(
      field_name(child.key), child.optional and "?" or "",
      self:type(child, below))
  end
  self.lines[#self.lines + 1] = ""
end

--- Returns the annotations for the places of a specialisation.
return function(list, name)
  local self = setmetatable({ lines = {}, taken = { [name] = true },
    queue = { { place = list[1], class = name } } }, Writer)
  local i = 1
  while self.queue[i] do
    self:class(self.queue[i].place, self.queue[i].class)
    i = i + 1
  end
  return table.concat(self.lines, "\n")
end

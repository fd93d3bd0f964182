--- mw.counters, mw.count: numbers by section and name.
-- SPDX-License-Identifier: MIT
--
-- `sections` has a table for each section.  mw.counters is empty, so that each
-- access to a section goes by its metamethods.  Reading creates nothing: a
-- section in which nothing was counted is in `empty`, weakly, until its first
-- write.

local check = require "moonwatch.check"
local private = require("moonwatch.core").private

-- All copies of this file share the counters.
private.counters = private.counters or { sections = {},
  empty = setmetatable({}, { __mode = "v" }),
  names = setmetatable({}, { __mode = "k" }) } -- section -> its name
local shared = private.counters
local sections, empty, names = shared.sections, shared.empty, shared.names

local counters = {}

local WIDTH = 60 -- of names in text

local function sorted_keys(t)
  local keys = {}
  for key in next, t do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end

local function line(name, value)
  name = tostring(name):gsub("%c", "?")
  if #name > WIDTH then name = name:sub(1, WIDTH - 3) .. "..." end
  local text = value == value and tostring(value) or "nan" -- not "-nan"
  return ("%-" .. WIDTH .. "s %s\n"):format(name, text)
end

local function text_of(section)
  local lines = {}
  for i, name in ipairs(sorted_keys(section)) do
    lines[i] = line(name, section[name])
  end
  return table.concat(lines)
end

counters.text = text_of

-- To be called by a metamethod.
local function check_counter(name, value)
  if value == nil or type(value) == "number" and value == value then return end
  name = type(name) == "string" and "'" .. name .. "'" or
    ("(a %s)"):format(type(name))
  error(("counter %s cannot be set (number expected, got %s)"):format(name,
    value == value and type(value) or "NaN"), 3)
end

local Section = { __tostring = text_of, __metatable = false }

function Section.__index() return 0 end

function Section.__newindex(section, name, value)
  check_counter(name, value)
  rawset(section, name, value)
  sections[names[section]] = section
end

local function is_key(value) return value ~= nil and value == value end

local function section_of(name)
  local section = sections[name] or empty[name]
  if not section then
    section = setmetatable({}, Section)
    names[section] = name
    if is_key(name) then empty[name] = section end
  end
  return section
end

local Counters = { __metatable = false }

function Counters.__index(_, name) return section_of(name) end

local function fill(name, values)
  local section = section_of(name)
  sections[name], empty[name] = nil, section
  for key in next, section do section[key] = nil end
  for key, value in next, values or {} do section[key] = value end
end

-- The table that the program assigns takes the place of the section's contents;
-- nil clears the section.
function Counters.__newindex(_, name, values)
  check.argument(values == nil or type(values) == "table", 2, "counters",
    "table", values)
  local copy = {}
  for key, value in pairs(values or copy) do
    check_counter(key, value)
    copy[key] = value
  end
  fill(name, values and copy)
end

function Counters.__pairs() return next, sections end

function Counters.__tostring()
  local lines = {}
  for _, name in ipairs(sorted_keys(sections)) do
    lines[#lines + 1] = line(name, counters.counted(name))
    lines[#lines + 1] = text_of(sections[name]):gsub("[^\n]+", "  %0")
  end
  return table.concat(lines)
end

counters.counters = setmetatable({}, Counters)

--- Adds `n` (or 1) to a counter.  Returns the new value.
function counters.count(section, name, n)
  check.argument(is_key(section), 1, "count", "key", section)
  check.argument(is_key(name), 2, "count", "key", name)
  check.argument(n == nil or type(n) == "number", 3, "count", "number", n)
  check.that(n == n, 3, "count", "number expected, got NaN")
  local its = section_of(section)
  local value = its[name]
  check.that(type(value) == "number", 2, "count",
    "its counter is a " .. type(value))
  its[name] = value + (n or 1)
  return its[name]
end

--- Returns the total of a section.
function counters.counted(section)
  check.argument(is_key(section), 1, "counted", "key", section)
  local total = 0
  for _, value in next, sections[section] or {} do
    if type(value) == "number" then total = total + value end
  end
  return total
end

--- Forgets all counters.
function counters.reset_counters(...)
  check.nothing("reset_counters", ...)
  for name in next, sections do fill(name, nil) end
end

return counters

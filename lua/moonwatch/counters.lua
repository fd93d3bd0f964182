--- mw.counters, mw.count: numbers by section and name.
-- SPDX-License-Identifier: MIT
--
-- `sections` has a table for each section.  mw.counters is empty, so that each
-- access to a section goes by its metamethods.  Reading creates nothing: for a
-- section that does not exist, reading returns a view, which looks for the
-- section at each access and creates the section at the first write.

local check = require "moonwatch.check"
local private = require("moonwatch.core").private

-- All copies of this file share the counters.
private.counters = private.counters or {}
local sections = private.counters

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
end

local function own_section(name)
  local section = sections[name]
  if not section then
    section = setmetatable({}, Section)
    sections[name] = section
  end
  return section
end

local Counters = { __metatable = false }

function Counters.__index(_, name)
  if sections[name] then return sections[name] end
  local view = { __metatable = false }
  function view.__index(_, key)
    return sections[name] and sections[name][key] or 0
  end
  function view.__newindex(_, key, value)
    check_counter(key, value)
    own_section(name)[key] = value
  end
  function view.__pairs() return next, sections[name] or {} end
  function view.__tostring() return text_of(sections[name] or {}) end
  return setmetatable({}, view)
end

local function fill(name, values)
  local section = values and own_section(name) or sections[name] or {}
  for key in next, section do section[key] = nil end
  for key, value in next, values or {} do section[key] = value end
  if not values then sections[name] = nil end
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

local function is_key(value) return value ~= nil and value == value end

local function add(section, name, n)
  local its = own_section(section)
  its[name] = its[name] + n
  return its[name]
end

--- Adds `n` (or 1) to a counter.  Returns the new value.
function counters.count(section, name, n)
  check.argument(is_key(section), 1, "count", "key", section)
  check.argument(is_key(name), 2, "count", "key", name)
  check.argument(n == nil or type(n) == "number", 3, "count", "number", n)
  check.that(n == n, 3, "count", "number expected, got NaN")
  local its = sections[section]
  local value = its and its[name]
  check.that(not value or type(value) == "number", 2, "count",
    "its counter is a " .. type(value))
  return add(section, name, n or 1)
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

local function clear()
  for name in next, sections do fill(name, nil) end
end

--- Forgets all counters.
function counters.reset_counters(...)
  check.nothing("reset_counters", ...)
  clear()
end

return counters

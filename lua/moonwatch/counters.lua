--- mw.counters, mw.count: numbers by section and name.
-- SPDX-License-Identifier: MIT
--
-- Reading creates nothing.  For a section that does not exist, reading returns
-- a view, which looks for the section at each access and creates the section at
-- the first write.

local check = require "moonwatch.check"
local private = require("moonwatch.core").private

local Section = { __index = function() return 0 end }

local Counters = {}

local function own_section(all, name)
  local section = rawget(all, name)
  if not section then
    section = setmetatable({}, Section)
    rawset(all, name, section)
  end
  return section
end

function Counters.__index(all, name)
  local view = {}
  function view.__index(_, key)
    local section = rawget(all, name)
    return section and section[key] or 0
  end
  function view.__newindex(_, key, value)
    own_section(all, name)[key] = value
  end
  function view.__pairs() return next, rawget(all, name) or {} end
  return setmetatable({}, view)
end

-- Copies a table that the program assigns into the section.
function Counters.__newindex(all, name, values)
  check.argument(values == nil or type(values) == "table", 2, "counters",
    "table", values)
  if values == nil then return end
  local section = own_section(all, name)
  for key, value in pairs(values) do section[key] = value end
end

-- All copies of this file share the counters.
private.counters = private.counters or setmetatable({}, Counters)

local counters = { counters = private.counters }

local function is_key(value) return value ~= nil and value == value end

--- Adds `n` (or 1) to a counter.  Returns the new value.
function counters.count(section, name, n)
  check.argument(is_key(section), 1, "count", "key", section)
  check.argument(is_key(name), 2, "count", "key", name)
  check.argument(n == nil or type(n) == "number", 3, "count", "number", n)
  local its = own_section(counters.counters, section)
  its[name] = its[name] + (n or 1)
  return its[name]
end

return counters

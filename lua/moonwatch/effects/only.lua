--- effects:only: the part of effects below a root.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local before_after = require "moonwatch.effects.before_after"
local new_ways = require "moonwatch.effects.ways"
local recorded = require "moonwatch.effects.recorded"

local private = core.private

-- Returns object -> array of the tables that the entries put into the object or
-- took out of it.
local function attached(list)
  local below = {}
  for _, e in ipairs(list) do
    local its = below[e.object] or {}
    below[e.object] = its
    if e.kind ~= "metatable" then
      for _, value in ipairs { e.old or false, e.new or false } do
        if type(value) == "table" then its[#its + 1] = value end
      end
    end
  end
  return below
end

-- Returns the set of the written objects that were below the root at some time
-- within the effects.
local function objects_below(ways, after, list)
  local below, set, queue = attached(list), {}, {}
  local function add(value)
    if type(value) ~= "table" or set[value] then return end
    set[value] = true
    queue[#queue + 1] = value
  end
  for object in pairs(below) do
    if ways:of(object) then add(object) end
  end
  while #queue > 0 do
    local object = table.remove(queue)
    for _, value in ipairs(below[object] or {}) do add(value) end
    if not ways:of(object) then -- new, with all that is in it
      for _, value in next, after:contents(object) do add(value) end
    end
  end
  return set
end

local function part_below(fx, root)
  local before, after, list = before_after(fx)
  if not before then error { after } end
  local ways = new_ways({ root = root }, before, true)
  local set, part = objects_below(ways, after, list), {}
  for _, e in ipairs(list) do
    if set[e.object] then part[#part + 1] = e end
  end
  return private.effects(part, fx)
end

--- Returns the effects on what is below a root, or was below it at some time
-- within the effects.  Returns nil and a message if that cannot be told any
-- more.
return function(self, root)
  recorded.check(self, "only")
  check.argument(type(root) == "table", 1, "only", "table", root)
  local ok, result = pcall(part_below, self, root)
  if ok then return result end
  if type(result) ~= "table" then error(result, 0) end
  return nil, result[1]
end

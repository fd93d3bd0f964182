--- The written objects that came and went within effects: see `squash`.
-- SPDX-License-Identifier: MIT
--
-- Squashed effects have the writes to a table that was put somewhere and taken
-- out again, but not the writes that put it there.  So they know these objects
-- by a set of their own.

local private = require("moonwatch.core").private

local raw = private.raw

local passing = {}

-- Effects -> the set of the objects.  All copies of this file share the table.
private.passing = private.passing or setmetatable({}, { __mode = "k" })
local sets = private.passing

--- Tells whether an object that the effects wrote came and went within.
function passing.has(fx, object)
  return sets[fx] ~= nil and sets[fx][object] == true
end

--- Gives effects the sets of those that they are made of.  Returns the effects.
function passing.inherit(fx, ...)
  for _, former in ipairs { ... } do
    if sets[former] then
      sets[fx] = sets[fx] or {}
      for object in next, sets[former] do sets[fx][object] = true end
    end
  end
  return fx
end

-- Returns the set of the written objects that nobody tracks now.
local function loose_objects(list)
  local set = {}
  for _, e in ipairs(list) do
    local object = e.object
    if type(object) == "table" and not private.intercepts(object) then
      set[object] = true
    end
  end
  return set
end

--- Gives squashed effects, with the entries in `list`, the set of the objects
-- that came and went within the effects `former`.  Returns the squashed ones.
function passing.note(fx, list, former)
  local wanted, queue, seen = loose_objects(list), {}, {}
  if next(wanted) == nil then return fx end
  for i = 1, #former do
    local _, _, old, new = private.entry(former, i)
    queue[#queue + 1] = old
    queue[#queue + 1] = new
  end
  local set = sets[fx] or {}
  sets[fx] = set
  while #queue > 0 do
    local t = table.remove(queue)
    if type(t) == "table" and not seen[t] and not private.intercepts(t) then
      seen[t], set[t] = true, wanted[t]
      for _, value in next, raw(t) do queue[#queue + 1] = value end
    end
  end
  return fx
end

return passing

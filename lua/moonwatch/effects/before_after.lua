--- The contents of objects before effects, and after them.
-- SPDX-License-Identifier: MIT
--
-- The effects may be done or undone now.  A view takes the fields that the
-- effects changed from the effects, and all other fields from the objects.

local core = require "moonwatch.core"
local recorded = require "moonwatch.effects.recorded"

local private, raw = core.private, core.raw

local ABSENT = {}
local CLASS = {} -- the key of an object's class

local function note(changes, e, value, again)
  local its = changes[e.object] or {}
  changes[e.object] = its
  local key = e.key
  if e.kind == "metatable" then key = CLASS end
  if key ~= key or its[key] ~= nil and not again then return end
  if value == nil then value = ABSENT end
  its[key] = value
end

local function overlay(t, its)
  local contents = {}
  for key, value in next, raw(t) do contents[key] = value end
  for key, value in next, its do
    if key == CLASS or value == ABSENT then value = nil end
    contents[key] = value
  end
  contents[CLASS] = nil
  return contents
end

-- Returns a view: `contents(t)` returns a table that must not be written to,
-- `class(t)` returns the metatable, and `changed` is the set of changed
-- objects.
local function view(changes)
  local known = {}
  local self = { changed = changes }
  function self.contents(t)
    if not changes[t] then return raw(t) end
    known[t] = known[t] or overlay(t, changes[t])
    return known[t]
  end
  function self.class(t)
    local class = changes[t] and changes[t][CLASS]
    if class == nil then class = private.metatable(t) end
    if class ~= ABSENT then return class end
  end
  return self
end

--- Returns the view before the effects and the view after them.
return function(fx)
  local first, last = {}, {}
  for _, e in ipairs(recorded.list(fx)) do
    note(first, e, e.old, false)
    note(last, e, e.new, true)
  end
  return view(first), view(last)
end

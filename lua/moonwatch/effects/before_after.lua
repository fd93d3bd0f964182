--- The contents of objects before effects, and after them.
-- SPDX-License-Identifier: MIT
--
-- The effects may be done or undone now, and the program may have gone on.  A
-- view takes a field from the effects, if they wrote the field; else from the
-- moves that the core has noted since the effects; else from the object.
--
-- So a view knows which objects each table of a tree held.  Of the other values
-- the view knows those that were not written since: see `fresh`.

local core = require "moonwatch.core"
local recorded = require "moonwatch.effects.recorded"

local private = core.private
local raw = private.raw

local ABSENT = {}
local CLASS = {} -- the key of an object's class

local View = {}
View.__index = View

local function note(changes, e, value, again)
  local its = changes[e.object] or {}
  changes[e.object] = its
  local key = e.key
  if e.kind == "metatable" then key = CLASS end
  if e.kind == "call" then return end
  if key ~= key or its[key] ~= nil and not again then return end
  if value == nil then value = ABSENT end
  its[key] = value
end

-- Returns parent -> key -> the value at the end of the effects, for the fields
-- in which objects have come or gone since; nil if that is not known any more.
local function read_moves(fx)
  local moves, past = private.moves(private.past(fx)), {}
  if not moves then return nil end
  for i = 1, #moves, 3 do
    local parent, key, former = moves[i], moves[i + 1], moves[i + 2]
    if parent then
      local its = past[parent] or {}
      past[parent] = its
      if its[key] == nil then its[key] = former or ABSENT end
    end
  end
  return past
end

-- {======================================================
-- Views
-- =======================================================

--- Returns the value of a field.
function View:get(t, key)
  local its = self.changed[t]
  local value = its and its[key]
  if value == nil then
    its = self.past[t]
    value = its and its[key]
  end
  if value == nil then return rawget(raw(t), key) end
  if value ~= ABSENT then return value end
end

local function lay_over(contents, its)
  for key, value in next, its do
    if value == ABSENT then value = nil end
    if key ~= CLASS then contents[key] = value end
  end
end

--- Returns the contents of a table, as a table that must not be written to.
function View:contents(t)
  local changes, past = self.changed[t], self.past[t]
  if not changes and not past then return raw(t) end
  local contents = self.known[t]
  if contents then return contents end
  contents = {}
  for key, value in next, raw(t) do contents[key] = value end
  if past then lay_over(contents, past) end
  if changes then lay_over(contents, changes) end
  self.known[t] = contents
  return contents
end

--- Returns the class of an object.
function View:class(t)
  local class = self.changed[t] and self.changed[t][CLASS]
  if class == nil then class = private.metatable(t) end
  if class ~= ABSENT then return class end
end

--- Tells whether the view knows all contents of a table, not only the objects.
function View:fresh(t)
  return private.untouched(self.fx, t, self.changed[t] ~= nil)
end

--- Calls `visit(t, key, value)` for the fields of which the view knows more
-- than the objects show; `value` is nil for an absent field.
function View:each(visit)
  local function each(list, except)
    for t, its in next, list do
      for key, value in next, its do
        if key ~= CLASS and not (except[t] and except[t][key] ~= nil) then
          if value == ABSENT then value = nil end
          visit(t, key, value)
        end
      end
    end
  end
  each(self.changed, {})
  each(self.past, self.changed)
end

local function view(fx, changed, past)
  return setmetatable({ fx = fx, changed = changed, past = past, known = {} },
    View)
end

-- }======================================================

--- Returns the view before the effects, the view after them, and the array of
-- their entries.  `changed` of a view has the written objects.  Returns nil and
-- a message if the objects cannot be told any more.
return function(fx)
  local first, last, past = {}, {}, read_moves(fx)
  if not past then
    return nil, "too much has changed since the effects were made"
  end
  local list = recorded.list(fx)
  if #list < #fx then return nil, "an object that was written is dead" end
  for _, e in ipairs(list) do
    note(first, e, e.old, false)
    note(last, e, e.new, true)
  end
  return view(fx, first, past), view(fx, last, past), list
end

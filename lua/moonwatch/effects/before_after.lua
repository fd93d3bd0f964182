--- The contents of objects before effects, and after them.
-- SPDX-License-Identifier: MIT
--
-- The effects may be done or undone now, and the program may have gone on.  A
-- view takes a field from the effects, if they wrote the field; else from the
-- object, as the object is now: see `fresh`.

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

--- Returns the value of a field.
function View:get(t, key)
  local its = self.changed[t]
  local value = its and its[key]
  if value == nil then return rawget(raw(t), key) end
  if value ~= ABSENT then return value end
end

--- Returns the contents of a table, as a table that must not be written to.
function View:contents(t)
  local changes, contents = self.changed[t], self.known[t]
  if not changes then return raw(t) end
  if contents then return contents end
  contents = {}
  for key, value in next, raw(t) do contents[key] = value end
  for key, value in next, changes do
    if value == ABSENT then value = nil end
    if key ~= CLASS then contents[key] = value end
  end
  self.known[t] = contents
  return contents
end

--- Returns the class of an object.
function View:class(t)
  local class = self.changed[t] and self.changed[t][CLASS]
  if class == nil then class = private.metatable(t) end
  if class ~= ABSENT then return class end
end

--- Tells whether a table loses entries without a write.
function View:is_weak(t)
  local class = self:class(t)
  return type(class) == "table" and rawget(class, "__mode") ~= nil
end

--- Tells whether a table that the effects left below the roots has been taken
-- out since, so that nobody sees what is written to it.
function View:is_gone(t)
  return self.is_tracked and not private.intercepts(t)
end

--- Tells whether nobody has written a table since, as far as that is seen.
function View:fresh(t)
  return private.untouched(self.fx, t, self.changed[t] ~= nil)
end

-- Returns the set of the tables that are in the written fields at the end, of
-- objects that are tracked.
local function tables_in(changed)
  local set = {}
  for t, its in next, changed do
    if private.intercepts(t) then
      for _, value in next, its do
        if type(value) == "table" then set[value] = true end
      end
    end
  end
  return set
end

local function view(fx, changed, its)
  return setmetatable({ fx = fx, changed = changed, known = {},
    ends = its.ends, list = its.list, is_tracked = its.is_tracked }, View)
end

-- Are all roots tracked deeply, and the effects done?  Then a table below the
-- roots is tracked.
local function is_tracked(fx, roots)
  for _, root in next, roots do
    if not private.has_below(root) then return false end
  end
  return not private.is_undone(fx)
end

--- Returns the view before the effects, the view after them, and the array of
-- their entries, for what is below the roots in a table.  `changed` of a view
-- has the written objects, and `ends` the tables that the effects left in their
-- fields.
return function(fx, roots)
  private.let_go() -- from here on, contents stay in the tables where they are
  local first, last, list = {}, {}, recorded.list(fx)
  for _, e in ipairs(list) do
    note(first, e, e.old, false)
    note(last, e, e.new, true)
  end
  local its = { list = list, ends = tables_in(last),
    is_tracked = is_tracked(fx, roots) }
  return view(fx, first, its), view(fx, last, its), list
end

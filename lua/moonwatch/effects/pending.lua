--- What a plan has to do.
-- SPDX-License-Identifier: MIT
--
--     writes    entries in the order of the program, one for each field; false
--               where an entry was that has moved to the end
--     holes     the number of false in `writes`
--     fields    object -> key -> entry
--     new       the set of the new objects and cells
--     marks     the set of the marked objects
--     saves     arrays { ctx, arguments... , n = }
--     hooks     in the order of their indices; some may be removed, which go
--               when there are `many`
--     finals    functions
--     before    what a rollback has given back and `merge` has to put in front,
--               or false
--
-- An entry is { object, key, value, deleted, where, at } and never changes; it
-- is at the place `at` of `writes`.

local name_of = require "moonwatch.effects.name_of"

local pending = {}

--- Returns the entry of a field, or nil.
function pending.find(self, object, key)
  local fields = self.fields[object]
  return fields and fields[name_of(key)]
end

--- Returns what has nothing to do.
function pending.none()
  return {
    writes = {}, holes = 0, fields = {}, new = {}, marks = {}, saves = {},
    hooks = {}, many = 16, finals = {}, before = false,
  }
end

--- Adds a write.  A field that is set again after a delete comes last in the
-- order of the program.
function pending.put(self, object, key, value, deleted, where)
  local writes, fields = self.writes, self.fields[object]
  if math.type(key) == "float" then key = math.tointeger(key) or key end
  local name = name_of(key)
  local former = fields and fields[name]
  local stays = former and (deleted or not former.deleted)
  local at = stays and former.at or #writes + 1
  local entry = { object = object, key = key, value = value,
    deleted = deleted, where = where, at = at }
  if not fields then
    fields = {}
    self.fields[object] = fields
  end
  if not stays then writes[at] = false end -- a hole, if memory runs out now
  fields[name] = entry
  writes[at] = entry
  if former and not stays then
    writes[former.at], self.holes = false, self.holes + 1
  end
end

local function union(to, from, without)
  for object in next, from do
    if not (without and without[object]) then to[object] = true end
  end
end

local function moved(entry, at)
  if entry.at == at then return entry end
  return {
    object = entry.object, key = entry.key, value = entry.value,
    deleted = entry.deleted, where = entry.where, at = at,
  }
end

local function copy_writes(from, to, without)
  local writes, fields = to.writes, to.fields
  for _, entry in ipairs(from.writes) do
    if entry and not (without and without[entry.object]) then
      local object = entry.object
      entry = moved(entry, #writes + 1)
      writes[#writes + 1] = entry
      fields[object] = fields[object] or {}
      fields[object][name_of(entry.key)] = entry
    end
  end
end

--- Returns the hooks of a list that are not removed.
function pending.live(hooks)
  local live = {}
  for _, hook in ipairs(hooks) do
    if not hook.removed then live[#live + 1] = hook end
  end
  return live
end

--- Returns a copy without holes, and without the objects of the set `without`.
function pending.copy(self, without)
  local copy = pending.none()
  copy_writes(self, copy, without)
  union(copy.new, self.new, without)
  union(copy.marks, self.marks, without)
  table.move(self.saves, 1, #self.saves, 1, copy.saves)
  copy.hooks = pending.live(self.hooks)
  table.move(self.finals, 1, #self.finals, 1, copy.finals)
  return copy
end

local function append(to, from)
  table.move(from, 1, #from, #to + 1, to)
end

-- Puts `later` behind what a copy has to do.
local function add(copy, later)
  for _, e in ipairs(later.writes) do
    if e then
      pending.put(copy, e.object, e.key, e.value, e.deleted, e.where)
    end
  end
  union(copy.new, later.new)
  union(copy.marks, later.marks)
  append(copy.saves, later.saves)
  append(copy.hooks, later.hooks)
  append(copy.finals, later.finals)
end

--- Returns a copy that has what was given back in front.
function pending.merge(self)
  local list = {}
  while self do
    list[#list + 1] = self
    self = self.before
  end
  local copy = pending.copy(list[#list])
  for i = #list - 1, 1, -1 do add(copy, list[i]) end
  return copy
end

--- Puts `before` in front of all that there is to do.
function pending.give_back(self, before)
  while self.before do self = self.before end
  self.before = before
end

--- Returns what a plan has to do.
function pending.of(plan)
  local its = plan.its
  if its.pending.before then its.pending = pending.merge(its.pending) end
  return its.pending
end

-- The hooks at the end that are removed go, so that the last hook shows whether
-- there is one.
local function has_hooks(hooks)
  while hooks[#hooks] and hooks[#hooks].removed do hooks[#hooks] = nil end
  return hooks[1] ~= nil
end

--- Tells whether there is nothing to do.
function pending.is_empty(self)
  return not (next(self.fields) or next(self.new) or next(self.marks) or
    self.saves[1] or has_hooks(self.hooks) or self.finals[1])
end

return pending

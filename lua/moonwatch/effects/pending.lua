--- What a plan tracks, and what it has to do.
-- SPDX-License-Identifier: MIT
--
--     items     the tracked objects, cells and globals, in the order of
--               tracking: { object, nth, env, name }
--     of        object -> item; a global has a table of its own as its object
--     globals   name -> environment -> item
--     tracked   the number of the item that was tracked last
--     fields    object -> name of the key -> entry
--     last      the number of the last entry
--     new       the set of the new objects and cells
--     marks     the set of the marked objects
--     saves     arrays { ctx, arguments... , n = }
--     hooks     index -> hook
--     finals    functions
--
-- An entry is { object, key, value, deleted, where, at } and never changes;
-- `at` says where it stands in the order of the program.

local name_of = require("moonwatch.effects.fold").name_of
local same = require "moonwatch.same"

local pending = {}

--- Returns what tracks nothing, and has nothing to do.
function pending.none()
  return {
    items = {}, of = {}, globals = {}, tracked = 0, fields = {}, last = 0,
    new = {}, marks = {}, saves = {}, hooks = {}, finals = {},
  }
end

local function add_item(self, item)
  local env, name = item.env, item.name
  self.items[#self.items + 1] = item
  self.of[item.object] = item
  if env then
    self.globals[name] = self.globals[name] or {}
    self.globals[name][env] = item
  end
  self.tracked = item.nth
end

--- Tracks an object, or with `env` the global of a name.
function pending.track(self, object, env, name)
  add_item(self, { object = object, nth = self.tracked + 1, env = env,
    name = name })
end

--- Returns the entry of a field, or nil.
function pending.find(self, object, key)
  local fields = self.fields[object]
  return fields and fields[name_of(key)]
end

--- Adds a write.  A field that is set again after a delete comes last in the
-- order of the program.
function pending.put(self, object, key, value, deleted, where)
  if math.type(key) == "float" then key = math.tointeger(key) or key end
  local fields, name = self.fields[object] or {}, name_of(key)
  local former = fields[name]
  local stays = former and (deleted or not former.deleted)
  fields[name] = {
    object = object, key = key, value = value, deleted = deleted,
    where = where, at = stays and former.at or self.last + 1,
  }
  self.fields[object], self.last = fields, self.last + 1
end

-- Returns a list, sorted by a field.
local function sorted(list, name)
  table.sort(list, function(a, b) return a[name] < b[name] end)
  return list
end

--- Returns the entries in the order of the program.
function pending.writes(self)
  local list = {}
  for _, fields in next, self.fields do
    for _, entry in next, fields do list[#list + 1] = entry end
  end
  return sorted(list, "at")
end

--- Returns the hooks in the order of their indices; some may have been removed
-- since they were registered, and taken back.
function pending.hooks_of(self)
  local list = {}
  for _, hook in next, self.hooks do
    if not hook.removed then list[#list + 1] = hook end
  end
  return sorted(list, "index")
end

--- Adds what `later` tracks, but for the objects in the set `without`, and puts
-- what there is to do with it behind the rest.  Returns all.
function pending.add(self, later, without)
  for _, item in ipairs(later.items) do
    local object = item.object
    if not (self.of[object] or without and without[object]) then
      add_item(self, item)
    end
  end
  self.tracked = later.tracked
  for _, e in ipairs(pending.writes(later)) do
    if self.of[e.object] then
      pending.put(self, e.object, e.key, e.value, e.deleted, e.where)
    end
  end
  for _, set in ipairs { "new", "marks" } do
    for object in next, later[set] do
      self[set][object] = self.of[object] and true
    end
  end
  for _, list in ipairs { "saves", "finals" } do
    table.move(later[list], 1, #later[list], #self[list] + 1, self[list])
  end
  for index, hook in next, later.hooks do self.hooks[index] = hook end
  return self
end

--- Returns a copy, without the objects in the set `without`.
function pending.copy(self, without)
  return pending.add(pending.none(), self, without)
end

--- Tells whether there is nothing to do.
function pending.is_empty(self)
  return not (next(self.fields) or next(self.new) or next(self.marks) or
    self.saves[1] or pending.hooks_of(self)[1] or self.finals[1])
end

-- The parts of a plan, in the order in which they are compared: lists of
-- arrays.  Each has a name, and so has what is in its arrays.
local PARTS = {
  { "objects", "object", "kind", "name", "mark" },
  { "mutations", "object", "name", "key", "value", "deletion" },
  { "saves", "object" },
  { "hooks", "index", "object", "event", "function" },
  { "callbacks", "function" },
}

-- Returns these lists.  A global is its environment and its name.
local function parts_of(its)
  local objects, mutations, hooks, callbacks = {}, {}, {}, {}
  for i, item in ipairs(its.items) do
    local object = item.object
    objects[i] = { item.env or object,
      item.env and "global" or its.new[object] and "new", item.name,
      its.marks[object] }
  end
  for i, e in ipairs(pending.writes(its)) do
    local item = its.of[e.object]
    mutations[i] = { item.env or item.object, item.name, e.key, e.value,
      e.deleted }
  end
  for i, e in ipairs(pending.hooks_of(its)) do
    hooks[i] = { e.index, e.object, e.event, e.fn }
  end
  for i, fn in ipairs(its.finals) do callbacks[i] = { fn } end
  return { objects, mutations, its.saves, hooks, callbacks }
end

-- Returns the first difference of two such lists, or nil.
local function difference(a, b, names)
  for i = 1, math.max(#a, #b) do
    local x, y = a[i], b[i]
    if not (x and y) then
      return ("%s: there is number %d on one side only"):format(names[1], i)
    end
    for n = 1, math.max(#names - 1, x.n or 0, y.n or 0) do
      if x.n ~= y.n or not same(x[n], y[n]) then
        return ("%s: number %d has another %s"):format(names[1], i,
          names[n + 1] or "argument")
      end
    end
  end
end

--- Returns the first difference of what two plans have, in words, or nil.
function pending.difference(a, b)
  local its, others = parts_of(a), parts_of(b)
  for i, names in ipairs(PARTS) do
    local found = difference(its[i], others[i], names)
    if found then return found end
  end
end

return pending

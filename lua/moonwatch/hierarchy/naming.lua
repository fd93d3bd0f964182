--- The names of the objects of a hierarchy.
-- SPDX-License-Identifier: MIT
--
-- The name of an object is the name of its parent with the key under which the
-- parent has the object; the name of a root is the name of its class.  Names
-- are numbered: `names` has the names by number, `numbers` the numbers by name,
-- and `by_name` an object for each name, weakly.  The core knows the number and
-- the parent of each object, and the table and the field in which the object
-- was found.
--
-- Naming is planned first and done afterwards, because functions of the program
-- that are called meanwhile may fail.

local named = require "moonwatch.policy.named"
local object_class = require "moonwatch.policy.object_class"
local core = require "moonwatch.core"
local policy = require "moonwatch.policy"

local metatable, raw = core.private.metatable, core.raw

local naming = {}

-- {======================================================
-- Children
-- =======================================================

local RANK = { number = 1, string = 2, boolean = 3 }

local function precedes(a, b)
  local of_a, of_b = RANK[type(a)], RANK[type(b)]
  if of_a ~= of_b then return of_a < of_b end
  if of_a == 3 then return not a and b end
  return a < b
end

-- Returns the keys of a table: the sequence, then the other keys, sorted.
local function keys_of(t)
  local keys, n = {}, 0
  while rawget(t, n + 1) ~= nil do
    n = n + 1
    keys[n] = n
  end
  local others = {}
  for key in next, t do
    local in_sequence = math.type(key) == "integer" and key > 0 and key <= n
    if RANK[type(key)] and not in_sequence then others[#others + 1] = key end
  end
  table.sort(others, precedes)
  return table.move(others, 1, #others, n + 1, keys)
end

local function runs(value)
  for _, name in ipairs(policy.entries() or {}) do
    if type(object_class.lookup(value, name)) == "function" then return true end
  end
  return false
end

local function is_instrumented(its, value)
  if its.classes[object_class.of(value) or false] then return true end
  for name in next, its.methods do
    local method = object_class.lookup(value, name)
    if method ~= nil and its.wrappers[method] then return true end
  end
  return false
end

-- A class has the methods of its objects, but is no child.
local function is_class(value, obj)
  return rawequal(value, object_class.of(obj)) or
    rawequal(value, metatable(obj)) or
    type(value) == "table" and rawequal(rawget(raw(value), "__index"), value)
end

local function is_child(its, value, obj)
  if type(value) ~= "table" and type(value) ~= "userdata" then return false end
  return (is_instrumented(its, value) or runs(value)) and
    not is_class(value, obj)
end

local function is_plain(value)
  return type(value) == "table" and metatable(value) == nil
end

-- Adds the children of `obj` in `holder`, which is the object or a plain table
-- below it.
local function collect(its, obj, holder, prefix, list, seen)
  local fields = raw(holder)
  for _, field in ipairs(keys_of(fields)) do
    local value, key = rawget(fields, field), field
    if prefix then key = prefix .. "." .. tostring(field) end
    if is_child(its, value, obj) then
      list[#list + 1] = { child = value, key = key, holder = holder,
        field = field }
    elseif is_plain(value) and not seen[value] then
      seen[value] = true
      collect(its, obj, value, tostring(key), list, seen)
    end
  end
end

-- Returns the children that the program's own function returns, in a table or
-- by an iterator of keys and children.
local function told(f, obj)
  local list = {}
  local function add(key, child)
    if type(child) == "table" or type(child) == "userdata" then
      list[#list + 1] = { child = child, key = key }
    end
  end
  local result, state, first = f(obj)
  if type(result) == "function" then
    for key, child in result, state, first do add(key, child) end
  elseif type(result) == "table" then
    local fields = raw(result)
    for _, key in ipairs(keys_of(fields)) do add(key, rawget(fields, key)) end
  end
  return list
end

-- Returns an array of { child, key, holder, field }; holder and field may be
-- nil.
local function children(its, obj)
  if its.children then return told(its.children, obj) end
  local list = {}
  if type(obj) == "table" then
    collect(its, obj, obj, nil, list, { [obj] = true })
  end
  return list
end

-- Tells whether an object is in a table, or in a plain table below the table.
local function is_in(t, obj, seen)
  for _, value in next, raw(t) do
    if rawequal(value, obj) then return true end
    if is_plain(value) and not seen[value] then
      seen[value] = true
      if is_in(value, obj, seen) then return true end
    end
  end
  return false
end

-- Returns the element of `children` for an object, or nil.
local function find(its, parent, obj)
  if not its.children and
    (type(parent) ~= "table" or not is_in(parent, obj, { [parent] = true }))
  then
    return nil
  end
  for _, found in ipairs(children(its, parent)) do
    if rawequal(found.child, obj) then return found end
  end
end

-- }======================================================

-- {======================================================
-- Names and numbers
-- =======================================================

local FEWEST = 1000 -- names that are kept without a sweep

-- Forgets the names that no object has, if no object executes.
local function sweep(its)
  if its.engine.frames() > 0 then return end
  local used, count = its.engine.used(), 0
  for number, name in pairs(its.names) do
    if used[number] then
      count = count + 1
    else
      its.names[number], its.numbers[name] = nil, nil
      its.free[#its.free + 1] = number
    end
  end
  its.count, its.limit = count, math.max(FEWEST, 2 * count)
end

local function number_of(its, name)
  local number = its.numbers[name]
  if number then return number end
  if its.count >= its.limit then sweep(its) end
  number = table.remove(its.free) or its.count + 1
  its.count = its.count + 1
  its.names[number], its.numbers[name] = name, number
  return number
end

local function release(its, obj)
  local former = its.names[its.engine.named(obj)]
  if former and rawequal(its.by_name[former], obj) then
    its.by_name[former], its.hints[1] = nil, nil
  end
end

-- `found` is the object's element of `children`.
local function set_name(its, obj, name, parent, found)
  release(its, obj)
  its.engine.name(obj, number_of(its, name), parent, found and found.holder,
    found and found.field)
  if its.by_name[name] == nil then its.by_name[name] = obj end
end

-- }======================================================

-- {======================================================
-- Roots
-- =======================================================

--- Returns the name of an object's class.
function naming.class_name(its, obj)
  local name = its.class_name and its.class_name(obj)
  if type(name) == "string" then return name end
  local _
  _, name = policy.ask("class_name", obj)
  if type(name) == "string" then return name end
  local class = object_class.of(obj)
  return named.name(class) or object_class.name(class) or
    object_class.name(metatable(obj)) or type(obj)
end

-- Returns class name -> number of roots of that name.  A collection or a change
-- of names, which may free names, empties the table.
local function hints(its)
  its.hints[1] = its.hints[1] or {}
  return its.hints[1]
end

local function root_name(its, obj)
  local base = naming.class_name(its, obj)
  local known = hints(its)
  local n = known[base] or 1
  local name = n == 1 and base or base .. "#" .. n
  while its.by_name[name] ~= nil and not rawequal(its.by_name[name], obj) do
    n = n + 1
    name = base .. "#" .. n
  end
  known[base] = n
  return name
end

-- }======================================================

-- {======================================================
-- Plans
-- =======================================================

-- Returns the name of a child.  The key of a child in a plain table is the path
-- to the child.
local function child_name(its, parent_name, key, child)
  local name = its.name and its.name(parent_name, key, child)
  if type(name) == "string" then return name end
  local _
  _, name = policy.ask("name", parent_name, key, child)
  if type(name) == "string" then return name end
  return parent_name .. "." .. tostring(key)
end

-- Tells whether `obj` is the parent of `child`, or a parent's parent, and so
-- on.
local function is_above(its, obj, child)
  local seen = {}
  while child and not seen[child] do
    if rawequal(obj, child) then return true end
    seen[child] = true
    local _
    _, child = its.engine.named(child)
  end
  return false
end

-- Returns the number of the name under which the object executes, or nil.
local function executing(its, obj)
  for i = its.engine.depth(), 1, -1 do
    local other, number = its.engine.frame(i)
    if rawequal(other, obj) then return number end
  end
end

-- Tells whether a child gets its name from this parent; otherwise it keeps its
-- name.
local function may_name(its, child, parent)
  local number, former = its.engine.named(child)
  if not number or rawequal(former, parent) then return true end
  if is_above(its, child, parent) or executing(its, child) then return false end
  return not former or not its.engine.linked(child)
end

local function plan_child(its, of_parent, found, plan, seen)
  local child = found.child
  if seen[child] or not may_name(its, child, of_parent.obj) then return end
  seen[child] = true
  plan[#plan + 1] = {
    obj = child, parent = of_parent.obj, found = found,
    name = child_name(its, of_parent.name, found.key, child),
  }
end

-- Returns names for an object and for all objects below it, the nearest first.
local function plan_below(its, top)
  local plan, seen, i = { top }, { [top.obj] = true }, 1
  local above = top.parent
  while above and not seen[above] do
    local _
    seen[above] = true
    _, above = its.engine.named(above)
  end
  while plan[i] do
    for _, found in ipairs(children(its, plan[i].obj)) do
      plan_child(its, plan[i], found, plan, seen)
    end
    i = i + 1
  end
  return plan
end

local function name_all(its, top)
  for _, item in ipairs(plan_below(its, top)) do
    set_name(its, item.obj, item.name, item.parent, item.found)
  end
  return its.numbers[top.name]
end

-- Returns the innermost object that executes and has `obj` as a child; nil if
-- an object further in is the parent of `obj` already.
local function find_parent(its, obj, former)
  local engine = its.engine
  for i = engine.depth(), 1, -1 do
    local parent, number = engine.frame(i)
    if parent ~= nil then
      if rawequal(parent, former) and engine.linked(obj) then return nil end
      local found = find(its, parent, obj)
      if found then return parent, its.names[number], found end
    end
  end
end

--- Returns the number of the name under which an object is entered now.
function naming.place(its, obj)
  local number = executing(its, obj)
  if number then return number end
  local former
  number, former = its.engine.named(obj)
  local parent, parent_name, found = find_parent(its, obj, former)
  if parent ~= nil then
    local name = child_name(its, parent_name, found.key, obj)
    return name_all(its, { obj = obj, name = name, parent = parent,
      found = found })
  end
  if number and (former == nil or former and its.engine.linked(obj)) then
    return number
  end
  return name_all(its, { obj = obj, name = root_name(its, obj) })
end

-- }======================================================

--- Returns the name of an object, or nil.
function naming.name_of(its, obj)
  return its.names[its.engine.named(obj)]
end

--- Returns all names of objects, sorted.
function naming.list(its)
  local list = {}
  for number in pairs(its.engine.used()) do
    list[#list + 1] = its.names[number]
  end
  table.sort(list)
  return list
end

--- Returns the state of naming for a hierarchy with these options.
function naming.new(opts)
  return {
    children = opts.children, name = opts.name, class_name = opts.class_name,
    names = {}, numbers = {}, free = {}, count = 0, limit = FEWEST,
    by_name = setmetatable({}, { __mode = "v" }),
    hints = setmetatable({}, { __mode = "v" }),
    classes = setmetatable({}, { __mode = "k" }), methods = {},
    wrappers = setmetatable({}, { __mode = "k" }),
  }
end

return naming

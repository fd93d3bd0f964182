--- mw.effects: writes that are made later, or never.
-- SPDX-License-Identifier: MIT
--
-- `items` has the tracked objects, cells and globals, in the order of tracking
-- and by object.  An item says whether the object is new, and has a number for
-- scopes.  `writes` is a list in the order of the program, with one entry for
-- each field; `fields` has the entries by object and key.  An entry that a
-- later one has replaced is `gone`.

local check = require "moonwatch.check"
local compare = require "moonwatch.effects.compare"
local core = require "moonwatch.core"
local recorded = require "moonwatch.effects.recorded"
local Hook = require "moonwatch.effects.hook"
local reachable = require "moonwatch.effects.reachable"
local scope = require "moonwatch.effects.scope"

local private = core.private

local Planned, check_self = check.class "effects"

local function new(opts)
  return setmetatable({
    opts = opts, items = {}, writes = {}, fields = {}, saves = {}, hooks = {},
    last_hook = -1, finals = {}, tracked = 0, globals = {}, stage = false,
    scopes = { scope.outermost() },
  }, Planned)
end

-- {======================================================
-- Tracking
-- =======================================================

-- Raises while the effects are being written: what the program added would be
-- lost.
local function check_idle(self, name, level)
  if self.stage == "writing" then
    error(("calling '%s' while the effects are written"):format(name), level)
  end
end

local function is_object(value)
  return type(value) == "table" or type(value) == "userdata" and
    not private.is_cell(value) and private.metatable(value) ~= nil
end

local function add(self, item)
  item.nth = self.tracked + 1
  self.items[item.object] = false -- so that there is room for the item
  self.items[#self.items + 1] = item
  self.items[item.object], self.tracked = item, item.nth
end

-- The array part of `items` is no item of a number.
local function item_of(self, object)
  return type(object) ~= "number" and self.items[object or 0] or nil
end

local function check_untracked(self, object, name)
  if self.items[object] then
    error(("bad argument #1 to '%s' (is tracked already)"):format(name), 3)
  end
end

--- Tracks an object, which may then be written to.  Returns the object.
function Planned:track(object)
  check_self(self, "track")
  check.argument(is_object(object), 1, "track",
    "table or userdata with a metatable", object)
  check_untracked(self, object, "track")
  add(self, { object = object, kind = "object" })
  return object
end

--- Creates and tracks an object of a class.  No constructor runs; if the class
-- has a method `allocate`, the method gets the other arguments and returns the
-- object.
function Planned:track_new(its_class, ...)
  check_self(self, "track_new")
  check.argument(type(its_class) == "table", 1, "track_new", "table", its_class)
  local allocate = its_class.allocate
  check.that(allocate or select("#", ...) == 0, 2, "track_new",
    "the class has no method 'allocate' to take it")
  local object = allocate and allocate(its_class, ...) or
    setmetatable({}, its_class)
  check_untracked(self, object, "track_new")
  add(self, { object = object, kind = "new" })
  return object
end

--- Tracks the cell of an upvalue of a function.  Returns the cell.
function Planned:track_cell(fn, i)
  check_self(self, "track_cell")
  check.argument(type(fn) == "function", 1, "track_cell", "function", fn)
  check.argument(math.type(i) == "integer", 2, "track_cell", "integer", i)
  local cell = private.cell(fn, i)
  check.that(cell, 2, "track_cell", "the function has no such upvalue")
  check_untracked(self, cell, "track_cell")
  add(self, { object = cell, kind = "cell" })
  return cell
end

--- Creates and tracks a cell, with a value if there is an argument.
function Planned:new_cell(...)
  check_self(self, "new_cell")
  check_idle(self, "new_cell", 3)
  local cell = private.cell()
  add(self, { object = cell, kind = "new" })
  if select("#", ...) == 0 then return cell end
  local ok, err = pcall(self.store_cell, self, cell, (...))
  if ok then return cell end
  self.items[#self.items], self.items[cell] = nil, nil
  error(err, 0)
end

--- Tracks a global of an environment, for `store_global`.
function Planned:track_global(env, name)
  check_self(self, "track_global")
  check.argument(type(env) == "table", 1, "track_global", "table", env)
  check.argument(type(name) == "string", 2, "track_global", "string", name)
  if self.globals[name] then
    error(("bad argument #2 to 'track_global' ('%s' is tracked already)")
      :format(name), 2)
  end
  local item = { object = {}, env = env, name = name, kind = "global" }
  self.globals[name] = false -- so that there is room for the item
  add(self, item)
  self.globals[name] = item
end

--- Tells whether an object is tracked.
function Planned:contains(object)
  check_self(self, "contains")
  return item_of(self, object) ~= nil
end

-- }======================================================

-- {======================================================
-- Stores and loads
-- =======================================================

local NAN = {}

local function name_of(key)
  return key == key and key or NAN
end

local function find(self, object, key)
  local fields = self.fields[object]
  return fields and fields[name_of(key)]
end

-- Returns the item of an object; raises if the object may not be written to.
local function writable(self, object, name)
  local item = item_of(self, object)
  if not item then
    error(("bad argument #1 to '%s' (is not tracked)"):format(name), 3)
  end
  check_idle(self, name, 4)
  scope.check(self, item, name, 4)
  return item
end

-- A field that is set again after a delete comes last in the order of the
-- program.  The entry is gone until it is in both tables: memory may run out
-- between them.
local function put(self, object, key, value, deleted)
  local fields = self.fields[object]
  local former = fields and fields[name_of(key)]
  if former and (deleted or not former.deleted) then
    former.value, former.deleted = value, deleted
    return
  end
  if math.type(key) == "float" then key = math.tointeger(key) or key end
  local entry = { object = object, key = key, value = value, deleted = deleted,
    gone = true }
  self.writes[#self.writes + 1] = entry
  if fields then
    fields[name_of(key)] = entry
  else
    self.fields[object] = { [name_of(key)] = entry }
  end
  if former then former.gone = true end
  entry.gone = false
end

local function check_key(key, name)
  if key == nil or key ~= key then
    error(("bad argument #2 to '%s' (%s is no key)"):format(name,
      key == nil and "nil" or "NaN"), 3)
  end
end

local function check_object(self, object, name)
  check_self(self, name, 1)
  if not is_object(object) then
    error(("bad argument #1 to '%s' (table or userdata expected, got %s)")
      :format(name, type(object)), 3)
  end
end

--- Stores a value in a field when the effects are applied.
function Planned:store(object, key, value)
  check_object(self, object, "store")
  check_key(key, "store")
  writable(self, object, "store")
  put(self, object, key, value, false)
end

--- Deletes a field when the effects are applied.
function Planned:delete(object, key)
  check_object(self, object, "delete")
  check_key(key, "delete")
  writable(self, object, "delete")
  put(self, object, key, nil, true)
end

-- Returns the value of an entry, or the real value if there is no entry.
local function load(entry, real)
  if not entry then return real, real == nil and "absent" or "real" end
  if entry.deleted then return nil, "deleted" end
  return entry.value, "pending"
end

--- Returns the value that a field has or will have, and the value's state:
-- "pending", "real", "deleted" or "absent".
function Planned:load(object, key)
  check_object(self, object, "load")
  check_key(key, "load")
  local entry = find(self, object, key)
  return load(entry, entry == nil and object[key])
end

local function check_cell(self, cell, name)
  check_self(self, name, 1)
  if not private.is_cell(cell) then
    error(("bad argument #1 to '%s' (cell expected, got %s)"):format(name,
      type(cell)), 3)
  end
end

-- A cell or a global has this one field.
local VALUE = "value"

function Planned:store_cell(cell, value)
  check_cell(self, cell, "store_cell")
  writable(self, cell, "store_cell")
  put(self, cell, VALUE, value, false)
end

function Planned:load_cell(cell)
  check_cell(self, cell, "load_cell")
  local entry = find(self, cell, VALUE)
  if entry then return load(entry) end
  local has, value = private.cell_value(cell)
  if not has then error("the cell has no value yet", 2) end
  return value, "real"
end

local function global(self, name, from)
  check_self(self, from, 1)
  local item = name ~= nil and self.globals[name]
  if not item then
    error(("bad argument #1 to '%s' (no global of that name is tracked)")
      :format(from), 3)
  end
  return item
end

function Planned:store_global(name, value)
  local item = global(self, name, "store_global")
  check_idle(self, "store_global", 3)
  scope.check(self, item, "store_global", 3)
  put(self, item.object, VALUE, value, false)
end

function Planned:load_global(name)
  local item = global(self, name, "load_global")
  return load(find(self, item.object, VALUE), item.env[name])
end

-- }======================================================

-- {======================================================
-- Pending writes
-- =======================================================

--- Tells whether a write to the object, or to its field `key`, is pending.
function Planned:has_pending(object, key)
  check_self(self, "has_pending")
  if object == nil then return false end
  if key ~= nil then return find(self, object, key) ~= nil end
  return self.fields[object] ~= nil
end

local function is_modified(self, item)
  return item.kind == "new" or self.fields[item.object] ~= nil
end

--- Tells whether the object will change.  A new object does.
function Planned:is_modified(object)
  check_self(self, "is_modified")
  local item = item_of(self, object)
  return item and is_modified(self, item) or false
end

--- Returns the objects that will change, in the order of tracking; for a
-- global, its environment.
function Planned:modified()
  check_self(self, "modified")
  local list, seen = {}, {}
  for _, item in ipairs(self.items) do
    local object = item.env or item.object
    if is_modified(self, item) and not seen[object] then
      list[#list + 1], seen[object] = object, true
    end
  end
  return list
end

--- Tells whether `apply` has nothing to do.
function Planned:is_empty()
  check_self(self, "is_empty")
  for _, item in ipairs(self.items) do
    if is_modified(self, item) then return false end
  end
  return not (self.saves[1] or self.hooks[1] or self.finals[1])
end

-- }======================================================

-- {======================================================
-- Scopes
-- =======================================================

--- Begins a scope.  Until the scope is closed, writes to objects that were
-- tracked before are refused.  Returns the scope.
function Planned:scope()
  check_self(self, "scope")
  return scope.open(self)
end

--- Allows writes to an object in the innermost scope.
function Planned:allow(object)
  check_self(self, "allow")
  check.that(item_of(self, object), 1, "allow", "is not tracked")
  scope.allow(self, object)
end

-- }======================================================

-- {======================================================
-- Saves, hooks, callbacks
-- =======================================================

--- Calls `ctx:save(...)` when the effects are applied.
function Planned:save(ctx, ...)
  check_self(self, "save")
  check.argument(is_object(ctx), 1, "save", "object with a method 'save'", ctx)
  check_idle(self, "save", 3)
  self.saves[#self.saves + 1] = table.pack(ctx, ...)
end

--- Registers a function for an event when the effects are applied, with the
-- policy's `register` or `object:on(event, fn)`.  Returns the hook.
function Planned:hook(object, event, fn)
  check_self(self, "hook")
  check.argument(is_object(object), 1, "hook", "table or userdata", object)
  check.argument(type(fn) == "function", 3, "hook", "function", fn)
  check_idle(self, "hook", 3)
  self.last_hook = self.last_hook + 1
  local hook = setmetatable({
    effects = self, index = self.last_hook, object = object, event = event,
    registered = false,
    fn = fn,
  }, Hook)
  self.hooks[#self.hooks + 1] = hook
  return hook
end

--- Calls a function after the effects are applied.
function Planned:finally(fn)
  check_self(self, "finally")
  check.argument(type(fn) == "function", 1, "finally", "function", fn)
  check_idle(self, "finally", 3)
  self.finals[#self.finals + 1] = { fn = fn }
end

-- }======================================================

-- {======================================================
-- Forgetting
-- =======================================================

-- The writes that are not gone, without those to objects in `forgotten`.
local function live_writes(self, forgotten)
  local writes = {}
  for _, entry in ipairs(self.writes) do
    if not entry.gone and not (forgotten and forgotten[entry.object]) then
      writes[#writes + 1] = entry
    end
  end
  return writes
end

-- Adds the values to `roots` that the effects hold in any case.
local function roots_of(self, roots)
  for _, item in ipairs(self.items) do
    if item.kind ~= "new" then roots[#roots + 1] = item.object end
    if item.env then roots[#roots + 1] = item.env[item.name] end
  end
  for _, save in ipairs(self.saves) do roots[#roots + 1] = save end
  for _, hook in ipairs(self.hooks) do
    roots[#roots + 1], roots[#roots + 2] = hook.object, hook.fn
  end
  for _, final in ipairs(self.finals) do roots[#roots + 1] = final.fn end
  return roots
end

-- Memory may run out until all that stays is known.
local function forget(self, unreached)
  local items, n = {}, 0
  for _, item in ipairs(self.items) do
    if unreached[item.object] then
      n = n + 1
    else
      items[#items + 1] = item
      items[item.object] = item
    end
  end
  self.writes, self.items = live_writes(self, unreached), items
  for object in pairs(unreached) do self.fields[object] = nil end
  return n
end

--- Forgets the new objects that nothing reaches: no argument, no tracked
-- object, no pending value, save or hook.  Returns their number.
function Planned:prune(...)
  check_self(self, "prune")
  local unreached = {}
  for _, item in ipairs(self.items) do
    if item.kind == "new" then unreached[item.object] = true end
  end
  reachable(roots_of(self, { ... }), unreached, self.fields)
  return forget(self, unreached)
end

--- Forgets everything.
function Planned:clear()
  check_self(self, "clear")
  local fresh = new(self.opts)
  fresh.last_hook = self.last_hook
  for name, value in pairs(fresh) do self[name] = value end
end

-- }======================================================

-- {======================================================
-- Copies and comparison
-- =======================================================

local function copy(t)
  local result = {}
  for key, value in pairs(t) do result[key] = value end
  return result
end

local function copy_items(from, to)
  for _, item in ipairs(from.items) do
    local its = copy(item)
    to.items[#to.items + 1], to.items[its.object] = its, its
    if its.env then to.globals[its.name] = its end
  end
end

--- Returns a copy that is independent of the original.
function Planned:clone()
  check_self(self, "clone")
  local clone = new(self.opts)
  copy_items(self, clone)
  for _, entry in ipairs(self.writes) do
    if not entry.gone then
      local its = copy(entry)
      clone.writes[#clone.writes + 1] = its
      clone.fields[its.object] = clone.fields[its.object] or {}
      clone.fields[its.object][name_of(its.key)] = its
    end
  end
  for i, save in ipairs(self.saves) do clone.saves[i] = copy(save) end
  for i, hook in ipairs(self.hooks) do
    local its = copy(hook)
    its.effects, its.registered = clone, false
    clone.hooks[i] = setmetatable(its, Hook)
  end
  table.move(self.finals, 1, #self.finals, 1, clone.finals)
  clone.last_hook, clone.tracked = self.last_hook, self.tracked
  return clone
end

--- Returns the first difference in words, or nil.
function Planned:diff(other)
  check_self(self, "diff")
  check.argument(private.metatable(other) == Planned, 1, "diff", "effects",
    other)
  self.writes, other.writes = live_writes(self), live_writes(other)
  return compare(self, other)
end

function Planned.__eq(a, b)
  return private.metatable(a) == private.metatable(b) and a:diff(b) == nil
end

-- }======================================================

-- {======================================================
-- Applying
-- =======================================================

-- The key of a cell is the key that a transaction uses for the cell.
local function key_of(item, entry)
  if private.is_cell(item.object) then return private.cell_name(item.object) end
  return item.env and item.name or entry.key
end

local function entries(self)
  local list = {}
  self.writes = live_writes(self)
  for i, entry in ipairs(self.writes) do
    local item = self.items[entry.object]
    list[i] = {
      object = item.env or item.object, key = key_of(item, entry),
      new = entry.value, kind = entry.deleted and "delete" or "update",
    }
  end
  return list
end

local DONE = { "writes", "fields", "saves", "hooks", "finals" }

-- Empties the effects, which are done, and calls the callbacks.  Returns the
-- first error in a table, or nil.
local function finish(self, problem, fresh)
  local finals = self.finals
  for _, name in ipairs(DONE) do self[name] = fresh[name] end
  for _, item in ipairs(self.items) do
    if item.kind == "new" then item.kind = "object" end
  end
  for _, final in ipairs(finals) do
    local ok, err = pcall(final.fn)
    if not ok then problem = problem or { err } end
  end
  return problem
end

--- Applies the effects: saves, hooks, the writes in the order of the program,
-- callbacks.  Returns the effects of the writes; or nil, a message and the
-- entry that failed, and all writes are taken back.
function Planned:apply()
  check_self(self, "apply")
  check_idle(self, "apply", 3)
  if self.stage then error("calling 'apply' while it is under way", 2) end
  local fresh = new(self.opts)
  local function prepare()
    Hook.prepare(self)
    self.stage = "writing"
    return entries(self)
  end
  self.stage = "applying"
  local ok, fx, problem, entry = pcall(recorded.write, prepare)
  self.stage = false
  if ok and fx then
    recorded.raise(finish(self, problem, fresh))
    return fx
  end
  for _, hook in ipairs(self.hooks) do hook:undo() end
  if not ok then error(fx, 0) end
  return nil, problem, entry
end

-- }======================================================

local OPTIONS = { policy = "string" }
local POLICIES = { error = true, warn = true, silent = true }

--- Returns an object for writes that are made later.
return function(opts)
  local how = check.options(opts, OPTIONS, 1, "effects").policy
  check.that(how == nil or POLICIES[how], 1, "effects",
    "option 'policy' is none of 'error', 'warn' and 'silent'")
  return new { policy = how }
end

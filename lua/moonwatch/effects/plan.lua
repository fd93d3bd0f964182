--- mw.plan: writes that are made later, or never.
-- SPDX-License-Identifier: MIT
--
-- All that a plan knows is in one table of their state, `its`:
--
--     items       the tracked objects, cells and globals, in the order of
--                 tracking: { object, nth, env, name }
--     of          object -> item; a global has a table of its own as its object
--     tracked     the number of the item that was tracked last
--     globals     name -> environment -> item
--     pending     what there is to do: see pending.lua
--     scopes      see scope.lua
--     registered  see hook.lua
--     applying    are the saves and hooks under way?
--     life        a table that lives until the plan is cleared

local check = require "moonwatch.check"
local compare = require "moonwatch.effects.compare"
local core = require "moonwatch.core"
local hook = require "moonwatch.effects.hook"
local pending = require "moonwatch.effects.pending"
local perform = require "moonwatch.effects.perform"
local place = require "moonwatch.effects.place"
local policy = require "moonwatch.policy"
local reachable = require "moonwatch.effects.reachable"
local scope = require "moonwatch.effects.scope"
local to_lua = require "moonwatch.effects.to_lua"

local private = core.private

local Plan, state_of, handle = check.class "plan"

local function fresh()
  return {
    items = {}, of = {}, tracked = 0, globals = {}, pending = pending.none(),
    scopes = scope.stack(), registered = hook.list(), applying = false,
    life = {},
  }
end

local function new(opts)
  return { opts = opts, its = fresh(), last_hook = -1 }
end

-- {======================================================
-- Tracking
-- =======================================================

local function is_object(value)
  return type(value) == "table" or type(value) == "userdata" and
    not private.is_cell(value) and private.metatable(value) ~= nil
end

local function item_of(self, object)
  return object ~= nil and self.its.of[object] or nil
end

local function check_untracked(self, object, name)
  if self.its.of[object] then
    error(("bad argument #1 to '%s' (is tracked already)"):format(name), 3)
  end
end

-- Returns what the class of an object does, if that is for the option
-- `intercepted` to refuse.
local function interception(self, object)
  local class = self.opts.intercepted and private.metatable(object)
  if not class then return nil end
  if rawget(private.raw(class), "__newindex") ~= nil then
    return "its class intercepts writes"
  elseif type(rawget(private.raw(class), "__index")) == "function" then
    return "its class intercepts reads"
  end
end

local function check_plain(self, object, name)
  local what = interception(self, object)
  if what then
    error(("bad argument #1 to '%s' (%s)"):format(name, what), 3)
  end
end

local function add_item(its, item)
  its.items[#its.items + 1], its.of[item.object] = item, item
  its.tracked = item.nth
end

local function add(self, object)
  add_item(self.its, { object = object, nth = self.its.tracked + 1 })
end

--- Tracks an object, which may then be written to.  Returns the object.
function Plan:track(object)
  self = state_of(self, "track")
  check.argument(is_object(object), 1, "track",
    "table or userdata with a metatable", object)
  check_untracked(self, object, "track")
  check_plain(self, object, "track")
  add(self, object)
  return object
end

--- Creates and tracks an object of a class.  No constructor runs; if the class
-- has a method `allocate`, the method gets the other arguments and returns the
-- object.
function Plan:track_new(its_class, ...)
  self = state_of(self, "track_new")
  check.argument(type(its_class) == "table", 1, "track_new", "table", its_class)
  local allocate = its_class.allocate
  check.that(allocate or select("#", ...) == 0, 2, "track_new",
    "the class has no method 'allocate' to take it")
  local object = allocate and allocate(its_class, ...) or
    setmetatable({}, its_class)
  check_untracked(self, object, "track_new")
  check_plain(self, object, "track_new")
  add(self, object)
  pending.of(self).new[object] = true
  return object
end

--- Tracks the cell of an upvalue of a function.  Returns the cell.
function Plan:track_cell(fn, i)
  self = state_of(self, "track_cell")
  check.argument(type(fn) == "function", 1, "track_cell", "function", fn)
  check.argument(math.type(i) == "integer", 2, "track_cell", "integer", i)
  local cell = private.cell(fn, i)
  check.that(cell, 2, "track_cell", "the function has no such upvalue")
  check_untracked(self, cell, "track_cell")
  add(self, cell)
  return cell
end

-- A cell or a global has this one field.
local VALUE = "value"

-- Returns the place in the program that called the library, if the plan is to
-- know it.
local function where(self)
  return self.opts.where and place() or nil
end

--- Creates and tracks a cell, with a value if there is an argument.
function Plan:new_cell(...)
  self = state_of(self, "new_cell")
  local cell, now = private.cell(), pending.of(self)
  add(self, cell)
  now.new[cell] = true
  if select("#", ...) > 0 then
    pending.put(now, cell, VALUE, (...), false, where(self))
  end
  return cell
end

local function add_global(its, item)
  local envs = its.globals[item.name] or {}
  its.globals[item.name], envs[item.env] = envs, item
end

--- Tracks a global of an environment, for `store_global`.
function Plan:track_global(env, name)
  self = state_of(self, "track_global")
  check.argument(type(env) == "table", 1, "track_global", "table", env)
  check.argument(type(name) == "string", 2, "track_global", "string", name)
  local its = self.its
  local envs = its.globals[name]
  check.that(not (envs and envs[env]), 2, "track_global",
    ("'%s' is tracked already"):format(name))
  local item = { object = {}, nth = its.tracked + 1, env = env, name = name }
  add_item(its, item)
  add_global(its, item)
end

--- Tells whether an object is tracked.
function Plan:contains(object)
  self = state_of(self, "contains")
  return item_of(self, object) ~= nil
end

-- }======================================================

-- {======================================================
-- Stores and loads
-- =======================================================

-- Raises if the object may not be written to.
local function check_writable(self, object, name)
  local item = item_of(self, object)
  if not item then
    error(("bad argument #1 to '%s' (is not tracked)"):format(name), 3)
  end
  scope.check(self.its.scopes, item, self.opts.policy, name, 4)
end

local MANY = 16 -- holes

local function put(self, object, key, value, deleted)
  local now = pending.of(self)
  if now.holes > MANY and now.holes > #now.writes // 2 then
    now = pending.copy(now)
    self.its.pending = now
  end
  pending.put(now, object, key, value, deleted, where(self))
end

local function check_key(key, name)
  if key == nil or key ~= key then
    error(("bad argument #2 to '%s' (%s is no key)"):format(name,
      key == nil and "nil" or "NaN"), 3)
  end
end

-- Returns the state.
local function check_object(self, object, name)
  self = state_of(self, name, 1)
  if not is_object(object) then
    error(("bad argument #1 to '%s' (table or userdata expected, got %s)")
      :format(name, type(object)), 3)
  end
  return self
end

--- Stores a value in a field when the plan is applied.
function Plan:store(object, key, value)
  self = check_object(self, object, "store")
  check_key(key, "store")
  check_writable(self, object, "store")
  put(self, object, key, value, false)
end

--- Deletes a field when the plan is applied.
function Plan:delete(object, key)
  self = check_object(self, object, "delete")
  check_key(key, "delete")
  check_writable(self, object, "delete")
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
function Plan:load(object, key)
  self = check_object(self, object, "load")
  check_key(key, "load")
  local entry = pending.find(pending.of(self), object, key)
  return load(entry, entry == nil and object[key])
end

-- Returns the state.
local function check_cell(self, cell, name)
  self = state_of(self, name, 1)
  if not private.is_cell(cell) then
    error(("bad argument #1 to '%s' (cell expected, got %s)"):format(name,
      type(cell)), 3)
  end
  return self
end

function Plan:store_cell(cell, value)
  self = check_cell(self, cell, "store_cell")
  check_writable(self, cell, "store_cell")
  put(self, cell, VALUE, value, false)
end

function Plan:load_cell(cell)
  self = check_cell(self, cell, "load_cell")
  local entry = pending.find(pending.of(self), cell, VALUE)
  if entry then return load(entry) end
  local has, value = private.cell_value(cell)
  check.that(has, 1, "load_cell", "the cell has no value yet")
  return value, "real"
end

-- Returns the item of a global, and the state; `env` is argument `n` of the
-- function `from`.
local function global(self, name, env, n, from)
  self = state_of(self, from, 1)
  local envs = name ~= nil and self.its.globals[name]
  if not envs then
    error(("bad argument #1 to '%s' (no global of that name is tracked)")
      :format(from), 3)
  elseif env == nil and next(envs, (next(envs))) then
    error(("bad argument #%d to '%s' ('%s' is tracked in several environments)")
      :format(n, from, name), 3)
  end
  local item
  if env == nil then item = select(2, next(envs)) else item = envs[env] end
  if not item then
    error(("bad argument #%d to '%s' (no global '%s' of it is tracked)")
      :format(n, from, name), 3)
  end
  return item, self
end

--- Stores the value of a global.  A name that is tracked in several
-- environments needs the environment.
function Plan:store_global(name, value, env)
  local item
  item, self = global(self, name, env, 3, "store_global")
  scope.check(self.its.scopes, item, self.opts.policy, "store_global", 3)
  put(self, item.object, VALUE, value, false)
end

function Plan:load_global(name, env)
  local item
  item, self = global(self, name, env, 2, "load_global")
  local entry = pending.find(pending.of(self), item.object, VALUE)
  return load(entry, item.env[name])
end

-- }======================================================

-- {======================================================
-- Pending writes
-- =======================================================

--- Marks an object as modified, without a write.
function Plan:mark(object)
  self = state_of(self, "mark")
  check.that(item_of(self, object), 1, "mark", "is not tracked")
  scope.check(self.its.scopes, item_of(self, object), self.opts.policy, "mark",
    3)
  pending.of(self).marks[object] = true
end

--- Tells whether a write to the object, or to its field `key`, is pending.
function Plan:has_pending(object, key)
  self = state_of(self, "has_pending")
  if object == nil then return false end
  local now = pending.of(self)
  if key ~= nil then return pending.find(now, object, key) ~= nil end
  return now.fields[object] ~= nil
end

local function is_modified(self, object)
  local now = pending.of(self)
  return now.new[object] or now.marks[object] or now.fields[object] ~= nil
end

--- Tells whether the object will change.  A new object does, and a marked one.
function Plan:is_modified(object)
  self = state_of(self, "is_modified")
  return item_of(self, object) ~= nil and is_modified(self, object)
end

--- Returns the objects that will change, in the order of tracking; for a
-- global, its environment.
function Plan:modified()
  self = state_of(self, "modified")
  local list, seen = {}, {}
  for _, item in ipairs(self.its.items) do
    local object = item.env or item.object
    if is_modified(self, item.object) and not seen[object] then
      list[#list + 1], seen[object] = object, true
    end
  end
  return list
end

--- Tells whether `apply` has nothing to do.
function Plan:is_empty()
  self = state_of(self, "is_empty")
  return pending.is_empty(pending.of(self))
end

-- }======================================================

-- {======================================================
-- Scopes
-- =======================================================

--- Begins a scope.  Until the scope is closed, writes to objects that were
-- tracked before are refused.  Returns the scope.
function Plan:scope()
  self = state_of(self, "scope")
  return (scope.open(self.its.scopes, self.its.tracked))
end

--- Allows writes to an object in the innermost scope.
function Plan:allow(object)
  self = state_of(self, "allow")
  check.that(item_of(self, object), 1, "allow", "is not tracked")
  scope.allow(self.its.scopes, object)
end

-- }======================================================

-- {======================================================
-- Saves, hooks, callbacks
-- =======================================================

--- Calls `ctx:save(...)` when the plan is applied.
function Plan:save(ctx, ...)
  self = state_of(self, "save")
  check.argument(is_object(ctx), 1, "save", "object with a method 'save'", ctx)
  local saves = pending.of(self).saves
  saves[#saves + 1] = table.pack(ctx, ...)
end

-- Returns the list of hooks, without most of those that were removed.
local function list_of_hooks(now)
  if #now.hooks >= now.many then
    local live = pending.live(now.hooks)
    now.hooks, now.many = live, math.max(2 * #live, MANY)
  end
  return now.hooks
end

--- Registers a function for an event when the plan is applied, with the
-- policy's `register` or `object:on(event, fn)`.  Returns the hook.
function Plan:hook(object, event, fn)
  self = state_of(self, "hook")
  check.argument(is_object(object), 1, "hook", "table or userdata", object)
  check.argument(type(fn) == "function", 3, "hook", "function", fn)
  check.that(hook.is_event(object, event), 2, "hook",
    ("the policy has no event '%s' for the class"):format(tostring(event)))
  local hooks = list_of_hooks(pending.of(self))
  local its = hook.new(self, self.last_hook + 1, object, event, fn)
  local result = hook.handle(its)
  hooks[#hooks + 1], self.last_hook = its, its.index
  return result
end

-- Returns the hook of an index in a list in the order of the indices.
local function find_hook(hooks, index)
  local first, last = 1, #hooks
  while first < last do
    local i = (first + last) // 2
    if hooks[i].index < index then first = i + 1 else last = i end
  end
  return hooks[first] and hooks[first].index == index and hooks[first] or nil
end

--- Removes the hook of an index, as the hook's `remove` does.  Tells whether
-- there was such a hook.
function Plan:remove_hook(index)
  self = state_of(self, "remove_hook")
  check.argument(math.type(index) == "integer", 1, "remove_hook", "integer",
    index)
  local its = find_hook(pending.of(self).hooks, index) or
    self.its.registered.by_index[index]
  if not its or its.removed then return false end
  hook.remove(its)
  return true
end

--- Calls a function after the plan is applied.
function Plan:finally(fn)
  self = state_of(self, "finally")
  check.argument(type(fn) == "function", 1, "finally", "function", fn)
  local finals = pending.of(self).finals
  finals[#finals + 1] = fn
end

-- }======================================================

-- {======================================================
-- Forgetting
-- =======================================================

-- Adds the values to `roots` that the plan holds in any case.
local function roots_of(self, roots)
  local now = pending.of(self)
  for _, item in ipairs(self.its.items) do
    if not now.new[item.object] then roots[#roots + 1] = item.object end
    if item.env then roots[#roots + 1] = item.env[item.name] end
  end
  for _, save in ipairs(now.saves) do roots[#roots + 1] = save end
  for _, its in ipairs(pending.live(now.hooks)) do
    roots[#roots + 1], roots[#roots + 2] = its.object, its.fn
  end
  table.move(now.finals, 1, #now.finals, #roots + 1, roots)
  return roots
end

local function forget(self, unreached)
  local its, items, of, n = self.its, {}, {}, 0
  for _, item in ipairs(its.items) do
    if unreached[item.object] then
      n = n + 1
    else
      items[#items + 1] = item
      of[item.object] = item
    end
  end
  if n == 0 then return 0 end
  its.items, its.of = items, of
  its.pending = pending.copy(its.pending, unreached)
  return n
end

local function prune(self, ...)
  local now, unreached = pending.of(self), {}
  for object in next, now.new do unreached[object] = true end
  if next(unreached) == nil then return 0 end
  reachable(roots_of(self, { ... }), unreached, now.fields)
  return forget(self, unreached)
end

--- Forgets the new objects that nothing reaches: no argument, no tracked
-- object, no pending value, save or hook.  Returns their number.
function Plan:prune(...)
  return prune(state_of(self, "prune"), ...)
end

--- Forgets everything.
function Plan:clear(...)
  self = state_of(self, "clear")
  check.nothing("clear", ...)
  self.its = fresh()
end

-- }======================================================

-- {======================================================
-- Several plans
-- =======================================================

-- Returns the state of another plan.
local function check_other(other, name)
  if private.metatable(other) ~= Plan then
    error(("bad argument #1 to '%s' (plan expected, got %s)"):format(name,
      type(other)), 3)
  end
  return other[Plan]
end

-- Tells whether the plan tracks what an item of another one stands for.
local function is_known(self, item)
  local envs = item.env and self.its.globals[item.name]
  return self.its.of[item.object] or envs and envs[item.env]
end

-- Returns an item of another plan, as this one has it.
local function adopted(item, nth)
  return {
    object = item.env and {} or item.object, nth = nth, env = item.env,
    name = item.name,
  }
end

--- Tracks what another plan tracks, as far as it is not tracked.  What is new
-- there is not new here.
function Plan:adopt(other)
  self = state_of(self, "adopt")
  other = check_other(other, "adopt")
  local its, items = self.its, {}
  for _, item in ipairs(other.its.items) do
    if not is_known(self, item) then
      check_plain(self, item.object, "adopt")
      items[#items + 1] = adopted(item, its.tracked + #items + 1)
    end
  end
  for _, item in ipairs(items) do
    add_item(its, item)
    if item.env then add_global(its, item) end
  end
end

local function clone_of(self)
  local clone = new(self.opts)
  pending.of(self)
  local its = perform.copy(self.its)
  for i, element in ipairs(its.pending.hooks) do
    its.pending.hooks[i] = hook.clone(element, clone)
  end
  its.scopes = scope.clone(its.scopes)
  its.registered, its.applying, its.life = hook.list(), false, {}
  clone.its, clone.last_hook = its, self.last_hook
  return clone
end

--- Returns a copy that is independent of the original.  Scopes of the original
-- are scopes of the copy, too, until the original ends them.
function Plan:clone()
  return handle(clone_of(state_of(self, "clone")))
end

--- Returns the first difference in words, or nil.
function Plan:diff(other)
  self = state_of(self, "diff")
  other = check_other(other, "diff")
  return compare(self, other)
end

function Plan.__eq(a, b)
  return private.metatable(a) == private.metatable(b) and a:diff(b) == nil
end

-- }======================================================

-- {======================================================
-- Applying
-- =======================================================

--- Applies the plan: saves, hooks, the writes in the order of the program,
-- callbacks.  Returns the effects of the writes; or nil, a message and the
-- entry that failed, and all writes are taken back.
function Plan:apply()
  self = state_of(self, "apply")
  if self.its.applying then
    error("calling 'apply' while it is under way", 2)
  end
  return perform.apply(self)
end

--- Returns source text that does what `apply` would do, but for callbacks; see
-- to_lua.lua.  New objects that nothing reaches are left out.
function Plan:to_lua(names)
  self = state_of(self, "to_lua")
  if policy.has "register" and pending.of(self).hooks[1] then
    return nil, "the policy registers the hooks"
  elseif pending.of(self).finals[1] then
    return nil, "there are callbacks"
  end
  local pruned = clone_of(self)
  prune(pruned)
  local fx, calls = perform.preview(pruned)
  return to_lua(fx, names, calls)
end

-- }======================================================

local OPTIONS = { policy = "string", intercepted = "string", where = "boolean" }
local POLICIES = { error = true, warn = true, silent = true }

--- Returns an object for writes that are made later.
return function(opts)
  opts = check.options(opts, OPTIONS, 1, "plan")
  local how, refused = opts.policy, opts.intercepted
  check.that(how == nil or POLICIES[how], 1, "plan",
    "option 'policy' is none of 'error', 'warn' and 'silent'")
  check.that(refused == nil or refused == "refuse", 1, "plan",
    "option 'intercepted' is not 'refuse'")
  return handle(new { policy = how, intercepted = refused,
    where = opts.where })
end

--- mw.plan: writes that are made later, or never.
-- SPDX-License-Identifier: MIT
--
-- A plan has `its`, what it tracks and has to do: see pending.lua; and until it
-- is cleared, a stack of `scopes`, and the hooks that it has `registered`;
-- `applying`: are the saves and hooks under way?

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local hook = require "moonwatch.effects.hook"
local pending = require "moonwatch.effects.pending"
local perform = require "moonwatch.effects.perform"
local policy = require "moonwatch.policy"
local reachable = require "moonwatch.effects.reachable"
local scope = require "moonwatch.effects.scope"
local to_lua = require "moonwatch.effects.to_lua"

local private = core.private

local Plan, state_of, handle = check.class "plan"

local function clear(self)
  self.its, self.scopes = pending.none(), scope.stack()
  self.registered, self.applying = hook.list(), false
  return self
end

local function new(opts) return clear { opts = opts, last_hook = -1 } end

-- {======================================================
-- Tracking
-- =======================================================

local function is_object(value)
  return type(value) == "table" or type(value) == "userdata" and
    not private.is_cell(value) and private.metatable(value) ~= nil
end

-- Tracks an object in `its`.  Raises if the function `name` may not do that: it
-- is tracked already, or its class intercepts and the option `intercepted`
-- refuses that.
local function track(self, its, object, name)
  check.that(not its.of[object], 1, name, "is tracked already", 1)
  local class = self.opts.intercepted and private.metatable(object) or {}
  check.that(rawget(private.raw(class), "__newindex") == nil, 1, name,
    "its class intercepts writes", 1)
  check.that(type(rawget(private.raw(class), "__index")) ~= "function", 1, name,
    "its class intercepts reads", 1)
  pending.track(its, object)
end

--- Tracks an object, which may then be written to.  Returns the object.
function Plan:track(object)
  self = state_of(self, "track")
  check.argument(is_object(object), 1, "track",
    "table or userdata with a metatable", object)
  track(self, self.its, object, "track")
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
  track(self, self.its, object, "track_new")
  self.its.new[object] = true
  return object
end

--- Tracks the cell of an upvalue of a function.  Returns the cell.
function Plan:track_cell(fn, i)
  self = state_of(self, "track_cell")
  check.argument(type(fn) == "function", 1, "track_cell", "function", fn)
  check.argument(math.type(i) == "integer", 2, "track_cell", "integer", i)
  local cell = private.cell(fn, i)
  check.that(cell, 2, "track_cell", "the function has no such upvalue")
  track(self, self.its, cell, "track_cell")
  return cell
end

-- A cell or a global has this one field.
local VALUE = "value"

local function put(self, object, key, value, deleted)
  pending.put(self.its, object, key, value, deleted,
    self.opts.where and private.place() or nil)
end

--- Creates and tracks a cell, with a value if there is an argument.
function Plan:new_cell(...)
  self = state_of(self, "new_cell")
  local cell = private.cell()
  pending.track(self.its, cell)
  self.its.new[cell] = true
  if select("#", ...) > 0 then put(self, cell, VALUE, (...), false) end
  return cell
end

--- Tracks a global of an environment, for `store_global`.
function Plan:track_global(env, name)
  self = state_of(self, "track_global")
  check.argument(type(env) == "table", 1, "track_global", "table", env)
  check.argument(type(name) == "string", 2, "track_global", "string", name)
  local envs = self.its.globals[name]
  check.that(not (envs and envs[env]), 2, "track_global",
    ("'%s' is tracked already"):format(name))
  pending.track(self.its, {}, env, name)
end

--- Tells whether an object is tracked.
function Plan:contains(object)
  self = state_of(self, "contains")
  return self.its.of[object] ~= nil
end

-- }======================================================

-- {======================================================
-- Writes
-- =======================================================

-- Returns the object of an item, which the function `name` changes; raises if
-- there is no item, or a scope forbids that.
local function writable(self, item, name)
  check.that(item, 1, name, "is not tracked", 1)
  scope.check(self.scopes, item, self.opts.policy, name, 4)
  return item.object
end

local function check_field(object, key, name)
  check.argument(is_object(object), 1, name, "table or userdata", object, 1)
  check.that(key ~= nil, 2, name, "nil is no key", 1)
  check.that(key == key, 2, name, "NaN is no key", 1)
end

--- Stores a value in a field when the plan is applied.
function Plan:store(object, key, value)
  self = state_of(self, "store")
  check_field(object, key, "store")
  put(self, writable(self, self.its.of[object], "store"), key, value, false)
end

--- Deletes a field when the plan is applied.
function Plan:delete(object, key)
  self = state_of(self, "delete")
  check_field(object, key, "delete")
  put(self, writable(self, self.its.of[object], "delete"), key, nil, true)
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
  self = state_of(self, "load")
  check_field(object, key, "load")
  local entry = pending.find(self.its, object, key)
  return load(entry, entry == nil and object[key])
end

local function check_cell(cell, name)
  check.argument(private.is_cell(cell), 1, name, "cell", cell, 1)
end

function Plan:store_cell(cell, value)
  self = state_of(self, "store_cell")
  check_cell(cell, "store_cell")
  put(self, writable(self, self.its.of[cell], "store_cell"), VALUE, value,
    false)
end

function Plan:load_cell(cell)
  self = state_of(self, "load_cell")
  check_cell(cell, "load_cell")
  local entry = pending.find(self.its, cell, VALUE)
  if entry then return load(entry) end
  local has, value = private.cell_value(cell)
  check.that(has, 1, "load_cell", "the cell has no value yet")
  return value, "real"
end

-- Returns the item of a global; `env` is argument `n` of the function `from`.
local function global(self, name, env, n, from)
  local envs = name ~= nil and self.its.globals[name]
  check.that(envs, 1, from, "no global of that name is tracked", 1)
  local first, item = next(envs)
  if env == nil then
    check.that(next(envs, first) == nil, n, from,
      ("'%s' is tracked in several environments"):format(name), 1)
    return item
  end
  check.that(envs[env], n, from, ("no global '%s' of it is tracked")
    :format(name), 1)
  return envs[env]
end

--- Stores the value of a global.  A name that is tracked in several
-- environments needs the environment.
function Plan:store_global(name, value, env)
  self = state_of(self, "store_global")
  local item = global(self, name, env, 3, "store_global")
  put(self, writable(self, item, "store_global"), VALUE, value, false)
end

function Plan:load_global(name, env)
  self = state_of(self, "load_global")
  local item = global(self, name, env, 2, "load_global")
  local entry = pending.find(self.its, item.object, VALUE)
  return load(entry, item.env[name])
end

--- Marks an object as modified, without a write.
function Plan:mark(object)
  self = state_of(self, "mark")
  self.its.marks[writable(self, self.its.of[object], "mark")] = true
end

--- Tells whether a write to the object, or to its field `key`, is pending.
function Plan:has_pending(object, key)
  self = state_of(self, "has_pending")
  if key ~= nil then return pending.find(self.its, object, key) ~= nil end
  return self.its.fields[object] ~= nil
end

local function is_modified(self, object)
  local its = self.its
  return its.new[object] or its.marks[object] or its.fields[object] ~= nil
end

--- Tells whether the object will change.  A new object does, and a marked one.
function Plan:is_modified(object)
  self = state_of(self, "is_modified")
  return self.its.of[object] ~= nil and is_modified(self, object)
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
  return pending.is_empty(self.its)
end

-- }======================================================

-- {======================================================
-- Scopes, saves, hooks, callbacks
-- =======================================================

--- Begins a scope.  Until the scope is closed, writes to objects that were
-- tracked before are refused.  Returns the scope.
function Plan:scope()
  self = state_of(self, "scope")
  return (scope.open(self.scopes, self.its.tracked))
end

--- Allows writes to an object in the innermost scope.
function Plan:allow(object)
  self = state_of(self, "allow")
  check.that(self.its.of[object], 1, "allow", "is not tracked")
  scope.allow(self.scopes, object)
end

--- Calls `ctx:save(...)` when the plan is applied.
function Plan:save(ctx, ...)
  self = state_of(self, "save")
  check.argument(is_object(ctx), 1, "save", "object with a method 'save'", ctx)
  local saves = self.its.saves
  saves[#saves + 1] = table.pack(ctx, ...)
end

--- Registers a function for an event when the plan is applied, with the
-- policy's `register` or `object:on(event, fn)`.  Returns the hook.
function Plan:hook(object, event, fn)
  self = state_of(self, "hook")
  check.argument(is_object(object), 1, "hook", "table or userdata", object)
  check.argument(type(fn) == "function", 3, "hook", "function", fn)
  check.that(hook.is_event(object, event), 2, "hook",
    ("the policy has no event '%s' for the class"):format(tostring(event)))
  local its = hook.new(self, self.last_hook + 1, object, event, fn)
  local result = hook.handle(its)
  self.its.hooks[its.index], self.last_hook = its, its.index
  return result
end

--- Removes the hook of an index, as the hook's `remove` does.  Tells whether
-- there was such a hook.
function Plan:remove_hook(index)
  self = state_of(self, "remove_hook")
  check.argument(math.type(index) == "integer", 1, "remove_hook", "integer",
    index)
  local its = self.its.hooks[index] or
    hook.find(self.registered, index)
  if its then hook.remove(its) end
  return its ~= nil
end

--- Calls a function after the plan is applied.
function Plan:finally(fn)
  self = state_of(self, "finally")
  check.argument(type(fn) == "function", 1, "finally", "function", fn)
  local finals = self.its.finals
  finals[#finals + 1] = fn
end

-- }======================================================

-- {======================================================
-- Forgetting, and several plans
-- =======================================================

-- Adds the values to `roots` that the plan holds in any case.
local function roots_of(its, roots)
  for _, item in ipairs(its.items) do
    if not its.new[item.object] then roots[#roots + 1] = item.object end
    if item.env then roots[#roots + 1] = item.env[item.name] end
  end
  for _, save in ipairs(its.saves) do roots[#roots + 1] = save end
  for _, hooked in ipairs(pending.hooks_of(its)) do
    roots[#roots + 1], roots[#roots + 2] = hooked.object, hooked.fn
  end
  return table.move(its.finals, 1, #its.finals, #roots + 1, roots)
end

local function prune(self, ...)
  local its, unreached, n = self.its, {}, 0
  for object in next, its.new do unreached[object] = true end
  if next(unreached) == nil then return 0 end
  reachable(roots_of(its, { ... }), unreached, its.fields)
  for _ in next, unreached do n = n + 1 end
  if n > 0 then self.its = pending.copy(its, unreached) end
  return n
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
  clear(self)
end

-- Returns the state of another plan.
local function check_other(other, name)
  check.argument(private.metatable(other) == Plan, 1, name, "plan", other, 1)
  return other[Plan]
end

--- Tracks what another plan tracks, as far as it is not tracked.  What is new
-- there is not new here.
function Plan:adopt(other)
  self = state_of(self, "adopt")
  other = check_other(other, "adopt")
  local its = pending.copy(self.its) -- all or nothing
  for _, item in ipairs(other.its.items) do
    local object, env, name = item.object, item.env, item.name
    local envs = env and its.globals[name]
    if env and not (envs and envs[env]) then
      pending.track(its, {}, env, name)
    elseif not env and not its.of[object] then
      track(self, its, object, "adopt")
    end
  end
  self.its = its
end

local function clone_of(self)
  local clone = new(self.opts)
  clone.its, clone.scopes = pending.copy(self.its), scope.clone(self.scopes)
  clone.last_hook = self.last_hook
  for index, e in next, clone.its.hooks do
    clone.its.hooks[index] = hook.new(clone, index, e.object, e.event, e.fn)
  end
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
  return pending.difference(self.its, check_other(other, "diff").its)
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
  if self.applying then
    error("calling 'apply' while it is under way", 2)
  end
  return perform.apply(self)
end

--- Returns source text that does what `apply` would do, but for callbacks; see
-- to_lua.lua.  New objects that nothing reaches are left out.
function Plan:to_lua(names)
  self = state_of(self, "to_lua")
  if policy.has "register" and next(self.its.hooks) then
    return nil, "the policy registers the hooks"
  elseif self.its.finals[1] then
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

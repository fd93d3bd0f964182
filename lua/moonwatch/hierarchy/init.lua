--- mw.hierarchy: the names of the objects that execute.
-- SPDX-License-Identifier: MIT
--
-- The core has a stack for each coroutine, enters and leaves, and knows what
-- names hold still.  Where objects are is in places.lua, names are in
-- naming.lua, records in tape.lua.  The functions here do the rest: classes,
-- hooks and traces.  They hold the state in `its`; the program holds the core's
-- userdata.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local naming = require "moonwatch.hierarchy.naming"
local places = require "moonwatch.hierarchy.places"
local paths = require "moonwatch.path"
local tapes = require "moonwatch.hierarchy.tape"
local object_class = require "moonwatch.policy.object_class"
local wrap = require "moonwatch.policy.wrap"
local policy = require "moonwatch.policy"
local protect = require "moonwatch.protect"

local private = core.private
local metatable = private.metatable

local WEAK = { __mode = "k" }

local Hierarchy = check.class "hierarchy"
private.hierarchy_class(Hierarchy) -- enter and leave

local function its_own(self, name, depth)
  check.self(metatable(self) == Hierarchy, name, "hierarchy", self, depth)
  return private.its(self)
end

local function its_open(self, name)
  local its = its_own(self, name, 1)
  if its.closed then
    error(("calling '%s' on a hierarchy that is closed"):format(name), 3)
  end
  return its
end

local Scope, scope_of, new_scope = check.class("scope", nil, "name")

-- {======================================================
-- Hooks
-- =======================================================

-- All copies of this file share the set of the hierarchies that have hooks.
private.hooked = private.hooked or setmetatable({}, { __mode = "k" })
local hooked = private.hooked

-- The functions here are called for each frame if there is a hook or a record.
local function update(its)
  hooked[its] = #its.hooks > 0 or nil
  policy.set_global_hooks(next(hooked) ~= nil)
  its.told = its.recording
  for _, hook in ipairs(its.hooks) do
    its.told = its.told or hook.functions.enter ~= nil or
      hook.functions.leave ~= nil
  end
  its.engine.told(its.told)
end

-- Tells whether a hook is to hear of an object: the class is its metatable, or
-- the table that stands for it.
local function hears(hook, obj)
  local class = hook.class
  return class == nil or rawequal(metatable(obj), class) or
    rawequal(object_class.of(obj), class)
end

-- Calls all hooks for an event of an object, also when one raises.  Returns the
-- first error that `mw.on_error` does not take, in a table, or nil.
local function fire(its, event, obj, ...)
  local problem
  for _, hook in ipairs(its.hooks) do
    local f = hook.functions[event]
    if f and not hook.cancelled and hears(hook, obj) then
      local ok, err = pcall(f, ...)
      local handler = not ok and private.handler()
      if handler then
        pcall(handler, err, "hierarchy")
      elseif not ok then
        problem = problem or { err }
      end
    end
  end
  return problem
end

-- }======================================================

-- {======================================================
-- Names
-- =======================================================

-- Finds out where an object is, and what is above, up to what is sure.  Returns
-- the sites; none if the object has no name.
local function settle_all(its, obj)
  local sites, site = {}, places.settle(its, obj)
  while site do
    sites[#sites + 1] = site
    site = site.place and site.place.of
    local holder = site and its.objects[site]
    if holder ~= nil then
      if its.engine.sure(holder) then break end
      places.settle(its, holder)
    end
  end
  return sites
end

-- Tells the core of the names, which are found.
local function tell_names(its, sites)
  for i = #sites, 1, -1 do
    local site = sites[i]
    local obj, place = its.objects[site], site.place
    local holder = place and its.objects[place.of]
    if obj ~= nil and (holder ~= nil or not place) then
      its.engine.named(obj, site.name, holder)
    end
  end
end

-- Returns the text of an object's name; nil if it has none.
local function name_of(its, obj)
  if obj == nil then return nil end
  local name = its.engine.sure(obj)
  if name then return naming.text(its, name) end
  local sites = settle_all(its, obj) -- before names are made
  if #sites == 0 then return nil end
  name = naming.name(its, sites[1])
  tell_names(its, sites)
  return naming.text(its, name)
end

-- Returns the names of all that executes in a coroutine, the outermost first,
-- and the numbers of their entering; what a pass visits has that of the pass's
-- begin.
local function path(its, co)
  local pass = its.passes[co]
  local names, orders = pass and tapes.path(its, pass) or {}, {}
  for i = 1, #names do orders[i] = pass.order end
  local objects, its_orders = its.engine.list(co)
  for i = pass and pass.first + 1 or 1, #objects do
    names[#names + 1] = name_of(its, objects[i] or nil) or "?"
    orders[#names] = its_orders[i]
  end
  return names, orders
end

-- An object is entered for the first time: places what is below it.  A function
-- of the program that makes names is asked at once; if it raises, nothing is
-- placed.
local function walk(its, obj)
  local _, _, caller = its.engine.where(obj)
  local placed, made = places.walk(its, obj, its.sites[caller])
  if not naming.is_custom(its) then return end
  local ok, err = pcall(function()
    name_of(its, obj)
    for _, child in ipairs(placed) do name_of(its, child) end
  end)
  if ok then return end
  for _, child in ipairs(made) do
    naming.rename(its, its.sites[child], child)
    its.sites[child] = nil
  end
  its.engine.forget(obj)
  error(err, 0)
end

-- }======================================================

-- {======================================================
-- Entering and leaving
-- =======================================================

local traced = private.traced()

-- If a trace asks for hierarchies, each object that executes is a scope in the
-- trace.
local function open_span(its, depth, name)
  if not traced.hierarchy then return end
  local co = coroutine.running()
  its.spans[co] = its.spans[co] or {}
  its.spans[co][depth] = private.begin_scope("hierarchy", name)
end

local function close_span(its, depth)
  local spans = its.spans[(coroutine.running())]
  if not spans or not spans[depth] then return end
  spans[depth]:close()
  spans[depth] = nil
end

-- The frame at the depth has been entered: tells of it.  Returns the name if
-- somebody is told.
local function entered(its, obj, depth, is_new, name)
  if is_new then walk(its, obj) end
  if its.recording then tapes.entered(its, depth, obj) end
  if not its.told and not traced.hierarchy then return nil end
  name = name or name_of(its, obj)
  open_span(its, depth, name)
  local problem = its.told and fire(its, "enter", obj, obj, name)
  if not problem then return name end
  close_span(its, depth)
  error(problem[1], 0)
end

-- Tells the hooks that the object is left.
local function tell_left(its, obj)
  if #its.hooks == 0 then return nil end
  local ok, name = pcall(name_of, its, obj)
  if not ok then return { name } end
  return fire(its, "leave", obj, obj, name)
end

-- Leaves the frames down to a depth, the innermost first, and tells of each;
-- the frame there is left as it should be unless an error is under way, whose
-- place no error of a hook takes.
local function leave_to(its, depth, err)
  local problem
  for i = its.engine.depth(), depth, -1 do
    local obj = its.engine.frame(i)
    if obj ~= nil and its.told then
      local its_problem = tell_left(its, obj)
      problem = problem or its_problem
    end
    close_span(its, i)
    if its.closed then break end
    if its.engine.depth() == i then
      if its.recording then tapes.left(its, i, i == depth and err == nil) end
      its.engine.cut(i - 1)
    end
  end
  tapes.raise(problem, err)
end

local function confused(its, obj)
  if #its.hooks == 0 then return end
  local name = name_of(its, obj) or naming.class_name(its, obj)
  local names = path(its, coroutine.running())
  local why = #names == 0 and "nothing is executing" or
    "executing: " .. table.concat(names, ", ")
  tapes.raise(fire(its, "confused", obj,
    ("%s is left, but was not entered (%s)"):format(name, why), name,
    tapes.pass(its) and "reverse" or "forward"))
end

-- }======================================================

-- {======================================================
-- The functions of programs
-- =======================================================

local function close_scope(scope, err)
  local its, depth = scope.its, scope.depth
  scope.depth = false
  if not depth or its.closed then return end
  local _, order, thread = its.engine.frame(depth)
  if order == scope.order and thread == scope.thread then
    leave_to(its, depth, err)
  end
end

--- Leaves the object, with all that it has entered.  A second call does
-- nothing.
function Scope:close() close_scope(scope_of(self, "close")) end

function Scope:__close(err) close_scope(self[Scope], err) end

-- A lost scope may be that of another coroutine; then hooks are not told.
local function lose(scope)
  local its, depth = scope.its, scope.depth
  if not depth or its.closed then return end
  local _, order = its.engine.frame(depth)
  if order == scope.order then
    protect("hierarchy", leave_to, its, depth)
  else
    its.engine.lose(scope.thread, depth, scope.order)
  end
end

function Scope:__gc()
  local scope = self[Scope]
  if not private.put_off(lose, scope) then lose(scope) end
end

--- Enters an object.  Returns a scope that leaves it when it is closed, or
-- lost.  The scope is there before the object is entered.
function Hierarchy:scope(obj)
  local its, _ = its_open(self, "scope"), nil
  check.argument(private.is_object(obj), 1, "scope",
    "table, userdata, function or thread", obj)
  local state = { its = its, depth = false, order = 0, thread = 0, name = "" }
  local scope = new_scope(state)
  local name, depth = self:enter(obj), its.engine.depth()
  _, state.order, state.thread = its.engine.frame(depth)
  state.depth, state.name = depth, name
  return scope
end

local Handle, handle_of, new_its_handle = check.class "handle"

-- What an error from outside interrupts, a further call finishes: the hierarchy
-- forgets the handle last.
local function cancel(self)
  local its = self.its
  if not its.handles[self] then return end
  self.cancelled = true
  for _, layer in ipairs(self.layers) do layer:cancel() end
  local hooks = {} -- another table: an event may go through the former one
  for _, hook in ipairs(its.hooks) do
    if hook ~= self then hooks[#hooks + 1] = hook end
  end
  its.hooks = hooks
  if not its.closed then update(its) end
  its.handles[self] = nil
end

function Handle:cancel()
  cancel(handle_of(self, "cancel"))
end

Handle.__close = Handle.cancel

-- Returns a handle and its state, which the hierarchy knows.
local function new_handle(its)
  local state = { its = its, layers = {}, functions = false, cancelled = false }
  local handle = new_its_handle(state)
  its.handles[state] = true
  return handle, state
end

-- Returns a function that wraps a method so that a call enters its object and
-- leaves it.  The function keeps the hierarchy.
local function entering(h)
  local its = private.its(h)
  local begin = its.engine.begin
  return function(method)
    return function(...)
      local obj = ...
      local token <close>, depth, is_new = begin(obj)
      if token and (is_new or its.told or traced.hierarchy) then
        local ok, err = pcall(entered, its, obj, depth, is_new)
        if not ok and not its.closed then its.engine.cut(depth - 1) end
        if not ok then error(err, 0) end
      end
      return method(...)
    end
  end
end

--- Makes calls of the methods of a class enter and leave their object.  Returns
-- a handle.
function Hierarchy:instrument(class, names)
  local its = its_open(self, "instrument")
  check.argument(type(class) == "table", 1, "instrument", "table", class)
  check.argument(type(names) == "table", 2, "instrument", "table", names)
  for i, name in ipairs(names) do
    check.that(type(name) == "string", 2, "instrument",
      ("number %d is not a string"):format(i))
  end
  local handle, state = new_handle(its)
  local ok, missing = pcall(function()
    for _, name in ipairs(names) do
      local layer = wrap(class, name, entering(self), true)
      if not layer then return name end
      state.layers[#state.layers + 1] = layer
      its.methods[name], its.wrappers[class[name]] = true, true
    end
  end)
  if not ok or missing then cancel(state) end
  if not ok then error(missing, 0) end
  check.that(not missing, 2, "instrument",
    ("the class has no method '%s'"):format(missing))
  its.classes[class] = true
  return handle
end

local EVENTS = {
  enter = "function", leave = "function", reverse_enter = "function",
  reverse_leave = "function", confused = "function",
}

--- Calls the functions in a table at the events that they are named after; if a
-- class comes first, at those of its objects.  Returns a handle.
function Hierarchy:on(class, functions)
  local its, n = its_open(self, "on"), 2
  if functions == nil then class, functions, n = nil, class, 1 end
  check.argument(class == nil or type(class) == "table", 1, "on", "table",
    class)
  check.argument(type(functions) == "table", n, "on", "table", functions)
  functions = check.options(functions, EVENTS, n, "on")
  local handle, state = new_handle(its)
  state.functions, state.class = {}, class
  for event in pairs(EVENTS) do state.functions[event] = functions[event] end
  its.hooks = { table.unpack(its.hooks) }
  table.insert(its.hooks, state)
  update(its)
  return handle
end

--- Returns the name of the innermost object that executes, the object, and the
-- depth of the stack.
function Hierarchy:current()
  local its = its_own(self, "current")
  local pass, depth = tapes.pass(its), its.engine.depth()
  local first = pass and pass.first or 0
  if depth > first then
    local obj = its.engine.frame(depth)
    return name_of(its, obj) or "?", obj,
      depth - first + (pass and pass.step.depth or 0)
  elseif pass then
    local step = pass.step
    return naming.text(its, step.name), its.objects[step.site], step.depth
  end
end

--- Returns the names of all objects that execute, the outermost first.
function Hierarchy:path()
  return (path(its_own(self, "path"), coroutine.running()))
end

--- Returns the same names as a set, with the name of the root.
function Hierarchy:parents()
  local set = { [its_own(self, "parents").root] = true }
  for _, name in ipairs(self:path()) do set[name] = true end
  return set
end

--- Returns the name of an object, or nil.
function Hierarchy:name_of(obj)
  return name_of(its_own(self, "name_of"), obj)
end

--- Returns the keys on the way from the root to an object, or nil if the object
-- has no name.
function Hierarchy:key_path(obj)
  local its = its_own(self, "key_path")
  if not name_of(its, obj) then return nil end
  local ways, keys, name = {}, {}, its.sites[obj].name
  while name.place do
    ways[#ways + 1] = paths.keys(name.place)
    name = name.up
  end
  for i = #ways, 1, -1 do
    table.move(ways[i], 1, #ways[i], #keys + 1, keys)
  end
  return keys
end

-- Returns all live objects that have, or may have, a name.
local function all(its)
  local list = {}
  for obj in next, its.sites do list[#list + 1] = obj end
  return list
end

--- Returns the live object of a name, or nil; of several, one that is where the
-- name says.
function Hierarchy:object(name)
  local its, found = its_own(self, "object"), nil
  if type(name) ~= "string" or its.by_name[name] ~= nil then
    return its.by_name[name]
  end
  for _, obj in ipairs(all(its)) do
    if name_of(its, obj) == name then
      local place = its.sites[obj].place
      if not place or places.is_there(its, place, obj) then return obj end
      found = obj
    end
  end
  return found
end

--- Returns the names of all live objects, sorted.
function Hierarchy:names()
  local its = its_own(self, "names")
  local names = {}
  for _, obj in ipairs(all(its)) do names[name_of(its, obj) or false] = true end
  names[false] = nil
  return paths.sorted_keys(names)
end

local RECORD = { only = "function" }

--- Begins to record the objects that execute, all or only some; with false,
-- ends the recording and forgets the tape.
function Hierarchy:record(on)
  local its = its_open(self, "record")
  local only
  if type(on) == "table" then
    only = check.options(on, RECORD, 1, "record").only
  else
    check.argument(on == nil or type(on) == "boolean", 1, "record",
      "boolean or table", on)
  end
  its.recording, its.only = on ~= false, only
  if not its.recording then its.tape = tapes.new() end
  update(its)
end

--- Visits what is on the tape, the last first, and empties the tape.
function Hierarchy:backward(fn)
  local its = its_open(self, "backward")
  check.argument(type(fn) == "function", 1, "backward", "function", fn)
  tapes.backward(its, fn)
end

--- Tells whether the running coroutine is in a reverse pass.
function Hierarchy:is_reverse()
  return tapes.pass(its_own(self, "is_reverse")) ~= nil
end

--- Empties the stacks and the tape; names stay.
function Hierarchy:reset()
  local its = its_open(self, "reset")
  its.engine.reset()
  its.tape, its.passes = tapes.new(), setmetatable({}, WEAK)
  its.spans = setmetatable({}, WEAK)
end

--- Ends all instrumentation and all hooks.  A second call does nothing.
function Hierarchy:close()
  local its = its_own(self, "close")
  if its.closed then return end
  for handle in next, its.handles do cancel(handle) end
  its.engine.shut()
  its.closed = true
end

Hierarchy.__close = Hierarchy.close

-- A weak key goes only a collection after its finaliser.
function Hierarchy:__gc()
  private.hierarchies[self] = nil
  pcall(Hierarchy.close, self)
  private.its(self).engine.free()
end

-- }======================================================

local OPTIONS = { root = "string", children = "function", name = "function",
  class_name = "function" }

--- Returns a hierarchy.
return function(opts)
  opts = check.options(opts, OPTIONS, 1, "hierarchy")
  local function weak(mode) return setmetatable({}, { __mode = mode }) end
  local its = {
    root = opts.root or "Global", children = opts.children,
    name = opts.name, class_name = opts.class_name,
    sites = weak "k", objects = weak "kv", -- site -> object
    known = weak "k", -- plain table -> length at a walk
    by_name = weak "v", hints = weak "v", epoch = 1,
    hooks = {}, handles = {}, told = false, recording = false,
    classes = weak "k", wrappers = weak "k", methods = {},
    spans = weak "k", passes = weak "k", tape = tapes.new(),
  }
  its.fire = fire
  local h
  h, its.engine = private.hierarchy(Hierarchy, its,
    function(obj, depth, is_new, name)
      return entered(its, obj, depth, is_new, name) or name_of(its, obj)
    end,
    function(depth, err) leave_to(its, depth, err) end,
    function(obj) confused(its, obj) end)
  private.hierarchies[h] = function(co) return path(its, co) end
  return h
end

--- mw.hierarchy: the names of the objects that execute.
-- SPDX-License-Identifier: MIT
--
-- The core has a stack for each coroutine, enters and leaves, knows where
-- objects are, and visits what was recorded.  The functions here do the rest:
-- classes, hooks and traces.  They hold the state in `its`; the program holds a
-- handle.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local naming = require "moonwatch.hierarchy.naming"
local object_class = require "moonwatch.policy.object_class"
local wrap = require "moonwatch.policy.wrap"
local policy = require "moonwatch.policy"

local private = core.private
local metatable = private.metatable

local Hierarchy, its_own = check.class "hierarchy"

local Scope = check.class("scope", nil, "name")
private.scope_class(Scope)

-- {======================================================
-- Hooks
-- =======================================================

-- All copies of this file share the hierarchies, with what the core has of
-- each, and the set of those that have hooks.
private.hierarchies = private.hierarchies or setmetatable({}, { __mode = "k" })
private.hooked = private.hooked or setmetatable({}, { __mode = "k" })
local hooked = private.hooked

-- The core calls the functions here if there is a hook.
local function update(its)
  hooked[its] = #its.hooks > 0 or nil
  policy.set_global_hooks(next(hooked) ~= nil)
  local told = false
  for _, hook in ipairs(its.hooks) do
    told = told or hook.functions.enter or hook.functions.leave
  end
  its.engine.hooked(told)
end

-- Tells whether a hook is to hear of an object: the class is its metatable, or
-- the table that stands for it.
local function hears(hook, obj)
  local class = hook.class
  return class == nil or rawequal(metatable(obj), class) or
    rawequal(object_class.of(obj), class)
end

-- Calls all hooks for an event of an object, also when one raises.  Then raises
-- the first error that `mw.on_error` does not take.
local function fire(its, event, obj, ...)
  if #its.hooks == 0 then return end
  local problem
  for _, hook in ipairs { table.unpack(its.hooks) } do
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
  if problem then error(problem[1], 0) end
end

-- }======================================================

-- {======================================================
-- What the core calls
-- =======================================================

local traced = private.traced()

-- If a trace asks for hierarchies, each object that executes is a scope in the
-- trace.
local function open_span(its, name, depth)
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

local function entered(its, obj, depth)
  local _, name = its.engine.frame(depth)
  open_span(its, name, depth)
  fire(its, "enter", obj, obj, name)
end

local function left(its, depth)
  local obj, name = its.engine.frame(depth)
  if obj ~= nil then fire(its, "leave", obj, obj, name) end
  close_span(its, depth)
end

local function confused(its, obj)
  if #its.hooks == 0 then return end
  local name = its.engine.name_of(obj) or naming.class_name(its, obj)
  local names = its.engine.path()
  local why = #names == 0 and "nothing is executing" or
    "executing: " .. table.concat(names, ", ")
  fire(its, "confused", obj, ("%s is left, but was not entered (%s)")
    :format(name, why), name, its.engine.is_reverse() and "reverse" or
    "forward")
end

-- Returns what the core calls, in the order that hierarchy.h says.
local function outside(its)
  local function bind(f)
    return function(...) return f(its, ...) end
  end
  return {
    bind(naming.prepare), bind(naming.told), naming.class_of,
    bind(naming.is_custom), bind(naming.name), bind(naming.root), naming.sort,
    bind(entered), bind(left), bind(confused),
    function(event, obj, name) fire(its, event, obj, obj, name) end,
    false, its.by_name, bind(close_span), its.hints,
  }
end

local ONLY = 12

-- }======================================================

-- {======================================================
-- The functions of programs
-- =======================================================

local function its_open(self, name)
  local its = its_own(self, name, 1)
  if its.closed then
    error(("calling '%s' on a hierarchy that is closed"):format(name), 3)
  end
  return its
end

local Handle, handle_of, new = check.class "handle"

-- What an error from outside interrupts, a further call finishes: the hierarchy
-- forgets the handle last.
local function cancel(self)
  local its = self.its
  if not its.handles[self] then return end
  self.cancelled = true
  for _, layer in ipairs(self.layers) do layer:cancel() end
  for i, hook in ipairs(its.hooks) do
    if hook == self then table.remove(its.hooks, i) end
  end
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
  local handle = new(state)
  its.handles[state] = true
  return handle, state
end

-- Returns a function that wraps a method so that a call enters its object and
-- leaves it.  The token exists before the object is entered, so that an error
-- from outside finds what to leave.
local function entering(h)
  local engine = h[Hierarchy].engine
  local begin, go = engine.begin, engine.go
  return function(method)
    return function(...)
      local obj = ...
      local token <close> = begin(obj)
      if token then go(obj, h) end -- which keeps the hierarchy
      return method(...)
    end
  end
end

local function wrap_all(self, class, names, handle)
  local its = self[Hierarchy]
  for _, name in ipairs(names) do
    local layer = wrap(class, name, entering(self), true, function(it)
      handle.layers[#handle.layers + 1] = it
    end)
    if not layer then return name end
    if not its.known[name] then its.methods[#its.methods + 1] = name end
    its.known[name] = true
    its.wrappers[class[name]] = true
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
  local ok, missing = pcall(wrap_all, self, class, names, state)
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
  table.insert(its.hooks, state)
  update(its)
  return handle
end

--- Returns the name of the innermost object that executes, the object, and the
-- depth of the stack.
function Hierarchy:current()
  return its_own(self, "current").engine.current()
end

--- Returns the names of all objects that execute, the outermost first.
function Hierarchy:path()
  return its_own(self, "path").engine.path()
end

--- Returns the same names as a set, with the name of the root.
function Hierarchy:parents()
  local its = its_own(self, "parents")
  local set = { [its.root] = true }
  for _, name in ipairs(its.engine.path()) do set[name] = true end
  return set
end

--- Returns the name of an object, or nil.
function Hierarchy:name_of(obj)
  return (its_own(self, "name_of").engine.name_of(obj))
end

--- Returns the keys on the way from the root to an object, or nil if the object
-- has no name.
function Hierarchy:key_path(obj)
  return (its_own(self, "key_path").engine.key_path(obj))
end

--- Returns the live object of a name, or nil.
function Hierarchy:object(name)
  local its = its_own(self, "object")
  if type(name) ~= "string" then return nil end
  return naming.object(its, name)
end

--- Returns the names of all live objects, sorted.
function Hierarchy:names()
  local list, names = its_own(self, "names").engine.names(), {}
  table.sort(list)
  for i, name in ipairs(list) do
    if name ~= list[i - 1] then names[#names + 1] = name end
  end
  return names
end

local RECORD = { only = "function" }

--- Begins to record the objects that execute, all or only some; with false,
-- ends the recording and forgets the tape.
function Hierarchy:record(on)
  local its = its_open(self, "record")
  if type(on) == "table" then
    on = check.options(on, RECORD, 1, "record")
    its.outside[ONLY] = on.only or false
    its.engine.record(true, on.only ~= nil)
    return
  end
  check.argument(on == nil or type(on) == "boolean", 1, "record",
    "boolean or table", on)
  its.outside[ONLY] = false
  its.engine.record(on ~= false, false)
end

--- Tells whether the running coroutine is in a reverse pass.
function Hierarchy:is_reverse()
  return its_own(self, "is_reverse").engine.is_reverse()
end

--- Empties the stacks and the tape; names stay.
function Hierarchy:reset()
  local its = its_open(self, "reset")
  its.engine.reset()
  its.spans = setmetatable({}, { __mode = "k" })
end

--- Ends all instrumentation and all hooks.  A second call does nothing.
function Hierarchy:close()
  local its = its_own(self, "close")
  if its.closed then return end
  local handles = {}
  for handle in pairs(its.handles) do handles[#handles + 1] = handle end
  for _, handle in ipairs(handles) do cancel(handle) end
  its.engine.shut()
  its.closed = true
end

Hierarchy.__close = Hierarchy.close

-- A weak key goes only a collection after its finaliser.
function Hierarchy:__gc()
  private.hierarchies[self] = nil
  pcall(Hierarchy.close, self)
end

-- }======================================================

local OPTIONS = { root = "string", children = "function", name = "function",
  class_name = "function" }

--- Returns a hierarchy.
return function(opts)
  opts = check.options(opts, OPTIONS, 1, "hierarchy")
  local its = {
    root = opts.root or "Global", children = opts.children, name = opts.name,
    class_name = opts.class_name, hooks = {}, handles = {},
    by_name = setmetatable({}, { __mode = "v" }),
    hints = setmetatable({}, { __mode = "v" }),
    classes = setmetatable({}, { __mode = "k" }), methods = {}, known = {},
    wrappers = setmetatable({}, { __mode = "k" }),
    spans = setmetatable({}, { __mode = "k" }),
  }
  local h = { [Hierarchy] = its }
  its.outside = outside(its)
  its.engine = private.scopes(h, its.outside, Scope, its.children ~= nil)
  private.hierarchies[h] = its.engine
  return setmetatable(h, Hierarchy)
end

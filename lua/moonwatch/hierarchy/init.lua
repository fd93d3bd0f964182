--- mw.hierarchy: the names of the objects that execute.
-- SPDX-License-Identifier: MIT
--
-- The core has a stack for each coroutine, and enters and leaves objects by
-- itself while only the stack changes.  The functions here do the rest: names,
-- hooks and tapes.  They hold the state in `its`; the program holds a handle.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local naming = require "moonwatch.hierarchy.naming"
local wrap = require "moonwatch.policy.wrap"
local policy = require "moonwatch.policy"
local tapes = require "moonwatch.hierarchy.tape"

local private = core.private

local Hierarchy, its_own = check.class "hierarchy"

-- {======================================================
-- Hooks
-- =======================================================

-- All copies of this file share the set of hierarchies, and the set of those
-- that have hooks.
private.hierarchies = private.hierarchies or setmetatable({}, { __mode = "k" })
private.hooked = private.hooked or setmetatable({}, { __mode = "k" })
local hooked = private.hooked

-- The core calls the functions here if there is a hook or a tape.
local function update(its)
  hooked[its] = #its.hooks > 0 or nil
  policy.set_global_hooks(next(hooked) ~= nil)
  local told = its.tape ~= nil
  for _, hook in ipairs(its.hooks) do
    told = told or hook.functions.enter or hook.functions.leave
  end
  its.engine.slow(told)
end

-- Calls all hooks for an event, also when one raises.  The first error that
-- `mw.on_error` does not take becomes `its.problem`.
local function fire(its, event, ...)
  if #its.hooks == 0 then return end
  for _, hook in ipairs { table.unpack(its.hooks) } do
    local f = hook.functions[event]
    if f and not hook.cancelled then
      local ok, err = pcall(f, ...)
      local handler = not ok and private.handler()
      if handler then
        pcall(handler, err, "hierarchy")
      elseif not ok then
        its.problem = its.problem or { err }
      end
    end
  end
end

-- Raises the first error of a hook.
local function settle(its)
  local problem = its.problem
  its.problem = nil
  if problem then error(problem[1], 0) end
end

-- }======================================================

-- {======================================================
-- Entering and leaving
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

-- Returns the reverse pass of the running coroutine, or nil.
local function pass_of(its)
  return its.passes[(coroutine.running())]
end

-- Adds the names on the stack to the list, without the `first` outermost.
local function names_from(its, first, list)
  for i = first + 1, its.engine.depth() do
    local _, number = its.engine.frame(i)
    list[#list + 1] = its.names[number]
  end
  return list
end

local function enter(its, obj)
  local engine = its.engine
  local number = naming.place(its, obj)
  local depth, name = engine.depth(), its.names[number]
  engine.push(obj, number)
  open_span(its, name, depth + 1)
  fire(its, "enter", obj, name)
  if its.problem then
    close_span(its, depth + 1)
    engine.cut(depth)
  end
  settle(its)
  return name
end

-- Tells tape and hooks that number `i` is left.  An object that is left because
-- of an error is not `completed`.
local function tell_left(its, i, completed)
  local obj, number = its.engine.frame(i)
  if obj == nil then return end
  if its.tape and completed and not pass_of(its) then
    tapes.add(its.tape, obj, names_from(its, 0, {}))
  end
  fire(its, "leave", obj, its.names[number])
end

local function leave_each(its, depth, completed)
  for i = its.engine.depth(), depth, -1 do
    tell_left(its, i, completed and i == depth)
    close_span(its, i)
    its.engine.cut(i - 1)
  end
end

-- Leaves number `depth` and the objects that it has entered, the innermost
-- first.  The stack is cut even if a hook raises.
local function unwind(its, depth, completed)
  local top = its.engine.depth()
  local ok, err = pcall(leave_each, its, depth, completed)
  for i = top, depth, -1 do close_span(its, i) end
  its.engine.cut(depth - 1)
  if not ok then error(err, 0) end
end

local function confused(its, obj)
  local name = naming.name_of(its, obj) or naming.class_name(its, obj)
  local names = names_from(its, 0, {})
  local why = #names == 0 and "nothing is executing" or
    "executing: " .. table.concat(names, ", ")
  fire(its, "confused", ("%s is left, but was not entered (%s)"):format(name,
    why), name, pass_of(its) and "reverse" or "forward")
end

local function leave(its, obj)
  for i = its.engine.depth(), 1, -1 do
    if rawequal(its.engine.frame(i), obj) then
      unwind(its, i, true)
      return settle(its)
    end
  end
  confused(its, obj)
  settle(its)
end

-- Leaves the object at that depth.  The error of a hook must not replace an
-- error that is under way.
local function close_depth(its, depth, err)
  if its.engine.depth() < depth then return end
  unwind(its, depth, err == nil)
  if err ~= nil and its.problem then
    warn("error in a hook (", tostring(its.problem[1]), ")")
    its.problem = nil
  end
  settle(its)
end

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

local OBJECTS = { table = true, userdata = true, ["function"] = true,
  thread = true }

local Scope, scope_of, new_scope = check.class("scope", nil,
  "name")

--- Leaves the object that the scope has entered.  A second call does nothing,
-- and neither does a call in another coroutine.
function Scope:close(err)
  self = scope_of(self, "close")
  local its, engine = self.its, self.its.engine
  if self.closed or its.closed then return end
  if self.thread ~= tapes.thread() then return end
  self.closed = true
  local obj = engine.frame(self.depth)
  if obj ~= nil and core.id(obj) == self.id then
    close_depth(its, self.depth, err)
  end
end

Scope.__close = Scope.close

function Scope:__gc()
  pcall(Scope.close, self)
end

--- Enters an object.  Returns a scope that leaves the object when it is closed.
function Hierarchy:scope(obj)
  local its = its_open(self, "scope")
  check.argument(OBJECTS[type(obj)], 1, "scope",
    "table, userdata, function or thread", obj)
  local scope = { its = its, name = "", id = core.id(obj), closed = true,
    depth = its.engine.depth() + 1, thread = tapes.thread() }
  local handle = new_scope(scope)
  scope.name = self:enter(obj)
  scope.closed = false
  return handle
end

local Handle, handle_of, new = check.class "handle"

local function cancel(self)
  if self.cancelled then return end
  self.cancelled = true
  for i = 1, #self.layers do
    if self.layers[i] then self.layers[i]:cancel() end
  end
  local its = self.its
  its.handles[self] = nil
  for i, hook in ipairs(its.hooks) do
    if hook == self then table.remove(its.hooks, i) end
  end
  if not its.closed then update(its) end
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
-- leaves it.
local function entering(h, its)
  local begin = its.engine.begin
  return function(method)
    return function(...)
      local obj = ...
      if its.closed or not OBJECTS[type(obj)] then return method(...) end
      local _ <close> = begin(h, obj)
      return method(...)
    end
  end
end

local function wrap_all(self, class, names, handle)
  local its = self[Hierarchy]
  for _, name in ipairs(names) do
    local n = #handle.layers + 1
    handle.layers[n] = false -- makes room for the layer
    handle.layers[n] = wrap(class, name, entering(self, its), true)
    if not handle.layers[n] then return name end
    its.methods[name] = true
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

--- Calls the functions in a table at the events that they are named after.
-- Returns a handle.
function Hierarchy:on(functions)
  local its = its_open(self, "on")
  check.argument(type(functions) == "table", 1, "on", "table", functions)
  functions = check.options(functions, EVENTS, 1, "on")
  local handle, state = new_handle(its)
  state.functions = {}
  for event in pairs(EVENTS) do state.functions[event] = functions[event] end
  table.insert(its.hooks, state)
  update(its)
  return handle
end

--- Returns the name of the innermost object that executes, the object, and the
-- depth of the stack.
function Hierarchy:current()
  local its = its_own(self, "current")
  local pass, depth = pass_of(its), its.engine.depth()
  local first = pass and pass.first or 0
  if depth > first then
    local obj, number = its.engine.frame(depth)
    local outer = pass and #pass.entry.path or 0
    return its.names[number], obj, depth - first + outer
  elseif pass then
    return pass.entry.name, pass.obj, #pass.entry.path
  end
end

--- Returns the names of all objects that execute, the outermost first.
function Hierarchy:path()
  local its = its_own(self, "path")
  local pass = pass_of(its)
  if not pass then return names_from(its, 0, {}) end
  return names_from(its, pass.first, { table.unpack(pass.entry.path) })
end

--- Returns the same names as a set, with the name of the root.
function Hierarchy:parents()
  local its = its_own(self, "parents")
  local set = { [its.root] = true }
  for _, name in ipairs(Hierarchy.path(self)) do set[name] = true end
  return set
end

--- Returns the name of an object, or nil.
function Hierarchy:name_of(obj)
  return naming.name_of(its_own(self, "name_of"), obj)
end

--- Returns the live object of a name, or nil.
function Hierarchy:object(name)
  local its = its_own(self, "object")
  if name == nil then return nil end
  return its.by_name[name]
end

--- Returns the names of all live objects, sorted.
function Hierarchy:names()
  return naming.list(its_own(self, "names"))
end

--- Begins to record the objects that execute; with false, ends the recording
-- and forgets the tape.
function Hierarchy:record(on)
  local its = its_open(self, "record")
  check.argument(on == nil or type(on) == "boolean", 1, "record", "boolean", on)
  its.tape = on ~= false and (its.tape or tapes.new()) or nil
  update(its)
end

--- Visits the objects on the tape, the last first, and empties the tape.
function Hierarchy:backward(fn)
  local its = its_open(self, "backward")
  check.argument(type(fn) == "function", 1, "backward", "function", fn)
  local tape, running = its.tape, (coroutine.running())
  if not tape then return end
  its.tape = tapes.new()
  local outer = its.passes[running]
  tapes.run(tape, fn, function(...) fire(its, ...) end, function(pass)
    pass.first = its.engine.depth()
    its.passes[running] = pass
  end, function() its.passes[running] = outer end)
  settle(its)
end

--- Tells whether the running coroutine is in a reverse pass.
function Hierarchy:is_reverse()
  return pass_of(its_own(self, "is_reverse")) ~= nil
end

--- Empties the stacks and the tape; names stay.
function Hierarchy:reset()
  local its = its_open(self, "reset")
  its.engine.reset()
  if its.tape then its.tape = tapes.new() end
  its.passes = setmetatable({}, { __mode = "k" })
  its.spans = setmetatable({}, { __mode = "k" })
end

--- Ends all instrumentation and all hooks.  A second call does nothing.
function Hierarchy:close()
  local its = its_own(self, "close")
  if its.closed then return end
  its.tape = nil
  local handles = {}
  for handle in pairs(its.handles) do handles[#handles + 1] = handle end
  for _, handle in ipairs(handles) do cancel(handle) end
  its.engine.shut()
  its.closed = true
end

Hierarchy.__close = Hierarchy.close

function Hierarchy:__gc()
  pcall(Hierarchy.close, self)
end

-- }======================================================

local OPTIONS = { root = "string", children = "function", name = "function",
  class_name = "function" }

--- Returns a hierarchy.
return function(opts)
  opts = check.options(opts, OPTIONS, 1, "hierarchy")
  local its = naming.new(opts)
  its.root, its.hooks, its.handles = opts.root or "Global", {}, {}
  its.passes = setmetatable({}, { __mode = "k" })
  its.spans = setmetatable({}, { __mode = "k" })
  local h = { [Hierarchy] = its }
  its.engine = private.scopes(h, {
    function(_, obj) return enter(its, obj) end,
    function(_, obj) return leave(its, obj) end,
    function(depth, err) return close_depth(its, depth, err) end,
    names = its.names, keys = {},
    holders = setmetatable({}, { __mode = "v" }),
  })
  private.hierarchies[h] = true
  return setmetatable(h, Hierarchy)
end

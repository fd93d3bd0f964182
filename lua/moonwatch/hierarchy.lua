--- mw.hierarchy: what is executing, and under which name.
-- SPDX-License-Identifier: MIT
--
-- The stacks are the engine's, one a coroutine.  Entering and leaving are C as
-- long as there is nothing to do but that; what needs a name, a hook or a tape
-- is done by the functions here.  They have what is in `its`, the program has a
-- handle.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local naming = require "moonwatch.naming"
local patch = require "moonwatch.patch"
local policy = require "moonwatch.policy"
local reverse = require "moonwatch.reverse"

local private = core.private
local metatable = private.metatable

local Hierarchy = {}
Hierarchy.__index = Hierarchy
Hierarchy.__name = "hierarchy"
Hierarchy.__metatable = false

local NONE = {}

-- {======================================================
-- Hooks
-- =======================================================

-- The hierarchies that have hooks.  One set for all copies of this file.
private.hooked = private.hooked or setmetatable({}, { __mode = "k" })
local hooked = private.hooked

-- Hooks and tapes are none of C's business.
local function update(its)
  hooked[its] = #its.hooks > 0 or nil
  policy.set_global_hooks(next(hooked) ~= nil)
  local told = its.tape ~= nil
  for _, hook in ipairs(its.hooks) do
    told = told or hook.functions.enter or hook.functions.leave
  end
  its.engine.slow(told)
end

-- Calls the hooks for an event; all of them, also when one raises.  The first
-- error that nobody took becomes `its.problem`.
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

-- Raises what hooks have raised.
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

-- In a trace that is asked to show it, what executes is a scope.
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

-- The reverse pass of the running coroutine.
local function pass_of(its)
  return its.passes[(coroutine.running())]
end

-- The names of those executing, after the `first` outermost.
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

-- Tells that number `i` is left; `completed`: that was not for an error.
local function tell_left(its, i, completed)
  local obj, number = its.engine.frame(i)
  if obj == nil then return end
  if its.tape and completed and not pass_of(its) then
    reverse.add(its.tape, obj, names_from(its, 0, {}))
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

-- Leaves number `depth` and what it has entered, the innermost first; in any
-- case.
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

-- What was entered at that depth is closed.  The error of a hook must not take
-- the place of one that is under way.
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
-- What programs see
-- =======================================================

local function its_own(self, name)
  if metatable(self) ~= Hierarchy then
    error(("calling '%s' on bad self (hierarchy expected, got %s)"):format(
      name, type(self)), 3)
  end
  return self.its
end

local function its_open(self, name)
  if metatable(self) == Hierarchy and self.its.closed then
    error(("calling '%s' on a hierarchy that is closed"):format(name), 3)
  end
  return its_own(self, name)
end

local OBJECTS = { table = true, userdata = true, ["function"] = true,
  thread = true }

local Scope = {}
Scope.__index = Scope
Scope.__name = "scope"
Scope.__metatable = false

--- Leaves what the scope has entered.  May be called twice; in another
-- coroutine it does nothing.
function Scope:close(err)
  check.self(metatable(self) == Scope, "close", "scope", self)
  local its, engine = self.its, self.its.engine
  if self.closed or its.closed then return end
  if self.thread ~= reverse.thread() then return end
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

--- Enters an object until the scope is closed.
function Hierarchy:scope(obj)
  local its = its_open(self, "scope")
  check.argument(OBJECTS[type(obj)], 1, "scope",
    "table, userdata, function or thread", obj)
  local scope = setmetatable({ its = its, name = "", id = core.id(obj),
    depth = its.engine.depth() + 1, thread = reverse.thread(),
    closed = true }, Scope)
  scope.name = self:enter(obj)
  scope.closed = false
  return scope
end

local Handle = {}
Handle.__index = Handle
Handle.__metatable = false

function Handle:cancel()
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

Handle.__close = Handle.cancel

local function new_handle(its)
  local handle = setmetatable({ its = its, layers = {} }, Handle)
  its.handles[handle] = true
  return handle
end

-- Makes methods enter their object and leave it.
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

local function wrap(self, class, names, handle)
  local its = self.its
  for _, name in ipairs(names) do
    local n = #handle.layers + 1
    handle.layers[n] = false -- so that there is room for it
    handle.layers[n] = patch(class, name, entering(self, its), true)
    if not handle.layers[n] then return name end
    its.methods[name] = true
    its.wrappers[class[name]] = true
  end
end

--- Lets calls of the methods of a class enter their object and leave it.
function Hierarchy:instrument(class, names)
  local its = its_open(self, "instrument")
  check.argument(type(class) == "table", 1, "instrument", "table", class)
  check.argument(type(names) == "table", 2, "instrument", "table", names)
  for i, name in ipairs(names) do
    check.that(type(name) == "string", 2, "instrument",
      ("number %d is not a string"):format(i))
  end
  local handle = new_handle(its)
  local ok, missing = pcall(wrap, self, class, names, handle)
  if not ok or missing then handle:cancel() end
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

--- Calls functions when something happens.
function Hierarchy:on(functions)
  local its = its_open(self, "on")
  check.argument(type(functions) == "table", 1, "on", "table", functions)
  check.options(functions, EVENTS, 1, "on")
  local handle = new_handle(its)
  handle.functions = {}
  for event in pairs(EVENTS) do handle.functions[event] = functions[event] end
  table.insert(its.hooks, handle)
  update(its)
  return handle
end

--- The name of what is executing, the object, and how deep that is.
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

--- The names of all that is executing, the outermost first.
function Hierarchy:path()
  local its = its_own(self, "path")
  local pass = pass_of(its)
  if not pass then return names_from(its, 0, {}) end
  return names_from(its, pass.first, { table.unpack(pass.entry.path) })
end

--- The same as a set, with the root's name.
function Hierarchy:parents()
  local its = its_own(self, "parents")
  local set = { [its.root] = true }
  for _, name in ipairs(Hierarchy.path(self)) do set[name] = true end
  return set
end

--- What an object is called, or nil.
function Hierarchy:name_of(obj)
  return naming.name_of(its_own(self, "name_of"), obj)
end

--- The live object of that name, or nil.
function Hierarchy:object(name)
  local its = its_own(self, "object")
  if name == nil then return nil end
  return its.by_name[name]
end

--- The names of all live objects, sorted.
function Hierarchy:names()
  return naming.list(its_own(self, "names"))
end

--- Begins to record what is executed; with false, ends that and forgets it.
function Hierarchy:record(on)
  local its = its_open(self, "record")
  check.argument(on == nil or type(on) == "boolean", 1, "record", "boolean", on)
  its.tape = on ~= false and (its.tape or reverse.new_tape()) or nil
  update(its)
end

--- Visits what was recorded, the last first, and takes it off the tape.
function Hierarchy:backward(fn)
  local its = its_open(self, "backward")
  check.argument(type(fn) == "function", 1, "backward", "function", fn)
  local tape, running = its.tape, (coroutine.running())
  if not tape then return end
  its.tape = reverse.new_tape()
  local outer = its.passes[running]
  reverse.run(tape, fn, function(...) fire(its, ...) end, function(pass)
    pass.first = its.engine.depth()
    its.passes[running] = pass
  end, function() its.passes[running] = outer end)
  settle(its)
end

--- Is this coroutine in a reverse pass?
function Hierarchy:is_reverse()
  return pass_of(its_own(self, "is_reverse")) ~= nil
end

--- Nothing is executing, and nothing is recorded; names stay.
function Hierarchy:reset()
  local its = its_open(self, "reset")
  its.engine.reset()
  if its.tape then its.tape = reverse.new_tape() end
  its.passes = setmetatable({}, { __mode = "k" })
  its.spans = setmetatable({}, { __mode = "k" })
end

--- Takes all instrumentation and all hooks away.  May be called twice.
function Hierarchy:close()
  local its = its_own(self, "close")
  if its.closed then return end
  its.tape = nil
  local handles = {}
  for handle in pairs(its.handles) do handles[#handles + 1] = handle end
  for _, handle in ipairs(handles) do handle:cancel() end
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

--- A hierarchy.
return function(opts)
  check.argument(opts == nil or type(opts) == "table", 1, "hierarchy", "table",
    opts)
  opts = opts or NONE
  check.options(opts, OPTIONS, 1, "hierarchy")
  local its = naming.new(opts)
  its.root, its.hooks, its.handles = opts.root or "Global", {}, {}
  its.passes = setmetatable({}, { __mode = "k" })
  its.spans = setmetatable({}, { __mode = "k" })
  local h = { its = its }
  its.engine = private.scopes(h, {
    function(_, obj) return enter(its, obj) end,
    function(_, obj) return leave(its, obj) end,
    function(depth, err) return close_depth(its, depth, err) end,
    names = its.names, keys = {},
    holders = setmetatable({}, { __mode = "v" }),
  })
  return setmetatable(h, Hierarchy)
end

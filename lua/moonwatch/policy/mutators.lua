--- Mutators: methods that change an object without writing to its fields.
-- SPDX-License-Identifier: MIT
--
-- The policy names the mutators of a class.  As long as the class has watched
-- objects, each mutator is wrapped, and a call of it counts as a write.
-- The core tells of watched objects only while the policy names mutators.
--
-- In a transaction the call of a userdata's mutator has an entry with the
-- object's state before and after.  One call may run within another, or while
-- another waits in a coroutine.  Then each entry begins with the state in which
-- the entry before ended, so that the entries can be undone one by one.

local object_class = require "moonwatch.policy.object_class"
local private = require("moonwatch.core").private

local ipairs, next, pairs, pcall = ipairs, next, pairs, pcall
local setmetatable = setmetatable

local MEMORY = "not enough memory"
local WEAK = { __mode = "k" }

local mutators = {}

-- Class -> its wrappers' layers, and the set of its watched objects.
local wrapped = setmetatable({}, WEAK)

local names_of -- (class) -> array of names
local states   -- how the policy reads the state of userdata, or nil

-- Userdata -> the calls of its mutators that run, and its state up to which
-- calls have entries.
local changing = setmetatable({}, WEAK)

local Call = {}

local function append(call)
  local object, its = call.object, call.its
  local ok, state = states.read(object)
  if ok then
    private.note_call(object, call.name, its.state, state)
    its.state = state
  end
end

-- If the entry fails for want of memory, the object gets its former state, so
-- that no change is without an entry.
function Call.__close(call)
  if call.has_ended then return end
  local object, its = call.object, call.its
  its.running[call] = nil
  if next(its.running) == nil then changing[object] = nil end
  local ok, err = pcall(append, call)
  if not ok then pcall(private.set_state, object, its.state) end
  call.has_ended = true
  if not ok then error(err, 0) end
end

-- Returns the call of a mutator that is to have an entry, or nil.
local function begin(object, name)
  if not (states and states.has(object)) then return nil end
  local its = changing[object]
  if not its then
    local ok, state = states.read(object)
    if not ok then return nil end
    its = { state = state, running = {} }
  end
  return setmetatable(
    { object = object, name = name, its = its, has_ended = false }, Call)
end

-- The policy's `restore` for the core.
local function restore(object, state)
  states.restore(object, state)
  local its = changing[object]
  if its then its.state = state end
end

local function finish(call, self, name, moment, ...)
  if call then Call.__close(call) end
  private.end_call(self, name, moment)
  return ...
end

local function record(method, self, name, moment, ...)
  local call <close> = begin(self, name)
  if call then
    changing[self] = call.its
    call.its.running[call] = true
  end
  return finish(call, self, name, moment, method(self, ...))
end

local function telling(name)
  return function(method)
    return function(self, ...)
      local moment, has_entry = private.begin_call(self, name)
      if not moment then return method(self, ...) end
      if has_entry then return record(method, self, name, moment, ...) end
      return finish(nil, self, name, moment, method(self, ...))
    end
  end
end

local function unwrap(layers)
  for i = #layers, 1, -1 do
    if layers[i] then layers[i]:cancel() end
    layers[i] = nil
  end
end

local function wrap_all(class, layers)
  local seen = {}
  for _, name in ipairs(names_of(class)) do
    if not seen[name] then
      local wrap = require "moonwatch.policy.wrap"
      local at = #layers + 1
      layers[at] = false -- its place comes first: a layer must not get lost
      layers[at] = wrap(class, name, telling(name), true)
    end
    seen[name] = true
  end
end

-- The class has lost its last watched object.  Unwrapping calls functions of
-- the library, which may see to deaths and find the class again; so the class
-- is out of the table meanwhile.
local function release(class)
  local its = wrapped[class]
  if not its then return end
  wrapped[class] = nil
  local ok, err = pcall(unwrap, its.layers)
  if ok then return end
  wrapped[class] = its
  error(err, 0)
end

--- Called when an object is watched.
function mutators.watched(obj)
  local class = object_class.of(obj)
  if class == nil or not next(names_of(class)) then return end
  local its = wrapped[class]
  if its then
    its.objects[obj] = true
  else -- the object comes first: a class without objects is released
    its = { layers = {}, objects = setmetatable({ [obj] = true }, WEAK) }
    wrapped[class] = its
    wrap_all(class, its.layers)
  end
end

--- Called when an object is no longer watched, or gets another class.
function mutators.unwatched(obj)
  local class = object_class.of(obj)
  local its = class ~= nil and wrapped[class]
  if not its then return end
  its.objects[obj] = nil
  if not next(its.objects) then release(class) end
end

--- Called when watched objects may have died.  If a class raises, the classes
-- after it are unwrapped all the same.
function mutators.deserted()
  local list, short = {}, nil
  for class, its in pairs(wrapped) do
    if not next(its.objects) then list[#list + 1] = class end
  end
  for _, class in ipairs(list) do
    local ok, err = pcall(release, class)
    if not ok and err == MEMORY then short = err end
  end
  if short then error(short, 0) end -- the core calls again
end

--- Puts a policy into force: its functions for the core (or false), and the
-- mutators that `names(class)` returns in an array; `names` is nil for a policy
-- without mutators.  `its_states`, or nil, has functions for the state of
-- userdata: `has(object)`, `read(object)` -> true and the state, or false;
-- `snapshot(object)` and `restore(object, state)` are for the core.
function mutators.use(names, descend, ignored_by, its_states)
  names_of, states = names, its_states
  for class in pairs(wrapped) do release(class) end
  private.hooks {
    descend, ignored_by, names and mutators.watched or false,
    names and mutators.unwatched or false,
    names and mutators.deserted or false,
    its_states and its_states.snapshot or false,
    its_states and restore or false,
  }
  if not names then return end
  for _, obj in ipairs(private.watched()) do mutators.watched(obj) end
end

return mutators

--- Scopes of a plan: in a scope, older objects must not be written to.
-- SPDX-License-Identifier: MIT
--
-- The scopes of a plan are a stack, linked from the innermost scope outwards:
--
--     stack.top -> scope -> scope.outer -> ... -> the outermost scope
--
-- A scope knows its stack and the number of the object that was tracked last
-- before the scope began.  A clone's stack begins with the scopes of the
-- original: `stack.base` is the innermost of them.  The end of a scope marks
-- the scope and the scopes inside it on its stack as no longer open; so a
-- clone's own scopes are in an open scope if the base is open.  Scopes that
-- are not open leave a stack when its top is looked for.
--
-- `stack.allowed` has the scope in which each object was allowed; the object is
-- allowed as long as this scope is open.
--
-- The plan holds the stack; the program holds a handle of each scope, so that
-- the collector ends a scope whose handle is lost.

local check = require "moonwatch.check"

local Scope, state_of, new = check.class "scope"

local scope = {}

local WEAK = { __mode = "k" }

-- Tells whether a scope is open, and, if its stack is that of a clone, the
-- scopes of the original below it.
local function is_open(its)
  while its do
    if not its.open then return false end
    its = its.stack.base
  end
  return true
end

-- Ends the scopes of a stack down to `last`, the innermost first.  Needs no
-- memory, because a finaliser may call this.
local function cut(stack, last)
  local its = stack.top
  while its ~= last do
    its.open = false
    its = its.outer
  end
  last.open = false
end

-- Returns the innermost open scope.
local function innermost(stack)
  local base = stack.base
  if base and not is_open(base) then
    cut(stack, base)
    repeat base = base.outer until is_open(base)
    stack.base = base
  end
  while not stack.top.open do stack.top = stack.top.outer end
  return stack.top
end

--- Returns a stack with the scope that is always open.
function scope.stack()
  local stack = { base = false, allowed = setmetatable({}, WEAK) }
  stack.top = { open = true, since = 0, stack = stack }
  return stack
end

--- Returns a stack for a clone.
function scope.clone(stack)
  local top = innermost(stack)
  local clone = { top = top, base = top, allowed = setmetatable({}, WEAK) }
  for object, its in next, stack.allowed do clone.allowed[object] = its end
  return clone
end

--- Begins a scope.  `tracked` is the number of the object that was tracked
-- last.  Returns the handle.
function scope.open(stack, tracked)
  local its = { open = false, since = tracked, stack = stack }
  local handle = new(its)
  innermost(stack)
  its.outer, its.open, stack.top = stack.top, true, its
  return handle
end

--- Ends the scope, and the scopes inside it before.  A second call does
-- nothing.
function Scope:close()
  local its = state_of(self, "close")
  innermost(its.stack)
  if its.open then cut(its.stack, its) end
end

Scope.__close = Scope.close
Scope.__gc = Scope.close

--- Allows writes to an object in the innermost scope.
function scope.allow(stack, object)
  local allowed, top = stack.allowed, innermost(stack)
  if not (allowed[object] and is_open(allowed[object])) then
    allowed[object] = top
  end
end

local function is_allowed(stack, item)
  if item.nth > innermost(stack).since then return true end
  local its = stack.allowed[item.object]
  return its and is_open(its)
end

--- Refuses a write to an object that is older than the innermost scope, or
-- warns, as the option `policy` says.
function scope.check(stack, item, policy, name, level)
  if policy == "silent" or is_allowed(stack, item) then return end
  local message = ("'%s' writes to what was tracked outside of the scope")
    :format(name)
  if policy ~= "warn" then error(message, level) end
  warn(message)
end

return scope

--- Scopes of a plan: in a scope, older objects must not be written to.
-- SPDX-License-Identifier: MIT
--
-- The scopes of a plan are linked from the innermost one outwards:
--
--     stack.top -> scope -> scope.outer -> ... -> the outermost scope
--
-- A scope knows its stack and the number of the object that was tracked last
-- before the scope began.  The end of a scope marks the scope and those inside
-- it on its stack as no longer open.  Scopes that are not open leave a stack
-- when its top is looked for.  The stack of a clone begins with the scopes of
-- the original, which ends them.
--
-- `stack.allowed` has the scope in which each object was allowed; the object is
-- allowed as long as this scope is open.
--
-- The plan holds the stack; the program holds a handle of each scope, so that
-- the collector ends a scope whose handle is lost.

local check = require "moonwatch.check"

local Scope, state_of, new = check.class "scope"

local scope = {}

-- Returns the innermost open scope.
local function innermost(stack)
  while not stack.top.open do stack.top = stack.top.outer end
  return stack.top
end

local function new_stack(top)
  return { top = top, allowed = setmetatable({}, { __mode = "k" }) }
end

--- Returns a stack with the scope that is always open.
function scope.stack() return new_stack { open = true, since = 0 } end

--- Returns a stack for a clone.
function scope.clone(stack)
  local clone = new_stack(stack.top)
  for object, its in next, stack.allowed do clone.allowed[object] = its end
  return clone
end

--- Begins a scope.  `tracked` is the number of the object that was tracked
-- last.  Returns the handle.
function scope.open(stack, tracked)
  local its = { open = false, since = tracked, stack = stack }
  local handle = new(its)
  its.outer, its.open, stack.top = innermost(stack), true, its
  return handle
end

--- Ends the scope, and the scopes inside it before.  A second call does
-- nothing.  Needs no memory, because a finaliser may call this.
function Scope:close()
  local its = state_of(self, "close")
  local inner = its.stack.top
  while its.open do
    inner.open = false
    inner = inner.outer
  end
end

Scope.__close = Scope.close
Scope.__gc = Scope.close

--- Allows writes to an object in the innermost scope.
function scope.allow(stack, object)
  local its = stack.allowed[object]
  if not (its and its.open) then stack.allowed[object] = innermost(stack) end
end

--- Refuses a write to an object that is older than the innermost scope, or
-- warns, as the option `policy` says.
function scope.check(stack, item, policy, name, level)
  local its = stack.allowed[item.object]
  if policy == "silent" or item.nth > innermost(stack).since or
    its and its.open then
    return
  end
  local message = ("'%s' writes to what was tracked outside of the scope")
    :format(name)
  if policy ~= "warn" then error(message, level) end
  warn(message)
end

return scope

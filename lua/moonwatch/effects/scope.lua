--- Scopes of a plan: in a scope, older objects must not be written to.
-- SPDX-License-Identifier: MIT
--
-- A plan has a stack of scopes; the first one is always open.  A scope knows
-- its stack and the number of the object that was tracked last before it began.
-- Its end marks it and those inside it as no longer open; such scopes leave a
-- stack when its top is looked for.  The stack of a clone begins with the
-- scopes of the original, which ends them.
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
  while not stack[#stack].open do stack[#stack] = nil end
  return stack[#stack]
end

--- Returns a stack with the scope that is always open.
function scope.stack()
  return { { open = true, since = 0 },
    allowed = setmetatable({}, { __mode = "k" }) }
end

--- Returns a stack for a clone.
function scope.clone(stack)
  local clone = scope.stack()
  table.move(stack, 1, #stack, 1, clone)
  for object, its in next, stack.allowed do clone.allowed[object] = its end
  return clone
end

--- Begins a scope.  `tracked` is the number of the object that was tracked
-- last.  Returns the handle.
function scope.open(stack, tracked)
  local its = { open = false, since = tracked, stack = stack }
  local handle = new(its)
  innermost(stack)
  stack[#stack + 1], its.open = its, true
  return handle
end

--- Ends the scope, and the scopes inside it before.  A second call does
-- nothing.  Needs no memory, because a finaliser may call this.
function Scope:close()
  local its = state_of(self, "close")
  local i = #its.stack
  while its.open do its.stack[i].open, i = false, i - 1 end
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

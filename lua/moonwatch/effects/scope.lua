--- Scopes of pending effects: in a scope, older objects must not be written to.
-- SPDX-License-Identifier: MIT
--
-- The open scopes are a stack.  A scope knows the number of the object that was
-- tracked last before the scope began, and the older objects that it allows.
-- The effects hold that; the program holds a handle, so that the collector ends
-- a scope whose handle is lost.

local check = require "moonwatch.check"

local Scope, check_self = check.class "scope"

local scope = {}

local function allowed(outer)
  return setmetatable({}, { __index = outer, __mode = "k" })
end

local function innermost(effects)
  return effects.scopes[#effects.scopes]
end

--- Returns the scope that is always open.
function scope.outermost()
  return { since = 0, allowed = allowed() }
end

--- Begins a scope.  Returns its handle.
function scope.open(effects)
  local its = {
    since = effects.tracked, allowed = allowed(innermost(effects).allowed),
  }
  local handle = setmetatable({ effects = effects, its = its }, Scope)
  effects.scopes[#effects.scopes + 1] = its
  return handle
end

--- Ends the scope and the scopes inside it.  A second call does nothing.
function Scope:close()
  check_self(self, "close")
  local scopes = self.effects.scopes
  for i = #scopes, 1, -1 do
    if scopes[i] == self.its then
      for j = #scopes, i, -1 do scopes[j] = nil end
    end
  end
end

Scope.__close = Scope.close
Scope.__gc = Scope.close

--- Allows writes to an object in the innermost scope.
function scope.allow(effects, object)
  innermost(effects).allowed[object] = true
end

--- Refuses a write to an object that is older than the innermost scope, or
-- warns, as the effects' option `policy` says.
function scope.check(effects, item, name, level)
  local its = innermost(effects)
  if item.nth > its.since or its.allowed[item.object] then return end
  local how = effects.opts.policy or "error"
  local message = ("'%s' writes to what was tracked outside of the scope")
    :format(name)
  if how == "error" then error(message, level) end
  if how == "warn" then warn(message) end
end

return scope

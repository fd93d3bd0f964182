--- Scopes of pending effects: in one, what is older is not to be written.
-- SPDX-License-Identifier: MIT
--
-- The open ones are a stack, each with the number of the object that was
-- tracked last before it began, and the objects that it allows all the same.
-- The effects have that; the program has a handle, so that a scope whose handle
-- is lost is ended by the collector.

local metatable = require("moonwatch.core").private.metatable

local Scope = {}
Scope.__index = Scope
Scope.__name = "scope"
Scope.__metatable = false

local scope = {}

local function allowed(outer)
  return setmetatable({}, { __index = outer, __mode = "k" })
end

local function innermost(effects)
  return effects.scopes[#effects.scopes]
end

--- The one that is always open.
function scope.outermost()
  return { since = 0, allowed = allowed() }
end

--- Begins a scope.
function scope.open(effects)
  local its = {
    since = effects.tracked, allowed = allowed(innermost(effects).allowed),
  }
  local handle = setmetatable({ effects = effects, its = its }, Scope)
  effects.scopes[#effects.scopes + 1] = its
  return handle
end

--- Ends the scope, and those in it.  May be called twice.
function Scope:close()
  if metatable(self) ~= Scope then
    error(("calling 'close' on bad self (scope expected, got %s)"):format(
      type(self)), 2)
  end
  local scopes = self.effects.scopes
  for i = #scopes, 1, -1 do
    if scopes[i] == self.its then
      for j = #scopes, i, -1 do scopes[j] = nil end
    end
  end
end

Scope.__close = Scope.close
Scope.__gc = Scope.close

--- Lets an object be written in the innermost scope.
function scope.allow(effects, object)
  innermost(effects).allowed[object] = true
end

--- Refuses a write to what is older than the innermost scope, or warns of it.
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

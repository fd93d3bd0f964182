--- A hook that is registered when a plan is applied.
-- SPDX-License-Identifier: MIT
--
-- A plan has the hooks that it will register, and knows those that it has
-- registered, as long as their objects are alive.

local check = require "moonwatch.check"
local object_class = require "moonwatch.policy.object_class"
local policy = require "moonwatch.policy"
local same = require "moonwatch.same"

local Hook, state_of, handle = check.class("hook", nil, "index")

local hook = {}

--- Returns a hook of an object.
function hook.new(plan, index, object, event, fn)
  return {
    plan = plan, index = index, object = object, event = event, fn = fn,
    registered = false, removed = false,
  }
end

--- Returns the handle of a hook for the program.
hook.handle = handle

--- Tells whether the policy lets a hook of the object name the event.
function hook.is_event(object, event)
  local events = policy.hooks(object_class.of(object)).events
  for _, known in ipairs(events or {}) do
    if same(known, event) then return true end
  end
  return not events
end

--- Returns an empty table of registered hooks, object -> index -> hook, which
-- keeps the hooks of an object alive as long as the object is.
function hook.list() return setmetatable({}, { __mode = "k" }) end

--- Returns the registered hook of an index, or nil.
function hook.find(registered, index)
  for _, hooks in next, registered do
    if hooks[index] then return hooks[index] end
  end
end

--- Raises if the hook cannot be registered.
function hook.check(self)
  if policy.has "register" or self.object.on ~= nil then return end
  error(("hook %d: its object has no method 'on'"):format(self.index), 0)
end

--- Registers the hook with the policy's `register` or `object:on(event, fn)`.
function hook.register(self)
  local object, event, fn = self.object, self.event, self.fn
  local of, has_rule = self.plan.registered, policy.has "register"
  of[object] = of[object] or {}
  of[object][self.index] = self
  self.registered = has_rule and
    (select(2, policy.ask("register", object, event, fn))) or
    not has_rule and object:on(event, fn) or false
end

--- Ends the registration, if the registration returned a handle that can.
function hook.undo(self)
  local registration = self.registered
  local kind = type(registration)
  self.registered = false
  if kind == "table" or kind == "userdata" then
    local remove = registration.remove or registration.cancel
    if remove then remove(registration) end
  end
  local hooks = self.plan.registered[self.object]
  if hooks then hooks[self.index] = nil end
end

--- Takes a hook back, and its registration if the plan was applied.  A
-- second call does nothing.
function hook.remove(self)
  local hooks = self.plan.its.hooks
  if hooks[self.index] == self then hooks[self.index] = nil end
  self.removed = true
  hook.undo(self)
end

function Hook:remove() hook.remove(state_of(self, "remove")) end

Hook.cancel = Hook.remove

return hook

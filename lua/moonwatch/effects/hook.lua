--- A hook that is registered when a plan is applied.
-- SPDX-License-Identifier: MIT
--
-- A plan finds a registered hook by its index, as long as the hook's
-- object is alive.

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

--- Returns what a clone of the plan has instead of a hook.
function hook.clone(self, plan)
  return hook.new(plan, self.index, self.object, self.event, self.fn)
end

--- Tells whether the policy lets a hook of the object name the event.
function hook.is_event(object, event)
  local events = policy.hooks(object_class.of(object)).events
  for _, known in ipairs(events or {}) do
    if same(known, event) then return true end
  end
  return not events
end

-- {======================================================
-- Registered hooks
-- =======================================================

--- Returns an empty list of registered hooks: `by_index` finds a hook; `of`
-- keeps the hooks of an object alive, as long as the object is.
function hook.list()
  return {
    by_index = setmetatable({}, { __mode = "v" }),
    of = setmetatable({}, { __mode = "k" }),
  }
end

local function list(self)
  local its = self.plan.its.registered
  local of = its.of[self.object] or {}
  its.of[self.object] = of
  of[self.index], its.by_index[self.index] = self, self
end

local function unlist(self)
  local of = self.plan.its.registered.of[self.object]
  if of then of[self.index] = nil end
end

-- Returns the function that ends a registration, if there is one.
local function remover(registration)
  local kind = type(registration)
  if kind ~= "table" and kind ~= "userdata" then return nil end
  return registration.remove or registration.cancel
end

--- Raises if the hook cannot be registered.
function hook.check(self)
  if policy.has "register" or self.object.on ~= nil then return end
  error(("hook %d: its object has no method 'on'"):format(self.index), 0)
end

local function ask(...)
  local _, registration = policy.ask("register", ...)
  return registration
end

--- Registers the hook with the policy's `register` or `object:on(event, fn)`.
function hook.register(self)
  local object, on = self.object, ask
  list(self)
  if not policy.has "register" then on = object.on end
  self.registered = on(object, self.event, self.fn) or false
end

--- Ends the registration, if the registration returned a handle that can.
function hook.undo(self)
  local registration = self.registered
  local remove = remover(registration)
  self.registered = false
  if remove then remove(registration) end
  unlist(self)
end

-- }======================================================

--- Takes a hook back, and its registration if the plan was applied.  A
-- second call does nothing.
function hook.remove(self)
  if self.removed and not self.registered then return end
  self.removed = true
  hook.undo(self)
end

--- Does this for the handle of the hook.
function Hook:remove()
  hook.remove(state_of(self, "remove"))
end

Hook.cancel = Hook.remove

return hook

--- A hook that is registered when pending effects are applied.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local policy = require "moonwatch.policy"

local Hook, check_self = check.class "hook"

local function remove_from(list, value)
  for i, element in ipairs(list) do
    if rawequal(element, value) then return table.remove(list, i) end
  end
end

--- Ends the registration, if the registration returned a handle that can.
function Hook:undo()
  local handle = self.registered
  self.registered = false
  if type(handle) ~= "table" and type(handle) ~= "userdata" then return end
  local remove = handle.remove or handle.cancel
  if remove then remove(handle) end
end

--- Takes the hook back, and its registration if the effects were applied.  A
-- second call does nothing.
function Hook:remove()
  check_self(self, "remove")
  if self.removed then return end
  self.removed = true
  remove_from(self.effects.hooks, self)
  self:undo()
end

Hook.cancel = Hook.remove

--- Raises if the hook cannot be registered.
function Hook:check()
  if policy.has "register" or self.object.on ~= nil then return end
  error(("hook %d: its object has no method 'on'"):format(self.index), 0)
end

--- Registers the hook with the policy's `register` or `object:on(event, fn)`.
function Hook:register()
  local asked, handle = policy.ask("register", self.object, self.event, self.fn)
  self.registered = handle
  if not asked then self.registered = self.object:on(self.event, self.fn) end
end

--- Calls the saves and registers the hooks of pending effects.  Raises before
-- the first call if one of them is impossible.
function Hook.prepare(self)
  for i, save in ipairs(self.saves) do
    if save[1].save == nil then
      error(("save %d: its object has no method 'save'"):format(i), 0)
    end
  end
  for _, hook in ipairs(self.hooks) do hook:check() end
  for _, save in ipairs(self.saves) do
    save[1]:save(table.unpack(save, 2, save.n))
  end
  for _, hook in ipairs(self.hooks) do hook:register() end
end

return Hook

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

--- Ends the registration, if what that answered knows how to.
function Hook:undo()
  local handle = self.registered
  self.registered = false
  if type(handle) ~= "table" and type(handle) ~= "userdata" then return end
  local remove = handle.remove or handle.cancel
  if remove then remove(handle) end
end

--- Takes the hook back, also after it was applied.  May be called twice.
function Hook:remove()
  check_self(self, "remove")
  if self.removed then return end
  self.removed = true
  remove_from(self.effects.hooks, self)
  self:undo()
end

Hook.cancel = Hook.remove

--- Raises if there is no way to register it.
function Hook:check()
  if policy.has "register" or self.object.on ~= nil then return end
  error(("hook %d: its object has no method 'on'"):format(self.index), 0)
end

--- Registers it, as the policy says or with `object:on(event, fn)`.
function Hook:register()
  local asked, handle = policy.ask("register", self.object, self.event, self.fn)
  self.registered = handle
  if not asked then self.registered = self.object:on(self.event, self.fn) end
end

--- Does what goes before the writes of pending effects; nothing if part of it
-- cannot be done.
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

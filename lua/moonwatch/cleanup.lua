--- mw.cleanup: fields that are set for a while, or for the life of an owner.
-- SPDX-License-Identifier: MIT
--
-- A handle holds neither the scope nor the value.  A weak map has the states of
-- the handles of each owner in an array; nothing in the array keeps the owner
-- alive.

local check = require "moonwatch.check"
local protect = require "moonwatch.protect"
local core = require "moonwatch.core"
local same = require "moonwatch.same"
local weakmap = require "moonwatch.weakmap"
local private = core.private

local Cleanup, state_of, new = check.class "cleanup"

local WEAK = { __mode = "v" }

-- All copies of this file share the number of handles that have not run.
private.cleanups = private.cleanups or { pending = 0 }
local state = private.cleanups

local function run(self)
  if self.done then return end
  self.done = true
  state.pending = state.pending - 1
  local scope, value = self.held.scope, self.held.value
  if scope == nil or value == nil then return end
  if same(rawget(private.raw(scope), self.name), value) then
    scope[self.name] = nil
  end
end

--- Deletes the field, unless the program has set the field to another value.  A
-- second call does nothing.
function Cleanup:run()
  run(state_of(self, "run"))
end

Cleanup.cancel = Cleanup.run
Cleanup.__close = Cleanup.run

--- Tells whether the handle has not run yet.
function Cleanup:alive()
  return not state_of(self, "alive").done
end

--- Returns the number of all handles that have not run yet.
function Cleanup:pending()
  state_of(self, "pending")
  return state.pending
end

local cleanup = {}

--- Sets the field `name` of `scope`, which must be nil, to `value`.  Returns
-- the handle that deletes the field.
function cleanup.cleanup(scope, name, value)
  check.argument(type(scope) == "table", 1, "cleanup", "table", scope)
  check.argument(name ~= nil and name == name, 2, "cleanup", "key", name)
  check.argument(value ~= nil, 3, "cleanup", "value", value)
  check.that(rawget(private.raw(scope), name) == nil, 2, "cleanup",
    ("the name '%s' is taken"):format(tostring(name)))
  local held = setmetatable({ scope = scope, value = value }, WEAK)
  local self = new { held = held, name = name, done = false }
  scope[name] = value
  state.pending = state.pending + 1
  return self
end

state.owners = state.owners or weakmap(function(handles)
  for _, its in ipairs(handles) do protect("cleanup", run, its) end
end)

--- Runs a handle when its owner has died; an owner may have several handles.
-- Returns the handle.
function cleanup.cleanup_for(owner, handle)
  check.argument(private.is_object(owner), 1, "cleanup_for", "object", owner)
  check.argument(private.metatable(handle) == Cleanup, 2, "cleanup_for",
    "cleanup", handle)
  local handles = state.owners:get(owner) or {}
  handles[#handles + 1] = handle[Cleanup]
  state.owners:set(owner, handles)
  return handle
end

return cleanup

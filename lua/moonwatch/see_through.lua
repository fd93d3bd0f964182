--- mw.see_through: raw functions that know watched objects, in an environment.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local core = require "moonwatch.core"

local private = core.private

-- Lua's own: the environment may be the one of this file.
local getmetatable, next, select = getmetatable, next, select

local SeeThrough, state_of, new = check.class "see_through"

-- All copies of this file share the owners: function -> the handle that has put
-- the function into an environment.
private.see_through_owners = private.see_through_owners or
  setmetatable({}, { __mode = "k" })
local owners = private.see_through_owners

-- Returns the handle that is to put `fn` back: the function stood in the
-- environment when that handle came.  Returns nil if there is no such handle.
local function successor(self, name, fn)
  local above = owners[self.own.rawget(self.env, name)]
  while above and not rawequal(above.former[name], fn) do
    above = owners[above.former[name]]
  end
  return above
end

local function put_back(self, name, fn)
  local former = self.former[name]
  if rawequal(self.own.rawget(self.env, name), fn) then
    self.own.rawset(self.env, name, former)
    return
  end
  local above = successor(self, name, fn)
  if above then above.former[name] = former end
end

--- Puts back what stood in the environment; a function that the program has
-- replaced meanwhile stays.  A second call does nothing.
function SeeThrough:cancel()
  local its = state_of(self, "cancel")
  if its.env == nil or private.put_off(self.cancel, self) then return end
  for name, fn in next, its.own do put_back(its, name, fn) end
  its.env = nil
end

SeeThrough.__close = SeeThrough.cancel

local function put(self)
  local own = self.own
  for name, fn in next, own do
    self.former[name] = own.rawget(self.env, name)
    owners[fn] = self
    own.rawset(self.env, name, fn)
  end
end

-- An object without a class has no metatable.
local function metatable_of(...)
  if select("#", ...) > 0 and private.metatable(...) == nil then return nil end
  return getmetatable(...)
end

-- Returns new functions, so that a handle knows its own.
local function functions()
  local own = private.raw_functions()
  for name, f in next, { rawset = private.raw_set, getmetatable = metatable_of,
    setmetatable = core.setmetatable } do
    own[name] = function(...) return f(...) end
  end
  return own
end

--- Puts `next`, `pairs`, `rawget`, `rawset`, `rawlen`, `getmetatable` and
-- `setmetatable` that know watched objects into the table `env`.  Returns the
-- handle that ends this.
local function see_through(env)
  check.argument(type(env) == "table", 1, "see_through", "table", env)
  local self = { env = env, own = functions(), former = {} }
  local handle = new(self)
  local ok, message = pcall(put, self)
  if not ok then -- memory has run out
    handle:cancel()
    error(message, 0)
  end
  return handle
end

return see_through

--- Mutators: methods that change an object without writing to its fields.
-- SPDX-License-Identifier: MIT
--
-- The policy names the mutators of a class.  As long as the class has watched
-- objects, each mutator is wrapped, and a call of it counts as a write.  The
-- core says which classes have watched objects.

local object_class = require "moonwatch.policy.object_class"
local private = require("moonwatch.core").private

local ipairs, pairs, pcall = ipairs, pairs, pcall

local MEMORY = "not enough memory"
local NONE = {}

local mutators = { class_of = object_class.of }

-- Class with watched objects -> array of the wrappers' layers.
local watched = setmetatable({}, { __mode = "k" })

local function names_of() return NONE end -- until a policy is used

local function finish(self, name, moment, ...)
  private.end_call(self, name, moment)
  return ...
end

local function telling(name)
  return function(method)
    return function(self, ...)
      local moment = private.begin_call(self, name)
      if not moment then return method(self, ...) end
      return finish(self, name, moment, method(self, ...))
    end
  end
end

local function unwrap(layers)
  while #layers > 0 do
    if layers[#layers] then layers[#layers]:cancel() end
    layers[#layers] = nil
  end
end

local function wrap_all(class, layers)
  local seen = {}
  unwrap(layers)
  for _, name in ipairs(names_of(class)) do
    if not seen[name] then
      local wrap, n = require "moonwatch.policy.wrap", #layers + 1
      layers[n] = false -- makes room for the layer
      layers[n] = wrap(class, name, telling(name), true)
    end
    seen[name] = true
  end
end

--- Called when the first object of a class is watched.
function mutators.watched(class)
  watched[class] = watched[class] or {}
  wrap_all(class, watched[class])
end

--- Called when the last watched object of a class is no longer watched.
function mutators.unwatched(class)
  if watched[class] then unwrap(watched[class]) end
  watched[class] = nil
end

--- Called when watched objects have died.  Unwraps the classes that have no
-- watched objects left; if a class raises, the classes after it are unwrapped
-- all the same.
function mutators.deserted()
  local list = {}
  for class in pairs(watched) do
    if private.instances(class) == 0 then list[#list + 1] = class end
  end
  local short
  for _, class in ipairs(list) do
    local ok, err = pcall(mutators.unwatched, class)
    if not ok and err == MEMORY then short = err end
  end
  if short then error(short, 0) end -- the core calls again
end

--- Makes the core call the functions in this file, and the two functions of the
-- policy (or false).
function mutators.install(descend, ignored_by)
  private.hooks {
    descend, ignored_by, mutators.class_of, mutators.watched,
    mutators.unwatched, mutators.deserted,
  }
end

--- Puts a policy into force: its functions for the core, and the mutators that
-- `names(class)` returns in an array.
function mutators.use(names, descend, ignored_by)
  mutators.install(descend, ignored_by)
  names_of = names
  mutators.deserted()
  for class, layers in pairs(watched) do wrap_all(class, layers) end
end

mutators.install(false, false)

return mutators

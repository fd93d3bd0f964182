--- Methods of classes with something around them, given back exactly.
-- SPDX-License-Identifier: MIT
--
-- A method that is patched has one wrapper, whoever patches it and however
-- often; the wrapper calls what the layers make of the original.  With the last
-- layer the wrapper goes.
--
-- A class may keep a method where it likes: in itself, or in tables of its own
-- that its `__newindex` fills and its subclasses copy.  So a patch assigns like
-- anyone, notes which of these tables changed, and puts back what they had.

local core = require "moonwatch.core"

local raw = core.raw

local patches = setmetatable({}, { __mode = "k" }) -- holder -> name -> patch

-- The class and the tables in its fields, each with what it has under the name.
local function places(holder, name)
  local found = { [holder] = { rawget(raw(holder), name) } }
  for _, field in next, raw(holder) do
    if type(field) == "table" then
      found[field] = { rawget(raw(field), name) }
    end
  end
  return found
end

local function compose(patch)
  local call = patch.original
  for _, layer in ipairs(patch.layers) do call = layer.around(call) end
  patch.call = call
end

local function install(holder, name, original)
  local patch = { original = original, layers = {} }
  function patch.wrapper(...) return patch.call(...) end
  patch.places = places(holder, name)
  compose(patch)
  holder[name] = patch.wrapper
  return patch
end

local function restore(holder, name, patch)
  if not rawequal(holder[name], patch.wrapper) then return end -- another's now
  for place, had in next, patch.places do
    had.changed = rawequal(rawget(raw(place), name), patch.wrapper)
  end
  holder[name] = patch.original
  for place, had in next, patch.places do
    if had.changed then rawset(raw(place), name, had[1]) end
  end
end

local Layer = {}
Layer.__index = Layer
Layer.__metatable = false

function Layer:cancel()
  if self.cancelled then return end
  self.cancelled = true
  local patch = self.patch
  for i, layer in ipairs(patch.layers) do
    if layer == self then table.remove(patch.layers, i) end
  end
  compose(patch)
  if #patch.layers == 0 then
    restore(self.holder, self.name, patch)
    patches[self.holder][self.name] = nil
  end
end

Layer.__close = Layer.cancel

--- Puts `around(method)`, a function, in the place of a method.  Answers a
-- handle to `cancel`; nil if there is no such method.
return function(holder, name, around)
  local of_holder = patches[holder] or {}
  local patch = of_holder[name]
  if not patch or not rawequal(holder[name], patch.wrapper) then
    if type(holder[name]) ~= "function" then return nil end
    patch = install(holder, name, holder[name])
  end
  of_holder[name], patches[holder] = patch, of_holder
  local layer = setmetatable(
    { holder = holder, name = name, patch = patch, around = around }, Layer)
  table.insert(patch.layers, layer)
  compose(patch)
  return layer
end

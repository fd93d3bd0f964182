--- Wraps methods of classes, and restores the methods exactly.
-- SPDX-License-Identifier: MIT
--
-- A wrapped method has one wrapper, however many layers there are; the wrapper
-- calls the function that the layers make of the original method.  When the
-- last layer is cancelled, the original method comes back.
--
-- A class may keep a method where it likes: in itself, or in tables of its own
-- that its `__newindex` fills and its subclasses copy.  So the wrapper is put
-- into the class by a plain assignment.  The patch notes which of these tables
-- changed, and gives them back what they had.
--
-- The method of a subclass may be the wrapper of its base class, and is then
-- wrapped again.  In that case the inner wrapper leaves out the layers that may
-- have their effect only once in a call.  A wrapper without layers is never
-- restored as a method.

local check = require "moonwatch.check"
local core = require "moonwatch.core"

local raw = core.private.raw

local patches = setmetatable({}, { __mode = "k" }) -- holder -> name -> patch
local patch_of = setmetatable({}, { __mode = "k" }) -- wrapper -> patch

-- Returns the class and the tables in its fields, each with its value for the
-- name.
local function places(holder, name)
  local found = { [holder] = { rawget(raw(holder), name), changed = false } }
  for _, field in next, raw(holder) do
    if type(field) == "table" then
      found[field] = { rawget(raw(field), name), changed = false }
    end
  end
  return found
end

-- Returns the function that the layers make of the original; `within` another
-- wrapper with layers of effect once, such layers are left out.
local function made(patch, within)
  local once = within
  for _, layer in ipairs(patch.layers) do once = once or layer.once end
  local call = once and patch.inherited or patch.original
  for _, layer in ipairs(patch.layers) do
    if not (within and layer.once) then call = layer.around(call) end
  end
  return call
end

local function compose(patch)
  patch.call, patch.inner = made(patch, false), made(patch, true)
end

local function new_patch(holder, name, original)
  local patch = { original = original, layers = {} }
  local base = patch_of[original]
  if base then
    function patch.inherited(...) return base.inner(...) end
  end
  function patch.wrapper(...) return patch.call(...) end
  patch.places = places(holder, name)
  patch_of[patch.wrapper] = patch
  return patch
end

-- Returns a method without the wrappers that have no layers left.
local function living(method)
  local patch = patch_of[method]
  while patch and #patch.layers == 0 do
    method = patch.original
    patch = patch_of[method]
  end
  return method
end

local function restore(holder, name, patch)
  if not rawequal(holder[name], patch.wrapper) then return end -- no more
  for place, had in next, patch.places do
    had.changed = had.changed or
      rawequal(rawget(raw(place), name), patch.wrapper)
  end
  holder[name] = living(patch.original)
  for place, had in next, patch.places do
    if had.changed then rawset(raw(place), name, living(had[1])) end
  end
end

local Layer = check.class "layer"

local function place_of(layers, layer)
  for i, other in ipairs(layers) do
    if other == layer then return i end
  end
end

function Layer:cancel()
  if self.cancelled then return end
  local patch = self.patch
  local place = place_of(patch.layers, self)
  if place and #patch.layers == 1 then
    restore(self.holder, self.name, patch)
    patches[self.holder][self.name] = nil
  end
  if place then table.remove(patch.layers, place) end
  compose(patch)
  self.cancelled = true
end

Layer.__close = Layer.cancel

local function put(holder, name, patch)
  compose(patch)
  if not rawequal(holder[name], patch.wrapper) then
    holder[name] = patch.wrapper
  end
end

--- Replaces a method by the function `around(method)`.  With `once`, the layer
-- has its effect once in a call, even if an inherited method has such a layer,
-- too.  Returns a handle to `cancel`; nil if there is no such method.  If an
-- assignment raises, the method is as before.
return function(holder, name, around, once)
  local of_holder = patches[holder] or {}
  local patch = of_holder[name]
  if not patch or not rawequal(holder[name], patch.wrapper) then
    if type(holder[name]) ~= "function" then return nil end
    patch = new_patch(holder, name, holder[name])
  end
  of_holder[name], patches[holder] = patch, of_holder
  local layer = setmetatable({ holder = holder, name = name, patch = patch,
    around = around, once = once or false, cancelled = false }, Layer)
  patch.layers[#patch.layers + 1] = layer
  local ok, err = pcall(put, holder, name, patch)
  if ok then return layer end
  pcall(layer.cancel, layer)
  error(err, 0)
end

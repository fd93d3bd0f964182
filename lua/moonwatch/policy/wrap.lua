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
--
-- What a subclass has may be the wrapper of its base, to be wrapped again.  The
-- inner wrapper is then without the layers that are to have their effect once a
-- call; and a wrapper that has gone since is not put back.

local check = require "moonwatch.check"
local core = require "moonwatch.core"

local raw = core.raw

local patches = setmetatable({}, { __mode = "k" }) -- holder -> name -> patch
local patch_of = setmetatable({}, { __mode = "k" }) -- wrapper -> patch

-- The class and the tables in its fields, each with what it has under the name.
local function places(holder, name)
  local found = { [holder] = { rawget(raw(holder), name), changed = false } }
  for _, field in next, raw(holder) do
    if type(field) == "table" then
      found[field] = { rawget(raw(field), name), changed = false }
    end
  end
  return found
end

-- What the layers make of the original; `within` another wrapper that has such
-- layers, those that are to have their effect once are left out.
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

-- A method without the wrappers that have gone.
local function living(method)
  local patch = patch_of[method]
  while patch and #patch.layers == 0 do
    method = patch.original
    patch = patch_of[method]
  end
  return method
end

local function restore(holder, name, patch)
  if not rawequal(holder[name], patch.wrapper) then return end -- another's now
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

function Layer:cancel()
  if self.cancelled then return end
  local patch = self.patch
  if #patch.layers == 1 then
    restore(self.holder, self.name, patch)
    patches[self.holder][self.name] = nil
  end
  self.cancelled = true
  for i, layer in ipairs(patch.layers) do
    if layer == self then table.remove(patch.layers, i) end
  end
  compose(patch)
end

Layer.__close = Layer.cancel

local function put(holder, name, patch)
  compose(patch)
  if not rawequal(holder[name], patch.wrapper) then
    holder[name] = patch.wrapper
  end
end

--- Puts `around(method)`, a function, in the place of a method; with `once`, it
-- has its effect once a call, even if a base's method that is inherited has it
-- as well.  Answers a handle to `cancel`; nil if there is no such method.  If
-- it raises, the method is as it was.
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
  local n = #patch.layers + 1
  patch.layers[n] = layer
  local ok, err = pcall(put, holder, name, patch)
  if ok then return layer end
  patch.layers[n] = nil
  error(err, 0)
end

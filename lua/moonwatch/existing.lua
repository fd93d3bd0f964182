--- What is there when a watch begins: the option `existing` of mw.watch.
-- SPDX-License-Identifier: MIT

local core = require "moonwatch.core"

local private, any = core.private, core.any
local contents, set_valid = private.raw, private.memo.set_valid

local KIND = "existing"

local existing = {}

-- Returns a function that calls a guard.
local function caller(guard)
  if type(guard) == "function" then return guard end
  return function(...)
    if not set_valid(guard, false) then guard:invalidate(...) end
  end
end

-- Returns the keys of an object; those that were put raw into it, too.
local function keys_of(obj)
  local keys = {}
  if type(obj) ~= "table" then return keys end
  for key in next, obj do keys[#keys + 1] = key end
  for key in next, contents(obj) do
    if rawget(obj, key) == nil then keys[#keys + 1] = key end
  end
  return keys
end

-- Returns the present value of a field.
local function value_of(obj, key)
  if type(obj) ~= "table" then return obj[key] end
  local value = rawget(obj, key)
  if value == nil then value = rawget(contents(obj), key) end
  return value
end

local function joined(path, key)
  local longer = table.move(path, 1, #path, 1, {})
  longer[#path + 1] = key
  return longer
end

--- Calls a guard for each field that is there; with the option `path`, which
-- is `whole` here, for the fields at its end.  The guard may do anything, so
-- the keys are listed before.  `reach` is the engine's for a deep watch, else
-- nil.
function existing.tell(root, guard, when, keys, whole, reach)
  local call, seen = caller(guard), {}
  local objects, paths = { root }, { {} }

  -- On a path, an object may come again.
  local function queue(value, path)
    if type(value) ~= "table" or seen[value] and not whole then return end
    if rawequal(value, root) then -- below itself
      if not whole then return end
    elseif not private.is_below(root, value, reach) then
      return
    end
    seen[value] = true
    objects[#objects + 1], paths[#paths + 1] = value, path
  end

  local function tell(place, value, obj)
    if reach then
      call(root, place, nil, value, KIND, obj)
    else
      call(root, place, nil, value, KIND)
    end
  end

  for at, obj in ipairs(objects) do -- which grow
    local path = paths[at]
    local wanted, depth = at == 1 and keys or nil, #path + 1
    if whole and not rawequal(whole[depth], any) then
      wanted = { whole[depth] }
    end
    for _, key in ipairs(wanted or keys_of(obj)) do
      local value = value_of(obj, key)
      local place = reach and joined(path, key) or key
      if value ~= nil then
        if (not whole or depth == #whole) and
          (not when or when(obj, key, nil, value, KIND)) then
          tell(place, value, obj)
        end
        if reach and not (whole and depth == #whole) then
          queue(value, place)
        end
      end
    end
  end
end

return existing

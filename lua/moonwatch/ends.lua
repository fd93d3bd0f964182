--- Watches with a path and `equal = "skip"`: do values at its end differ?
-- SPDX-License-Identifier: MIT

local core = require "moonwatch.core"
local same = require "moonwatch.same"

local contents, any = core.private.raw, core.any

local ends, NONE = {}, {}

local function fields_of(value)
  return type(value) == "table" and contents(value) or NONE
end

-- Does the path, from its key number `i` on, lead from the two values to
-- different values?
local function differ(path, i, a, b)
  local key = path[i]
  if key == nil then return not same(a, b) end
  a, b = fields_of(a), fields_of(b)
  if rawequal(a, b) then return false end
  if not rawequal(key, any) then
    return differ(path, i + 1, rawget(a, key), rawget(b, key))
  end
  for k, value in next, a do
    if differ(path, i + 1, value, rawget(b, k)) then return true end
  end
  for k, value in next, b do
    if differ(path, i + 1, rawget(a, k), value) then return true end
  end
  return false
end

--- Returns the term of such a watch, which the core calls with the depths of
-- the written object: ways of several lengths may lead there.
function ends.term(path, when)
  path = table.move(path, 1, #path, 1, {})
  return { function(obj, key, old, new, kind, ...)
    for i = 1, select("#", ...) do
      if differ(path, select(i, ...) + 2, old, new) then
        return not when or when(obj, key, old, new, kind)
      end
    end
  end }
end

return ends

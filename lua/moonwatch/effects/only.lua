--- effects:only: the part of effects below a root.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local before_after = require "moonwatch.effects.before_after"
local new_ways = require "moonwatch.effects.ways"
local recorded = require "moonwatch.effects.recorded"

local private = core.private

-- Was the object somewhere else at the time of the effects?  What is below no
-- root now was perhaps below this one.
local function is_elsewhere(fx, ways, object)
  if type(object) ~= "table" or ways.walks then return true end
  return not ways:has_moved(object) and (private.intercepts(object) or
    private.is_undone(fx))
end

local function part_below(fx, root)
  local before, after, list = before_after(fx, { root })
  local ways = new_ways({ root = root }, before, true)
  local set, part = ways:reached(after), {}
  for _, e in ipairs(list) do
    if set[e.object] then
      part[#part + 1] = e
    elseif not is_elsewhere(fx, ways, e.object) then
      return nil, "an object that was written has moved since"
    end
  end
  return recorded.inherit(private.effects(part, fx), fx)
end

--- Returns the effects on what is below a root, or was below it at some time
-- within the effects.  Returns nil and a message if that cannot be told any
-- more.
return function(self, root)
  recorded.check(self, "only")
  check.argument(type(root) == "table", 1, "only", "table", root)
  return part_below(self, root)
end

--- effects:to_patch: effects as a JSON patch.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local recorded = require "moonwatch.effects.recorded"
local diff = require "moonwatch.json.diff"
local before_after = require "moonwatch.effects.before_after"

-- Adds a table and all tables below it to a set.
local function reach_below(root, contents, known)
  local queue, seen = { root }, { [root] = true }
  while #queue > 0 do
    local t = table.remove(queue)
    known[t] = true
    for _, value in next, contents(t) do
      if type(value) == "table" and not seen[value] then
        seen[value] = true
        queue[#queue + 1] = value
      end
    end
  end
end

--- Returns an array of RFC 6902 operations that do what the effects have done,
-- for a copy of `root` from before the effects.  Returns nil and a message if
-- JSON cannot say that.
return function(self, root)
  recorded.check(self, "to_patch")
  check.argument(type(root) == "table", 1, "to_patch", "table", root)
  local before, after = before_after(self)
  local known = {}
  reach_below(root, before.contents, known)
  reach_below(root, after.contents, known)
  for object in pairs(before.changed) do
    if not known[object] then
      return nil, "an object was written that is not below the root"
    end
  end
  return diff.operations(root, root, before.contents, after.contents)
end

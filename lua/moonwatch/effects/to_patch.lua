--- Effects as a JSON patch.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local recorded = require "moonwatch.effects.recorded"
local diff = require "moonwatch.json.diff"
local before_after = require "moonwatch.effects.before_after"

-- Adds all tables below one to a set.
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

--- An array of RFC 6902 operations that do to a copy of `root`, as it was
-- before, what the effects have done.  Answers nil and a message if that cannot
-- be said in JSON.
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

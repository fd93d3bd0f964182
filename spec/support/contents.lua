-- The contents of classes, to test that a class is restored exactly.

local assert = require "luassert"

local contents = {}

-- Returns the contents of a class and of the tables in its fields.
function contents.of(class)
  local seen = {}
  local function visit(t, depth)
    if seen[t] or depth == 0 then return end
    seen[t] = { mt = getmetatable(t) }
    for key, value in next, t do
      seen[t][key] = value
      if type(value) == "table" then visit(value, depth - 1) end
    end
    if type(seen[t].mt) == "table" then visit(seen[t].mt, depth) end
  end
  visit(class, 3)
  return seen
end

function contents.assert_unchanged(before, class)
  local after = contents.of(class)
  for t, fields in pairs(before) do
    for key, value in pairs(fields) do
      assert.is_true(rawequal(value, after[t][key]), tostring(key))
    end
    for key in pairs(after[t]) do
      assert.is_not_nil(fields[key], tostring(key))
    end
  end
end

return contents

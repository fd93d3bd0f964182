--- What people call an object: its name in a hierarchy, or its class.
-- SPDX-License-Identifier: MIT
--
-- The core asks when a trace first tells of an object, in the middle of a
-- write, so no function of the program is called here.

local named = require "moonwatch.policy.named"
local object_class = require "moonwatch.policy.object_class"
local private = require("moonwatch.core").private

-- All copies of this file share the hierarchies, with what tells their paths.
private.hierarchies = private.hierarchies or setmetatable({}, { __mode = "k" })

local label = {}

--- Returns the name that an object has in a hierarchy, or nil.
function label.in_hierarchy(obj)
  for hierarchy in pairs(private.hierarchies) do
    local name = hierarchy:name_of(obj)
    if name then return name end
  end
end

--- Returns the name of a class, whose objects have this metatable; or nil.
function label.class(class, mt)
  return named.name(class) or object_class.name(class) or object_class.name(mt)
end

--- Returns the name of an object, or nil.
function label.of(obj)
  return label.in_hierarchy(obj) or
    label.class(object_class.of(obj), private.metatable(obj))
end

return label

--- What belongs to the state below a root, so that messages may write there.
-- SPDX-License-Identifier: MIT
--
-- Bytes and patches come from anywhere, and a write into a class would change
-- what the program does.  So the paths that they name lead to no class (the
-- core's state.c says what that is), nor to a table that has metamethods.

local core = require "moonwatch.core"

local private = core.private
local enters = private.enters

local state = {}

local METAMETHODS = {}
for name in ([[add band bnot bor bxor call close concat div eq gc idiv index le
  len lt metatable mod mode mul name newindex pairs pow shl shr sub tostring
  unm]]):gmatch "%a+" do
  METAMETHODS[#METAMETHODS + 1] = "__" .. name
end

local function has_metamethods(t)
  for _, name in ipairs(METAMETHODS) do
    if rawget(t, name) ~= nil then return true end
  end
  return false
end

local function is_class(classes, child)
  return classes[child] or private.is_class(child) or has_metamethods(child)
end

--- Returns a function(parent, key, child) that tells whether the table `child`
-- is part of the state below the root.  The core knows the classes below a root
-- that is tracked deeply; else the first call looks for the classes.
function state.below(root)
  local classes
  return function(parent, key, child)
    if not enters(root, parent, key, child) then return false end
    if not classes then
      classes = {}
      local is_known = private.has_below(root)
      if not is_known then private.find_classes(root, classes) end
    end
    return not is_class(classes, child)
  end
end

--- Returns a function(parent, key, child) that tells whether the table `child`
-- is a class, for ways that begin at the root.  If the root is not tracked
-- deeply, the classes of objects that no way leads to are not known.
function state.classes(root)
  local classes = {}
  return function(parent, key, child)
    private.add_classes(parent, classes)
    return enters(root, parent, key, child) == nil or is_class(classes, child)
  end
end

return state

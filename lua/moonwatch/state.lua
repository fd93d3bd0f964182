--- What belongs to the state below a root, so that messages may write there.
-- SPDX-License-Identifier: MIT
--
-- Bytes and patches come from anywhere, and a write into a class would change
-- what the program does.  So the ways that they name lead to no class:
-- neither a class of an object below the root, nor a table that such a class
-- inherits from, nor a named class, nor a table that has metamethods.

local core = require "moonwatch.core"
local named = require "moonwatch.policy.named"

local private = core.private
local raw = private.raw
local enters, metatable = private.enters, private.metatable

local state = {}

local METAMETHODS = {}
for name in ([[add band bnot bor bxor call close concat div eq gc idiv index le
  len lt metatable mod mode mul name newindex pairs pow shl shr sub tostring
  unm]]):gmatch "%a+" do
  METAMETHODS[#METAMETHODS + 1] = "__" .. name
end

local function has_metamethods(t)
  local its = raw(t)
  for _, name in ipairs(METAMETHODS) do
    if rawget(its, name) ~= nil then return true end
  end
  return false
end

local LONGEST = 100 -- longer chains of classes are loops

-- Adds the classes of an object, and the tables that these inherit from.
local function add_classes(classes, object)
  local class = metatable(object)
  for _ = 1, LONGEST do
    if type(class) ~= "table" or classes[class] then return end
    local base = rawget(raw(class), "__index")
    classes[class] = true
    if type(base) ~= "table" then return end
    class = metatable(base)
    classes[base] = true
  end
end

-- Returns the classes of all objects below a root.
local function classes_below(root)
  local classes, seen, list = {}, { [root] = true }, { root }
  for _, object in ipairs(list) do
    add_classes(classes, object)
    for key, child in next, raw(object) do
      if type(child) == "table" and not seen[child] and
        enters(root, object, key, child) then
        seen[child] = true
        list[#list + 1] = child
      end
    end
  end
  return classes
end

local function is_class(classes, child)
  return classes[child] or named.name(child) or has_metamethods(child)
end

--- Returns a function(parent, key, child) that tells whether the table `child`
-- is part of the state below the root.  The core knows the classes below a root
-- that is tracked deeply; else the first call looks for the classes.
function state.below(root)
  local classes
  return function(parent, key, child)
    if not enters(root, parent, key, child) then return false end
    classes = classes or private.has_below(root) and {} or classes_below(root)
    return not is_class(classes, child)
  end
end

--- Returns a function(parent, key, child) that tells whether the table `child`
-- is a class, for ways that begin at the root.  If the root is not tracked
-- deeply, the classes of objects that no way leads to are not known.
function state.classes(root)
  local classes = {}
  return function(parent, key, child)
    add_classes(classes, parent)
    return enters(root, parent, key, child) == nil or is_class(classes, child)
  end
end

return state

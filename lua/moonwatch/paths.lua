--- mw.paths: all ways from one object to another.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local private = require("moonwatch.core").private

local parents = private.parents

-- Returns the keys of a way that is on the stack, from the top downwards.
local function way_of(keys, depth)
  local way = {}
  for i = depth, 1, -1 do way[#way + 1] = keys[i] end
  return way
end

--- Returns an array of all ways from an object, which is in a deep watch or
-- track, to an object below: arrays of keys.  No way visits an object twice.
local function paths(obj, below)
  if rawequal(obj, below) then return { {} } end
  local ways, links = {}, {} -- links: object -> its parents, each with a key
  local at, next_link, keys, on_way = { below }, { 1 }, {}, { [below] = true }
  local depth = 1
  while depth > 0 do
    local object, i = at[depth], next_link[depth]
    local its = links[object] or parents(obj, object)
    links[object] = its
    local parent = its[i]
    if parent == nil and its[i + 1] == nil then
      on_way[object] = nil
      depth = depth - 1
    else
      next_link[depth], keys[depth] = i + 2, its[i + 1]
      if rawequal(parent, obj) then
        ways[#ways + 1] = way_of(keys, depth)
      elseif parent ~= nil and not on_way[parent] then
        depth = depth + 1
        at[depth], next_link[depth], on_way[parent] = parent, 1, true
      end
    end
  end
  table.sort(ways, function(a, b) return #a < #b end)
  return ways
end

return function(obj, below, ...)
  if ... ~= nil then check.dot("paths", obj) end
  if type(below) ~= "table" or type(obj) ~= "table" then return {} end
  return paths(obj, below)
end

--- Tracks what a script has: the table of globals, and all tables below it that
-- the script adds.  What was there before stays out: Lua's libraries and the
-- loaded modules.
-- SPDX-License-Identifier: MIT

local mw = require "moonwatch"

local G = _G -- the script may take the global away

-- Returns the set of the tables below the table of globals.
local function tables_below_globals()
  local known, list = { [G] = true }, { G }
  local i = 1
  while list[i] do
    for _, value in next, list[i] do
      if type(value) == "table" and not known[value] then
        known[value] = true
        list[#list + 1] = value
      end
    end
    i = i + 1
  end
  return known
end

--- Begins.  Returns the function that ends this.
return function()
  local known = tables_below_globals()
  local raw = mw.see_through(G)
  mw.track(G, { deep = true, descend = function(_, _, child)
    return not known[child]
  end })
  return function()
    mw.untrack(G)
    raw:cancel()
  end
end

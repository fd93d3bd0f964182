--- mw.refresh: gives the watched objects of a class what the class has now.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local object_class = require "moonwatch.policy.object_class"

local private = core.private

local function refresh(class)
  local n, known = private.refresh_userdata(class), {}
  for _, obj in ipairs(private.intercepting()) do
    local mt = private.metatable(obj)
    if mt ~= nil and not known[mt] then
      known[mt] = true
      if rawequal(mt, class) or rawequal(object_class.of(obj), class) then
        n = n + private.refresh(mt)
      end
    end
  end
  return n
end

--- Gives the watched and tracked objects of a class the metamethods that the
-- class has now.  Returns the number of objects.
return function(class)
  check.argument(type(class) == "table", 1, "refresh", "class", class)
  return private.quietly(refresh, class)
end

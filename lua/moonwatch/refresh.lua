--- mw.refresh: gives the watched objects of a class what the class has now.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local object_class = require "moonwatch.policy.object_class"

local private = core.private

-- Returns the metatables of the intercepted tables of a class.
local function metatables_of(class)
  local list, known = {}, {}
  for _, obj in ipairs(private.watched(true)) do
    local mt = private.metatable(obj)
    if mt ~= nil and not known[mt] then
      known[mt] = true
      if rawequal(mt, class) or rawequal(object_class.of(obj), class) then
        list[#list + 1] = mt
      end
    end
  end
  return list
end

local function is_weak(mt)
  local mode = rawget(mt, "__mode")
  return type(mode) == "string" and mode:find "[kv]" ~= nil
end

local function refresh(class)
  local n, list = 0, metatables_of(class)
  for _, mt in ipairs(list) do
    if is_weak(mt) then return nil end
  end
  for _, mt in ipairs(list) do n = n + private.refresh(mt) end
  return n + private.refresh_userdata(class)
end

--- Gives the watched and tracked objects of a class the metamethods that the
-- class has now.  Returns the number of objects.
return function(class)
  check.argument(type(class) == "table", 1, "refresh", "class", class)
  local n = refresh(class)
  check.that(n, 1, "refresh", "its watched objects cannot become weak")
  return n
end

-- Scenarios for want of memory: what hierarchies are asked and told.  See
-- scenarios.lua.

local attempt = dofile "spec/support/attempt.lua"
local check, whole, look_back = attempt.check, attempt.whole, attempt.look_back

local scenarios = {}

local function tree()
  local Part = { __name = "Part" }
  Part.__index = Part
  function Part.update() end
  local leaf = setmetatable({}, Part)
  return setmetatable({ leaf = leaf }, Part), leaf, Part
end

-- What is not entered does not execute, and is not left.
function scenarios.entered()
  look_back()
  local mw = require "moonwatch"
  local top, leaf, Part = tree()
  local h = mw.hierarchy { root = "Root" }
  local instrumented = h:instrument(Part, { "update" })
  local function depth(n)
    return function()
      local _, _, now = h:current()
      return (now or 0) == n and #h:path() == n
    end
  end
  whole(depth(0), h.enter, h, top)
  local scope = whole(depth(1), h.scope, h, leaf)
  local name, obj, n = h:current()
  check(name == "Part.leaf" and obj == leaf and n == 2 and instrumented)
  check(h:parents().Root and h:parents()["Part.leaf"] and not h:is_reverse())
  check(h:object "Part" == top and table.concat(h:names()) == "PartPart.leaf")
  scope:close()
  h:leave(top)
  check(#h:path() == 0 and h:current() == nil)
  h:enter(top)
  h:reset()
  check(#h:path() == 0 and h:name_of(leaf) == "Part.leaf")
  h:close()
end

-- A pass is visited backward and told of, and then it is off the tape.
function scenarios.backward()
  local mw = require "moonwatch"
  local top, leaf = tree()
  local told, visited = 0, 0
  local function tell() told = told + 1 end
  local h <close> = mw.hierarchy()
  local hook = h:on { enter = tell, leave = tell, reverse_enter = tell,
    reverse_leave = tell }
  h:record()
  h:enter(top)
  h:enter(leaf)
  h:leave(leaf)
  h:leave(top)
  local ok, message = pcall(h.backward, h, function(obj)
    visited = visited + 1
    check(h:is_reverse() and obj == (visited == 1 and top or leaf))
  end)
  check(not h:is_reverse() and #h:path() == 0)
  if not ok then error(message, 0) end
  check(visited == 2 and told == 8)
  hook:cancel()
  h:enter(top)
  h:leave(top)
  check(told == 8)
end

-- A scope that is lost is left; a hierarchy that is lost tells nobody.
function scenarios.forgotten()
  local mw = require "moonwatch"
  local top = tree()
  pcall(mw.reap) -- raises the error of a finaliser that had no memory
  local told, h = 0, mw.hierarchy()
  h:on { leave = function() told = told + 1 end }
  h:scope(top)
  collectgarbage()
  collectgarbage()
  if told == 0 then error("not enough memory", 0) end
  check(h:current() == nil)
  h:scope(top)
  h = nil -- luacheck: ignore 311
  collectgarbage()
  collectgarbage()
  check(told <= 2)
end

-- What is placed elsewhere has its name there, or the former one.
function scenarios.places()
  local mw = require "moonwatch"
  local top, leaf, Part = tree()
  local h <close> = mw.hierarchy()
  h:instrument(Part, { "update" })
  top.list, top.deep = {}, { more = {} }
  h:enter(top)
  for i = 1, 20 do
    local part = setmetatable({}, Part)
    top.list[i] = part
    part:update()
    check(h:name_of(part) == "Part.list." .. i)
  end
  top.leaf, top.deep.more["a.b"] = nil, leaf
  check(h:enter(leaf) == 'Part.deep.more["a.b"]')
  check(table.concat(h:key_path(leaf), " ") == "deep more a.b")
  check(h:object 'Part.deep.more["a.b"]' == leaf)
  check(#h:names() == 22)
  h:leave(leaf)
  h:leave(top)
  check(h:current() == nil)
end

-- Of two classes, one is heard of and recorded.
function scenarios.chosen()
  local mw = require "moonwatch"
  local top, leaf = tree()
  local Other = { __name = "Other" }
  Other.__index = Other
  local other, told, visited = setmetatable({ leaf = leaf }, Other), 0, 0
  local h <close> = mw.hierarchy()
  h:on(Other, { enter = function() told = told + 1 end })
  h:record { only = function(obj) return obj == leaf end }
  for _, obj in ipairs { top, other } do
    local scope <close> = h:scope(obj)
    h:enter(leaf)
    h:leave(leaf)
    check(scope)
  end
  h:backward(function(obj, name)
    visited = visited + 1
    check(obj == leaf and name == (visited == 1 and "Other.leaf" or
      "Part.leaf"))
  end)
  check(told == 1 and visited == 2 and h:current() == nil)
end

return scenarios

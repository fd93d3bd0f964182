-- What spec/support/faults.c runs with failing allocations: each function does
-- something with the library and raises when the outcome is wrong.  It may run
-- a second time in the same state, after the first run ended for want of
-- memory.

local scenarios = {}

local function objects(n)
  local list = {}
  for i = 1, n do list[i] = {} end
  return list
end

function scenarios.ids()
  local mw = require "moonwatch"
  local list = objects(300)
  for i = 1, #list do
    assert(mw.object(mw.id(list[i])) == list[i])
  end
  for i = 2, #list do assert(mw.id(list[i - 1]) ~= mw.id(list[i])) end
end

function scenarios.clocks()
  local mw = require "moonwatch"
  local clock = mw.clock("a name that is not short, so that it is allocated")
  local start = clock:advance()
  local list = objects(300)
  for i = 1, #list do clock:tag(list[i]) end
  local n = 0
  for _, generation in clock:since(start) do
    assert(generation == start)
    n = n + 1
  end
  assert(n == #list)
end

function scenarios.reset()
  local mw = require "moonwatch"
  local clock = mw.clock "reset"
  local object = clock:tag {}
  clock:reset()
  assert(clock:now() == 0 and clock:generation(object) == -1)
end

function scenarios.weakmaps()
  local mw = require "moonwatch"
  local map = mw.weakmap()
  local list = objects(200)
  for i = 1, #list do map:set(list[i], { list[i] }) end
  for i = 1, #list, 2 do assert(map:remove(list[i])[1] == list[i]) end
  assert(#map == 100)
  local n = 0
  for key, value in pairs(map) do
    assert(value[1] == key)
    n = n + 1
  end
  assert(n == 100)
  map:clear()
  assert(#map == 0 and map:get(list[2], "none") == "none")
end

function scenarios.deaths()
  local mw = require "moonwatch"
  local told = 0
  local map = mw.weakmap(function(value, id)
    assert(value > 0 and mw.object(id) == nil)
    told = told + 1
  end)
  for i = 1, 50 do map:set({}, i) end
  for _ = 1, 9 do -- short of memory, Lua leaves some finalisers for later
    collectgarbage()
    while mw.reap(7) > 0 do end
  end
  assert(#map == 0)
  assert(told == 50, "told of " .. told)
end

function scenarios.marks()
  local mw = require "moonwatch"
  local class = {}
  mw.mark_dynamic(class)
  assert(mw.is_marked(class))
  mw.mark_dynamic(class, false)
  assert(not mw.is_marked(class))
end

function scenarios.misuse()
  local mw = require "moonwatch"
  local ok, message = pcall(mw.id, 5)
  assert(not ok and (message:find "bad argument" or message:find "memory"))
end

return scenarios

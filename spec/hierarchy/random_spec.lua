-- Random worlds of objects in fields and in plain tables, some of them shared
-- or moved while others execute.  What an object is called leads to it, and is
-- below one that holds it and executes, if there is one.

local mw = require "moonwatch"
local private = require("moonwatch.core").private
local raw_of = require "spec.support.raw_of"
local with_seed = require "spec.support.with_seed"

local ROUNDS, STEPS = 15, 150

local Node = { __name = "Node" }
Node.__index = Node
function Node.update() end

local KEYS = { "a", "b", "c.d", 1, 2, 3 }

local function pick(list) return list[math.random(#list)] end

local function text_of(key)
  if type(key) == "number" then return "." .. key end
  return key:find "%." and ('["%s"]'):format(key) or "." .. key
end

-- Calls found(way) for each way from the table to the object.
local function each_way(t, obj, found, way, seen)
  if seen[t] then return end
  seen[t] = true
  for key, value in next, raw_of(t) do
    if rawequal(value, obj) then found(way .. text_of(key)) end
    if type(value) == "table" and getmetatable(value) ~= Node then
      each_way(value, obj, found, way .. text_of(key), seen)
    end
  end
  seen[t] = nil
end

-- As large as fits a search that has found nothing before.
local function new_world(watched)
  local world = { objects = {}, tables = {} }
  for i = 1, 6 do world.objects[i] = setmetatable({}, Node) end
  for i = 1, 3 do world.tables[i] = {} end
  world.all = table.move(world.objects, 1, 6, 1, {})
  table.move(world.tables, 1, 3, 7, world.all)
  if watched then
    for i = 2, #world.all, 3 do mw.watch(world.all[i], print, { key = {} }) end
  end
  return world
end

-- Stores something somewhere; no plain table comes to be below itself.
local function change(world)
  local holder, value = pick(world.all), pick(world.all)
  if math.random(3) == 1 then value = nil end
  if getmetatable(value) ~= Node and getmetatable(holder) ~= Node then
    value = pick(world.objects)
  end
  holder[pick(KEYS)] = value
end

-- The names that the object may have by what executes.
local function expected(stack, h, obj)
  local names, any = {}, false
  for i = #stack, 1, -1 do
    if not rawequal(stack[i], obj) then
      local above = h:name_of(stack[i])
      each_way(stack[i], obj, function(way) names[above .. way] = true end, "",
        {})
      any = any or next(names) ~= nil
    end
  end
  return any and names
end

local function is_in(list, obj)
  for _, other in ipairs(list) do
    if rawequal(other, obj) then return true end
  end
end

-- Is the name of the object that of an object below?
local function is_above(h, obj, other)
  local name, of = h:name_of(obj), h:name_of(other)
  return name and of and (of .. "."):find(name, 1, true) == 1 and
    of:find("^[.%[]", #name + 1)
end

local function check_entered(stack, h, obj, name, former)
  assert.equal(name, h:name_of(obj))
  local found = h:object(name)
  if not rawequal(found, obj) and h:name_of(found) ~= name then
    error(("%s leads to another object, %s"):format(name, h:name_of(found)))
  end
  if is_in(stack, obj) then return assert.equal(former, name) end
  local names = expected(stack, h, obj)
  if names and not names[name] then
    for i = 1, #stack do -- it cannot be below what is below it
      if is_above(h, obj, stack[i]) then return end
    end
    error(("%s is called %s"):format(tostring(former), name))
  end
end

local function run(watched)
  local world, stack = new_world(watched), {}
  local h <close> = mw.hierarchy()
  h:instrument(Node, { "update" })
  for _ = 1, STEPS do
    local what = math.random(6)
    if what <= 3 then
      change(world)
    elseif what == 4 and #stack > 0 then
      h:leave(table.remove(stack))
    elseif #stack < 6 then
      local obj = pick(world.objects)
      local former = h:name_of(obj)
      if math.random(2) == 1 then
        check_entered(stack, h, obj, h:enter(obj), former)
      else
        obj:update()
        local after = h:name_of(obj)
        assert.equal(after, h:name_of(h:object(after)))
        assert.equal(after, h:enter(obj))
      end
      stack[#stack + 1] = obj
    end
    local path = h:path()
    assert.equal(#stack, #path)
    for i, obj in ipairs(stack) do assert.equal(h:name_of(obj), path[i]) end
  end
  while #stack > 0 do h:leave(table.remove(stack)) end
  assert.is_nil((h:current()))
  for _, name in ipairs(h:names()) do
    assert.equal(name, h:name_of(h:object(name)))
  end
end

-- Enters and leaves in two hierarchies, of which one never knows a name from
-- before, and so looks for all.
local function run_both(watched)
  local world, stack = new_world(watched), {}
  local knows <close> = mw.hierarchy()
  local looks <close> = mw.hierarchy()
  private.its(looks).engine.named = function() end
  knows:instrument(Node, { "update" })
  looks:instrument(Node, { "update" })
  for _ = 1, STEPS do
    local what, obj = math.random(20), pick(world.objects)
    local held = #stack > 0 and stack[#stack][pick(KEYS)]
    if getmetatable(held) == Node then obj = held end
    if what <= 2 then
      change(world)
    elseif what <= 12 and #stack < 6 then
      assert.equal(looks:enter(obj), knows:enter(obj))
      stack[#stack + 1] = obj
    elseif what <= 17 and #stack > 0 then
      obj = table.remove(stack)
      looks:leave(obj)
      knows:leave(obj)
    elseif what == 18 then
      assert.same(looks:path(), knows:path())
    elseif what == 19 then
      assert.equal(looks:name_of(obj), knows:name_of(obj))
    else
      obj:update()
    end
  end
  assert.same(looks:names(), knows:names())
end

describe("random hierarchies", function()
  for _, watched in ipairs { false, true } do
    it("name objects by where they are" .. (watched and ", watched" or ""),
      function()
        with_seed(function()
          for _ = 1, ROUNDS do run(watched) end
        end)
      end)
    it("know the names that they would find" .. (watched and ", watched" or ""),
      function()
        with_seed(function()
          for _ = 1, ROUNDS do run_both(watched) end
        end)
      end)
  end
end)

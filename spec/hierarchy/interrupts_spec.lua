local interrupted = require "spec.support.interrupted"
local mw = require "moonwatch"

local function class(name)
  local c = { __name = name }
  c.__index = c
  return c
end

local function nothing() end

-- A world with a list of parts, which its update updates.
local function make()
  local World, Part = class "World", class "Part"
  function World:update()
    for _, part in ipairs(self.list) do part:update() end
  end
  function Part:update() self.ran = true end
  local h = mw.hierarchy()
  h:instrument(World, { "update" })
  h:instrument(Part, { "update" })
  local function part() return setmetatable({}, Part) end
  local world = setmetatable({ list = { part(), part() } }, World)
  return { h = h, world = world, part = part, Part = Part }
end

local acts = {
  ["h:scope"] = function(its)
    local outer <close> = its.h:scope(its.world)
    local inner <close> = its.h:scope(its.world.list[1])
    assert(outer and inner)
  end,
  ["a scope that is closed"] = function(its)
    its.h:scope(its.world):close()
  end,
  ["a scope of a coroutine"] = function(its)
    local co = coroutine.wrap(function()
      local scope <close> = its.h:scope(its.world)
      coroutine.yield(scope)
    end)
    co()
    co()
  end,
  ["an instrumented call"] = function(its) its.world:update() end,
  ["a call that raises"] = function(its)
    its.world.list[3] = its.part()
    its.world.list[3].update = error
    pcall(its.world.update, its.world)
    its.world.list[3] = nil
  end,
  ["a call of a child that is new"] = function(its)
    local scope <close> = its.h:scope(its.world)
    its.world.list[3] = its.part()
    its.world.list[3]:update()
    its.h:name_of(its.world.list[3])
    assert(scope)
  end,
  ["a call with hooks"] = function(its)
    local hook <close> = its.h:on { enter = nothing, leave = nothing }
    its.world:update()
    assert(hook)
  end,
  ["a call in a trace"] = function(its)
    its.trace = mw.trace { capacity = 1000, sources = { "hierarchy" } }
    its.trace:start()
    its.world:update()
  end,
  ["h:backward"] = function(its)
    its.h:record()
    its.world:update()
    its.h:backward(nothing)
  end,
  ["h:backward with hooks and calls"] = function(its)
    its.h:record { only = function(obj) return obj ~= its.world.list[2] end }
    its.world:update()
    local hook <close> = its.h:on { reverse_enter = nothing,
      reverse_leave = nothing }
    its.h:backward(function() its.world:update() end)
    assert(hook)
  end,
}

describe("an error from outside", function()
  for name, act in pairs(acts) do
    it("leaves nothing executing after " .. name, function()
      local n, fired, ok, err = 0
      repeat
        n = n + 1
        local its = make()
        local h, world = its.h, its.world
        fired, ok, err = interrupted(n, act, its)
        assert(fired or ok, err)
        if its.trace then its.trace:stop() end
        if h:current() then -- a scope that was lost
          collectgarbage()
          collectgarbage()
        end
        local path = table.concat(h:path(), " ")
        if path ~= "" or h:is_reverse() or h:current() then
          error(("interrupted at %d: executing %s"):format(n, path))
        end
        world.list[3] = nil
        local seen
        function its.Part.look() seen = h:current() end
        h:instrument(its.Part, { "look" })
        world.list[1]:look()
        assert.equal(h:name_of(world.list[1]), seen)
        assert.equal("World.list.1", h:enter(world) .. ".list.1")
        assert.equal("World.list.1", h:enter(world.list[1]))
        h:close()
      until not fired
    end)
  end

  it("leaves no method wrapped once the hierarchy is closed", function()
    local n, fired = 0
    repeat
      n = n + 1
      local Class = { update = nothing, draw = error }
      local h = mw.hierarchy()
      fired = interrupted(n, h.instrument, h, Class, { "update", "draw" })
      h:close()
      assert.same({ nothing, error }, { Class.update, Class.draw })
    until not fired
  end)

  it("leaves what was not cancelled to the next call", function()
    local n, fired = 0
    repeat
      n = n + 1
      local Class = { update = nothing, draw = error }
      local h <close> = mw.hierarchy()
      local other = h:instrument(Class, { "draw" })
      local handle = h:instrument(Class, { "update", "draw" })
      fired = interrupted(n, handle.cancel, handle)
      if n % 2 == 0 then handle:cancel() else h:close() end
      assert.equal(nothing, Class.update)
      if n % 2 == 0 then other:cancel() end
      assert.equal(error, Class.draw)
    until not fired
  end)

  it("leaves no hook that is called after its end", function()
    local n, fired = 0
    repeat
      n = n + 1
      local heard = 0
      local h <close> = mw.hierarchy()
      local handle = h:on { enter = function() heard = heard + 1 end }
      fired = interrupted(n, handle.cancel, handle)
      handle:cancel()
      h:scope({}):close()
      assert.equal(0, heard)
    until not fired
  end)
end)

local mw = require "moonwatch"
local styles = require "spec.support.styles"

local original = mw.policy({}):use()
local h

before_each(function() h = mw.hierarchy() end)

after_each(function()
  original:use()
  h:close()
end)

local function class(name)
  local c = { __name = name }
  c.__index = c
  function c.update(self, f) return f and f(self) end
  h:instrument(c, { "update" })
  return c
end

-- A world that calls a function of its own, and makers of what is in it.
local function make()
  local World, Part = class "World", class "Part"
  local world = setmetatable({ list = {}, others = {} }, World)
  return world, function() return setmetatable({}, Part) end
end

-- Returns the name under which an instrumented method runs.
local function seen(part)
  return part:update(function() return (h:current()) end)
end

describe("the name of an object", function()
  it("never goes round, whoever enters what holds its holder", function()
    local world, new = make()
    local a, b, c = new(), new(), new()
    a.next, b.next = b, a
    a:update()
    world:update(function() c:update(function() b:update() end) end)
    assert.equal("Part.next", h:name_of(b))
    assert.same({ "next" }, h:key_path(b))
  end)

  it("may be long, and follows what is above", function()
    local root, path = {}, {}
    local last = root
    for i = 1, 300 do
      path[i] = {}
      last.child, last = path[i], path[i]
    end
    local top = h:enter(root)
    for i = 1, 300 do
      assert.equal(top .. (".child"):rep(i), h:enter(path[i]))
    end
    assert.equal(top .. (".child"):rep(290), h:name_of(path[290]))
    for i = 300, 100, -1 do h:leave(path[i]) end
    path[99].child, path[99].other = nil, path[100]
    local moved = top .. (".child"):rep(99) .. ".other"
    for i = 100, 300 do
      assert.equal(moved .. (".child"):rep(i - 100), h:enter(path[i]))
    end
    for i = 300, 1, -1 do
      local above = i < 100 and top .. (".child"):rep(i) or
        moved .. (".child"):rep(i - 100)
      assert.equal(above, (h:current()))
      h:leave(path[i])
    end
    h:leave(root)
  end)

  it("is the usual one where the program's function says nothing", function()
    local told = {}
    mw.on_error(function(err) told[#told + 1] = err end)
    local policy = mw.policy { name = function() error("no name", 0) end,
      class_name = function() error("no class", 0) end }
    for _, opts in ipairs { {}, { name = function() end,
      class_name = function() return 5 end } } do
      if not opts.name then policy:use() else original:use() end
      local its <close> = mw.hierarchy(opts)
      local root = setmetatable({ list = { {} } }, { __name = "Root" })
      assert.equal("Root", its:enter(root))
      assert.equal("Root.list.1", its:enter(root.list[1]))
      root.late = setmetatable({}, { __name = "Late" })
      assert.equal("Root.late", its:enter(root.late))
    end
    mw.on_error(nil)
    table.sort(told)
    assert.same({ "no class", "no name" }, told)
  end)

  it("leads to the object, whatever the keys", function()
    local world, part = make()
    local keys = { "a", "a.b", 'say "x"', "it's", "[1]", "", "1", 1, -1, 1.5,
      true, "true", "a\nb", "back\\slash", "#", " ", "\0" }
    for _, key in ipairs(keys) do
      world[key] = part()
      world.list[key] = part()
    end
    world.a.b, world.list.a.list = { b = part() }, { a = part() }
    h:enter(world)
    local taken = {}
    for _, name in ipairs(h:names()) do
      local obj = h:object(name)
      assert.equal(name, h:name_of(obj))
      assert.is_nil(taken[obj])
      taken[obj] = true
      local value = world
      for _, key in ipairs(h:key_path(obj)) do value = value[key] end
      assert.equal(obj, value)
    end
    assert.equal(2 * #keys + 3, #h:names())
    assert.equal('World["a.b"]', h:name_of(world["a.b"]))
    assert.equal('World.list["say \\"x\\""]', h:name_of(world.list['say "x"']))
    assert.equal("World.list.1", h:name_of(world.list[1]))
    assert.equal('World.list["1"]', h:name_of(world.list["1"]))
    for _, name in ipairs { "World.", "World[", 'World["', 'World["a',
      "World.x", "World.list.1.2", "", "." } do
      assert.is_nil(h:object(name))
    end
    assert.is_nil(h:object(1))
  end)

  it("is below one that executes and holds it, whatever its class", function()
    local world = make()
    local plain = setmetatable({}, {})
    for _, obj in ipairs { plain, io.tmpfile(), function() end,
      coroutine.create(print),
      setmetatable({}, { __index = {}, __name = "Other" }) } do
      world.list = { deep = { obj } }
      world:update(function()
        assert.equal("World.list.deep.1", h:enter(obj))
        assert.same({ "list", "deep", 1 }, h:key_path(obj))
        h:leave(obj)
      end)
    end
  end)

  it("is that of the innermost which holds it", function()
    local world, part = make()
    local inner, shared = part(), part()
    world.inner, world.shared = inner, shared
    world:update(function()
      assert.equal("World.shared", seen(shared))
      inner:update(function()
        assert.equal("World.shared", seen(shared))
        inner.list = { shared }
        world.shared = nil
        assert.equal("World.inner.list.1", seen(shared))
      end)
    end)
  end)

  it("has each plain table on the way, at any depth", function()
    local path, last = {}, {}
    for i = 1, 3000 do
      path[i], last.child = last, {}
      last = last.child
    end
    for _ = 1, 2 do
      local name
      for i = 1, #path do name = h:enter(path[i]) end
      for i = #path, 1, -1 do h:leave(path[i]) end
      assert.matches("^table[#%d]*" .. ("%.child"):rep(2999) .. "$", name)
    end
  end)

  it("is a root's while nobody that executes holds it", function()
    local world, part = make()
    local logger = part()
    world:update(function()
      for _ = 1, 3 do assert.equal("Part", seen(logger)) end
      world.logger = logger
      assert.equal("World.logger", seen(logger))
      world.logger = nil
      assert.equal("Part", seen(logger))
    end)
  end)

  it("is not below what is below it", function()
    local world, part = make()
    world.child = part()
    world.child.parent, world.child.all = world, { world }
    world:update()
    world.child:update(function()
      assert.equal("World", seen(world))
      assert.equal("World.child", h:name_of(world.child))
    end)
    local spawned = part()
    spawned.world, world.list[1] = world, spawned
    world:update(function() assert.equal("World.list.1", seen(spawned)) end)
  end)

  it("is found for each that is added", function()
    local world, part = make()
    for i = 1, 100 do world.list[i], world.others["o" .. i] = part(), part() end
    world:update(function()
      for i = 101, 150 do
        world.list[i] = part()
        world.list[i].siblings = world.list
        assert.equal("World.list." .. i, seen(world.list[i]))
        world.others["o" .. i] = part()
        assert.equal("World.others.o" .. i, seen(world.others["o" .. i]))
        table.insert(world.others, 1, part())
        assert.equal("World.others.1", seen(world.others[1]))
      end
    end)
  end)

  it("may be asked for later", function()
    local world, part = make()
    for i = 1, 100 do world.others[i] = { x = i } end
    world:update(function()
      for i = 1, 50 do
        world.list["k" .. i] = part()
        world.list["k" .. i]:update()
      end
      assert.equal("World.list.k7", h:name_of(world.list.k7))
    end)
    assert.equal(51, #h:names())
    assert.equal(world.list.k9, h:object "World.list.k9")
    local lost = part()
    world:update(function() lost:update() end)
    assert.equal("Part", h:name_of(lost))
  end)

  it("follows what moves", function()
    local world, part = make()
    for i = 1, 40 do world.list[i] = part() end
    world:update(function()
      for _ = 1, 10 do
        assert.equal("World.list.1", seen(world.list[1]))
        table.remove(world.list, 1)
      end
      for i = #world.list, 1, -3 do
        table.remove(world.list, i)
      end
      for i, obj in ipairs(world.list) do
        assert.equal("World.list." .. i, seen(obj))
      end
      local n = #world.list
      world.list[2], world.list[n] = world.list[n], nil
      for i = #world.list, 1, -1 do
        assert.equal("World.list." .. i, seen(world.list[i]))
      end
      world.list[1].below = part()
      world.list[1]:update(function() world.list[1].below:update() end)
      world.others.moved = table.remove(world.list, 1)
      assert.equal("World.others.moved", seen(world.others.moved))
      assert.equal("World.others.moved.below",
        h:name_of(world.others.moved.below))
    end)
  end)

  it("is good in each that shares a list", function()
    local world, part = make()
    local other = setmetatable({ deep = { world.list } }, getmetatable(world))
    for i = 1, 30 do world.list[i] = part() end
    for _ = 1, 3 do
      for system, way in pairs { [world] = ".list.", [other] = ".deep.1." } do
        system:update(function()
          for i, obj in ipairs(world.list) do
            assert.equal(h:name_of(system) .. way .. i, seen(obj))
          end
        end)
      end
      table.remove(world.list, 1)
      world.list[#world.list + 1] = part()
    end
  end)

  it("takes no more memory or stack in a chain", function()
    local N = 20000
    local first = make()
    local Part = getmetatable(first)
    for _, plain in ipairs { true, false } do
      local node = first
      for _ = 1, N do
        node.next = plain and {} or setmetatable({}, Part)
        node = node.next
      end
      if plain then node.next = setmetatable({}, Part) end
      first.walked = nil
      h:close()
      h = mw.hierarchy()
      h:instrument(Part, { "update" })
      collectgarbage()
      local before = collectgarbage "count"
      first:update()
      collectgarbage()
      assert.is_true(collectgarbage "count" - before < N)
      local last = plain and node.next or node
      assert.equal(plain and N + 1 or N, #h:key_path(last))
      assert.equal("World" .. (".next"):rep(plain and N + 1 or N),
        h:name_of(last))
    end
  end)

  it("goes with its object, while others execute", function()
    local world, part = make()
    local co = coroutine.wrap(function() world:update(coroutine.yield) end)
    co()
    local serial = 0
    local function generation()
      world:update(function()
        for _ = 1, 1000 do
          serial = serial + 1
          world.list["spark " .. serial] = part()
          world.list["spark " .. serial]:update()
          world.list["spark " .. serial] = nil
        end
        collectgarbage()
        collectgarbage()
        mw.reap()
        collectgarbage()
      end)
      return collectgarbage "count"
    end
    generation()
    local early = generation()
    for _ = 1, 4 do generation() end
    assert.is_true(generation() - early < 100)
    assert.same({ "World" }, h:names())
    co()
  end)
end)

for name, style in pairs(styles) do
  describe("names in the style " .. name, function()
    it("are found for what is added, moved and shared", function()
      local Base = style.make "Base"
      function Base.update(_, f) return f and f() end
      local Sub = style.make("Sub", Base)
      h:instrument(Base, { "update" })
      h:instrument(Sub, { "update" })
      local one, two = style.construct(Base), style.construct(Sub)
      one.list = {}
      two.parts = one.list
      for i = 1, 10 do
        one:update(function()
          one.list[i] = style.construct(i % 2 == 0 and Sub or Base)
          assert.equal("Base.list." .. i, seen(one.list[i]))
        end)
        two:update(function()
          assert.equal("Sub.parts." .. i, seen(one.list[i]))
        end)
      end
      assert.equal(12, #h:names())
    end)

    it("are told of to hooks of a class", function()
      local Base = style.make "Base"
      function Base.update(_, f) return f and f() end
      local Sub = style.make("Sub", Base)
      h:instrument(Base, { "update" })
      h:instrument(Sub, { "update" })
      local told = {}
      h:on(Sub, { enter = function(_, its) told[#told + 1] = its end })
      local one, two = style.construct(Base), style.construct(Sub)
      one.two = two
      local metatable = getmetatable(one)
      local handle = h:on(metatable, { leave = function(_, its)
        told[#told + 1] = its
      end })
      one:update(function() two:update() end)
      assert.same({ "Base.two", "Base" }, told)
      handle:cancel()
      one:update()
      assert.equal(2, #told)
    end)
  end)
end

describe("an instrumented method", function()
  it("runs as it would plain with a self that is no object", function()
    local Handle = { __name = "Handle" }
    function Handle.describe(value, prefix) return prefix .. type(value) end
    h:instrument(Handle, { "describe" })
    for _, value in ipairs { mw.null, 5, "x", true } do
      assert.equal("a " .. type(value), Handle.describe(value, "a "))
    end
    assert.equal("a nil", Handle.describe(nil, "a "))
  end)
end)

describe("h:record", function()
  it("records some objects only", function()
    local world, part = make()
    world.list = { part(), part(), part() }
    local second = world.list[2]
    h:record { only = function(obj) return obj == second end }
    for _ = 1, 2 do
      world:update(function()
        for _, obj in ipairs(world.list) do obj:update() end
      end)
    end
    local visited = {}
    h:backward(function(obj, name)
      assert.equal(second, obj)
      visited[#visited + 1] = name
      assert.same({ "World", "World.list.2" }, h:path())
    end)
    assert.same({ "World.list.2", "World.list.2" }, visited)
    h:record()
    world:update()
    h:backward(function(obj) visited[#visited + 1] = obj end)
    assert.equal(world, visited[3])
  end)

  it("has the names from then", function()
    local world, part = make()
    local other = setmetatable({ mine = world.list }, getmetatable(world))
    world.list[1] = part()
    world.list[1].below = part()
    h:record()
    for _, system in ipairs { world, other } do
      system:update(function()
        world.list[1]:update(function() world.list[1].below:update() end)
      end)
    end
    local visited = {}
    h:backward(function(_, name)
      local path = h:path()
      assert.equal(name, path[#path])
      visited[#visited + 1] = name
    end)
    assert.same({ "World#2", "World#2.mine.1", "World#2.mine.1.below",
      "World", "World.list.1", "World.list.1.below" }, visited)
  end)

  it("raises what its function raises, with nothing entered", function()
    local world = make()
    h:record { only = function() error("no", 0) end }
    assert.same({ false, "no" }, { pcall(h.enter, h, world) })
    assert.same({ false, "no" }, { pcall(world.update, world) })
    assert.same({}, h:path())
  end)
end)

local raw_of = require "spec.support.raw_of"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local styles = require "spec.support.styles"


-- What an object of a named class is elsewhere after it was sent.
local function sent(object, world)
  world = world or {}
  mw.track(world, { deep = true })
  local _, fx = mw.transaction(function() world.new = object end)
  local bytes, message = fx:to_bytes(world)
  mw.untrack(world)
  if not bytes then return nil, message end
  local twin, problem = mw.patch_bytes({}, bytes)
  return twin and twin.new, problem
end

describe("a class with a name", function()
  for name, style in pairs(styles) do
    if type(style) == "table" then
      it("is found for objects in the style of " .. name, function()
        local class = style.make("Unit " .. name, nil, function(self)
          self.hp = 10
        end)
        local object = style.construct(class)
        object.hp = 7
        assert.equal(class, mw.name_class("Unit " .. name, class))
        local twin = assert(sent(object))
        assert.equal(getmetatable(object), getmetatable(twin))
        assert.are_not.equal(object, twin)
        assert.equal(7, rawget(raw_of(twin), "hp"))
        assert.equal(object.class, twin.class)
      end)
    end
  end

  it("makes its objects by the rule 'new', by allocate, or bare", function()
    local class = { __name = "Made" }
    class.__index = class
    local object = setmetatable({ x = 1 }, class)
    mw.name_class("Made", class, { new = function()
      return setmetatable({ by = "new" }, class)
    end })
    assert.same({ by = "new", x = 1 }, sent(object))
    function class.allocate() return setmetatable({ by = "it" }, class) end
    mw.name_class("Made", class)
    assert.same({ by = "it", x = 1 }, sent(object))
    class.allocate = nil
    assert.same({ x = 1 }, sent(object))
  end)

  it("may fail to make an object, and then nothing changes", function()
    local class = { __name = "Failing" }
    local object, root = setmetatable({}, class), { n = 1 }
    for _, new in ipairs { function() error("no", 0) end,
      function() return 5 end, function() return nil end } do
      mw.name_class("Failing", class, { new = new })
      local made, message = sent(object)
      assert.is_nil(made)
      assert.matches("bad effects: class 'Failing' makes no object: ", message)
    end
    assert.same({ n = 1 }, root)
  end)

  it("is made only when all bytes are right", function()
    local class, made = { __name = "Late" }, 0
    local object = setmetatable({}, class)
    mw.name_class("Late", class, { new = function()
      made = made + 1
      return setmetatable({}, class)
    end })
    local world = mw.track({ a = {} }, { deep = true })
    local _, fx = mw.transaction(function()
      world.new, world.a.x = object, 1
    end)
    local bytes = fx:to_bytes(world)
    assert.is_nil((mw.patch_bytes({}, bytes)))
    assert.equal(0, made)
    assert(mw.patch_bytes({ a = {} }, bytes))
    assert.equal(1, made)
  end)

  it("is the only one that bytes may set", function()
    local class = { __name = "Nobody's" }
    local message = select(2, sent(setmetatable({}, class)))
    assert.equal("a class has no name: see mw.name_class", message)
    local world = mw.track({ t = {}, mt = { __name = "n" } }, { deep = true })
    local _, fx = mw.transaction(function()
      mw.setmetatable(world.t, world.mt)
    end)
    assert.same({ nil, "a class has no name: see mw.name_class" },
      { fx:to_bytes(world) })
  end)

  it("is set and taken away as a metatable", function()
    local class = mw.name_class("State", { __index = { idle = true } })
    local world = mw.track({ job = {}, old = setmetatable({}, class) },
      { deep = true })
    local _, fx = mw.transaction(function()
      mw.setmetatable(world.job, class)
      mw.setmetatable(world.old, nil)
    end)
    local twin = { job = {}, old = setmetatable({}, class) }
    assert(mw.patch_bytes(twin, (assert(fx:to_bytes(world)))))
    assert.equal(class, getmetatable(twin.job))
    assert.is_nil(getmetatable(twin.old))
  end)

  it("that the receiver does not know is refused", function()
    local class = mw.name_class("Gone", { __name = "Gone" })
    local world = mw.track({}, { deep = true })
    local bytes
    do
      local _, fx = mw.transaction(function()
        world.new = setmetatable({}, class)
      end)
      bytes = assert(fx:to_bytes(world))
    end
    world.new = nil
    class = nil -- luacheck: ignore 311
    collectgarbage()
    collectgarbage()
    assert.same({ nil, "bad effects: no class has the name 'Gone'" },
      { mw.patch_bytes({}, bytes) })
  end)

  it("keeps its name until the name is handed over", function()
    local old, new = { __name = "Old" }, { __name = "New" }
    mw.name_class("Taken", old)
    misuse("bad argument #1 to 'name_class' (another class has the name " ..
      "'Taken'; { replace = true } hands it over)",
      mw.name_class, "Taken", new)
    mw.name_class("Taken", old)
    mw.name_class("Taken", new, { replace = true })
    assert.equal(new, getmetatable(sent(setmetatable({}, old))))
    assert.equal(new, getmetatable(sent(setmetatable({}, new))))
  end)

  it("gives the name back when the class has been collected", function()
    mw.name_class("Reloaded", { __name = "Reloaded" })
    collectgarbage()
    collectgarbage()
    local class = { __name = "Reloaded" }
    assert.equal(class, mw.name_class("Reloaded", class))
  end)

  it("may get another name", function()
    local class, other = { __name = "A" }, { __name = "B" }
    mw.name_class("First", class)
    mw.name_class("Second", class)
    mw.name_class("First", other)
    assert.equal(class, getmetatable(sent(setmetatable({}, class))))
    assert.equal(other, getmetatable(sent(setmetatable({}, other))))
  end)

  it("has the rules of the name, and over them those of the policy", function()
    local class = mw.name_class("Cached", { __name = "Cached" },
      { ignore = { "_cache" } })
    local object = mw.track(setmetatable({}, class))
    local _, fx = mw.transaction(function() object._cache, object.x = 1, 1 end)
    assert.equal(1, fx:len())
    local former = mw.policy {
      classes = { Cached = { ignore = { "x" } } },
    }:use()
    _, fx = mw.transaction(function() object._cache, object.x = 2, 2 end)
    assert.equal("_cache", fx:entries()().key)
    assert.equal(1, fx:len())
    former:use()
    mw.name_class("Cached", class)
    _, fx = mw.transaction(function() object._cache, object.x = 3, 3 end)
    assert.equal(2, fx:len())
  end)

  it("may be made by the policy's rule 'new'", function()
    local class = mw.name_class("Ruled", { __name = "Ruled" })
    local former = mw.policy { classes = { Ruled = { new = function()
      return setmetatable({ by = "policy" }, class)
    end } } }:use()
    local twin, message = sent(setmetatable({ x = 1 }, class))
    former:use()
    assert.same({ by = "policy", x = 1 }, twin, message)
  end)

  it("is the name of its objects in hierarchies", function()
    local class = mw.name_class("Level", { __name = "internal" })
    local h <close> = mw.hierarchy()
    local object = setmetatable({}, class)
    assert.equal("Level", h:enter(object))
    h:leave(object)
  end)

  it("is asked for with the right arguments", function()
    misuse("bad argument #1 to 'name_class' (string expected, got nil)",
      mw.name_class)
    misuse("bad argument #2 to 'name_class' (table expected, got number)",
      mw.name_class, "x", 1)
    misuse("bad argument #3 to 'name_class' (unknown rule 'colour')",
      mw.name_class, "x", {}, { colour = 1 })
    misuse("bad argument #3 to 'name_class' (rule 'new' is not a function)",
      mw.name_class, "x", {}, { new = 1 })
  end)
end)

local misuse = require "spec.support.misuse"
local mw = require "moonwatch"

local function collect()
  collectgarbage()
  collectgarbage()
  mw.reap()
end

describe("a cleanup", function()
  it("sets a name, and takes it back once", function()
    local scope = {}
    local handle = mw.cleanup(scope, "name", 1)
    local pending = handle:pending()
    assert.equal(1, scope.name)
    assert.is_true(handle:alive())
    handle:run()
    assert.is_nil(scope.name)
    assert.is_false(handle:alive())
    assert.equal(pending - 1, handle:pending())
    scope.name = 2
    handle:run()
    handle:cancel()
    assert.equal(2, scope.name)
    assert.equal(pending - 1, handle:pending())
  end)

  it("takes back NaN, and no number that is equal", function()
    local scope = {}
    mw.cleanup(scope, "x", 0 / 0):run()
    assert.is_nil(scope.x)
    local handle = mw.cleanup(scope, "y", 1)
    scope.y = 1.0
    handle:run()
    assert.equal("1.0", tostring(scope.y))
  end)

  it("is refused when the name is taken", function()
    local scope = setmetatable({ x = false }, { __index = { y = 1 } })
    local pending = mw.cleanup({}, 1, 1):pending()
    misuse("bad argument #2 to 'cleanup' (the name 'x' is taken)", mw.cleanup,
      scope, "x", 1)
    assert.is_false(scope.x)
    mw.cleanup(scope, "y", 2)
    misuse("(the name 'y' is taken)", mw.cleanup, scope, "y", 1)
    local watched = mw.track { z = 1 }
    misuse("(the name 'z' is taken)", mw.cleanup, watched, "z", 1)
    assert.equal(pending + 1, mw.cleanup(watched, "a", 1):pending() - 1)
  end)

  it("leaves alone what somebody else has put there", function()
    local scope = {}
    local handle = mw.cleanup(scope, "x", "ours")
    scope.x = "theirs"
    handle:run()
    assert.equal("theirs", scope.x)
  end)

  it("ends with its block", function()
    local scope = {}
    do
      local handle <close> = mw.cleanup(scope, "x", 1)
      assert.is_not_nil(handle)
    end
    assert.is_nil(scope.x)
  end)

  it("runs when its owner dies", function()
    local scope, owner = {}, {}
    local handle = mw.cleanup_for(owner, mw.cleanup(scope, "x", function()
      return scope
    end))
    local pending = handle:pending()
    collect()
    assert.is_not_nil(scope.x)
    owner = nil
    collect()
    assert.is_nil(owner)
    assert.is_nil(scope.x)
    assert.is_false(handle:alive())
    handle:run()
    assert.equal(pending - 1, handle:pending())
  end)

  it("is not forgotten when its owner gets another one", function()
    local scope, owner = {}, {}
    mw.cleanup_for(owner, mw.cleanup(scope, "x", 1))
    local second = mw.cleanup_for(owner, mw.cleanup(scope, "y", 1))
    second:run()
    owner = nil
    collect()
    assert.is_nil(owner)
    assert.same({}, scope)
  end)

  it("keeps neither scope nor value nor owner alive", function()
    local owner = {}
    local weak = setmetatable({}, { __mode = "v" })
    do
      local scope, value = {}, {}
      weak.scope, weak.value = scope, value
      mw.cleanup_for(owner, mw.cleanup(scope, "x", value))
    end
    collect()
    assert.is_nil(next(weak))
    weak.owner = owner
    mw.cleanup_for(owner, mw.cleanup({}, "x", owner))
    owner = nil
    collect()
    assert.is_nil(owner)
    assert.is_nil(next(weak))
  end)

  it("is used as it should be", function()
    misuse("bad argument #1 to 'cleanup' (table expected, got nil)",
      mw.cleanup)
    misuse("bad argument #2 to 'cleanup' (key expected, got nil)", mw.cleanup,
      {})
    misuse("bad argument #3 to 'cleanup' (value expected, got nil)",
      mw.cleanup, {}, "x")
    local handle = mw.cleanup({}, "x", 1)
    misuse("bad argument #1 to 'cleanup_for' (object expected, got string)",
      mw.cleanup_for, "x", handle)
    misuse("bad argument #2 to 'cleanup_for' (cleanup expected, got table)",
      mw.cleanup_for, {}, {})
    misuse("calling 'run' on bad self (cleanup expected, got nil)", handle.run)
  end)
end)

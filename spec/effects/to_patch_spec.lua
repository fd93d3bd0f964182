local misuse = require "spec.support.misuse"
local mw = require "moonwatch"

local function effects_of(root, f)
  mw.track(root, { deep = true })
  local ok, effects = mw.transaction(f)
  assert.is_true(ok, effects)
  return effects
end

-- The operations as text.
local function show(operations)
  local list = {}
  for i, operation in ipairs(operations) do
    list[i] = ("%s %s %s"):format(operation.op, operation.path, operation.value)
  end
  return table.concat(list, ", ")
end

describe("the patch of effects", function()
  it("has an operation for each field that was changed", function()
    local root = { hero = { hp = 10, old = 1 }, items = { "a", "b" } }
    local effects = effects_of(root, function()
      root.hero.hp, root.hero.old, root.hero.new = 7, nil, true
      root.hero.hp = 8
    end)
    assert.equal("replace /hero/hp 8, add /hero/new true, remove /hero/old nil",
      show(effects:to_patch(root)))
  end)

  it("has list edits as list edits", function()
    local list = {}
    for i = 1, 1000 do list[i] = i end
    local root = { list = list }
    local effects = effects_of(root, function()
      table.insert(list, 1, "new")
    end)
    assert.equal(1001, effects:len())
    assert.equal("add /list/0 new", show(effects:to_patch(root)))
    effects = effects_of(root, function() table.remove(list, 500) end)
    assert.equal("remove /list/499 nil", show(effects:to_patch(root)))
  end)

  it("is the same when the effects were undone", function()
    local root = { a = { 1 } }
    local effects = effects_of(root, function()
      root.a[2] = 2
      root.b = { c = 1 }
    end)
    local done = effects:to_patch(root)
    effects:rollback()
    assert.same(done, effects:to_patch(root))
    mw.untrack(root)
    local twin = mw.patch({ a = { 1 } }, done)
    assert.same({ a = { 1, 2 }, b = { c = 1 } }, twin)
  end)

  it("cannot be had of what is not below the root", function()
    local root, other = { a = {} }, mw.track {}
    local effects = effects_of(root, function() root.x, other.x = 1, 1 end)
    assert.same({ nil, "an object was written that is not below the root" },
      { effects:to_patch(root) })
    effects = effects_of({ root }, function()
      root.b = { c = 1 }
      root.b.c = 2
      root.a.gone = 1
      root.a = nil
    end)
    assert.is_table(effects:to_patch(root))
  end)

  it("changes each place of a table that is in two", function()
    local pos, list = { x = 1 }, { 1 }
    local root = { start = pos, goal = pos, lists = { list, list } }
    local json = require "moonwatch.json"
    local before = json.copy(root)
    local effects = effects_of(root, function()
      pos.x = 2
      table.insert(list, 1, 0)
    end)
    local operations = assert(effects:to_patch(root))
    assert.is_true(json.equal(root, assert(mw.patch(before, operations))))
    local after = json.copy(root)
    effects:rollback()
    assert(mw.patch(root, operations))
    assert.is_true(json.equal(after, root))
    assert.same({ { 0, 1 }, { 0, 1 } }, json.copy(root.lists))
  end)

  it("cannot be had of strings that are not UTF-8", function()
    local root = { name = "a" }
    local effects = effects_of(root, function() root.name = "\xff\xfe" end)
    assert.same({ nil, "not JSON: a string that is not UTF-8 at '/name'" },
      { effects:to_patch(root) })
  end)

  it("cannot be had of what is not JSON", function()
    local root = {}
    local effects = effects_of(root, function() root.f = print end)
    local patch, message = effects:to_patch(root)
    assert.is_nil(patch)
    assert.matches("function", message)
    misuse("bad argument #1 to 'to_patch' (table expected, got nil)",
      effects.to_patch, effects)
  end)
end)

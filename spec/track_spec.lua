local raw_of = require "spec.support.raw_of"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local support = require "support"

-- How many entries a function makes.
local function count(fn)
  local _, fx = assert(mw.transaction(fn))
  return fx:len()
end

local function set(obj, key)
  return function() obj[key] = {} end
end

local function f() end

describe("an object that is tracked", function()
  it("is recorded, though nobody watches it", function()
    local obj = { x = 1 }
    assert.equal(obj, mw.track(obj))
    assert.equal(1, count(set(obj, "x")))
    assert.is_false(mw.is_watched(obj))
    assert.equal(0, mw.mutations(obj))
  end)

  it("behaves as before", function()
    local class = { __index = { inherited = 1 }, __len = function() return 7
    end, __call = function(_, x) return x end }
    local obj = mw.track(setmetatable({ x = 1 }, class))
    assert.equal(class, getmetatable(obj))
    assert.same({ 1, 7, 5 }, { obj.inherited, #obj, obj(5) })
    local keys = {}
    for key in pairs(obj) do keys[#keys + 1] = key end
    assert.same({ "x" }, keys)
  end)

  it("is not recorded outside of a transaction", function()
    local obj = mw.track {}
    obj.x = 1
    assert.equal(0, count(f))
  end)

  it("stays tracked, as deeply as it was, when another track fails", function()
    local function no() error("no", 0) end
    for _, deep in ipairs { false, true } do
      local obj = mw.track({ { {} } }, { deep = deep })
      assert.is_false(pcall(mw.track, obj, { deep = true, descend = no }))
      assert.equal(1, count(set(obj, "x")))
      assert.equal(deep and 1 or 0, count(set(obj[1], "x")))
      mw.untrack(obj)
      assert.equal(0, count(set(obj, "x")))
      assert.is_false(pcall(mw.track, obj, { deep = true, descend = no }))
      assert.equal(0, count(set(obj, "x")))
    end
  end)

  it("may be tracked twice", function()
    local obj = mw.track(mw.track {})
    assert.equal(1, count(set(obj, "x")))
    mw.untrack(obj)
    assert.equal(0, count(set(obj, "x")))
    assert.is_nil(getmetatable(obj))
  end)

  it("is plain again afterwards", function()
    local class = {}
    local obj = setmetatable({ x = 1 }, class)
    mw.track(obj)
    obj.y = 2
    mw.untrack(obj)
    assert.is_true(rawequal(class, getmetatable(obj)))
    assert.equal(obj, raw_of(obj))
    assert.is_true(rawget(obj, "x") == 1 and rawget(obj, "y") == 2)
    assert.is_nil(next(class))
    mw.untrack(obj)
  end)

  it("can be watched too, ending either first", function()
    for _, names in ipairs { { "untrack", "unwatch" },
      { "unwatch", "untrack" } } do
      for _, begin in ipairs { { mw.track, mw.watch }, { mw.watch, mw.track }
      } do
        local class = {}
        local obj = setmetatable({ x = 1 }, class)
        begin[1](obj, begin[1] == mw.watch and f or nil)
        begin[2](obj, begin[2] == mw.watch and f or nil)
        assert.equal(1, count(set(obj, "y")))
        mw[names[1]](obj)
        assert.equal(1, count(set(obj, "z")))
        assert.is_false(rawequal(obj, raw_of(obj)))
        mw[names[2]](obj)
        assert.equal(0, count(set(obj, "w")))
        assert.is_true(rawequal(class, getmetatable(obj)))
        assert.is_true(rawequal(obj, raw_of(obj)))
        assert.is_table(rawget(obj, "w"))
      end
    end
  end)

  it("counts its mutations from its first watch", function()
    local obj = mw.track {}
    obj.x = 1
    mw.watch(obj, f)
    assert.equal(0, mw.mutations(obj))
    obj.x = 2
    assert.equal(1, mw.mutations(obj))
    mw.unwatch(obj)
    assert.is_false(mw.is_watched(obj))
    assert.equal(1, count(set(obj, "x")))
  end)

  it("is collected as before", function()
    local seen = setmetatable({}, { __mode = "k" })
    for _ = 1, 10 do
      local obj = mw.track {}
      obj.x = obj
      seen[obj] = true
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(seen))
  end)

  it("may be a userdata", function()
    local store = {}
    local class = { __index = store, __newindex = function(_, key, value)
      store[key] = value
    end }
    local newindex = class.__newindex
    local obj = support.userdata(class)
    assert.equal(obj, mw.track(obj))
    local tx = mw.begin()
    obj.x = 1
    assert.equal(1, store.x)
    assert.equal(1, tx:rollback():len())
    assert.is_nil(store.x)
    mw.untrack(obj)
    assert.equal(0, count(set(obj, "x")))
    assert.equal(newindex, class.__newindex)
  end)

  it("may be untracked while it is recorded", function()
    local obj = mw.track { x = 1 }
    local tx = mw.begin()
    obj.x = 2
    mw.untrack(obj)
    obj.x = 3
    assert.equal(0, tx:rollback():len())
    assert.same({ x = 3 }, obj)
    assert.is_nil(getmetatable(obj))
  end)

  it("may become one while a transaction is open", function()
    local obj = { x = 1 }
    local tx = mw.begin()
    obj.x = 2
    mw.track(obj)
    obj.x = 3
    tx:rollback()
    assert.equal(2, obj.x)
  end)
end)

describe("an object that is tracked deep", function()
  local function make()
    local leaf = { x = 1 }
    local root = { branch = { leaf = leaf }, list = { 1, { y = 1 } } }
    root.branch.root = root
    return mw.track(root, { deep = true }), leaf
  end

  it("is recorded with what is below it", function()
    local root, leaf = make()
    local tx = mw.begin()
    leaf.x = 2
    root.list[2].y = 2
    table.insert(root.list, 3)
    local fx = tx:rollback()
    assert.equal(3, fx:len())
    assert.equal(leaf, fx:entries()().object)
    assert.equal(1, leaf.x)
    assert.equal(2, #root.list)
  end)

  it("is not watched, nor is what is below", function()
    local root, leaf = make()
    leaf.x = 2
    root.new = {}
    for _, obj in ipairs { root, leaf, root.branch, root.new } do
      assert.is_false(mw.is_watched(obj))
      assert.equal(0, mw.mutations(obj))
    end
  end)

  it("has what is attached later", function()
    local root = make()
    local new = { inner = {} }
    root.branch.new = new
    assert.equal(1, count(set(new.inner, "x")))
    local tx = mw.begin()
    root.another = { inner = { x = 1 } }
    root.another.inner.x = 2
    local fx = tx:rollback()
    assert.equal(2, fx:len())
    assert.is_nil(root.another)
    fx:apply()
    assert.equal(2, root.another.inner.x)
  end)

  it("releases what is detached", function()
    local root, leaf = make()
    root.branch.leaf = nil
    assert.equal(0, count(set(leaf, "x")))
    assert.is_nil(getmetatable(leaf))
    assert.is_table(rawget(leaf, "x"))
  end)

  it("releases what is detached, however it is written to then", function()
    local list, nodes = {}, {}
    for i = 1, 3 do
      nodes[i] = { n = i, prev = nodes[i - 1] }
      if i > 1 then nodes[i - 1].next = nodes[i] end
    end
    list.first, list.last = nodes[1], nodes[3]
    mw.track(list, { deep = true })
    nodes[2].next = nil
    list.last = nodes[2] -- perhaps a move, so the third stays a while
    nodes[3].prev = nil
    assert.same({ n = 3 }, nodes[3])
    assert.is_nil(getmetatable(nodes[3]))
    assert.equal(1, count(set(nodes[2], "x")))
  end)

  it("takes back what is written to a table detached meanwhile", function()
    local root, leaf = make()
    local tx = mw.begin()
    root.branch.leaf = nil
    leaf.x = "detached"
    leaf.y = 1
    tx:rollback()
    assert.equal(leaf, root.branch.leaf)
    assert.same({ x = 1 }, raw_of(leaf))
    assert.equal(1, count(set(leaf, "x")))
  end)

  it("moves a table from here to there", function()
    local root, leaf = make()
    local tx = mw.begin()
    root.branch.leaf, root.leaf = nil, leaf
    leaf.x = 2
    tx:rollback()
    assert.is_true(root.leaf == nil and root.branch.leaf == leaf)
    assert.equal(1, leaf.x)
  end)

  it("is plain again afterwards, with all that is below", function()
    local root, leaf = make()
    local branch = root.branch
    mw.untrack(root)
    for _, obj in ipairs { root, leaf, branch, rawget(root, "list") } do
      assert.is_nil(getmetatable(obj))
      assert.is_true(rawequal(obj, raw_of(obj)))
    end
    assert.equal(0, count(set(leaf, "x")))
  end)

  it("can be watched deep too, ending either first", function()
    for _, names in ipairs { { "untrack", "unwatch" },
      { "unwatch", "untrack" } } do
      local root, leaf = make()
      local heard = 0
      mw.watch(root, function() heard = heard + 1 end,
        { deep = true, once = false })
      assert.equal(1, count(set(leaf, "x")))
      assert.equal(1, heard)
      mw[names[1]](root)
      assert.equal(1, count(set(leaf, "x")))
      assert.equal(names[1] == "untrack" and 2 or 1, heard)
      mw[names[2]](root)
      assert.equal(0, count(set(leaf, "x")))
      assert.is_nil(getmetatable(leaf))
      assert.is_nil(getmetatable(root))
    end
  end)

  it("may have parts that are tracked or watched themselves", function()
    local root, leaf = make()
    mw.track(leaf)
    local branch = root.branch
    mw.watch(branch, f)
    mw.untrack(root)
    assert.equal(1, count(set(leaf, "x")))
    assert.equal(1, count(set(branch, "x")))
    mw.untrack(leaf)
    mw.unwatch(branch)
    assert.is_nil(getmetatable(leaf))
    assert.is_nil(getmetatable(branch))
  end)

  it("goes down as the policy says", function()
    local policy = mw.policy {
      descend = function(_, key) return key ~= "private" end,
    }
    local former = policy:use()
    local root = { private = { x = 1 }, public = { x = 1 } }
    mw.track(root, { deep = true })
    former:use()
    assert.equal(0, count(set(root.private, "x")))
    assert.equal(1, count(set(root.public, "x")))
  end)

  it("may be tracked plain first, or again", function()
    local root = { a = {} }
    mw.track(root)
    assert.equal(0, count(set(root.a, "x")))
    mw.track(root, { deep = true })
    assert.equal(1, count(set(root.a, "x")))
    mw.track(root)
    assert.equal(1, count(set(root.a, "x")))
    mw.untrack(root)
    assert.is_nil(getmetatable(rawget(root, "a")))
  end)
end)

describe("misuse of mw.track", function()
  it("is told where it is", function()
    misuse("bad argument #1 to 'track' (table or userdata expected, got nil)",
      mw.track)
    misuse("bad argument #1 to 'track' (table or userdata expected, got number)"
      , mw.track, 5)
    misuse("bad argument #2 to 'track' (table expected, got number)",
      mw.track, {}, 5)
    misuse("bad argument #2 to 'track' (unknown option 'depp')", mw.track, {},
      { depp = true })
    misuse("bad argument #2 to 'track' (option 'deep' is not a boolean)",
      mw.track, {}, { deep = 1 })
    misuse("bad argument #1 to 'untrack'", mw.untrack)
    misuse("bad argument #1 to 'untrack'", mw.untrack, 5)
  end)
end)

local interrupted = require "spec.support.interrupted"
local mw = require "moonwatch"

local extras = require("moonwatch.core").private.extras

-- A world that is tracked deeply, with a guard in C for each kind of watch.
local function make()
  local its = { events = 0 }
  its.leaf = { n = 1, list = { 1, 2, 3 } }
  its.account = { a = 10, b = 0, leaf = its.leaf }
  its.plain = { x = 1, inner = { y = 1 } }
  its.root = mw.track({ account = its.account }, { deep = true })
  its.guard = mw.guard()
  mw.watch(its.account, its.guard, { once = false })
  return its
end

local function list_of(t, list, seen)
  if seen[t] then return end
  seen[t] = true
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  for _, key in ipairs(keys) do
    local value = t[key]
    list[#list + 1] = tostring(key) .. "=" ..
      (type(value) == "table" and "table" or tostring(value))
    if type(value) == "table" then list_of(value, list, seen) end
  end
end

-- What the world holds, and which of it is recorded and watched.
local function state_of(its)
  local list = {}
  list_of(its.root, list, {})
  list_of(its.plain, list, {})
  for _, name in ipairs { "root", "account", "leaf", "plain" } do
    local obj = its[name]
    local tx = mw.begin()
    obj.probe = 1
    list[#list + 1] = ("%s %d %s"):format(name, tx:rollback():len(),
      tostring(mw.is_watched(obj)))
    if not getmetatable(obj) then obj.probe = nil end
  end
  its.guard:revalidate()
  its.account.probe = nil
  list[#list + 1] = "hears " .. tostring(not its.guard.valid)
  return table.concat(list, " ")
end

-- Interrupts `act` at each instruction.  All is then as it was, or as it is to
-- be, and no transaction is open but that of `its.tx`, or one that the act may
-- lose.
local function check(act, prepare, may_lose)
  local function new()
    local its = make()
    if prepare then prepare(its) end
    return its
  end
  local function finish(its)
    local tx = its.tx
    its.tx = nil
    if tx and tx:is_open() then tx:rollback() end
    if may_lose then
      collectgarbage()
      collectgarbage()
    end
    assert.is_nil(extras())
    its.root.later = true
    return state_of(its)
  end
  local undone = finish(new())
  local whole = new()
  act(whole)
  local done = finish(whole)
  local n, fired, ok, err = 0
  repeat
    n = n + 1
    local its = new()
    fired, ok, err = interrupted(n, act, its)
    assert(fired or ok, err)
    local state = finish(its)
    if state ~= undone and state ~= done then
      assert.equal(done, "interrupted at " .. n .. " " .. state)
    end
  until not fired
  return n
end

local function begin(its)
  its.tx = mw.begin()
  its.account.a, its.account.b = 5, 5
  its.leaf.list[4] = 4
end

local function record(its)
  local _, fx = mw.transaction(function()
    its.account.a, its.account.b = 5, nil
    its.leaf.list[4] = 4
    mw.setmetatable(its.leaf, { __index = { m = 1 } })
  end)
  its.fx = fx
end

local function withdraw(its)
  record(its)
  its.fx:rollback()
end

local operations = {
  { op = "replace", path = "/account/a", value = 5 },
  { op = "add", path = "/account/leaf/list/1", value = { 7 } },
  { op = "remove", path = "/account/b" },
}

describe("an error from outside", function()
  local acts = {
    ["mw.transaction"] = function(its)
      mw.transaction(function()
        its.account.a = its.account.a - 5
        assert(mw.transaction(function() its.account.b = its.account.b + 5 end))
      end)
    end,
    ["mw.transaction with options"] = function(its)
      mw.transaction({ where = true, label = "label" },
        function() its.account.a, its.account.b = 5, 5 end)
    end,
    ["mw.transaction that fails"] = function(its)
      mw.transaction(function()
        its.account.a = its.account.a - 5
        error "fails"
      end)
    end,
    ["mw.transaction in a coroutine"] = function(its)
      local co = coroutine.wrap(function()
        mw.transaction(function()
          its.account.a = 5
          coroutine.yield()
          its.account.b = 5
        end)
      end)
      co()
      co()
    end,
    ["a block of mw.begin"] = function(its)
      local tx <close> = mw.begin "label"
      its.account.a, its.account.b = 5, 5
      tx:commit()
    end,
    ["mw.patch"] = function(its) assert(mw.patch(its.root, operations)) end,
    ["mw.patch that fails"] = function(its)
      mw.patch(its.root, { operations[1], { op = "remove", path = "/none" } })
    end,
    ["mw.batch"] = function(its)
      mw.batch(function() its.leaf.n = 2 end)
    end,
    ["mw.batch as a block"] = function(its)
      local batch <close> = mw.batch()
      its.leaf.n = batch and 2
    end,
    ["mw.track"] = function(its) mw.track(its.plain) end,
    ["mw.track of all below"] = function(its)
      mw.track(its.plain, { deep = true, descend = rawequal })
    end,
    ["mw.untrack"] = function(its) mw.untrack(its.root) end,
    ["mw.watch"] = function(its) mw.watch(its.plain, its.guard) end,
    ["mw.watch of all below"] = function(its)
      mw.watch(its.plain, its.guard, { deep = true, once = false })
    end,
    ["mw.unwatch"] = function(its) mw.unwatch(its.account) end,
    ["mw.setmetatable"] = function(its)
      mw.setmetatable(its.leaf, { __index = { m = 1 } })
    end,
    ["mw.touch"] = function(its) mw.touch(its.account, "a") end,
    ["mw.sync"] = function(its) mw.sync(its.account) end,
  }
  local losing = {
    ["a block of mw.begin"] = true, ["mw.transaction in a coroutine"] = true,
  }
  for name, act in pairs(acts) do
    it("leaves " .. name .. " done or not done", function()
      check(act, nil, losing[name])
    end)
  end

  it("leaves the end of a transaction done or not done", function()
    check(function(its) its.tx:commit() end, begin)
    check(function(its) its.tx:rollback() end, begin)
    check(function(its)
      local tx <close> = its.tx
      assert(tx)
    end, begin)
    check(function(its) mw.untrack(its.root) end, begin)
  end)

  it("leaves effects undone or not, and applied or not", function()
    check(function(its) its.fx:rollback() end, record)
    check(function(its) assert(its.fx:apply()) end, withdraw)
    check(function(its) assert(its.fx:invert():apply()) end, record)
    check(function(its)
      assert(its.fx:apply { on_conflict = function() return "skip" end })
    end, function(its)
      withdraw(its)
      its.account.a = "another"
    end)
  end)

  it("leaves a rollback done when it comes in a guard", function()
    for _, method in ipairs { "rollback", "commit" } do
      check(function(its) its.tx[method](its.tx) end, function(its)
        mw.watch(its.root, function() its.events = its.events + 1 end,
          { deep = true, once = false })
        begin(its)
      end)
    end
  end)

  it("leaves a handle's cancel done or not done", function()
    for _, opts in ipairs { {}, { key = "a" }, { deep = true },
      { path = { "inner", mw.any } } } do
      opts.once = false
      check(function(its) its.handle:cancel() end, function(its)
        its.handle = mw.watch(its.plain, its.guard, opts)
      end)
    end
  end)

  it("leaves mw.patch_bytes done or not done", function()
    local from = make()
    local _, fx = mw.transaction(function()
      from.account.a, from.account.b, from.leaf.list[4] = 5, 5, { 4 }
    end)
    local bytes = assert(fx:to_bytes(from.root))
    check(function(its) assert(mw.patch_bytes(its.root, bytes)) end)
  end)

  it("leaves mw.begin done or lost", function()
    for _, opts in ipairs { false, "label", { where = true } } do
      local n, fired = 0
      repeat
        n = n + 1
        local its = make()
        fired = interrupted(n, function()
          local tx = mw.begin(opts or nil)
          its.account.a = 5
          its.tx = tx
        end)
        if its.tx then its.tx:rollback() end
        collectgarbage()
        collectgarbage()
        assert.is_nil(extras())
        assert.equal(10, its.account.a)
        its.root.later = true
        collectgarbage()
        assert.is_true(its.root.later)
      until not fired
    end
  end)

  it("leaves an origin ended, or lost", function()
    local recorder <close> = mw.recorder()
    local function origin(t)
      t.x = (t.x or 0) + 1
      return recorder:why(t, "x").origin
    end
    local n, fired = 0
    repeat
      n = n + 1
      local t = mw.track {}
      fired = interrupted(n, function()
        mw.origin("a", function() t.a = 1 end)
        local o <close> = mw.origin "b"
        t.b = o and 1
        coroutine.wrap(function() mw.origin("c", function() t.c = 1 end) end)()
      end)
      if origin(t) ~= nil then -- between the call and the variable
        collectgarbage()
        collectgarbage()
      end
      assert.is_nil(origin(t), "interrupted at " .. n)
      for key, name in pairs { a = "a", b = "b", c = "c" } do
        local e = recorder:why(t, key)
        assert.is_true(not e or e.origin == name)
      end
    until not fired
  end)
end)

local mw = require "moonwatch"
local warnings = require("support").warnings
local addresses = require "spec.support.addresses"
local error_of = require "spec.support.error_of"
local growth = require "spec.support.growth"
local with_seed = require "spec.support.with_seed"

-- Collects until nothing is left to be told.
local function collect()
  collectgarbage()
  mw.reap()
end

describe("a weak map", function()
  local map, key

  before_each(function()
    map, key = mw.weakmap(), {}
  end)

  it("holds values by key", function()
    map:set(key, "value")
    assert.equal("value", map:get(key))
    assert.is_true(map:has(key))
    assert.equal(1, map:len())
    assert.equal(1, #map)
  end)

  it("gives the default for what is not there", function()
    assert.is_nil(map:get(key))
    assert.equal("default", map:get(key, "default"))
    assert.is_false(map:get(key, false))
    assert.is_false(map:has(key))
  end)

  it("holds false like any value, and nil never", function()
    map:set(key, false)
    assert.is_false(map:get(key, "default"))
    assert.is_true(map:has(key))
    map:set(key, nil)
    assert.is_false(map:has(key))
    assert.equal(0, #map)
    map:set({}, nil)
    assert.equal(0, #map)
  end)

  it("takes tables, userdata, functions and threads as keys", function()
    local keys = { {}, io.stdout, print, function() end,
      coroutine.create(print) }
    for i, k in ipairs(keys) do map:set(k, i) end
    for i, k in ipairs(keys) do assert.equal(i, map:get(k)) end
    assert.equal(#keys, #map)
  end)

  it("goes by the object, not by __eq or __hash", function()
    local meta = { __eq = function() return true end }
    local a, b = setmetatable({}, meta), setmetatable({}, meta)
    map:set(a, 1)
    assert.is_false(map:has(b))
  end)

  it("replaces only the value when a key is written again", function()
    local other = {}
    map:set(key, 1)
    map:set(other, 2)
    map:set(key, 3)
    assert.equal(3, map:get(key))
    assert.equal(2, #map)
  end)

  it("removes, and answers the old value", function()
    map:set(key, 1)
    assert.equal(1, map:remove(key))
    assert.is_nil(map:remove(key))
    assert.is_false(map:has(key))
    assert.equal(0, #map)
    map:set(key, 2)
    assert.equal(2, map:get(key))
  end)

  it("is empty after clear, and usable", function()
    local keys = {}
    for i = 1, 100 do
      keys[i] = {}
      map:set(keys[i], i)
    end
    map:clear()
    assert.equal(0, #map)
    for i = 1, 100 do assert.is_false(map:has(keys[i])) end
    for _ in pairs(map) do error "an entry" end
    map:set(keys[7], "again")
    assert.equal("again", map:get(keys[7]))
    assert.equal(1, #map)
  end)

  it("lets keys die", function()
    for i = 1, 1000 do map:set({}, i) end
    map:set(key, "stays")
    collectgarbage()
    assert.equal(1, #map)
    assert.equal("stays", map:get(key))
  end)

  it("lets a key die whose value refers to it", function()
    for _ = 1, 100 do
      local k = {}
      map:set(k, { k })
    end
    collectgarbage()
    assert.equal(0, #map)
  end)

  it("lets keys die that refer to each other through the values", function()
    local a, b = {}, {}
    map:set(a, b)
    map:set(b, a)
    collectgarbage()
    assert.equal(2, #map)
    a, b = nil, nil -- luacheck: ignore 311
    collectgarbage()
    assert.equal(0, #map)
  end)

  it("keeps a value alive as long as its key", function()
    local weak = setmetatable({}, { __mode = "v" })
    do
      local value = {}
      map:set(key, value)
      weak[1] = value
    end
    collectgarbage()
    assert.equal(weak[1], map:get(key))
    map:remove(key)
    collectgarbage()
    assert.is_nil(weak[1])
  end)

  it("is collected itself, with entries and all", function()
    local weak = setmetatable({}, { __mode = "kv" })
    do
      local m = mw.weakmap(function() error "no key has died" end)
      local value = {}
      m:set(key, value)
      weak[1], weak[2] = m, value
    end
    collect()
    assert.is_nil(weak[1])
    assert.is_nil(weak[2])
  end)

  it("uses the places of the dead again", function()
    assert.is_true(growth(function()
      for i = 1, 1000 do map:set({}, i) end
    end) < 2)
  end)

  it("never finds an old entry at an address that came back", function()
    local n = 0
    addresses(function(k)
      n = n + 1
      if map:has(k) then error "an old entry was found" end
      map:set(k, n)
      if map:get(k) ~= n then error "the new entry was not found" end
    end)
  end)
end)

describe("a walk through a weak map", function()
  local map, keys

  before_each(function()
    map, keys = mw.weakmap(), {}
    for i = 1, 100 do
      keys[i] = {}
      map:set(keys[i], i)
    end
  end)

  local function visits(walk, body)
    local seen, n = {}, 0
    for k, v in walk(map) do
      assert.is_nil(seen[v])
      seen[v], n = k, n + 1
      if body then body(k, v) end
    end
    return seen, n
  end

  it("visits each entry exactly once, by either pairs", function()
    for _, walk in ipairs { map.pairs, pairs } do
      local seen, n = visits(walk)
      assert.equal(100, n)
      for i = 1, 100 do assert.equal(keys[i], seen[i]) end
    end
  end)

  it("visits what stays, while others are removed", function()
    local seen = visits(pairs, function(_, v)
      local other = v % 2 == 1 and v + 1 or v - 1
      map:remove(keys[v])
      map:remove(keys[other])
    end)
    for i = 1, 100, 2 do assert.not_equal(seen[i], seen[i + 1]) end
    for i = 1, 100, 2 do assert.is_table(seen[i] or seen[i + 1]) end
    assert.equal(0, #map)
  end)

  it("does not visit what is added meanwhile, and ends", function()
    local more = {}
    local seen, n = visits(pairs, function(k, v)
      more[#more + 1] = {}
      map:set(more[#more], 1000 + #more)
      map:remove(k)
      map:set(k, 2000 + v)
    end)
    for i = 1, 100 do assert.equal(keys[i], seen[i]) end
    assert.equal(100, n)
    assert.equal(200, #map)
  end)

  it("visits what stays, while others die", function()
    local visited, n = {}, 0
    local seen = visits(pairs, function(_, v)
      visited[v], n = true, n + 1
      if n == 10 then
        for i = 1, 100, 2 do
          if not visited[i] then keys[i] = nil end
        end
        collectgarbage()
      end
    end)
    for i = 1, 100 do assert.equal(keys[i], seen[i]) end
  end)

  it("sees new values, and ends after clear", function()
    map:set(keys[100], "new")
    local n = 0
    local _, visited = visits(pairs, function()
      n = n + 1
      if n == 50 then map:clear() end
    end)
    assert.equal(50, visited)
    assert.equal(0, #map)
  end)

  it("agrees with a plain table, while keys die", function()
    local seed = os.time()
    math.randomseed(seed)
    local function agrees(m)
      local list, model = {}, {} -- model: index of a key -> value

      local function change(i, value)
        local key = list[i]
        if not key then
          list[i] = {}
        elseif math.random(10) == 1 then
          list[i], model[i] = nil, nil
        elseif math.random(5) == 1 then
          assert(m:remove(key) == model[i], "seed " .. seed)
          model[i] = nil
        else
          m:set(key, value)
          model[i] = value
        end
      end

      local function compare()
        local n = 0
        for i, value in pairs(model) do
          assert(m:get(list[i]) == value, "seed " .. seed)
          n = n + 1
        end
        assert(#m == n, "seed " .. seed)
        for key, value in pairs(m) do
          assert(m:get(key) == value, "seed " .. seed)
          n = n - 1
        end
        assert(n == 0, "seed " .. seed)
      end

      for step = 1, 20000 do
        change(math.random(50), step)
        if step % 500 == 0 then
          collectgarbage()
          if math.random(2) == 1 then mw.reap() end
          compare()
        end
      end
    end
    agrees(mw.weakmap())
    agrees(mw.weakmap(function() end))
  end)

  it("agrees with a plain table, whatever is done meanwhile", function()
    local model, stays = {}, {}
    for i, k in ipairs(keys) do model[k] = i end
    local function change(other)
      if math.random(3) == 1 then
        map:remove(other)
        model[other], stays[other] = nil, nil
      elseif math.random(3) == 1 then
        local value = math.random(1000)
        map:set(other, value)
        model[other] = value
      end
    end
    with_seed(function()
      for _ = 1, 200 do
        local seen = {}
        for k in pairs(model) do stays[k] = true end
        for k, v in map:pairs() do
          assert(not seen[k] and model[k] == v)
          seen[k] = true
          change(keys[math.random(#keys)])
        end
        for k in pairs(stays) do assert(model[k] == nil or seen[k]) end
        local n = 0
        for _ in pairs(model) do n = n + 1 end
        assert(#map == n)
      end
    end)
  end)
end)

describe("on_death", function()
  it("is called once for each key that died, with value and id", function()
    local told = {}
    local map = mw.weakmap(function(value, id)
      assert.is_nil(told[value])
      told[value] = id
    end)
    local ids = {}
    for i = 1, 100 do
      local k = {}
      map:set(k, i)
      ids[i] = mw.id(k)
    end
    collect()
    for i = 1, 100 do assert.equal(ids[i], told[i]) end
    assert.equal(0, #map)
    told = {}
    collect()
    assert.is_nil(next(told))
  end)

  it("is called after the entry is gone", function()
    local len, object
    local map
    map = mw.weakmap(function(_, id)
      len, object = #map, mw.object(id)
    end)
    map:set({}, 1)
    collect()
    assert.equal(0, len)
    assert.is_nil(object)
  end)

  it("gets the value even if it refers to the key", function()
    local got
    local map = mw.weakmap(function(value) got = value end)
    do
      local k = { "the key" }
      map:set(k, { k })
    end
    collect()
    assert.equal("the key", got[1][1])
  end)

  it("is not called for remove, overwrite, nil and clear", function()
    local map = mw.weakmap(function(value) error("told of " .. value) end)
    do
      local a, b, c, d, e = {}, {}, {}, {}, {}
      for _, k in ipairs { a, b, c, d, e } do map:set(k, "old") end
      map:remove(a)
      map:set(b, nil)
      map:clear()
      map:set(c, "c")
      map:set(d, "d")
      map:remove(c)
      map:remove(d)
    end
    collect()
    assert.same({}, warnings())
  end)

  it("is not called for what was removed and set again", function()
    local told = {}
    local map = mw.weakmap(function(value) told[#told + 1] = value end)
    collectgarbage "stop"
    do
      local k = {}
      map:set(k, "removed")
      map:remove(k)
      map:set(k, "cleared")
      map:clear()
      map:set(k, "kept")
    end
    collectgarbage "restart"
    for _ = 1, 100 do
      collectgarbage "step"
      mw.reap()
    end
    collect()
    assert.same({ "kept" }, told)
  end)

  it("needs no more and more memory where keys come and go #once", function()
    local live, told = {}, 0
    for i = 1, 100000 do live[i] = {} end
    local map = mw.weakmap(function() told = told + 1 end)
    local function churn() -- and the most there ever was
      local most = 0
      for i = 1, 300000 do
        map:set({}, i)
        if i % 1000 == 0 then
          most = math.max(most, collectgarbage "count")
        end
        -- a cycle of Lua's own may take longer and longer
        if i % 50000 == 0 then collectgarbage() end
      end
      return most
    end
    local first = churn()
    churn()
    assert.is_true(churn() < 1.5 * first)
    collect()
    assert.equal(900000, told)
    assert.equal(100000, #live)
  end)

  it("is called for the last value only", function()
    local told = {}
    local map = mw.weakmap(function(value) told[#told + 1] = value end)
    do
      local k = {}
      map:set(k, 1)
      map:set(k, 2)
      map:remove(k)
      map:set(k, 3)
      map:set(k, 4)
    end
    collect()
    assert.same({ 4 }, told)
  end)

  it("loses no other when one raises; the errors go to mw.on_error", function()
    local n, told, problem = 0, {}, {}
    local map = mw.weakmap(function(value)
      n = n + 1
      if value % 2 == 0 then error("no " .. value, 0) end
      if value == 5 then error(problem) end
    end)
    for i = 1, 10 do map:set({}, i) end
    local former = mw.on_error(function(err, where)
      assert.equal("on_death", where)
      told[err] = (told[err] or 0) + 1
    end)
    collect()
    mw.on_error(former)
    assert.equal(10, n)
    assert.same({ ["no 2"] = 1, ["no 4"] = 1, ["no 6"] = 1, ["no 8"] = 1,
      ["no 10"] = 1, [problem] = 1 }, told)
  end)

  it("raises the first error from the next call where nobody takes it",
    function()
      local n, problem = 0, {}
      local map = mw.weakmap(function()
        n = n + 1
        error(problem)
      end)
      for i = 1, 10 do map:set({}, i) end
      local ok, err
      repeat
        collectgarbage()
        ok, err = pcall(mw.reap)
      until not ok
      assert.equal(problem, err)
      repeat until pcall(collect)
      assert.equal(10, n)
      collect()
      assert.same({}, warnings())
    end)

  it("may use the map, make deaths and be called for them later", function()
    local told = 0
    local map
    map = mw.weakmap(function(value)
      told = told + 1
      if value < 100 then
        map:set({}, value + 1)
        collectgarbage()
        mw.reap()
      end
    end)
    map:set({}, 1)
    for _ = 1, 300 do collect() end
    assert.equal(100, told)
  end)

  it("is told of ten thousand deaths without deep recursion", function()
    local told = 0
    local map
    map = mw.weakmap(function()
      told = told + 1
      assert.is_false(map:has(map))
    end)
    for i = 1, 10000 do map:set({}, i) end
    collect()
    assert.equal(10000, told)
  end)

  it("cannot yield", function()
    local map = mw.weakmap(function() coroutine.yield() end)
    map:set({}, 1)
    collectgarbage()
    local text = error_of(function()
      for _ = 1, 2 do coroutine.wrap(function() mw.reap() end)() end
    end)
    assert.matches("attempt to yield", text)
  end)

  it("happens by itself as the library is used", function()
    local told = 0
    local map = mw.weakmap(function() told = told + 1 end)
    for i = 1, 100 do map:set({}, i) end
    collectgarbage()
    for _ = 1, 200 do mw.is_watched(mw) end
    assert.equal(100, told)
  end)
end)

describe("misuse of a weak map raises", function()
  local map = mw.weakmap()
  local OBJECT = " (table, userdata, function or thread expected, got "

  it("when a key that is written is no object, and changes nothing", function()
    for _, key in ipairs { 1, "a", true, 0.5 } do
      for _, name in ipairs { "set", "remove" } do
        assert.equal("bad argument #1 to '" .. name .. "'" .. OBJECT ..
          type(key) .. ")", error_of(map[name], map, key, 1))
      end
    end
    assert.matches("bad argument #1 to 'set'", error_of(map.set, map, nil, 1))
    assert.matches("weakmap_spec.lua:%d+: bad argument",
      error_of(function() map:set(1, 1) end))
    assert.equal(0, #map)
  end)

  it("but reading with any key finds nothing", function()
    for _, key in ipairs { 1, "a", true, 0 / 0 } do
      assert.is_nil(map:get(key))
      assert.equal("default", map:get(key, "default"))
      assert.is_false(map:has(key))
    end
    assert.equal("default", map:get(nil, "default"))
    assert.is_nil(map:get())
    assert.is_false(map:has())
  end)

  it("when self is something else", function()
    local clock = mw.clock()
    for _, name in ipairs { "set", "get", "has", "remove", "clear", "len",
      "pairs" } do
      for _, self in ipairs { 5, "map", {}, clock, io.stdout } do
        local message = error_of(map[name], self, {}, 1)
        assert.matches("calling '" .. name ..
          "' on bad self %(weakmap expected, got ", message)
      end
      assert.matches("got n", error_of(map[name]))
    end
  end)

  it("but a method of one map works on another", function()
    local other, key = mw.weakmap(), {}
    map.set(other, key, 1)
    assert.equal(1, map.get(other, key))
    assert.is_true(map.has(other, key))
    assert.is_false(map:has(key))
    assert.equal(1, map.remove(other, key))
  end)

  it("when on_death is no function", function()
    assert.equal("bad argument #1 to 'weakmap' (function expected, got table)",
      error_of(mw.weakmap, {}))
  end)

  it("when metatables are looked for", function()
    assert.is_false(getmetatable(map))
    assert.is_false(pcall(setmetatable, map, {}))
  end)
end)

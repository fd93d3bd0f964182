local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local error_of = require "spec.support.error_of"
local hear = require "spec.support.hear"
local keys = require "spec.support.keys"
local misuse = require "spec.support.misuse"
local styles = require "spec.support.styles"
local support = require "support"

local function nothing() end

local STAY = { once = false }

local root -- of the last deep watch: lives as long as the object is looked at

-- What makes writes to an object intercepted; the last ones no guard waits for.
local HOW = {
  watched = function(obj) mw.watch(obj, nothing, STAY) end,
  keyed = function(obj) mw.watch(obj, nothing, { key = "k", once = false }) end,
  flag = function(obj) mw.watch(obj, mw.guard(), STAY) end,
  deep = function(obj)
    root = { obj }
    mw.watch(root, nothing, { deep = true })
  end,
  fired = function(obj)
    mw.watch(obj, nothing)
    mw.touch(obj)
  end,
  tracked = function(obj) mw.track(obj) end,
  below = function(obj) obj.root = mw.track({ { obj } }, { deep = true }) end,
}

-- Calls f(intercept, name) for each.
local function each_way(f)
  for name, intercept in pairs(HOW) do f(intercept, name) end
end

describe("a class's __index that changes", function()
  it("works from mw.refresh on, whatever it was and becomes", function()
    local given
    local kinds = {
      none = nil,
      table = { x = "table" },
      chain = setmetatable({}, { __index = { x = "chain" } }),
      dynamic = setmetatable({}, { __index = function() return "dynamic" end }),
      userdata = support.userdata { __index = { x = "userdata" } },
      call = function(self)
        given = self
        return "call"
      end,
    }
    each_way(function(intercept, way)
      for before in pairs { none = 1, table = 1, call = 1, userdata = 1 } do
        for after, index in pairs(kinds) do
          local what = before .. " to " .. after .. ", " .. way
          local class = { __index = kinds[before] }
          local obj = setmetatable({ z = 0 }, class)
          intercept(obj)
          assert.equal(before ~= "none" and before or nil, obj.x, what)
          class.__index = index
          assert.equal(1, mw.refresh(class), what)
          given = nil
          assert.equal(after, obj.x, what)
          if after == "call" then assert.equal(obj, given, what) end
          class.__index = nil
          mw.refresh(class)
          assert.is_nil(obj.x, what)
          mw.unwatch(obj)
          mw.untrack(obj)
        end
      end
    end)
  end)

  it("never gets an inner table", function()
    local class = { __index = {} }
    local obj = setmetatable({ z = 0 }, class)
    mw.watch(obj, nothing, STAY)
    assert.is_nil(obj.x)
    local given = {}
    class.__index = function(self, key) given[self] = key end
    mw.refresh(class)
    assert.is_nil(obj.y)
    assert.equal("y", given[obj])
    given[obj] = nil
    assert.is_nil(next(given))
  end)

  it("may change while its function runs, or gives the object another class",
    function()
      local other = { __index = function(_, key) return "other " .. key end }
      local class = {}
      function class.__index(self, key)
        if key == "class" then
          mw.setmetatable(self, other)
        else
          class.__index = { x = "then a table" }
          mw.refresh(class)
        end
        return self[key]
      end
      local obj = setmetatable({ z = 0 }, class)
      mw.watch(obj, nothing, STAY)
      assert.equal("then a table", obj.x)
      class.__index = function(self)
        mw.setmetatable(self, other)
        return self.x
      end
      mw.refresh(class)
      obj.z = 1
      assert.equal("other x", obj.x)
      assert.equal(other, getmetatable(obj))
      assert.equal(1, obj.z)
    end)

  it("is found through watched classes, three deep", function()
    local top = { a = "a" }
    local middle
    middle = setmetatable({}, { __index = function(self, key)
      assert.is_true(rawequal(self, middle))
      return top[key] and top[key] .. " of the top"
    end })
    local class = { __index = middle }
    local obj = setmetatable({}, class)
    for _, t in ipairs { class, top, middle, obj } do
      mw.watch(t, nothing, STAY)
    end
    assert.equal("a of the top", obj.a)
    top.b = "b"
    assert.equal("b of the top", obj.b)
    middle.a = "nearer"
    assert.equal("nearer", obj.a)
    class.__index = top
    mw.refresh(class)
    assert.equal("a", obj.a)
    assert.is_nil(obj.c)
  end)

  it("makes the same errors as before", function()
    local loop = {}
    setmetatable(loop, { __index = loop })
    mw.watch(loop, nothing, STAY)
    assert.is_false((pcall(function() return loop.x end)))
    local obj = setmetatable({}, { __index = 5 })
    mw.watch(obj, nothing, STAY)
    local said = error_of(function() return obj.x end)
    assert.is_truthy(said:find("attempt to index a number value", 1, true))
    local object = setmetatable({}, { __index = function() error({}) end })
    mw.watch(object, nothing, STAY)
    assert.is_table(error_of(function() return object.x end))
  end)

  it("is that of objects that are watched later, without mw.refresh",
    function()
      for _, index in ipairs { { x = "new" },
        function() return "new" end } do
        local class = { __index = { x = "old" } }
        local first, later = setmetatable({}, class), setmetatable({}, class)
        mw.watch(first, nothing, STAY)
        class.__index = index
        mw.watch(later, nothing, STAY)
        assert.equal("new", later.x)
        mw.refresh(class)
        assert.equal("new", first.x)
        local third = mw.track(setmetatable({}, class))
        assert.equal("new", third.x)
      end
    end)

  it("keeps no class, nor object, alive", function()
    local weak = setmetatable({}, { __mode = "k" })
    do
      local class = {}
      class.__index = class
      local a, b = setmetatable({}, class), setmetatable({}, class)
      mw.watch(a, nothing, STAY)
      mw.track(b)
      class.__index = function() return a, b end
      assert.equal(2, mw.refresh(class))
      assert.equal(a, a.x)
      weak[class], weak[a], weak[b] = 1, 1, 1
    end
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(weak))
  end)
end)

describe("a class's __newindex that changes", function()
  it("is asked from mw.refresh on about fields that are absent", function()
    each_way(function(intercept, way)
      local class = {}
      class.__index = class
      local obj = setmetatable({ x = 1 }, class)
      intercept(obj)
      obj.y = 2
      function class.__newindex(self, key)
        assert.is_true(rawequal(self, obj))
        error("sealed: " .. key, 0)
      end
      mw.refresh(class)
      assert.equal("sealed: z", error_of(function() obj.z = 3 end), way)
      assert.equal("sealed: w", error_of(function() obj.w = nil end), way)
      assert.is_nil(obj.z, way)
      obj.x, obj.y = 5, nil
      assert.is_nil(obj.y, way)
      assert.is_truthy(error_of(function() obj.y = 1 end), way)
      local store = {}
      class.__newindex = store
      mw.refresh(class)
      obj.z = 4
      assert.equal(4, store.z, way)
      assert.is_nil(obj.z, way)
      class.__newindex = nil
      mw.refresh(class)
      obj.z = 5
      assert.equal(5, obj.z, way)
    end)
  end)

  it("may be a table, watched or with rules of its own, or a userdata",
    function()
      local store = {}
      local row = setmetatable({}, { __newindex = store, __index = store })
      local heard, below = hear(row), hear(store)
      row.a = 1
      row.a = 2
      row.a = nil
      local expected = "insert a nil>1, update a 1>2, delete a 2>nil"
      assert.equal(expected, heard())
      assert.equal(expected, below())
      assert.is_nil(next(raw_of(row)))
      local called
      local callable = setmetatable({}, {
        __call = function() called = true end,
        __newindex = function(t, k, v) rawset(t, k, v .. "!") end,
      })
      local obj = setmetatable({ z = 0 }, { __newindex = callable })
      mw.watch(obj, nothing, STAY)
      obj.a = "x"
      assert.equal("x!", callable.a)
      assert.is_nil(called)
      local given = {}
      local userdata = support.userdata {
        __newindex = function(_, k, v) given[k] = v end,
      }
      getmetatable(obj).__newindex = userdata
      obj.b = 1
      assert.equal(1, given.b)
      assert.equal("z", keys(obj))
    end)

  it("may change the class again while it runs", function()
    local class = {}
    function class.__newindex(self, key, value)
      class.__newindex = nil
      self[key] = value .. "!"
    end
    local obj = setmetatable({ z = 0 }, class)
    local heard = hear(obj)
    obj.a = "a"
    obj.b = "b"
    assert.equal("insert a nil>a, insert a nil>a!, insert b nil>b", heard())
    assert.equal("a!", obj.a)
    assert.equal("b", obj.b)
  end)

  it("makes the same errors as before", function()
    local obj = setmetatable({ z = 0 }, { __newindex = 5 })
    mw.watch(obj, nothing, STAY)
    local said = error_of(function() obj.x = 1 end)
    assert.is_truthy(said:find("attempt to index a number value", 1, true))
    local class = {}
    function class.__newindex(self, key, value) self[key .. "x"] = value end
    local other = setmetatable({ z = 0 }, class)
    local n = 0
    mw.watch(other, function() n = n + 1 end, STAY)
    mw.watch(other, nothing, STAY)
    assert.is_false((pcall(function() other.a = 1 end)))
    assert.is_true(n < 300)
    assert.equal("z", keys(other))
  end)
end)

describe("mw.refresh", function()
  it("gives objects the metamethods that their class has now", function()
    each_way(function(intercept, way)
      local class = {}
      class.__index = class
      local obj = setmetatable({ 1, 2, 3 }, class)
      intercept(obj)
      function class.__tostring() return "text" end
      function class.__call(_, x) return x end
      function class.__add() return "sum" end
      function class.__concat() return "joined" end
      function class.__len() return 7 end
      function class.__eq() return true end
      function class.__pairs() return ipairs { "only" } end
      assert.equal(1, mw.refresh(class), way)
      assert.equal("text", tostring(obj), way)
      assert.equal(5, obj(5), way)
      assert.equal("sum", obj + 1, way)
      assert.equal("joined", obj .. "", way)
      assert.equal(7, #obj, way)
      assert.equal("1", keys(obj), way)
      class.__len, class.__pairs, class.__tostring = nil, nil, nil
      assert.equal(1, mw.refresh(class), way)
      assert.equal(3, #obj, way)
      assert.is_truthy(keys(obj):find "^1 2 3", way)
      assert.is_truthy(tostring(obj):find "^table: ", way)
      mw.unwatch(obj)
      assert.equal(class, getmetatable(obj), way)
    end)
  end)

  it("takes the class of each style, and its objects only", function()
    for name, style in pairs(styles) do
      local class = style.make("Thing")
      local derived = style.make("Derived", class)
      local a, b = style.construct(class), style.construct(class)
      local c = style.construct(derived)
      for _, obj in ipairs { a, b, c } do mw.watch(obj, nothing, STAY) end
      class.__unm = function() return "minus" end
      assert.equal(2, mw.refresh(class), name)
      assert.equal("minus", -a, name)
      assert.equal("minus", -b, name)
      assert.equal(1, mw.refresh(derived), name)
    end
    assert.equal(0, mw.refresh {})
  end)

  it("takes a class with a __metatable field, which may change", function()
    local class = { __metatable = "closed" }
    local obj = setmetatable({ z = 0 }, class)
    mw.watch(obj, nothing, STAY)
    class.__add = function() return "sum" end
    assert.equal(1, mw.refresh(class))
    assert.equal("sum", obj + 1)
    assert.equal("closed", getmetatable(obj))
    class.__metatable = nil
    assert.equal(1, mw.refresh(class))
    assert.equal(class, getmetatable(obj))
  end)

  it("is possible in guards, batches, transactions and walks", function()
    local class = {}
    class.__index = class
    local obj = setmetatable({ x = 1, y = 2, z = 3 }, class)
    local n = 0
    local handle = mw.watch(obj, function()
      n = n + 1
      function class.__tostring() return "text " .. n end
      assert.equal(1, mw.refresh(class))
    end, STAY)
    local later = hear(obj, { phase = "after" })
    obj.x = 2
    assert.equal("text 1", tostring(obj))
    assert.equal("update x 1>2", later())
    handle:cancel()
    mw.batch(function()
      obj.x = 3
      mw.refresh(class)
      obj.x = 4
    end)
    assert.equal("update x 1>2, update x 2>4", later())
    mw.track(obj)
    assert.is_false((mw.transaction(function()
      obj.x = 5
      mw.refresh(class)
      obj.x, obj.y = 6, nil
      error "refused"
    end)))
    assert.equal(4, obj.x)
    local visited = 0
    for key in pairs(obj) do
      mw.refresh(class)
      obj[key] = visited
      visited = visited + 1
    end
    assert.equal(3, visited)
    mw.untrack(obj)
    mw.unwatch(obj)
    assert.equal(3, rawget(obj, "x") + rawget(obj, "y") + rawget(obj, "z"))
  end)

  it("calls no function of the class", function()
    local n = 0
    local class = {}
    function class.__index() n = n + 1 end
    function class.__newindex() n = n + 1 end
    function class.__len() n = n + 1 end
    function class.__pairs() n = n + 1 end
    local obj = setmetatable({}, class)
    mw.watch(obj, nothing, STAY)
    assert.equal(1, mw.refresh(class))
    assert.equal(0, n)
  end)

  it("finalises an object once", function()
    local n = 0
    local class = { __gc = function(self)
      n = n + 1
      assert.equal(1, self.a)
    end }
    do
      local obj = setmetatable({ a = 1 }, class)
      mw.watch(obj, nothing, STAY)
      mw.refresh(class)
      mw.refresh(class)
      mw.unwatch(obj)
      mw.watch(obj, nothing, STAY)
      mw.refresh(class)
    end
    for _ = 1, 3 do collectgarbage() end
    assert.equal(1, n)
  end)

  it("raises for what is no class", function()
    misuse("bad argument #1 to 'refresh' (class expected, got nil)",
      mw.refresh)
    misuse("bad argument #1 to 'refresh' (class expected, got number)",
      mw.refresh, 5)
  end)
end)

describe("a class's __pairs", function()
  it("may give next and the object, from any key on", function()
    for first, expected in pairs { [0] = "1 2 3", "2 3", "3" } do
      local class = { __pairs = function(self)
        return next, self, first > 0 and first or nil
      end }
      local obj = setmetatable({ "a", "b", "c" }, class)
      assert.equal(expected, keys(obj))
      mw.watch(obj, nothing, STAY)
      assert.equal(expected, keys(obj))
      obj[4] = "d"
      assert.equal(expected .. " 4", keys(obj))
    end
  end)

  it("may give next and another table, watched or not", function()
    for _, watches in ipairs { false, true } do
      local other = { a = 1, b = 2 }
      local obj = setmetatable({ "x" }, { __pairs = function()
        return next, other, nil
      end })
      mw.watch(obj, nothing, STAY)
      if watches then mw.watch(other, nothing, STAY) end
      assert.equal("a b", keys(obj))
    end
  end)

  it("may yield, be a callable table, and see what is raw", function()
    local class = { __pairs = setmetatable({}, {
      __call = function(_, self)
        rawset(self, "b", 2)
        if coroutine.isyieldable() then coroutine.yield() end
        return next, self
      end,
    }) }
    local obj = setmetatable({ a = 1 }, class)
    mw.watch(obj, nothing, STAY)
    assert.equal("a b", keys(obj))
    local walk = coroutine.wrap(function() return keys(obj) end)
    walk()
    assert.equal("a b", walk())
  end)
end)

describe("a class that keeps its fields elsewhere", function()
  local function new(fields)
    local private = fields or { hp = 1 }
    local class = {}
    function class.__index(_, key) return private[key] end
    function class.__newindex(_, key, value) private[key] = value end
    return setmetatable({}, class), private
  end

  it("is told of as the object shows it", function()
    local obj = new()
    local heard, later = hear(obj), hear(obj, { phase = "after" })
    obj.hp = 2
    obj.hp = nil
    obj.hp = 3
    mw.touch(obj, "hp")
    local expected = "update hp 1>2, delete hp 2>nil, insert hp nil>3"
    assert.equal(expected .. ", touch hp 3>3", heard())
    assert.equal(expected .. ", touch hp 3>3", later())
  end)

  it("is told of so above, and in batches; the same is skipped", function()
    local obj = new()
    local above = hear({ obj }, { deep = true })
    local skips = hear(obj, { equal = "skip" })
    obj.hp = 1
    assert.equal("", skips())
    assert.equal("update 1.hp 1>1", above())
    mw.batch(function()
      obj.hp = 5
      obj.hp = 1
    end)
    assert.equal("", skips())
    mw.batch(function()
      obj.hp = 5
      obj.hp = 6
    end)
    assert.equal("update hp 1>6", skips())
    assert.equal("update 1.hp 1>1, update 1.hp 1>1, update 1.hp 1>6", above())
  end)

  it("is told of so to checks, and conditions", function()
    local obj, private = new()
    local seen = {}
    mw.watch(obj, function(_, _, old, value)
      seen[#seen + 1] = old
      if value > 100 then error("refused", 0) end
      return true, value + 1
    end, { phase = "check" })
    local heard = hear(obj, { when = function(_, _, old)
      seen[#seen + 1] = old
      return old == 3
    end })
    obj.hp = 2
    assert.equal("refused", error_of(function() obj.hp = 101 end))
    obj.hp = 4
    assert.same({ 1, 1, 3, 3, 3 }, seen)
    assert.equal("update hp 3>5", heard())
    assert.equal(5, private.hp)
  end)

  it("may hold a field, once a write has left nothing there", function()
    local obj = new()
    rawset(obj, "own", 1)
    local heard = hear(obj)
    obj.hp = 2
    obj.hp = 3
    obj.own = 4
    assert.is_truthy(heard():find("update hp 2>3, update own 1>4", 1, true))
  end)

  it("is read only if somebody wants the value", function()
    local n = 0
    local class = {
      __index = function() n = n + 1 end, __newindex = nothing,
    }
    for _, watch in ipairs {
      mw.track,
      function(obj) mw.watch(obj, mw.guard(), STAY) end,
      function(obj) mw.watch(obj, error, { key = "other" }) end,
    } do
      local obj = setmetatable({}, class)
      watch(obj)
      obj.hp = 1
      mw.transaction(function() obj.hp = 2 end)
    end
    assert.equal(0, n)
  end)

  it("has no old value if the read raises, or yields", function()
    for _, index in ipairs { function() error({}) end, coroutine.yield } do
      local obj = setmetatable({}, { __index = index, __newindex = nothing })
      local heard = hear(obj)
      coroutine.wrap(function() obj.hp = 1 end)()
      assert.equal("insert hp nil>1", heard())
    end
  end)

  it("may do anything when it is read", function()
    local deeds = {
      unwatch = mw.unwatch,
      again = function(obj)
        mw.unwatch(obj)
        mw.watch(obj, nothing, STAY)
      end,
      class = function(obj) mw.setmetatable(obj, nil) end,
      refresh = function(obj) mw.refresh(getmetatable(obj)) end,
      collect = function() collectgarbage() end,
    }
    for name, deed in pairs(deeds) do
      for _, opts in ipairs { {}, { phase = "check" }, { phase = "after" },
        { equal = "skip" }, { when = function() return true end },
        { key = "hp" } } do
        local private, done = {}, false
        local obj = setmetatable({}, {
          __index = function(self, key)
            if not done then
              done = true
              deed(self)
            end
            return private[key]
          end,
          __newindex = function(_, key, value) private[key] = value end,
        })
        mw.watch(obj, nothing, opts)
        obj.hp = 1
        if name == "class" then
          assert.equal(1, rawget(raw_of(obj), "hp"), name)
        else
          assert.equal(1, private.hp, name)
        end
      end
    end
  end)

  it("leaves no entries, for nothing of the object changes", function()
    local obj, private = new()
    mw.track(obj)
    local _, fx = mw.transaction(function() obj.hp = 2 end)
    assert.equal(0, fx:len())
    assert.equal(2, private.hp)
  end)

  it("may be a class itself, whose methods are elsewhere", function()
    local style = styles.middleclass
    local class = style.make "Enemy"
    local heard, skips = hear(class), hear(class, { equal = "skip" })
    local function hurt() end
    class.hurt = hurt
    class.hurt = hurt
    class.hurt = nil
    local text = tostring(hurt)
    assert.equal(("insert hurt nil>%s, update hurt %s>%s, delete hurt %s>nil")
      :format(text, text, text, text), heard())
    assert.equal(("insert hurt nil>%s, delete hurt %s>nil"):format(text, text),
      skips())
  end)
end)

describe("metamethods that are callable tables", function()
  it("work as before", function()
    local call = setmetatable({}, { __call = function() return 3 end })
    local class = { __index = { x = 1 } }
    for _, name in ipairs { "add", "call", "concat", "unm", "len", "lt" } do
      class["__" .. name] = call
    end
    local obj = setmetatable({}, class)
    mw.watch(obj, nothing, STAY)
    assert.same({ 3, 3, 3, 3, 3, true },
      { obj + 1, obj(), obj .. "", -obj, #obj, obj < obj })
  end)
end)

local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local picture = require "spec.support.picture"
local with_seed = require "spec.support.with_seed"

local function tensor(...) return { shape = { ... } } end

-- What a specialisation says of an example, and its source, which must agree.
local function answer(spec, example, shape)
  local result = table.pack(spec:matches(example))
  local guard = assert(load(assert(spec:to_lua())))(shape)
  assert.same(result, table.pack(guard(example)))
  return table.unpack(result, 1, result.n)
end

local function accepts(spec, example, shape)
  assert.same({ true }, { answer(spec, example, shape) })
end

local function refuses(spec, at, example, shape)
  assert.same({ false, at }, { answer(spec, example, shape) })
end

describe("a specialisation", function()
  it("knows what was always the same", function()
    local spec = mw.infer {
      { kind = "move", to = { x = 1, y = 2.0 }, ok = true },
      { kind = "move", to = { x = 3, y = 2.0 }, ok = true },
    }
    assert.same({ ["L['kind']"] = "move", ["L['to']['y']"] = 2.0,
      ["L['ok']"] = true }, spec:constants())
    assert.equal("float", math.type(spec:constants()["L['to']['y']"]))
    assert.same({ ["L['to']['x']"] = { kinds = { "integer" }, min = 1, max = 3,
      optional = false } }, spec:varying())
  end)

  it("accepts what is like the examples, and says what is not", function()
    local spec = mw.infer { { kind = "move", x = 1, name = "a" },
      { kind = "move", x = 9, name = "b" } }
    accepts(spec, { kind = "move", x = 5, name = "another" })
    accepts(spec, { kind = "move", x = 5, name = "a", more = 1 })
    refuses(spec, "L['kind']", { kind = "stop", x = 5, name = "a" })
    refuses(spec, "L['x']", { kind = "move", x = 10, name = "a" })
    refuses(spec, "L['x']", { kind = "move", x = 5.0, name = "a" })
    refuses(spec, "L['x']", { kind = "move", name = "a" })
    refuses(spec, "L['name']", { kind = "move", x = 5, name = 5 })
    refuses(spec, "L", 5)
    refuses(spec, "L", nil)
  end)

  it("says the first path in the order of keys", function()
    local spec = mw.infer { { [true] = 1, [2] = 1, a = { b = 1 }, c = 1 } }
    refuses(spec, "L[true]", {})
    refuses(spec, "L[2]", { [true] = 1 })
    refuses(spec, "L['a']", { [true] = 1, [2] = 1, c = 2 })
    refuses(spec, "L['a']['b']", { [true] = 1, [2] = 1, a = {}, c = 2 })
  end)

  it("tells apart what is told apart elsewhere", function()
    for _, value in ipairs { 1, 1.0, true, false, "1", 0, 0.5, 0 / 0, 1 / 0,
      math.mininteger } do
      local spec = mw.infer { { x = value } }
      for _, other in ipairs { 1, 1.0, true, false, "1", 0, 0.0, 0.5, 0 / 0,
        1 / 0, math.mininteger, math.mininteger + 0.0, {}, print } do
        local same = math.type(value) == math.type(other) and
          (value == other or value ~= value and other ~= other)
        if same then
          accepts(spec, { x = other })
        else
          refuses(spec, "L['x']", { x = other })
        end
      end
    end
  end)

  it("lets keys be absent that some examples lack", function()
    local spec = mw.infer { { a = { b = 1 } }, { a = {} }, {} }
    accepts(spec, {})
    accepts(spec, { a = {} })
    accepts(spec, { a = { b = 1 } })
    refuses(spec, "L['a']['b']", { a = { b = 2 } })
    refuses(spec, "L['a']", { a = 1 })
  end)

  it("takes any kind that there was", function()
    local spec = mw.infer { { x = 1 }, { x = "a" }, { x = { y = 1 } },
      { x = mw.null }, { x = true } }
    for _, value in ipairs { 1, "b", { y = 1 }, mw.null, false } do
      accepts(spec, { x = value })
    end
    refuses(spec, "L['x']", { x = 1.0 })
    refuses(spec, "L['x']", { x = 2 })
    refuses(spec, "L['x']", { x = io.stdout })
    refuses(spec, "L['x']['y']", { x = { y = 2 } })
  end)

  it("refuses fields that no example had, if it is to be exact", function()
    local examples = { { x = 1, t = { y = 1 }, e = {}, o = { [{}] = 1 } } }
    local spec = mw.infer(mw.dynamism(examples), { exact = true })
    accepts(spec, { x = 1, t = { y = 1 }, e = {}, o = {} })
    accepts(spec, { x = 1, t = { y = 1 }, e = {}, o = { x = 1 } })
    refuses(spec, "L", { x = 1, t = { y = 1 }, e = {}, o = {}, z = 1 })
    refuses(spec, "L['t']", { x = 1, t = { y = 1, z = 1 }, e = {}, o = {} })
    refuses(spec, "L['e']", { x = 1, t = { y = 1 }, e = { [{}] = 1 }, o = {} })
    local cyclic = { x = 1 }
    cyclic.me = cyclic
    accepts(mw.infer({ cyclic }, { exact = true }), cyclic)
  end)

  it("knows the lengths of lists", function()
    local spec = mw.infer { { list = { 1, 1 } }, { list = { 1, 1, 1 } } }
    accepts(spec, { list = { 1, 1 } })
    refuses(spec, "L['list']", { list = { 1 } })
    refuses(spec, "L['list']", { list = { 1, 1, 1, 1 } })
  end)

  it("knows shapes", function()
    local spec = mw.infer { { x = tensor(1, 3) }, { x = tensor(5, 3) } }
    accepts(spec, { x = tensor(2, 3) })
    refuses(spec, "L['x']", { x = tensor(2, 4) })
    refuses(spec, "L['x']", { x = tensor(6, 3) })
    refuses(spec, "L['x']", { x = tensor(2) })
    refuses(spec, "L['x']", { x = {} })
    refuses(spec, "L['x']", { x = 1 })
    local ranks = mw.infer { { x = tensor() }, { x = tensor(2) } }
    accepts(ranks, { x = tensor() })
    refuses(ranks, "L['x']", { x = tensor(3) })
    accepts(mw.infer { tensor(1) }, tensor(1))
  end)

  it("asks for shapes as the examples were asked", function()
    local function size(v) return type(v) == "table" and v.size or nil end
    local spec = mw.infer({ { x = { size = { 1 } } } }, { shape = size })
    accepts(spec, { x = { size = { 1 } } }, size)
    refuses(spec, "L['x']", { x = { size = { 2 } } }, size)
  end)

  it("opens no nested form, where all tables are objects", function()
    local below = { n = 1 }
    below.up = below
    local examples = { { n = 1, below = below }, { n = 2, below = below } }
    local spec = mw.infer(examples, { objects = function() return true end })
    assert.is_true(spec:matches { n = 1, below = below })
    assert.is_false((spec:matches { n = 3 }))
  end)

  it("opens objects, and has no source then", function()
    local opts = { objects = function(v) return getmetatable(v) ~= nil end }
    local function net(n) return { net = setmetatable({ n = n }, {}) } end
    local spec = mw.infer({ net(1), net(2) }, opts)
    assert.is_true(spec:matches(net(1)))
    assert.same({ false, "L['net']['n']" }, { spec:matches(net(3)) })
    local source, message = spec:to_lua()
    assert.is_nil(source)
    assert.matches("objects", message)
  end)

  it("says nothing of values after too few examples", function()
    local spec = mw.infer({ { x = 1 }, { x = 1 } }, { confidence = 3 })
    assert.same({}, spec:constants())
    accepts(spec, { x = 5 })
    refuses(spec, "L['x']", { x = "a" })
  end)

  it("of no examples accepts all", function()
    accepts(mw.infer {}, 5)
    accepts(mw.infer {}, nil)
  end)

  it("is made of reports, and is not changed by what they learn", function()
    local report = mw.dynamism { { x = 1 } }
    local spec = mw.infer(report)
    report:add { x = 2, y = 1 }
    refuses(spec, "L['x']", { x = 2 })
    accepts(mw.infer(report), { x = 2 })
  end)

  it("reads examples as a program does", function()
    local spec = mw.infer { { a = { x = 1 }, list = { 1, 2 } } }
    local example = { a = { x = 1 }, list = { 1, 2 } }
    mw.watch(example, error, { deep = true })
    accepts(spec, example)
    accepts(spec, setmetatable({}, { __index = example }))
    local strict = setmetatable({}, { __index = function() error "no" end })
    assert.same({ false, "L['a']" }, { spec:matches(strict) })
    assert.equal(0, mw.mutations(example))
  end)

  it("accepts its examples and changes none, as does its source", function()
    local KEYS = { "a", "b c", "it's", 1, 2, -1, true, 0.5, "end", "\0", "é" }
    local function any_value(depth)
      local choice = math.random(depth > 0 and 8 or 5)
      if choice == 1 then return math.random(-3, 3) end
      if choice == 2 then return math.random(3) / 2 end
      if choice == 3 then return ({ "", "x", "a\nb", '"' })[math.random(4)] end
      if choice == 4 then return math.random(2) == 1 end
      if choice == 5 then return tensor(math.random(2), math.random(2)) end
      local t = {}
      for _ = 1, math.random(0, 4) do
        t[KEYS[math.random(#KEYS)]] = any_value(depth - 1)
      end
      return t
    end
    with_seed(function()
      for _ = 1, 200 do
        local examples = {}
        for i = 1, math.random(4) do examples[i] = { any_value(3) } end
        local before = picture(examples)
        local spec = mw.infer(examples, { confidence = math.random(2),
          exact = math.random(2) == 1 })
        local guard = assert(load(spec:to_lua()))()
        for _, example in ipairs(examples) do
          assert.is_true(spec:matches(example))
          assert.is_true(guard(example))
        end
        local other = { any_value(3) }
        local ok, where = spec:matches(other)
        local its_ok, its_where = guard(other)
        assert.equal(ok, its_ok)
        assert.equal(where, its_where)
        assert.is_true(ok or load("local L = {} return " .. where) ~= nil)
        assert.is_true(before == picture(examples))
      end
    end)
  end)

  it("is as deep and as wide as need be", function()
    local deep, wide = { x = 1 }, {}
    for _ = 1, 500 do deep = { a = deep } end
    for i = 1, 1000 do wide["field " .. i] = { i } end
    local spec = mw.infer { { deep, wide } }
    accepts(spec, { deep, wide })
    wide["field 999"][1] = 5
    refuses(spec, "L[2]['field 999'][1]", { deep, wide })
    local inner = deep
    while inner.a do inner = inner.a end
    inner.x = 2
    refuses(spec, "L[1]" .. ("['a']"):rep(500) .. "['x']", { deep, wide })
  end)

  it("has readable source", function()
    local spec = mw.infer { { kind = "move", to = { x = 1 } },
      { kind = "move", to = { x = 5 } } }
    assert.equal([[
test[1] = function(t)
  local v, at
  if getmetatable(t) ~= nil then t = readable(t, 1) end
  v = t.kind
  if not (v == "move") then return 2 end
  v = t.to
  if not (type(v) == "table") then return 3 end
  at = type(v) == "table" and test[3](v)
  if at then return at end
end
test[3] = function(t)
  local v, at
  if getmetatable(t) ~= nil then t = readable(t, 3) end
  v = t.x
  if not (math_type(v) == "integer" and v >= 1 and v <= 5) then return 4 end
end
]], spec:to_lua():match "(test%[1%].-)test%[0%]")
  end)

  it("has a source that grows with the number of paths, not with depth",
    function()
      local function size(depth)
        local top = {}
        local node = top
        for i = 1, depth do
          node.next = { x = i }
          node = node.next
        end
        return #mw.infer({ top }):to_lua()
      end
      assert.is_true(size(400) < 5 * size(100))
      assert.is_true(size(400) - size(300) < 70000)
    end)

  it("takes what raises when it is read for what is like no value", function()
    local function raises() error "closed" end
    local strict = setmetatable({}, { __index = raises })
    local closed = setmetatable({}, { __pairs = raises, __len = raises,
      __index = raises })
    local spec = mw.infer { { x = 1, y = 2 }, { x = 1, y = 3 } }
    refuses(spec, "L['x']", strict)
    refuses(spec, "L['y']", setmetatable({ x = 1 }, { __index = raises }))
    spec = mw.infer { { v = tensor(8, 8) }, { v = tensor(16, 8) } }
    refuses(spec, "L['v']", { v = closed })
    refuses(spec, "L['v']", { v = mw.null })
    spec = mw.infer { { list = { 1, 2 } }, { list = { 3, 4 } } }
    refuses(spec, "L['list']", { list = closed })
    spec = mw.infer({ { a = 1 } }, { exact = true })
    accepts(spec, setmetatable({ a = 1 }, { __pairs = raises }))
    spec = mw.infer { { w = 3 }, { w = 3 }, { w = closed } }
    accepts(spec, { w = 2 })
    accepts(spec, { w = closed })
  end)

  it("finds an unknown field before the class raises", function()
    local function pairs_of(fields)
      return setmetatable({ a = 1 }, { __pairs = function()
        return function(_, key)
          local after = next(fields, key)
          return after or error "closed"
        end
      end })
    end
    local spec = mw.infer({ { a = 1 } }, { exact = true })
    refuses(spec, "L", pairs_of { b = 1 })
    accepts(spec, pairs_of { a = 1 })
    accepts(spec, pairs_of {})
  end)

  it("takes a list for sizes only if it has all of them", function()
    local function raises() error "closed" end
    local function odd(sizes, class)
      return { v = { shape = setmetatable(sizes, class) } }
    end
    local function one() return 1 end
    for _, example in ipairs {
      odd({ [7] = 1 }, { __len = one, __index = function() return {} end }),
      odd({ nil, 1, [-1] = 5 }), odd({ 1 }, { __len = raises }),
      odd({ 1, 2 }, { __len = one }), odd({ nil, 1 }, { __index = one }),
      odd({ 1, 2 }, { __index = one }), -- an `ipairs` of it does not end
    } do
      accepts(mw.infer { example, example }, example)
    end
  end)

  it("compares a length that is no number as Lua does", function()
    local function yes() return true end
    local length = setmetatable({}, { __le = yes, __lt = yes })
    local odd = setmetatable({ 1, 1 }, { __len = function() return length end })
    accepts(mw.infer { { 1, 1 }, { 1, 1, 1 } }, odd)
    refuses(mw.infer { { 1, 1 }, { 1, 1 } }, "L", odd)
  end)

  it("lets any float be where nothing is sure yet", function()
    local spec = mw.infer({ { x = 1.5 } }, { confidence = 10 })
    accepts(spec, { x = 1e9 })
    accepts(spec, { x = 0 / 0 })
    refuses(spec, "L['x']", { x = 1 })
  end)

  it("raises when there is no memory, whoever says so", function()
    local spec = mw.infer { { x = 1 } }
    local guard = load(spec:to_lua())()
    local poor = setmetatable({}, {
      __index = function() error("not enough memory", 0) end,
    })
    for _, f in ipairs { guard, function(e) return spec:matches(e) end } do
      assert.same({ false, "not enough memory" }, { pcall(f, poor) })
    end
  end)

  it("says the same as its source, whatever the examples", function()
    local random = math.random
    local function raises() error "closed" end
    local keys = { "a", "b", 1, 2, 3, 7, true, 0.5 }

    local value
    local function fill(t, depth)
      for _ = 1, random(0, 3) do t[keys[random(#keys)]] = value(depth - 1) end
      return t
    end
    local make = {
      function() return random(3) end,
      function() return random(3) + 0.5 end,
      function() return 0 / 0 end,
      function() return random(2) == 1 end,
      function() return ("x"):rep(random(0, 2)) end,
      function() return mw.null end,
      function() return print end,
      function() return io.stdout end,
      function() return { shape = { random(2), random(2) } } end,
      function() return { shape = { random(2), nil, "x" } } end,
      function(depth) return fill({}, depth) end,
      function(depth) return fill({}, depth) end,
      function(depth)
        local names = { "__index", "__len", "__pairs" }
        return setmetatable(fill({}, depth), {
          [names[random(3)]] = raises, [names[random(3)]] = raises,
        })
      end,
      function(depth)
        return setmetatable(fill({}, depth), { __index = fill({}, depth) })
      end,
      function(depth) return mw.track(fill({}, depth)) end,
    }
    function value(depth)
      return make[random(depth > 0 and #make or 8)](depth)
    end

    with_seed(function()
      for _ = 1, 300 do
        local examples = {}
        for i = 1, random(4) do examples[i] = fill({}, 3) end
        local spec = mw.infer(examples, {
          exact = random(2) == 1, confidence = random(3), keep = random(0, 3),
        })
        local guard = assert(load(spec:to_lua()))()
        for i = 1, 12 do
          local example = examples[i]
          if i > #examples then example = i > 11 and value(2) or fill({}, 3) end
          local result = table.pack(spec:matches(example))
          assert.same(result, table.pack(guard(example)))
          if result[1] == false then
            assert.equal("string", type(result[2]))
          end
        end
      end
    end)
  end)

  it("refuses what it is not for", function()
    misuse("bad argument #1 to 'infer' (table or report expected, got nil)",
      mw.infer)
    misuse("bad argument #1 to 'infer' (example 1 is a number)",
      mw.infer, { 1 })
    for name, f in pairs { infer = mw.infer, dynamism = mw.dynamism } do
      misuse(("bad argument #1 to '%s' (the examples are not an array)")
        :format(name), f, { keep = 4 })
    end
    misuse("bad argument #2 to 'infer' (unknown option 'x')", mw.infer, {},
      { x = 1 })
    misuse("bad argument #2 to 'infer' (unknown option 'keep')",
      mw.infer, mw.dynamism(), { keep = 1 })
    misuse("bad argument #2 to 'infer' (option 'exact' is not a boolean)",
      mw.infer, {}, { exact = 1 })
    local spec = mw.infer {}
    misuse("calling 'matches' on bad self (specialisation expected, got nil)",
      spec.matches)
  end)
end)

local mw = require "moonwatch"
local picture = require "spec.support.picture"

local function tensor(...) return { shape = { ... } } end

local function dims(examples, opts)
  return mw.dynamism(examples, opts):dims()
end

local function change(examples, path, opts)
  return mw.dynamism(examples, opts):changes()[path]
end

describe("the dimensions of examples", function()
  it("vary where more than one value was seen", function()
    local examples = {}
    for n = 1, 5 do
      examples[n] = { x = n, y = tensor(n, 1), z = { tensor(n) } }
    end
    assert.same({
      x = { ["L['x']"] = { true } },
      y = { ["L['y']"] = { true, false } },
      z = { ["L['z'][1]"] = { true } },
    }, dims(examples))
  end)

  it("are found four tables deep", function()
    assert.same({ a = { ["L['a']['b']['c']['d']"] = { true } } }, dims {
      { a = { b = { c = { d = tensor(1) } } } },
      { a = { b = { c = { d = tensor(2) } } } },
    })
  end)

  it("are told apart", function()
    local examples = {}
    for n = 2, 4 do
      examples[n - 1] = { a = tensor(n, 7), b = { tensor(n), n },
        c = { d = tensor(5) } }
    end
    assert.same({
      a = { ["L['a']"] = { true, false } },
      b = { ["L['b'][1]"] = { true }, ["L['b'][2]"] = { true } },
      c = { ["L['c']['d']"] = { false } },
    }, dims(examples))
  end)

  it("of objects vary with the size on which they depend", function()
    local Layer = {}
    Layer.__index = Layer
    local function layer(from, to)
      return setmetatable({ from = from, to = to, training = true,
        _parameters = { weight = tensor(to, from), bias = tensor(to) },
      }, Layer)
    end
    local function net(hidden)
      return setmetatable({ hidden = hidden, _modules = {
        first = layer(10, hidden), second = layer(hidden, 1),
      } }, Layer)
    end
    local objects = { { self = net(3210) }, { self = net(3211) } }
    local before = picture(objects)
    local function its_class(v) return getmetatable(v) == Layer end
    local first, second = "L['self']['_modules']['first']",
      "L['self']['_modules']['second']"
    assert.same({ self = {
      ["L['self']['hidden']"] = { true },
      [first .. "['_parameters']['weight']"] = { true, false },
      [first .. "['_parameters']['bias']"] = { true },
      [first .. "['from']"] = { false },
      [first .. "['to']"] = { true },
      [second .. "['_parameters']['weight']"] = { false, true },
      [second .. "['_parameters']['bias']"] = { false },
      [second .. "['from']"] = { true },
      [second .. "['to']"] = { false },
    } }, dims(objects, { objects = its_class }))
    assert.equal(before, picture(objects))
  end)

  it("of no examples are none, and of one are all the same", function()
    assert.same({}, dims {})
    assert.same({}, mw.dynamism():dims())
    assert.same({ x = { ["L['x']"] = { false } },
      y = { ["L['y']"] = { false, false } } },
      dims { { x = 1, y = tensor(2, 3) } })
  end)

  it("do not depend on keys that some examples lack", function()
    assert.same({ x = { ["L['x']"] = { false } },
      y = { ["L['y']"] = { true } } },
      dims { { x = 1 }, {}, { x = 1, y = 1 }, { y = 2 } })
  end)

  it("are as many as the longest rank has", function()
    assert.same({ x = { ["L['x']"] = {} } }, dims { { x = tensor() } })
    assert.same({ x = { ["L['x']"] = { true, false, false } } },
      dims { { x = tensor() }, { x = tensor(1, 2, 3) }, { x = tensor(2) } })
  end)

  it("are those of numbers, booleans and shapes; other leaves are skipped",
    function()
      assert.same({ b = { ["L['b']"] = { true } } }, dims {
        { b = true, s = "a", f = print, t = {}, n = mw.null },
        { b = false, s = "b", f = error, t = {}, n = mw.null },
      })
      assert.same({ x = { ["L['x']"] = { false } } },
        dims { { x = 1 }, { x = "1" } })
    end)

  it("join what was a number once, and then had a shape", function()
    assert.same({ x = { ["L['x']"] = { true, false } } },
      dims { { x = 5 }, { x = tensor(3, 4) } })
    assert.same({ x = { ["L['x']"] = { false } } },
      dims { { x = 5 }, { x = tensor(5) } })
  end)

  it("tell integers, floats and booleans apart, and NaN is NaN", function()
    for _, values in ipairs {
      { 1, 1.0 }, { 1, true }, { 1.0, true }, { 0, -1 }, { 0 / 0, 1.0 },
      { math.maxinteger, math.maxinteger + 0.0 }, { 0, 0.0 },
    } do
      assert.same({ x = { ["L['x']"] = { true } } },
        dims { { x = values[1] }, { x = values[2] } })
      assert.same({ x = { ["L['x']"] = { false } } },
        dims { { x = values[1] }, { x = values[1] } })
    end
    assert.same({ x = { ["L['x']"] = { true } } },
      dims { { x = tensor(1) }, { x = tensor(1.0) } })
    assert.same({ x = { ["L['x']"] = { false } } },
      dims { { x = 0 / 0 }, { x = -(0 / 0) } })
  end)

  it("are found in examples of any type", function()
    assert.same({ [1] = { ["L[1]"] = { true } },
      [2] = { ["L[2]"] = { false } } }, dims { { 1, 2 }, { 3, 2 } })
    assert.same({ L = { L = { true, false } } },
      dims { tensor(1, 2), tensor(3, 2) })
    assert.same({ [true] = { ["L[true][0.5]"] = { false } } },
      dims { { [true] = { [0.5] = 1 } } })
  end)

  it("have paths that can be told apart", function()
    assert.same({
      ["a'].b"] = { [ [=[L['a\'].b']]=] ] = { false } },
      a = { [ [=[L['a']['b']]=] ] = { false } },
    }, dims { { ["a'].b"] = 1, a = { b = 1 } } })
  end)

  it("are those that a function says", function()
    local opts = { shape = function(v)
      return type(v) == "table" and v.size and { v.size() } or nil
    end }
    local function sized(...)
      local sizes = { ... }
      return { size = function() return table.unpack(sizes) end }
    end
    assert.same({ x = { ["L['x']"] = { true, false } } },
      dims({ { x = sized(1, 2) }, { x = sized(2, 2) } }, opts))
    assert.same({ x = { ["L['x']['shape'][1]"] = { false } } },
      dims({ { x = tensor(1) } }, opts))
  end)

  it("are those of lists of numbers only", function()
    for _, shape in ipairs { "round", { "a" }, { x = 1 }, { [2] = 1 },
      print } do
      local result = dims { { x = { shape = shape, n = 1 } } }
      assert.same({ false }, result.x["L['x']['n']"])
    end
  end)
end)

describe("the changes in examples", function()
  it("tell the values, their bounds and their number", function()
    local entry = change({ { x = 3 }, { x = 1 }, { x = 3 }, { x = 2.5 } },
      "L['x']")
    assert.same({ keys = { "x" }, examples = 4, missing = 0,
      kinds = { integer = 3, float = 1 }, verdict = "varying",
      varies = { value = true, kind = true }, distinct = 3,
      values = { 1, 3, 2.5 }, min = 1, max = 3 }, entry)
  end)

  it("tell floats as floats", function()
    local values = change({ { x = 2.0 }, { x = 1.0 }, { x = 2 } },
      "L['x']").values
    assert.same({ 2, 1.0, 2.0 }, values)
    assert.same({ "integer", "float", "float" }, { math.type(values[1]),
      math.type(values[2]), math.type(values[3]) })
  end)

  it("tell of constants", function()
    assert.same({ keys = { "s" }, examples = 2, missing = 0,
      kinds = { string = 2 }, verdict = "constant", varies = {}, distinct = 1,
      values = { "abc" }, length = { min = 3, max = 3 } },
      change({ { s = "abc" }, { s = "abc" } }, "L['s']"))
  end)

  it("tell of kinds that change", function()
    local entry = change({ { x = 1 }, { x = "1" }, { x = { 1 } }, { x = true },
      { x = mw.null }, { x = print }, { x = io.stdout }, { x = tensor(1) },
      { x = coroutine.create(print) } }, "L['x']")
    assert.same({ integer = 1, string = 1, table = 1, boolean = 1, null = 1,
      ["function"] = 1, userdata = 1, shaped = 1, thread = 1 }, entry.kinds)
    assert.is_true(entry.varies.kind)
  end)

  it("tell of ranks that change, and of each dimension", function()
    local entry = change({ { x = tensor(1, 2) }, { x = tensor(3) } }, "L['x']")
    assert.same({ 1, 2 }, entry.ranks)
    assert.same({ rank = true, value = true }, entry.varies)
    assert.same({ 1, 3 }, entry.dims[1].values)
    assert.equal("varying", entry.dims[1].verdict)
    assert.same({ 2 }, entry.dims[2].values)
    assert.equal("constant", entry.dims[2].verdict)
  end)

  it("tell of keys that some examples lack", function()
    local changes = mw.dynamism({ { x = 1 }, {}, { a = { b = 1 } },
      { a = {} } }):changes()
    assert.equal(3, changes["L['x']"].missing)
    assert.same({ presence = true }, changes["L['x']"].varies)
    assert.equal(2, changes["L['a']"].missing)
    assert.equal(1, changes["L['a']['b']"].missing)
  end)

  it("tell of lengths", function()
    local entry = change({ { x = { 1, 1 } }, { x = { 1 } } }, "L['x']")
    assert.same({ min = 1, max = 2 }, entry.length)
    assert.same({ length = true }, entry.varies)
  end)

  it("have as many values as they are to keep, the least", function()
    local examples = {}
    for i = 1, 100 do examples[i] = { n = i * 37 % 101, s = "s" .. i % 5 } end
    local changes = mw.dynamism(examples, { keep = 3 }):changes()
    local n, s = changes["L['n']"], changes["L['s']"]
    assert.same({ "many", { 1, 2, 3 }, 1, 100 },
      { n.distinct, n.values, n.min, n.max })
    assert.same({ "many", { "s0", "s1", "s2" } }, { s.distinct, s.values })
    local exact = change(examples, "L['s']", { keep = 5 })
    assert.equal(5, exact.distinct)
    assert.equal(5, #exact.values)
    local none = change(examples, "L['s']", { keep = 0 })
    assert.same({ {}, "many", "varying" },
      { none.values, none.distinct, none.verdict })
  end)

  it("say 'constant' after enough examples only", function()
    local report = mw.dynamism({}, { confidence = 3 })
    report:add { x = 1 }:add { x = 1 }
    assert.equal("unsure", report:changes()["L['x']"].verdict)
    report:add { x = 1 }
    assert.equal("constant", report:changes()["L['x']"].verdict)
    report:add { x = 2 }
    assert.equal("varying", report:changes()["L['x']"].verdict)
  end)
end)

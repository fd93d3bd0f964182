local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local picture = require "spec.support.picture"

local function tensor(...) return { shape = { ... } } end

local function dims(examples, opts)
  return mw.dynamism(examples, opts):dims()
end

local function change(examples, path, opts)
  return mw.dynamism(examples, opts):changes()[path]
end

-- A call with the seed of math.random in the message if it fails.
local function with_seed(f)
  local seed = os.time() * 1000 + math.floor(os.clock() * 1000)
  math.randomseed(seed)
  local ok, message = pcall(f)
  if not ok then error(("seed %d: %s"):format(seed, tostring(message)), 0) end
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

describe("a report", function()
  local function any_value(depth)
    local choice = math.random(depth > 0 and 9 or 6)
    if choice == 1 then return math.random(30) end
    if choice == 2 then return math.random(30) / 2 end
    if choice == 3 then return "s" .. math.random(30) end
    if choice == 4 then return math.random(2) == 1 end
    if choice == 5 then return 0 / 0 end
    if choice == 6 then return tensor(math.random(3), math.random(2)) end
    local t = {}
    for _ = 1, math.random(0, 4) do
      local key = math.random(2) == 1 and math.random(3) or
        string.char(96 + math.random(3))
      t[key] = any_value(depth - 1)
    end
    return t
  end

  local function told(report)
    return picture { report:dims(), report:changes(), report:left_out(),
      report:examples() }
  end

  it("is the same in whatever order examples come, and reports are joined",
    function()
      with_seed(function()
        for _ = 1, 100 do
          local opts = { keep = math.random(0, 6) }
          local examples = {}
          for i = 1, 12 do examples[i] = { any_value(3), x = any_value(2) } end
          local expected = told(mw.dynamism(examples, opts))
          local parts = {}
          for i = 1, 3 do parts[i] = mw.dynamism(nil, opts) end
          while #examples > 0 do
            local at = math.random(#examples)
            parts[math.random(3)]:add(table.remove(examples, at))
          end
          local last = table.remove(parts, math.random(3))
          local joined = mw.dynamism(nil, opts):merge(last):merge(parts[1])
          assert.is_true(expected == told(joined:merge(parts[2])))
        end
      end)
    end)

  -- What a report should know of a value and what is below it, by the book.
  local function note_all(notes, value, path, depth)
    local note = notes[path] or { kinds = {}, seen = {}, distinct = 0 }
    local kind = math.type(value) or type(value)
    notes[path] = note
    note.kinds[kind] = (note.kinds[kind] or 0) + 1
    if kind == "table" then
      for key, field in pairs(value) do
        local text = type(key) == "string" and "'" .. key .. "'" or key
        note_all(notes, field, path .. "[" .. tostring(text) .. "]", depth + 1)
      end
      return
    end
    local name = kind .. tostring(value == value and value or "NaN")
    if not note.seen[name] then note.distinct = note.distinct + 1 end
    note.seen[name] = true
    if math.type(value) and value == value then
      note.min = math.min(note.min or value, value)
      note.max = math.max(note.max or value, value)
    end
  end

  it("knows what can be known, also of examples that come again", function()
    local LONG = ("long "):rep(20)
    local function scalar(i)
      local choice = math.random(6)
      if choice == 1 then return math.random(40) end
      if choice == 2 then return math.random(40) / 2 end
      if choice == 3 then return "s" .. math.random(3) end
      if choice == 4 then return LONG .. math.random(3) end
      if choice == 5 then return math.random(2) == 1 end
      return math.random(3) > 1 and i or 0 / 0
    end
    local function example(i)
      local t = { i = i, f = -i / 2, list = {}, [LONG] = scalar(i) }
      for j = 1, math.random(5) do t.list[j] = { scalar(i), x = scalar(i) } end
      for _ = 1, 4 do t["k" .. math.random(6)] = scalar(i) end
      return t
    end
    with_seed(function()
      for _ = 1, 20 do
        local report, notes, examples = mw.dynamism({}, { keep = 20 }), {}, {}
        for i = 1, 100 do
          examples[i] = i > 50 and math.random(3) > 1 and
            examples[math.random(i - 1)] or example(i)
          report:add(examples[i])
          note_all(notes, examples[i], "L", 0)
          if i == 70 then report:changes() end
        end
        local changes = report:changes()
        for path, note in pairs(notes) do
          local entry = changes[path]
          if entry then
            assert.same(note.kinds, entry.kinds)
            assert.equal(note.min, entry.min)
            assert.equal(note.max, entry.max)
            assert.equal(note.distinct > 20 and "many" or note.distinct,
              entry.distinct)
            assert.equal(math.min(note.distinct, 20), #entry.values)
          else
            assert.is_not_nil(note.kinds.table)
          end
        end
      end
    end)
  end)

  it("leaves what it is joined with as it was", function()
    local a, b = mw.dynamism { { x = 1 } }, mw.dynamism { { x = 2, y = { 1 } } }
    local before = told(b)
    a:merge(b):add { y = { 2 } }
    assert.equal(before, told(b))
    assert.equal(3, a:examples())
  end)

  it("counts a report that is joined with itself twice", function()
    local report = mw.dynamism { { x = 1, y = tensor(1) }, { x = 2 } }
    report:merge(report)
    assert.equal(4, report:examples())
    assert.equal(4, report:changes()["L['x']"].examples)
    assert.equal(2, report:changes()["L['y']"].examples)
  end)

  it("keeps nothing alive, and changes nothing", function()
    local alive = setmetatable({}, { __mode = "k" })
    local example = { x = { 1 }, f = function() end, [{}] = 1, w = tensor(1) }
    for _, value in pairs(example) do
      if type(value) ~= "number" then alive[value] = true end
    end
    for key in pairs(example) do
      if type(key) == "table" then alive[key] = true end
    end
    alive[example] = true
    local before = picture(example)
    local report = mw.dynamism { example }
    assert.equal(before, picture(example))
    example = nil -- luacheck: ignore 311
    collectgarbage()
    collectgarbage()
    assert.is_nil(next(alive))
    assert.equal(1, report:examples())
  end)

  it("does not grow when values repeat", function()
    local report = mw.dynamism()
    local function feed(n)
      for i = 1, n do
        report:add { x = i % 10, y = { "a", tensor(i % 3) }, z = i % 2 == 0 }
      end
      collectgarbage()
      collectgarbage()
      return collectgarbage "count"
    end
    local before = feed(100)
    assert.is_true(feed(10000) - before < 16)
  end)

  it("does not grow without bounds when they do not", function()
    local report = mw.dynamism()
    local function feed(from, to)
      for i = from, to do report:add { x = i, y = -i, z = "s" .. i } end
      collectgarbage()
      collectgarbage()
      return collectgarbage "count"
    end
    local before = feed(1, 100)
    assert.is_true(feed(101, 20000) - before < 16)
  end)

  it("takes cycles and what is shared as they come", function()
    local shared, cyclic = { n = 1 }, { n = 1 }
    cyclic.me, cyclic.list = cyclic, { cyclic }
    local report = mw.dynamism { { a = shared, b = { shared }, c = cyclic } }
    assert.same({
      a = { ["L['a']['n']"] = { false } },
      b = { ["L['b'][1]['n']"] = { false } },
      c = { ["L['c']['n']"] = { false } },
    }, report:dims())
    local changes = report:changes()
    assert.same({ cycle = 1 }, changes["L['c']['me']"].kinds)
    assert.same({ cycle = 1 }, changes["L['c']['list'][1]"].kinds)
  end)

  it("ends when there are more paths than can be walked, and says so",
    function()
      local t = { leaf = 1 }
      for _ = 1, 60 do t = { t, t } end
      local report = mw.dynamism { t }
      local _, message = next(report:left_out())
      assert.equal("too many paths lead to the tables in it", message)
      local grid = {}
      for i = 1, 30 do
        for j = 1, 30 do
          local cell = { i = i, j = j, up = grid[(i - 1) * 100 + j],
            left = grid[i * 100 + j - 1] }
          grid[i * 100 + j] = cell
          if cell.up then cell.up.down = cell end
          if cell.left then cell.left.right = cell end
        end
      end
      assert.equal(1, mw.dynamism({ { start = grid[101] } }):examples())
    end)

  it("goes as deep as need be", function()
    local t = { x = 1 }
    for _ = 1, 20000 do t = { a = t } end
    local report = mw.dynamism { t, t }
    local path, booleans = next(report:dims().a)
    assert.equal(20000 * #"['a']" + #"L['x']", #path)
    assert.same({ false }, booleans)
  end)

  it("leaves out what raises or has no path, and says so", function()
    local strict = setmetatable({ n = 1 }, {
      __index = function(_, key) error("no field " .. key, 0) end,
    })
    local broken = setmetatable({}, { __pairs = function() error("no", 0) end })
    local report = mw.dynamism { { s = strict, b = broken, [{}] = 1, x = 1 } }
    assert.same({ s = { ["L['s']['n']"] = { false } },
      x = { ["L['x']"] = { false } } }, report:dims())
    assert.same({ L = "a key is a table", ["L['s']"] = "no field shape",
      ["L['b']"] = "no" }, report:left_out())
    assert.same({ unreadable = 1 }, report:changes()["L['b']"].kinds)
  end)

  it("contains errors of the functions that it was given", function()
    local function fails() error("not that one", 0) end
    for _, option in ipairs { "shape", "objects" } do
      local report = mw.dynamism({ { t = { x = 1 } } }, { [option] = fails })
      assert.same({ t = { ["L['t']['x']"] = { false } } }, report:dims())
      assert.equal("not that one", report:left_out()["L['t']"])
    end
  end)

  it("sees what objects show to pairs", function()
    local obj = setmetatable({}, {
      __pairs = function() return next, { x = 1 } end,
    })
    assert.same({ o = { ["L['o']['x']"] = { false } } }, dims { { o = obj } })
  end)

  it("sees what is in watched tables", function()
    local example = { a = { x = 1 }, w = tensor(2) }
    local expected = dims { example }
    mw.watch(example, error, { deep = true })
    assert.same(expected, dims { example })
    assert.equal(0, mw.mutations(example))
  end)

  it("refuses what it cannot be fed", function()
    misuse("bad argument #1 to 'dynamism' (table expected, got string)",
      mw.dynamism, "x")
    misuse("bad argument #1 to 'dynamism' (example 2 is a number)",
      mw.dynamism, { {}, 5 })
    misuse("bad argument #2 to 'dynamism' (table expected, got number)",
      mw.dynamism, {}, 5)
    misuse("bad argument #2 to 'dynamism' (unknown option 'shapes')",
      mw.dynamism, {}, { shapes = print })
    misuse("option 'keep' is not a count", mw.dynamism, {}, { keep = -1 })
    misuse("option 'keep' is not a count", mw.dynamism, {}, { keep = 1.5 })
    misuse("option 'confidence' is not a number", mw.dynamism, {},
      { confidence = "x" })
    misuse("option 'shape' is not a function", mw.dynamism, {}, { shape = {} })
    local report = mw.dynamism()
    misuse("bad argument #1 to 'add' (table or userdata expected, got nil)",
      report.add, report)
    misuse("bad argument #1 to 'merge' (report expected, got table)",
      report.merge, report, {})
    misuse("bad argument #1 to 'merge' (it keeps another number of values)",
      report.merge, report, mw.dynamism(nil, { keep = 1 }))
    misuse("calling 'dims' on bad self (report expected, got table)",
      report.dims, {})
    assert.is_false(getmetatable(report))
    assert.matches("attempt to index", error_of(function()
      return report.nothing.more
    end))
  end)
end)

describe("a report that is fed with effects", function()
  local Enemy = { __name = "Enemy" }
  Enemy.__index = Enemy

  it("knows what fields held, by class", function()
    local a = mw.track(setmetatable({ hp = 10, kind = "orc" }, Enemy))
    local b = mw.track(setmetatable({ hp = 20, kind = "orc" }, Enemy))
    local report = mw.dynamism()
    for i = 1, 3 do
      local _, fx = mw.transaction(function()
        a.hp, b.hp = a.hp - i, b.hp - i
        a.hp = a.hp - 1
      end)
      report:add_effects(fx)
    end
    local entry = report:changes()["L['Enemy']['hp']"]
    assert.same({ 1, 20 }, { entry.min, entry.max })
    assert.equal("varying", entry.verdict)
    assert.equal(0, entry.missing)
    assert.same({ Enemy = { ["L['Enemy']['hp']"] = { true } } }, report:dims())
  end)

  it("knows objects by the names that they are given", function()
    local hero, plain = mw.track { hp = 1 }, mw.track { x = 1 }
    local _, fx = mw.transaction(function()
      hero.hp, hero.name, hero.t, plain.x = 1, "hero", {}, nil
    end)
    local report = mw.dynamism():add_effects(fx, { hero = hero })
    local changes = report:changes()
    local hp, name = changes["L['hero']['hp']"], changes["L['hero']['name']"]
    assert.same({ 2, 1, "constant" }, { hp.examples, hp.distinct, hp.verdict })
    assert.same({ 1, 1 }, { name.examples, name.missing })
    assert.equal(1, changes["L['table']['x']"].missing)
    assert.same({ table = 1 }, changes["L['hero']['t']"].kinds)
  end)

  it("passes over what is no field", function()
    local obj = mw.track { x = 1 }
    local n = 1
    local function cell() return n end
    local tx = mw.begin { cells = { cell } }
    n = 2
    obj[{}] = 1
    mw.setmetatable(obj, Enemy)
    assert.same({}, mw.dynamism():add_effects(tx:commit()):changes())
  end)

  it("refuses other things", function()
    local report = mw.dynamism()
    misuse("bad argument #1 to 'add_effects' (effects expected, got table)",
      report.add_effects, report, {})
    local _, fx = mw.transaction(function() end)
    misuse("bad argument #2 to 'add_effects' (table expected, got number)",
      report.add_effects, report, fx, 1)
  end)
end)

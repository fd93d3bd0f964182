local error_of = require "spec.support.error_of"
local growth = require "spec.support.growth"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local picture = require "spec.support.picture"
local with_seed = require "spec.support.with_seed"

local function tensor(...) return { shape = { ... } } end

local function dims(examples, opts)
  return mw.dynamism(examples, opts):dims()
end

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
    return picture { report:dims(), report:changes(), report:examples() }
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

  it("goes on learning after it was joined", function()
    local full = mw.dynamism(nil, { keep = 2 })
    for i = 1, 4 do full:add { x = i, y = i / 2, z = "z" .. i } end
    local report = mw.dynamism(nil, { keep = 2 }):merge(full)
    for i = 1, 2 do
      for j = 4, 0, -1 do report:add { x = j, y = j / 2, z = "z" .. j } end
      local x = report:changes()["L['x']"]
      assert.same({ 4 + 5 * i, 0, 4, { 0, 1 } },
        { x.examples, x.min, x.max, x.values })
    end
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
    assert.is_true(growth(function()
      for i = 1, 1000 do
        report:add { x = i % 10, y = { "a", tensor(i % 3) }, z = i % 2 == 0 }
      end
    end) < 1)
  end)

  it("does not grow without bounds when they do not", function()
    local report = mw.dynamism()
    assert.is_true(growth(function(round)
      for i = round * 1000, round * 1000 + 999 do
        report:add { x = i, y = -i, z = "s" .. i }
      end
    end) < 1)
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
      local shared = 0
      for _, change in pairs(mw.dynamism({ t }):changes()) do
        shared = shared + (change.kinds.shared or 0)
      end
      assert.is_true(shared > 0)
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

  it("leaves out what raises or has no path", function()
    local strict = setmetatable({ n = 1 }, {
      __index = function(_, key) error("no field " .. key, 0) end,
    })
    local broken = setmetatable({}, { __pairs = function() error("no", 0) end })
    local report = mw.dynamism { { s = strict, b = broken, [{}] = 1, x = 1 } }
    assert.same({ s = { ["L['s']['n']"] = { false } },
      x = { ["L['x']"] = { false } } }, report:dims())
    assert.same({ unreadable = 1 }, report:changes()["L['b']"].kinds)
  end)

  it("contains errors of the functions that it was given", function()
    local function fails() error("not that one", 0) end
    for _, option in ipairs { "shape", "objects" } do
      local report = mw.dynamism({ { t = { x = 1 } } }, { [option] = fails })
      assert.same({ t = { ["L['t']['x']"] = { false } } }, report:dims())
    end
  end)

  it("calls no functions of classes but __index and __pairs", function()
    local obj = setmetatable({ 1, 2 }, { __len = error, __eq = error })
    assert.same({ false }, dims { { o = obj, p = obj } }.o["L['o'][1]"])
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

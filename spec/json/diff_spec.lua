local mw = require "moonwatch"
local json = require "moonwatch.json"
local json_diff = require "moonwatch.json.diff"
local raw_of = require "spec.support.raw_of"
local documents = require "spec.support.documents"
local text = require "spec.support.json"
local error_of = require "spec.support.error_of"
local with_seed = require "spec.support.with_seed"

-- The operations from one document to another, in a line.
local function script(a, b)
  local operations = assert(mw.diff(a, b))
  local result = mw.patch({ a }, { { op = "replace", path = "/0", value = a } })
  local moved = json.copy(operations)
  for i, operation in ipairs(operations) do
    moved[i].path = "/0" .. operation.path
  end
  assert.is_true(text.equal(b, assert(mw.patch(result, moved))[1]))
  local lines = {}
  for i, operation in ipairs(operations) do
    lines[i] = operation.op .. " " .. operation.path
    if operation.op ~= "remove" then
      lines[i] = lines[i] .. " " .. text.encode(operation.value)
    end
  end
  return table.concat(lines, "; ")
end

local function decoded(a, b) return script(text.decode(a), text.decode(b)) end

describe("a diff", function()
  it("of equal documents is empty", function()
    assert.equal("", decoded('{"a":[1,{"b":null}]}', '{"a":[1.0,{"b":null}]}'))
    assert.equal("", script(1, 1.0))
    assert.equal("", script({}, mw.array {}))
    assert.equal("", script({ a = mw.object_like {} }, { a = {} }))
    assert.equal("array", json.kind(mw.diff({}, {})))
  end)

  it("of objects adds, replaces and goes into members, then removes",
    function()
      assert.equal('add /b 2; replace /c false; replace /d/x 2; remove /a',
        decoded('{"a":1,"c":1,"d":{"x":1,"y":0}}',
          '{"b":2,"c":false,"d":{"x":2,"y":0}}'))
      assert.equal('add /~1~01 null; remove /', decoded('{"":1}',
        '{"/~1":null}'))
    end)

  it("replaces what is of another kind", function()
    assert.equal('replace  1', script({ 1 }, 1))
    assert.equal('replace /a {"b":1}', script({ a = { 1 } }, { a = { b = 1 } }))
    assert.equal('replace /a {}',
      script({ a = mw.array {} }, { a = mw.object_like {} }))
    assert.equal('replace /a "1"', script({ a = 1 }, { a = "1" }))
    assert.equal('replace /a null', script({ a = false }, { a = mw.null }))
  end)

  it("of lists inserts and removes", function()
    assert.equal('add /0 0', script({ 1, 2, 3 }, { 0, 1, 2, 3 }))
    assert.equal('add /3 4', script({ 1, 2, 3 }, { 1, 2, 3, 4 }))
    assert.equal('remove /1', script({ 1, 2, 3 }, { 1, 3 }))
    assert.equal('add /1 9; remove /3', script({ 1, 2, 3, 4 }, { 1, 9, 2, 4 }))
    assert.equal('remove /2; remove /1', script({ 1, 2, 3, 4 }, { 1, 4 }))
    assert.equal('remove /1; remove /0', script({ 1, 2 }, {}))
    assert.equal('add /0 1; add /1 2', script({}, { 1, 2 }))
    assert.equal('replace /1 9; add /2 8', script({ 1, 2, 3 }, { 1, 9, 8, 3 }))
    assert.equal('remove /0; add /2 1', script({ 1, 2, 3 }, { 2, 3, 1 }))
  end)

  it("of lists goes into what has changed inside", function()
    assert.equal('replace /1/hp 3; add /3 {"hp":9}', script(
      { { hp = 1 }, { hp = 2, x = {} }, { hp = 5 } },
      { { hp = 1 }, { hp = 3, x = {} }, { hp = 5 }, { hp = 9 } }))
    assert.equal('add /0 {"hp":9}; replace /1/hp 0; replace /3/hp 0', script(
      { { n = "a", hp = 1 }, { n = "b", hp = 1 }, { n = "c", hp = 1 } },
      { { hp = 9 }, { n = "a", hp = 0 }, { n = "b", hp = 1 },
        { n = "c", hp = 0 } }))
    assert.equal('remove /0; replace /0/hp 2; replace /1/hp 3', script(
      { { n = "a", hp = 1 }, { n = "b", hp = 1 }, { n = "c", hp = 1 } },
      { { n = "b", hp = 2 }, { n = "c", hp = 3 } }))
    assert.equal('replace /0/0/1 3', script({ { { 1, 2 } } }, { { { 1, 3 } } }))
    assert.equal('replace /0 {"a":1}', script({ { 1 } }, { { a = 1 } }))
  end)

  it("of a thousand elements with one in front is one operation", function()
    local a, b = {}, { { id = 0 } }
    for i = 1, 1000 do
      a[i] = { id = i, list = { i } }
      b[i + 1] = { id = i, list = { i } }
    end
    assert.equal('add /0 {"id":0}', script(a, b))
    assert.equal('remove /0', script(b, a))
  end)

  it("never mistakes an empty object for an array", function()
    assert.equal('replace  {"0":1}', script({}, { ["0"] = 1 }))
    assert.equal('add /0 1; remove /a', script({ a = 1 }, { ["0"] = 1 }))
    assert.equal('replace /x {"-":1}',
      script({ x = {} }, { x = { ["-"] = 1 } }))
    assert.equal('add /1 1', script({}, { ["1"] = 1 }))
    assert.equal('add /0 1', script(mw.object_like {}, { ["0"] = 1 }))
    assert.equal('replace  [1]', script(mw.object_like {}, { 1 }))
  end)

  it("gives copies", function()
    local b = { a = { 1, mw.array {} } }
    local operations = mw.diff({}, b)
    b.a[1], b.a[2][1] = 2, 2
    assert.same({ 1, {} }, operations[1].value)
    assert.equal("array", json.kind(operations[1].value[2]))
  end)

  it("sees what is in watched tables", function()
    local a, b = { x = { 1, 2 } }, { x = { 2 }, y = 1 }
    mw.watch(a, error, { deep = true })
    mw.watch(b, error, { deep = true })
    local operations = mw.diff(a, b)
    mw.unwatch(a)
    assert.equal(0, mw.mutations(b))
    assert.same(mw.diff(a, { x = { 2 }, y = 1 }), operations)
    assert.equal(2, #operations)
  end)

  it("is nil and a message for what JSON cannot say", function()
    local cyclic = { a = {} }
    cyclic.a.b = cyclic
    for what, value in pairs {
      ["not JSON: a function at '/f'"] = { f = print },
      ["not JSON: a thread at ''"] = coroutine.create(print),
      ["not JSON: the number inf at '/0'"] = { 1 / 0 },
      ["not JSON: a table inside itself at '/a/b'"] = cyclic,
      ["not JSON: a table whose keys are neither strings nor 1 to n at '/a'"] =
        { a = { [2] = 1 } },
    } do
      assert.same({ nil, what }, { mw.diff(value, {}) })
      assert.same({ nil, what }, { mw.diff({}, value) })
    end
    assert.matches("the number %-?nan", select(2, mw.diff({}, { 0 / 0 })))
  end)

  it("raises when there is nothing", function()
    assert.equal("bad argument #1 to 'diff' (value expected, got nil)",
      error_of(mw.diff))
    assert.matches("diff_spec.lua:%d+: bad argument #2 to 'diff' %(value",
      error_of(function() mw.diff({}) end))
  end)

  it("finds its way through what is thousands deep", function()
    local a, b = { 1 }, { 2 }
    for _ = 1, 10000 do a, b = { a }, { b } end
    local operations = mw.diff(a, b)
    assert.equal(1, #operations)
    assert.equal(("/0"):rep(10001), operations[1].path)
  end)

  it("is the same each time", function()
    local function make()
      local t = {}
      for i = 1, 100 do t["k" .. math.random(1000)] = { i } end
      return t
    end
    with_seed(function()
      local a, b = make(), make()
      assert.same(mw.diff(a, b), mw.diff(json.copy(a), json.copy(b)))
    end)
  end)

  it("makes any document any other", function()
    with_seed(function()
      for i = 1, 1500 do
        local a = documents.value(4)
        local b = documents.value(4)
        if i % 3 > 0 then b = documents.edited(json.copy(a), 4) end
        script(a, b)
      end
    end)
  end)
end)

-- How many elements of two lists of scalars differ.
local function differing(a, b)
  local n = math.abs(#a - #b)
  for i = 1, math.min(#a, #b) do
    if a[i] ~= b[i] then n = n + 1 end
  end
  return n
end

-- The number of operations, which must make a copy of `a` equal to `b`.
local function count(a, b)
  local operations = assert(mw.diff(a, b))
  local copy = json.copy { a }
  for _, operation in ipairs(operations) do
    operation.path = "/0" .. operation.path
  end
  assert.is_true(text.equal(b, assert(mw.patch(copy, operations))[1]))
  return #operations
end

local function list_of(n, make)
  local list = {}
  for i = 1, n do list[i] = make(i) end
  return list
end

local function shuffled(list)
  local result = json.copy(list)
  for i = #result, 2, -1 do
    local j = math.random(i)
    result[i], result[j] = result[j], result[i]
  end
  return result
end

describe("a diff of lists", function()
  local function row(i)
    return { id = i, name = "row " .. i, x = 10 * i, y = 20 * i }
  end

  it("is never longer than replacing what differs", function()
    with_seed(function()
      for _ = 1, 300 do
        local most = math.random(40)
        local function number() return math.random(most) end
        local a = list_of(math.random(0, 60), number)
        local b = math.random(2) == 1 and shuffled(a) or json.copy(a)
        if math.random(2) == 1 then
          for _ = 1, math.random(5) do
            table.insert(b, math.random(#b + 1), number())
            table.remove(b, math.random(#b))
          end
        end
        assert.is_true(count(a, b) <= differing(a, b))
        table.sort(b)
        assert.is_true(count(a, b) <= differing(a, b))
      end
    end)
  end)

  it("of a reversed, a sorted and a swapped list replaces", function()
    with_seed(function()
      for _, make in ipairs { math.tointeger, row } do
        local a = list_of(100, make)
        local reversed = list_of(100, function(i) return make(101 - i) end)
        assert.equal(100, count(a, reversed))
        assert.is_true(count(shuffled(a), a) <= 100)
        local swapped = json.copy(a)
        swapped[2], swapped[90] = swapped[90], swapped[2]
        assert.equal(2, count(a, swapped))
        swapped[3], swapped[4] = swapped[4], swapped[3]
        assert.is_true(count(a, swapped) <= 4)
      end
    end)
  end)

  it("is short where elements moved together", function()
    with_seed(function()
      for _, make in ipairs { math.tointeger, row, function(i) return i % 3 end,
        function(i) return { i % 3 } end } do
        local a = list_of(300, make)
        local b = json.copy(a)
        table.insert(b, 1, table.remove(b))
        assert.is_true(count(a, b) <= 2)
        table.insert(b, 100, make(1000))
        table.remove(b, 200)
        assert.is_true(count(a, b) <= 4)
      end
    end)
  end)

  it("replaces an element where that is shorter than to change it", function()
    local big = {}
    for i = 1, 50 do big["field " .. i] = i end
    local a = { big, row(1), row(2) }
    local b = json.copy(a)
    b[1]["field 1"], b[1]["field 2"] = 0, 0
    b[2].x = 0
    b[3].x, b[3].y = 0, 0
    assert.equal('replace /0/field 1 0; replace /0/field 2 0; ' ..
      'replace /1/x 0; replace /2 {"id":2,"name":"row 2","x":0,"y":0}',
      script(a, b))
    assert.equal('replace /0/0/a 0; replace /1/0 {"a":0,"b":0}', script(
      { { { a = 1, b = 1 } }, { { a = 1, b = 1 } } },
      { { { a = 0, b = 1 } }, { { a = 0, b = 0 } } }))
  end)

  it("of 1,600 rows, two fields changed in each and one row gone, is short",
    function()
      with_seed(function()
        local function common(i)
          return { kind = i % 3, color = i % 5, x = math.random(1000000),
            y = math.random(1000000) }
        end
        for _, make in ipairs { row, common } do
          for _, gone in ipairs { 1, 800, 1600 } do
            local a = list_of(1600, make)
            local b = json.copy(a)
            for i = 1, 1600 do b[i].x, b[i].y = -i, -i * 3 end
            table.remove(b, gone)
            assert.equal(1600, count(a, b))
          end
        end
        local function wide(i)
          local t = { id = i }
          for k = 1, 20 do t["a field " .. k] = i * k end
          return t
        end
        local a = list_of(400, wide)
        local b = json.copy(a)
        for i = 1, 400 do b[i]["a field 3"], b[i]["a field 7"] = -i, -i end
        table.remove(b, 100)
        table.insert(b, 300, wide(1000))
        assert.equal(800, count(a, b))
      end)
    end)

  it("has an operation for each of few differences", function()
    local function one(i)
      return { id = i, name = "row " .. i, tags = { "a", "b" } }
    end
    local a, b = list_of(500, one), list_of(500, one)
    for i = 1, 5 do b[i * 90].name = "other" end
    b[7].tags[2] = "c"
    b[8].tags[3] = "c"
    assert.equal(7, count(a, b))
    b[9], b[300] = b[300], b[9]
    assert.equal(9, count(a, b))
    b[9], b[300] = b[300], b[9]
    b[500] = b[499]
    assert.equal(8, count(a, b))
  end)
end)

describe("a diff of strings that are not UTF-8", function()
  it("is nil and a message", function()
    local good = { name = "sm\xc3\xb8rrebr\xc3\xb8d \u{1F600}", ["\u{e9}"] = 1 }
    assert.is_table(mw.diff({}, good))
    assert.is_table(mw.diff(good, {}))
    for what, value in pairs {
      ["not JSON: a string that is not UTF-8 at '/a/0'"] =
        { a = { "caf\xe9" } },
      ["not JSON: a string that is not UTF-8 at ''"] = "\xff",
      ["not JSON: a key that is not UTF-8 at '/a'"] =
        { a = { ["caf\xe9"] = 1 } },
      ["not JSON: a string that is not UTF-8 at '/s'"] =
        { s = "\xed\xa0\x80" }, -- half of a pair
    } do
      local copy = type(value) == "table" and {} or value
      if copy ~= value then
        for key, member in pairs(value) do copy[key] = member end
      end
      assert.same({ nil, what }, { mw.diff(value, {}) })
      assert.same({ nil, what }, { mw.diff({}, value) })
      assert.same({ nil, what }, { mw.diff(value, copy) })
      assert.is_nil(mw.patch({ x = 1 },
        { { op = "add", path = "/x", value = value } }))
    end
    assert.matches("is not UTF%-8", select(2, mw.patch({},
      { { op = "add", path = "/\xff", value = 1 } })))
  end)
end)

describe("a diff of a table that is in two places", function()
  -- A patch of the diff, for the document itself.
  local function patched(a, b)
    local operations = assert(mw.diff(a, b))
    for _, document in ipairs { json.copy(a), a } do
      local result, message = mw.patch(document, operations)
      assert.is_nil(message)
      assert.is_true(text.equal(b, result))
    end
    return operations
  end

  it("gives each place its own value", function()
    local pos = { x = 1 }
    patched({ start = pos, goal = pos },
      { start = { x = 2 }, goal = { x = 3 } })
    patched({ start = pos, goal = pos },
      { start = { x = 1 }, goal = { x = 3 } })
    local list = { 1, 2 }
    patched({ list, list }, { { 0, 1, 2 }, { 0, 1, 2 } })
    local box = { list = { 1 } }
    patched({ a = box, b = { box } },
      { a = { list = { 1, 2 } }, b = { { list = { 1, 3 } } } })
    patched({ a = box, b = { box, 1 }, c = {} }, { a = { list = { 2 } },
      b = { { list = { 1 } } } })
    patched({ { box }, box, 1 }, { 1, { box }, { list = { 2 } } })
  end)

  it("leaves alone what is as it was", function()
    local same = { 1, { 2 } }
    local a = { a = same, b = same, n = 1 }
    assert.equal(1, #patched(a, { a = { 1, { 2 } }, b = same, n = 2 }))
    assert.equal(a.a, a.b)
    local twice = { same, same, same }
    assert.equal(0, #patched(twice, { same, { 1, { 2 } }, same }))
  end)

  it("takes no longer for many ways to one table", function()
    local a, b = { 1 }, { 2 }
    for _ = 1, 60 do a, b = { a, a }, { b, b } end
    assert.same({}, mw.diff(a, a))
    local c = { 1 }
    for _ = 1, 60 do c = { c, c } end
    assert.same({}, mw.diff(a, c))
  end)

  it("makes any document any other", function()
    with_seed(function()
      for _ = 1, 1000 do
        local a = documents.share { documents.value(4), documents.value(3) }
        local b = documents.edited(json.copy(a), 4)
        if type(b) == "table" then documents.share(b) end
        patched(a, b)
      end
    end)
  end)
end)

describe("a diff between then and now", function()
  it("takes what tables had from whom it is told to ask", function()
    local root, child = { n = 1 }, { x = 1 }
    root.list = { child, "a" }
    local former = {}
    for _, t in ipairs { root, child, root.list } do
      former[t] = table.move(t, 1, #t, 1, {})
      for key, value in pairs(t) do former[t][key] = value end
    end
    local function before(t) return former[t] or raw_of(t) end
    assert.same({}, json_diff.operations(root, root, before))
    root.n, child.x = nil, 2
    table.insert(root.list, 1, { new = true })
    local then_ = { n = 1, list = { { x = 1 }, "a" } }
    local operations = json_diff.operations(root, root, before)
    assert.is_true(text.equal(root, mw.patch(then_, operations)))
    assert.same({}, json_diff.operations(root, root))
  end)
end)

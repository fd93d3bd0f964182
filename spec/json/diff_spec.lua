local mw = require "moonwatch"
local json = require "moonwatch.json"
local json_diff = require "moonwatch.json.diff"
local lcs = require "moonwatch.json.lcs"
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
  assert.is_true(json.equal(b, assert(mw.patch(result, moved))[1]))
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
    assert.equal('remove /0; replace /0/hp 2; add /1 {"hp":3,"n":"c"}', script(
      { { n = "a", hp = 1 }, { n = "b", hp = 1 } },
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
    for _ = 1, 100000 do a, b = { a }, { b } end
    local operations = mw.diff(a, b)
    assert.equal(1, #operations)
    assert.equal(("/0"):rep(100001), operations[1].path)
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

describe("a diff between then and now", function()
  it("takes what tables had from whom it is told to ask", function()
    local root, child = { n = 1 }, { x = 1 }
    root.list = { child, "a" }
    local former = {}
    for _, t in ipairs { root, child, root.list } do
      former[t] = table.move(t, 1, #t, 1, {})
      for key, value in pairs(t) do former[t][key] = value end
    end
    local function before(t) return former[t] or mw.raw(t) end
    assert.same({}, json_diff.operations(root, root, before))
    root.n, child.x = nil, 2
    table.insert(root.list, 1, { new = true })
    local then_ = { n = 1, list = { { x = 1 }, "a" } }
    local operations = json_diff.operations(root, root, before)
    assert.is_true(json.equal(root, mw.patch(then_, operations)))
    assert.same({}, json_diff.operations(root, root))
  end)
end)

describe("a longest common subsequence", function()
  local function checked(a, b)
    local n, last, kept = 0, 0, lcs(a, b)
    for i = 1, #a do
      local j = kept[i]
      if j then
        assert.is_true(j > last)
        assert.equal(a[i], b[j])
        n, last = n + 1, j
      end
    end
    return n
  end

  -- By the book.
  local function longest(a, b)
    local row = {}
    for j = 0, #b do row[j] = 0 end
    for i = 1, #a do
      local diagonal = 0
      for j = 1, #b do
        local above = row[j]
        row[j] = a[i] == b[j] and diagonal + 1 or math.max(above, row[j - 1])
        diagonal = above
      end
    end
    return row[#b]
  end

  local function numbers(n, most)
    local list = {}
    for i = 1, n do list[i] = math.random(most) end
    return list
  end

  it("is the longest", function()
    with_seed(function()
      for _ = 1, 300 do
        local most = math.random(30)
        local a = numbers(math.random(0, 40), most)
        local b = numbers(math.random(0, 40), most)
        assert.equal(longest(a, b), checked(a, b))
      end
    end)
  end)

  it("of lists that differ very much is a common one, found in fewer steps",
    function()
      with_seed(function()
        local a, b = numbers(20000, 10000), numbers(20000, 10000)
        local thousands = 0
        debug.sethook(function() thousands = thousands + 1 end, "", 1000)
        local length = checked(a, b)
        debug.sethook()
        assert.is_true(length > 100)
        assert.is_true(thousands * 1000 < 2 * #a * #b, thousands)
      end)
    end)
end)

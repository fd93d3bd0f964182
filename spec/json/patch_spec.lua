local mw = require "moonwatch"
local json = require "moonwatch.json"
local overlay = require "moonwatch.json.draft"
local raw_of = require "spec.support.raw_of"
local text = require "spec.support.json"
local error_of = require "spec.support.error_of"
local with_seed = require "spec.support.with_seed"

local STAY = { once = false }

-- What a patch makes of a document, all three given as JSON; "error" if it does
-- not apply, which must leave the document alone.
local function applied(document, operations)
  local root = text.decode(document)
  local before = json.copy(root)
  local result, message, index = mw.patch(root, text.decode(operations))
  if result ~= nil then return result end
  assert.is_string(message)
  assert.equal("integer", math.type(index))
  assert.is_true(text.equal(before, root))
  return "error"
end

local function assert_cases(cases)
  for _, case in ipairs(cases) do
    local document, operations, expected = table.unpack(case)
    local result = applied(document, operations)
    if expected ~= "error" then expected = text.decode(expected) end
    assert.is_true(text.equal(expected, result),
      operations .. " makes " .. text.encode(result) .. " of " .. document)
  end
end

describe("a patch", function()
  it("adds", function()
    assert_cases {
      { '{"a":1}', '[{"op":"add","path":"/b","value":2}]', '{"a":1,"b":2}' },
      { '{"a":1}', '[{"op":"add","path":"/a","value":[]}]', '{"a":[]}' },
      { '{"a":1}', '[{"op":"add","path":"/0","value":2}]', '{"a":1,"0":2}' },
      { '{}', '[{"op":"add","path":"/","value":null}]', '{"":null}' },
      { '{}', '[{"op":"add","path":"/a/b","value":1}]', "error" },
      { '{"a":1}', '[{"op":"add","path":"/a/b","value":1}]', "error" },
      { '{"a":[]}', '[{"op":"add","path":"/a/0","value":1}]', '{"a":[1]}' },
      { '[1,2]', '[{"op":"add","path":"/0","value":0}]', '[0,1,2]' },
      { '[1,2]', '[{"op":"add","path":"/1","value":[0]}]', '[1,[0],2]' },
      { '[1,2]', '[{"op":"add","path":"/2","value":3}]', '[1,2,3]' },
      { '[1,2]', '[{"op":"add","path":"/-","value":3}]', '[1,2,3]' },
      { '[1,2]', '[{"op":"add","path":"/3","value":3}]', "error" },
      { '[1,2]', '[{"op":"add","path":"/01","value":3}]', "error" },
      { '[1,2]', '[{"op":"add","path":"/-1","value":3}]', "error" },
      { '[1,2]', '[{"op":"add","path":"/a","value":3}]', "error" },
      { '[1,2]', '[{"op":"add","path":"/-/a","value":3}]', "error" },
      { '[1]', '[{"op":"add","path":"/9223372036854775807","value":3}]',
        "error" },
      { '[1]', '[{"op":"add","path":"","value":{"a":2}}]', '{"a":2}' },
    }
  end)

  it("removes and replaces", function()
    assert_cases {
      { '{"a":1,"b":null}', '[{"op":"remove","path":"/b"}]', '{"a":1}' },
      { '{"a":1}', '[{"op":"remove","path":"/b"}]', "error" },
      { '{"a":{"b":false}}', '[{"op":"remove","path":"/a/b"}]', '{"a":{}}' },
      { '[1,2,3]', '[{"op":"remove","path":"/0"}]', '[2,3]' },
      { '[1,2,3]', '[{"op":"remove","path":"/2"}]', '[1,2]' },
      { '[1,2,3]', '[{"op":"remove","path":"/3"}]', "error" },
      { '[1,2,3]', '[{"op":"remove","path":"/-"}]', "error" },
      { '[1]', '[{"op":"remove","path":""}]', "error" },
      { '{"a":1}', '[{"op":"replace","path":"/a","value":null}]',
        '{"a":null}' },
      { '{"a":1}', '[{"op":"replace","path":"/b","value":null}]', "error" },
      { '[1,2,3]', '[{"op":"replace","path":"/1","value":0}]', '[1,0,3]' },
      { '[1,2,3]', '[{"op":"replace","path":"/3","value":0}]', "error" },
      { '[1]', '[{"op":"replace","path":"","value":"a"}]', '"a"' },
    }
  end)

  it("stores the very number, though another one is equal", function()
    local list = { 1 }
    local t = { t = { x = 0, y = 2 }, list = list }
    assert(mw.patch(t, {
      { op = "replace", path = "/t/x", value = -0.0 },
      { op = "replace", path = "/t/y", value = 2 },
      { op = "replace", path = "/list/0", value = 1.0 },
    }))
    assert.equal("-0.0 2 1.0", ("%s %s %s"):format(t.t.x, t.t.y, list[1]))
  end)

  it("moves and copies", function()
    assert_cases {
      { '{"a":1}', '[{"op":"move","from":"/a","path":"/b"}]', '{"b":1}' },
      { '{"a":[]}', '[{"op":"move","from":"/a","path":"/a"}]', '{"a":[]}' },
      { '{"a":{}}', '[{"op":"move","from":"/a","path":"/a/b"}]', "error" },
      { '{"a":{}}', '[{"op":"move","from":"","path":"/a"}]', "error" },
      { '{"a":{},"ab":1}', '[{"op":"move","from":"/ab","path":"/a/b"}]',
        '{"a":{"b":1}}' },
      { '{"a":{"b":1}}', '[{"op":"move","from":"/a/b","path":""}]', '1' },
      { '{"a":{"b":1}}', '[{"op":"move","from":"/a/b","path":"/a"}]',
        '{"a":1}' },
      { '[1,2,3]', '[{"op":"move","from":"/0","path":"/2"}]', '[2,3,1]' },
      { '[1,2,3]', '[{"op":"move","from":"/2","path":"/0"}]', '[3,1,2]' },
      { '[1,2,3]', '[{"op":"move","from":"/0","path":"/3"}]', "error" },
      { '[1,2,3]', '[{"op":"copy","from":"/0","path":"/3"}]', '[1,2,3,1]' },
      { '{"a":{"b":1}}', '[{"op":"copy","from":"/a","path":"/a/c"}]',
        '{"a":{"b":1,"c":{"b":1}}}' },
      { '{"a":1}', '[{"op":"copy","from":"/b","path":"/a"}]', "error" },
      { '{"a":1}', '[{"op":"copy","path":"/a"}]', "error" },
    }
  end)

  it("tests", function()
    assert_cases {
      { '[1]', '[{"op":"test","path":"/0","value":1.0}]', '[1]' },
      { '[1]', '[{"op":"test","path":"/0","value":"1"}]', "error" },
      { '[1]', '[{"op":"test","path":"","value":[1]}]', '[1]' },
      { '[null]', '[{"op":"test","path":"/0","value":null}]', '[null]' },
      { '[null]', '[{"op":"test","path":"/0"}]', "error" },
      { '[null]', '[{"op":"test","path":"/1","value":null}]', "error" },
      { '[{"a":1,"b":2}]', '[{"op":"test","path":"/0","value":{"b":2,"a":1}}]',
        '[{"a":1,"b":2}]' },
      { '[{"a":1}]', '[{"op":"test","path":"/0","value":{"a":1,"b":2}}]',
        "error" },
      { '[[]]', '[{"op":"test","path":"/0","value":{}}]', "error" },
      { '{"~1":1,"a/b":2}', '[{"op":"test","path":"/~01","value":1},' ..
        '{"op":"test","path":"/a~1b","value":2}]', '{"~1":1,"a/b":2}' },
    }
  end)

  it("sees what its operations before have done, and nothing if one fails",
    function()
      assert_cases {
        { '{"a":[1]}', '[{"op":"add","path":"/a/0","value":{}},' ..
          '{"op":"add","path":"/a/0/x","value":1},' ..
          '{"op":"test","path":"/a","value":[{"x":1},1]},' ..
          '{"op":"copy","from":"/a","path":"/b"},' ..
          '{"op":"remove","path":"/a/1"},{"op":"remove","path":"/a/0"},' ..
          '{"op":"add","path":"/a/-","value":2}]',
          '{"a":[2],"b":[{"x":1},1]}' },
        { '{"a":1}', '[{"op":"remove","path":"/a"},' ..
          '{"op":"add","path":"","value":[]},' ..
          '{"op":"add","path":"/0","value":1},' ..
          '{"op":"test","path":"","value":[]}]', "error" },
      }
    end)

  it("says which operation failed, and why", function()
    local function failure(...)
      local result, message, index = mw.patch({ a = { 1 } }, { ... })
      assert.is_nil(result)
      return index .. " " .. message
    end
    local good = { op = "add", path = "/b", value = 1 }
    assert.equal("2 remove '/c/d': there is no '/c'",
      failure(good, { op = "remove", path = "/c/d" }))
    assert.equal("1 add '/a/2': '2' is neither '-' nor from 0 to 1",
      failure { op = "add", path = "/a/2", value = 1 })
    assert.equal("1 add '/a/0/b': '/a/0' is no array or object",
      failure { op = "add", path = "/a/0/b", value = 1 })
    assert.equal("1 test '/a': that is not the value",
      failure { op = "test", path = "/a", value = {} })
    assert.equal("1 there is no operation 'spam'",
      failure { op = "spam", path = "" })
    assert.equal("1 the operation has no 'op'", failure { path = "" })
    assert.equal("1 the operation is a number", failure(1))
    assert.equal("1 add: its 'path' is no string",
      failure { op = "add", value = 1 })
    assert.equal("1 add 'a': 'a' does not begin with '/'",
      failure { op = "add", path = "a", value = 1 })
    assert.equal("1 add '/~2': '/~2' has a '~' with neither 0 nor 1 behind it",
      failure { op = "add", path = "/~2", value = 1 })
    assert.equal("1 add '/b': it has no 'value'",
      failure { op = "add", path = "/b" })
    assert.equal("1 move '/b': its 'from' is no string",
      failure { op = "move", path = "/b", from = mw.null })
  end)

  it("takes no values that JSON has not", function()
    local cyclic = { { a = {} } }
    cyclic[1].a[1] = cyclic
    for what, value in pairs {
      ["a function at ''"] = print,
      ["a userdata at '/0'"] = { io.stdout },
      ["the number nan at ''"] = -(0 / 0),
      ["the number inf at '/a/1'"] = { a = { 0, math.huge } },
      ["a table whose keys are neither strings nor 1 to n at '/a~1b'"] =
        { ["a/b"] = { 1, x = 1 } },
      ["a table inside itself at '/0/a/0'"] = cyclic,
    } do
      local root = {}
      local result, message, index = mw.patch(root,
        { { op = "add", path = "/x", value = value } })
      assert.is_nil(result)
      assert.equal("add '/x': not JSON: " .. what,
        (message:gsub("%-nan", "nan")))
      assert.equal(1, index)
      assert.is_nil(next(root))
    end
  end)

  it("gives each document its own copy of the values, with their marks",
    function()
      local value = { list = mw.array {} }
      local operations = { { op = "add", path = "/v", value = value } }
      local a, b = mw.patch({}, operations), mw.patch({}, operations)
      assert.not_equal(a.v, b.v)
      assert.not_equal(value.list, a.v.list)
      assert.same({}, mw.patch(a, { { op = "add", path = "/v/list/-",
        value = mw.object_like {} } }).v.list[1])
      assert.equal("object", json.kind(a.v.list[1]))
      assert.same({}, value.list)
      assert.same({}, b.v.list)
      assert.is_nil(mw.patch(b, { { op = "add", path = "/v/list/x",
        value = 1 } }))
    end)

  it("moves the very table, and copies another one", function()
    local hero = {}
    local root = assert(mw.patch({ a = hero, list = {} }, {
      { op = "copy", from = "/a", path = "/b" },
      { op = "move", from = "/a", path = "/list/0" },
    }))
    assert.is_nil(root.a)
    assert.equal(hero, root.list[1])
    assert.not_equal(hero, root.b)
  end)

  it("takes an empty table for what the path makes of it", function()
    assert.same({ "x" },
      mw.patch({}, { { op = "add", path = "/0", value = "x" } }))
    assert.same({ "x" },
      mw.patch({}, { { op = "add", path = "/-", value = "x" } }))
    assert.same({ ["1"] = "x" },
      mw.patch({}, { { op = "add", path = "/1", value = "x" } }))
    assert.same({ ["0"] = "x" }, mw.patch(mw.object_like {},
      { { op = "add", path = "/0", value = "x" } }))
    assert.is_nil(mw.patch(mw.array {},
      { { op = "add", path = "/a", value = "x" } }))
    assert.is_nil(mw.patch({ 1, x = 2 },
      { { op = "replace", path = "/x", value = "x" } }))
  end)

  it("looks at a few keys of a table to see what it is", function()
    local list, object, mixed = {}, {}, {}
    for i = 1, 100 do
      list[i], object["k" .. i], mixed[i], mixed["k" .. i] = i, i, i, i
    end
    local root = assert(mw.patch({ list = list, object = object }, {
      { op = "add", path = "/list/50", value = 0 },
      { op = "add", path = "/object/50", value = 0 },
    }))
    assert.same({ 50, 0, 51, 0 }, { root.list[50], root.list[51],
      root.list[52], root.object["50"] })
    assert.is_nil(mw.patch(mixed, { { op = "remove", path = "/k1" } }))
    for _, what in ipairs { { [2] = 1 }, { [true] = 1 }, { [0.5] = 1 },
      { 1, nil, 3 }, { [0] = 1, 1 }, { a = 1, [-1] = 1 } } do
      for _, path in ipairs { "/0", "/1", "/2", "/-", "/a" } do
        assert.is_nil(mw.patch({ x = what },
          { { op = "add", path = "/x" .. path, value = 1 } }))
      end
    end
  end)

  it("is as good as many edits made one by one", function()
    with_seed(function()
      for _ = 1, 20 do
        local a, b, operations = {}, {}, {}
        for i = 1, 300 do a[i], b[i] = i, i end
        for i = 1, 600 do
          local at = math.random(#b)
          local path = "/" .. at - 1
          local op = ({ "add", "remove", "replace", "move" })[math.random(4)]
          local from = math.random(#b)
          operations[i] = { op = op, path = path, value = -i,
            from = "/" .. from - 1 }
          if op == "add" then
            table.insert(b, at, -i)
          elseif op == "replace" then
            b[at] = -i
          elseif op == "move" then
            table.insert(b, at, table.remove(b, from))
          else
            table.remove(b, at)
          end
          if #b == 0 then break end
        end
        assert.same(b, mw.patch(a, operations))
      end
    end)
  end)

  it("is refused where Lua's stack is too short for it", function()
    local deep, other = 1, 2
    for _ = 1, 300000 do deep, other = { deep }, { other } end
    local message = "it has too many tables in each other"
    local root = mw.track { x = deep }
    assert.same({ nil, "add '/y': " .. message, 1 },
      { mw.patch(root, { { op = "add", path = "/y", value = deep } }) })
    assert.same({ nil, "test '/x': " .. message, 1 },
      { mw.patch(root, { { op = "test", path = "/x", value = other } }) })
    assert.is_nil(root.y)
    assert.same({ nil, message }, { mw.diff(deep, other) })
  end)

  it("may be applied to what is thousands deep", function()
    local deep = {}
    for _ = 1, 10000 do deep = { deep } end
    local root = mw.patch({}, {
      { op = "add", path = "/a", value = deep },
      { op = "copy", from = "/a", path = "/b" },
      { op = "test", path = "/b", value = deep },
      { op = "add", path = ("/b" .. ("/0"):rep(1000) .. "/-"), value = 1 },
    })
    assert.is_table(root.b)
  end)

  it("raises for arguments of wrong types", function()
    assert.equal("bad argument #1 to 'patch' (table expected, got nil)",
      error_of(mw.patch, nil, {}))
    assert.matches("patch_spec.lua:%d+: bad argument #2 to 'patch' %(table",
      error_of(function() mw.patch({}, 1) end))
    assert.matches("patch_spec.lua:%d+: bad argument #1 to 'array' %(table",
      error_of(function() mw.array() end))
    assert.matches("bad argument #1 to 'object_like' %(table expected, got st",
      error_of(mw.object_like, "x"))
    assert.same({ nil, "the operations are not an array" },
      { mw.patch({}, { op = "remove", path = "" }) })
  end)
end)

describe("a patch of a table that is in two places", function()
  local function refused(root, index, ...)
    local before = text.encode(root)
    local result, message, at = mw.patch(root, { ... })
    assert.is_nil(result)
    assert.matches("it changes a table that is in two places$", message)
    assert.equal(index, at)
    assert.equal(before, text.encode(root))
  end

  it("is refused when it comes to the table by both", function()
    local pos = { x = 1 }
    refused({ start = pos, goal = pos }, 2,
      { op = "replace", path = "/start/x", value = 2 },
      { op = "replace", path = "/goal/x", value = 3 })
    refused({ pos, pos }, 3,
      { op = "add", path = "/0/y", value = 2 },
      { op = "replace", path = "/0/x", value = 2 },
      { op = "remove", path = "/1/x" })
    local box = { list = { 1 } }
    refused({ a = box, b = { box } }, 2,
      { op = "add", path = "/a/list/0", value = 2 },
      { op = "add", path = "/b/0/list/0", value = 2 })
    refused({ a = { pos }, b = { pos } }, 3,
      { op = "add", path = "/a/0/y", value = 2 },
      { op = "move", from = "/b/0", path = "/c" },
      { op = "add", path = "/c/y", value = 2 })
  end)

  it("changes the table once when it comes by one", function()
    local list = { 1 }
    local root = assert(mw.patch({ a = list, b = list },
      { { op = "add", path = "/a/0", value = 0 },
        { op = "add", path = "/a/-", value = 2 } }))
    assert.same({ 0, 1, 2 }, list)
    assert.equal(root.a, root.b)
  end)

  it("may put other values there", function()
    local pos = { x = 1 }
    local root = assert(mw.patch({ start = pos, goal = pos },
      { { op = "replace", path = "/start", value = { x = 2 } },
        { op = "replace", path = "/start/x", value = 3 },
        { op = "replace", path = "/goal/x", value = 4 } }))
    assert.same({ start = { x = 3 }, goal = { x = 4 } }, root)
  end)

  it("is no other when one table has two ways, one after the other", function()
    local row = { x = 1 }
    local root = assert(mw.patch({ rows = { row } },
      { { op = "replace", path = "/rows/0/x", value = 2 },
        { op = "add", path = "/rows/0", value = {} },
        { op = "replace", path = "/rows/1/x", value = 3 },
        { op = "move", from = "/rows/1", path = "/row" },
        { op = "add", path = "/row/y", value = 4 } }))
    assert.same({ rows = { {} }, row = { x = 3, y = 4 } }, root)
    assert.equal(row, root.row)
  end)
end)

describe("a patch of watched tables", function()
  local notes

  local function note(_, path, old, new, kind)
    if type(path) == "table" then path = table.concat(path, ".") end
    notes[#notes + 1] = ("%s %s>%s %s"):format(path, old, new, kind)
  end

  before_each(function() notes = {} end)

  it("tells their guards of what has changed, and of nothing else", function()
    local root = { x = 1, y = { 1, 2 }, z = 3 }
    mw.watch(root, note, { deep = true, once = false })
    assert.equal(root, mw.patch(root, {
      { op = "replace", path = "/x", value = 2 },
      { op = "add", path = "/y/0", value = 0 },
      { op = "replace", path = "/z", value = 3 },
      { op = "add", path = "/t", value = 1 },
      { op = "remove", path = "/t" },
    }))
    assert.same({ "x 1>2 apply", "y.3 nil>2 apply", "y.2 2>1 apply",
      "y.1 1>0 apply" }, notes)
    assert.is_nil(rawget(root, "x"))
    mw.unwatch(root)
    assert.same({ x = 2, y = { 0, 1, 2 }, z = 3 }, root)
  end)

  it("tells nobody when it fails", function()
    local root = { x = 1 }
    mw.watch(root, note, STAY)
    assert.is_nil(mw.patch(root, { { op = "remove", path = "/x" },
      { op = "test", path = "/x", value = 1 } }))
    assert.same({}, notes)
    assert.equal(0, mw.mutations(root))
  end)

  it("leaves plain tables plain", function()
    local root = mw.patch({ a = { 1 } },
      { { op = "add", path = "/a/-", value = 2 } })
    assert.is_nil(getmetatable(root.a))
    assert.equal(2, rawget(root.a, 2))
    assert.is_false(mw.is_watched(root.a))
  end)

  it("takes operations from watched tables, too", function()
    local operations = { { op = "add", path = "/a", value = { b = { 1 } } } }
    mw.watch(operations, note, { deep = true })
    local root = mw.patch({}, operations)
    mw.unwatch(operations)
    assert.same({ a = { b = { 1 } } }, root)
  end)

  it("is done when a guard raises, as any write is", function()
    local root = { list = { 1, 2, 3 }, x = 1 }
    mw.watch(root, function() error("not now", 0) end, STAY)
    local message = error_of(mw.patch, root, {
      { op = "remove", path = "/list/0" },
      { op = "replace", path = "/x", value = 2 },
    })
    assert.matches("^not now", message)
    mw.unwatch(root)
    assert.same({ list = { 2, 3 }, x = 2 }, root)
  end)

  it("writes into no class", function()
    local Class, Apart, Base = { update = 0 }, {}, {}
    Class.__index = Class
    local Derived = setmetatable({}, { __index = Base })
    Derived.__index = Derived
    local root = {
      Class = Class, unit = setmetatable({ x = 1, class = Class }, Class),
      apart = setmetatable({ own = Apart }, { __index = Apart }),
      derived = setmetatable({ base = { Base, Derived } }, Derived),
      plain = {},
    }
    for _ = 1, 2 do
      for _, at in ipairs { "/Class", "/unit/class", "/apart/own" } do
        assert.same({ nil, ("add '%s/y': '%s' is a class"):format(at, at), 2 },
          { mw.patch(root, { { op = "add", path = "/plain/z", value = 1 },
            { op = "add", path = at .. "/y", value = 1 } }) })
        assert.is_nil((mw.patch(root, { { op = "move", from = "/unit/x",
          path = at .. "/y" } })))
      end
      assert.is_nil((mw.patch(root, { { op = "remove",
        path = "/Class/update" } })))
      mw.track(root, { deep = true })
    end
    for i = 0, 1 do
      assert.is_nil((mw.patch(root, { { op = "add",
        path = ("/derived/base/%d/y"):format(i), value = 1 } })))
    end
    assert.same({ {}, {}, 0, 1 }, { Apart, Base, Class.update, root.unit.x })
    assert.same({}, mw.plain(root.plain))
    assert.equal(root, mw.patch(root, { { op = "add", path = "/unit/y",
      value = 1 }, { op = "remove", path = "/unit/class" } }))
    assert.equal(1, rawget(raw_of(root.unit), "y"))
  end)

  it("puts back even what the class would not take", function()
    local strict = { __newindex = function(_, key) error("no " .. key, 0) end }
    local root = setmetatable({ a = 1 }, strict)
    local result, message, index = mw.patch(root, {
      { op = "remove", path = "/a" },
      { op = "add", path = "/b", value = 1 },
    })
    assert.same({ nil, "no b", 2 }, { result, message, index })
    assert.equal(1, rawget(root, "a"))
  end)
end)

describe("an overlay", function()
  it("shows what would be, and writes it when told", function()
    local a, store = { u = 1, x = 0 }, overlay()
    store:store(a, "v", 3)
    store:store(a, "u", nil)
    store:store(a, "x", false)
    assert.same({ nil, 3, false },
      { store:load(a, "u"), store:load(a, "v"), store:load(a, "x") })
    assert.same({ v = 3, x = false }, store:contents(a))
    assert.same({ u = 1, x = 0 }, a)
    assert.equal(3, store:apply():len())
    assert.same({ v = 3, x = false }, a)
  end)

  it("of a list is that of the same changes made at once", function()
    with_seed(function()
      for _ = 1, 200 do
        local a, b, store = {}, {}, overlay()
        for i = 1, math.random(0, 40) do a[i], b[i] = i, i end
        for n = 1, math.random(60) do
          local i, done = math.random(#b + 1), math.random(3)
          if done == 1 or i > #b then
            store:insert(a, i, -n)
            table.insert(b, i, -n)
          elseif done == 2 then
            store:remove(a, i)
            table.remove(b, i)
          else
            store:set(a, i, -n)
            b[i] = -n
          end
          local at = math.random(0, #b + 2)
          assert.equal(b[at], store:list(a):get(at))
        end
        assert.equal(#b, store:list(a):len())
        assert.same(b, store:contents(a))
        store:apply()
        assert.same(b, a)
      end
    end)
  end)

  it("writes no more of a list than what has changed", function()
    local a, store = {}, overlay()
    for i = 1, 1000 do a[i] = i end
    store:insert(a, 500, 0)
    store:remove(a, 700)
    store:set(a, 900, 0)
    store:set(a, 901, 901)
    store:insert(a, 1001, 1001)
    store:remove(a, 1001)
    assert.equal(201, store:apply():len())
  end)

  it("knows who wrote a field last", function()
    local a, t, store = { 1, 2, 3, 4, 5 }, { x = 1 }, overlay()
    local function at(index) store.index = index end
    at(1) store:set(a, 4, 0)
    at(2) store:insert(a, 3, 0)
    at(3) store:set(a, 2, 0)
    at(4) store:store(t, "x", 2)
    at(5) store:store(t, "y", 2)
    at(6) store:store(t, "x", 3)
    assert.same({ 3, 2, 2, 2 }, { store:writer(a, 2), store:writer(a, 3),
      store:writer(a, 5), store:writer(a, 6) })
    assert.same({ 6, 5 }, { store:writer(t, "x"), store:writer(t, "y") })
  end)
end)

describe("a mark", function()
  it("is replaced by a later one", function()
    local t = {}
    assert.equal("either", json.kind(t))
    assert.equal(t, mw.array(t))
    assert.equal("array", json.kind(t))
    local other = mw.object_like {}
    assert.equal("array", json.kind(t))
    assert.equal("object", json.kind(mw.object_like(t)))
    assert.equal("object", json.kind(other))
    assert.equal("array", json.kind(mw.array(t)))
  end)

  it("tells empty tables apart; those without one equal both", function()
    local array, object = mw.array {}, mw.object_like {}
    assert.is_false(text.equal(array, object))
    assert.is_true(text.equal({ {} }, { array }))
    assert.is_true(text.equal({ object }, { {} }))
    assert.is_false(text.equal({}, { 1 }))
  end)

  it("cannot make one of what is the other", function()
    assert.is_nil(mw.diff({}, mw.array { x = 1 }))
    assert.is_nil(mw.diff({}, mw.object_like { 1 }))
    assert.is_nil(mw.diff({}, { a = mw.object_like { 1 } }))
    assert.same({ 1 }, json.copy(mw.array { 1 }))
  end)
end)

describe("a list that a patch changes", function()
  it("needs no address that begins with 0x", function()
    local path = package.searchpath("moonwatch.json.rope", package.path)
    local format = string.format
    local function set(f) rawset(string, "format", f) end
    finally(function() set(format) end)
    for _, address in ipairs { "0x5581f0a2", "000000000067E310", "?" } do
      set(function() return address end)
      local rope = dofile(path)({ 1, 2, 3 }, 3)
      rope:insert(2, 9)
      rope:remove(1)
      set(format)
      local n = 0
      rope:pieces(function(_, _, count) n = n + count end)
      assert.equal(3, n)
    end
  end)
end)

describe("mw.null", function()
  it("is the NULL pointer", function()
    assert.equal("userdata", type(mw.null))
    assert.matches("^userdata: %(?[0xnil]*%)?$", tostring(mw.null))
  end)
end)

describe("the published conformance tests", function()
  for _, name in ipairs { "spec_tests", "tests" } do
    local path = "../shared/data/json-patch-tests/" .. name .. ".json"

    it("pass: " .. name, function()
      local file = io.open(path)
      if not file then return pending("not here: " .. path) end
      local records = text.decode(file:read "a")
      file:close()
      for i, record in ipairs(records) do
        if not record.disabled then
          local result, message = mw.patch(record.doc, record.patch)
          local ok = result ~= nil
          if not record.error then ok = text.equal(record.expected, result) end
          assert.is_true(ok == not record.error,
            ("%d: %s"):format(i, record.comment or message))
        end
      end
    end)
  end
end)

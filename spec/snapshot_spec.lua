local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local support = require "support"
local with_seed = require "spec.support.with_seed"

local random = math.random
local checksum = require("support").checksum

-- A class with a name, for one test.
local function class(name)
  local c = { __name = name }
  c.__index = c
  return mw.name_class(name, c, { replace = true })
end

-- Bytes with another body, whose length and checksum are right.
local function with_body(bytes, body, objects)
  local rest = string.pack("<I8 I4", #body,
    objects or string.unpack("<I4", bytes, 17)) .. body
  return "MWS\1" .. string.pack("<I4", checksum(rest)) .. rest
end

local function copy_of(value)
  local bytes = assert(mw.snapshot(value))
  local copy = assert(mw.restore(bytes))
  assert.equal(bytes, (mw.snapshot(copy)))
  return copy
end

describe("a snapshot", function()
  it("holds all that a table can hold", function()
    local values = { 0, -1, 255, 256, 1 << 62, math.mininteger, 0.5, -0.0,
      1 / 0, "", "text", ("x"):rep(1000), "\0\255", true, false, mw.null }
    local copy = copy_of(values)
    for i, value in ipairs(values) do
      assert.equal(math.type(value), math.type(copy[i]))
      assert.equal(value, copy[i])
    end
    assert.equal(-1 / 0, 1 / copy[8])
    copy = copy_of { nan = 0 / 0, [true] = 1, [false] = 2, [0.5] = 3, [-7] = 4 }
    assert.not_equal(copy.nan, copy.nan)
    assert.same({ 1, 2, 3, 4 },
      { copy[true], copy[false], copy[0.5], copy[-7] })
  end)

  it("keeps lists, holes, shared tables, cycles and marks", function()
    local state = { list = { 1, 2, nil, 4 }, empty = mw.array {} }
    state.again, state.self, state.map = state.list, state, mw.object_like {}
    local copy = copy_of(state)
    assert.same({ 1, 2, nil, 4 }, copy.list)
    assert.equal(copy.list, copy.again)
    assert.equal(copy, copy.self)
    assert.same({}, mw.diff(mw.plain(copy.empty), mw.array {}))
    assert.not_same({}, mw.diff(copy.map, mw.array {}))
  end)

  it("keeps objects as keys", function()
    local state = { a = {}, b = {} }
    state.by = { [state.b] = { "b" }, [state.a] = { "a" } }
    state.far = { [state.by[state.b]] = true }
    local copy = copy_of(state)
    assert.same({ "a" }, copy.by[copy.a])
    assert.same({ "b" }, copy.by[copy.b])
    assert.is_true(copy.far[copy.by[copy.b]])
  end)

  it("knows classes by name", function()
    local Unit = class "snapshot.Unit"
    local unit = setmetatable({ hp = 3 }, Unit)
    local copy = copy_of { unit = unit, class = Unit }
    assert.equal(Unit, getmetatable(copy.unit))
    assert.equal(Unit, copy.class)
    local bytes = mw.snapshot { unit }
    local Other = { __name = "Other" }
    mw.name_class("snapshot.Unit", Other, {
      replace = true, new = function() return setmetatable({}, Other) end,
    })
    assert.equal(Other, getmetatable(mw.restore(bytes)[1]))
  end)

  it("is the same for the same state, in any order and tracked or not",
    function()
      local one, two = {}, {}
      for i = 1, 20 do one["k" .. i] = { n = i } end
      for i = 20, 1, -1 do two["k" .. i] = { n = i } end
      assert.equal(mw.snapshot(one), mw.snapshot(two))
      mw.track(two, { deep = true })
      two.k1.n = 5
      two.k1.n = 1
      assert.equal(mw.snapshot(one), mw.snapshot(two))
      two.k1 = two.k2
      assert.not_equal(mw.snapshot(one), mw.snapshot(two))
    end)

  it("names objects by the smallest keys: booleans, numbers, strings",
    function()
      local bytes = mw.snapshot { { "f" }, { "g" }, s = { "h" }, [0] = { "d" },
        [1.5] = { "e" }, [true] = { "b" }, [false] = { "a" }, [-1] = { "c" } }
      local order = bytes:sub(21):gsub("[^a-h]", "")
      assert.equal("abcdfegh", order)
      copy_of { true, true, [0.5] = {}, [3.5] = {} }
    end)

  it("holds sets of many objects", function()
    local state = { list = {}, set = {} }
    for i = 1, 20000 do
      state.list[i] = {}
      state.set[state.list[i]] = i
    end
    local copy = copy_of(state)
    for i = 1, 20000, 999 do assert.equal(i, copy.set[copy.list[i]]) end
  end)

  it("leaves out what the policy ignores, and what `descend` refuses",
    function()
      local Node = class "snapshot.Node"
      mw.name_class("snapshot.Node", Node, { ignore = { "cache" } })
      local node = setmetatable({ n = 1, cache = print }, Node)
      node.parent = { node, print }
      local bytes = assert(mw.snapshot(node, {
        descend = function(_, key) return key ~= "parent" end,
      }))
      local copy = mw.restore(bytes)
      assert.equal(1, copy.n)
      assert.is_nil(copy.parent)
      assert.is_nil(rawget(copy, "cache"))
    end)

  it("has userdata that the policy knows, by name or by class", function()
    local texts = {}
    local Text = { __name = "snapshot.Text" }
    local function new(text)
      local object = support.userdata(Text)
      texts[object] = text
      return object
    end
    local rules = {
      new = function() return new "" end,
      snapshot = function(text) return texts[text] end,
      restore = function(text, state) texts[text] = state end,
    }
    local state = { new "a" }
    for _, key in ipairs { "snapshot.Text", Text } do
      local former = mw.policy({ classes = { [key] = rules } }):use()
      local bytes = assert(mw.snapshot(state))
      local copy = assert(mw.restore(bytes))
      assert.equal("a", texts[copy[1]])
      assert.equal(mw.hash(state), mw.hash(copy))
      local object = copy[1]
      texts[object] = "b"
      assert.equal(copy, mw.restore(bytes, { into = copy }))
      assert.same({ object, "a" }, { copy[1], texts[object] })
      local Late = { dictionary = { __index = {} } }
      mw.name_class("snapshot.Late", Late.dictionary, { replace = true })
      texts[object] = { Late, { setmetatable({ class = Late },
        Late.dictionary) } }
      assert.same({ [2] = { {} } },
        texts[mw.restore((assert(mw.snapshot(copy))))[1]])
      former:use()
      assert.is_nil((mw.snapshot(state)))
      assert.equal("bad snapshot: no class has the name 'snapshot.Text'",
        select(2, mw.restore(bytes)))
    end
  end)

  it("has no class as contents, wherever the class is found", function()
    for _, field in ipairs { "class", "_class" } do
      local Class = { dictionary = { __index = {} }, new = print }
      mw.name_class("snapshot.In." .. field, Class.dictionary)
      local object = setmetatable({ [field] = Class, n = 1 }, Class.dictionary)
      local bytes = mw.snapshot(object)
      local late = mw.snapshot { Class, { object }, again = Class }
      assert.equal(bytes, (mw.snapshot(mw.restore(bytes))))
      assert.same({ [2] = { { n = 1 } } }, (mw.restore(late)))
      mw.track(object, { deep = true })
      assert.equal(bytes, (mw.snapshot(object)))
      assert.equal(late, (mw.snapshot { Class, { object }, again = Class }))
    end
    local own = mw.snapshot { 1, _G, { package, string } }
    assert.same({ 1, [3] = {} }, (mw.restore(own)))
  end)

  it("raises the error of a rule as it is, whatever the error is", function()
    local problem = {}
    local function raise() error(problem) end
    local Bad = { __name = "snapshot.Bad" }
    mw.name_class("snapshot.Bad", Bad, { snapshot = raise, restore = raise })
    local state = { support.userdata(Bad) }
    for _, f in ipairs {
      function() return mw.snapshot({ {} }, { descend = raise }) end,
      function() return mw.snapshot(state) end,
      function() return mw.hash(state) end,
    } do
      assert.same({ false, problem }, { pcall(f) })
    end
  end)

  it("may be made while a rule takes keys away, which are collected", function()
    local state = {}
    for i = 1, 100 do
      state["a key that is not kept by others, " .. ("."):rep(i)] = i
      state[i .. ""] = {}
    end
    local before = mw.plain(state)
    local bytes = mw.snapshot(state, { descend = function(parent)
      for key in pairs(parent) do
        if #key > 3 then parent[key] = nil end
      end
      collectgarbage()
      return true
    end })
    assert.same(before, (mw.restore(bytes)))
  end)

  it("holds 100,000 tables in a chain", function()
    local head = {}
    local at = head
    for _ = 1, 100000 do
      at.next = {}
      at = at.next
    end
    local copy, n = mw.restore((mw.snapshot(head))), 0
    while copy.next do copy, n = copy.next, n + 1 end
    assert.equal(100000, n)
  end)

  it("says where something is that it cannot hold", function()
    local function refuses(message, state)
      local bytes, why = mw.snapshot(state)
      assert.is_nil(bytes)
      assert.equal(message, why)
    end
    refuses("cannot say L['a'][1]: a function", { a = { print } })
    refuses("cannot say L['co']: a thread", { co = coroutine.create(print) })
    refuses("cannot say L['a']: an object that is nothing but a key",
      { a = { [{}] = 1 } })
    refuses("cannot say L['a']: a function as a key", { a = { [print] = 1 } })
    refuses("cannot say L['x']: an object of a class without a name",
      { x = setmetatable({}, {}) })
    refuses("cannot say L['g']: an object of the library", { g = mw.guard() })
    refuses("cannot say L['f']: a userdata without a name and a snapshot",
      { f = io.stdout })
    for _, mode in ipairs { "k", "v", "kv" } do
      refuses("cannot say L['w'][1]: a weak table",
        { w = { setmetatable({}, { __mode = mode }) } })
    end
  end)

  it("wants a table and options that there are", function()
    misuse("bad argument #1 to 'snapshot' (table expected, got nil)",
      mw.snapshot)
    misuse("bad argument #2 to 'snapshot' (unknown option 'deep')",
      mw.snapshot, {}, { deep = true })
    misuse("bad argument #1 to 'restore' (string expected, got nil)",
      mw.restore)
    misuse("bad argument #2 to 'restore' (unknown option 'root'; mw.restore(" ..
      "bytes, { into = object }) is meant)", mw.restore, "", { root = {} })
    misuse("bad argument #2 to 'restore' (table expected, got number: " ..
      "mw.snapshot returns two values; write mw.restore((mw.snapshot(root))))",
      mw.restore, mw.snapshot {})
  end)
end)

describe("a snapshot while transactions are open", function()
  it("has the values from before, of all that is open", function()
    local world = mw.track({ a = { n = 1 }, b = {}, list = { 1, 2 } },
      { deep = true })
    local before = mw.snapshot(world)
    local a = world.a
    local outer = mw.begin()
    a.n, world.b = 2, nil
    local inner = mw.begin()
    world.a, world.new = nil, { a }
    a.n, world.list[3] = 3, 3
    assert.equal(before, (mw.snapshot(world)))
    inner:commit()
    assert.equal(before, (mw.snapshot(world)))
    outer:commit()
    local copy = mw.restore((mw.snapshot(world)))
    assert.same({ list = { 1, 2, 3 }, new = { { n = 3 } } }, copy)
  end)

  it("has what was put raw into an object that they have written", function()
    local world = mw.track { n = 1 }
    rawset(world, "raw", 5)
    local before, hash, tx = mw.snapshot(world), mw.hash(world), mw.begin()
    world.n = 2
    assert.equal(before, (mw.snapshot(world)))
    assert.equal(hash, mw.hash(world))
    tx:rollback()
    assert.equal(before, (mw.snapshot(world)))
  end)

  it("has the class and the state of a userdata from before", function()
    local One, Two = class "snapshot.One", class "snapshot.Two"
    local unit = setmetatable({}, One)
    mw.track(unit)
    local before = mw.snapshot { unit }
    local tx = mw.begin()
    mw.setmetatable(unit, Two)
    assert.equal(before, (mw.snapshot { unit }))
    tx:rollback()
    mw.setmetatable(unit, nil)
    before = mw.snapshot { unit }
    tx = mw.begin()
    mw.setmetatable(unit, Two)
    assert.equal(before, (mw.snapshot { unit }))
    tx:commit()
    assert.equal(Two, getmetatable(mw.restore((mw.snapshot { unit }))[1]))
  end)

  it("has what the class from before ignores, and its name", function()
    local Node = class "snapshot.Ignoring"
    mw.name_class("snapshot.Ignoring", Node, { ignore = { "cache" } })
    local node = mw.track { cache = 1 }
    local before, tx = mw.snapshot { node }, mw.begin()
    mw.setmetatable(node, Node)
    assert.equal(before, (mw.snapshot { node }))
    tx:commit()
    before, tx = mw.snapshot { node }, mw.begin()
    mw.setmetatable(node, nil)
    assert.equal(before, (mw.snapshot { node }))
    mw.setmetatable(node, {})
    tx:commit()
    local message = select(2, mw.snapshot { node })
    tx = mw.begin()
    mw.setmetatable(node, Node)
    assert.same({ nil, message }, { mw.snapshot { node } })
    tx:rollback()
  end)

  it("has the state of a userdata from before", function()
    local methods, texts = {}, {}
    function methods:add(text) texts[self] = texts[self] .. text end
    local List = { __name = "snapshot.List", __index = methods }
    mw.name_class("snapshot.List", List, {
      mutators = { "add" }, new = function() return support.userdata(List) end,
      snapshot = function(list) return { texts[list] } end,
      restore = function(list, state) texts[list] = state[1] end,
    })
    local list = support.userdata(List)
    texts[list] = "a"
    mw.track(list)
    local before, tx = mw.snapshot { list }, mw.begin()
    list:add "b"
    list:add "c"
    assert.equal(before, (mw.snapshot { list }))
    tx:commit()
    assert.equal("abc", texts[mw.restore((mw.snapshot { list }))[1]])
    local world = { list }
    assert.equal(world, mw.restore(before, { into = world }))
    assert.equal(list, world[1])
    assert.equal("a", texts[list])
  end)

  it("restores into a userdata's state that fields lead to, too", function()
    local states = {}
    local Box = { __name = "snapshot.Shared" }
    mw.name_class("snapshot.Shared", Box, {
      new = function() return support.userdata(Box) end,
      snapshot = function(box) return states[box] end,
      restore = function(box, state) states[box] = state end,
    })
    for _, names in ipairs { { "a", "b" }, { "b", "a" } } do
      local state, box = { n = 1 }, support.userdata(Box)
      local leads = { to = state }
      states[box] = state
      local root = { [names[1]] = box, [names[2]] = { leads = leads } }
      local bytes = assert(mw.snapshot(root))
      state.n = 2
      assert.equal(root, mw.restore(bytes, { into = root }))
      assert.equal(1, state.n)
      assert.equal(state, leads.to)
      assert.equal(state, states[box])
    end
  end)

  it("restores into no class", function()
    for _, tracked in ipairs { false, true } do
      local Apart = { update = print }
      local root = { class = Apart, unit = setmetatable({},
        { __index = Apart }) }
      if tracked then mw.track(root, { deep = true }) end
      local bytes = mw.snapshot { class = { update = 1 } }
      assert.equal(root, mw.restore(bytes, { into = root }))
      assert.equal(print, Apart.update)
      assert.equal(1, root.class.update)
    end
  end)

  it("is what a rollback of all leaves, whoever takes turns", function()
    local One, Two = class "snapshot.TurnOne", class "snapshot.TurnTwo"
    local function turns(n)
      local all, open, turn = { {} }, { {}, {}, {} }, {}
      for i = 2, 8 do
        all[i] = {}
        all[random(i - 1)][random(4)] = all[i]
      end
      local root = mw.track(all[1], { deep = true })
      local function write()
        local object, what = all[random(#all)], random(10)
        local key = ("abcd"):sub(random(4)):sub(1, 1)
        if what <= 5 then
          object[key] = what <= 3 and random(5) or nil
        elseif what <= 8 then
          object[random(3)] = all[random(#all)]
        elseif what == 9 then
          all[random(2, #all)] = { n = random(3) }
          root[key] = all[random(2, #all)]
        else
          mw.setmetatable(object, ({ One, Two })[random(3)])
        end
      end
      for i = 1, #open do
        turn[i] = coroutine.wrap(function()
          while true do
            local what = random(8)
            if what == 1 then
              open[i][#open[i] + 1] = mw.begin()
            elseif what <= 3 and #open[i] > 0 then
              local tx = table.remove(open[i])
              tx[what == 2 and "commit" or "rollback"](tx)
            else
              write()
            end
            coroutine.yield()
          end
        end)
      end
      for _ = 1, n do
        if random(6) == 1 then write() else turn[random(3)]() end
        if random(10) == 1 then assert(mw.snapshot(root)) end
      end
      local bytes = mw.snapshot(root)
      while #open[1] + #open[2] + #open[3] > 0 do
        local tx = table.remove(open[random(3)])
        if tx then tx:rollback() end
      end
      assert.equal(bytes, (mw.snapshot(root)))
    end
    with_seed(function()
      for _ = 1, 300 do turns(random(60)) end
    end)
  end)
end)

describe("damaged bytes", function()
  local Unit = class "snapshot.Damaged"
  local state = { list = { 1, 2.5, "three" }, unit = setmetatable({}, Unit) }
  state.by = { [state.list] = state.unit }

  local function refuses(message, bytes)
    local root, why = mw.restore(bytes)
    assert.is_nil(root)
    assert.equal("bad snapshot: " .. message, why)
  end

  it("are refused with the reason", function()
    local bytes = mw.snapshot(state)
    refuses("the bytes are no snapshot", "")
    refuses("the bytes are no snapshot", "MWE" .. bytes:sub(4))
    refuses("the version is not known here", "MWS\9" .. bytes:sub(5))
    refuses("the length is not right", bytes:sub(1, -2))
    refuses("the checksum is not right", bytes:sub(1, -2) .. "\9")
    refuses("an object is missing", with_body(bytes, bytes:sub(21), 9))
    refuses("the bytes end too early", with_body(bytes, "", 1000))
    refuses("there are too many objects",
      with_body("", "\1\0\0\0\0\1\0\0\0\0", 1))
    refuses("an item has an unknown kind", with_body("", "\7\0\0\0\0", 1))
    refuses("a number is too long",
      with_body("", "\1\0\0" .. ("\255"):rep(11), 1))
    refuses("there is no such object",
      with_body("", "\1\0\0\1\7\9\0", 1))
    refuses("there is no such string", with_body("", "\1\0\0\1\6\0\0", 1))
    refuses("a field is in no table", with_body("",
      "\1\0\0\0\1\5\1x\7\2" .. "\2\5\1U\0" .. "\3\2\1\18", 2))
    refuses("a key is none", with_body("", "\1\0\0\0\1\0\2", 1))
    refuses("a field has no value", with_body("", "\1\0\0\1\0\0", 1))
    refuses("a table has an unknown mark", with_body("", "\1\3\0\0\0", 1))
    refuses("no class has the name 'x'", with_body("", "\1\0\5\1x\0\0", 1))
  end)

  it("never raise, and take no more than their size allows", function()
    with_seed(function()
      local bytes = mw.snapshot(state)
      local body = bytes:sub(21)
      for i = 1, 3000 do
        local damaged = { body:byte(1, -1) }
        for _ = 1, random(4) do
          damaged[random(#damaged)] = random(0, 255)
        end
        local text = string.char(table.unpack(damaged))
        if i % 3 == 0 then text = text:sub(1, random(#text)) end
        text = with_body(bytes, text)
        local before = collectgarbage "count"
        local root, why = mw.restore(text)
        assert.is_true(root ~= nil or type(why) == "string")
        assert.is_true(collectgarbage "count" - before < 100)
        local live = mw.restore(bytes)
        if random(2) == 1 then mw.track(live, { deep = true }) end
        before = collectgarbage "count"
        root, why = mw.restore(text, { into = live })
        assert.is_true(collectgarbage "count" - before < 200)
        if root then
          assert.equal(mw.snapshot(mw.restore(text)), (mw.snapshot(live)))
        else
          assert.equal("string", type(why))
          assert.equal(bytes, (mw.snapshot(live)))
        end
      end
    end)
  end)

  it("may have a million tables, one in another", function()
    local n, items = 1000000, {}
    local function count(i)
      local text = ""
      while i >= 128 do
        text, i = text .. string.char(i & 127 | 128), i >> 7
      end
      return text .. string.char(i)
    end
    for i = 1, n - 1 do items[i] = "\1\0\0\1\7" .. count(i + 1) .. "\0" end
    items[n] = "\1\0\0\0\0"
    local bytes = with_body("", table.concat(items), n)
    for _, opts in ipairs { {}, { into = {} } } do
      local at, depth = mw.restore(bytes, opts), 1
      while at[1] do at, depth = at[1], depth + 1 end
      assert.equal(n, depth)
    end
    assert.is_nil((mw.restore(with_body("", table.concat(items, "", 1, n - 1),
      n))))
  end)

  it("with a state that a rule does not take change nothing", function()
    local Box = { __name = "snapshot.Box" }
    mw.name_class("snapshot.Box", Box, {
      new = function() return support.userdata(Box) end,
      snapshot = function() return {} end,
      restore = function(_, its)
        if its.bad then error("no " .. its.bad, 0) end
      end,
    })
    local live = { box = support.userdata(Box), list = {} }
    local bytes = mw.snapshot(live)
    local bad = with_body(bytes, (bytes:sub(21):gsub("\1\0\0\0\0$",
      "\1\0\0\0\1\5\3bad\20")))
    refuses("a userdata takes no such state: no 4", bad)
    live.box = nil
    local root, why = mw.restore(bad, { into = live })
    assert.is_nil(root)
    assert.equal("bad snapshot: a userdata takes no such state: no 4", why)
    assert.is_nil(live.box)
  end)
end)

describe("a restored root", function()
  local function world()
    local Unit = class "snapshot.Live"
    local w = { list = { { id = 1 }, { id = 2 }, { id = 3 } }, n = 1,
      unit = setmetatable({ hp = 3 }, Unit) }
    w.unit.first = w.list[1]
    w.by = { [w.unit] = { 5 } }
    return mw.track(w, { deep = true })
  end

  it("keeps the objects that are the same by way and kind", function()
    local w = world()
    local before = mw.snapshot(w)
    local first, unit, by = w.list[1], w.unit, w.by[w.unit]
    w.n, w.more, unit.hp = 2, { x = 1 }, 9
    table.remove(w.list, 2)
    first.id = 100
    by[1] = 6
    unit.first = { id = "other" }
    assert.equal(w, mw.restore(before, { into = w }))
    assert.equal(before, (mw.snapshot(w)))
    assert.equal(first, w.list[1])
    assert.equal(unit, w.unit)
    assert.equal(by, w.by[unit])
    assert.equal(first, unit.first)
  end)

  it("goes from object to object by fields with objects as keys", function()
    local w, units = { after = {} }, {}
    for i = 1, 4000 do units[i] = { i } end
    w.first = units[1]
    for i = 2, #units do w.after[units[i - 1]] = units[i] end
    local before = mw.snapshot(w)
    for i = 1, #units do units[i][1] = -i end
    mw.restore(before, { into = w })
    local unit = w.first
    for i = 1, #units do
      assert.equal(units[i], unit)
      assert.equal(i, unit[1])
      unit = w.after[unit]
    end
  end)

  it("keeps what is no state: classes, and what a policy ignores", function()
    for _, tracked in ipairs { false, true } do
      local Class = { dictionary = { __index = {} } }
      mw.name_class("snapshot.Keeps" .. tostring(tracked), Class.dictionary,
        { ignore = { "cache" } })
      local object = setmetatable({ class = Class, n = 1 }, Class.dictionary)
      local root = { object, { weak = 1 } }
      if tracked then mw.track(root, { deep = true }) end
      local bytes = assert(mw.snapshot(root))
      object.n, object.more, object.cache, root[3] = 2, 3, 4, {}
      assert.equal(root, mw.restore(bytes, { into = root }))
      assert.equal(object, root[1])
      assert.same({ Class, 1, nil, 4 },
        { object.class, object.n, object.more, object.cache })
      assert.is_nil(root[3])
    end
  end)

  it("stores what was stored: no class has a say", function()
    local log, Map = {}, {}
    function Map.__newindex(self, key, value)
      log[#log + 1] = key
      rawset(self, key, value)
    end
    mw.name_class("snapshot.Map", Map)
    for _, tracked in ipairs { false, true } do
      local map = setmetatable({ a = 1, b = {} }, Map)
      if tracked then mw.track(map, { deep = true }) end
      local bytes = mw.snapshot(map)
      map.a, map.b = nil, nil
      mw.restore(bytes, { into = map })
      assert.same({ 1, {} }, { map.a, map.b })
      assert.equal(bytes, (mw.snapshot(map)))
    end
    assert.same({}, log)
  end)

  it("asks all checks before the first store", function()
    local w, asked = world(), 0
    local before = mw.snapshot(w)
    w.n, w.unit.hp, w.list[4] = 2, 9, {}
    mw.watch(w, function(_, _, _, _, _, written)
      asked = asked + 1
      assert.equal(2, w.n)
      if written == w.list then error("no", 0) end
    end, { phase = "check", deep = true, once = false })
    local now = mw.snapshot(w)
    assert.same({ nil, "no" }, { mw.restore(before, { into = w }) })
    assert.equal(3, asked)
    assert.equal(now, (mw.snapshot(w)))
  end)

  it("changes in one transaction, and only what differs", function()
    local w = world()
    local before, told = mw.snapshot(w), {}
    w.n, w.unit.hp = 2, 9
    local after = mw.snapshot(w)
    mw.watch(w, function(_, way, old, new)
      told[#told + 1] = table.concat(way, ".") .. ": " .. old .. " " .. new
    end, { deep = true, once = false })
    local ok, effects = mw.transaction(mw.restore, before, { into = w })
    assert.is_true(ok)
    assert.same({ "n: 2 1", "unit.hp: 9 3" }, told)
    effects:rollback()
    assert.equal(after, (mw.snapshot(w)))
  end)

  it("refuses a root of another kind, and a write that a check refuses",
    function()
      local w = world()
      local before = mw.snapshot(w)
      local root, why = mw.restore(mw.snapshot(w.unit), { into = w })
      assert.is_nil(root)
      assert.equal("the root is of another kind", why)
      w.n, w.unit.hp = 2, 9
      mw.watch(w.unit, function() error("no", 0) end, { phase = "check" })
      local now = mw.snapshot(w)
      root, why = mw.restore(before, { into = w })
      assert.is_nil(root)
      assert.equal("no", why)
      assert.equal(now, (mw.snapshot(w)))
    end)

  it("gives userdata states that refer to its own objects", function()
    local states, filled = {}, 0
    local Box = { __name = "snapshot.Referring" }
    mw.name_class("snapshot.Referring", Box, {
      new = function() return support.userdata(Box) end,
      snapshot = function(box) return states[box] end,
      restore = function(box, state)
        states[box], filled = state, filled + 1
      end,
    })
    local function box(state)
      local its = support.userdata(Box)
      states[its] = state
      return its
    end
    local w = { a = { n = 1 }, b = { n = 1 } }
    w.box = box { w.a, box { w.b } }
    local a, outer, before = w.a, w.box, mw.snapshot(w)
    a.n = 2
    mw.restore(before, { into = w })
    assert.equal(before, (mw.snapshot(w)))
    assert.equal(outer, w.box)
    assert.equal(a, states[outer][1])
    w.box = nil
    mw.restore(before, { into = w })
    assert.equal(before, (mw.snapshot(w)))
    assert.equal(a, states[w.box][1])
    states[w.box][1] = w.b -- looks like `a`
    mw.restore(before, { into = w })
    assert.equal(a, states[w.box][1])
    local x = {}
    for _, its in ipairs { { v = x, box = box { x } },
      { box = box { x }, more = box { x } }, { by = { [a] = x }, a = a,
        box = box { x } } } do
      before = mw.snapshot(its)
      for _, live in ipairs { { u = {} }, { box = {}, more = {} } } do
        live.box = box { live.u or {} }
        live.more = live.more and box { {} }
        mw.restore(before, { into = live })
        assert.equal(before, (mw.snapshot(live)))
      end
    end
    states[w.box], w.boxes = { a }, {}
    for i = 1, 2000 do w.boxes[i] = box { w, w.boxes } end
    before, filled = mw.snapshot(w), 0
    mw.restore(before, { into = w })
    assert.equal(0, filled)
  end)

  it("has new tables with their marks", function()
    local bytes = mw.snapshot { list = mw.array {}, o = { mw.object_like {} } }
    local live = mw.track({}, { deep = true })
    assert.equal(live, mw.restore(bytes, { into = live }))
    assert.equal(bytes, (mw.snapshot(live)))
  end)

  it("has the marks of the snapshot, until a rollback", function()
    local w = world()
    w.map = mw.object_like {}
    local before, hash = mw.snapshot(w), mw.hash(w)
    mw.array(w.list)
    mw.array(w.map)
    local now = mw.snapshot(w)
    local tx = mw.begin()
    mw.restore(before, { into = w })
    assert.equal(hash, mw.hash(w))
    tx:rollback()
    assert.equal(now, (mw.snapshot(w)))
    mw.restore(before, { into = w })
    assert.equal(before, (mw.snapshot(w)))
  end)

  it("is as the snapshot for random worlds", function()
    with_seed(function()
      local function random_world(n)
        local all = { {} }
        for i = 2, n do
          all[i] = {}
          all[random(i - 1)][random(4)] = all[i]
        end
        for _ = 1, n do
          local value = random(3) == 1 and all[random(n)] or random(9)
          all[random(n)][("abcd"):sub(random(4)):sub(1, 1)] = value
        end
        return all[1]
      end
      for _ = 1, 200 do
        local one, two = random_world(random(12)), random_world(random(12))
        local bytes = mw.snapshot(one)
        assert.equal(bytes, (mw.snapshot(copy_of(one))))
        if random(2) == 1 then mw.track(two, { deep = true }) end
        assert.equal(two, mw.restore(bytes, { into = two }))
        assert.equal(bytes, (mw.snapshot(two)))
      end
    end)
  end)
end)

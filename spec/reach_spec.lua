local mw = require "moonwatch"
local misuse = require "spec.support.misuse"
local no_class = require "spec.support.no_class"
local with_seed = require "spec.support.with_seed"

local DEEP = { deep = true, once = false }

local function dotted(path)
  local words = {}
  for i, key in ipairs(path) do words[i] = tostring(key) end
  return table.concat(words, ".")
end

-- Counts of 20,000 end at once when each costs the same, and take minutes when
-- each costs what there are.
local MANY = 20000

-- For loops: luassert takes longer than what is tested.
local function must(ok) if not ok then error("is not so", 2) end end

describe("a list of many nodes below a root", function()
  local root, flag

  -- Silent: nobody hears.  Heard: a flag is raised.
  local ways = {
    silent = function() mw.track(root, { deep = true }) end,
    heard = function()
      flag = mw.guard()
      mw.watch(root, flag, DEEP)
    end,
  }

  local function append(list, node)
    node.prev = list.last
    if list.last then list.last.next = node else list.first = node end
    list.last = node
  end

  local function prepend(list, node)
    node.next = list.first
    if list.first then list.first.prev = node else list.last = node end
    list.first = node
  end

  local function remove(list, node)
    local before, after = node.prev, node.next
    if before then before.next = after else list.first = after end
    if after then after.prev = before else list.last = before end
    node.prev, node.next = nil, nil
  end

  local function fill(list, n, make)
    for i = 1, n do append(list, make and make(i) or { n = i }) end
    return list
  end

  local function check(list, n)
    local seen, before = 0, nil
    local at = list.first
    while at do
      seen = seen + 1
      must(rawequal(before, at.prev))
      before, at = at, at.next
    end
    assert.equal(list.last, before)
    assert.equal(n, seen)
    if list.last then
      list.last.n = "written"
      if flag then
        assert.is_false(flag.valid)
        flag:revalidate()
      end
    end
  end

  for how, begin in pairs(ways) do
    local function with(name, f)
      it(name .. " (" .. how .. ")", function()
        mw.reap() -- what other specs have left
        root, flag = {}, nil
        begin()
        f()
      end)
    end

    with("grows at its end", function()
      check(fill(root, MANY), MANY)
    end)

    with("grows at its front", function()
      for i = 1, MANY do prepend(root, { n = i }) end
      check(root, MANY)
    end)

    with("grows near its front", function()
      fill(root, 3)
      local second = root.first.next
      for i = 1, MANY do
        local node = { n = i, prev = second, next = second.next }
        second.next.prev = node
        second.next = node
      end
      check(root, MANY + 3)
    end)

    with("is emptied from its front", function()
      fill(root, MANY)
      for _ = 1, MANY do
        local node = root.first
        remove(root, node)
        must(not mw.is_watched(node) and getmetatable(node) == nil)
      end
      check(root, 0)
    end)

    with("is emptied from its end", function()
      fill(root, how == "silent" and MANY or 2000) -- heard, each is climbed to
      while root.last do
        local node = root.last
        remove(root, node)
        mw.reap() -- it may have looked like a move
        must(not mw.is_watched(node) and getmetatable(node) == nil)
      end
      check(root, 0)
    end)

    with("is a ring through which the root goes", function()
      fill(root, MANY)
      for _ = 1, MANY do
        local node = root.first
        remove(root, node)
        append(root, node)
      end
      check(root, MANY)
    end)

    with("is reversed", function()
      fill(root, how == "silent" and MANY or 2000)
      local at = root.first
      root.first, root.last = root.last, root.first
      while at do
        at.next, at.prev = at.prev, at.next
        at = at.prev
      end
      check(root, how == "silent" and MANY or 2000)
    end)

    with("comes and goes, each node knowing the list", function()
      for _ = 1, 2 do
        local list = {}
        fill(list, MANY, function(i) return { n = i, list = list } end)
        local last = list.last
        root.list = list
        check(list, MANY)
        root.list = nil
        assert.is_false(mw.is_watched(list) or mw.is_watched(last))
        mw.reap()
        assert.is_nil(getmetatable(list))
        assert.is_nil(getmetatable(last))
      end
    end)

    with("is held by a cursor only", function()
      local list = fill({}, MANY)
      for node in function(_, at) return (at or list).next end do
        node.list = list
      end
      root.cursor = list.first
      for _ = 1, 1000 do root.cursor = root.cursor.next end
      assert.equal(1001, root.cursor.n)
      local first = list.first
      root.cursor = nil
      mw.reap()
      assert.is_nil(getmetatable(first))
    end)
  end
end)

describe("roots above the same tables", function()
  local function nothing() end

  local orders = {
    first_first = function(_, i) return i end,
    last_first = function(n, i) return n + 1 - i end,
    mixed = function(n, i) return i * 7 % n + 1 end, -- 7 is prime to n
  }

  for name, order in pairs(orders) do
    it("come and go in any order (" .. name .. ")", function()
      local n, leaf = 300, { x = 0, more = {} }
      local roots, heard = {}, {}
      local function begin(i)
        if i % 3 == 0 then
          mw.track(roots[i], { deep = true })
        elseif i % 3 == 1 then
          mw.watch(roots[i], function(root, path)
            must(rawequal(root, roots[i]) and path[1] == "leaf")
            heard[i] = (heard[i] or 0) + 1
          end, DEEP)
        else
          -- fires, and is silent
          mw.watch(roots[i], nothing,
            { deep = true, once = true })
        end
      end
      local function finish(i)
        mw.untrack(roots[i])
        mw.unwatch(roots[i])
      end
      for i = 1, n do roots[i] = { leaf = leaf } end
      for i = 1, n do begin(order(n, i)) end
      leaf.more.x = 1
      for i = 1, n do must((heard[i] or 0) == (i % 3 == 1 and 1 or 0)) end
      for i = 1, n, 2 do
        finish(order(n, i))
        begin(order(n, i))
      end
      leaf.more = { y = {} }
      leaf.more.y.x = 2
      for i = 1, n do must((heard[i] or 0) == (i % 3 == 1 and 3 or 0)) end
      for i = 1, n do
        assert.is_table(leaf.more.y)
        assert.equal(no_class, getmetatable(leaf.more.y))
        finish(order(n, i))
      end
      assert.is_nil(getmetatable(leaf))
      assert.is_nil(getmetatable(leaf.more.y))
      leaf.x = 3
      for i = 1, n do must((heard[i] or 0) == (i % 3 == 1 and 3 or 0)) end
    end)
  end

  it("may be parts that lead to each other", function()
    for _, way in ipairs { "watched", "tracked", "mixed" } do
      local scene, n, heard = { children = {} }, 200, 0
      for i = 1, n do scene.children[i] = { parent = scene } end
      for i, child in ipairs(scene.children) do
        if way == "tracked" or way == "mixed" and i % 2 == 0 then
          mw.track(child, { deep = true })
        else
          mw.watch(child, function() heard = heard + 1 end, DEEP)
        end
      end
      local expected = ({ watched = n, tracked = 0, mixed = n // 2 })[way]
      scene.title = "x"
      assert.equal(expected, heard)
      scene.children[7].x = 1
      assert.equal(2 * expected, heard)
      local _, fx = mw.transaction(function() scene.children[n].x = 2 end)
      assert.equal(1, fx:len())
      for i = n, 1, -1 do -- each is a root, and below the others
        local child = scene.children[i]
        mw.untrack(child)
        assert.equal(i == 1, mw.unwatch(child))
      end
      assert.is_nil(getmetatable(scene))
      assert.is_nil(getmetatable(scene.children))
    end
  end)

  it("may be a ring", function()
    local ring, n, heard = {}, 100, {}
    for i = 1, n do ring[i] = { i = i } end
    for i = 1, n do ring[i].next = ring[i % n + 1] end
    for i = 1, n do
      mw.watch(ring[i], function(_, path) heard[i] = #path end, DEEP)
    end
    ring[1].x = 1
    for i = 1, n do must(heard[i] == (n + 1 - i) % n + 1) end
    ring[n // 2].next = nil -- those before hear no more of the first
    heard = {}
    ring[1].x = 2
    for i = 1, n do must((heard[i] ~= nil) == (i == 1 or i > n // 2)) end
    for i = 1, n do mw.unwatch(ring[i]) end
    for i = 1, n do must(getmetatable(ring[i]) == nil) end
  end)

  it("hear in the order in which they were first watched deeply", function()
    local leaf, order = { x = 0 }, {}
    local roots = {}
    for i = 1, 8 do roots[i] = { leaf = leaf } end
    local function say(name)
      return function() order[#order + 1] = name end
    end
    local function heard()
      leaf.x = leaf.x + 1
      local text = table.concat(order, " ")
      order = {}
      return text
    end
    for i = 1, 4 do mw.watch(roots[i], say(i), DEEP) end
    mw.watch(leaf, say "leaf", { once = false })
    mw.watch(roots[2], say "2b", DEEP)
    assert.equal("leaf 1 2 2b 3 4", heard())
    mw.unwatch(roots[1]) -- its place is free for another root
    mw.unwatch(roots[3])
    mw.watch(roots[5], say(5), DEEP)
    mw.watch(roots[6], say(6), DEEP)
    mw.watch(roots[3], say(3), DEEP)
    mw.watch(roots[1], say(1), DEEP)
    assert.equal("leaf 2 2b 4 5 6 3 1", heard())
    roots[2].leaf = nil -- comes below again, but its watches are older
    roots[2].leaf = leaf
    order = {}
    assert.equal("leaf 2 2b 4 5 6 3 1", heard())
    mw.track(roots[7], { deep = true })
    mw.watch(roots[8], say(8), { deep = true, phase = "after", once = true })
    mw.watch(roots[7], say(7), { deep = true, once = true })
    assert.equal("leaf 2 2b 4 5 6 3 1 7 8", heard())
    mw.batch(function() leaf.x = 5 end)
    assert.equal("leaf 2 2b 4 5 6 3 1", heard():sub(1, 19))
  end)

  it("may all have fired, but some", function()
    local leaf, roots, heard = { x = 0, more = {} }, {}, {}
    local function hear(i)
      return function(_, path)
        assert.same({ "leaf", "x" }, path)
        heard[#heard + 1] = i
      end
    end
    for i = 1, 20 do
      roots[i] = { leaf = leaf }
      mw.watch(roots[i], hear(i), { deep = true, once = true })
    end
    leaf.x = 1
    assert.equal(20, #heard)
    for _ = 1, 100 do
      heard = {}
      local expected = {}
      for i = 1, 20 do
        local way = math.random(4)
        if way == 1 then mw.watch(roots[i], hear(i),
          { deep = true, once = true }) end
        if way == 2 then mw.watch(roots[i], hear(i), DEEP):cancel() end
        if way == 1 then expected[#expected + 1] = i end
      end
      leaf.x = 2
      leaf.x = 3
      assert.same(expected, heard)
      assert.is_true(mw.is_watched(leaf.more))
    end
  end)

  it("are silent once nobody waits, and heard again", function()
    local root, n = { a = { b = {} } }, 0
    local function hear() n = n + 1 end
    for _ = 1, 50 do
      mw.watch(root, hear, { deep = true, once = true })
      local handle = mw.watch(root, hear, DEEP)
      root.a.b.x = 1
      handle:cancel()
      root.a.b.x = 2
      root.a.b = {}
      root.a.b.x = 3
    end
    assert.equal(100, n)
    assert.is_true(mw.is_watched(root.a.b))
    assert.is_true(mw.unwatch(root))
    assert.is_false(mw.is_watched(root.a.b))
  end)
end)

describe("a table with much below it that moves", function()
  local function tree(depth)
    if depth == 0 then return { leaf = true } end
    return { tree(depth - 1), tree(depth - 1), up = {} }
  end

  local moves = {
    ["out and in"] = function(root, t)
      root.a.x = nil
      root.b.y = t
    end,
    ["in and out"] = function(root, t)
      root.b.y = t
      root.a.x = nil
    end,
    ["out, counted, and in"] = function(root, t)
      root.a.x = nil
      root.a.n = (root.a.n or 0) - 1
      root.b.y = t
    end,
    ["below a new table"] = function(root, t)
      root.a.x = nil
      root.b.y = { new = { t } }
    end,
    ["by table.remove"] = function(root, t)
      for i = 1, 10 do root.a[i] = { i } end
      table.insert(root.a, 1, t)
      root.a.x = nil
      table.insert(root.b, 1, table.remove(root.a, 1))
    end,
    ["in exchange"] = function(root, t)
      root.b.y = { 1 }
      root.a.x, root.b.y = root.b.y, t
    end,
    ["by a variable"] = function(root, t)
      root.b.y = { 1 }
      local other = root.b.y
      root.b.y, root.a.x = nil, nil
      root.a.x, root.b.y = other, t
    end,
  }

  for _, way in ipairs { "watched", "tracked" } do
    for name, move in pairs(moves) do
      it(("is not looked at again (%s, %s)"):format(way, name), function()
        local root, asked = { a = { x = tree(6) }, b = {} }, 0
        local t = root.a.x
        local leaf = t[1][2][1][2][1][2]
        local flag = mw.guard()
        if way == "watched" then
          mw.watch(root, flag, DEEP)
        else
          mw.track(root, { deep = true })
        end
        for _ = 1, 100 do mw.watch({ {} }, mw.guard(), DEEP) end
        local former = mw.policy { descend = function()
          asked = asked + 1
          return true
        end }:use()
        collectgarbage() -- roots that have died are found meanwhile
        move(root, t)
        former:use()
        assert.is_true(asked < 80, asked) -- there are 190 below
        if way == "watched" then
          flag:revalidate()
          leaf.x = 1
          assert.is_false(flag.valid)
        else
          local _, fx = mw.transaction(function() leaf.x = 1 end)
          assert.equal(1, fx:len())
        end
        mw.untrack(root)
        mw.unwatch(root)
        assert.is_nil(getmetatable(leaf))
      end)
    end

    it("is given back if it does not come back (" .. way .. ")", function()
      for _, wait in ipairs {
        function() mw.reap() end,
        function(root) for i = 1, 100 do root.other, root.other = {}, { i } end
        end,
        function(_, t) t.written = {} end,
        function() for _ = 1, 1000 do mw.id {} end end,
        function() mw.transaction(function() end) end,
      } do
        local root = { x = tree(6) }
        local t = root.x
        mw.watch(root, mw.guard(), DEEP)
        if way == "tracked" then
          mw.unwatch(root)
          mw.track(root, { deep = true })
        end
        root.x = nil
        wait(root, t)
        assert.is_nil(getmetatable(t))
        assert.is_nil(getmetatable(t[1][1][2]))
        local ok = mw.transaction(function()
          t.written = 5
          error "taken back"
        end)
        assert.is_false(ok)
        assert.equal(5, t.written)
        mw.untrack(root)
        mw.unwatch(root)
      end
    end)
  end

  it("does not belong to a transaction if it was out before", function()
    local root = { x = tree(3) }
    local t = root.x
    mw.track(root, { deep = true })
    root.x = nil
    local ok = mw.transaction(function()
      t[1][1].leaf = 5
      error "taken back"
    end)
    assert.is_false(ok)
    assert.equal(5, t[1][1].leaf)
  end)

  it("hears and is heard no more while it is out", function()
    local root, n = { a = { x = { y = {} } } }, 0
    mw.watch(root, function() n = n + 1 end, DEEP)
    local x, y = root.a.x, root.a.x.y
    root.a.x = nil
    n = 0
    y.z = 1
    x.z = 1
    assert.equal(0, n)
    assert.is_nil(getmetatable(x))
    root.a.x = x
    y.z = 2
    assert.equal(2, n)
  end)
end)

describe("mw.paths", function()
  local function show(ways)
    local words = {}
    for i, way in ipairs(ways) do words[i] = dotted(way) end
    return table.concat(words, " ")
  end

  it("returns all ways, the shortest first", function()
    local leaf = {}
    local root = { a = { b = { leaf = leaf } } }
    mw.watch(root, mw.guard(), DEEP)
    assert.equal("a.b.leaf", show(mw.paths(root, leaf)))
    assert.equal("leaf", show(mw.paths(root.a.b, leaf)))
    root.x, root.a.y, leaf.root, leaf.self = leaf, leaf, root, leaf
    assert.equal("x a.y a.b.leaf", show(mw.paths(root, leaf)))
    assert.equal("root", show(mw.paths(leaf, root)))
    root.x = nil
    assert.equal("a.y a.b.leaf", show(mw.paths(root, leaf)))
    local key = {}
    root[key] = { [1.5] = leaf }
    local ways = mw.paths(root, leaf)
    assert.equal(3, #ways)
    for _, way in ipairs(ways) do
      local at = root
      for _, k in ipairs(way) do at = at[k] end
      assert.equal(leaf, at)
    end
    root[key], root.a = nil, nil
    assert.same({}, mw.paths(root, leaf))
    assert.same({ {} }, mw.paths(root, root))
  end)

  it("finds nothing where nothing is tracked, or is no table", function()
    local t = {}
    for _, v in ipairs { t, 1, "x", print, false } do
      assert.same({}, mw.paths({ t }, v))
      assert.same({}, mw.paths(v, {}))
    end
    assert.same({}, mw.paths(nil, nil))
  end)

  it("agrees with a walk over all ways", function()
    local function check_round()
      local objects = {}
      for i = 1, 7 do objects[i] = {} end
      local root = objects[1]
      mw.track(root, { deep = true })
      if math.random(2) == 1 then mw.watch(root, mw.guard(), DEEP) end
      for _ = 1, 60 do
        local obj = objects[math.random(#objects)]
        obj[math.random(3)] = math.random() < 0.7 and
          objects[math.random(#objects)] or nil
      end
      local target = objects[math.random(2, #objects)]
      local expected, seen = {}, {}
      local function walk(at, way)
        if rawequal(at, target) then
          expected[#expected + 1] = way
          return
        end
        seen[at] = true
        for k = 1, 3 do
          local child = at[k]
          if child and not seen[child] then walk(child, way .. k) end
        end
        seen[at] = nil
      end
      walk(root, "")
      local found, last = {}, 0
      for i, way in ipairs(mw.paths(root, target)) do
        found[i] = table.concat(way)
        assert.is_true(#way >= last)
        last = #way
      end
      table.sort(found)
      table.sort(expected)
      assert.same(expected, found)
    end
    for _ = 1, 200 do with_seed(check_round) end
  end)
end)

describe("a weak table", function()
  local function nothing() end
  local modes = { "k", "v", "kv" }
  local function weak_table(mode) return setmetatable({}, { __mode = mode }) end

  it("is not watched or tracked", function()
    local raised = "bad argument #1 to '%s' " ..
      "(a weak table loses entries without a write)"
    for _, mode in ipairs(modes) do
      misuse(raised:format "watch", mw.watch, weak_table(mode), nothing)
      misuse(raised:format "track", mw.track, weak_table(mode))
    end
    assert.is_table(mw.track(setmetatable({}, { __mode = "" })))
  end)

  it("below a root is a field as any, and nothing below it is entered",
    function()
      for _, mode in ipairs(modes) do
        for _, how in ipairs { "watched", "tracked" } do
          local kept, key = {}, {}
          local root = { cache = weak_table(mode), kept = kept }
          root.cache[key] = kept
          if how == "watched" then
            mw.watch(root, nothing, DEEP)
          else
            mw.track(root, { deep = true })
          end
          local later = weak_table(mode)
          root.later = later
          later[key] = kept
          assert.equal(key, next(later))
          assert.equal(key, next(root.cache))
          assert.is_nil(mw.paths(root, kept)[2])
          root.kept = nil
          mw.reap()
          assert.is_nil(getmetatable(kept))
        end
      end
    end)

  it("is what a watched table does not become", function()
    for _, deep in ipairs { false, true } do
      local root, class = { {} }, {}
      mw.track(root, { deep = deep })
      local obj = deep and root[1] or root
      misuse("bad argument #2 to 'setmetatable' (a watched table cannot " ..
        "become weak: it would lose entries without a write)",
        mw.setmetatable, obj, { __mode = "k" })
      mw.setmetatable(obj, class)
      class.__mode = "k"
      misuse("bad argument #1 to 'refresh' (its watched objects cannot " ..
        "become weak)", mw.refresh, class)
      class.__mode = nil
      assert.equal(1, mw.refresh(class))
    end
  end)
end)

describe("classes below a deep root", function()
  local intercepts = require "moonwatch.core".private.intercepts
  local styles = {}
  for name, style in pairs(require "spec.support.styles") do
    styles[name] = style
  end

  -- A class is its own metatable and holds its instances' class.
  styles["30log"] = {}
  styles["30log"].make = function(name, base)
    local class = { name = name, super = base }
    class.__index = class
    return setmetatable(class, {
      __index = base,
      __call = function(_, ...)
        return setmetatable({ class = class, ... }, class)
      end,
    })
  end
  styles["30log"].construct = function(class, ...) return class(...) end

  -- Methods are looked up by a function.
  styles.looked_up = {}
  styles.looked_up.make = function()
    local class = { methods = {} }
    class.__index = function(_, key) return class.methods[key] end
    return class
  end
  styles.looked_up.construct = function(class)
    return setmetatable({ class = class }, class)
  end

  -- A metatable of metamethods alone, and a prototype.
  styles.prototype = {}
  styles.prototype.make = function(name) return { name = name } end
  styles.prototype.construct = function(class)
    return setmetatable({ prototype = class }, { __index = class })
  end

  local function new(style, base)
    local class = style.make("Orc", base)
    local object = style.construct(class)
    rawset(object, "pos", { x = 0 })
    return object, class
  end

  local function assert_plain(class, fields)
    assert.is_false(mw.is_watched(class))
    assert.is_false(intercepts(class))
    local n = 0
    for _ in next, class do n = n + 1 end
    assert.equal(fields, n)
  end

  local function fields_of(class)
    local n = 0
    for _ in next, class do n = n + 1 end
    return n
  end

  local ways = {
    watched = function(obj)
      mw.watch(obj, mw.guard(), { deep = true, once = false })
    end,
    tracked = function(obj) mw.track(obj, { deep = true }) end,
  }

  local function finish(obj)
    mw.untrack(obj)
    mw.unwatch(obj)
    assert.is_nil(getmetatable(rawget(obj, "pos") or {}))
  end

  for name, style in pairs(styles) do
    for way, begin in pairs(ways) do
      local function with(what, f)
        it(("%s (%s, %s)"):format(what, name, way), f)
      end

      with("are not entered", function()
        local object, class = new(style)
        local n = fields_of(class)
        object.class, object.kind = class, class
        begin(object)
        assert_plain(class, n)
        assert.is_true(intercepts(object.pos))
        local ok, fx = mw.transaction(function()
          object.pos.x = 5
          rawset(class, "count", 7)
          class.extra = 1
        end)
        assert.is_true(ok)
        assert.equal(1, fx:len())
        object.later = class
        object.later = { class }
        assert.is_false(intercepts(class))
        finish(object)
      end)

      with("are let go when they are found later", function()
        for order = 1, 2 do
          local object, class = new(style)
          local n = fields_of(class)
          object.class = class
          local root = { order == 1 and class or object,
            order == 1 and object or class, in_a = { list = { class } } }
          begin(root)
          mw.reap()
          assert_plain(class, n)
          assert.is_true(intercepts(object.pos))
          finish(root)
        end
      end)

      with("are let go when their first object comes", function()
        local object, class = new(style)
        local n = fields_of(class)
        object.class = class
        local root = { { class } }
        begin(root)
        assert.is_true(intercepts(class))
        root.object = object
        mw.reap()
        assert_plain(class, n)
        assert.is_true(intercepts(object.pos))
        finish(root)
      end)

      with("may hold their objects", function()
        local object, class = new(style)
        object.class = class
        rawset(class, "instance", object)
        local n = fields_of(class)
        local root = {}
        begin(root)
        root.class = class
        mw.reap()
        assert.equal(class, root.class)
        assert_plain(class, n)
        root.object = object
        assert.is_true(intercepts(object.pos))
        assert_plain(class, n)
        finish(root)
      end)

      with("may be roots themselves", function()
        local object, class = new(style)
        object.class = class
        rawset(class, "instance", object)
        begin(class)
        assert.is_true(intercepts(class))
        assert.is_true(intercepts(object.pos))
        mw.untrack(class)
        mw.unwatch(class)
        assert.is_false(intercepts(object.pos))
      end)
    end
  end

  it("are let go when an object gets the class", function()
    local class = { name = "Class" }
    class.__index = class
    local root = { class = class, object = { pos = {} } }
    mw.watch(root, mw.guard(), DEEP)
    assert.is_true(mw.is_watched(class))
    mw.setmetatable(root.object, class)
    mw.reap()
    assert_plain(class, 2)
    assert.equal("Class", root.object.name)
  end)

  it("may inherit from each other", function()
    local base = { name = "Base" }
    base.__index = base
    local middle = setmetatable({ super = base }, base)
    middle.__index = middle
    local class = setmetatable({ super = middle }, middle)
    class.__index = class
    local root = { base = base, { setmetatable({ class = class }, class) },
      middle = middle }
    mw.watch(root, mw.guard(), DEEP)
    mw.reap()
    assert_plain(base, 2)
    assert_plain(middle, 2)
    assert_plain(class, 2)
    assert.equal("Base", root[1][1].name)
    mw.unwatch(root)
  end)

  it("are the tables of Lua itself, too", function()
    local root = { env = { print = print, _G = _G }, string = string,
      package = package, loaded = package.loaded, search = package.searchers }
    mw.watch(root, mw.guard(), DEEP)
    assert.is_true(mw.is_watched(root.env))
    for _, its in ipairs { _G, string, package, package.loaded,
      package.searchers } do
      assert.is_false(mw.is_watched(its))
      assert.is_not_nil(next(its))
    end
    local ok, message = pcall(require, "no such module")
    assert.is_false(ok)
    assert.matches("module 'no such module' not found", message)
    mw.unwatch(root)
  end)

  it("are what has a name, before there is an object", function()
    local base = { name = "Base" }
    local class = setmetatable({ name = "Named" }, { __index = base })
    local root = { class, base = base, late = { name = "Late" } }
    mw.name_class("deep.Named", class)
    mw.track(root, { deep = true })
    assert_plain(class, 1)
    assert_plain(base, 1)
    mw.name_class("deep.Late", root.late)
    mw.reap()
    assert_plain(root.late, 1)
    mw.untrack(root)
  end)

  it("are not what is merely called so", function()
    local root = { class = { name = "wizard" }, _class = {} }
    mw.watch(setmetatable(root, {}), mw.guard(), DEEP)
    assert.is_true(mw.is_watched(root.class))
    assert.is_true(mw.is_watched(root._class))
    mw.unwatch(root)
  end)
end)

describe("a function that is asked what a new deep watch includes", function()
  -- Watches a root; the function calls `act(root)` once.
  local function begin(act)
    local root = { a = { b = {} } }
    local heard, acts = {}, act
    local function guard(_, path)
      heard[#heard + 1] = table.concat(path, ".")
    end
    local ok, handle = pcall(mw.watch, root, guard, { deep = true,
      descend = function()
        local once = acts
        acts = nil
        if once then once(root) end
        return true
      end })
    return root, heard, ok, handle
  end

  it("may end all watches of its root, but not the new one", function()
    local answer
    local root, heard, ok, handle = begin(function(root)
      answer = mw.unwatch(root)
    end)
    assert.is_true(ok)
    assert.is_false(answer)
    root.a.b.c = 1
    assert.same({ "a.b.c" }, heard)
    handle:cancel()
    assert.is_true(mw.unwatch(root))
    assert.is_nil(getmetatable(root.a))
  end)

  it("may begin another one of its root", function()
    local other
    local root, heard = begin(function(root)
      mw.watch(root, function(_, path) other = #path end,
        { deep = true, path = { "a", mw.any } })
    end)
    root.a.b = 1
    assert.same({ "a.b" }, heard)
    assert.equal(2, other)
    assert.is_true(mw.unwatch(root))
  end)

  it("may end all watches and raise", function()
    local root, _, ok, message = begin(function(root)
      mw.unwatch(root)
      error("no", 0)
    end)
    assert.is_false(ok)
    assert.equal("no", message)
    assert.is_nil(getmetatable(root))
    assert.is_nil(getmetatable(root.a))
  end)
end)

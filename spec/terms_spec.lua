local mw = require "moonwatch"
local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"
local support = require "support"

local ONCE = { once = true }

local function nothing() end

local STAY = { once = false }

local contents = setmetatable({}, { __mode = "k" })

local function new_userdata(fields)
  local obj = support.userdata {
    __index = function(self, key) return contents[self][key] end,
    __newindex = function(self, key, value) contents[self][key] = value end,
  }
  contents[obj] = fields
  return obj
end

local function each_object(f)
  f({ x = 1 }, "table")
  f(setmetatable({ x = 1 }, { __newindex = rawset }), "of a class")
  f(new_userdata { x = 1 }, "userdata")
  f(mw.track { x = 1 }, "tracked")
end

local function collect()
  collectgarbage()
  collectgarbage()
end

describe("a condition", function()
  it("decides about each call, and a one-shot watch stays until then",
    function()
      each_object(function(obj, name)
        local n, given = 0, nil
        local handle = mw.watch(obj, function() n = n + 1 end, {
          when = function(...)
            given = table.pack(...)
            return given[4] == 3
          end, once = true })
        obj.x = 2
        assert.same({ obj, "x", 1, 2, "update", n = 5 }, given, name)
        obj.y = 2
        assert.same({ obj, "y", nil, 2, "insert", n = 5 }, given, name)
        assert.equal(0, n, name)
        assert.is_true(handle:alive(), name)
        obj.x = 3
        assert.equal(1, n, name)
        assert.is_false(handle:alive(), name)
        obj.x = 3
        assert.equal(1, n, name)
      end)
    end)

  it("is asked of keys, phases and writes that concern the watch", function()
    local obj, asked = { x = 1 }, {}
    local function when(_, key)
      asked[#asked + 1] = key
      return true
    end
    mw.watch(obj, nothing, { once = false, key = "x", when = when })
    mw.watch(obj, nothing, { once = false, keys = { "y", "z" }, when = when,
      phase = "after" })
    mw.watch(obj, nothing, { once = false, equal = "skip", key = "w",
      when = when })
    obj.x, obj.y, obj.w, obj.v = 1, 1, nil, 1
    table.sort(asked)
    assert.same({ "x", "y" }, asked)
  end)

  it("gets the written object and its key, of a deep watch", function()
    local root, seen = { a = { hp = 1 } }, {}
    mw.watch(root, function(_, path) seen[#seen + 1] = path end, {
      deep = true, once = false, when = function(written, key, old, new, kind)
        assert.equal(root.a, written)
        assert.same({ "hp", "update" }, { key, kind })
        return new > old
      end })
    root.a.hp = 0
    root.a.hp = 2
    assert.same({ { "a", "hp" } }, seen)
  end)

  it("is asked at the end of a batch, with the values of the batch", function()
    local obj, n, asked = { x = 1 }, 0, {}
    mw.watch(obj, function() n = n + 1 end, {
      when = function(_, _, old, new, kind)
        asked[#asked + 1] = ("%s %s>%s"):format(kind, old, new)
        return new == 5
      end, once = true })
    mw.batch(function()
      obj.x = 5
      obj.x = 6
    end)
    assert.equal(0, n)
    mw.batch(function()
      obj.x = 7
      obj.x = 5
    end)
    assert.equal(1, n)
    assert.same({ "update 1>6", "update 6>5" }, asked)
  end)

  it("decides about guards that are objects, and flags", function()
    local obj, n = { x = 1 }, 0
    local flag = mw.guard()
    local guard = { invalidate = function() n = n + 1 end }
    local function when(_, _, _, new) return new == 3 end
    mw.watch(obj, flag, { once = false, when = when })
    mw.watch({ obj }, flag, { deep = true, once = false, when = when })
    mw.watch(obj, guard, { once = false, when = when })
    obj.x = 2
    assert.is_true(flag.valid)
    obj.x = 3
    assert.is_false(flag.valid)
    assert.equal(1, n)
  end)

  it("does not keep a guard that is an object", function()
    local obj, n = { x = 1 }, 0
    local handle, flag
    do
      local guard = { invalidate = function() n = n + 1 end }
      handle = mw.watch(obj, guard, { once = false,
        when = function() return true end })
      flag = mw.watch(obj, mw.guard(), { once = false,
        when = function() return true end })
      obj.x = 2
      assert.equal(1, n)
      assert.is_true(handle:alive())
      guard.n = n
    end
    collect()
    assert.is_false(handle:alive())
    assert.is_false(flag:alive())
    obj.x = 3
    assert.equal(1, n)
  end)

  it("fails as a guard does", function()
    local obj, n = { x = 1 }, 0
    local handle = mw.watch(obj, function() n = n + 1 end,
      { when = function() error("of when", 0) end, once = true })
    mw.watch(obj, function() n = n + 10 end, ONCE)
    local said = error_of(function() obj.x = 2 end)
    assert.is_truthy(said:find "^of when\nstack traceback:\n", said)
    assert.equal(2, obj.x)
    assert.equal(10, n)
    assert.is_true(handle:alive())
    local taken
    local former = mw.on_error(function(err, where) taken = { err, where } end)
    obj.x = 3
    mw.on_error(former)
    assert.same({ "of when", "guard" }, taken)
    assert.equal(10, n)
  end)

  it("may write, cancel, unwatch and collect", function()
    local deeds = {
      write = function(obj) if obj.n == nil then obj.n = 1 end end,
      cancel = function(_, handle) handle:cancel() end,
      unwatch = mw.unwatch,
      collect = collect,
      watch = function(obj) mw.watch(obj, nothing, ONCE) end,
      class = function(obj)
        if type(obj) == "table" then mw.setmetatable(obj, {}) end
      end,
    }
    for name, deed in pairs(deeds) do
      each_object(function(obj, kind)
        local n, handle, busy = 0, nil, false
        handle = mw.watch(obj, function() n = n + 1 end, {
          once = false, key = "x", when = function(self)
            if not busy then
              busy = true
              deed(self, handle)
              busy = false
            end
            return true
          end })
        obj.x = 2
        local what = name .. ", " .. kind
        local ends = name == "cancel" or name == "unwatch"
        assert.equal(ends and 0 or 1, n, what)
        assert.equal(2, obj.x, what)
        assert.equal(not ends, handle:alive(), what)
      end)
    end
  end)

  it("of a one-shot watch lets the guard end its watch, and begin another",
    function()
      local function always() return true end
      for _, deep in ipairs { false, true } do
        for _, ends in ipairs { "cancel", "unwatch", "neither" } do
          local obj, told, watch = {}, "", nil
          local function begin(name, opts)
            return mw.watch(obj, function() told = told .. name end, opts)
          end
          watch = mw.watch(obj, function()
            if ends == "unwatch" then mw.unwatch(obj) end
            if ends == "cancel" then watch:cancel() end
            begin("new ", { when = always, once = true, deep = deep or nil })
            assert.is_false(watch:alive())
            watch:cancel()
          end, { when = always, once = true, deep = deep or nil })
          obj.x = 1
          local first = begin("first ", { once = false })
          begin("second ", { once = false })
          obj.x = 2
          first:cancel()
          obj.x = 3
          assert.equal("new first second second ", told)
        end
      end
    end)

  it("is a function", function()
    misuse("bad argument #3 to 'watch' (option 'when' is not a function)",
      mw.watch, {}, nothing, { when = true })
  end)
end)

describe("the option owner", function()
  it("is gone: a guard that is an object ends with who holds it", function()
    misuse("bad argument #3 to 'watch' (option 'owner' is gone: the owner " ..
      "holds the guard)", mw.watch, {}, nothing, { owner = {} })
    local obj, n, panel = {}, 0, {}
    function panel.invalidate() n = n + 1 end
    mw.watch(obj, panel, { once = false })
    obj.x = 1
    panel = nil -- luacheck: ignore
    collect()
    obj.x = 2
    assert.equal(1, n)
  end)
end)

describe("what exists", function()
  -- What a guard hears while the watch begins.
  local function existing(obj, opts)
    local notes, all = {}, { existing = true, once = false }
    for name, value in pairs(opts or {}) do all[name] = value end
    local handle = mw.watch(obj, function(self, key, old, new, kind, written)
      assert.is_true(rawequal(obj, self))
      if kind ~= "existing" then return end
      assert.is_nil(old)
      if type(key) == "table" then
        assert.is_table(written)
        key = table.concat(key, ".")
      end
      notes[#notes + 1] = kind .. " " .. tostring(key) .. "=" .. tostring(new)
    end, all)
    table.sort(notes)
    return table.concat(notes, ", "), handle
  end

  it("is told once the watch begins, and uses up nothing", function()
    local obj = { a = 1, b = false, [1] = "one" }
    local told, handle = existing(obj, { once = true })
    assert.equal("existing 1=one, existing a=1, existing b=false", told)
    assert.is_true(handle:alive())
    assert.equal(0, mw.mutations(obj))
    obj.a = 2
    assert.is_false(handle:alive())
    assert.equal("", (existing {}))
  end)

  it("is told of keys, and what the condition wants", function()
    local obj = { a = 1, b = 2, c = 3 }
    assert.equal("existing a=1", (existing(obj, { key = "a" })))
    assert.equal("existing b=2", (existing(obj, { keys = { "b", "none" } })))
    local asked = 0
    assert.equal("existing c=3", (existing(obj, {
      when = function(self, _, old, new, kind)
        asked = asked + 1
        assert.is_true(rawequal(obj, self))
        assert.is_nil(old)
        assert.equal("existing", kind)
        return new == 3
      end })))
    assert.equal(3, asked)
  end)

  it("is told of all below, each field once", function()
    local shared = { v = 1 }
    local root = { a = shared, b = { c = shared } }
    root.me, shared.up = root, root
    local told = existing(root, { deep = true })
    local _, n = told:gsub("existing", "")
    assert.equal(6, n, told)
    assert.is_truthy(told:find("existing a.v=1", 1, true), told)
    assert.is_truthy(told:find("existing b.c=", 1, true), told)
  end)

  it("makes flags stale, and calls objects", function()
    local flag, n = mw.guard(), 0
    mw.watch({}, flag, { existing = true, once = true })
    assert.is_true(flag.valid)
    mw.watch({ 1 }, flag, { existing = true, once = true })
    assert.is_false(flag.valid)
    local guard = { invalidate = function(self, obj, key, old, new, kind)
      assert.is_function(self.invalidate)
      assert.same({ { "x" }, 1, nil, "x", "existing" },
        { obj, key, old, new, kind })
      n = n + 1
    end }
    mw.watch({ "x" }, guard, { existing = true, once = true })
    assert.equal(1, n)
  end)

  it("is there though it was put there raw", function()
    local obj = { a = 1 }
    mw.watch(obj, nothing, STAY)
    rawset(obj, "b", 2)
    assert.equal("existing a=1, existing b=2", (existing(obj)))
  end)

  it("may be written by the guard", function()
    local obj, n = { a = 1, b = 2 }, 0
    mw.watch(obj, function(self, key, _, new, kind)
      n = n + 1
      if kind ~= "existing" then return end
      self[key] = new * 10
      self[key .. "!"] = nil
    end, { existing = true, once = false })
    assert.equal(10, obj.a)
    assert.equal(20, obj.b)
    assert.equal(6, n)
  end)

  it("ends with the guard's error, and there is no watch", function()
    for _, opts in ipairs { {}, { deep = true }, { key = "a" },
      { phase = "check" },
      { when = function() error("of a", 0) end } } do
      local child = { v = 1 }
      local obj = { a = 1, child = child }
      opts.existing = true
      local said = error_of(mw.watch, obj, function() error("of a", 0) end,
        opts)
      assert.is_truthy(tostring(said):find "^of a", said)
      assert.is_false(mw.is_watched(obj))
      assert.is_false(mw.is_watched(child))
      assert.is_nil(getmetatable(obj))
      assert.equal(1, rawget(obj, "a"))
      assert.equal(1, rawget(child, "v"))
      local n = 0
      mw.watch(obj, function() n = n + 1 end, STAY)
      said = error_of(mw.watch, obj, function() error({}) end, opts)
      assert.is_truthy(said)
      assert.is_false(mw.is_watched(child))
      assert.equal(1, rawget(child, "v"))
      obj.a = 2
      assert.equal(1, n)
    end
  end)

  it("leaves alone what the guard has begun before its error", function()
    local n = 0
    local function count() n = n + 1 end
    local deeds = {
      watch = function(obj) mw.watch(obj, count, STAY) end,
      deep = function(obj)
        mw.watch(obj, count, { once = false, deep = true })
      end,
      again = function(obj)
        mw.unwatch(obj)
        mw.watch(obj, count, STAY)
      end,
      track = function(obj) mw.track(obj) end,
      unwatch = mw.unwatch,
    }
    for name, deed in pairs(deeds) do
      for _, deep in ipairs { false, true } do
        local child = { v = 1 }
        local obj = { child = child }
        n = 0
        assert.is_table(error_of(mw.watch, obj, function()
          deed(obj)
          error({})
        end, { existing = true, deep = deep, key = "child" }))
        obj.x = 1
        local heard = name == "unwatch" and 0 or name == "track" and 0 or 1
        assert.equal(heard, n, name)
        child.v = 2
        assert.equal(name == "deep" and 2 or heard, n, name)
        local _, fx = mw.transaction(function() obj.y = 1 end)
        assert.equal(name == "unwatch" and 0 or 1, fx:len(), name)
        mw.untrack(obj)
        mw.unwatch(obj)
        assert.same({ child = { v = 2 }, x = 1, y = 1 }, obj)
        assert.is_nil(getmetatable(obj))
        assert.equal(2, rawget(child, "v"))
      end
    end
  end)

  it("ends with the watch that the guard ends", function()
    local obj, n = { a = 1, b = 2 }, 0
    local handle = mw.watch(obj, function(self)
      n = n + 1
      mw.unwatch(self)
    end, { existing = true, once = true })
    assert.is_false(handle:alive())
    assert.is_nil(getmetatable(obj))
    assert.is_true(n <= 2)
  end)

  it("is told of a userdata's keys", function()
    local obj = new_userdata { x = 1, y = 2 }
    assert.equal("existing x=1", (existing(obj, { keys = { "x", "none" } })))
    assert.equal("", (existing(obj)))
  end)
end)

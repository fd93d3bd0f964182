local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local error_of = require "spec.support.error_of"
local policy_file = require "spec.support.policy_file"
local shell = require "spec.support.shell"

local with_file, write = policy_file.with, policy_file.write
local original = mw.policy({}):use()

local function class_of(base, mt)
  local class = mt or {}
  class.__index = class
  return setmetatable(class, base and { __index = base })
end

after_each(function()
  original:use()
  mw.on_error(nil)
end)

describe("the default policy", function()
  local function decision(obj, ctx) return { mw.is_dynamic(obj, ctx) } end

  it("says no to what nobody cares about", function()
    assert.same({ false, "default" }, decision {})
    assert.same({ false, "default" }, decision(print))
    assert.same({ false, "default" }, decision(nil))
    assert.same({ false, "default" }, decision "text")
    assert.same({ false, "default" }, decision(io.stdout))
  end)

  it("says yes to what has an entry of its own", function()
    for _, name in ipairs { "forward", "update", "run" } do
      assert.same({ true, "entry" }, decision { [name] = print })
      local class = class_of(nil, { [name] = print })
      assert.same({ false, "default" }, decision(setmetatable({}, class)))
    end
  end)

  it("says yes to mappings", function()
    local obj = setmetatable({}, { __pairs = pairs })
    assert.same({ true, "entry" }, decision(obj))
  end)

  it("goes by the flag as it is, of the object, then its classes", function()
    local base = class_of(nil, { force_dynamic = "base" })
    local class = class_of(base)
    local obj = setmetatable({}, class)
    assert.same({ "base", "force" }, decision(obj))
    class.force_dynamic = 0
    assert.same({ 0, "force" }, decision(obj))
    obj.force_dynamic = false
    mw.clock():tag(obj)
    assert.same({ false, "force" }, decision(obj))
  end)

  it("calls nothing to find the flag", function()
    local function never() error "was called" end
    local obj = setmetatable({}, { __index = never, __eq = never, __len = never,
      __name = "Trap" })
    assert.same({ false, "default" }, decision(obj))
    local deep = setmetatable({}, { __index = obj })
    assert.same({ false, "default" }, decision(deep))
    local loop = {}
    setmetatable(loop, { __index = loop })
    assert.same({ false, "default" }, decision(loop))
  end)

  it("goes by the configuration", function()
    local function inline(config, export)
      return decision({}, { config = config, export = export })
    end
    assert.same({ true, "inline" }, inline { inline = true })
    assert.same({ false, "default" }, inline { inline = false })
    assert.same({ false, "default" }, inline({ inline = true }, true))
    assert.same({ true, "inline" },
      inline({ inline = true, install_free = true }, true))
  end)

  it("says yes to instances of exactly a marked class", function()
    local base = class_of()
    local class = class_of(base)
    mw.mark_dynamic(base)
    assert.same({ true, "class" }, decision(setmetatable({}, base)))
    assert.same({ false, "default" }, decision(setmetatable({}, class)))
    mw.mark_dynamic(base, false)
    assert.same({ false, "default" }, decision(setmetatable({}, base)))
  end)

  it("knows the classes of class libraries", function()
    for name, style in pairs(require "spec.support.styles") do
      local class = style.make("Class")
      mw.mark_dynamic(class)
      local obj = style.construct(class)
      assert.same({ true, "class" }, decision(obj), name)
      local other = style.construct(style.make("Sub", class))
      assert.same({ false, "default" }, decision(other), name)
    end
    local class = { method = print }
    mw.mark_dynamic(class)
    local obj = setmetatable({}, { __index = class })
    assert.same({ true, "class" }, decision(obj))
  end)

  it("knows a marked class by its metatable, and by its table", function()
    local file = assert(io.tmpfile())
    local methods = { method = print }
    local mt = { __index = methods, __name = "Methods" }
    local dict = { hit = print }
    dict.__index = dict
    local class = { __instanceDict = dict }
    for _, case in ipairs {
      { file, getmetatable(file), getmetatable(file).__index },
      { setmetatable({}, mt), mt, methods },
      { setmetatable({ class = class }, dict), dict, class },
    } do
      for form = 2, 3 do
        mw.mark_dynamic(case[form])
        assert.same({ true, "class" }, decision(case[1]))
        mw.mark_dynamic(case[form], false)
        assert.same({ false, "default" }, decision(case[1]))
      end
    end
    file:close()
  end)

  it("says yes to what is of this generation", function()
    local clock = mw.clock()
    local obj = clock:tag {}
    assert.same({ true, "generation" }, decision(obj))
    clock:advance()
    assert.same({ false, "default" }, decision(obj))
  end)

  it("asks in the order of the contract", function()
    local class = class_of()
    local obj = setmetatable({ run = 1, force_dynamic = 5 }, class)
    mw.clock():tag(obj)
    mw.mark_dynamic(class)
    local ctx = { config = { inline = true }, global_hooks = true }
    local function reason() return select(2, mw.is_dynamic(obj, ctx)) end
    assert.equal("entry", reason())
    obj.run = nil
    assert.equal("force", reason())
    obj.force_dynamic = nil
    assert.equal("inline", reason())
    ctx.config.inline = false
    assert.equal("global_hooks", reason())
    ctx.global_hooks = nil
    assert.equal("class", reason())
    mw.mark_dynamic(class, false)
    assert.equal("generation", reason())
  end)

  it("sees a watched object as it is", function()
    local class = class_of(nil, { force_dynamic = 1 })
    local obj = setmetatable({ update = print }, class)
    mw.watch(obj, function() end)
    assert.same({ true, "entry" }, decision(obj))
    obj.update = nil
    assert.same({ 1, "force" }, decision(obj))
  end)
end)

describe("the default policy, without files,", function()
  it("is there when the modules are preloaded", function()
    local output, ok = shell.run("%s -e '%s'", os.getenv "LUA" or "lua5.4", [[
      local init = assert(package.searchpath("moonwatch", package.path))
      local folder = init:match "^(.*)/init%.lua$"
      for path in io.popen("find " .. folder .. " -name \"*.lua\""):lines() do
        local name = "moonwatch" .. path:sub(#folder + 1, -5):gsub("/init$",
          ""):gsub("/", ".")
        package.preload[name] = loadfile(path)
      end
      package.path = ""
      print(require "moonwatch".is_dynamic { run = 1 })]])
    assert.is_true(ok, output)
    assert.equal("true\tentry\n", output)
  end)
end)

describe("a policy", function()
  it("decides by the first rule that does not answer nil", function()
    local policy = mw.policy {
      rules = {
        { "never", function() end },
        { "named", function(obj) return obj.name end },
        { "ctx", function(_, ctx) return ctx.answer end },
      },
    }
    assert.equal(original, policy:use())
    assert.same({ "x", "named" }, { mw.is_dynamic { name = "x" } })
    assert.same({ false, "named" }, { mw.is_dynamic { name = false } })
    assert.same({ 42, "ctx" }, { mw.is_dynamic({}, { answer = 42 }) })
    assert.same({ false, "default" }, { mw.is_dynamic {} })
    local inherits = setmetatable({}, { __index = { answer = 43 } })
    assert.same({ 43, "ctx" }, { mw.is_dynamic({}, inherits) })
    assert.equal(policy, original:use())
  end)

  it("gives rules the clock, the class, and raw contents", function()
    mw.policy({ rules = { { "all", function(obj, ctx)
      assert(ctx.clock == mw.clock())
      return { ctx.class(obj), ctx.raw(obj) }
    end } } }):use()
    local class = class_of()
    local obj = setmetatable({}, class)
    mw.watch(obj, function() end)
    assert.same({ class, raw_of(obj) }, (mw.is_dynamic(obj)))
  end)

  it("leaves the rules to the default one when it has none", function()
    mw.policy({ descend = function() return true end }):use()
    assert.same({ true, "entry" }, { mw.is_dynamic { run = 1 } })
  end)

  it("skips rules that raise, and tells of each error once", function()
    local told = {}
    mw.on_error(function(err, where)
      told[#told + 1] = where .. ": " .. tostring(err)
    end)
    local policy = mw.policy { rules = {
      { "bad", function() error("oh", 0) end },
      { "worse", function() error {} end },
      { "good", function() return 1 end },
    } }
    policy:use()
    for _ = 1, 3 do
      assert.same({ 1, "good" }, { mw.is_dynamic {} })
    end
    assert.same({ oh = 3, ["(error object is a table value)"] = 3 },
      policy.errors)
    assert.equal(2, #told)
    assert.equal("policy: oh", told[1])
  end)

  it("says where a deep watch goes", function()
    mw.policy({ descend = function(parent, key, child)
      assert(parent ~= child)
      return key ~= "parent"
    end }):use()
    local outside = { x = 1 }
    local root = { a = { parent = outside } }
    mw.watch(root, function() end, { deep = true })
    root.a.b = { parent = outside }
    assert.is_true(mw.is_watched(root.a.b))
    assert.is_false(mw.is_watched(outside))
  end)

  it("goes on when its functions raise", function()
    local policy = mw.policy { descend = function() error("lost", 0) end }
    policy:use()
    local root = { a = {} }
    mw.watch(root, function() end, { deep = true })
    assert.is_true(mw.is_watched(root.a))
    assert.same({ lost = 1 }, policy.errors)
  end)

  it("has rules for classes, by name or by the class itself", function()
    local Sprite, Layer = class_of(nil, { __name = "Sprite" }), class_of()
    mw.policy({ classes = {
      Sprite = { ignore = { "_cache" } },
      [Layer] = { deep = false },
    } }):use()
    local sprite, notes = setmetatable({}, Sprite), {}
    mw.watch(sprite, function(_, key) notes[#notes + 1] = key end,
      { once = false })
    sprite._cache, sprite.x = 1, 2
    assert.same({ "x" }, notes)
    assert.equal(1, sprite._cache)
    assert.equal(1, mw.mutations(sprite))
    local root = { layer = setmetatable({}, Layer), other = {} }
    mw.watch(root, function() end, { deep = true })
    assert.is_false(mw.is_watched(root.layer))
    assert.is_true(mw.is_watched(root.other))
    original:use()
    sprite._cache = 3
    assert.same({ "x", "_cache" }, notes)
  end)

  it("names methods that change their object", function()
    local Sprite = class_of(nil, { __name = "Sprite" })
    function Sprite:move(dx, ...)
      self.x = self.x + dx
      return self.x, ...
    end
    local plain = Sprite.move
    local policy = mw.policy {
      classes = { Sprite = { mutators = { "move" } } },
    }
    policy:use()
    local sprite, notes = setmetatable({ x = 1 }, Sprite), {}
    local function guard(obj, key, old, new, kind)
      assert.equal(sprite, obj)
      notes[#notes + 1] = ("%s %s %s>%s at %d"):format(kind, key, old, new,
        obj.x)
    end
    mw.watch(sprite, guard, { once = false })
    mw.watch(sprite, guard, { once = false, key = "move", phase = "after" })
    assert.same({ 3, "a", nil, "b", n = 4 },
      table.pack(sprite:move(2, "a", nil, "b")))
    assert.same({ "call move nil>nil at 1", "update x 1>3 at 1",
      "call move nil>nil at 3" }, notes)
    assert.equal(2, mw.mutations(sprite))
    assert.equal(5, setmetatable({ x = 4 }, Sprite):move(1)) -- nobody watches
    notes = {}
    original:use()
    assert.equal(plain, Sprite.move)
    sprite:move(1)
    assert.same({ "update x 3>4 at 3" }, notes)
    policy:use()
    assert.not_equal(plain, Sprite.move)
    mw.unwatch(sprite)
    assert.equal(plain, Sprite.move)
  end)

  it("goes with an object to another class", function()
    local A = class_of(nil, { __name = "A" })
    local B = class_of(nil, { __name = "B" })
    function A.hit() end
    function B.hit() end
    local plain = { A.hit, B.hit }
    mw.policy({ classes = { A = { mutators = { "hit" } },
      B = { mutators = { "hit", "hit" } } } }):use()
    local a, b, n = setmetatable({}, A), setmetatable({}, B), 0
    mw.watch(a, function() end)
    mw.watch(b, function() n = n + 1 end, { once = false })
    mw.setmetatable(a, B)
    assert.equal(plain[1], A.hit)
    mw.unwatch(a)
    b:hit()
    assert.equal(1, n)
    mw.unwatch(b)
    assert.equal(plain[2], B.hit)
  end)

  it("says which methods make an entry", function()
    mw.policy({ entries = { "tick" } }):use()
    assert.same({ true, "entry" }, { mw.is_dynamic { tick = print } })
    assert.same({ false, "default" }, { mw.is_dynamic { run = print } })
  end)

  it("tells tables from numbers, neither of which has a class", function()
    mw.policy({ rules = { { "number", function(obj)
      return type(obj) == "number" or nil
    end } } }):use()
    assert.is_true((mw.is_dynamic(5)))
    assert.is_false((mw.is_dynamic {}))
  end)

  it("may give way to another one while it is asked", function()
    local safe = mw.policy { rules = { { "safe", function() return 1 end } } }
    mw.on_error(function() safe:use() end)
    mw.policy({ rules = {
      { "bad", function() error "x" end },
      { "old", function() return 2 end },
    } }):use()
    mw.is_dynamic {}
    assert.same({ 1, "safe" }, { mw.is_dynamic {} })
  end)

  it("has no use for NaN among the fields to ignore", function()
    local class = class_of(nil, { __name = "Odd" })
    mw.policy({ classes = { Odd = { ignore = { 0 / 0 } } } }):use()
    local obj = setmetatable({}, class)
    mw.watch(obj, function() end)
    obj.x = 1
    assert.equal(1, obj.x)
  end)

  it("lets such methods yield and raise", function()
    local Class = class_of(nil, { __name = "Yielding" })
    function Class.wait(_, n) return coroutine.yield(n) end
    function Class.fail() error("failed", 0) end
    mw.policy({ classes = { Yielding = { mutators = { "wait", "fail" } } } })
      :use()
    local obj, n = setmetatable({}, Class), 0
    mw.watch(obj, function() n = n + 1 end, { once = false })
    local co = coroutine.wrap(function() return obj:wait(5) end)
    assert.equal(5, co())
    assert.equal("back", co "back")
    assert.equal("failed", error_of(obj.fail, obj))
    assert.equal(2, n)
    mw.unwatch(obj)
  end)

  it("raises for what it does not know", function()
    for message, definition in pairs {
      ["the policy has an unknown field 'rule'"] = { rule = {} },
      ["field 'rules' of the policy is not a table"] = { rules = 1 },
      ["rule 1 is not { name, function }"] = { rules = { { "x" } } },
      ["rule 2 is not a table"] = { rules = { { "x", print }, 5 } },
      ["rule 1 has an unknown field 'cache'"] =
        { rules = { { "x", print, cache = 1 } } },
      ["class 'A' has an unknown field 'mutator'"] =
        { classes = { A = { mutator = {} } } },
      ["field 'deep' of class 'A' is not a boolean"] =
        { classes = { A = { deep = 1 } } },
    } do
      local text = error_of(function() mw.policy(definition) end)
      assert.matches("^spec/policy/policy_spec.lua:%d+: " ..
        "bad argument #1 to 'policy'", text)
      assert.truthy(text:find(message, 1, true), text)
    end
    assert.matches("policy_spec.lua:%d+: bad argument #1 to 'policy' " ..
      "%(table expected, got nil%)", error_of(function() mw.policy() end))
    assert.matches("bad argument #2 to 'is_dynamic' %(table expected, got " ..
      "number%)", error_of(function() mw.is_dynamic({}, 5) end))
    assert.matches("calling 'use' on bad self",
      error_of(function() original.use {} end))
    assert.same({ nil, "the policy is not from a file" },
      { original.reload(mw.policy {}) })
  end)
end)

describe("a policy file", function()
  it("is loaded, used, and read again when it changes", function()
    with_file("return { rules = { { 'one', function() return 1 end } } }",
      function(policy, _, path)
        policy:use()
        assert.same({ 1, "one" }, { mw.is_dynamic {} })
        assert.is_false(policy:poll())
        write(path, "return { rules = { { 'second', " ..
          "function() return 2 end } } }")
        assert.is_true(policy:poll())
        assert.same({ 2, "second" }, { mw.is_dynamic {} })
        assert.is_false(policy:poll())
      end)
  end)

  it("has one budget for all questions of a scan", function()
    local shared = {}
    with_file([[return { descend = function()
      asked = (asked or 0) + 1
      shared[1] = asked
      for _ = 1, 300000 do end
      return true
    end }]], function(policy, message)
      assert.truthy(policy, message)
      policy:use()
      local function world()
        local t = {}
        for i = 1, 50 do t[i] = { {} } end
        return t
      end
      local root = mw.track(world(), { deep = true })
      assert.is_true(shared[1] <= 4, shared[1]) -- and 96 without an answer
      assert.matches("policy.lua:%d: the policy's budget of instructions",
        (next(policy.errors)))
      shared[1] = 0
      root.more = {} -- another scan
      assert.is_true(shared[1] > 0)
      local feed = mw.feed { root = root }
      for i = 51, 100 do root[i] = { {} } end
      for _, ask in ipairs { mw.snapshot, mw.hash } do
        local before = shared[1]
        ask(root)
        local asked = shared[1] - before
        assert.is_true(asked > 0 and asked <= 4, asked)
      end
      local before = shared[1]
      feed:changes() -- what is below was asked for when it was written
      assert.equal(before, shared[1])
      feed:close()
      mw.untrack(root)
    end, { shared = shared })
  end)

  it("may add children to what is scanned, and not for ever", function()
    with_file("return { descend = function(parent) " ..
      "parent[#parent + 1] = {} return true end }", function(policy)
        policy:use()
        local root = { {} }
        collectgarbage "stop" -- where C's stack ends Lua calls no finalisers
        finally(function() collectgarbage "restart" end)
        mw.watch(root, function() end, { deep = true })
        assert.is_true(#root > 1)
        assert.truthy(next(policy.errors))
        mw.unwatch(root)
      end)
  end)

  it("that is bad leaves the last good one in force", function()
    with_file("return { rules = { { 'one', function() return 1 end } } }",
      function(policy, _, path)
        policy:use()
        for text, expected in pairs {
          ["return {"] = "policy.lua:1:",
          ["error 'no'"] = "no",
          ["return 5"] = "the policy is not a table, but a number",
          [" "] = "returns nothing",
          ["return { ruls = {} }"] = "unknown field 'ruls'",
          ["while true do end"] = "budget of instructions is spent",
          ["error(setmetatable({}, { __tostring = function() " ..
            "while true do end end }))"] = "error object is a table value",
          ["return setmetatable({ ruls = 1 }, { __pairs = function() " ..
            "while true do end end })"] = "unknown field 'ruls'",
          ["return { rules = { setmetatable({}, { __index = function() " ..
            "while true do end end }) } }"] = "rule 1 is not",
        } do
          write(path, text)
          local ok, message = policy:poll()
          assert.is_nil(ok)
          assert.truthy(message:find(expected, 1, true), message)
          assert.same({ 1, "one" }, { mw.is_dynamic {} })
        end
        os.remove(path)
        assert.is_nil((policy:reload()))
        assert.same({ 1, "one" }, { mw.is_dynamic {} })
      end)
    assert.is_nil((mw.load_policy "/no/such/file"))
  end)

  it("is text only", function()
    with_file(string.dump(function() return {} end), function(policy, message)
      assert.is_nil(policy)
      assert.matches("attempt to load a binary chunk", message)
    end)
  end)

  it("has a world of its own, and what it is given", function()
    with_file([[
      for _, name in ipairs { "io", "load", "loadfile", "dofile", "require",
        "debug", "package", "collectgarbage" } do
        assert(_G[name] == nil, name)
      end
      assert(os.execute == nil and os.exit == nil and math.random == nil)
      string.format, table.insert, leaked = nil, nil, true
      assert(extra == 5)
      return {}
    ]], function(policy, message)
      assert.truthy(policy, message)
    end, { extra = 5 })
    assert.is_nil(_G.leaked)
    assert.is_function(string.format)
    assert.is_function(table.insert)
    assert.equal("A", ("a"):upper())
  end)
end)

local error_of = require "spec.support.error_of"
local mw = require "moonwatch"
local policy_file = require "spec.support.policy_file"

local original = mw.policy({}):use()

after_each(function() original:use() end)

-- Returns what the code, a rule's of a file, answers for the object.
local function answer(code, obj, env, ctx)
  local value
  policy_file.with("return { rules = { { 'x', function(obj, ctx) " .. code ..
    " end } } }", function(policy, message)
      assert.truthy(policy, message)
      policy:use()
      value = mw.is_dynamic(obj, ctx)
      assert.is_nil(next(policy.errors))
      original:use()
    end, env)
  return value
end

local function class_of(fields)
  fields.__index = fields
  return fields
end

describe("a file's rule", function()
  it("reads the clock and cannot change it", function()
    local clock = mw.clock()
    local old, new = clock:tag {}, {}
    local now = clock:advance()
    clock:tag(new)
    assert.same({ now, false, true, now - 1 }, answer([[
      return { ctx.clock:now(), ctx.clock:is_current(old),
        ctx.clock:is_current(new), ctx.clock:generation(old) }]], {},
      { old = old, new = new }))
    for _, code in ipairs { "ctx.clock.now = nil", "ctx.clock:advance()",
      "ctx.clock:tag({})", "ctx.clock:reset()", "rawset(ctx.clock, 'now', 1)",
      "table.insert(ctx.entries, 'x')", "ctx.entries[1] = 'x'",
      "ctx.class(obj).x = 1", "ctx.class(obj).inner.x = 1",
      "setmetatable(ctx.class(obj), {})", "ctx.class(ctx.clock).now = 1",
      "ctx.metamethod(ctx.clock, '__index').now = 1",
      "ctx.lookup(ctx.clock, '__index').now = 1",
      "ctx.lookup(tracked, '__index').now = 1",
      "rawset(ctx.raw(tracked), 'x', 1)", "ctx.raw(tracked).x = 1",
      "ctx.class(other).now = 1", "ctx.lookup(other, '__index').now = 1",
      "ctx.metamethod(other, '__index').now = 1" } do
      local obj = setmetatable({}, class_of { inner = {} })
      assert.is_false(answer("return (pcall(function() " .. code ..
        " end))", obj, { tracked = mw.track {}, other = mw.clock "of views" }),
        code)
      assert.equal(now, mw.clock():now())
      assert.equal(0, mw.clock("of views"):now())
    end
  end)

  it("reads classes by views that can be compared", function()
    local base = class_of { x = 1 }
    local class = class_of(setmetatable({ own = {}, __name = "C" }, base))
    local obj, other = setmetatable({}, class), setmetatable({}, class)
    mw.mark_dynamic(class)
    assert.same({ true, true, true, true, false, false, 1, "C", true, true },
      answer([[
        local c = ctx.class(obj)
        return { c == ctx.class(other), ctx.is(c, class), ctx.is(c, c),
          ctx.is(c.__index, class), ctx.is(c, base), c == class, c.x,
          rawget(c, "__name"), ctx.is_marked(c), ctx.is(c.own, class.own) }
        ]], obj, { other = other, class = class, base = base }))
    mw.mark_dynamic(class, false)
  end)

  it("walks through views as through tables", function()
    local class = class_of { 1, 2, { 3 } }
    assert.same({ 3, 3, 5, 3, "table", 5 }, answer([[
      local c, n, m, last = ctx.class(obj), 0, 0
      for i in ipairs(c) do last = i end
      for _ in pairs(c) do n = n + 1 end
      for _ in next, c do m = m + 1 end
      assert(pcall(function() for k in pairs(c[3]) do c[3][k].x = 1 end end)
        == false)
      return { last, #c, m + 1, rawlen(c), type(c), n + 1 }]],
      setmetatable({}, class)))
    assert.same({ 3 }, class[3])
  end)

  it("reads a watched object by raw functions", function()
    local obj = mw.track { 1, 2, x = 3 }
    assert.same({ 3, 3, 2, 3, 3 }, answer([[
      local n = 0
      for _ in next, obj do n = n + 1 end
      return { rawget(obj, "x"), n, rawlen(obj), ctx.raw(obj).x,
        rawget(ctx.raw(obj), "x") }]], obj))
    assert.is_nil(answer("return getmetatable(obj)", obj) or nil)
  end)

  it("has entries that are another policy's no more", function()
    policy_file.with([[return { entries = { "go" }, rules = { { "x",
      function(obj, ctx) return ctx.entries[1] end } } }]], function(policy)
        policy:use()
        assert.equal("go", (mw.is_dynamic {}))
      end)
    mw.policy({ rules = { { "x", function(_, ctx)
      ctx.entries[1] = "changed"
    end } } }):use()
    mw.is_dynamic {}
    original:use()
    assert.same({ true, "entry" }, { mw.is_dynamic { forward = 1 } })
  end)

  it("gets the caller's ctx as it is", function()
    local config = { x = 1 }
    assert.equal(config, answer("return ctx.config", {}, nil,
      { config = config }))
    assert.equal(5, answer("return ctx.answer + (ctx.clock and 1 or 0)", {},
      nil, setmetatable({}, { __index = { answer = 4 } })))
  end)

  it("is told apart from a rule of the program", function()
    local clock
    mw.policy({ rules = { { "x", function(_, ctx)
      clock = ctx.clock
      return ctx.is(ctx.clock, mw.clock())
    end } } }):use()
    assert.is_true((mw.is_dynamic {}))
    assert.equal(mw.clock(), clock)
    assert.is_true(answer("return ctx.is(ctx.clock, clock)", {},
      { clock = mw.clock() }))
  end)
end)

describe("a view", function()
  it("is read-only for the program, too", function()
    local class = class_of { x = 1, inner = {} }
    local view = answer("return ctx.class(obj)", setmetatable({}, class))
    assert.equal(1, view.x)
    assert.is_false(getmetatable(view))
    assert.matches("read%-only", error_of(function() view.x = 2 end))
    assert.matches("read%-only", error_of(function() view.inner.x = 2 end))
    assert.is_false(pcall(mw.watch, view, print))
  end)

  it("keeps what it shows, and nothing longer", function()
    local weak = setmetatable({}, { __mode = "k" })
    local function show()
      local class = class_of { x = 1 }
      weak[class] = true
      return answer("return ctx.class(obj)", setmetatable({}, class))
    end
    local view = show()
    collectgarbage()
    collectgarbage()
    assert.equal(1, view.x)
    view = nil -- luacheck: ignore 311
    for _ = 1, 4 do collectgarbage() end
    mw.reap()
    assert.is_nil(next(weak))
  end)
end)

local mw = require "moonwatch"
local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"

local h, mod, Mod, events

local function class(name)
  local c = { __name = name }
  c.__index = c
  return c
end

local function set(...)
  local t = { Global = true }
  for _, name in ipairs { ... } do t[name] = true end
  return t
end

before_each(function()
  h, events = mw.hierarchy(), {}
  Mod = class "Mod"
  function Mod:update()
    if self.a then self.a:update() end
  end
  mod = setmetatable({}, Mod)
  mod.a = setmetatable({}, Mod)
  h:instrument(Mod, { "update" })
end)

after_each(function()
  mw.on_error(nil)
  h:close()
end)

local function note(event)
  return function(obj, name)
    local path = h:path()
    assert.equal(name, path[#path])
    assert.equal(obj, h:object(name))
    assert.is_true(h:parents()[name])
    events[#events + 1] = event .. " " .. name
  end
end

local function note_all()
  return h:on { enter = note "enter", leave = note "leave",
    reverse_enter = note "reverse_enter", reverse_leave = note "reverse_leave" }
end

describe("h:on", function()
  it("tells of entering and leaving while the name is among the parents",
    function()
      local handle = note_all()
      mod:update()
      assert.same({ "enter Mod", "enter Mod.a", "leave Mod.a", "leave Mod" },
        events)
      handle:cancel()
      handle:cancel()
      mod:update()
      assert.equal(4, #events)
    end)

  it("tells of what an error unwinds", function()
    note_all()
    mod.a.update = function() error("oops", 0) end
    assert.equal("oops", error_of(mod.update, mod))
    assert.same({ "enter Mod", "leave Mod" }, events)
  end)

  it("tells in the order of the hooks", function()
    local order = {}
    for i = 1, 3 do
      h:on { enter = function() order[#order + 1] = i end }
    end
    mod.a:update()
    assert.same({ 1, 2, 3 }, order)
  end)

  it("tells which object was left that was not entered, and why", function()
    local told = {}
    h:on { confused = function(...) told[#told + 1] = { ... } end }
    h:leave(mod)
    h:enter(mod)
    h:leave {}
    h:leave(mod)
    h:leave(mod)
    assert.same({
      { "Mod is left, but was not entered (nothing is executing)", "Mod",
        "forward" },
      { "table is left, but was not entered (executing: Mod)", "table",
        "forward" },
      { "Mod is left, but was not entered (nothing is executing)", "Mod",
        "forward" },
    }, told)
  end)

  it("leaves what was not entered in silence if nobody asks", function()
    h:leave(mod)
    assert.same({}, h:path())
    assert.is_nil(h:name_of(mod))
  end)

  it("raises the first error of hooks after all were called", function()
    h:on { enter = function() error("first", 0) end }
    h:on { enter = function() error("second", 0) end }
    local called = 0
    h:on { enter = function() called = called + 1 end }
    assert.equal("first", error_of(h.enter, h, mod))
    assert.equal(1, called)
    assert.same({}, h:path())
    assert.equal("first", error_of(mod.update, mod))
    assert.same({}, h:path())
  end)

  it("leaves all the same when a hook raises", function()
    h:enter(mod)
    h:on { leave = function() error("oops", 0) end }
    assert.equal("oops", error_of(h.leave, h, mod))
    assert.same({}, h:path())
    assert.equal("oops", error_of(mod.a.update, mod.a))
    assert.same({}, h:path())
  end)

  it("gives the errors of hooks to mw.on_error", function()
    local told = {}
    mw.on_error(function(err, where) told[#told + 1] = err .. " " .. where end)
    h:on { enter = function() error("in", 0) end,
      leave = function() error("out", 0) end }
    mod.a:update()
    assert.same({ "in hierarchy", "out hierarchy" }, told)
  end)

  it("does not let a hook's error take the place of another", function()
    h:on { leave = function() error("of the hook", 0) end }
    mod.a.update = function() error("of the method", 0) end
    assert.equal("of the method", error_of(mod.update, mod))
    assert.equal("of the hook", error_of(h.path, h))
    assert.same({}, h:path())
  end)

  it("makes all dynamic by the rule global_hooks", function()
    collectgarbage() -- hierarchies with hooks that other specs have lost
    assert.same({ false, "default" }, { mw.is_dynamic {} })
    local handle, other = note_all(), note_all()
    assert.same({ true, "global_hooks" }, { mw.is_dynamic {} })
    handle:cancel()
    assert.same({ true, "global_hooks" }, { mw.is_dynamic {} })
    other:cancel()
    assert.same({ false, "default" }, { mw.is_dynamic {} })
    note_all()
    h:close()
    assert.same({ false, "default" }, { mw.is_dynamic {} })
    mw.hierarchy():on {}
    collectgarbage()
    collectgarbage()
    assert.same({ false, "default" }, { mw.is_dynamic {} })
  end)
end)

describe("h:backward", function()
  it("tells of entering and leaving in reverse", function()
    h:record()
    mod:update()
    note_all()
    h:backward(function(_, name) events[#events + 1] = name end)
    assert.same({ "reverse_enter Mod", "Mod", "reverse_enter Mod.a", "Mod.a",
      "reverse_leave Mod.a", "reverse_leave Mod" }, events)
  end)

  it("tells where it is", function()
    h:record()
    mod:update()
    h:backward(function(obj, name)
      local its, current, depth = h:current()
      assert.same({ name, obj }, { its, current })
      assert.equal(#h:path(), depth)
    end)
    assert.is_nil(h:current())
  end)

  it("takes what it visits off the tape", function()
    h:record()
    mod:update()
    local n = 0
    local function count() n = n + 1 end
    h:backward(count)
    assert.equal(2, n)
    h:backward(count)
    assert.equal(2, n)
    mod:update()
    h:record(false)
    h:backward(count)
    assert.equal(2, n)
  end)

  it("visits nothing if nothing is recorded", function()
    mod:update()
    h:backward(error)
    h:record()
    h:backward(error)
  end)

  it("may be called in itself, and methods too", function()
    h:record()
    mod:update()
    h:backward(function(_, name)
      h:backward(error)
      assert.is_true(h:is_reverse())
      assert.same(name == "Mod" and set "Mod" or set("Mod", "Mod.a"),
        h:parents())
      h:enter(mod)
      assert.equal(mod, select(2, h:current()))
      assert.is_true(h:is_reverse())
      h:leave(mod)
    end)
    assert.is_false(h:is_reverse())
    h:backward(error) -- that was not recorded
    assert.same(set(), h:parents())
  end)

  it("ends as it should when the function raises", function()
    h:record()
    mod:update()
    note_all()
    assert.equal("oops", error_of(h.backward, h, function(_, name)
      if name == "Mod.a" then error("oops", 0) end
    end))
    assert.same({ "reverse_enter Mod", "reverse_enter Mod.a",
      "reverse_leave Mod.a", "reverse_leave Mod" }, events)
    assert.same(set(), h:parents())
    assert.is_false(h:is_reverse())
  end)

  it("visits all, and then raises what a hook has raised first", function()
    h:record()
    mod:update()
    h:on { reverse_enter = function(_, name) error(name, 0) end }
    note_all()
    local names = {}
    assert.equal("Mod", error_of(h.backward, h, function(_, name)
      names[#names + 1] = name
    end))
    assert.same({ "Mod", "Mod.a" }, names)
    assert.equal(4, #events)
    mod:update()
    local taken
    mw.on_error(function(err, where) taken = taken or { err, where } end)
    h:backward(function() end)
    assert.same({ "Mod", "hierarchy" }, taken)
  end)

  it("lets the function yield, and is of one coroutine", function()
    h:record()
    mod:update()
    local co = coroutine.wrap(function()
      h:backward(coroutine.yield)
      return "end"
    end)
    assert.equal(mod, (co()))
    assert.is_false(h:is_reverse())
    assert.same({}, h:path())
    assert.equal(mod.a, (co()))
    assert.equal("end", co())
  end)

  it("shows in a method what was executing then, and that again", function()
    h:record()
    mod:update()
    h:enter(mod)
    h:backward(function() assert.is_true(h:is_reverse()) end)
    assert.same({ "Mod" }, h:path())
    h:leave(mod)
  end)

  it("says in which phase one is confused", function()
    local phase
    h:on { confused = function(_, _, its) phase = its end }
    h:record()
    mod.a:update()
    h:backward(function() h:leave(mod) end)
    assert.equal("reverse", phase)
  end)

  it("visits only what is left as it should be", function()
    h:record()
    mod.a.update = function() error("oops", 0) end
    error_of(mod.update, mod)
    h:backward(error)
  end)

  it("does not keep what is on the tape", function()
    h:record()
    Mod.update(setmetatable({}, Mod))
    collectgarbage()
    collectgarbage()
    h:backward(error)
  end)
end)

describe("a hierarchy", function()
  it("is closed with all its hooks, once", function()
    local plain = class "Plain"
    function plain.update() end
    local update = plain.update
    h:instrument(plain, { "update" })
    h:close()
    h:close()
    assert.equal(update, plain.update)
    assert.same(set(), h:parents())
    assert.is_false(h:is_reverse())
    misuse("calling 'enter' on a hierarchy that is closed", h.enter, h, mod)
    misuse("calling 'on' on a hierarchy that is closed", h.on, h, {})
  end)

  it("raises at the line of the caller", function()
    local bad = "bad argument #%d to '%s' (%s)"
    for _, case in ipairs {
      { 1, "hierarchy", "table expected, got number", mw.hierarchy, 1 },
      { 1, "hierarchy", "unknown option 'rot'", mw.hierarchy, { rot = 1 } },
      { 1, "hierarchy", "option 'root' is not a string", mw.hierarchy,
        { root = 1 } },
      { 1, "enter", "table, userdata, function or thread expected, got number",
        h.enter, h, 5 },
      { 1, "leave", "table, userdata, function or thread expected, got nil",
        h.leave, h },
      { 1, "scope", "table, userdata, function or thread expected, got string",
        h.scope, h, "x" },
      { 1, "instrument", "table expected, got nil", h.instrument, h },
      { 2, "instrument", "table expected, got string", h.instrument, h, {},
        "update" },
      { 2, "instrument", "number 1 is not a string", h.instrument, h, {},
        { 1 } },
      { 2, "instrument", "the class has no method 'x'", h.instrument, h, Mod,
        { "x" } },
      { 1, "on", "unknown option 'entr'", h.on, h, { entr = print } },
      { 1, "on", "option 'enter' is not a function", h.on, h, { enter = 1 } },
      { 1, "record", "boolean or table expected, got number", h.record, h, 1 },
      { 1, "backward", "function expected, got nil", h.backward, h },
    } do
      misuse(bad:format(case[1], case[2], case[3]), case[4], case[5], case[6],
        case[7])
    end
  end)

  it("raises when its methods are called on something else", function()
    for _, name in ipairs { "enter", "leave", "scope", "instrument", "on",
      "current", "path", "parents", "name_of", "object", "names", "record",
      "backward", "is_reverse", "reset", "close" } do
      misuse(("calling '%s' on bad self (hierarchy expected, got table)")
        :format(name), h[name], {})
    end
  end)
end)

describe("a hierarchy in a trace", function()
  it("shows what executes as scopes, if the trace is asked to", function()
    local Node = { __name = "Node" }
    Node.__index = Node
    function Node:update()
      if self.child then self.child:update() end
    end
    h = mw.hierarchy()
    h:instrument(Node, { "update" })
    local root = setmetatable({ child = setmetatable({}, Node) }, Node)
    for _, asked in ipairs { true, false } do
      local trace = mw.trace { sources = asked and { "hierarchy" } or {} }
      trace:start()
      root:update()
      pcall(function()
        h:enter(root)
        error "!"
      end)
      h:leave(root)
      trace:stop()
      assert.equal(asked and 6 or 0, trace:len())
      local path = os.tmpname()
      assert.is_true(trace:write(path))
      local file = assert(io.open(path))
      local text = file:read "a"
      file:close()
      os.remove(path)
      assert.equal(asked, text:find("Node.child", 1, true) ~= nil)
    end
    assert.is_nil((h:current()))
    h:close()
  end)
end)

local interrupted = require "spec.support.interrupted"
local mw = require "moonwatch"

-- `prune` follows what functions refer to.
local rawset, yield = rawset, coroutine.yield

-- A plan that has something of everything, and the objects that it is about.
-- The callbacks run in coroutines, and registering is a function in C, so that
-- the library alone is interrupted.
local function make(opts)
  local its = {
    fx = mw.plan(opts), log = {}, class = {}, env = { g = 1 }, mod = {},
    hero = { hp = 10, old = 1 }, item = {}, young = {},
  }
  local upvalue = "upvalue"
  function its.upvalue() return upvalue end
  local log = its.log
  local function note(what)
    return coroutine.wrap(function()
      while true do
        log[#log + 1] = what
        yield()
      end
    end)
  end
  its.note = note
  its.ctx = { save = rawlen } -- nothing takes a save back
  its.button = { on = rawset, remove = function(self)
    rawset(self, "click", nil)
  end }
  local fx = its.fx
  fx:track(its.hero)
  fx:track(its.item)
  its.cell = fx:track_cell(its.upvalue, 1)
  fx:track_global(its.env, "g")
  its.new, its.lost = fx:track_new(its.class), fx:track_new(its.class)
  fx:store(its.hero, "hp", 5)
  fx:delete(its.hero, "old")
  fx:store(its.hero, "new", its.new)
  fx:store(its.lost, "x", 1)
  its.hook = fx:hook(its.button, "click", print)
  fx:save(its.ctx)
  fx:finally(note "final")
  fx:finally(note "end")
  its.other = mw.plan()
  its.other:track(its.young)
  its.other:track(its.item)
  its.other:track_global(its.mod, "g")
  its.other:track_global(its.mod, "h")
  return its
end

local FIELDS = { "hp", "old", "new", "a", "x" }

-- Says what a plan has to do, and what there is.
local function text_of(its)
  local list, name = {}, {}
  local function add(...) list[#list + 1] = table.concat({ ... }, " ") end
  for key, value in pairs(its) do name[value] = key end
  local function said(value)
    local kind = type(value)
    if kind == "table" or kind == "userdata" then return name[value] or kind end
    return tostring(value)
  end
  local fx = its.fx
  for _, obj in ipairs { "hero", "item", "young", "new", "lost" } do
    obj = its[obj]
    add(said(obj), tostring(fx:contains(obj)), tostring(fx:is_modified(obj)))
    for _, key in ipairs(FIELDS) do
      local value, state = fx:load(obj, key)
      add(said(value), state)
    end
  end
  for _, obj in ipairs(fx:modified()) do add("modified", said(obj)) end
  for _, env in ipairs { its.env, its.mod } do
    for _, key in ipairs { "g", "h" } do
      local ok, value, state = pcall(fx.load_global, fx, key, env)
      add("global", tostring(ok), ok and said(value) or "", ok and state or "")
    end
  end
  local ok, value, state = pcall(fx.load_cell, fx, its.cell)
  add("cell", tostring(ok), tostring(value), tostring(state))
  add("hook", tostring(its.button.click), table.concat(its.log, ","))
  add("old", tostring(its.hero.hp), tostring(its.hero.new ~= nil))
  add("empty", tostring(fx:is_empty()))
  return table.concat(list, "\n")
end

-- Says that, and what an apply makes of it.
local function state_of(its)
  local fx, before = its.fx, text_of(its)
  local ok, result, message = pcall(fx.apply, fx)
  local after = text_of(its)
  assert(fx:is_empty() == (ok and result ~= nil))
  return table.concat({ before, tostring(ok), tostring(message), after,
    "length " .. (ok and result and result:len() or "none") }, "\n")
end

-- Interrupts `act` at each instruction.  The plan is then as it was or as it is
-- to be, and so is what an apply makes of it.
local function check(act, opts)
  local before = state_of(make(opts))
  local done = make(opts)
  act(done)
  local after = state_of(done)
  local n, fired, ok, err = 0
  repeat
    n = n + 1
    local its = make(opts)
    fired, ok, err = interrupted(n, act, its)
    assert(fired or ok, err)
    local state = state_of(its)
    if state ~= before and state ~= after then
      assert.equal(after, "interrupted at " .. n .. "\n" .. state)
    end
  until not fired
  assert.is_true(n > 5)
end

describe("an error from outside", function()
  local acts = {
    store = function(its) its.fx:store(its.hero, "a", 1) end,
    ["store again"] = function(its) its.fx:store(its.hero, "hp", 1) end,
    ["store of what is deleted"] = function(its)
      its.fx:store(its.hero, "old", 2)
    end,
    ["store in another object"] = function(its)
      its.fx:store(its.item, "a", its.new)
    end,
    delete = function(its) its.fx:delete(its.hero, "hp") end,
    store_cell = function(its) its.fx:store_cell(its.cell, 5) end,
    store_global = function(its) its.fx:store_global("g", 5) end,
    track = function(its) its.fx:track(its.young) end,
    track_new = function(its) its.fx:track_new(its.class) end,
    track_cell = function(its)
      its.fx:track_cell(function() return its end, 1)
    end,
    track_global = function(its) its.fx:track_global(its.env, "h") end,
    ["track_global of another environment"] = function(its)
      its.fx:track_global(its.mod, "g")
    end,
    new_cell = function(its) its.fx:new_cell() end,
    ["new_cell with a value"] = function(its) its.fx:new_cell(1) end,
    hook = function(its) its.fx:hook(its.button, "key", print) end,
    ["hook:remove"] = function(its) its.hook:remove() end,
    remove_hook = function(its) its.fx:remove_hook(0) end,
    save = function(its) its.fx:save(its.ctx) end,
    finally = function(its) its.fx:finally(its.note "more") end,
    mark = function(its) its.fx:mark(its.item) end,
    adopt = function(its) its.fx:adopt(its.other) end,
    prune = function(its) its.fx:prune() end,
    clear = function(its) its.fx:clear() end,
    clone = function(its) its.fx:clone() end,
    allow = function(its) its.fx:allow(its.hero) end,
  }
  for name, act in pairs(acts) do
    it("leaves " .. name .. " done or not done", function() check(act) end)
  end

  it("leaves calls with options done or not done", function()
    local opts = { where = true, intercepted = "refuse", policy = "silent" }
    check(acts.store, opts)
    check(acts.track, opts)
  end)

  -- Callbacks whose turn did not come wait for the next time.
  it("leaves apply done or not done", function()
    local before, done = text_of(make()), make()
    done.fx:apply()
    local after, n, fired = text_of(done), 0
    repeat
      n = n + 1
      local its = make()
      fired = interrupted(n, its.fx.apply, its.fx)
      local applied = its.hero.hp == 5
      assert.equal(applied, its.button.click ~= nil)
      if not applied then assert.equal(before, text_of(its)) end
      assert(its.fx:apply())
      if text_of(its) ~= after then
        assert.equal(after, "interrupted at " .. n .. "\n" .. text_of(its))
      end
    until not fired
    assert.is_true(n > 100)
  end)
end)

local mw = require "moonwatch"
local support = require "support"
local error_of = require "spec.support.error_of"
local interrupted = require "spec.support.interrupted"

local STAY = { once = false }

-- A userdata with a list that its methods change, and that the policy reads and
-- sets as a whole.
local lists, methods, class, former

local function copy(list) return table.move(list, 1, #list, 1, {}) end

local function show(list) return table.concat(lists[list], " ") end

local function new(...)
  local list = support.userdata(class)
  lists[list] = { ... }
  return list
end

local function rules(changes)
  local its = {
    mutators = { "push", "pop", "push_all", "swap", "fail" },
    snapshot = function(list) return copy(lists[list]) end,
    restore = function(list, state) lists[list] = copy(state) end,
  }
  for name, rule in pairs(changes or {}) do its[name] = rule or nil end
  return its
end

local function use(changes, name)
  mw.policy({ classes = { [name or "List"] = rules(changes) } }):use()
end

-- Elements are written as fields, too.
local function let_write()
  class.push, class.pop = methods.push, methods.pop
  class.__index = function(list, key) return class[key] or lists[list][key] end
  class.__newindex = function(list, key, value) lists[list][key] = value end
end

local function entries(fx)
  local texts = {}
  for e in fx:entries() do
    texts[#texts + 1] = ("%s %s: %s > %s"):format(e.kind, e.key,
      table.concat(e.old, " "), table.concat(e.new, " "))
  end
  return texts
end

local function effects_of(f, ...)
  return (select(2, assert(mw.transaction(f, ...))))
end

before_each(function()
  lists = setmetatable({}, { __mode = "k" })
  methods = {}
  function methods:push(value)
    local list = lists[self]
    list[#list + 1] = value
    return #list
  end
  function methods:pop() return table.remove(lists[self]) end
  function methods:push_all(...)
    for _, value in ipairs { ... } do self:push(value) end
  end
  function methods:swap(between)
    local list = lists[self]
    list[1], list[2] = list[2], list[1]
    if between then between(self) end
    list[3] = "end"
  end
  function methods:fail(value)
    self:push(value)
    error("failed", 0)
  end
  class = { __name = "List", __index = methods }
  former = mw.policy({}):use()
  use()
end)

after_each(function() former:use() end)

describe("a call of a userdata's mutator", function()
  for _, how in ipairs { "watched", "tracked" } do
    it("is an entry with the state before and after: " .. how, function()
      local list = new("a")
      if how == "watched" then
        mw.watch(list, function() end, STAY)
      else
        mw.track(list)
      end
      local fx = effects_of(function() assert.equal(2, list:push "b") end)
      assert.same({ "call push: a > a b" }, entries(fx))
      fx:rollback()
      assert.equal("a", show(list))
      assert.same({ "call push: a > a b" }, entries(assert(fx:apply())))
      assert.equal("a b", show(list))
      assert(fx:invert():apply())
      assert.equal("a", show(list))
    end)
  end

  it("finds the rules by class, metatable or name", function()
    local file = assert(io.tmpfile())
    for _, name in ipairs { "List", class, methods } do
      use(nil, name)
      local list = mw.track(new())
      assert.is_false(mw.transaction(function() list:push(1); error "x" end))
      assert.equal("", show(list))
    end
    for _, name in ipairs { "FILE*", getmetatable(file),
      getmetatable(file).__index } do
      mw.policy({ classes = { [name] = {
        mutators = { "seek", "write" },
        snapshot = function(f) return f:seek() end,
        restore = function(f, place) f:seek("set", place) end,
      } } }):use()
      file:seek("set")
      mw.track(file)
      local fx = effects_of(function() file:write "abc" end)
      assert.equal(3, file:seek())
      fx:rollback()
      assert.equal(0, file:seek())
      mw.untrack(file)
    end
    file:close()
  end)

  it("may have its rules from mw.name_class", function()
    mw.policy({}):use()
    mw.name_class("named list", class, rules())
    local list = mw.track(new("a"))
    assert.is_false(mw.transaction(function() list:push(1); error "x" end))
    assert.equal("a", show(list))
    mw.name_class("named list", class, {})
  end)

  it("is taken back by whatever takes back", function()
    local list = mw.track(new("a"))
    local function failing() list:push "b"; error("boom", 0) end
    assert.same({ false, "boom" }, { mw.transaction(failing) })
    assert.equal("a", show(list))
    do
      local _ <close> = mw.begin()
      list:push "b"
    end
    assert.equal("a", show(list))
    mw.transaction(function()
      list:push "b"
      mw.transaction(failing)
      assert.equal("a b", show(list))
      list:push "c"
    end)
    assert.equal("a b c", show(list))
    local history = mw.history {}
    history:run("one", list.push, list, "d")
    history:run("two", list.push_all, list, "e", "f")
    assert.equal("two", history:undo())
    assert.equal("a b c d", show(list))
    assert.equal("one", history:undo())
    assert.equal("a b c", show(list))
    assert.equal("one", history:redo())
    assert.equal("two", history:redo())
    assert.equal("a b c d e f", show(list))
  end)

  it("leaves no step in a history if it changes nothing", function()
    local list = mw.track(new("a"))
    local history = mw.history { merge_window = 100 }
    history:run("none", list.push_all, list)
    assert.same({}, history:labels())
    history:merge "stroke"
    history:run("stroke", list.push, list, "b")
    assert.same({ "stroke" }, history:labels())
    history:run("stroke", list.pop, list)
    assert.same({}, history:labels())
    history:run("last", list.push, list, "c")
    lists[list] = { "other" }
    assert.is_nil(history:undo())
    assert.equal("other", show(list))
    lists[list] = { "a", "c" }
    assert.equal("last", history:undo())
    assert.equal("a", show(list))
  end)

  it("may be of thousands in one step of a history", function()
    use()
    local all, history = {}, mw.history {}
    for i = 1, 3000 do all[i] = mw.track(new(i)) end
    history:run("push", function()
      for _, list in ipairs(all) do list:push(0) end
    end)
    assert.equal("3000 0", show(all[3000]))
    assert.equal("push", history:undo())
    assert.equal("1", show(all[1]))
    assert.equal("3000", show(all[3000]))
  end)

  it("may call mutators, each an entry that can be taken back", function()
    local list = mw.track(new("a"))
    local fx = effects_of(list.push_all, list, "b", "c")
    assert.same({ "call push: a > a b", "call push: a b > a b c",
      "call push_all: a b c > a b c" }, entries(fx))
    fx:rollback()
    assert.equal("a", show(list))
    assert(fx:apply())
    assert.equal("a b c", show(list))
    local other = mw.track(new("1", "2"))
    local inner = function(self) self:push "x" end
    fx = effects_of(other.swap, other, inner)
    assert.equal("2 1 end", show(other))
    fx:rollback()
    assert.equal("1 2", show(other))
    fx = effects_of(other.swap, other, function(self)
      assert.is_false(mw.transaction(self.fail, self, "y"))
    end)
    fx:rollback()
    assert.equal("1 2", show(other))
  end)

  it("has an entry as well if it raises", function()
    local list = mw.track(new("a"))
    local fx = effects_of(function()
      assert.equal("failed", error_of(list.fail, list, "b"))
    end)
    assert.same({ "call push: a > a b", "call fail: a b > a b" }, entries(fx))
    fx:rollback()
    assert.equal("a", show(list))
  end)

  it("may yield, and others may call meanwhile", function()
    local list = mw.track(new("1", "2"))
    local before = mw.begin()
    local run = coroutine.wrap(function()
      list:swap(coroutine.yield)
      return "done"
    end)
    run()
    list:push "x"
    assert.equal("done", run())
    assert.equal("2 1 end", show(list))
    before:rollback()
    assert.equal("1 2", show(list))
    local tx = mw.begin()
    local waiting = coroutine.create(function() list:swap(coroutine.yield) end)
    coroutine.resume(waiting)
    assert.is_true(coroutine.close(waiting))
    assert.equal("2 1", show(list))
    tx:rollback()
    assert.equal("1 2", show(list))
  end)

  it("belongs to the transaction of its coroutine", function()
    local list = mw.track(new())
    local function owner(name)
      return coroutine.wrap(function()
        local tx = mw.begin()
        list:push(name)
        coroutine.yield()
        tx:rollback()
      end)
    end
    local a, b = owner "a", owner "b"
    a()
    b()
    b()
    assert.equal("a", show(list))
    a()
    assert.equal("", show(list))
    a, b = owner "a", owner "b"
    a()
    b()
    a()
    assert.equal("a b", show(list)) -- the state that came last stays
    b()
    assert.equal("", show(list))
  end)

  it("counts with the others of the object as one field", function()
    local list = mw.track(new("a"))
    local fx = effects_of(function()
      list:push "b"
      list:swap()
    end)
    assert.same({ "call push: a > b a end" }, entries(fx:squash()))
    fx:rollback()
    local none = effects_of(function()
      list:push "b"
      lists[list] = { "a" }
      list:push_all()
    end)
    assert.equal(0, none:squash():len())
    local other = effects_of(list.push, list, "z")
    assert.equal(1, #fx:conflicts(other))
    assert.equal(0, #fx:conflicts(fx))
  end)

  it("is not applied where the state is another", function()
    local list = mw.track(new("a"))
    local fx = effects_of(list.push, list, "b")
    fx:rollback()
    lists[list] = { "a" } -- an equal state
    assert(fx:apply())
    fx:rollback()
    lists[list] = { "z" }
    local done, message, entry = fx:apply()
    assert.is_nil(done)
    assert.equal("field 'push' has changed meanwhile", message)
    assert.equal("call", entry.kind)
    assert(fx:apply { on_conflict = function(_, actual)
      assert.same({ "z" }, actual)
      return "overwrite"
    end })
    assert.equal("a b", show(list))
  end)

  it("goes with writes to fields that are part of the state", function()
    let_write()
    local list, history = mw.track(new("a")), mw.history()
    local function change()
      list[2] = "x"
      list:push "b"
      list[1] = "c"
      list:pop()
      list[2] = "y"
    end
    local fx = effects_of(change)
    for _, effects in ipairs { fx, fx:squash() } do
      assert.equal("c y", show(list))
      fx:rollback()
      assert.equal("a", show(list))
      assert(effects:apply())
    end
    assert(fx:invert():apply())
    assert.equal("a", show(list))
    history:run("change", change)
    assert.equal("change", history:undo())
    assert.equal("a", show(list))
    assert.equal("change", history:redo())
    assert.equal("c y", show(list))
    lists[list][2] = "z"
    assert.equal("field '2' has changed meanwhile", select(2, history:undo()))
    assert.equal("c z", show(list))
    local asked = 0
    local history2 = mw.history { on_conflict = function()
      asked = asked + 1
      return "skip"
    end }
    history2:run("both", function()
      list:push "b"
      list[1] = "d"
    end)
    lists[list] = { "other" }
    history2:undo()
    assert.equal(2, asked)
    assert.equal("other", show(list))
  end)

  it("is undone after writes to fields that it has changed", function()
    let_write()
    local list, history = mw.track(new("a")), mw.history()
    history:run("call last", function()
      list[2] = "x"
      list:pop()
    end)
    history:run("call first", function()
      list:push "b"
      list[2] = "c"
    end)
    assert.equal("call first", history:undo())
    assert.equal("call last", history:undo())
    assert.equal("a", show(list))
    assert.equal("call last", history:redo())
    assert.equal("call first", history:redo())
    assert.equal("a c", show(list))
    local fx = effects_of(function()
      list:push "d"
      list[3] = "e"
    end)
    fx:rollback()
  end)

  it("is asked about, and what was written before, where the state is another",
    function()
      let_write()
      local asked = {}
      local list = mw.track(new("a"))
      local history = mw.history { on_conflict = function(entry)
        asked[#asked + 1] = ("%s %s"):format(entry.kind, entry.key)
        return "skip"
      end }
      history:run("both", function()
        list[1] = "x"
        list[2] = "y"
        list:push "z"
      end)
      lists[list] = { "x", "other" }
      assert.equal("both", history:undo())
      assert.same({ "call push", "insert 2" }, asked)
      assert.equal("a other", show(list))
    end)

  it("is told of when it is taken back or applied", function()
    local list, heard = new("a"), {}
    mw.watch(list, function(_, key, old, now, kind)
      heard[#heard + 1] = ("%s %s: %s > %s"):format(kind, key,
        old and table.concat(old, " "), now and table.concat(now, " "))
    end, STAY)
    local fx = effects_of(function() list:push "b"; list:push "c" end)
    heard = {}
    fx:rollback()
    assert.same({ "rollback push: a b c > a" }, heard)
    heard = {}
    fx:apply()
    assert.same({ "apply push: a > a b", "apply push: a b > a b c" }, heard)
    local check <close> = mw.watch(list, function()
      error("refused", 0)
    end, { phase = "check" })
    assert.equal("refused", select(2, fx:invert():apply()))
    assert.equal("a b c", show(list))
    assert(check:alive())
  end)

  it("has no entry without both rules, or outside a transaction", function()
    for _, rule in ipairs { "snapshot", "restore" } do
      use { [rule] = false }
      local list = mw.track(new())
      assert.equal(0, effects_of(list.push, list, 1):len())
    end
    local n = 0
    use { snapshot = function() n = n + 1 end }
    local list = mw.track(new())
    list:push(1)
    assert.equal(0, n)
    assert.equal(1, effects_of(list.push, list, 2):len())
    assert.equal(2, n)
  end)

  it("is silent while the policy reads or sets the state", function()
    use {
      snapshot = function(list)
        list:swap()
        list:swap()
        return lists[list][1]
      end,
      restore = function(list, first)
        lists[list] = {}
        list:push(first)
      end,
    }
    local list, heard = new("a", "b"), 0
    mw.watch(list, function() heard = heard + 1 end, STAY)
    assert.is_false(mw.transaction(function() list:push "c"; error "x" end))
    assert.equal("a", show(list))
    assert.equal(1, heard)
  end)
end)

describe("a policy that fails to", function()
  it("read a state leaves the call without an entry", function()
    use { snapshot = function() error("unreadable", 0) end }
    local list = mw.track(new())
    assert.equal(0, effects_of(list.push, list, "a"):len())
    assert.equal("a", show(list))
    local errors = mw.policy({}):use().errors
    assert.is_number(errors.unreadable)
  end)

  it("set a state lets the rest be taken back", function()
    use { restore = function() error("unsettable", 0) end }
    local list, other = mw.track(new()), mw.track { x = 1 }
    local tx = mw.begin()
    other.x = 2
    list:push "a"
    other.x = 3
    assert.equal("unsettable", error_of(tx.rollback, tx))
    assert.equal(1, other.x)
    assert.is_false(tx:is_open())
  end)

  it("have the rules any more is an error of the rollback", function()
    local list = mw.track(new())
    local fx = effects_of(list.push, list, "a")
    mw.policy({}):use()
    assert.matches("no rule", error_of(fx.rollback, fx))
    use()
    fx:rollback()
    assert.equal("", show(list))
  end)
end)

describe("what was recorded of mutators", function()
  it("has no text", function()
    local list = mw.track(new())
    local fx = effects_of(list.push, list, "a")
    local text, message = fx:to_lua { world = mw.track { list = list } }
    assert.is_nil(text)
    assert.matches("call of the mutator 'push'", message)
  end)

  it("can be taken back wherever an error from outside comes", function()
    local n, fired = 0, true
    while fired do
      n = n + 1
      local list = mw.track(new("a"))
      local tx = mw.begin()
      fired = interrupted(n, list.push_all, list, "b", "c")
      tx:rollback()
      assert.equal("a", show(list))
      list:push "d"
      assert.equal("a d", show(list))
      tx = mw.begin()
      list:push "e"
      tx:rollback()
      assert.equal("a d", show(list))
      mw.untrack(list)
    end
    assert.is_true(n > 50)
  end)
end)

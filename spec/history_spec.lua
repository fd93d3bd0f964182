local mw = require "moonwatch"
local misuse = require "spec.support.misuse"
local error_of = require "spec.support.error_of"
local raw_of = require "spec.support.raw_of"
local histories = require "spec.support.histories"

local make, set, run_all = histories.make, histories.set, histories.run_all

describe("a history", function()
  it("takes steps back and does them again, by label", function()
    local history, doc = make()
    run_all(history, doc, 1, 2)
    assert.equal("x = 2", history:undo())
    assert.equal(1, doc.x)
    assert.equal("x = 1", history:undo())
    assert.equal(0, doc.x)
    assert.equal("x = 1", history:redo())
    assert.equal("x = 2", history:redo())
    assert.equal(2, doc.x)
  end)

  it("hands on the arguments and all results of a run", function()
    local history = make()
    local results = table.pack(history:run("run", function(...)
      return select("#", ...), nil, ..., nil
    end, 1, nil, 3))
    assert.same({ n = 4, 3, nil, 1, nil }, results)
    assert.equal(0, select("#", history:run("run", function() end)))
  end)

  it("has nothing to take back or do again at first", function()
    local history = make()
    assert.is_nil(history:undo())
    assert.is_nil(history:redo())
    assert.is_false(history:can_undo())
    assert.is_false(history:can_redo())
    assert.same({}, history:labels())
  end)

  it("knows what it can do", function()
    local history, doc = make()
    run_all(history, doc, 1)
    assert.is_true(history:can_undo())
    assert.is_false(history:can_redo())
    history:undo()
    assert.is_false(history:can_undo())
    assert.is_true(history:can_redo())
  end)

  it("tells the labels of what can be taken back, oldest first", function()
    local history, doc = make()
    run_all(history, doc, 1, 2, 3)
    assert.same({ "x = 1", "x = 2", "x = 3" }, history:labels())
    history:undo()
    local labels = history:labels()
    assert.same({ "x = 1", "x = 2" }, labels)
    labels[1] = nil
    assert.same({ "x = 1", "x = 2" }, history:labels())
  end)

  it("has no step for a run that writes nothing", function()
    local history, doc = make()
    run_all(history, doc, 1)
    history:undo()
    history:run("look", function() return doc.x end)
    assert.same({}, history:labels())
    assert.is_true(history:can_redo())
  end)

  it("forgets what was taken back when there is a new step", function()
    local history, doc = make()
    run_all(history, doc, 1, 2)
    history:undo()
    run_all(history, doc, 3)
    assert.same({ "x = 1", "x = 3" }, history:labels())
    assert.is_false(history:can_redo())
    assert.is_nil(history:redo())
    assert.equal(3, doc.x)
  end)

  it("takes back what a class, a list and several objects have got", function()
    local history, doc = make()
    local list = mw.track { 1, 2, 3 }
    local class = { __index = { y = 1 } }
    history:run("much", function()
      table.remove(list, 1)
      table.insert(list, "end")
      doc.x = list
      mw.setmetatable(doc, class)
    end)
    history:undo()
    assert.same({ 1, 2, 3 }, raw_of(list))
    assert.equal(0, doc.x)
    assert.is_nil(doc.y)
    history:redo()
    assert.same({ 2, 3, "end" }, raw_of(list))
    assert.equal(list, doc.x)
    assert.equal(1, doc.y)
  end)

  it("does nothing again that would overwrite other work", function()
    local history, doc = make()
    run_all(history, doc, 1)
    history:undo()
    doc.x = "other"
    local label, message = history:redo()
    assert.is_nil(label)
    assert.matches("'x' has changed", message)
    assert.equal("other", doc.x)
    assert.is_true(history:can_redo())
    doc.x = 0
    assert.equal("x = 1", history:redo())
  end)

  it("is collected with what it is about", function()
    local history, doc = make()
    doc.history = history
    history:run("self", set(doc, "itself", doc))
    local seen = setmetatable({ history, doc }, { __mode = "v" })
    history, doc = nil, nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.same({}, seen)
  end)
end)

describe("an error in a run", function()
  it("takes back what was written, and goes on as it is", function()
    local history, doc = make()
    run_all(history, doc, 1)
    for _, err in ipairs { { "table" }, "text", false } do
      local ok, got = pcall(history.run, history, "bad", function()
        doc.x, doc.y = 2, 2
        error(err, 0)
      end)
      assert.is_false(ok)
      assert.equal(err, got)
      assert.same({ x = 1 }, raw_of(doc))
    end
  end)

  it("leaves the history as it was", function()
    local history, doc = make()
    run_all(history, doc, 1, 2)
    history:mark_saved()
    history:undo()
    assert.is_false(pcall(history.run, history, "bad", function()
      doc.x = "bad"
      error "!"
    end))
    assert.same({ "x = 1" }, history:labels())
    assert.equal("x = 2", history:redo())
    assert.is_true(history:is_saved())
  end)
end)

describe("a run in a run", function()
  it("is part of it", function()
    local history, doc = make()
    history:run("outer", function()
      doc.x = 1
      history:run("inner", set(doc, "x", 2))
    end)
    assert.same({ "outer" }, history:labels())
    history:undo()
    assert.equal(0, doc.x)
    history:redo()
    assert.equal(2, doc.x)
  end)

  it("is gone when the outer one fails", function()
    local history, doc = make()
    assert.is_false(pcall(history.run, history, "outer", function()
      history:run("inner", set(doc, "x", 2))
      error "!"
    end))
    assert.equal(0, doc.x)
    assert.same({}, history:labels())
    run_all(history, doc, 1)
    assert.same({ "x = 1" }, history:labels())
  end)

  it("may fail alone", function()
    local history, doc = make()
    history:run("outer", function()
      doc.x = 1
      pcall(history.run, history, "inner", function()
        doc.x = 2
        error "!"
      end)
    end)
    assert.equal(1, doc.x)
    history:undo()
    assert.equal(0, doc.x)
  end)

  it("is no place to take back from", function()
    local history, doc = make()
    run_all(history, doc, 1)
    for _, name in ipairs { "undo", "redo" } do
      local message = error_of(history.run, history, "run", function()
        history[name](history)
      end)
      assert.matches("history_spec%.lua:%d+: calling '" .. name ..
        "' while a run is under way", message)
    end
    assert.equal("x = 1", history:undo())
  end)

  it("that nobody resumes is forgotten", function()
    local history, doc = make()
    local co = coroutine.wrap(function()
      history:run("half", function()
        doc.x = 1
        coroutine.yield()
      end)
    end)
    co()
    co = nil -- luacheck: ignore
    collectgarbage()
    collectgarbage()
    assert.is_false(history:can_undo())
    assert.equal(0, doc.x)
    run_all(history, doc, 2)
    assert.same({ "x = 2" }, history:labels())
    assert.equal("x = 2", history:undo())
  end)
end)

describe("a guard that raises", function()
  local function watched()
    local history, doc = make()
    local armed = false
    mw.watch(doc, function() if armed then error("guard", 0) end end,
      { once = false })
    run_all(history, doc, 1, 2)
    armed = true
    return history, doc, function() armed = false end
  end

  it("does not stop an undo, nor confuse the history", function()
    local history, doc, disarm = watched()
    assert.matches("guard", error_of(history.undo, history))
    assert.equal(1, doc.x)
    assert.same({ "x = 1" }, history:labels())
    disarm()
    assert.equal("x = 2", history:redo())
    assert.equal(2, doc.x)
  end)

  it("does not stop a redo, nor confuse the history", function()
    local history, doc, disarm = watched()
    pcall(history.undo, history)
    assert.matches("guard", error_of(history.redo, history))
    assert.equal(2, doc.x)
    assert.same({ "x = 1", "x = 2" }, history:labels())
    disarm()
    assert.equal("x = 2", history:undo())
  end)
end)

describe("a limit", function()
  it("is how many steps are kept, the newest", function()
    local history, doc = make { limit = 2 }
    run_all(history, doc, 1, 2, 3)
    assert.same({ "x = 2", "x = 3" }, history:labels())
    assert.equal("x = 3", history:undo())
    assert.equal("x = 2", history:undo())
    assert.is_nil(history:undo())
    assert.equal(1, doc.x)
    assert.equal("x = 2", history:redo())
    assert.equal("x = 3", history:redo())
  end)

  it("of one is a single step", function()
    local history, doc = make { limit = 1 }
    run_all(history, doc, 1, 2)
    assert.same({ "x = 2" }, history:labels())
    history:undo()
    run_all(history, doc, 3)
    assert.same({ "x = 3" }, history:labels())
    history:undo()
    assert.equal(1, doc.x)
  end)
end)

describe("the saved state", function()
  it("is the first one, if nobody says otherwise", function()
    local history, doc = make()
    assert.is_true(history:is_saved())
    run_all(history, doc, 1)
    assert.is_false(history:is_saved())
    history:undo()
    assert.is_true(history:is_saved())
  end)

  it("is found again by undo and redo", function()
    local history, doc = make()
    run_all(history, doc, 1, 2)
    history:mark_saved()
    assert.is_true(history:is_saved())
    history:undo()
    assert.is_false(history:is_saved())
    history:undo()
    assert.is_false(history:is_saved())
    history:redo()
    history:redo()
    assert.is_true(history:is_saved())
  end)

  it("cannot come back when another branch was begun", function()
    local history, doc = make()
    run_all(history, doc, 1, 2)
    history:mark_saved()
    history:undo()
    run_all(history, doc, 2)
    assert.is_false(history:is_saved())
    history:undo()
    history:undo()
    assert.is_false(history:is_saved())
  end)

  it("stays when the branch begins at it", function()
    local history, doc = make()
    run_all(history, doc, 1)
    history:mark_saved()
    run_all(history, doc, 2)
    history:undo()
    run_all(history, doc, 3)
    history:undo()
    assert.is_true(history:is_saved())
  end)

  it("is lost when the step after it is forgotten", function()
    local history, doc = make { limit = 2 }
    run_all(history, doc, 1, 2)
    history:undo()
    history:undo()
    assert.is_true(history:is_saved())
    history:redo()
    history:redo()
    run_all(history, doc, 3)
    history:undo()
    history:undo()
    assert.is_false(history:is_saved())
  end)

  it("may be that before the oldest step that is kept", function()
    local history, doc = make { limit = 2 }
    run_all(history, doc, 1)
    history:mark_saved()
    run_all(history, doc, 2, 3)
    assert.is_false(history:is_saved())
    history:undo()
    history:undo()
    assert.equal(1, doc.x)
    assert.is_true(history:is_saved())
    history:redo()
    history:redo()
    run_all(history, doc, 4)
    history:undo()
    history:undo()
    assert.is_false(history:is_saved())
  end)
end)

describe("on_step", function()
  -- A history that keeps a copy of the document the same by bytes.
  local function mirror(opts)
    local doc = mw.track({ x = 0, list = { 1, 2 } }, { deep = true })
    local copy, told = mw.plain(doc), {}
    opts = opts or {}
    function opts.on_step(fx, label, direction)
      told[#told + 1] = direction .. " " .. label
      assert(mw.patch_bytes(copy, assert(fx:to_bytes(doc))))
    end
    return mw.history(opts), doc, copy, told
  end

  it("is told of runs, undo and redo, with effects to send", function()
    local history, doc, copy, told = mirror()
    history:run("a", set(doc, "x", 1))
    assert.same(mw.plain(doc), copy)
    history:run("b", function()
      table.insert(doc.list, 1, "new")
      doc.map = { deep = {} }
      doc.x = nil
    end)
    for _, name in ipairs { "undo", "undo", "redo", "redo", "undo" } do
      history[name](history)
      assert.same(mw.plain(doc), copy)
    end
    assert.same({ "run a", "run b", "undo b", "undo a", "redo a", "redo b",
      "undo b" }, told)
    assert.same({ x = 1, list = { 1, 2 } }, copy)
  end)

  it("is told of each run of a stroke, and of the stroke's undo", function()
    local history, doc, copy, told = mirror()
    history:merge "type"
    for i = 1, 3 do
      history:run("type", set(doc, "x", i))
      assert.equal(i, copy.x)
    end
    history:run("type", set(doc, "x", 0))
    assert.same({}, history:labels())
    assert.equal(0, copy.x)
    history:run("type", set(doc, "x", 5))
    history:run("type", set(doc, "x", 6))
    history:undo()
    assert.equal(0, copy.x)
    history:redo()
    assert.equal(6, copy.x)
    assert.same({ "run type", "run type", "run type", "run type", "run type",
      "run type", "undo type", "redo type" }, told)
  end)

  it("is not told of what changes nothing, fails, or is part of a run",
    function()
      local history, doc, copy, told = mirror()
      history:run("none", function() end)
      history:run("same", set(doc, "x", 0))
      history:run("there and back", function()
        doc.x, doc.y = 1, 1
        doc.x, doc.y = 0, nil
      end)
      pcall(history.run, history, "bad", function()
        doc.x = 1
        error "!"
      end)
      history:undo()
      history:redo()
      assert.same({}, told)
      history:run("outer", function()
        history:run("inner", set(doc, "x", 1))
        history:run("inner", set(doc, "y", 1))
      end)
      assert.same({ "run outer" }, told)
      assert.same({ x = 1, y = 1, list = { 1, 2 } }, copy)
    end)

  it("is told of what an undo wrote, not of what it left", function()
    local sent = {}
    local history, doc = make {
      on_step = function(fx)
        local keys = {}
        for e in fx:entries() do keys[#keys + 1] = e.key end
        sent[#sent + 1] = table.concat(keys, " ")
      end,
      on_conflict = function() return "skip" end,
    }
    history:run("two", function() doc.x, doc.y = 1, 1 end)
    doc.x = "other"
    assert.equal("two", history:undo())
    assert.equal("y", sent[2])
  end)

  it("may use the history", function()
    local history, doc
    history, doc = make { on_step = function(_, label)
      if label == "first" then history:run("second", set(doc, "y", 1)) end
      if label == "second" then assert.same(2, #history:labels()) end
    end }
    history:run("first", set(doc, "x", 1))
    assert.same({ "first", "second" }, history:labels())
  end)

  it("that raises is heard from the call, when the step is done", function()
    local fails, errors = false, { "mine" }
    local history, doc = make { on_step = function()
      if fails then error(errors) end
    end }
    local function raises(act, ...)
      fails = true
      assert.equal(errors, error_of(act, history, ...))
      fails = false
    end
    raises(history.run, "a", set(doc, "x", 1))
    assert.same({ 1, "a" }, { doc.x, history:labels()[1] })
    raises(history.undo)
    assert.same({ 0, false, true },
      { doc.x, history:can_undo(), history:can_redo() })
    raises(history.redo)
    assert.same({ 1, true, false },
      { doc.x, history:can_undo(), history:can_redo() })
    history:run("a", set(doc, "x", 2))
    assert.equal("a", history:undo())
    assert.equal(1, doc.x)
  end)

  it("that raises in a transaction takes the transaction back", function()
    local history, doc = make { on_step = function() error("mine", 0) end }
    local ok, err = mw.transaction(function()
      history:run("a", set(doc, "x", 1))
    end)
    assert.same({ false, "mine" }, { ok, err })
    assert.equal(0, doc.x)
    assert.is_false(history:can_undo())
  end)
end)

describe("a class with a __newindex", function()
  it("is not asked when what it stored is undone and done again", function()
    local calls, see = 0, {}
    mw.see_through(see)
    local Map = { __newindex = function(self, key, value)
      calls = calls + 1
      if see.rawget(self, key) == nil then
        self.keys[#self.keys + 1] = key
      end
      see.rawset(self, key, value)
    end }
    local map = mw.track(setmetatable({ keys = {} }, Map), { deep = true })
    local history = mw.history()
    history:run("set", function() map.z, map.a = 1, 2 end)
    for _ = 1, 2 do
      assert.equal("set", history:undo())
      assert.same({ keys = {} }, mw.plain(map))
      assert.equal("set", history:redo())
      assert.equal(2, #map.keys)
    end
    assert.equal(2, calls)
  end)
end)

describe("a step with NaN", function()
  it("is undone and done again", function()
    for _, values in ipairs { { 0 / 0 }, { 0 / 0, 5 }, { 5, 0 / 0, 5 } } do
      local history, doc = make()
      history:run("NaN", function()
        for _, value in ipairs(values) do doc.x = value end
      end)
      local last = doc.x
      for _ = 1, 2 do
        assert.equal("NaN", history:undo())
        assert.equal(0, doc.x)
        assert.equal("NaN", history:redo())
        assert.equal(tostring(last), tostring(doc.x))
      end
    end
  end)
end)

describe("steps", function()
  it("look at what was put into an object raw", function()
    local history, doc = make()
    history:run("x", set(doc, "x", 1))
    rawset(doc, "x", 5)
    assert.is_nil(history:undo())
    assert.equal(5, doc.x)
  end)

  it("are told to who hears, tracks or batches", function()
    local heard = 0
    local history, doc = make()
    for i = 1, 4 do history:run("x", set(doc, "x", i)) end
    local watch = mw.watch(doc, function() heard = heard + 1 end,
      { once = false })
    history:undo()
    assert.equal(1, heard)
    watch:cancel()
    local tx = mw.begin()
    history:undo()
    assert.equal(1, tx:commit():len())
    local sum = mw.memo(function() return doc.x end, doc)
    assert.equal(2, sum())
    history:undo()
    assert.equal(1, sum())
  end)

  it("let go of what they held when they are dropped, or redone no more",
    function()
      for _, opts in ipairs { { limit = 2 }, { limit = 1 }, {} } do
        local history, doc = make(opts)
        local seen = setmetatable({}, { __mode = "v" })
        local function run(n)
          history:run("step", function()
            seen[n] = mw.track { n = n }
            doc.x, doc.n = seen[n], n
          end)
        end
        for n = 1, 20 do
          run(n)
          if not opts.limit and n > 1 then
            history:undo()
            history:undo()
          end
        end
        run(21)
        collectgarbage()
        collectgarbage()
        local left = 0
        for _ in pairs(seen) do left = left + 1 end
        assert.is_true(left <= 3)
      end
    end)

  it("belong to the objects' shadows of now", function()
    local history, doc = make()
    for i = 1, 6 do history:run("x", set(doc, "x", i)) end
    history:undo()
    mw.setmetatable(doc, { __index = { inherited = 1 } })
    history:undo()
    assert.same({ 4, 1 }, { doc.x, doc.inherited })
    mw.setmetatable(doc, nil)
    history:undo()
    assert.equal(3, doc.x)
    mw.untrack(doc)
    assert.equal("x", history:undo())
    assert.equal(2, doc.x)
    assert.is_nil(getmetatable(doc))
    mw.track(doc)
    assert.equal("x", history:undo())
    assert.equal(1, doc.x)
  end)
end)

describe("a step whose objects nobody else has", function()
  it("is undone and done again", function()
    local history = make()
    local function runs()
      local lost = mw.track { x = 0 }
      history:run("one", set(lost, "x", 1))
      history:run("two", function() lost.x, lost.y = 2, 2 end)
      history:merge "stroke"
      history:run("stroke", set(lost, "x", 3))
      history:run("stroke", set(lost, "x", 4))
    end
    runs()
    collectgarbage()
    collectgarbage()
    assert.equal("stroke", history:undo())
    assert.equal("two", history:undo())
    assert.equal("one", history:undo())
    assert.is_nil(history:undo())
    assert.equal("one", history:redo())
    assert.is_true(history:can_redo())
  end)

  it("holds them as long as the history has the step", function()
    for _, label in ipairs { "stroke", "step" } do
      local history = make { limit = 1 }
      local seen = setmetatable({}, { __mode = "v" })
      history:merge "stroke"
      local function draw()
        local obj = mw.track { x = 0 }
        seen[1] = obj
        for i = 1, 3 do history:run(label, set(obj, "x", i)) end
      end
      draw()
      collectgarbage()
      collectgarbage()
      assert.equal(3, seen[1].x)
      history:undo()
      assert.equal(label == "stroke" and 0 or 2, seen[1].x)
      local doc = mw.track { x = 0 }
      history:run("another", set(doc, "x", 1))
      collectgarbage()
      collectgarbage()
      assert.is_nil(seen[1])
    end
  end)
end)

describe("a run under a debug hook", function()
  it("goes with the transaction of its coroutine", function()
    local history, doc = make()
    local co = coroutine.create(function()
      local tx = mw.begin()
      coroutine.yield(tx)
      history:run("step", set(doc, "x", 1))
    end)
    local _, tx = coroutine.resume(co)
    local later = mw.begin()
    debug.sethook(co, function() end, "", 1)
    assert(coroutine.resume(co))
    later:commit()
    assert.same({ "step" }, history:labels())
    tx:rollback()
    assert.same({}, history:labels())
    assert.equal(0, doc.x)
  end)
end)

describe("undo and redo within a run", function()
  it("are misuse at the caller's line", function()
    local history, doc = make()
    run_all(history, doc, 1)
    history:run("outer", function()
      for _, name in ipairs { "undo", "redo" } do
        misuse("calling '" .. name .. "' while a run is under way",
          history[name], history)
      end
      mw.transaction(function()
        misuse("calling 'undo' while a run is under way", history.undo, history)
      end)
      coroutine.wrap(function()
        misuse("calling 'redo' while a run is under way", history.redo, history)
      end)()
      doc.y = 1
    end)
    assert.same({ "x = 1", "outer" }, history:labels())
  end)

  it("are misuse in a guard that the undo calls", function()
    local history, doc = make()
    run_all(history, doc, 1, 2)
    local message
    mw.watch(doc, function()
      message = error_of(history.undo, history)
    end, { once = true })
    history:undo()
    assert.matches("calling 'undo' while a run is under way", message)
    assert.equal(1, doc.x)
  end)
end)

describe("misuse of a history", function()
  local history = mw.history()

  it("is told where it is", function()
    misuse("bad argument #1 to 'history' (table expected, got number)",
      mw.history, 5)
    misuse("bad argument #1 to 'history' (unknown option 'limits')",
      mw.history, { limits = 1 })
    misuse("option 'limit' is not a number", mw.history, { limit = "1" })
    misuse("option 'limit' is less than 1", mw.history, { limit = 0 })
    misuse("option 'on_step' is not a function", mw.history, { on_step = 1 })
    misuse("option 'on_conflict' is not a function", mw.history,
      { on_conflict = "skip" })
    misuse("bad argument #1 to 'run' (string expected, got nil)",
      history.run, history)
    misuse("bad argument #2 to 'run' (function expected, got nil)",
      history.run, history, "label")
    misuse("bad argument #1 to 'merge' (string expected, got nil)",
      history.merge, history)
    for _, name in ipairs { "run", "undo", "redo", "can_undo", "can_redo",
      "labels", "mark_saved", "is_saved", "merge", "seal" } do
      misuse("calling '" .. name .. "' on bad self (history expected, got " ..
        "table)", history[name], {})
    end
  end)
end)

describe("a history and a lost transaction", function()
  it("are whole when the collector finds it at any instruction of a run",
    function()
      local doc, history = mw.track { n = 0 }, mw.history { limit = 2 }
      local function write(n) doc.n = doc.n + n end
      for at = 1, 201, 4 do
        local tx = mw.begin()
        coroutine.resume(coroutine.create(function()
          mw.begin()
          history:run("lost", write, 0.5)
          coroutine.yield()
        end))
        local left = at
        debug.sethook(function()
          left = left - 1
          if left == 0 then collectgarbage() end
        end, "", 1)
        local ok, message = pcall(history.run, history, "run", write, 1)
        debug.sethook()
        assert(ok, message)
        tx:rollback()
      end
      mw.reap()
      local n = doc.n
      while history:undo() do end
      assert.is_true(doc.n <= n)
      history:run("after", write, 1)
      assert.equal("after", history:undo())
    end)
end)

describe("a history and a finaliser", function()
  it("are right wherever it runs: it reads, and refuses what it cannot do",
    function()
      local refused = 0
      for at = 1, 401, 2 do
        local doc, history = mw.track {}, mw.history {}
        local function write(key) doc[key] = true end
        local before, count = mw.begin(), 0
        history:run("first", write, 1)
        local tx, ok, message = mw.begin(), nil, nil
        setmetatable({}, { __gc = function()
          count = #history:labels()
          ok, message = pcall(history.run, history, "finaliser", write, 2)
        end })
        local left = at
        debug.sethook(function()
          left = left - 1
          if left == 0 then collectgarbage() end
        end, "", 1)
        history:run("run", write, 3)
        debug.sethook()
        if ok == false then
          assert.matches("the library is at work", message)
          refused = refused + 1
        end
        assert.same({ true, ok or nil, true }, { doc[1], doc[2], doc[3] })
        assert.is_true(ok == nil or count > 0)
        tx:rollback()
        before:commit()
        assert.same({ "first" }, history:labels())
        while history:undo() do end
        assert.is_nil(next(doc))
      end
      assert.is_true(refused > 0)
    end)
end)

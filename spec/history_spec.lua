local mw = require "moonwatch"
local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"

-- A history and a document that it is about.
local function make(opts)
  return mw.history(opts), mw.track { x = 0 }
end

local function set(doc, key, value)
  return function() doc[key] = value end
end

-- Runs a step a value, named after it.
local function run_all(history, doc, ...)
  for _, value in ipairs { ... } do
    history:run("x = " .. value, set(doc, "x", value))
  end
end

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
    assert.same({ 1, 2, 3 }, mw.raw(list))
    assert.equal(0, doc.x)
    assert.is_nil(doc.y)
    history:redo()
    assert.same({ 2, 3, "end" }, mw.raw(list))
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
      assert.same({ x = 1 }, mw.raw(doc))
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

describe("runs that are merged", function()
  it("are one step when they follow each other", function()
    local history, doc = make()
    history:merge "type"
    for i = 1, 5 do history:run("type", set(doc, "x", i)) end
    assert.same({ "type" }, history:labels())
    assert.equal("type", history:undo())
    assert.equal(0, doc.x)
    assert.equal("type", history:redo())
    assert.equal(5, doc.x)
  end)

  it("may have run before that is asked for", function()
    local history, doc = make()
    history:run("move", set(doc, "y", 1))
    for i = 1, 3 do history:run("type", set(doc, "x", i)) end
    history:merge "type"
    history:merge "move"
    assert.same({ "move", "type" }, history:labels())
    history:run("type", set(doc, "x", 4))
    assert.same({ "move", "type" }, history:labels())
    history:mark_saved()
    history:undo()
    assert.same({ x = 0, y = 1 }, mw.raw(doc))
    history:redo()
    assert.equal(4, doc.x)
    assert.is_true(history:is_saved())
  end)

  it("are not merged without being asked for, nor across others", function()
    local history, doc = make()
    history:merge "type"
    history:run("type", set(doc, "x", 1))
    history:run("move", set(doc, "y", 1))
    history:run("move", set(doc, "y", 2))
    history:run("type", set(doc, "x", 2))
    assert.same({ "type", "move", "move", "type" }, history:labels())
  end)

  it("keep fields that only one of them has written", function()
    local history, doc = make()
    history:merge "type"
    history:run("type", set(doc, "a", 1))
    history:run("type", set(doc, "b", 1))
    history:run("type", set(doc, "a", nil))
    history:undo()
    assert.same({ x = 0 }, mw.raw(doc))
    history:redo()
    assert.same({ x = 0, b = 1 }, mw.raw(doc))
  end)

  it("are those within the window", function()
    for window, labels in pairs { [1e6] = 1, [1e-3] = 2 } do
      local history, doc = make { merge_window = window }
      history:merge "type"
      history:run("type", set(doc, "x", 1))
      local start = os.clock()
      repeat until os.clock() - start > 0.005
      history:run("type", set(doc, "x", 2))
      assert.equal(labels, #history:labels())
      history:undo()
      assert.equal(labels == 1 and 0 or 1, doc.x)
    end
  end)

  it("do not run into what was saved", function()
    local history, doc = make()
    history:merge "type"
    history:run("type", set(doc, "x", 1))
    history:mark_saved()
    history:run("type", set(doc, "x", 2))
    assert.is_false(history:is_saved())
    history:undo()
    assert.is_true(history:is_saved())
    assert.equal(1, doc.x)
  end)

  it("count as one for the limit", function()
    local history, doc = make { limit = 2 }
    history:merge "type"
    run_all(history, doc, 1)
    for i = 2, 9 do history:run("type", set(doc, "x", i)) end
    assert.same({ "x = 1", "type" }, history:labels())
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
    misuse("bad argument #1 to 'run' (string expected, got nil)",
      history.run, history)
    misuse("bad argument #2 to 'run' (function expected, got nil)",
      history.run, history, "label")
    misuse("bad argument #1 to 'merge' (string expected, got nil)",
      history.merge, history)
    for _, name in ipairs { "run", "undo", "redo", "can_undo", "can_redo",
      "labels", "mark_saved", "is_saved", "merge" } do
      misuse("calling '" .. name .. "' on bad self (history expected, got " ..
        "table)", history[name], {})
    end
  end)
end)

describe("a history in a transaction", function()
  it("is as before when that fails, and as it is when it does not", function()
    local obj, history = mw.track { x = 0 }, mw.history()
    local function run(value)
      history:run("set", function() obj.x = value end)
    end
    run(1)
    run(2)
    mw.transaction(function()
      run(3)
      history:undo()
      history:undo()
      mw.transaction(run, 4)
      error "!"
    end)
    assert.equal(2, obj.x)
    assert.same({ "set", "set" }, history:labels())
    assert.is_false(history:can_redo())
    assert.is_true(mw.transaction(mw.transaction, run, 5))
    assert.same({ "set", "set", "set" }, history:labels())
    history:undo()
    assert.equal(2, obj.x)
  end)
end)

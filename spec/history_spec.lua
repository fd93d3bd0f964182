local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local error_of = require "spec.support.error_of"
local misuse = require "spec.support.misuse"
local with_seed = require "spec.support.with_seed"

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
    assert.same({ x = 0, y = 1 }, raw_of(doc))
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
    assert.same({ x = 0 }, raw_of(doc))
    history:redo()
    assert.same({ x = 0, b = 1 }, raw_of(doc))
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

-- Begins a coroutine that runs a step and waits within it.  Returns a function
-- that ends the run.
local function begin_run(history, label, write)
  local co = coroutine.wrap(function()
    history:run(label, function()
      write()
      coroutine.yield()
    end)
  end)
  co()
  return co
end

-- Begins a coroutine that acts in a transaction and waits within it.  Returns a
-- function that ends the transaction, with true takes it back.
local function begin_transaction(act)
  local co = coroutine.wrap(function()
    mw.transaction(function()
      act()
      if coroutine.yield() then error("rollback", 0) end
    end)
  end)
  co()
  return co
end

-- Returns the labels of all steps: those done, "|", and those undone.
local function steps_of(history)
  local done, undone = history:labels(), {}
  while history:can_redo() do
    undone[#undone + 1] = assert(history:redo())
  end
  for _ = 1, #undone do assert(history:undo()) end
  return table.concat(done, " ") .. "|" .. table.concat(undone, " ")
end

describe("seal", function()
  local function strokes(act)
    local history, doc = make()
    history:merge "type"
    history:run("type", set(doc, "x", 1))
    act(history, doc)
    history:run("type", set(doc, "x", 2))
    return history, doc
  end

  it("makes the next run a step of its own", function()
    local history, doc = strokes(function(history) history:seal() end)
    assert.same({ "type", "type" }, history:labels())
    history:run("type", set(doc, "x", 3))
    assert.same({ "type", "type" }, history:labels())
    history:undo()
    assert.equal(1, doc.x)
    history:undo()
    assert.equal(0, doc.x)
  end)

  it("lasts over runs that change nothing, and fail", function()
    local history = strokes(function(history, doc)
      history:seal()
      history:run("type", function() end)
      history:run("type", set(doc, "x", 1))
      pcall(history.run, history, "type", error)
    end)
    assert.same({ "type", "type" }, history:labels())
  end)

  it("lasts where runs before it become a stroke", function()
    local history, doc = make()
    for i = 1, 2 do history:run("type", set(doc, "x", i)) end
    history:seal()
    history:merge "type"
    history:run("type", set(doc, "x", 3))
    assert.same({ "type", "type" }, history:labels())
  end)

  it("is what undo and redo do as well", function()
    local history = strokes(function(history)
      history:undo()
      history:redo()
    end)
    assert.same({ "type", "type" }, history:labels())
    local doc
    history, doc = strokes(function(h, d)
      h:run("other", set(d, "y", 1))
      h:undo()
    end)
    assert.same({ "type", "type" }, history:labels())
    assert.equal(2, doc.x)
  end)

  it("of an empty history does nothing", function()
    local history, doc = make()
    history:merge "type"
    history:seal()
    history:run("type", set(doc, "x", 1))
    history:run("type", set(doc, "x", 2))
    assert.same({ "type" }, history:labels())
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

describe("undo and redo look before they write:", function()
  it("what others changed stays, and nothing is written", function()
    local history, doc = make()
    history:run("two", function() doc.x, doc.y = 1, 1 end)
    doc.x = "other"
    local label, message, entry = history:undo()
    assert.is_nil(label)
    assert.matches("'x' has changed", message)
    assert.equal(doc, entry.object)
    assert.same({ "x", 0, 1, "update" },
      { entry.key, entry.old, entry.new, entry.kind })
    assert.same({ x = "other", y = 1 }, raw_of(doc))
    assert.same({ "two" }, history:labels())
    assert.is_false(history:can_redo())
    doc.x = 1
    assert.equal("two", history:undo())
    doc.y = "new"
    label, message, entry = history:redo()
    assert.is_nil(label)
    assert.matches("'y' has changed", message)
    assert.equal("insert", entry.kind)
    assert.same({ x = 0, y = "new" }, raw_of(doc))
    assert.is_true(history:can_redo())
  end)

  it("the first field of many", function()
    local history, doc = make()
    history:merge "type"
    for i = 1, 9 do
      history:run("type", function()
        doc.x, doc["f" .. i] = i, i
      end)
    end
    doc.f4 = nil
    local _, message, entry = history:undo()
    assert.matches("'f4' has changed", message)
    assert.equal("f4", entry.key)
    assert.equal(9, doc.x)
    assert.equal(9, doc.f9)
  end)

  it("lists, classes, integers and floats", function()
    local history = make()
    local list, class = mw.track { 1, 2, 3 }, {}
    history:run("remove", function() table.remove(list, 1) end)
    list[1] = "other"
    assert.is_nil(history:undo())
    assert.same({ "other", 3 }, raw_of(list))
    list[1] = 2.0
    assert.is_nil(history:undo())
    list[1] = 2
    assert.equal("remove", history:undo())
    assert.same({ 1, 2, 3 }, raw_of(list))
    history:run("class", function() mw.setmetatable(list, class) end)
    mw.setmetatable(list, nil)
    local _, message, entry = history:undo()
    assert.equal("the class has changed meanwhile", message)
    assert.equal("metatable", entry.kind)
    mw.setmetatable(list, class)
    assert.equal("class", history:undo())
  end)

  it("what is the same again may be undone", function()
    local history, doc = make()
    run_all(history, doc, 1)
    doc.x = 2
    doc.x = 1
    assert.equal("x = 1", history:undo())
  end)
end)

describe("a step that makes a list longer or shorter", function()
  local function list_of(...)
    return mw.history(), mw.track { ... }
  end

  local function text(list) return table.concat(mw.plain(list), " ") end

  -- Somebody changes the list after a step, which can be undone no more.
  local function refused(list, history, change, act)
    change(list)
    local before = mw.plain(list)
    local label, message, entry = (act or history.undo)(history)
    assert.is_nil(label)
    assert.matches("has changed meanwhile", message)
    assert.equal(list, entry.object)
    assert.same(before, mw.plain(list))
  end

  local function swap_remove(list, i)
    list[i], list[#list] = list[#list], nil
  end

  it("is not undone when somebody has appended", function()
    local history, list = list_of(1, 2, 3)
    history:run("insert", table.insert, list, 1, 0)
    refused(list, history, function() list[#list + 1] = 9 end)
    list[#list] = nil
    assert.equal("insert", history:undo())
    assert.equal("1 2 3", text(list))
    refused(list, history, function() list[#list + 1] = 9 end, history.redo)
    list[#list] = nil
    assert.equal("insert", history:redo())
    assert.equal("0 1 2 3", text(list))
  end)

  it("is not done again when somebody has appended to what it removed from",
    function()
      local history, list = list_of(1, 2, 3)
      history:run("remove", table.remove, list, 1)
      assert.equal("remove", history:undo())
      refused(list, history, function() list[4] = 9 end, history.redo)
    end)

  it("is undone when somebody has changed what is before it", function()
    local history, list = list_of("a", "b", "c")
    history:run("append", table.insert, list, "d")
    list[1], list.name = "A", "name"
    assert.equal("append", history:undo())
    assert.equal("append", history:redo())
    history:run("swap", swap_remove, list, 2)
    list[1] = "AA"
    assert.equal("swap", history:undo())
    assert.equal("AA b c d", text(list))
  end)

  it("knows positions that it has not written itself", function()
    local history, list = list_of("a", "b", "c", "d", "e")
    history:run("swap", swap_remove, list, 2)
    refused(list, history, function() list[3] = "other" end)
    list[3] = "c"
    assert.equal("swap", history:undo())
    refused(list, history, function() list[4] = {} end, history.redo)
    list[4] = "d"
    assert.equal("swap", history:redo())
    assert.equal("a e c d", text(list))
  end)

  it("is undone and done again among others of its history", function()
    local history, list = list_of(5, 3, 9, 1)
    local acts = {
      { table.insert, list, 2, 7 }, { swap_remove, list, 1 },
      { table.remove, list, 2 },
      { table.sort, list, function(a, b) return a > b end },
      { function() for i = 1, 3 do list[#list + 1] = i end end },
      { function() for i = #list, 2, -1 do list[i] = nil end end },
      { table.insert, list, "x" },
    }
    local states = { [0] = text(list) }
    for i, act in ipairs(acts) do
      history:run("act " .. i, table.unpack(act))
      states[i] = text(list)
    end
    for _ = 1, 2 do
      for i = #acts, 1, -1 do
        assert.equal("act " .. i, history:undo())
        assert.equal(states[i - 1], text(list))
      end
      for i = 1, #acts do
        assert.equal("act " .. i, history:redo())
        assert.equal(states[i], text(list))
      end
    end
  end)

  it("is not undone or done again where the list is shorter now", function()
    local history, list = list_of(1, 2, 3)
    history:run("append", table.insert, list, 4)
    assert.equal("append", history:undo())
    refused(list, history, function() list[3] = nil end, history.redo)
    list[3] = 3
    assert.equal("append", history:redo())
    history:run("pop", table.remove, list)
    refused(list, history, function() list[3] = nil end)
    list[3] = 3
    assert.equal("pop", history:undo())
    assert.equal("1 2 3 4", text(list))
  end)

  it("may be a stroke", function()
    local history, list = list_of(1)
    history:merge "draw"
    for i = 2, 5 do history:run("draw", table.insert, list, i) end
    refused(list, history, function() list[6] = "other" end)
    list[6] = nil
    assert.equal("draw", history:undo())
    assert.equal("1", text(list))
    assert.equal("draw", history:redo())
    history:run("draw", swap_remove, list, 2)
    assert.equal("1 5 3 4", text(list))
    assert.equal("draw", history:undo())
    assert.equal("1 2 3 4 5", text(list))
    history:merge "swap"
    history:run("swap", swap_remove, list, 2)
    history:run("swap", swap_remove, list, 1)
    refused(list, history, function() list[3] = "other" end)
  end)

  it("may be one of several that become a stroke", function()
    local history, list = list_of(1)
    for i = 2, 4 do history:run("draw", table.insert, list, i) end
    history:merge "draw"
    assert.same({ "draw" }, history:labels())
    refused(list, history, function() list[5] = "other" end)
    list[5] = nil
    assert.equal("draw", history:undo())
    assert.equal("1", text(list))
  end)

  it("is left to on_conflict", function()
    for answer, expected in pairs { overwrite = false, skip = 2 } do
      local history = mw.history {
        on_conflict = function(entry, actual)
          assert.same({ 2, 2, "insert" }, { entry.key, actual, entry.kind })
          return answer
        end,
      }
      local list = mw.track { 1 }
      history:run("append", function() list[2], list.n = 2, 2 end)
      list[3] = 3
      assert.equal("append", history:undo())
      assert.equal(expected or nil, list[2])
      assert.is_nil(list.n)
      assert.equal(3, list[3])
    end
  end)

  it("is no list if it has holes", function()
    local history, map = mw.history(), mw.track { [10] = "a", [30] = "c" }
    history:run("add", function() map[20] = "b" end)
    map[21], map[30] = "d", nil
    assert.equal("add", history:undo())
    assert.same({ [10] = "a", [21] = "d" }, mw.plain(map))
    assert.equal("add", history:redo())
    assert.equal("b", map[20])
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

describe("on_conflict", function()
  -- A step of two writes of which others have changed one.
  local function conflict(answer)
    local asked = {}
    local history, doc = make { on_conflict = function(entry, actual)
      asked[#asked + 1] = { entry.key, entry.old, entry.new, actual }
      entry.key = "spoilt"
      return answer
    end }
    history:run("two", function() doc.x, doc.y = 1, 1 end)
    doc.x = "other"
    return history, doc, asked
  end

  it("is asked with the entry and the actual value", function()
    local history, _, asked = conflict "abort"
    local label, _, entry = history:undo()
    assert.is_nil(label)
    assert.equal("x", entry.key)
    assert.same({ { "x", 0, 1, "other" } }, asked)
  end)

  it("may skip", function()
    local history, doc = conflict "skip"
    assert.equal("two", history:undo())
    assert.same({ x = "other" }, raw_of(doc))
    assert.equal("two", history:redo())
    assert.same({ x = "other", y = 1 }, raw_of(doc))
  end)

  it("may overwrite", function()
    local history, doc = conflict "overwrite"
    assert.equal("two", history:undo())
    assert.same({ x = 0 }, raw_of(doc))
    doc.y = "other"
    assert.equal("two", history:redo())
    assert.same({ x = 1, y = 1 }, raw_of(doc))
  end)

  it("may abort: nothing has changed", function()
    local history, doc = conflict "abort"
    assert.is_nil(history:undo())
    assert.same({ x = "other", y = 1 }, raw_of(doc))
    assert.is_false(history:can_redo())
    doc.x = 1
    history:undo()
    doc.y = "other"
    assert.is_nil(history:redo())
    assert.same({ x = 0, y = "other" }, raw_of(doc))
    assert.is_true(history:can_redo())
  end)

  it("that skips all moves the history nevertheless", function()
    local history, doc = make { on_conflict = function() return "skip" end }
    run_all(history, doc, 1)
    doc.x = "other"
    assert.equal("x = 1", history:undo())
    assert.is_false(history:can_undo())
    assert.equal("x = 1", history:redo())
    assert.is_false(history:can_redo())
    assert.equal("other", doc.x)
  end)

  it("that overwrites a value by the same moves the history", function()
    local history, doc = make {
      on_conflict = function() return "overwrite" end,
    }
    run_all(history, doc, 1)
    doc.x = 0
    assert.equal("x = 1", history:undo())
    assert.is_true(history:is_saved())
    doc.x = 1
    assert.equal("x = 1", history:redo())
    assert.is_true(history:can_undo())
  end)

  it("is not asked where there is no conflict", function()
    local history, doc = make { on_conflict = error }
    run_all(history, doc, 1, 2)
    history:undo()
    history:redo()
    assert.equal(2, doc.x)
  end)

  it("that answers something else is misuse", function()
    local history = conflict "maybe"
    misuse("on_conflict returned 'maybe', neither 'skip', 'overwrite' nor " ..
      "'abort'", history.undo, history)
    assert.same({ "two" }, history:labels())
  end)

  it("that raises leaves all as it was", function()
    local history, doc = make { on_conflict = function() error("mine", 0) end }
    run_all(history, doc, 1)
    doc.x = "other"
    assert.equal("mine", error_of(history.undo, history))
    assert.equal("other", doc.x)
    assert.is_true(history:can_undo())
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

describe("what cancels out", function()
  it("leaves no step and no unsaved mark: merged runs", function()
    local history, doc = make()
    history:merge "drag"
    run_all(history, doc, 1)
    history:mark_saved()
    history:run("drag", set(doc, "y", 1))
    assert.is_false(history:is_saved())
    history:run("drag", function() doc.y, doc.z = nil, 1 end)
    assert.same({ "x = 1", "drag" }, history:labels())
    history:run("drag", set(doc, "z", nil))
    assert.same({ "x = 1" }, history:labels())
    assert.is_true(history:is_saved())
    history:run("drag", set(doc, "y", 2))
    assert.same({ "x = 1", "drag" }, history:labels())
    history:undo()
    assert.is_nil(doc.y)
    assert.is_true(history:is_saved())
  end)

  it("leaves no step: runs that are merged later", function()
    local history, doc = make()
    run_all(history, doc, 1)
    history:run("drag", set(doc, "y", 1))
    history:run("drag", set(doc, "y", nil))
    history:merge "drag"
    assert.same({ "x = 1" }, history:labels())
    history:run("drag", set(doc, "y", 1))
    assert.same({ "x = 1", "drag" }, history:labels())
  end)

  it("leaves no step: one run", function()
    local history, doc = make()
    local list = mw.track { 1, 2 }
    run_all(history, doc, 1)
    history:mark_saved()
    history:run("many", function()
      doc.x, doc.y = 2, 2
      doc.x, doc.y = 1, nil
      table.insert(list, 1, "new")
      table.remove(list, 1)
      mw.setmetatable(doc, {})
      mw.setmetatable(doc, nil)
    end)
    history:run("same", set(doc, "x", 1))
    assert.same({ "x = 1" }, history:labels())
    assert.is_true(history:is_saved())
  end)

  it("forgets no undone step", function()
    local history, doc = make()
    run_all(history, doc, 1)
    history:undo()
    history:run("there and back", function()
      doc.x = 5
      doc.x = 0
    end)
    assert.is_true(history:can_redo())
    assert.equal("x = 1", history:redo())
  end)

  it("is not an integer that has become a float", function()
    local history, doc = make()
    history:merge "drag"
    history:run("drag", set(doc, "x", 1))
    history:run("drag", set(doc, "x", 0.0))
    assert.same({ "drag" }, history:labels())
    history:undo()
    assert.equal("integer", math.type(doc.x))
  end)

  it("is not a field that holds false or another NaN key", function()
    local history, doc = make()
    history:run("false", function()
      doc.y = false
    end)
    assert.same({ "false" }, history:labels())
    history:undo()
    assert.is_nil(doc.y)
  end)
end)

describe("runs in two coroutines", function()
  it("are two steps, in the order of their ends", function()
    local history, doc = make()
    local one = begin_run(history, "one", set(doc, "x", 1))
    local two = begin_run(history, "two", set(doc, "y", 2))
    assert.same({}, history:labels())
    two()
    assert.same({ "two" }, history:labels())
    one()
    assert.same({ "two", "one" }, history:labels())
    assert.equal("one", history:undo())
    assert.same({ x = 0, y = 2 }, raw_of(doc))
    assert.equal("two", history:undo())
    assert.same({ x = 0 }, raw_of(doc))
    history:redo()
    history:redo()
    assert.same({ x = 1, y = 2 }, raw_of(doc))
  end)

  it("take nothing of each other when one fails", function()
    local history, doc = make()
    local one = coroutine.wrap(function()
      pcall(history.run, history, "one", function()
        doc.x = 1
        coroutine.yield()
        doc.x = 2
        error "!"
      end)
    end)
    one()
    local two = begin_run(history, "two", set(doc, "y", 2))
    one()
    assert.same({ x = 0, y = 2 }, raw_of(doc))
    two()
    assert.same({ "two" }, history:labels())
  end)

  it("leave the program free to undo and run", function()
    local history, doc = make()
    run_all(history, doc, 1)
    local one = begin_run(history, "one", set(doc, "y", 1))
    assert.equal("x = 1", history:undo())
    assert.equal(0, doc.x)
    assert.equal("x = 1", history:redo())
    history:run("main", set(doc, "z", 1))
    one()
    assert.same({ "x = 1", "main", "one" }, history:labels())
    history:undo()
    assert.same({ x = 1, z = 1 }, raw_of(doc))
  end)

  it("of one label are one stroke, when they end", function()
    local history, doc = make()
    history:merge "type"
    local one = begin_run(history, "type", set(doc, "x", 1))
    local two = begin_run(history, "type", set(doc, "y", 1))
    one()
    two()
    assert.same({ "type" }, history:labels())
    history:undo()
    assert.same({ x = 0 }, raw_of(doc))
  end)
end)

describe("a run in a run that goes through coroutines", function()
  it("is part of it: in a generator that the run drives", function()
    local history, doc = make()
    history:run("outer", function()
      local generator = coroutine.wrap(function()
        for i = 1, 3 do
          history:run("inner", set(doc, "x", i))
          doc["f" .. i] = i
          coroutine.yield()
        end
      end)
      for _ = 1, 3 do generator() end
    end)
    assert.same({ "outer" }, history:labels())
    history:undo()
    assert.same({ x = 0 }, raw_of(doc))
  end)

  it("is none if the generator began before", function()
    local history, doc = make()
    local generator = coroutine.wrap(function()
      history:run("generator", function()
        doc.y = 1
        coroutine.yield()
        doc.y = 2
      end)
    end)
    generator()
    history:run("main", function()
      doc.x = 1
      generator()
    end)
    assert.same({ "generator", "main" }, history:labels())
    history:undo()
    assert.same({ x = 0, y = 2 }, raw_of(doc))
  end)

  it("in a transaction in the run", function()
    local history, doc = make()
    history:run("outer", function()
      mw.transaction(function()
        history:run("inner", set(doc, "x", 1))
        error "!"
      end)
      mw.transaction(history.run, history, "inner", set(doc, "y", 1))
    end)
    assert.same({ "outer" }, history:labels())
    assert.same({ x = 0, y = 1 }, raw_of(doc))
    history:undo()
    assert.same({ x = 0 }, raw_of(doc))
  end)

  it("of another history is a step there, and gone with the outer one",
    function()
      local history, doc = make()
      local other = mw.history()
      history:run("outer", function()
        other:run("inner", set(doc, "x", 1))
      end)
      assert.same({ "inner" }, other:labels())
      assert.same({ "outer" }, history:labels())
      pcall(history.run, history, "outer", function()
        other:run("lost", set(doc, "x", 2))
        error "!"
      end)
      assert.same({ "inner" }, other:labels())
      assert.equal(1, doc.x)
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

describe("a history in a transaction that is taken back", function()
  -- The steps 1 2 3, of which the last is undone; 2 is saved.
  local function world(opts)
    local history, doc = make(opts)
    for i = 1, 3 do history:run(tostring(i), set(doc, "x", i)) end
    history:undo()
    history:mark_saved()
    return history, doc
  end

  local function check(act, opts)
    local history, doc = world(opts)
    local before, content = steps_of(history), mw.plain(doc)
    assert.is_false(mw.transaction(function()
      act(history, doc)
      error "!"
    end))
    assert.same(content, mw.plain(doc))
    assert.is_true(history:is_saved())
    assert.equal(before, steps_of(history))
    history:undo()
    assert.is_false(history:is_saved())
    assert.equal(1, doc.x)
    history:redo()
    assert.is_true(history:is_saved())
    history:redo()
    assert.equal(3, doc.x)
  end

  local acts = {
    run = function(history, doc) history:run("new", set(doc, "y", 1)) end,
    runs = function(history, doc)
      for i = 1, 5 do history:run("new", set(doc, "x", i)) end
    end,
    undo = function(history) history:undo() end,
    ["all undone"] = function(history) repeat until not history:undo() end,
    redo = function(history) history:redo() end,
    ["undo and run"] = function(history, doc)
      history:undo()
      history:undo()
      history:run("new", set(doc, "x", 7))
      history:run("new", set(doc, "x", 8))
      history:undo()
    end,
    ["runs that merge"] = function(history, doc)
      history:merge "new"
      for i = 1, 5 do history:run("new", set(doc, "x", i)) end
      history:undo()
      history:run("new", set(doc, "x", 5))
    end,
    ["runs that cancel out"] = function(history, doc)
      history:merge "new"
      history:run("new", set(doc, "x", 7))
      history:run("new", set(doc, "x", 2))
      assert.is_true(history:is_saved())
    end,
    ["a join"] = function(history, doc)
      history:run("new", set(doc, "x", 7))
      history:run("new", set(doc, "x", 8))
      history:merge "new"
    end,
    ["transactions inside"] = function(history, doc)
      mw.transaction(function()
        history:run("new", set(doc, "x", 7))
        mw.transaction(function()
          history:undo()
          history:undo()
          error "!"
        end)
        history:undo()
        mw.transaction(history.undo, history)
      end)
      history:run("new", set(doc, "x", 8))
    end,
  }
  for name, act in pairs(acts) do
    it("is as before: " .. name, function() check(act) end)
    it("is as before, with a limit: " .. name, function()
      check(act, { limit = 3 })
    end)
    it("is as before, with a window: " .. name, function()
      check(act, { merge_window = 1e6 })
    end)
  end

  it("merges as before", function()
    local history, doc = make()
    history:merge "type"
    history:run("type", set(doc, "x", 1))
    mw.transaction(function()
      history:run("type", set(doc, "x", 2))
      history:run("other", set(doc, "y", 2))
      error "!"
    end)
    history:run("type", set(doc, "x", 3))
    assert.same({ "type" }, history:labels())
    history:undo()
    assert.equal(0, doc.x)
  end)

  it("has the stroke again that was cancelled out", function()
    local history, doc = make()
    history:merge "type"
    history:run("type", set(doc, "x", 1))
    history:run("type", set(doc, "x", 2))
    mw.transaction(function()
      history:run("type", set(doc, "x", 0))
      assert.same({}, history:labels())
      error "!"
    end)
    assert.same({ "type" }, history:labels())
    history:undo()
    assert.equal(0, doc.x)
    history:redo()
    assert.equal(2, doc.x)
  end)

  it("takes steps apart that were joined there", function()
    local history, doc = make()
    run_all(history, doc, 1, 2)
    for i = 3, 5 do history:run("type", set(doc, "x", i)) end
    history:mark_saved()
    mw.transaction(function()
      history:merge "type"
      assert.equal(3, #history:labels())
      history:run("type", set(doc, "x", 6))
      error "!"
    end)
    assert.equal(5, #history:labels())
    assert.is_true(history:is_saved())
    history:undo()
    assert.equal(4, doc.x)
    history:redo()
    history:run("type", set(doc, "x", 6))
    assert.equal(6, #history:labels())
  end)

  it("is not saved if it was saved there", function()
    local history, doc = world()
    mw.transaction(function()
      history:run("new", set(doc, "x", 7))
      history:mark_saved()
      error "!"
    end)
    assert.is_false(history:is_saved())
    history:redo()
    assert.is_false(history:is_saved())
    local other
    other, doc = world()
    mw.transaction(function()
      other:undo()
      other:mark_saved()
      error "!"
    end)
    assert.is_false(other:is_saved())
    other:undo()
    assert.equal(1, doc.x)
    assert.is_true(other:is_saved())
  end)

  it("is not saved if it was saved with a run of a stroke that is taken back",
    function()
      local history, doc = make()
      history:merge "type"
      history:run("type", set(doc, "x", 1))
      mw.transaction(function()
        history:run("type", set(doc, "x", 2))
        history:mark_saved()
        error "!"
      end)
      assert.is_false(history:is_saved())
    end)

  -- Acts that join the last steps, which cancel out, in one order or another.
  local JOINS = {
    ["at once"] = function(history) history:merge "type" end,
    ["then a run"] = function(history, doc)
      history:merge "type"
      history:run("type", set(doc, "x", 5))
    end,
    ["after a step that is undone"] = function(history, doc)
      history:run("other", set(doc, "x", 5))
      history:undo()
      history:merge "type"
    end,
    ["in a transaction that is committed"] = function(history)
      assert(mw.transaction(history.merge, history, "type"))
    end,
    ["in a transaction that is taken back as well"] = function(history, doc)
      mw.transaction(function()
        history:merge "type"
        error "inner"
      end)
      history:run("type", set(doc, "x", 5))
    end,
  }

  for name, act in pairs(JOINS) do
    it("is saved as before, when steps were joined that cancel out, " .. name,
      function()
        for saved = 0, 3 do
          for _, window in ipairs { false, 1e6 } do
            local history, doc = make { merge_window = window or nil }
            for i, x in ipairs { 1, 2, 0 } do
              if saved == i - 1 then history:mark_saved() end
              history:run("type", set(doc, "x", x))
            end
            if saved == 3 then history:mark_saved() end
            mw.transaction(function()
              act(history, doc)
              error "outer"
            end)
            assert.same({ "type", "type", "type" }, history:labels())
            for i = 3, 0, -1 do
              assert.equal(saved == i, history:is_saved())
              history:undo()
            end
          end
        end
      end)
  end

  it("is saved when what was saved is joined with what it cancels out",
    function()
      local history, doc = make()
      history:run("type", set(doc, "x", 1))
      history:run("type", set(doc, "x", 0))
      history:mark_saved()
      assert(mw.transaction(history.merge, history, "type"))
      assert.same({}, history:labels())
      assert.is_true(history:is_saved())
    end)

  it("is as it is if the transaction is committed", function()
    local history, doc = world()
    mw.transaction(function()
      history:undo()
      history:run("new", set(doc, "x", 7))
    end)
    assert.equal("1 new|", steps_of(history))
    history:undo()
    assert.equal(1, doc.x)
  end)
end)

describe("steps of others", function()
  it("stay when a transaction is taken back", function()
    local history, doc = make()
    run_all(history, doc, 1)
    local one = begin_transaction(function()
      history:run("one", set(doc, "y", 1))
    end)
    history:run("main", set(doc, "z", 1))
    one(true)
    assert.same({ "x = 1", "main" }, history:labels())
    history:undo()
    assert.same({ x = 1 }, raw_of(doc))
    history:redo()
    assert.same({ x = 1, z = 1 }, raw_of(doc))
  end)

  it("stay when their undone steps were dropped meanwhile", function()
    local history, doc = make()
    run_all(history, doc, 1, 2)
    history:undo()
    local one = begin_transaction(function()
      history:run("one", set(doc, "y", 1))
    end)
    history:run("main", set(doc, "z", 1))
    one(true)
    assert.equal("x = 1 main|", steps_of(history))
    assert.same({ x = 1, z = 1 }, raw_of(doc))
  end)

  it("and what they dropped come back when all are taken back", function()
    for _, order in ipairs { { 1, 2 }, { 2, 1 } } do
      local history, doc = make { limit = 2 }
      run_all(history, doc, 1, 2, 3)
      history:undo()
      local all = {
        begin_transaction(function() history:run("a", set(doc, "a", 1)) end),
        begin_transaction(function()
          history:run("b", set(doc, "b", 1))
          history:run("c", set(doc, "c", 1))
        end),
      }
      assert.equal("b c|", steps_of(history))
      for _, i in ipairs(order) do all[i](true) end
      assert.equal("x = 2|x = 3", steps_of(history))
      history:undo()
      assert.equal(1, doc.x)
    end
  end)

  it("stay after an undo that is taken back", function()
    local history, doc = make()
    run_all(history, doc, 1, 2)
    local one = begin_transaction(function()
      assert.equal("x = 2", history:undo())
    end)
    history:run("main", set(doc, "z", 1))
    assert.equal("x = 1 main|", steps_of(history))
    one(true)
    assert.equal("x = 1 x = 2 main|", steps_of(history))
    for _ = 1, 3 do assert(history:undo()) end
    assert.same({ x = 0 }, raw_of(doc))
    for _ = 1, 3 do assert(history:redo()) end
    assert.same({ x = 2, z = 1 }, raw_of(doc))
  end)

  it("stay after a redo that is taken back", function()
    local history, doc = make()
    run_all(history, doc, 1, 2)
    history:undo()
    local one = begin_transaction(function()
      assert.equal("x = 2", history:redo())
    end)
    history:run("main", set(doc, "z", 1))
    one(true)
    assert.equal("x = 1 main|", steps_of(history))
    assert.same({ x = 1, z = 1 }, raw_of(doc))
    for _ = 1, 2 do assert(history:undo()) end
    assert.same({ x = 0 }, raw_of(doc))
  end)

  it("stay in a stroke of which a part is taken back", function()
    local history, doc = make()
    history:merge "type"
    history:run("type", set(doc, "x", 1))
    local one = begin_transaction(function()
      history:run("type", set(doc, "y", 1))
    end)
    history:run("type", set(doc, "z", 1))
    one(true)
    assert.same({ "type" }, history:labels())
    assert.same({ x = 1, z = 1 }, raw_of(doc))
    history:undo()
    assert.same({ x = 0 }, raw_of(doc))
    history:redo()
    assert.same({ x = 1, z = 1 }, raw_of(doc))
  end)

  it("stay in a stroke that a run began which is taken back", function()
    local history, doc = make()
    history:merge "type"
    local one = begin_transaction(function()
      history:run("type", set(doc, "y", 1))
    end)
    history:run("type", set(doc, "x", 1))
    assert.same({ "type" }, history:labels())
    one(true)
    assert.same({ "type" }, history:labels())
    history:undo()
    assert.same({ x = 0 }, raw_of(doc))
  end)

  it("are not saved if what is taken back was saved with them", function()
    local history, doc = make()
    local one = begin_transaction(function()
      history:run("one", set(doc, "y", 1))
    end)
    history:run("main", set(doc, "z", 1))
    history:mark_saved()
    one(true)
    assert.is_false(history:is_saved())
  end)
end)

describe("a limit and strokes", function()
  it("that cancel out leave room for no more steps than before", function()
    local history, doc = make { limit = 2 }
    history:merge "type"
    run_all(history, doc, 1, 2)
    history:run("type", set(doc, "y", 1))
    assert.same({ "x = 2", "type" }, history:labels())
    history:run("type", set(doc, "y", nil))
    assert.same({ "x = 2" }, history:labels())
    run_all(history, doc, 3, 4)
    assert.same({ "x = 3", "x = 4" }, history:labels())
    history:undo()
    history:undo()
    assert.equal(2, doc.x)
  end)

  it("of one", function()
    local history, doc = make { limit = 1 }
    history:merge "type"
    run_all(history, doc, 1)
    history:mark_saved()
    history:run("type", set(doc, "x", 2))
    history:run("type", set(doc, "x", 3))
    assert.same({ "type" }, history:labels())
    history:undo()
    assert.equal(1, doc.x)
    assert.is_true(history:is_saved())
    history:run("type", set(doc, "x", 2))
    history:run("type", set(doc, "x", 1))
    assert.same({}, history:labels())
    assert.is_true(history:is_saved())
  end)

  it("taken back", function()
    local history, doc = make { limit = 1 }
    history:merge "type"
    run_all(history, doc, 1)
    history:mark_saved()
    mw.transaction(function()
      for i = 2, 5 do
        history:run("type", set(doc, "x", i))
        history:seal()
      end
      error "!"
    end)
    assert.same({ "x = 1" }, history:labels())
    assert.is_true(history:is_saved())
    history:undo()
    assert.equal(0, doc.x)
    assert.is_false(history:is_saved())
  end)
end)

describe("a history with transactions that are taken back", function()
  local KEYS, LABELS = { "x", "y", "z" }, { "a", "b", "type", "drag" }
  local random = math.random

  -- Returns an act that does the same in each world, number `most` of ten kinds
  -- at most.
  local function any_act(most)
    local dice, label = random(most), LABELS[random(#LABELS)]
    if dice <= 5 then
      local writes = {}
      for i = 1, random(2) do
        writes[i] = { KEYS[random(#KEYS)], random(3) > 1 and random(2) or nil }
      end
      return function(history, doc)
        history:run(label, function()
          for _, write in ipairs(writes) do doc[write[1]] = write[2] end
        end)
      end
    end
    if dice == 6 then return function(history) history:merge(label) end end
    if dice == 10 then return function(history) history:mark_saved() end end
    local name = ({ "undo", "undo", "redo", "seal" })[random(4)]
    return function(history) history[name](history) end
  end

  local function acts(n, most)
    local list = {}
    for i = 1, n do list[i] = any_act(most or 10) end
    return list
  end

  local function perform(list, history, doc)
    for _, act in ipairs(list) do act(history, doc) end
  end

  local function state(history, doc)
    return table.concat({
      table.concat(history:labels(), " "), tostring(history:can_redo()),
      tostring(history:is_saved()),
      tostring(doc.x), tostring(doc.y), tostring(doc.z),
    }, "; ")
  end

  -- What there is to undo and do again, and at which values.
  local function whole(history, doc)
    local list = {}
    repeat
      list[#list + 1] = state(history, doc)
    until not history:undo()
    repeat
      list[#list + 1] = state(history, doc)
    until not history:redo()
    return table.concat(list, "\n")
  end

  -- One world has transactions that are taken back, one has not.  In these
  -- nobody saves: a save is not taken back.
  local function check_round()
    local opts = { limit = random(6), merge_window = ({ nil, 1e6 })[random(2)] }
    local one, its = make(opts)
    local other, others = make(opts)
    for _ = 1, 20 do
      local list = acts(random(4))
      perform(list, one, its)
      perform(list, other, others)
      local lost, more, kept = acts(random(5), 9), acts(random(2), 9),
        acts(random(2))
      mw.transaction(function()
        perform(lost, one, its)
        mw.transaction(function()
          perform(more, one, its)
          if random(2) == 1 then error "inner" end
        end)
        perform(more, one, its)
        error "outer"
      end)
      assert.equal(state(other, others), state(one, its))
      mw.transaction(perform, kept, one, its)
      mw.transaction(perform, kept, other, others)
    end
    assert.equal(whole(other, others), whole(one, its))
  end

  it("is as one without them", function()
    for _ = 1, 20 do with_seed(check_round) end
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

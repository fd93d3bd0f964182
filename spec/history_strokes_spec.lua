local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local histories = require "spec.support.histories"

local make, set, run_all = histories.make, histories.set, histories.run_all

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

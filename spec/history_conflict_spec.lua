local mw = require "moonwatch"
local misuse = require "spec.support.misuse"
local error_of = require "spec.support.error_of"
local raw_of = require "spec.support.raw_of"
local histories = require "spec.support.histories"

local make, run_all = histories.make, histories.run_all

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

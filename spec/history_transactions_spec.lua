local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local with_seed = require "spec.support.with_seed"
local histories = require "spec.support.histories"

local make, set, run_all = histories.make, histories.set, histories.run_all
local begin_run, steps_of = histories.begin_run, histories.steps_of
local begin_transaction = histories.begin_transaction

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

  it("are runs of their own in one whose outer run has ended", function()
    local history, doc = make()
    local inner = coroutine.wrap(function()
      history:run("inner", function()
        coroutine.yield()
        history:run("last", set(doc, "y", 2))
        assert.equal("last", history:undo())
        history:redo()
      end)
    end)
    history:run("outer", function()
      inner()
      doc.x = 1
    end)
    inner()
    assert.same({ "outer", "last" }, history:labels())
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

  -- Saves after an act, both of which are taken back.
  local function save_and_fail(history, act, ...)
    mw.transaction(function(...)
      act(history, ...)
      history:mark_saved()
      error "!"
    end, ...)
    assert.is_false(history:is_saved())
  end

  it("is not saved if it was saved there", function()
    local history, doc = world()
    save_and_fail(history, history.run, "new", set(doc, "x", 7))
    history:redo()
    assert.is_false(history:is_saved())
    local other
    other, doc = world()
    save_and_fail(other, other.undo)
    other:undo()
    assert.equal(1, doc.x)
    assert.is_true(other:is_saved())
  end)

  it("is not saved if it was saved with a run of a stroke that is taken back",
    function()
      local history, doc = make()
      history:merge "type"
      history:run("type", set(doc, "x", 1))
      save_and_fail(history, history.run, "type", set(doc, "x", 2))
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

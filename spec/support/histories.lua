-- Histories, and documents that they are about, for specs.

local mw = require "moonwatch"

local histories = {}

-- A history and a document that it is about.
function histories.make(opts)
  return mw.history(opts), mw.track { x = 0 }
end

function histories.set(doc, key, value)
  return function() doc[key] = value end
end

-- Runs a step a value, named after it.
function histories.run_all(history, doc, ...)
  for _, value in ipairs { ... } do
    history:run("x = " .. value, histories.set(doc, "x", value))
  end
end

-- Begins a coroutine that runs a step and waits within it.  Returns a function
-- that ends the run.
function histories.begin_run(history, label, write)
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
function histories.begin_transaction(act)
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
function histories.steps_of(history)
  local done, undone = history:labels(), {}
  while history:can_redo() do
    undone[#undone + 1] = assert(history:redo())
  end
  for _ = 1, #undone do assert(history:undo()) end
  return table.concat(done, " ") .. "|" .. table.concat(undone, " ")
end

return histories

-- Transactions and histories against what one writes by hand in Lua: a proxy
-- that logs tables of object, key, old and new value; a transaction is a pcall,
-- which plays the log backwards on error.

local LOG, HAND = "a Lua undo log", "an undo log by hand"

local function row(name, way, aim)
  return { name = name, measure = "statements", against = LOG,
    base = "log_" .. way, ours = "transaction_" .. way, aim = aim }
end

local function step(name, figure, aim)
  return { name = name, measure = "history", figure = figure, against = HAND,
    base = "by_hand", ours = "history", aim = aim }
end

return {
  row("a transaction of one write", "of_one", 1.5),
  row("... of ten", "of_ten", 0.8),
  row("... that fails", "failing", 2.0),
  row("begin, a write, commit", "begun", 2.0),
  step("a run of one write in a history", 1, 13),
  step("... undone", 2, 50),
  step("... done again", 3, 55),
  { name = "eight frames of 200 writes, checked", measure = "replay",
    against = "3 x frames, and 2 ms", base = "frames", ours = "checked",
    unit = "us", aim = 1 },
  { name = "bytes of such a step", measure = "live_history", apart = true,
    against = HAND, base = "by_hand", ours = "history", unit = "bytes",
    most = 500 },
}

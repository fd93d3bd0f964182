-- Effects: what a recorded write costs, and to take it back.

local FLOOR, LOG = "a C __newindex", "a Lua undo log"

return {
  { name = "a recorded write", measure = "record",
    against = FLOOR, base = "floor", ours = "tracked", aim = 3 },
  { name = "a recorded write", measure = "record",
    against = LOG, base = "undo_log", ours = "tracked", aim = 0.5 },
  { name = "a recorded write", measure = "record",
    against = "a flat one, undo only", base = "flat_log",
    ours = "tracked" },
  { name = "rollback of 1,000, a write", measure = "undo",
    against = "those writes", base = "writes", ours = "few" },
  { name = "rollback of 100,000, a write", measure = "undo",
    against = "of 1,000", base = "few", ours = "many", rounds = 5 },
  { name = "rollback, of 10,000 fields", measure = "undo",
    against = "of 10 fields", base = "few", ours = "heavy", aim = 1.2 },
  { name = "one of 1,000 rows: undoable", measure = "row", apart = true,
    against = "a copy of all", base = "copy", ours = "transaction",
    zero = "write", unit = "us", most = 2 },
}

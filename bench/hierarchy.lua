-- Hierarchies: what a method call costs more.

local COUNTS = "a stack and counts"

return {
  { name = "enter and leave", measure = "calls",
    against = COUNTS, base = "counts", ours = "enter", aim = 1.7 },
  { name = "an instrumented method", measure = "calls",
    against = COUNTS, base = "counts", ours = "instrument" },
  { name = "enter and leave, 4 deep", measure = "calls",
    against = COUNTS, base = "counts_deep", ours = "enter_deep", aim = 2.2 },
  { name = "with a hook that does nothing", measure = "calls",
    against = COUNTS, base = "counts", ours = "hooks" },
}

-- Dynamism: what it costs to learn what varies, and to test for it.

local KINDS, SETS = "Lua, paths as text", "Lua, 1 is 1.0"

return {
  { name = "100 examples of 1,000, each", measure = "examples",
    against = KINDS, base = "kinds", ours = "report", unit = "us",
    aim = 1 },
  { name = "100 examples of 1,000, each", measure = "examples",
    against = SETS, base = "sets", ours = "report", unit = "us" },
  { name = "one more after 1,000", measure = "more_examples",
    against = KINDS, base = "kinds", ours = "report", unit = "us",
    aim = 1 },
  { name = "one more after 1,000", measure = "more_examples",
    against = SETS, base = "sets", ours = "report", unit = "us" },
  { name = "memory after 1,000", measure = "memory_examples", apart = true,
    against = KINDS, base = "kinds", ours = "report", unit = "KB",
    rounds = 1 },
}

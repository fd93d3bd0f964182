-- Policies: what a decision costs.

return {
  { name = "20 rules, unknown class", measure = "unknown_class",
    against = "20 Lua functions", base = "call_20", ours = "file_20",
    most = 10000 },
  { name = "the default policy", measure = "decide",
    against = "a Lua function", base = "call", ours = "default" },
}

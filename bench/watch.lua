-- Watch: what a watched object costs to write and to read, in memory and in
-- pauses.

local PROXY, FLOOR = "a pure Lua proxy", "a C __newindex"
local OBVIOUS, HIDE = "userdata with __gc", "a shadow in Lua"

return {
  { name = "a counted write", measure = "write_one",
    against = FLOOR, base = "floor", ours = "counted", aim = 1.5 },
  { name = "a counted write", measure = "write_one",
    against = PROXY, base = "proxy", ours = "counted", aim = 0.8 },
  { name = "an idle write", measure = "write_one",
    against = "__newindex = table", base = "shadow", ours = "idle",
    aim = 1.15 },
  { name = "an armed write", measure = "write_one",
    against = PROXY, base = "calling", ours = "armed", rounds = 3 },
  { name = "a write ten tables below", measure = "write_one",
    against = "an armed write", base = "armed", ours = "deep", rounds = 3 },
  { name = "a read", measure = "read_one",
    against = "__index = table", base = "shadow", ours = "counted",
    aim = 1.15 },
  { name = "watch and unwatch", measure = "points",
    against = HIDE, base = "hide_show", ours = "watch_unwatch",
    rounds = 3 },
  { name = "a deep watch, each table", measure = "points",
    against = HIDE, base = "hide_show", ours = "watch_deeply", rounds = 3 },
  { name = "100,000 guards: one invalid", measure = "invalidate",
    against = "guard.valid = false", base = "pure", ours = "one_write",
    rounds = 5, most = 30 },
  { name = "100,000 watched: pause", measure = "pause_points", apart = true,
    against = OBVIOUS, base = "obvious", ours = "watch", zero = "none",
    unit = "ms", rounds = 5, aim = 0.25 },
  { name = "100,000 watched: pause, small", measure = "pause_points_small",
    apart = true,
    against = OBVIOUS, base = "obvious", ours = "watch", zero = "none",
    unit = "ms", rounds = 5, aim = 0.25 },
  { name = "100,000 watched: memory of one", measure = "memory_points",
    apart = true,
    against = HIDE, base = "hide", ours = "watch",
    unit = "bytes", rounds = 3, most = 450 },
}

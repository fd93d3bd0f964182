-- Traces: what a scope costs, traced or not, and to write what was traced.

local LUA = "string.format"

return {
  { name = "a scope, traced", measure = "scope",
    against = "2 clocks, 2 tables", base = "clocks", ours = "on", aim = 0.35 },
  { name = "a scope, nothing traced", measure = "scope",
    against = "<close> in Lua", base = "call", ours = "off", aim = 1.5 },
  { name = "a write, traced", measure = "scope",
    against = "a C __newindex", base = "write", ours = "traced_write" },
  { name = "a million events, written", measure = "events",
    against = LUA, base = "lua", ours = "engine", unit = "ms", rounds = 3,
    aim = 1 / 5 },
  { name = "a million events, written", measure = "events",
    against = LUA, base = "lua", ours = "engine", unit = "ms", rounds = 3,
    most = 1000 },
}

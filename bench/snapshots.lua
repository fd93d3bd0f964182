-- Snapshots and hashes: what it costs to write a world of 50,000 tables, to
-- read it, and to know whether it is the same.

return {
  { name = "50,000 tables: a snapshot", measure = "snapshots",
    against = "a Lua serialiser", base = "lua_write", ours = "snapshot",
    unit = "us", rounds = 3, aim = 1 / 3 },
  { name = "50,000 tables: restored", measure = "snapshots",
    against = "a Lua loader", base = "lua_read", ours = "restore",
    unit = "us", rounds = 3, aim = 1 / 3 },
  { name = "50,000 tables: a hash", measure = "snapshots",
    against = "a snapshot", base = "snapshot", ours = "hash", unit = "us",
    rounds = 3, aim = 1.2 },
}

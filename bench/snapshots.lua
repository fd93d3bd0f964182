-- Snapshots and hashes: what it costs to write a world of 50,000 tables, to
-- read it, and to know whether it is the same.

return {
  { name = "50,000 tables: a snapshot", measure = "snapshots",
    against = "a Lua serialiser", base = "lua_write", ours = "snapshot",
    unit = "us", rounds = 3, aim = 1 / 3 },
  { name = "50,000 tables: restored", measure = "snapshots",
    against = "a Lua loader", base = "lua_read", ours = "restore",
    unit = "us", rounds = 3, aim = 1 / 3 },
  { name = "50,000 tables: a hash by a walk", measure = "snapshots",
    against = "a snapshot", base = "snapshot", ours = "walk", unit = "us",
    rounds = 3, aim = 1.5 },
  { name = "a hash after 1 change in 50,000", measure = "snapshots",
    against = "in 500", base = "hash_few", ours = "hash", unit = "us",
    rounds = 3, most = 20 },
  { name = "a hash after 1 object more", measure = "snapshots",
    against = "in 500", base = "come_few", ours = "come", unit = "us",
    rounds = 3, most = 20 },
  { name = "a hash after 1 object moved", measure = "snapshots",
    against = "in 500", base = "move_few", ours = "move", unit = "us",
    rounds = 3, most = 20 },
  { name = "a write, when a hash was asked for", measure = "snapshots",
    against = "a write below a root", base = "write", ours = "write_hashed",
    unit = "ns", rounds = 3, aim = 3 },
}

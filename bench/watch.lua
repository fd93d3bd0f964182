-- Watch: what a watched object costs to write and to read, in memory and in
-- pauses.

local FLOOR, PROXY = "a C __newindex", "a Lua proxy"
local CALLING, TREE = "a proxy with pcall", "a tree of proxies"
local OBVIOUS, HIDE = "userdata with __gc", "a shadow in Lua"

local function statement(name, against, base, ours, aim)
  return { name = name, measure = "statements", against = against,
    base = base, ours = ours, aim = aim }
end

local function write(name, ...) return statement("a write: " .. name, ...) end

return {
  -- Nobody waits for the write.
  write("cancelled", FLOOR, "floor", "cancelled", 1.5),
  write("cancelled", "a proxy that counts", "counting", "cancelled", 0.8),
  write("once, fired", FLOOR, "floor", "fired", 1.5),
  write("other objects' guards", FLOOR, "floor", "others", 1.5),
  write("tracked", FLOOR, "floor", "tracked", 1.5),
  write("3 below a deep track", FLOOR, "floor", "below_tracked", 1.5),
  write("3 below, another root heard", FLOOR, "floor", "below_others",
    1.5),
  write("3 below, once, fired", FLOOR, "floor", "below_fired", 1.5),
  write("3 below, cancelled", FLOOR, "floor", "below_cancelled", 1.5),
  write("another key", FLOOR, "floor", "other_key", 1.5),
  write("another key, 100 guards", FLOOR, "floor", "other_key_100", 1.5),
  write("100 keys, a guard each", FLOOR, "floor", "other_keys_100", 1.5),
  write("100 keys, one guard", FLOOR, "floor", "other_list", 1.5),
  write("another key, 2,000 dead", FLOOR, "floor", "other_key_dead", 1.5),
  write("another key, 1,000 cancelled", FLOOR, "floor",
    "other_key_cancelled", 1.5),

  -- Somebody does.
  write("a flag", FLOOR, "floor", "flag", 1.6),
  write("a flag", "a proxy with a flag", "proxy_flag", "flag"),
  write("a function", CALLING, "proxy", "guard", 1),
  write("a method", CALLING, "proxy", "method"),
  write("a function, its key", "listeners by key", "proxy_key", "key"),
  write("a function, after", CALLING, "proxy", "after"),
  write("10 functions", CALLING, "proxy_10", "guards_10", 0.8),
  write("3 below", TREE, "proxy_below_3", "below_3", 1),
  write("10 below", TREE, "proxy_below_10", "below_10"),
  write("3 below, a flag", "a tree with a flag", "proxy_below_flag",
    "below_flag"),
  write("in a transaction", "proxy, undo log", "proxy_in_transaction",
    "in_transaction"),
  write("in a batch", "proxy, batch", "proxy_in_batch", "in_batch"),
  statement("a batch of 2 writes", "proxy, batch", "proxy_batch", "batch",
    1.2),
  write("traced", "proxy, events", "proxy_traced", "traced"),

  -- Reading, lists.
  statement("a read", "__index = table", "read_shadow", "read", 1.15),
  statement("pairs, 100 fields", "pairs", "pairs_plain", "pairs", 2),
  statement("pairs, 100 fields", "a proxy's __pairs", "pairs_proxy", "pairs"),
  statement("pairs, 100 elements", "pairs", "pairs_list_plain", "pairs_list",
    2),
  statement("#", "a proxy's __len", "length_proxy", "length", 1),
  statement("a list's front", "a proxy list", "front_proxy", "front", 1),
  statement("a list's back", "a proxy list", "back_proxy", "back", 1),
  statement("a list's front, a function", "a calling list", "front_calling",
    "front_heard", 1),
  statement("a list's back, a function", "a calling list", "back_calling",
    "back_heard", 1),

  { name = "first watch", measure = "first_watch",
    against = "making a proxy", base = "first_proxy", ours = "first_watch",
    aim = 3.5 },
  { name = "watch and unwatch", measure = "points",
    against = HIDE, base = "hide_show", ours = "watch_unwatch",
    rounds = 3 },
  { name = "a deep watch, each table", measure = "points",
    against = HIDE, base = "hide_show", ours = "watch_deeply", rounds = 3 },
  { name = "100,000 guards: one invalid", measure = "invalidate",
    against = "guard.valid = false", base = "pure", ours = "one_write",
    rounds = 3, most = 30 },
  { name = "guards in guards: how deep", measure = "nesting", apart = true,
    against = PROXY, base = "proxies", ours = "watched", unit = "calls",
    rounds = 1, least = 90 },

  { name = "100,000 watched: pause", measure = "pause_points", apart = true,
    against = OBVIOUS, base = "obvious", ours = "watch", zero = "none",
    unit = "ms", rounds = 3, aim = 0.25 },
  { name = "100,000 watched: pause, small", measure = "pause_points_small",
    apart = true,
    against = OBVIOUS, base = "obvious", ours = "watch", zero = "none",
    unit = "ms", rounds = 3, aim = 0.25 },
  { name = "100,000 watched: memory added", measure = "memory_points",
    apart = true,
    against = HIDE, base = "hide", ours = "watch",
    unit = "bytes", rounds = 1, most = 450 },
  { name = "100,000 watched: live bytes", measure = "live", apart = true,
    against = PROXY, base = "proxy", ours = "watched",
    unit = "bytes", rounds = 1, most = 450 },
  { name = "100,000 watched: Lua's count", measure = "count", apart = true,
    against = PROXY, base = "proxy", ours = "watched",
    unit = "bytes", rounds = 1 },
  { name = "100,000 watched: resident", measure = "resident", apart = true,
    against = PROXY, base = "proxy", ours = "watched",
    unit = "bytes", rounds = 1 },
  { name = "an array of 131,072: live", measure = "live_large", apart = true,
    against = "nobody watches", base = "array", ours = "watched_array",
    unit = "KB", rounds = 1, aim = 1.1 },
  { name = "65,536 fields: live", measure = "live_large", apart = true,
    against = "nobody watches", base = "fields", ours = "watched_fields",
    unit = "KB", rounds = 1, aim = 1.1 },
}

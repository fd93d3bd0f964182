rockspec_format = "3.0"
package = "moonwatch"
version = "scm-1"
source = { url = "git+file://." }
description = {
  summary = "Tracks what happens to the objects of a Lua program",
  detailed = [[
    Weak identity and generations in a compact C engine: which object is this,
    is it still there, and which objects are new since a point in time.]],
  license = "MIT",
  labels = { "weak", "identity", "generation", "tracking", "tracing" },
}
supported_platforms = { "unix" }
dependencies = { "lua >= 5.4" }
external_dependencies = {
  KLIB = {}, -- khash.h there, else <khash.h> or <htslib/khash.h> anywhere
}
build = {
  type = "builtin",
  modules = {
    ["moonwatch.core"] = {
      sources = {
        "engine/check.c",
        "engine/clock.c",
        "engine/dump.c",
        "engine/engine.c",
        "engine/hierarchy.c",
        "engine/identity.c",
        "engine/journal.c",
        "engine/json.c",
        "engine/past.c",
        "engine/pool.c",
        "engine/reader.c",
        "engine/tally.c",
        "engine/trace.c",
        "engine/trace_file.c",
        "engine/tree.c",
        "engine/watch.c",
        "engine/bind/apply.c",
        "engine/bind/batch.c",
        "engine/bind/budget.c",
        "engine/bind/cell.c",
        "engine/bind/class.c",
        "engine/bind/clock.c",
        "engine/bind/coroutine.c",
        "engine/bind/effects.c",
        "engine/bind/entry.c",
        "engine/bind/guard.c",
        "engine/bind/hierarchy.c",
        "engine/bind/history.c",
        "engine/bind/identity.c",
        "engine/bind/key.c",
        "engine/bind/lane.c",
        "engine/bind/library.c",
        "engine/bind/memo.c",
        "engine/bind/options.c",
        "engine/bind/plain.c",
        "engine/bind/policy.c",
        "engine/bind/reads.c",
        "engine/bind/restore.c",
        "engine/bind/rollback.c",
        "engine/bind/see_through.c",
        "engine/bind/shadow.c",
        "engine/bind/snapshot.c",
        "engine/bind/stores.c",
        "engine/bind/tally.c",
        "engine/bind/timed.c",
        "engine/bind/touch.c",
        "engine/bind/trace.c",
        "engine/bind/trace_args.c",
        "engine/bind/trace_file.c",
        "engine/bind/transaction.c",
        "engine/bind/trap.c",
        "engine/bind/tree.c",
        "engine/bind/userdata.c",
        "engine/bind/watch.c",
        "engine/bind/weakmap.c",
      },
      incdirs = { "$(KLIB_INCDIR)" },
    },
  },
  install = { bin = { moonwatch = "lua/moonwatch/cli.lua" } },
  copy_directories = { "types" },
}

-- What each room may weigh, in lines with comments and headers.
--
-- A row: the room, its aim, the most lines that the lint lets pass, and the
-- patterns of its files.  What is above its aim has its present weight as the
-- limit, so that it can only become less; a file belongs to the first row that
-- has it, and each file to one.

return {
  rooms = {
    { "moonwatch.h", 1200, 1200, "engine/moonwatch.h" },
    { "base", 1000, 1063, "engine/engine%.", "engine/pool%.",
      "engine/table%.", "engine/identity%.", "engine/clock%." },
    { "watch", 1150, 1232, "engine/watch%." },
    { "graph", 1300, 1721, "engine/tree%." },
    { "journal, reader", 1500, 1541, "engine/journal%.", "engine/reader%." },
    { "names, trace, json", 1900, 1900, "engine/hierarchy%.", "engine/trace%.",
      "engine/trace_file%.", "engine/json%." },
    { "check, dump", 800, 895, "engine/check%.", "engine/dump%." },
    { "bind/base: host", 252, 252, "bind/base/host%." },
    { "bind/base: later, state", 700, 700, "bind/base/later%.",
      "bind/base/state%." },
    { "bind/base", 1900, 2242, "bind/base/" },
    { "bind/traps", 2700, 2700, "bind/traps/" },
    { "bind/watch: tree", 600, 613, "bind/watch/tree%." },
    { "bind/watch", 1800, 2001, "bind/watch/" },
    { "bind/journal", 3700, 3857, "bind/journal/" },
    { "bind/readers: feed", 650, 1086, "bind/readers/feed%." },
    { "bind/readers", 750, 806, "bind/readers/" },
    { "bind/snapshot", 1600, 1600, "bind/snapshot/" },
    { "bind/names", 2000, 2000, "bind/names/" },
    { "bind/trace", 2600, 2600, "bind/trace/" },
    { "bind/box", 1100, 1100, "bind/box/" },
  },
  fields = { 24, 24 }, -- of the state, that all rooms share: aim, limit
  values = { 40, 40 }, -- and values in the registry
  lua = { 15000, 15000 }, -- lines below lua/
}

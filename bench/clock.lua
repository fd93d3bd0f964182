-- Clocks: what a tag costs in time, in memory and in pauses.

local WRITE, READ = "weak[obj] = n", "weak[obj]"
local OBVIOUS = "userdata with __gc"

return {
  { name = "clock:tag, first", measure = "first",
    against = WRITE, base = "write", ours = "tag", aim = 1.5 },
  { name = "clock:tag, again", measure = "again",
    against = WRITE, base = "write", ours = "tag", aim = 1.5 },
  { name = "clock:tag, again, shuffled", measure = "shuffled",
    against = WRITE, base = "write", ours = "tag", aim = 1.5 },
  { name = "clock:tag, after a collection", measure = "collected",
    against = WRITE, base = "write", ours = "tag", aim = 1.5 },
  { name = "clock:generation", measure = "again",
    against = READ, base = "read", ours = "generation" },
  { name = "clock:generation, shuffled", measure = "shuffled",
    against = READ, base = "read", ours = "generation" },
  { name = "clock:since, 10 of a million", measure = "newest",
    against = "a loop over weak", base = "write", ours = "tag",
    unit = "us", rounds = 3 },
  { name = "a million tags: pause", measure = "pause", apart = true,
    against = OBVIOUS, base = "obvious", ours = "tag", zero = "none",
    unit = "ms", rounds = 5, aim = 1 / 12 },
  { name = "a million tags: pause, small", measure = "pause_small",
    apart = true,
    against = OBVIOUS, base = "obvious", ours = "tag", zero = "none",
    unit = "ms", rounds = 3, aim = 1 / 12 },
  { name = "a million tags: memory of one", measure = "memory", apart = true,
    against = OBVIOUS, base = "obvious", ours = "tag",
    unit = "bytes", rounds = 3, most = 48 },
  { name = "a million tags: longest call", measure = "longest",
    against = WRITE, base = "write", ours = "tag",
    unit = "ms", rounds = 3 },
}

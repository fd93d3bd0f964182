-- Identity: serials and weak maps.

local WRITE, READ, NUMBER = "weak[obj] = n", "weak[obj]", "ids[obj] or a new"

return {
  { name = "a C method that does nothing", measure = "again",
    against = WRITE, base = "write", ours = "floor" },
  { name = "mw.id, first", measure = "first",
    against = NUMBER, base = "number", ours = "id" },
  { name = "mw.id, again", measure = "again",
    against = NUMBER, base = "number", ours = "id" },
  { name = "weakmap:get", measure = "again",
    against = WRITE, base = "write", ours = "get", aim = 2 },
  { name = "weakmap:get, shuffled", measure = "shuffled",
    against = WRITE, base = "write", ours = "get", aim = 2 },
  { name = "weakmap:get", measure = "again",
    against = READ, base = "read", ours = "get" },
  { name = "weakmap:get, shuffled", measure = "shuffled",
    against = READ, base = "read", ours = "get" },
  { name = "weakmap:set, new", measure = "first",
    against = WRITE, base = "write", ours = "set" },
  { name = "weakmap:set, overwriting", measure = "again",
    against = WRITE, base = "write", ours = "set" },
}

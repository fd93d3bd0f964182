-- Feeds against what one writes by hand in Lua: proxies that put a record of
-- object, key and old value into a list, one for each field that was written
-- since the last look, which is read with the values of now.
--
-- 1,000 fields of 50,000 objects are written between two looks; what is
-- measured is the writes with the look, and the look alone.

local LIST = "a Lua dirty list"

local function row(name, way, figure, aim)
  return { name = name, measure = "looks", figure = figure, against = LIST,
    base = "dirty_list", ours = way, aim = aim, apart = true }
end

return {
  row("written, and feed:changes, a change", "feed_changes", 1, 1),
  row("... below a root", "feed_changes_below", 1, 1),
  row("feed:changes alone", "feed_changes", 2),
  row("... below a root", "feed_changes_below", 2),
  { name = "feed:read alone, an entry", measure = "reads",
    against = LIST, base = "dirty_list", ours = "feed_read", apart = true,
    most = 100 },
  { name = "... one object of n has changed", grows = "feed_changes",
    aim = 4 },
  { name = "... one of n has come and gone", grows = "feed_moves", aim = 3 },
  { name = "... a table comes that holds a list of n from another",
    grows = "feed_states", aim = 4 },
  { name = "... one comes, another of n fields is written in a transaction",
    grows = "feed_beside", aim = 4 },
}

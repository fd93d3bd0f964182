-- Growth: what costs the same, each, however many there are.  The aim leaves
-- room for the processor's caches.

local AIM = 5

local function row(name, way, reach)
  return { name = name, grows = way, aim = AIM, reach = reach }
end

return {
  row("a write, n guards of a key each wait", "other_keys"),
  row("a write, n guards of another key wait", "other_key"),
  row("a write, n guards of another key are dead", "dead_of_other_key"),
  row("a write, n guards are dead", "dead"),
  row("a write, n other objects are watched", "other_objects"),
  row("a write, its guard is one of n keys'", "one_of_keys"),
  row("a write to n guards, each", "guards"),
  row("n watches cancelled, each", "cancel"),
  row("... the last first", "cancel_last"),
  row("... in any order", "cancel_shuffled"),
  row("mw.sync of n fields, each", "sync"),
  row("a rawset field of an object of n fields", "absorb"),
  row("... of an array of n", "absorb_array"),
  row("a write n below a deep watch, a level", "deep_write"),
  row("a write n below a deep flag, a level", "deep_flag"),
  row("a write n below a deep track", "deep_quiet"),
  row("a tracked list of n grows, a node", "chain"),
  row("... a flag hears", "chain_flag"),
  row("... at its front", "chain_front"),
  row("a list of n comes and goes, a node", "attach"),
  row("a path of 3 keys in a world of n, a watch", "path"),
  row("a table with n below it moves, out and in", "move"),
  row("n deep watches that share n tables, a pair", "roots", 1000),
  row("a write that n deep watches hear, each", "roots_write", 1000),
  row("a write below n roots that have fired", "roots_fired", 10000),
  row("a write that n deep watches hear in a batch", "roots_batch", 10000),
  row("n weak keys die below a deep watch, each", "weak_keys"),
  row("a batch of n objects, each", "batch"),
  row("a change below a chain of n memos, each", "memo_chain"),
  row("a change below n memos of a memo, each", "memo_fan"),
  row("a change below diamonds of n memos, each", "memo_diamonds"),
  row("a change of one of n memos", "memo_one"),
  row("a plan of n writes is made and applied, a write", "plan_apply"),
  row("... cloned", "plan_clone"),
  row("... compared", "plan_diff"),
  row("... pruned", "plan_prune"),
  row("n hooks of a plan are removed, each", "plan_hooks"),
  row("n scopes of a plan in each other, each", "plan_scopes"),
  { name = "to_bytes of one write among n", grows = "to_bytes", aim = 3 },
  { name = "to_patch of one write among n", grows = "to_patch", aim = 3 },
  { name = "to_lua of one write among n", grows = "to_lua", aim = 3 },
  { name = "only of one write among n", grows = "only", aim = 3 },
  row("to_bytes of n writes, each", "to_bytes_of"),
  row("to_bytes n below the root, a level", "deep_place"),
  row("a transaction that reads one of n", "reads"),
}

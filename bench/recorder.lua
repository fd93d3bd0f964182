-- Recorders: what a write costs that a recorder keeps, against one that a
-- transaction keeps; and what it costs to ask who wrote.

local TX = "one in a transaction"

local function row(name, way, aim)
  return { name = name, measure = "record", against = TX, base = "tracked",
    ours = way, aim = aim }
end

local function why(name, way)
  return { name = name, measure = "why", against = "the same",
    base = "why_there", ours = way, unit = "us", most = 20 }
end

return {
  row("a write with a recorder", "filling", 1.3),
  row("... whose ring is full", "full", 2),
  row("... that keeps the place", "placed", 3),
  { name = "longest step of the collector", measure = "pause_recorded",
    against = "without a recorder", base = "none", ours = "recorder",
    unit = "ms", aim = 1.1 },
  why("who wrote a field last", "why_there"),
  why("... when the ring has lost the entry", "why_kept"),
  why("... when 65,000 were taken back since", "why_taken"),
}

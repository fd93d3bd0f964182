-- Frames: a program that watches 50,000 entities, with one listener that keeps
-- a set of those that changed, as it runs and as it collects.

local function row(name, measure, figure, aim)
  return { name = name, measure = measure, figure = figure, apart = true,
    against = "proxies, dirty set", base = "proxies", ours = "watched",
    unit = "ms", rounds = 3, aim = aim }
end

return {
  row("a frame, incremental: median", "frames", 1, 1),
  row("a frame, incremental: p99", "frames", 2, 1),
  row("a frame, incremental: longest", "frames", 3),
  row("a frame, generational: median", "frames_young", 1, 1),
  row("a frame, generational: p99", "frames_young", 2, 1),
  row("a frame, generational: longest", "frames_young", 3),
  row("longest step, incremental", "steps", 1, 2.5),
  row("longest step, arrays of 1,000", "steps_small", 1, 2.5),
  row("longest young collection", "steps_young", 1, 2.5),
  row("longest collection of all", "steps_young", 2, 2.5),
}

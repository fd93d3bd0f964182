--- moonwatch: which object is this, which are new, and which have changed?
-- SPDX-License-Identifier: MIT
--
-- The core's functions are in the library from the start.  Each other field of
-- the library, and each method that is written in Lua, is loaded when the
-- program first asks for the field.

local core = require "moonwatch.core"

local private = core.private

-- The core takes the folder of this file for the folder of the library; a line
-- in that folder is no line of the program.
private.find_place()

-- Lua's own tables are classes: they are no part of any object's state.
local package = package or { loaded = {} }
for _, name in next, { "_G", "coroutine", "debug", "io", "math", "os",
  "package", "string", "table", "utf8" } do
  private.note_class(package.loaded[name])
end
for _, name in next, { "loaded", "preload", "searchers" } do
  private.note_class(package[name])
end

local MEMORY = "not enough memory"

-- Loads a module of the library.  `require` puts a text of its own around the
-- message when there is no memory.
local function load(module)
  local ok, result = pcall(require, "moonwatch." .. module)
  if ok then return result end
  local is_short = type(result) == "string" and
    string.find(result, MEMORY, 1, true)
  error(is_short and MEMORY or result, 0)
end

-- A function that loads a module and calls one of its functions.
local function deferred(module, name)
  return function(...) return load(module)[name](...) end
end

-- Gives a table fields that are loaded when they are first read: `modules` has
-- the module of each.  A module is the value of the field, or a table with that
-- value under the field's name.  The table is otherwise like any other: fields
-- can be set, and `pairs` loads and visits all.
local function defer(t, modules)
  local function load_field(_, name)
    local module = modules[name]
    if not module then return nil end
    local value = load(module)
    if type(value) == "table" then value = value[name] end
    if modules[name] then rawset(t, name, value) end -- else set meanwhile
    modules[name] = nil
    return value
  end
  for name in next, modules do rawset(t, name, nil) end -- another copy's
  return setmetatable(t, {
    __index = load_field,
    __newindex = function(_, name, value)
      rawset(t, name, value)
      modules[name] = nil
    end,
    __pairs = function()
      for name in next, modules do load_field(t, name) end
      return next, t, nil
    end,
  })
end

-- Methods of the core's objects.
defer(private.effects_methods, {
  apply = "effects.recorded", concat = "effects.recorded",
  conflicts = "effects.recorded", entries = "effects.recorded",
  invert = "effects.recorded", objects = "effects.recorded",
  only = "effects.only", reads = "effects.recorded",
  rollback = "effects.recorded",
  squash = "effects.recorded", to_bytes = "effects.bytes",
  to_lua = "effects.to_lua", to_patch = "effects.to_patch",
})
defer(private.trace_methods(), { write = "trace" })

-- What the core calls when an object is traced, when a scope is measured, and
-- when a watch is to be told of what is there, or compares the ends of a path.
private.keep("label", deferred("trace.label", "of"))
private.keep("timer", deferred("times", "closed"))
private.keep("existing", deferred("existing", "tell"))
private.keep("ends", deferred("ends", "term"))

local mw = {}
for name, value in next, core do mw[name] = value end
mw.private = nil

private.library(mw)
private.whole = mw

return defer(mw, {
  advance_frame = "times", array = "json", begin = "transaction",
  check_replay = "check_replay",
  cleanup = "cleanup", cleanup_for = "cleanup", context = "context",
  count = "counters", counted = "counters", counters = "counters",
  diff = "json.diff",
  dynamism = "dynamism.report", feed = "feed",
  frame = "times", hash = "snapshot",
  hierarchy = "hierarchy", history = "history", infer = "dynamism.infer",
  instrument = "instrument", is_dynamic = "policy", is_marked = "marks",
  load_policy = "policy", mark_dynamic = "marks",
  memo = "memo", metrics = "metrics", name_class = "policy",
  normalize_name = "path",
  object_like = "json", once = "once", patch = "json.patch",
  patch_bytes = "effects.bytes", paths = "paths", plan = "effects.plan",
  policy = "policy",
  refresh = "refresh", report_at_exit = "report_at_exit",
  recorder = "recorder",
  reset_counters = "counters", reset_frames = "times", reset_times = "times",
  restore = "snapshot", sandbox = "sandbox", see_through = "see_through",
  skeleton = "dynamism.skeleton", snapshot = "snapshot",
  time_spent = "times", times = "times", to_nested = "dynamism.nested",
  transaction = "transaction", weakmap = "weakmap", why = "recorder",
})

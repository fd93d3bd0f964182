--- mw.memo: results that are computed again only when they may have changed.
-- SPDX-License-Identifier: MIT
--
--     memo --> node: guard, watches of objects, below --> nodes of memos
--
-- The guard watches the objects, and follows the guards of the nodes below.  A
-- write makes all guards above invalid at once, in the engine; results are
-- computed when a program asks for them.  A node keeps neither the objects nor
-- its memo alive.  If only other memos depend on a memo, the memo can go: its
-- node still leads from its objects to those memos.
--
-- Invariants.  While a guard is valid, so are the guards of the nodes below:
-- else a write would not reach the guard.  So guards become valid from below,
-- before the functions run.  Results are kept only if the guard became valid
-- before the function ran and never became invalid since.

local check = require "moonwatch.check"
local core = require "moonwatch.core"

local metatable, guards = core.private.metatable, core.private.memo
local is_valid, set_valid = guards.is_valid, guards.set_valid
local pack, unpack = table.pack, table.unpack

local Memo, state_of, new = check.class "memo"

local WEAK = { __mode = "k" }

-- Node -> state of the memo, as long as both live.
local memo_of = setmetatable({}, { __mode = "kv" })

-- The options of `memo:on`, and those of a dependency without any.
local OPTIONS = { deep = true, key = true, keys = true, path = true,
  equal = true, when = true }
local KEPT = { once = false }

local function can_be_watched(obj)
  return type(obj) == "table" or
    type(obj) == "userdata" and metatable(obj) ~= nil
end

-- Watches an object.  The options may refer to the object, so they are kept as
-- long as the object lives.
local function watch(node, obj, opts)
  local watched = { handle = false, id = false, opts = false }
  if opts == KEPT then
    watched.id = core.id(obj)
  else
    watched.opts = setmetatable({ [obj] = opts }, WEAK)
  end
  node.watches[#node.watches + 1] = watched
  watched.handle = core.watch(obj, node.guard, opts)
end

local function follow(node, other)
  node.below[#node.below + 1] = other
  guards.follow(node.guard, other.guard)
end

-- Watches again the objects that were unwatched; not those that are dead.
local function watch_again(node)
  for _, watched in ipairs(node.watches) do
    local obj, opts = core.object(watched.id), KEPT
    if watched.opts then obj, opts = next(watched.opts) end
    if obj and watched.handle and not watched.handle:alive() then
      watched.handle = core.watch(obj, node.guard, opts)
    end
  end
end

-- Makes the guard of a node valid, and those of the nodes below before.
local function make_valid(node)
  for _, other in ipairs(node.below) do
    if not is_valid(other.guard) then make_valid(other) end
  end
  local lost, cause = guards.news(node.guard)
  if lost then watch_again(node) end
  local memo = memo_of[node]
  if memo then memo.results, memo.cause = nil, cause end
  node.round = node.round + 1
  set_valid(node.guard, true)
end

-- Keeps the results unless a write came since the function began: then the
-- guard is invalid, or was made valid again for a later run.
local function keep(memo, round, ...)
  local node = memo.node
  if node.round == round and is_valid(node.guard) then
    memo.results = pack(...)
  end
  return ...
end

local function compute(memo)
  local node = memo.node
  if not is_valid(node.guard) then make_valid(node) end
  if not memo.cause then return keep(memo, node.round, memo.fn()) end
  -- what it writes, it writes because of the write that made the guard invalid
  local _ <close> = guards.because(memo.cause)
  return keep(memo, node.round, memo.fn())
end

function Memo:__call(...)
  if select("#", ...) > 0 then
    check.argument(false, 1, "memo", "no argument", (...))
  end
  self = self[Memo]
  local results = self.results
  if results and is_valid(self.node.guard) then
    return unpack(results, 1, results.n)
  end
  return compute(self)
end

function Memo:valid()
  self = state_of(self, "valid")
  return self.results ~= nil and is_valid(self.node.guard)
end

function Memo:invalidate()
  set_valid(state_of(self, "invalidate").node.guard, false)
end

-- Raises the error of `core.watch` as one of `memo:on`.
local function fail(err)
  local n, what = tostring(err):match "bad argument #(%d) to 'watch' (.*)"
  if not n then error(err, 0) end
  error(("bad argument #%d to 'on' %s"):format(n == "1" and 1 or 2, what), 3)
end

--- Lets the results depend on writes for which a watch of `obj` with these
-- options would fire.
function Memo:on(obj, opts)
  local node = state_of(self, "on").node
  check.argument(can_be_watched(obj), 1, "on",
    "table or userdata with a metatable", obj)
  check.that(metatable(obj) ~= Memo, 1, "on", "a memo cannot be watched")
  check.argument(opts == nil or type(opts) == "table", 2, "on", "table", opts)
  local unknown = opts and check.unknown(opts, OPTIONS)
  check.that(not unknown, 2, "on", ("unknown option '%s'"):format(unknown))
  local copy = { once = false }
  for name, value in next, opts or copy do copy[name] = value end
  local ok, err = pcall(watch, node, obj, copy)
  if not ok then fail(err) end
  set_valid(node.guard, false)
  return self
end

--- Returns a callable with the results of `fn`.  The callable computes the
-- results at the first call, and again after a write to one of the other
-- arguments, or after one of them that is a memo has become out of date.
local function memo(fn, ...)
  check.argument(type(fn) == "function", 1, "memo", "function", fn)
  local dependencies = pack(...)
  for i = 1, dependencies.n do
    check.argument(can_be_watched(dependencies[i]), i + 1, "memo",
      "table or userdata with a metatable", dependencies[i])
  end
  local node = { guard = guards.open(), watches = {}, below = {}, round = 0 }
  for _, dependency in ipairs(dependencies) do
    if metatable(dependency) == Memo then
      follow(node, dependency[Memo].node)
    else
      watch(node, dependency, KEPT)
    end
  end
  local its = { fn = fn, node = node, results = nil }
  memo_of[node] = its
  return new(its)
end

return memo

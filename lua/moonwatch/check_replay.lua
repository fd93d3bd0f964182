--- mw.check_replay: the first write in which two runs of a program differ.
-- SPDX-License-Identifier: MIT
--
-- All happens in one transaction, so an error of the program, or from outside,
-- leaves the root as it was:
--
--     whole
--       first pass       committed
--       back             rolled back
--         undo the first pass
--         second pass    rolled back
--         compare
--
-- So at the end the root is as after the first pass, whatever the second one
-- did, and the writes of the first pass are all that is recorded.
--
-- The passes are compared while the root is as it was before both.  Then an
-- object that a pass has made holds what it held when the pass put it below the
-- root; later writes to it are entries.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local fold = require "moonwatch.effects.fold"
local Matching = require "moonwatch.replay.matching"
local report = require "moonwatch.replay.report"
local same = require "moonwatch.same"
local state = require "moonwatch.effects.state"
local transaction = require("moonwatch.transaction").transaction

local private = core.private
local get, differs = private.entry, private.differs
local counterpart = Matching.counterpart

local WHERE, DONE = { where = true }, {}

-- Returns the result of `f(...)`, called in a transaction that is taken back.
local function pretend(opts, f, ...)
  local result
  local _, err = transaction(opts, function(...)
    result = f(...)
    error(DONE, 0)
  end, ...)
  if not rawequal(err, DONE) then error(err, 0) end
  return result
end

-- Runs the frames.  Returns an array of moments: the end of each frame.
local function run_frames(its)
  local moments = {}
  if its.before then its.before() end
  for n = 1, its.frames do
    its.step()
    moments[n] = private.moment()
  end
  return moments
end

-- Returns the effects of a pass, and an array with the number of entries up to
-- the end of each frame.
local function first_pass(its)
  local ok, fx, moments = transaction(WHERE, run_frames, its)
  if not ok then error(fx, 0) end
  return { fx, private.count(fx, moments) }
end

-- Likewise, of a pass that is to be taken back.
local function second_pass(its)
  local owner = private.owner()
  local moments = run_frames(its)
  local fx = private.copy(owner)
  return { fx, private.count(fx, moments) }
end

-- Tracks all below the root until the transaction ends.  What the program
-- itself tracks and watches, before or meanwhile, makes no difference to the
-- table that holds the root; but the policy may keep the root out of it.
local function include(root)
  local holder, tracked = { root }, nil
  private.extras().finish = function()
    private.end_track(holder)
    if tracked then private.end_track(tracked) end
  end
  core.track(holder, { deep = true })
  if private.has_below(root) then return end
  tracked = root
  core.track(tracked, { deep = true })
end

-- Returns the write number `i` of a pass, or nil; `because` is the write whose
-- guard made it.
local function write_at(fx, i)
  local first, last
  while i do
    local write = fold.entry(fx, i)
    if not write then break end
    if last then last.because = write else first = write end
    last, i = write, private.cause(fx, i)
  end
  return first
end

-- The write `put` has put an object somewhere that had the value in a field;
-- without a key, as its class.
local function field_write(put, object, key, value)
  return {
    object = object, key = key, new = value, where = put.where,
    kind = key == nil and "metatable" or value ~= nil and "insert" or "delete",
    because = put.because,
  }
end

-- Tells whether two writes of a kind have stored the same.
local function same_value(matching, kind, a, b)
  if kind == "call" then return state.same(a, b) end
  if kind == "metatable" then return matching:same_class(a, b) end
  return matching:same(a, b)
end

-- Returns the number of the first write, from `i` to `last`, that a pass makes
-- where the other one has made the write number `at`; or nil.
local function find_write(fx, i, last, other, at, known)
  local object, key, _, _, kind = get(other, at)
  object, key = counterpart(known, object), counterpart(known, key)
  for n = i, last do
    local object2, key2, _, _, kind2 = get(fx, n)
    if rawequal(object, object2) and same(key, key2) and
      (kind == "metatable") == (kind2 == "metatable") then
      return n
    end
  end
end

-- The writes number `i` are not to the same field.  Returns the first pass's
-- and what the second one writes there in this frame, if anything.  If that is
-- the same, the second pass's counts, with what the first one writes there.
local function unlike(matching, one, other, i, last, last2)
  local there = find_write(other, i, last2, one, i, matching.to)
  local a, b = write_at(one, i), there and write_at(other, there) or nil
  if not b or not same(counterpart(matching.to, a.new), b.new) then
    return a, b
  end
  local here = find_write(one, i, last, other, i, matching.from)
  return here and write_at(one, here), write_at(other, i)
end

-- Returns the writes number `i` of both passes if they differ, or if what they
-- put somewhere does; or nil.  The frame has so many writes.
local function compare_write(matching, one, other, i, last, last2)
  local object, key, _, new, kind = get(one, i)
  local object2, key2, _, new2, kind2 = get(other, i)
  if not matching:same(object, object2) or not matching:same(key, key2) then
    return unlike(matching, one, other, i, last, last2)
  end
  if kind ~= kind2 or not same_value(matching, kind, new, new2) then
    return write_at(one, i), write_at(other, i)
  end
  matching:put(new, object, key)
  local inside, its_key, a, b = matching:difference()
  if inside == nil then return nil end
  return field_write(write_at(one, i), inside, its_key, a),
    field_write(write_at(other, i), inside, its_key, b)
end

-- Returns the number of the first frame that differs, and its two writes; or
-- nil.
local function compare(matching, first, second)
  local one, other, ends, ends2 = first[1], second[1], first[2], second[2]
  local i = 1
  for n = 1, #ends do
    local last = math.min(ends[n], ends2[n])
    local at = differs(one, other, i, last)
    while at do
      local a, b = compare_write(matching, one, other, at, ends[n],
        ends2[n])
      if a or b then return n, a, b end
      at = differs(one, other, at + 1, last)
    end
    i = last + 1
    if ends[n] > last then return n, write_at(one, i) end
    if ends2[n] > last then return n, nil, write_at(other, i) end
  end
end

-- Goes back and runs the second pass.  Returns nil, or a function that makes
-- the report once the root is as after the first pass.
local function go_back(its, first)
  local problem = private.store(first[1])
  if problem then error(problem[1], 0) end
  local second = pretend(WHERE, second_pass, its)
  local matching = Matching.new(its.root)
  local n, a, b = compare(matching, first, second)
  if not n then return nil end
  return report.prepare(its.root, matching, n, a, b)
end

local function check_all(its)
  include(its.root)
  local first = first_pass(its)
  local make_report = pretend({}, go_back, its, first)
  return make_report and make_report()
end

local OPTIONS = { frames = "count", before = "function" }
local FRAMES = 8

--- Calls `step()` so many times, takes all back, calls it as often again and
-- compares the writes.  Returns true; or false and a report of the first write
-- that differs.  The root is then as after the first pass.  An error of `step`
-- is raised, and the root is as it was.
return function(root, step, opts)
  check.argument(type(root) == "table", 1, "check_replay", "table", root)
  local ours = private.is_ours(root)
  check.that(not ours, 1, "check_replay", ("%s cannot be watched"):format(ours))
  check.argument(type(step) == "function", 2, "check_replay", "function", step)
  opts = check.options(opts, OPTIONS, 3, "check_replay")
  local frames = opts.frames or FRAMES
  check.that(frames >= 1, 3, "check_replay", "option 'frames' is less than 1")
  local ok, fx, its = transaction(check_all, {
    root = root, step = step, frames = frames, before = opts.before,
  })
  if not ok then error(fx, 0) end
  if its then return false, its end
  return true
end

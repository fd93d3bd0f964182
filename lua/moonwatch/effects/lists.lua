--- Lists whose length a step of a history has changed.
-- SPDX-License-Identifier: MIT
--
-- To undo such a step position by position is right only as long as nobody has
-- changed the list at or behind the first position that the step wrote: an
-- append would be left behind a hole.  What the step wrote is known from its
-- effects.  Of a list one knows besides
--
--     first         the first position that the step wrote
--     border, net   its length after the step, and by how much that is more
--     sums          whether there are positions from `first` on that the step
--                   did not write; then
--     after, before   a sum of all values from `first` on, after the step and
--                   (once the step was undone) before it

local core = require "moonwatch.core"
local fold = require "moonwatch.effects.fold"

local private = core.private
local raw, sum = private.raw, private.sum

local lists = {}

-- Returns what is known of a table whose length the effects have changed, by
-- its fields in a fold; nil if it is no list, or as long as before.
local function list_of(object, fields)
  local low, high, net, first = math.huge, 0, 0, math.huge
  local positions = {}
  for key, field in pairs(fields) do
    if math.type(key) == "integer" and key > 0 then
      local was, is = fold.was(field), fold.is(field)
      positions[#positions + 1], first = key, math.min(first, key)
      if was ~= is then
        low, high = math.min(low, key), math.max(high, key)
        net = net + (is and 1 or -1)
      end
    end
  end
  local held = raw(object)
  if net == 0 or high - low + 1 ~= math.abs(net) or
    rawget(held, high + 1) ~= nil or
    low > 1 and rawget(held, low - 1) == nil then
    return nil
  end
  local border, n = net > 0 and high or low - 1, 0
  for _, key in ipairs(positions) do n = n + (key <= high and 1 or 0) end
  local sums = n < high - first + 1
  return {
    object = object, first = first, border = border, net = net, sums = sums,
    after = sums and sum(object, first, border), before = false,
  }
end

--- Returns an array of the lists whose length effects have just changed, or
-- nil.
function lists.of(fx)
  local list
  for object, fields in pairs(fold.add(fold.new(), fx).fields) do
    local known = type(object) == "table" and list_of(object, fields)
    if known then
      list = list or {}
      list[#list + 1] = known
    end
  end
  return list
end

-- Adds what later effects have just done to a list.
local function add(known, later)
  known.first = math.min(known.first, later.first)
  known.net, known.border = known.net + later.net, later.border
  known.sums = known.sums or later.sums
  known.after = known.sums and sum(known.object, known.first, known.border)
end

--- Returns the lists of two steps that become one, of which the second was just
-- done.
function lists.join(one, two)
  if not one or not two then return one or two end
  local list, by_object = {}, {}
  for i, known in ipairs(one) do
    local its = {}
    for name, value in pairs(known) do its[name] = value end
    list[i], by_object[its.object] = its, its
  end
  for _, later in ipairs(two) do
    local known = by_object[later.object]
    if known then add(known, later) else list[#list + 1] = later end
  end
  return list
end

local function border_of(known, by)
  return by < 0 and known.border or known.border - known.net
end

--- Returns the first of the lists that is another one now than after the step,
-- which is to be undone (`by` is -1), or than before it (1); or nil.  One that
-- is shorter now would get a hole.
function lists.find_changed(list, by)
  for _, known in ipairs(list) do
    local object, border = known.object, border_of(known, by)
    local held = raw(object)
    local expected = by < 0 and known.after or known.before
    if known.net ~= 0 and (rawget(held, border + 1) ~= nil or
      border > 0 and rawget(held, border) == nil or
      expected and sum(object, known.first, border) ~= expected) then
      return known
    end
  end
end

--- The step was just undone (`by` is -1) or done again (1).
function lists.note(list, by)
  for _, known in ipairs(list) do
    if known.sums then
      local name = by < 0 and "before" or "after"
      known[name] = sum(known.object, known.first, border_of(known, -by))
    end
  end
end

return lists

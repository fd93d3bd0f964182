--- Says how two plans differ.
-- SPDX-License-Identifier: MIT

local pending = require "moonwatch.effects.pending"
local same = require "moonwatch.same"

-- The parts of a plan, in the order in which they are compared: lists of
-- arrays.  Each has a name, and so has what is in its arrays.
local PARTS = {
  { "objects", "object", "kind", "name", "mark" },
  { "mutations", "object", "name", "key", "value", "deletion" },
  { "saves", "object" },
  { "hooks", "index", "object", "event", "function" },
  { "callbacks", "function" },
}

-- Returns these lists.  A global is its environment and its name.
local function parts_of(its)
  local objects, mutations, hooks, callbacks = {}, {}, {}, {}
  for i, item in ipairs(its.items) do
    local object = item.object
    objects[i] = { item.env or object,
      item.env and "global" or its.new[object] and "new", item.name,
      its.marks[object] }
  end
  for i, e in ipairs(pending.writes(its)) do
    local item = its.of[e.object]
    mutations[i] = { item.env or item.object, item.name, e.key, e.value,
      e.deleted }
  end
  for i, e in ipairs(pending.hooks_of(its)) do
    hooks[i] = { e.index, e.object, e.event, e.fn }
  end
  for i, fn in ipairs(its.finals) do callbacks[i] = { fn } end
  return { objects, mutations, its.saves, hooks, callbacks }
end

-- Returns the first difference of two such lists, or nil.
local function difference(a, b, names)
  for i = 1, math.max(#a, #b) do
    local x, y = a[i], b[i]
    if not (x and y) then
      return ("%s: there is number %d on one side only"):format(names[1], i)
    end
    for n = 1, math.max(#names - 1, x.n or 0, y.n or 0) do
      if x.n ~= y.n or not same(x[n], y[n]) then
        return ("%s: number %d has another %s"):format(names[1], i,
          names[n + 1] or "argument")
      end
    end
  end
end

--- Returns the first difference of two plans in words, or nil.
return function(a, b)
  local its, others = parts_of(a.its), parts_of(b.its)
  for i, names in ipairs(PARTS) do
    local found = difference(its[i], others[i], names)
    if found then return found end
  end
end

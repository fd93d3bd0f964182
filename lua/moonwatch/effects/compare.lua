--- Says how two plans differ.
-- SPDX-License-Identifier: MIT

local pending = require "moonwatch.effects.pending"
local same = require "moonwatch.same"

-- Returns the first difference of two lists of arrays, or nil; `names` has what
-- is in the arrays.
local function difference(a, b, what, names)
  for i = 1, math.max(#a, #b) do
    local x, y = a[i], b[i]
    if not (x and y) then
      return ("%s: there is number %d on one side only"):format(what, i)
    end
    for n = 1, math.max(#names, x.n or 0, y.n or 0) do
      if x.n ~= y.n or not same(x[n], y[n]) then
        return ("%s: number %d has another %s"):format(what, i,
          names[n] or "argument")
      end
    end
  end
end

-- Returns a list with the results of `row` for the elements of another one.
local function rows(list, row)
  local result = {}
  for i, element in ipairs(list) do result[i] = row(element) end
  return result
end

-- A global is compared by its environment and its name.
local function objects(self)
  local now = self.its.pending
  return rows(self.its.items, function(item)
    local object = item.object
    return {
      item.env or object, item.env and "global" or now.new[object] and "new",
      item.name, now.marks[object],
    }
  end)
end

local function mutations(self)
  return rows(pending.writes(self.its.pending), function(entry)
    local item = self.its.of[entry.object]
    return { item.env or item.object, item.name, entry.key, entry.value,
      entry.deleted }
  end)
end

local function hooks(self)
  return rows(pending.hooks(self.its.pending), function(its)
    return { its.index, its.object, its.event, its.fn }
  end)
end

local function callbacks(self)
  return rows(self.its.pending.finals, function(fn) return { fn } end)
end

--- Returns the first difference in words, or nil.  The order is objects,
-- mutations, saves, hooks, callbacks.
return function(a, b)
  return difference(objects(a), objects(b), "objects",
      { "object", "kind", "name", "mark" })
    or difference(mutations(a), mutations(b), "mutations",
      { "object", "name", "key", "value", "deletion" })
    or difference(a.its.pending.saves, b.its.pending.saves, "saves",
      { "object" })
    or difference(hooks(a), hooks(b), "hooks",
      { "index", "object", "event", "function" })
    or difference(callbacks(a), callbacks(b), "callbacks", { "function" })
end

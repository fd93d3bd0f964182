--- Says how two objects of mw.effects differ.
-- SPDX-License-Identifier: MIT

local same = require "moonwatch.same"

-- Returns the first difference of two lists whose elements have these fields,
-- or nil.
local function difference(a, b, what, fields)
  for i = 1, math.max(#a, #b) do
    if not (a[i] and b[i]) then
      return ("%s: there is number %d on one side only"):format(what, i)
    end
    for _, field in ipairs(fields) do
      if not same(a[i][field], b[i][field]) then
        return ("%s: number %d has another %s"):format(what, i, field)
      end
    end
  end
end

-- A global is compared by its environment and its name.
local function described(self, list)
  local result = {}
  for i, element in ipairs(list) do
    local item = self.items[element.object]
    result[i] = setmetatable({ object = item.env or item.object,
      kind = item.kind, name = item.name }, { __index = element })
  end
  return result
end

local function diff_saves(a, b)
  for i = 1, math.max(#a, #b) do
    local x, y = a[i] or {}, b[i] or {}
    for j = 1, math.max(x.n or 0, y.n or 0) do
      if x.n ~= y.n or not same(x[j], y[j]) then
        return ("saves: number %d has other arguments"):format(i)
      end
    end
  end
end

--- Returns the first difference in words, or nil.  The order is objects,
-- mutations, saves, hooks, callbacks.
return function(a, b)
  return difference(described(a, a.items), described(b, b.items), "objects",
      { "object", "kind", "name" })
    or difference(described(a, a.writes), described(b, b.writes), "mutations",
      { "object", "name", "key", "value", "deleted" })
    or diff_saves(a.saves, b.saves)
    or difference(a.hooks, b.hooks, "hooks",
      { "index", "object", "event", "fn" })
    or difference(a.finals, b.finals, "callbacks", { "fn" })
end

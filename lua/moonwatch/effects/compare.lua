--- Says how two plans differ.
-- SPDX-License-Identifier: MIT

local pending = require "moonwatch.effects.pending"
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
local function objects(self)
  local list, now = {}, pending.of(self)
  for i, item in ipairs(self.its.items) do
    local object = item.object
    list[i] = {
      object = item.env or object, name = item.name,
      kind = item.env and "global" or now.new[object] and "new",
      mark = now.marks[object],
    }
  end
  return list
end

local function mutations(self)
  local list = {}
  for _, entry in ipairs(pending.of(self).writes) do
    if entry then
      local item = self.its.of[entry.object]
      list[#list + 1] = {
        object = item.env or item.object, name = item.name, key = entry.key,
        value = entry.value, deleted = entry.deleted,
      }
    end
  end
  return list
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

local function hooks(self) return pending.live(pending.of(self).hooks) end

local function callbacks(self)
  local list = {}
  for i, fn in ipairs(pending.of(self).finals) do list[i] = { fn = fn } end
  return list
end

--- Returns the first difference in words, or nil.  The order is objects,
-- mutations, saves, hooks, callbacks.
return function(a, b)
  return difference(objects(a), objects(b), "objects",
      { "object", "kind", "name", "mark" })
    or difference(mutations(a), mutations(b), "mutations",
      { "object", "name", "key", "value", "deleted" })
    or diff_saves(pending.of(a).saves, pending.of(b).saves)
    or difference(hooks(a), hooks(b), "hooks",
      { "index", "object", "event", "fn" })
    or difference(callbacks(a), callbacks(b), "callbacks", { "fn" })
end

--- Writes to tables that are not made yet.
-- SPDX-License-Identifier: MIT
--
--     fields:  object -> key -> value, or ABSENT for a key to delete
--     ropes:   list -> its elements
--     order:   the objects and the fields, { object, key }, and the lists,
--              { object }, in the order of the first writes
--     writers: object -> key -> the `index` of the draft at the last write;
--              list -> array of { index, first, last }, the positions that
--              each write changed; `last` is nil where all others moved
--
-- `load`, `list` and `contents` return what they would after the writes.

local core = require "moonwatch.core"
local recorded = require "moonwatch.effects.recorded"
local rope = require "moonwatch.json.rope"
local same = require "moonwatch.same"

local raw = core.private.raw

local Draft = {}
Draft.__index = Draft

local ABSENT = {}

--- Returns a field of an object.
function Draft:load(t, key)
  local its = self.fields[t]
  local value = its and its[key]
  if value == nil then return rawget(raw(t), key) end
  if value ~= ABSENT then return value end
end

local function of(map, t)
  local its = map[t] or {}
  map[t] = its
  return its
end

--- Stores a field of an object; nil deletes the key.
function Draft:store(t, key, value)
  local its = of(self.fields, t)
  if its[key] == nil then
    self.order[#self.order + 1] = { object = t, key = key }
  end
  of(self.writers, t)[key] = self.index
  if value == nil then value = ABSENT end
  its[key] = value
end

--- Returns the elements of a list, to read them.
function Draft:list(t)
  local elements = self.ropes[t]
  if not elements then
    local held = raw(t)
    elements = rope(held, rawlen(held))
    self.ropes[t] = elements
  end
  return elements
end

-- Returns the elements of a list, to write to some.
function Draft:change(t, first, last)
  local writers = of(self.writers, t)
  if #writers == 0 then self.order[#self.order + 1] = { object = t } end
  writers[#writers + 1] = { index = self.index, first = first, last = last }
  return self:list(t)
end

function Draft:set(t, i, value) self:change(t, i, i):set(i, value) end

function Draft:insert(t, i, value) self:change(t, i):insert(i, value) end

function Draft:remove(t, i) self:change(t, i):remove(i) end

--- Returns the `index` of the last write to a field.
function Draft:writer(t, key)
  local writers = self.writers[t]
  if not self.ropes[t] then return writers[key] end
  for n = #writers, 1, -1 do
    local write = writers[n]
    if write.first <= key and key <= (write.last or key) then
      return write.index
    end
  end
end

local function elements_of(list)
  local held = {}
  list:pieces(function(from, first, count, at)
    table.move(from, first, first + count - 1, at, held)
  end)
  return held
end

--- Returns a plain table with the contents of `t`, which must not be written
-- to.
function Draft:contents(t)
  if not self.writers[t] then return raw(t) end
  if self.ropes[t] then return elements_of(self.ropes[t]) end
  local held = {}
  for key, value in next, raw(t) do held[key] = value end
  for key, value in next, self.fields[t] do
    if value == ABSENT then held[key] = nil else held[key] = value end
  end
  return held
end

-- Adds the write of a field, if the write changes the field.
local function add(list, t, key, value)
  if not same(rawget(raw(t), key), value) then
    list[#list + 1] = { object = t, key = key, new = value }
  end
end

-- Adds the writes of a list.  As table.insert does, a list that gets longer is
-- written from its end, after the new positions; as table.remove does, one that
-- gets shorter from its front.
function Draft:add_elements(list, t)
  local held, elements = raw(t), self.ropes[t]
  local was, is, changed = rawlen(held), elements:len(), {}
  elements:pieces(function(from, first, count, at)
    if from == held and first == at then return end -- did not move?
    for i = 0, count - 1 do
      changed[#changed + 1] = { at + i, rawget(from, first + i) }
    end
  end)
  local n = #changed
  local old = n -- the number of changes at positions that the list has
  while old > 0 and changed[old][1] > was do old = old - 1 end
  for i = old + 1, n do add(list, t, changed[i][1], changed[i][2]) end
  local from, to, step = 1, old, 1
  if is > was then from, to, step = old, 1, -1 end
  for i = from, to, step do add(list, t, changed[i][1], changed[i][2]) end
  for i = was, is + 1, -1 do add(list, t, i, nil) end
end

--- Makes the writes that change a value.  Returns their effects; or nil, an
-- error and the entry whose write raised the error, and nothing has changed.
function Draft:apply()
  local list = {}
  for _, entry in ipairs(self.order) do
    local t, key = entry.object, entry.key
    if key == nil then
      self:add_elements(list, t)
    else
      add(list, t, key, self:load(t, key))
    end
  end
  local fx, problem, entry = recorded.write(function() return list end)
  if not fx then return nil, problem, entry end
  recorded.raise(problem)
  return fx
end

return function()
  return setmetatable({ fields = {}, ropes = {}, order = {}, writers = {} },
    Draft)
end

--- The states of userdata, which the policy's `snapshot` gives: plain values.
-- SPDX-License-Identifier: MIT
--
-- Two states are the same if they have the same contents: each snapshot is a
-- table of its own.

local same = require "moonwatch.same"

local state = {}

-- Compares two values, and puts a pair of tables into the queue.
local function compare(a, b, queue, held)
  if same(a, b) then return true end
  if type(a) ~= "table" or type(b) ~= "table" or
    held and (held[a] or held[b]) then
    return false
  end
  if queue[a] == b then return true end -- a cycle, or a table in two places
  if queue[a] ~= nil or queue.of[b] ~= nil then return false end
  queue[a], queue.of[b] = b, a
  queue[#queue + 1] = a
  return true
end

-- Tells whether two tables have the same fields.
local function match(a, b, queue, held)
  for key, value in next, a do
    if not compare(value, rawget(b, key), queue, held) then return false end
  end
  for key in next, b do
    if rawget(a, key) == nil then return false end
  end
  return true
end

--- Tells whether two states are the same; the objects in the set `held`, if
-- there is one, are no part of the states.
function state.same(a, b, held)
  -- tables of `a`; by table, what stands for it in `b`; and the reverse
  local queue = { of = {} }
  if not compare(a, b, queue, held) then return false end
  for _, t in ipairs(queue) do -- which grows
    if not match(t, queue[t], queue, held) then return false end
  end
  return true
end

--- Tells whether two values of an entry's field are the same.
function state.same_value(e, a, b)
  return same(a, b) or e.kind == "call" and state.same(a, b)
end

return state

--- The states of userdata, which the policy's `snapshot` gives: plain values.
-- SPDX-License-Identifier: MIT
--
-- Two states are the same if they have the same contents: each snapshot is a
-- table of its own.

local same = require "moonwatch.same"

local state = {}

-- Compares two values, and puts a pair of tables into the queue.
local function compare(a, b, queue)
  if same(a, b) then return true end
  if type(a) ~= "table" or type(b) ~= "table" then return false end
  if queue[a] == b then return true end -- a cycle, or a table in two places
  if queue[a] ~= nil then return false end
  queue[a] = b
  queue[#queue + 1] = a
  return true
end

-- Tells whether two tables have the same fields.
local function match(a, b, queue)
  for key, value in next, a do
    if not compare(value, rawget(b, key), queue) then return false end
  end
  for key in next, b do
    if rawget(a, key) == nil then return false end
  end
  return true
end

--- Tells whether two states are the same.
function state.same(a, b)
  local queue = {} -- tables of `a`; and by table, what stands for it in `b`
  if not compare(a, b, queue) then return false end
  local i = 1
  while queue[i] do
    if not match(queue[i], queue[queue[i]], queue) then return false end
    i = i + 1
  end
  return true
end

--- Tells whether two values of an entry's field are the same.
function state.same_value(e, a, b)
  return same(a, b) or e.kind == "call" and state.same(a, b)
end

return state

--- mw.skeleton: a copy of a structure with the shapes of what has one.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local shape = require "moonwatch.dynamism.shape"

local metatable, raw = core.private.metatable, core.raw

-- A finaliser is for the object, not for a copy of it.
local function has_finaliser(mt)
  return type(mt) == "table" and rawget(raw(mt), "__gc") ~= nil
end

local function placeholder(sizes)
  return { meta = true, shape = table.move(sizes, 1, #sizes, 1, {}) }
end

-- What becomes of a value.  Tables that are copied wait in the queue.
local function image(value, copies, queue, get_shape)
  if type(value) ~= "table" and type(value) ~= "userdata" then return value end
  if copies[value] == nil then
    local sizes = shape.of(value, get_shape)
    if sizes then
      copies[value] = placeholder(sizes)
    elseif type(value) == "userdata" or has_finaliser(metatable(value)) then
      copies[value] = value
    else
      copies[value] = {}
      queue[#queue + 1] = value
    end
  end
  return copies[value]
end

local OPTIONS = { shape = "function" }

--- A copy of a value: tables are copied, with the same sharing and cycles and
-- the same classes; what has a shape becomes `{ meta = true, shape = sizes }`;
-- all else, and keys, and tables with a finaliser, are the same in both.
return function(value, opts)
  local get_shape = check.options(opts, OPTIONS, 2, "skeleton").shape
  local copies, queue, i = {}, {}, 1
  local result = image(value, copies, queue, get_shape)
  while queue[i] do
    local t = queue[i]
    local copy = copies[t]
    for key, field in next, raw(t) do
      copy[key] = image(field, copies, queue, get_shape)
    end
    setmetatable(copy, metatable(t))
    i = i + 1
  end
  return result
end

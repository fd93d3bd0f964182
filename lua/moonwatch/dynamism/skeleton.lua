--- mw.skeleton: a copy of a structure with shapes in place of shaped values.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local shape = require "moonwatch.dynamism.shape"

local metatable, raw = core.private.metatable, core.private.raw

-- A finaliser belongs to the object, not to a copy of the object.
local function has_finaliser(mt)
  return type(mt) == "table" and rawget(mt, "__gc") ~= nil
end

-- Returns what becomes of a value.  Tables to copy are put into the queue.
local function image(value, copies, queue, get_shape)
  if type(value) ~= "table" and type(value) ~= "userdata" then return value end
  if copies[value] == nil then
    local sizes = shape.of(value, get_shape)
    if sizes then
      copies[value] = { meta = true,
        shape = table.move(sizes, 1, #sizes, 1, {}) }
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

--- Returns a copy of a value.  Tables are copied, with the same sharing and
-- cycles and the same classes; a shaped value becomes `{ meta = true, shape =
-- sizes }`.  Keys, tables with a finaliser and all other values are the same in
-- both.
return function(value, opts)
  if opts ~= nil then check.dot("skeleton", value) end
  local get_shape = check.options(opts, OPTIONS, 2, "skeleton").shape
  local copies, queue = {}, {}
  local result = image(value, copies, queue, get_shape)
  for _, t in ipairs(queue) do -- which grows
    local copy = copies[t]
    for key, field in next, raw(t) do
      copy[key] = image(field, copies, queue, get_shape)
    end
    setmetatable(copy, metatable(t))
  end
  return result
end

--- Finds the objects that can be reached from some values.
-- SPDX-License-Identifier: MIT
--
-- The search follows the contents of tables, metatables, upvalues, user values,
-- the variables of coroutines that have begun, and pending writes.

local core = require "moonwatch.core"

local private = core.private
local raw = private.raw

local follow = {}

function follow.table(t, visit)
  visit(private.metatable(t))
  for key, value in next, raw(t) do
    visit(key)
    visit(value)
  end
end

-- The cells of upvalues count as reached, too.
follow["function"] = function(fn, visit)
  local i = 1
  local cell = private.cell(fn, i)
  while cell do
    visit(cell)
    i = i + 1
    cell = private.cell(fn, i)
  end
end

function follow.userdata(userdata, visit)
  if private.is_cell(userdata) then
    visit((select(2, private.cell_value(userdata))))
  else
    visit(private.metatable(userdata))
    local value, has = debug.getuservalue(userdata, 1)
    if has then visit(value) end
  end
end

-- Follows the functions that a coroutine is in, and their variables.
function follow.thread(co, visit)
  local level = 0
  local info = debug.getinfo(co, level, "f")
  while info do
    visit(info.func)
    for _, step in ipairs { 1, -1 } do -- -1: the values of `...`
      local i = step
      local name, value = debug.getlocal(co, level, i)
      while name do
        visit(value)
        i = i + step
        name, value = debug.getlocal(co, level, i)
      end
    end
    level = level + 1
    info = debug.getinfo(co, level, "f")
  end
end

--- Removes all objects that the roots reach from the set `wanted`; stops when
-- the set is empty.  `fields` has the pending writes of each object.
return function(roots, wanted, fields)
  local seen, queue = {}, {}
  local function visit(value)
    if value == nil or seen[value] or not follow[type(value)] then return end
    seen[value], wanted[value] = true, nil
    queue[#queue + 1] = value
  end
  for _, root in pairs(roots) do visit(root) end
  while #queue > 0 and next(wanted) ~= nil do
    local value = table.remove(queue)
    follow[type(value)](value, visit)
    for _, entry in pairs(fields[value] or {}) do
      visit(entry.key)
      visit(entry.value)
    end
  end
end

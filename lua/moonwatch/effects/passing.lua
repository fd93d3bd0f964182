--- The effects of which others were squashed.
-- SPDX-License-Identifier: MIT
--
-- Squashed effects have the writes to a table that was put somewhere and taken
-- out again, but not the writes that put it there.  So, if they have written
-- what nobody tracks any more, they know the effects that they were made of.

local private = require("moonwatch.core").private

local passing = {}

-- Effects -> array of the others.  All copies of this file share the table.
private.passing = private.passing or setmetatable({}, { __mode = "k" })
local formers = private.passing

--- Returns an array of the effects that these were squashed from.
function passing.of(fx) return formers[fx] or {} end

--- Effects know what the ones know that they are made of.  Returns the effects.
function passing.inherit(fx, ...)
  for _, other in ipairs { ... } do
    local its = formers[other]
    if its then
      local all = formers[fx] or {}
      formers[fx] = table.move(its, 1, #its, #all + 1, all)
    end
  end
  return fx
end

--- `fx` were squashed from `former`, into the entries in `list`.  Returns them.
function passing.note(fx, list, former)
  for _, e in ipairs(list) do
    if type(e.object) == "table" and not private.intercepts(e.object) then
      formers[fx] = formers[fx] or {}
      table.insert(formers[fx], former)
      break
    end
  end
  return fx
end

return passing

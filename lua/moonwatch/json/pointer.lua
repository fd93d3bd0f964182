--- JSON pointers (RFC 6901): where in a document?
-- SPDX-License-Identifier: MIT
--
-- While somebody walks through a document, a place is a chain of nodes, each
-- with the `key` that leads to it and the node `up` from it; the root's has no
-- `up`.  It becomes text only when somebody wants to read it.

local pointer = {}

local function quoted(text) return ("'%s'"):format(text) end

--- The steps of a pointer, an array of strings; or nil and a message.
function pointer.parse(text)
  if text ~= "" and text:sub(1, 1) ~= "/" then
    return nil, quoted(text) .. " does not begin with '/'"
  end
  if text:find "~[^01]" or text:find "~$" then
    return nil, quoted(text) .. " has a '~' with neither 0 nor 1 behind it"
  end
  local steps = {}
  for step in text:gmatch "/([^/]*)" do
    steps[#steps + 1] = step:gsub("~1", "/"):gsub("~0", "~")
  end
  return steps
end

-- A key of a Lua table as a step: arrays begin with 1 there, and with 0 here.
local function step_of(key)
  if math.type(key) == "integer" then return ("%d"):format(key - 1) end
  return (tostring(key):gsub("~", "~0"):gsub("/", "~1"))
end

--- The text of the first `n` steps.
function pointer.text(steps, n)
  local parts = {}
  for i = 1, n do parts[i] = "/" .. step_of(steps[i]) end
  return table.concat(parts)
end

--- The text of a chain of nodes.
function pointer.of(node)
  local parts, n = {}, 0
  while node.up do
    n = n + 1
    parts[n] = step_of(node.key)
    node = node.up
  end
  local text = {}
  for i = n, 1, -1 do text[#text + 1] = "/" .. parts[i] end
  return table.concat(text)
end

return pointer

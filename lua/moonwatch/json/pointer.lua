--- JSON pointers (RFC 6901): places in a document.
-- SPDX-License-Identifier: MIT
--
-- During a walk through a document a place is a chain of nodes.  A node has the
-- `key` that leads to it and the node `up` from it; the root's node has no
-- `up`.  A place becomes text only for a message or an operation.

local pointer = {}

local function quoted(text) return ("'%s'"):format(text) end

--- Returns the steps of a pointer, an array of strings; or nil and a message.
function pointer.parse(text)
  if text ~= "" and text:sub(1, 1) ~= "/" then
    return nil, quoted(text) .. " does not begin with '/'"
  end
  if not utf8.len(text) then return nil, quoted(text) .. " is not UTF-8" end
  if text:find "~[^01]" or text:find "~$" then
    return nil, quoted(text) .. " has a '~' with neither 0 nor 1 behind it"
  end
  local steps = {}
  for step in text:gmatch "/([^/]*)" do
    steps[#steps + 1] = step:gsub("~1", "/"):gsub("~0", "~")
  end
  return steps
end

-- Returns a key of a Lua table as a step: arrays begin with 1 in Lua, with 0 in
-- JSON.
local function step_of(key)
  if math.type(key) == "integer" then return ("%d"):format(key - 1) end
  return (tostring(key):gsub("~", "~0"):gsub("/", "~1"))
end

--- Returns the text of the first `n` steps.
function pointer.text(steps, n)
  local parts = {}
  for i = 1, n do parts[i] = "/" .. step_of(steps[i]) end
  return table.concat(parts)
end

--- Returns the text of a chain of nodes.
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

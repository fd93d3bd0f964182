--- Policy files, which run in a box of their own.
-- SPDX-License-Identifier: MIT

local sandbox = require "moonwatch.sandbox"

local file = {}

local DEPTH = 4 -- of tables in a policy

-- Returns a copy of a value in which tables are plain, down to some depth.  A
-- table that is met again at the same depth is copied once: `copies` has the
-- copies by depth.
local function plain(value, depth, copies)
  if type(value) ~= "table" or depth == 0 then return value end
  local known = copies[depth] or {}
  copies[depth] = known
  local copy = known[value]
  if copy then return copy end
  copy = {}
  known[value] = copy
  for key, field in next, value do
    copy[key] = plain(field, depth - 1, copies)
  end
  return copy
end

-- Returns the text of a file without a mark of the byte order and a line for
-- the shell; or nil and a message.  A file that is longer than the budget of
-- loading allows is not read to its end.
local function read(path)
  local stream <close>, problem = io.open(path, "r")
  if not stream then return nil, "cannot open " .. problem end
  local text, message = stream:read(sandbox.INSTRUCTIONS + 1)
  if message then return nil, ("cannot read %s (%s)"):format(path, message) end
  text = text or ""
  if #text > sandbox.INSTRUCTIONS then return text end
  text = text:gsub("^\xEF\xBB\xBF", "")
  return (text:gsub("^#[^\n]*", ""))
end

--- Runs a file with further globals.  Returns its result and the box of its
-- functions; or nil and a message.
function file.run(path, more)
  local text, problem = read(path)
  if not text then return nil, problem end
  local box = sandbox.for_policy(more)
  local chunk, message = box:load(text, "@" .. path)
  if not chunk then return nil, message end
  local ok, result = box:call(chunk)
  if not ok then
    if result:find "^%(error object" then result = path .. ": " .. result end
    return nil, result
  end
  if result == nil then return nil, path .. ": returns nothing" end
  return plain(result, DEPTH, {}), box
end

return file

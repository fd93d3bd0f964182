--- Policy files, which run in a box of their own.
-- SPDX-License-Identifier: MIT

local private = require "moonwatch.core".private

local file = {}

-- The budgets of loading a file, and of each call of one of its functions:
-- instructions and bytes, and the bytes that the box may keep.
local MB = 1024 * 1024
local LOADING = { 1000000, 16 * MB, 16 * MB }
local CALLING = { 1000000, MB, 16 * MB }

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

-- Returns a message with the path of the file, unless the message has a place.
local function with_path(path, message)
  if message:find "^the policy's" or message:find "^%(error object" then
    return path .. ": " .. message
  end
  return message
end

--- Runs a file with further globals.  Returns its result and the box of its
-- functions; or nil and a message.
function file.run(path, more)
  local box = private.policy_box(more)
  private.limit(box, table.unpack(LOADING))
  local chunk, message = private.load_file(box, path)
  if not chunk then return nil, with_path(path, message) end
  local ok, result = box:call(chunk)
  if not ok then return nil, with_path(path, result) end
  if result == nil then return nil, path .. ": returns nothing" end
  private.limit(box, table.unpack(CALLING))
  return plain(result, DEPTH, {}), box
end

return file

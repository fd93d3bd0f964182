--- Reads values from files in Lua.
-- SPDX-License-Identifier: MIT
--
-- Such a file returns a value and may use no function.

local ENV = { math = { huge = math.huge, pi = math.pi } }

--- Returns the value of the file; nil and a message if the file has none.
return function(path)
  local chunk, message = loadfile(path, "t", ENV)
  if not chunk and not message:find(path, 1, true) then
    message = path .. ": " .. message -- is not text
  end
  if not chunk then return nil, message end
  local ok, value = pcall(chunk)
  if not ok then return nil, tostring(value) end
  if value == nil then return nil, path .. ": the file returns no value" end
  return value
end

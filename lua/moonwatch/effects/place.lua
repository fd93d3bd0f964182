--- The place in the program that calls the library.
-- SPDX-License-Identifier: MIT

local folder = debug.getinfo(1, "S").source:match "^(.*)[/\\]effects[/\\]"

-- On Windows, the path of one module may have both separators.
local function is_ours(info)
  return folder and info.source:sub(1, #folder) == folder and
    info.source:find("^[/\\]", #folder + 1)
end

--- Returns "file:line" of the nearest function of the program that calls the
-- library, or nil.
return function()
  local level = 2
  local info = debug.getinfo(level, "Sl")
  while info and (info.currentline <= 0 or is_ours(info)) do
    level = level + 1
    info = debug.getinfo(level, "Sl")
  end
  return info and ("%s:%d"):format(info.short_src, info.currentline)
end

-- Makes the types and the sections of the pages from the reference.

local files = require "docs.make.files"

for _, made in ipairs(files.made()) do
  local path, text = made[1], made[2]
  if files.read(path) ~= text then
    files.write(path, text)
    print("written: " .. path)
  end
end

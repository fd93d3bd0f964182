--- The files that are made from the reference.
-- SPDX-License-Identifier: MIT

local model = require "docs.make.model"
local pages = require "docs.make.pages"
local types = require "docs.make.types"

local files = {}

function files.read(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

function files.write(path, text)
  local file = assert(io.open(path, "wb"))
  assert(file:write(text))
  assert(file:close())
end

--- Returns the paths of all pages.
function files.pages()
  local list = {}
  local pipe = assert(io.popen "ls docs/*.md docs/recipes/*.md")
  for path in pipe:lines() do list[#list + 1] = path end
  pipe:close()
  return list
end

--- Returns the groups of the reference.
function files.reference() return model.read(require "docs.reference") end

--- Returns what the files that are made have to be: an array of { path, text }.
function files.made()
  local groups = files.reference()
  local list = { { "types/moonwatch.lua", types(groups) } }
  for _, path in ipairs(files.pages()) do
    local text = files.read(path)
    if text:find("<!-- reference:", 1, true) then
      list[#list + 1] = { path, pages.fill(text, groups) }
    end
  end
  return list
end

return files

--- Lua code as HTML with colours.
-- SPDX-License-Identifier: MIT

local tokens = require "docs.make.tokens"

local highlight = {}

local ENTITIES = { ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;",
  ['"'] = "&quot;" }

--- Returns a text in which HTML has no special characters.
function highlight.escape(text) return (text:gsub('[&<>"]', ENTITIES)) end

local escape = highlight.escape

-- Kind of a token -> class of the style sheet.
local STYLES = { keyword = "k", string = "s", number = "n", comment = "c" }

local CONSTANTS = { ["nil"] = true, ["true"] = true, ["false"] = true }

-- Returns the class of a token, or nil.  What a program prints is in comments
-- that begin with an arrow.
local function style_of(token)
  if token.kind == "comment" and token.text:find "^%-%->" then return "o" end
  if CONSTANTS[token.text] and token.kind == "keyword" then return "n" end
  return STYLES[token.kind]
end

--- Returns Lua code as HTML.
function highlight.lua(code)
  local parts, at = {}, 1
  for _, token in ipairs(tokens.all(code)) do
    if not token.from then break end
    parts[#parts + 1] = escape(code:sub(at, token.from - 1))
    local text = escape(code:sub(token.from, token.to))
    local style = style_of(token)
    parts[#parts + 1] = style and
      ('<span class="%s">%s</span>'):format(style, text) or text
    at = token.to + 1
  end
  parts[#parts + 1] = escape(code:sub(at))
  return table.concat(parts)
end

return highlight

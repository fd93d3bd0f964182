--- Values as Lua writes them in source text.
-- SPDX-License-Identifier: MIT

local literal = {}

local KEYWORDS = {}
for word in ([[and break do else elseif end false for function goto if in local
  nil not or repeat return then true until while]]):gmatch "%a+" do
  KEYWORDS[word] = true
end

--- Tells whether a value can be a name in Lua.
function literal.is_name(value)
  return type(value) == "string" and value:find "^[%a_][%w_]*$" ~= nil and
    not value:find "[\128-\255]" and not KEYWORDS[value]
end

-- Returns the shortest text that Lua reads as the same number, of the same
-- type.
local function text_of_number(n)
  if math.type(n) == "integer" then return ("%q"):format(n) end
  if n ~= n then return "(0/0)" end
  if n == math.huge then return "1e999" end
  if n == -math.huge then return "-1e999" end
  local text = ("%.14g"):format(n)
  if tonumber(text) ~= n then text = ("%.17g"):format(n) end
  text = text:gsub(",", ".") -- in some locales
  return text:find "[%.e]" and text or text .. ".0"
end

--- Returns the text of nil, a boolean, a number or a string; nil for others.
function literal.of(value)
  local kind = type(value)
  if kind == "string" then
    return (("%q"):format(value):gsub("\\\n", "\\n"):gsub("\r", "\\r"))
  end
  if kind == "number" then return text_of_number(value) end
  return (value == nil or kind == "boolean") and tostring(value) or nil
end

--- Returns the text that follows the text of a table to name one of its fields.
function literal.field(key)
  if literal.is_name(key) then return "." .. key end
  return "[" .. literal.of(key) .. "]"
end

return literal

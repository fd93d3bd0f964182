--- Values as Lua writes them in source text.
-- SPDX-License-Identifier: MIT

local literal = {}

local KEYWORDS = {}
for word in ([[and break do else elseif end false for function goto if in local
  nil not or repeat return then true until while]]):gmatch "%a+" do
  KEYWORDS[word] = true
end

--- Can a value be a name in Lua?
function literal.is_name(value)
  return type(value) == "string" and value:find "^[%a_][%w_]*$" ~= nil and
    not value:find "[\128-\255]" and not KEYWORDS[value]
end

-- By type.
literal.write = {}

function literal.write.string(s)
  return (("%q"):format(s):gsub("\\\n", "\\n"):gsub("\r", "\\r"))
end

-- The shortest that is read as the same number, and as a float.
function literal.write.number(n)
  if math.type(n) == "integer" then return ("%q"):format(n) end
  if n ~= n then return "(0/0)" end
  if n == math.huge then return "1e999" end
  if n == -math.huge then return "-1e999" end
  local text = ("%.14g"):format(n)
  if tonumber(text) ~= n then text = ("%.17g"):format(n) end
  text = text:gsub(",", ".") -- in some locales
  return text:find "[%.e]" and text or text .. ".0"
end

function literal.write.boolean(b) return tostring(b) end

literal.write["nil"] = function() return "nil" end

--- The text of a value, which is nil or a boolean, number or string.
function literal.of(value) return literal.write[type(value)](value) end

--- The text that comes after a table's, for one of its fields.
function literal.field(key)
  if literal.is_name(key) then return "." .. key end
  return "[" .. literal.of(key) .. "]"
end

return literal

--- The tokens of Lua 5.4, for the check and the colours of examples.
-- SPDX-License-Identifier: MIT
--
-- A token is { kind, text, line, from, to }, where the kind is "name",
-- "keyword", "number", "string", "symbol", "comment" or, for the last token,
-- "end".  The text of a string is its contents without the quotes.

local tokens = {}

local KEYWORDS = {}
for word in ([[and break do else elseif end false for function goto if in
  local nil not or repeat return then true until while]]):gmatch "%a+" do
  KEYWORDS[word] = true
end

local SYMBOLS = { "^%.%.%.", "^[=~<>]=", "^//", "^<<", "^>>", "^::", "^%.%.",
  "^." }

-- Returns the end of a long bracket at `from`, and its contents; or nil.
local function long_bracket(text, from)
  local level = text:match("^%[(=*)%[", from)
  if not level then return nil end
  local first = from + #level + 2
  local last = text:find("]" .. level .. "]", first, true) or #text
  return last + #level + 1, text:sub(first, last - 1)
end

local function quoted(text, from)
  local quote, at = text:sub(from, from), from + 1
  while at <= #text do
    local c = text:sub(at, at)
    if c == quote then break end
    at = at + (c == "\\" and 2 or 1)
  end
  return at, text:sub(from + 1, at - 1)
end

-- Returns the kind of the token at `from`, where it ends, and its text.
local function token_at(text, from)
  local comment = text:match("^%-%-()", from)
  if comment then
    local to = long_bracket(text, comment) or
      (text:find("\n", comment, true) or #text + 1) - 1
    return "comment", to, text:sub(from, to)
  end
  local word = text:match("^[%a_][%w_]*", from)
  if word then
    return KEYWORDS[word] and "keyword" or "name", from + #word - 1, word
  end
  local number = text:match("^0[xX][%x.]*[pP][+-]?%d+", from) or
    text:match("^0[xX][%x.]+", from) or
    text:match("^%d[%d.]*[eE][+-]?%d+", from) or
    text:match("^%.?%d[%d.]*", from)
  if number then return "number", from + #number - 1, number end
  if text:find("^[\"']", from) then return "string", quoted(text, from) end
  local to, contents = long_bracket(text, from)
  if to then return "string", to, contents end
  for _, symbol in ipairs(SYMBOLS) do
    local found = text:match(symbol, from)
    if found then return "symbol", from + #found - 1, found end
  end
end

--- Returns all tokens of a program, with its comments.
function tokens.all(text)
  local list, line, at = {}, 1, 1
  while true do
    local from = text:find("%S", at)
    local _, lines = text:sub(at, (from or #text + 1) - 1):gsub("\n", "")
    line = line + lines
    if not from then break end
    local kind, to, its = token_at(text, from)
    list[#list + 1] = { kind = kind, text = its, line = line, from = from,
      to = to }
    _, lines = text:sub(from, to):gsub("\n", "")
    line, at = line + lines, to + 1
  end
  list[#list + 1] = { kind = "end", text = "", line = line }
  return list
end

--- Returns the tokens of a program without its comments.
function tokens.list(text)
  local list = {}
  for _, token in ipairs(tokens.all(text)) do
    if token.kind ~= "comment" then list[#list + 1] = token end
  end
  return list
end

return tokens

--- docs/reference.lua, read: groups of items with names, parameters, results.
-- SPDX-License-Identifier: MIT
--
--     group      { page, title, items }
--     item       { kind = "function", name, generics, params, returns, more }
--                { kind = "field", name, type, optional }
--                { kind = "class", name, parent, variable, call, items }
--                { kind = "alias", name, type } or { ..., values }
--     parameter  { name, type, optional }
--
-- Each item has a `text`.  The name of a class or an alias is without
-- "moonwatch."; `label` is how the pages call an item, and no two items of a
-- page have the same.

local model = {}

local function one_line(text)
  return (text:gsub("%s+", " "):gsub("^ ", ""):gsub(" $", ""))
end

-- Splits a text at the commas that are in no brackets.
local function split(text)
  local parts, depth, from = {}, 0, 1
  for at, c in text:gmatch "()([%(%)<>{}%[%],])" do
    if c == "," then
      if depth == 0 then
        parts[#parts + 1] = one_line(text:sub(from, at - 1))
        from = at + 1
      end
    else
      depth = depth + (c:find "[%(<{%[]" and 1 or -1)
    end
  end
  local last = one_line(text:sub(from))
  if last ~= "" then parts[#parts + 1] = last end
  return parts
end

model.split = split

local function parameters(text)
  local list = {}
  for _, part in ipairs(split(text)) do
    local name, mark, its_type = part:match "^([%w_.]+)(%??): ?(.+)$"
    assert(name, "no parameter: " .. part)
    list[#list + 1] = { name = name, type = its_type, optional = mark == "?" }
  end
  return list
end

-- Reads what comes after the name of a function.
local function read_function(item, rest)
  local generics, list, returns = rest:match "^(%b<>)(%b())(.*)$"
  if not generics then list, returns = rest:match "^(%b())(.*)$" end
  assert(list, item.name .. ": no parameters")
  item.kind = "function"
  item.generics = generics and generics:sub(2, -2)
  item.params = parameters(list:sub(2, -2))
  returns = one_line(returns)
  assert(returns == "" or returns:find "^%-> ", item.name .. ": " .. returns)
  item.returns = parameters(returns:sub(4))
  return item
end

local function read_field(item, rest)
  local mark, its_type = rest:match "^(%??): ?(.+)$"
  assert(its_type, item.name .. ": no type")
  item.kind, item.type, item.optional = "field", its_type, mark == "?"
  return item
end

--- Reads a signature.
function model.signature(text)
  text = one_line(text)
  local name = text:match "^[%w_]+%.[%w_]+%.[%a_][%w_]*" or
    text:match "^[%w_]+[.:][%a_][%w_]*" or text:match "^[%w_]+" or
    text:match "^%[%d+%]"
  assert(name, "no name: " .. text)
  local rest = text:sub(#name + 1)
  return (rest:find "^[(<]" and read_function or read_field)({ name = name },
    rest)
end

local read_all

local function read_class(entry)
  local name, parent = entry.class:match "^moonwatch%.(%w+) : moonwatch%.(%w+)$"
  name = name or entry.class:match "^moonwatch%.(%w+)$"
  local item = {
    kind = "class", name = name, label = "moonwatch." .. name, parent = parent,
    variable = entry.name, call = entry.call, text = one_line(entry[1]),
  }
  item.items = read_all(entry, 2)
  return item
end

local function read_alias(entry)
  local name = entry.alias:match "^moonwatch%.(%w+)$"
  local item = { kind = "alias", name = name, label = "moonwatch." .. name,
    text = one_line(entry[1]) }
  if type(entry[2]) == "string" then
    item.type = one_line(entry[2])
  else
    item.values = {}
    for i = 2, #entry do
      item.values[i - 1] = { entry[i][1], one_line(entry[i][2]) }
    end
  end
  return item
end

local function read(entry)
  if entry.class then return read_class(entry) end
  if entry.alias then return read_alias(entry) end
  local item = model.signature(entry[1])
  item.label, item.text, item.more = item.name, one_line(entry[2]), {}
  for i, text in ipairs(entry.more or {}) do
    item.more[i] = model.signature(text)
  end
  return item
end

function read_all(list, from)
  local items = {}
  for i = from, #list do items[#items + 1] = read(list[i]) end
  return items
end

--- Returns the groups of a table as docs/reference.lua has it.
function model.read(reference)
  local groups = {}
  for i, group in ipairs(reference) do
    groups[i] = { page = group.page, title = group.title,
      items = read_all(group, 1) }
  end
  return groups
end

--- Calls `f(item, group, class)` for each item, also for those in classes.
function model.each(groups, f)
  for _, group in ipairs(groups) do
    for _, item in ipairs(group.items) do
      f(item, group)
      for _, member in ipairs(item.items or {}) do f(member, group, item) end
    end
  end
end

return model

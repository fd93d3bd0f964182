--- The definition file for the Lua language server.
-- SPDX-License-Identifier: MIT

local WIDTH = 77

local HEAD = [[
---@meta moonwatch

-- The types of moonwatch, for the Lua language server.  This file is made from
-- docs/reference.lua by `make reference`.
]]

local Writer = {}
Writer.__index = Writer

function Writer:line(...) self[#self + 1] = table.concat { ... } end

-- Writes a text as a comment.
function Writer:comment(text)
  local line = ""
  for word in text:gmatch "%S+" do
    if #line + #word + 1 > WIDTH then
      self:line("---", line)
      line = ""
    end
    line = line == "" and word or line .. " " .. word
  end
  self:line("---", line)
end

local function mark(parameter) return parameter.optional and "?" or "" end

-- Returns the type of a value, which may be nil.
local function with_nil(value)
  if not value.optional then return value.type end
  if value.type == "any" or value.type:find "^fun" or value.type:find "|" then
    return value.type == "any" and "any" or ("(%s)?"):format(value.type)
  end
  return value.type .. "?"
end

-- Returns the type of a function.
local function overload(item, self_type)
  local params, returns = {}, {}
  if self_type then params[1] = "self: " .. self_type end
  for _, p in ipairs(item.params) do
    params[#params + 1] = p.name .. mark(p) .. ": " .. p.type
  end
  for i, r in ipairs(item.returns) do
    returns[i] = r.name == "..." and "..." or with_nil(r)
  end
  local result = #returns > 0 and ": " .. table.concat(returns, ", ") or ""
  return ("fun(%s)%s"):format(table.concat(params, ", "), result)
end

-- Writes a function, with another name than the item's if `name` is given.
function Writer:func(item, name)
  self:line ""
  self:comment(item.text)
  if item.generics then self:line("---@generic ", item.generics) end
  local names = {}
  for i, p in ipairs(item.params) do
    names[i] = p.name
    self:line("---@param ", p.name, mark(p), " ", p.type)
  end
  for _, r in ipairs(item.returns) do
    self:line("---@return ", with_nil(r), " ", r.name)
  end
  for _, more in ipairs(item.more) do
    self:line("---@overload ", overload(more))
  end
  self:line("function ", name or item.name, "(", table.concat(names, ", "),
    ") end")
end

-- Returns the name of a field without the variable of its object.
local function own_name(item) return item.name:match "[^.]+$" end

function Writer:field(item)
  self:line("---@field ", own_name(item), mark(item), " ", item.type, " ",
    item.text)
end

function Writer:class(item)
  self:line ""
  self:comment(item.text)
  self:line("---@class moonwatch.", item.name,
    item.parent and " : moonwatch." .. item.parent or "")
  if item.call then self:line("---@overload fun", item.call) end
  for _, member in ipairs(item.items) do
    if member.kind == "field" then self:field(member) end
  end
  if not item.variable then return end
  local variable = item.variable:gsub("%.", "_")
  self:line("local ", variable, " = {}")
  for _, member in ipairs(item.items) do
    if member.kind == "function" then
      self:func(member, variable .. member.name:sub(#item.variable + 1))
    end
  end
end

function Writer:alias(item)
  self:line ""
  self:comment(item.text)
  if item.type then
    self:line("---@alias moonwatch.", item.name, " ", item.type)
    return
  end
  self:line("---@alias moonwatch.", item.name)
  for _, value in ipairs(item.values) do
    self:line("---| \"", value[1], "\" # ", value[2])
  end
end

-- Calls a function for each item of the kinds that are not in a class.
local function each(groups, kinds, f)
  for _, group in ipairs(groups) do
    for _, item in ipairs(group.items) do
      if kinds[item.kind] then f(item) end
    end
  end
end

local CLASSES = { class = true, alias = true }

--- Returns the text of the definition file.
return function(groups)
  local self = setmetatable({ HEAD }, Writer)
  self:comment "Tracking for programs with Lua inside."
  self:line "---@class moonwatch"
  each(groups, { field = true }, function(item) self:field(item) end)
  self:line "local mw = {}"
  each(groups, CLASSES, function(item) self[item.kind](self, item) end)
  each(groups, { ["function"] = true }, function(item) self:func(item) end)
  self:line "\nreturn mw"
  return table.concat(self, "\n") .. "\n"
end

--- The sections of the pages that are made from the reference.
-- SPDX-License-Identifier: MIT
--
-- A page has a section between `<!-- reference:NAME -->` and `<!-- /reference
-- -->`.  NAME is the page of a group, or "names" for the index of all names.

local model = require "docs.make.model"

local pages = {}

-- {======================================================
-- Text
-- =======================================================

--- Returns the anchor that a heading has, as forges make it.
function pages.anchor(heading)
  return (heading:lower():gsub("[^%w%-_ \128-\255]", ""):gsub(" ", "-"))
end

-- Returns a text as a cell of a table.
local function cell(text) return (text:gsub("|", "\\|")) end

local function code(text) return "`" .. text .. "`" end

-- Returns "a, b[, c]".
local function in_words(params)
  local words, open = {}, 0
  for i, p in ipairs(params) do
    local comma = i > 1 and ", " or ""
    if p.optional then
      words[i] = "[" .. comma .. p.name
      open = open + 1
    else
      words[i] = comma .. p.name
    end
  end
  return table.concat(words) .. ("]"):rep(open)
end

-- Returns what a program writes to call a function, and what it gets.
local function call(item)
  local results = {}
  for i, r in ipairs(item.returns) do results[i] = code(r.name) end
  local text = code(("%s(%s)"):format(item.name, in_words(item.params)))
  if #results == 0 then return text end
  return text .. " → " .. table.concat(results, ", ")
end

-- Returns the type of a class or an alias without "moonwatch.".
local function brief(its_type) return (its_type:gsub("moonwatch%.", "")) end

local function typed(value)
  return code(("%s%s: %s"):format(value.name, value.optional and "?" or "",
    brief(value.type)))
end

-- Returns the types of the parameters and results of a function, or nil.
local function types(item)
  local given, got = {}, {}
  for i, p in ipairs(item.params) do given[i] = typed(p) end
  for i, r in ipairs(item.returns) do got[i] = typed(r) end
  local generics = item.generics and code(brief(item.generics)) .. " · " or ""
  local text = generics .. table.concat(given, ", ")
  if #got > 0 then
    text = text .. (text ~= "" and " " or "") .. "→ " ..
      table.concat(got, ", ")
  end
  return text ~= "" and text or nil
end

-- }======================================================

-- {======================================================
-- Sections
-- =======================================================

local Section = {}
Section.__index = Section

function Section:line(...) self[#self + 1] = table.concat { ... } end

-- Begins a table with these columns.
function Section:columns(...)
  local names = { ... }
  self:line ""
  self:line("| ", table.concat(names, " | "), " |")
  self:line("|", ("---|"):rep(#names))
end

function Section:row(...)
  local cells = { ... }
  for i, text in ipairs(cells) do cells[i] = cell(text) end
  self:line("| ", table.concat(cells, " | "), " |")
end

function Section:heading(item)
  self:line ""
  self:line("### ", item.label)
end

Section["function"] = function(self, item)
  self:heading(item)
  self:line ""
  self:line(call(item))
  for _, more in ipairs(item.more) do
    self:line "<br>"
    self:line(call(more))
  end
  self:line ""
  self:line(item.text)
  local its_types = types(item)
  if its_types then
    self:line ""
    self:line("Types: ", its_types, ".")
  end
end

function Section:field(item)
  self:heading(item)
  self:line ""
  self:line(code(("%s: %s"):format(item.name, brief(item.type))))
  self:line ""
  self:line(item.text)
end

-- Returns the field of a table as a program writes it.
local function field_name(item)
  return code(item.name .. (item.optional and "?" or ""))
end

-- Returns what a method or field does, and its types if they say something.
local function with_types(item)
  if item.kind == "field" then
    return ("%s<br>Type: %s"):format(item.text, code(brief(item.type)))
  end
  local its_types = types(item)
  if not its_types then return item.text end
  return ("%s<br>Types: %s"):format(item.text, its_types)
end

function Section:class(item)
  self:heading(item)
  self:line ""
  self:line(item.text, item.parent and
    (" It has what [%s](%s) has, too."):format(item.parent,
      self.places["moonwatch." .. item.parent]) or "")
  if item.variable and #item.items > 0 then
    self:columns("method", "does")
  elseif #item.items > 0 then
    self:columns("field", "type", "means")
  end
  for _, member in ipairs(item.items) do
    if not item.variable then
      self:row(field_name(member), code(brief(member.type)), member.text)
    else
      self:row(member.kind == "field" and code(member.name) or call(member),
        with_types(member))
    end
  end
end

function Section:alias(item)
  self:heading(item)
  self:line ""
  if item.type then
    self:line(item.text, " Type: ", code(brief(item.type)), ".")
    return
  end
  self:line(item.text)
  self:columns("value", "means")
  for _, value in ipairs(item.values) do
    self:row(code('"' .. value[1] .. '"'), value[2])
  end
end

-- }======================================================

-- {======================================================
-- The index
-- =======================================================

-- Returns the first sentence of a text.
local function first_sentence(text)
  return text:match "^(.-[^.]%.) [%u`]" or text
end

-- Returns the key that sorts names: "mw.id" stands at "id", "map:get" at
-- "map:get".
local function sort_key(name)
  return (name:gsub("^mw%.", "")):lower() .. " " .. name
end

--- Returns the index: an array of { name, page, anchor, text }.
function pages.names(groups)
  local list = {}
  model.each(groups, function(item, group, class)
    if class and not class.variable then return end -- a field of options
    list[#list + 1] = {
      name = class and item.name or item.label, page = group.page,
      anchor = pages.anchor((class or item).label),
      text = first_sentence(item.text),
    }
  end)
  table.sort(list, function(a, b)
    return sort_key(a.name) < sort_key(b.name)
  end)
  return list
end

-- }======================================================

local function index(groups)
  local self = setmetatable({}, Section)
  self:columns("name", "says")
  for _, entry in ipairs(pages.names(groups)) do
    self:row(("[`%s`](%s.md#%s)"):format(entry.name, entry.page, entry.anchor),
      entry.text)
  end
  self:line ""
  return table.concat(self, "\n")
end

-- Returns the targets of links to the classes, by name, on a group's page.
local function places_for(group, groups)
  local places = {}
  model.each(groups, function(item, its_group, class)
    local page = its_group == group and "" or its_group.page .. ".md"
    if not class then
      places[item.label] = page .. "#" .. pages.anchor(item.label)
    end
  end)
  return places
end

local function reference(group, groups)
  local self = setmetatable({ places = places_for(group, groups) }, Section)
  for _, item in ipairs(group.items) do self[item.kind](self, item) end
  self:line ""
  return table.concat(self, "\n")
end

--- Returns the text of a page with its section filled in.  Raises for a
-- section of which the reference knows nothing.
function pages.fill(text, groups)
  local sections = { names = function() return index(groups) end }
  for _, group in ipairs(groups) do
    sections[group.page] = function() return reference(group, groups) end
  end
  local pattern = "(<!%-%- reference:(%w+) %-%->\n).-(<!%-%- /reference %-%->)"
  return (text:gsub(pattern,
    function(head, name, tail)
      assert(sections[name], "no section: " .. name)
      return head .. sections[name]() .. "\n" .. tail
    end))
end

return pages

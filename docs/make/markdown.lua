--- The part of Markdown that the pages use, as HTML.
-- SPDX-License-Identifier: MIT
--
-- Blocks: headings, paragraphs, lists with `-` or `1.`, tables, code between
-- fences, comments, which are left out.  In a line: code, bold, emphasis,
-- links, pictures, `<br>`.  A list's item goes on in lines that are indented.

local highlight = require "docs.make.highlight"
local pages = require "docs.make.pages"

local escape = highlight.escape

local Page = {}
Page.__index = Page

-- {======================================================
-- Lines
-- =======================================================

-- Puts the pieces of HTML aside for which `make` is called, so that no other
-- rule looks at them.
local function set_aside(self, text, pattern, make)
  return (text:gsub(pattern, function(...)
    local html = make(...)
    if not html then return nil end
    self.pieces[#self.pieces + 1] = html
    return "\1" .. #self.pieces .. "\2"
  end))
end

-- Returns a text with the rules for a line.
function Page:inline(text)
  text = set_aside(self, text, "(`+)(.-)%1", function(_, code)
    return "<code>" .. self.code(escape(code:gsub("\\|", "|"))) .. "</code>"
  end)
  text = set_aside(self, text, "<br>", function() return "<br>" end)
  text = escape(text)
  text = set_aside(self, text, "!%[(.-)%]%((.-)%)", function(about, path)
    return ('<img src="%s" alt="%s">'):format(path, about)
  end)
  text = text:gsub("%[(.-)%]%((.-)%)", function(title, path)
    local target = self.link(path)
    return target and ('<a href="%s">%s</a>'):format(target, title) or title
  end)
  text = text:gsub("%*%*(%S.-)%*%*", "<strong>%1</strong>")
  text = text:gsub("%f[%S%(]%*(%S.-)%*", "<em>%1</em>")
  local n
  repeat
    text, n = text:gsub("\1(%d+)\2", function(i)
      return self.pieces[tonumber(i)]
    end)
  until n == 0
  return text
end

-- Returns a text as readers see it, without marks.
local function plain(text)
  return (text:gsub("!?%[(.-)%]%(.-%)", "%1"):gsub("[`*]", ""):gsub("\\|", "|")
    :gsub("<br>", " "))
end

-- }======================================================

-- {======================================================
-- Blocks
-- =======================================================

function Page:line() return self.lines[self.at] end

function Page:next() self.at = self.at + 1 end

function Page:write(...) self[#self + 1] = table.concat { ... } end

-- Adds words to what the search finds in the section.
function Page:add_words(text)
  local section = self.sections[#self.sections]
  if section then section.words[#section.words + 1] = plain(text) end
end

function Page:heading(marks, title)
  local anchor = pages.anchor(title)
  self.anchors[anchor] = true
  self.sections[#self.sections + 1] = { level = #marks, title = plain(title),
    anchor = anchor, words = {} }
  self:write(('<h%d id="%s">%s<a class="anchor" href="#%s">#</a></h%d>')
    :format(#marks, anchor, self:inline(title), anchor, #marks))
  self:next()
end

function Page:fence(language)
  local code = {}
  self:next()
  while self:line() and not self:line():find "^```" do
    code[#code + 1] = self:line()
    self:next()
  end
  self:next()
  local text = table.concat(code, "\n")
  self:add_words(text)
  local html = language == "lua" and highlight.lua(text) or escape(text)
  self:write('<pre><code class="', language, '">', html, "</code></pre>")
end

-- Returns the cells of a line of a table.
local function cells_of(line)
  local cells = {}
  line = line:gsub("\\|", "\3"):match "^%s*|(.*)|%s*$"
  for cell in (line .. "|"):gmatch "(.-)|" do
    cells[#cells + 1] = cell:gsub("\3", "|"):match "^%s*(.-)%s*$"
  end
  return cells
end

function Page:row(tag, cells)
  local html = {}
  for i, cell in ipairs(cells) do
    html[i] = ("<%s>%s</%s>"):format(tag, self:inline(cell), tag)
    self:add_words(cell)
  end
  self:write("<tr>", table.concat(html), "</tr>")
end

function Page:table()
  local head = cells_of(self:line())
  self:write '<div class="table"><table>'
  if table.concat(head) ~= "" then self:row("th", head) end
  self:next()
  self:next() -- the rule below the head
  while self:line() and self:line():find "^|" do
    self:row("td", cells_of(self:line()))
    self:next()
  end
  self:write "</table></div>"
end

local ITEM = { "^%- +(.*)$", "^%d+%. +(.*)$" }

local function item_of(line)
  for _, pattern in ipairs(ITEM) do
    local text = line:match(pattern)
    if text then return text, pattern end
  end
end

function Page:list()
  local _, pattern = item_of(self:line())
  local tag = pattern == ITEM[1] and "ul" or "ol"
  self:write("<", tag, ">")
  while self:line() and self:line():find(pattern) do
    local words = { self:line():match(pattern) }
    self:next()
    while self:line() and self:line():find "^ +%S" do
      words[#words + 1] = self:line():match "^ +(.*)$"
      self:next()
    end
    local text = table.concat(words, " ")
    self:write("<li>", self:inline(text), "</li>")
    self:add_words(text)
  end
  self:write("</", tag, ">")
end

local function begins_block(line)
  return line == "" or line:find "^#+ " or line:find "^```" or
    line:find "^|" or line:find "^<!%-%-" or item_of(line)
end

function Page:paragraph()
  local words = {}
  repeat
    words[#words + 1] = self:line()
    self:next()
  until not self:line() or begins_block(self:line())
  local text = table.concat(words, "\n")
  self:write("<p>", self:inline(text), "</p>")
  self:add_words(text)
end

function Page:comment()
  while self:line() and not self:line():find "%-%->" do self:next() end
  self:next()
end

function Page:block(line)
  local marks, title = line:match "^(#+) +(.*)$"
  if marks then return self:heading(marks, title) end
  local language = line:match "^```(%a*)"
  if language then return self:fence(language) end
  if line:find "^|" then return self:table() end
  if line:find "^<!%-%-" then return self:comment() end
  if item_of(line) then return self:list() end
  return self:paragraph()
end

-- }======================================================

--- Returns a page: its HTML in `html`; the `title`; `sections`, an array of
-- { level, title, anchor, words }; and the set `anchors`.  `link(path)` returns
-- the target of a link, or nil for none; `code(html)` returns the HTML of code
-- in a line.
return function(text, link, code)
  local self = setmetatable({ lines = {}, at = 1, pieces = {}, sections = {},
    anchors = {}, link = link, code = code }, Page)
  for line in (text .. "\n"):gmatch "(.-)\r?\n" do
    self.lines[#self.lines + 1] = line
  end
  while self:line() do
    if self:line() == "" then self:next() else self:block(self:line()) end
  end
  return { html = table.concat(self, "\n"), sections = self.sections,
    title = self.sections[1] and self.sections[1].title or "",
    anchors = self.anchors }
end

-- Builds the site from the pages: docs/make/site.lua FOLDER.  The site needs no
-- server and loads nothing from elsewhere.

local files = require "docs.make.files"
local highlight = require "docs.make.highlight"
local markdown = require "docs.make.markdown"
local pages = require "docs.make.pages"

local escape = highlight.escape
local folder = assert(arg[1], "usage: site.lua FOLDER")
local groups = files.reference()
local problems = 0

local function complain(...)
  io.stderr:write(("docs: " .. (...)):format(select(2, ...)), "\n")
  problems = problems + 1
end

-- {======================================================
-- Pages
-- =======================================================

-- Type -> the page and the anchor of its section.
local places = {}
for _, entry in ipairs(pages.names(groups)) do
  local name = entry.name:match "^moonwatch%.(%w+)$"
  if name then places[name] = entry end
end

-- Returns the path without its folders that are `.` and `..`.
local function normal(path)
  local parts = {}
  for part in path:gmatch "[^/]+" do
    if part == ".." and #parts > 0 then
      parts[#parts] = nil
    elseif part ~= "." then
      parts[#parts + 1] = part
    end
  end
  return table.concat(parts, "/")
end

local function make_page(path)
  local name = path:match "^docs/(.*)%.md$"
  local up = name:find "/" and "../" or ""
  local page = { name = name, up = up, links = {} }
  -- A link to a file that is no page of the site stays text.
  local function link(target)
    if target:find "^%a+://" then return target end
    local file, anchor = target:match "^([^#]*)(#?.*)$"
    local to = file == "" and name or
      normal((name:match "^(.*/)" or "") .. file):match "^(.*)%.md$"
    if not to then return nil end
    page.links[#page.links + 1] = { page = to, anchor = anchor:sub(2) }
    if file == "" then return anchor end
    return file:gsub("%.md$", ".html") .. anchor
  end
  -- Types in signatures lead to what they are.
  local function code(html)
    if not html:find ": " and not html:find "^[%u]%w*[%[%]|?]*$" then
      return html
    end
    return (html:gsub("%f[%w]%u%w+", function(word)
      local place = places[word]
      return place and ('<a href="%s%s.html#%s">%s</a>'):format(up, place.page,
        place.anchor, word)
    end))
  end
  local made = markdown(files.read(path), link, code)
  for key, value in pairs(made) do page[key] = value end
  return page
end

local all, by_name = {}, {}
for _, path in ipairs(files.pages()) do
  local page = make_page(path)
  all[#all + 1], by_name[page.name] = page, page
end

-- Says which links lead nowhere.
for _, page in ipairs(all) do
  for _, link in ipairs(page.links) do
    local target = by_name[link.page]
    if not target then
      complain("%s.md: there is no page %s.md", page.name, link.page)
    elseif link.anchor ~= "" and not target.anchors[link.anchor] then
      complain("%s.md: %s.md has no section #%s", page.name, link.page,
        link.anchor)
    end
  end
end

-- }======================================================

-- {======================================================
-- The frame of a page
-- =======================================================

-- The pages in the order in which the index has them, then the others.
local function in_order()
  local list, known = {}, {}
  local function add(name)
    if by_name[name] and not known[name] then
      known[name] = true
      list[#list + 1] = by_name[name]
    end
  end
  add "index"
  for _, link in ipairs(by_name.index.links) do add(link.page) end
  for _, page in ipairs(all) do add(page.name) end
  return list
end

local ordered = in_order()

local function nav_links(page, is_recipe)
  local html = {}
  for _, other in ipairs(ordered) do
    if (other.name:find "^recipes/" ~= nil) == is_recipe then
      html[#html + 1] = ('<a href="%s%s.html"%s>%s</a>'):format(page.up,
        other.name, other == page and ' class="here"' or "",
        escape(other.title))
    end
  end
  return table.concat(html, "\n")
end

-- Links to the sections of a page.
local function contents(page)
  local html = {}
  for _, section in ipairs(page.sections) do
    if section.level == 2 or section.level == 3 then
      html[#html + 1] = ('<a class="l%d" href="#%s">%s</a>'):format(
        section.level, section.anchor, escape(section.title))
    end
  end
  return #html > 2 and '<nav class="contents">' .. table.concat(html, "\n") ..
    "</nav>" or ""
end

local FRAME = [[
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>$TITLE</title>
<link rel="stylesheet" href="$UPstyle.css">
</head>
<body data-up="$UP">
<header>
<a class="brand" href="$UPindex.html">moonwatch</a>
<input id="search" type="search" placeholder="Search (press /)"
 aria-label="Search" autocomplete="off">
<div id="results" hidden></div>
</header>
<div class="columns">
<nav class="pages">
$PAGES
<p>Recipes</p>
$RECIPES
</nav>
<main>
$BODY
</main>
$CONTENTS
</div>
<script src="$UPnames.js"></script>
<script src="$UPsearch.js"></script>
</body>
</html>
]]

local function frame(page)
  local title = page.title == "moonwatch" and "moonwatch" or
    page.title .. " - moonwatch"
  local parts = { TITLE = escape(title), UP = page.up, BODY = page.html,
    PAGES = nav_links(page, false), RECIPES = nav_links(page, true),
    CONTENTS = contents(page) }
  return (FRAME:gsub("%$UP", page.up):gsub("%$(%u+)", parts))
end

-- }======================================================

-- {======================================================
-- The search
-- =======================================================

local function quote(text)
  return '"' .. text:gsub('[%c"\\<]', function(c)
    return ("\\u%04x"):format(c:byte())
  end) .. '"'
end

-- What the search finds: [title, target, words, is it a name?] of each name of
-- the library, and of each section of a page.
local function found()
  local list = {}
  local function add(title, target, words, is_name)
    list[#list + 1] = ("[%s,%s,%s,%d]"):format(quote(title), quote(target),
      quote(words), is_name and 1 or 0)
  end
  for _, entry in ipairs(pages.names(groups)) do
    add(entry.name, entry.page .. ".html#" .. entry.anchor,
      (entry.text:gsub("`", "")), true)
  end
  for _, page in ipairs(ordered) do
    for i, section in ipairs(page.sections) do
      local is_known = section.title:find "^mw%." or
        section.title:find "^moonwatch%."
      if not is_known and page.name ~= "index" then
        local title = i > 1 and page.title .. ": " .. section.title or
          page.title
        add(title, page.name .. ".html#" .. section.anchor,
          (table.concat(section.words, " "):gsub("%s+", " ")))
      end
    end
  end
  return "var NAMES = [\n" .. table.concat(list, ",\n") .. "\n];\n"
end

-- }======================================================

assert(os.execute(("mkdir -p '%s/recipes'"):format(folder)))
for _, page in ipairs(all) do
  files.write(folder .. "/" .. page.name .. ".html", frame(page))
end
files.write(folder .. "/names.js", found())
for _, name in ipairs { "style.css", "search.js" } do
  files.write(folder .. "/" .. name, files.read("docs/make/" .. name))
end
assert(os.execute(("cp docs/*.png '%s'"):format(folder)))
print(("%d pages in %s"):format(#all, folder))
os.exit(problems == 0)

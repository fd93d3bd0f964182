-- A text editor without a screen: commands, undo, marks that follow the text, a
-- word count that is computed when it is needed, and an autosave from which the
-- text comes back after a crash.

local mw = require "moonwatch"

-- The document ----------------------------------------------------------

local function new_document()
  return { name = "Untitled", lines = { "" }, cursor = { line = 1, column = 1 },
    marks = {} }
end

local document = mw.track(new_document(), { deep = true })

-- The autosave: a file with one string a step, here an array.
local journal = {}

local history = mw.history {
  limit = 500, merge_window = 2,
  on_step = function(effects)
    if effects:len() > 0 then
      journal[#journal + 1] = assert(effects:to_bytes(document))
    end
  end,
}
history:merge "type"

-- A document as it was before a crash.
local function recover()
  local copy = new_document()
  for _, bytes in ipairs(journal) do assert(mw.patch_bytes(copy, bytes)) end
  return copy
end

-- Commands: they write, and raise when they cannot --------------------------

local commands = {}

local function line_at(n)
  return document.lines[n] or error(("there is no line %d"):format(n), 0)
end

function commands.type(text)
  local cursor = document.cursor
  local line = line_at(cursor.line)
  document.lines[cursor.line] = line:sub(1, cursor.column - 1) .. text ..
    line:sub(cursor.column)
  cursor.column = cursor.column + #text
end

commands["break line"] = function()
  local cursor = document.cursor
  local line = line_at(cursor.line)
  document.lines[cursor.line] = line:sub(1, cursor.column - 1)
  table.insert(document.lines, cursor.line + 1, line:sub(cursor.column))
  for _, mark in pairs(document.marks) do
    if mark.line > cursor.line then mark.line = mark.line + 1 end
  end
  cursor.line, cursor.column = cursor.line + 1, 1
end

commands["delete line"] = function(n)
  line_at(n)
  table.remove(document.lines, n)
  for name, mark in pairs(document.marks) do
    if mark.line == n then
      document.marks[name] = nil
    elseif mark.line > n then
      mark.line = mark.line - 1
    end
  end
  if #document.lines == 0 then document.lines[1] = "" end
  local cursor = document.cursor
  cursor.line, cursor.column = math.min(cursor.line, #document.lines), 1
end

function commands.go(line, column)
  line_at(line)
  document.cursor.line, document.cursor.column = line, column or 1
end

function commands.mark(name)
  document.marks[name] = { line = document.cursor.line }
end

function commands.replace(pattern, by)
  local count = 0
  for i, line in ipairs(document.lines) do
    local text, n = line:gsub(pattern, by)
    if n > 0 then document.lines[i] = text end
    count = count + n
  end
  if count == 0 then error(("no '%s' found"):format(pattern), 0) end
  return count
end

function commands.rename(name)
  if name:find "/" then error("a name has no '/'", 0) end
  document.name = name
end

commands["sort lines"] = function() table.sort(document.lines) end

-- A command is a step of the history. Its error leaves nothing behind.
local function run(label, ...)
  local ok, message = pcall(history.run, history, label, commands[label], ...)
  if not ok then print("! " .. message) end
  return ok
end

-- What a window shows -------------------------------------------------------

local counted = 0
local words = mw.memo(function()
  counted = counted + 1
  local n = 0
  for _, line in ipairs(document.lines) do
    for _ in line:gmatch "%S+" do n = n + 1 end
  end
  return n
end):on(document, { key = "lines", deep = true })

local title = mw.memo(function()
  return document.name
end):on(document, { key = "name" })

local function show(what)
  print(("-- %s: %s%s, %d words, line %d"):format(what, title(),
    history:is_saved() and "" or "*", words(), document.cursor.line))
  for i, line in ipairs(document.lines) do
    local names = {}
    for name, mark in pairs(document.marks) do
      if mark.line == i then names[#names + 1] = name end
    end
    table.sort(names)
    print(("%2d %s%s"):format(i, line,
      #names > 0 and "  <" .. table.concat(names, " ") .. ">" or ""))
  end
end

local function undo()
  local label, message = history:undo()
  return label and "undo " .. label or message or "nothing to undo"
end

local function redo()
  local label, message = history:redo()
  return label and "redo " .. label or message or "nothing to redo"
end

-- A session -----------------------------------------------------------------

for letter in ("pears"):gmatch "." do run("type", letter) end
run "break line"
run("type", "apples")
run("mark", "here")
run "break line"
run("type", "old plums")
show "typed"

run("rename", "shopping")
history:mark_saved()
show "saved"

run("replace", "kiwis", "figs")
run("rename", "a/b")
run("go", 9)
run "sort lines"
run("replace", "old ", "fresh ")
run("delete line", 1)
show "edited"

print(undo())
print(undo())
print(undo())
show "undone"
print(redo())
run("go", 1)
run("type", "green ")
print(redo())
show "typed after an undo"

print("-- steps: " .. table.concat(history:labels(), ", "))
print(("-- words were counted %d times"):format(counted))

-- The program is killed here; the journal is what is left.
local copy = recover()
print(("-- recovered %d lines from %d steps: %s"):format(#copy.lines, #journal,
  #mw.diff(mw.plain(document), copy) == 0 and "as it was" or "something else"))

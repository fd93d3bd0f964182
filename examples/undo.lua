-- The undo stack of an editor: commands just write to the document, and a
-- history records what they wrote.

local mw = require "moonwatch"

local document = mw.track({
  title = { text = "Untitled" },
  lines = {
    { text = "It was a", style = {} }, { text = "night.", style = {} },
  },
}, { deep = true })

local history = mw.history { limit = 100 }
history:merge "typing"

local function show(what)
  local lines = {}
  for i, line in ipairs(document.lines) do
    lines[i] = line.style.bold and "*" .. line.text .. "*" or line.text
  end
  print(("%-28s %s: %s%s"):format(what, document.title.text,
    table.concat(lines, " / "), history:is_saved() and "" or " (not saved)"))
end

-- Commands --------------------------------------------------------------

local commands = {}

function commands.typing(i, character)
  local line = document.lines[i]
  line.text = line.text .. character
end

function commands.bold(i) document.lines[i].style.bold = true end

function commands.rename(text) document.title.text = text end

-- The new line is tracked as soon as it is in the document.
function commands.split(i, word)
  local line = document.lines[i]
  local head, tail = line.text:match("(.-) (" .. word .. ".*)")
  line.text = head
  table.insert(document.lines, i + 1, { text = tail, style = {} })
end

function commands.replace(from, to)
  for i, line in ipairs(document.lines) do
    if line.style.bold then error(("line %d is protected"):format(i), 0) end
    line.text = line.text:gsub(from, to)
  end
end

local function run(label, ...) history:run(label, commands[label], ...) end

local function undo() show("undo " .. (history:undo() or "nothing")) end

local function redo() show("redo " .. (history:redo() or "nothing")) end

-- A session -------------------------------------------------------------

show "a new document"
for character in (" dark"):gmatch "." do run("typing", 1, character) end
show "five keys"
run("split", 1, "was")
run("bold", 3)
show "split, bold"
run("rename", "Paul Clifford")
history:mark_saved()
show "rename, save"

local ok, message = pcall(run, "replace", "a", "o")
show(ok and "replaced" or message) -- and lines 1 and 2 as before

for _ = 1, 5 do undo() end
for _ = 1, 3 do redo() end
run("typing", 3, "..")
show "typed after an undo"
print("steps: " .. table.concat(history:labels(), ", "))

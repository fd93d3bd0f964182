-- A build tool that explains why it rebuilds. Files are tables; a target
-- watches what it was made of, and remembers the first change that made it
-- stale.

local mw = require "moonwatch"

-- Files -------------------------------------------------------------------

local files = {
  ["main.c"] = { text = '#include "list.h"\n#include "text.h"\nint main(){}' },
  ["list.c"] = { text = '#include "list.h"\nlist code' },
  ["list.h"] = { text = "list header" },
  ["text.c"] = { text = '#include "text.h"\ntext code' },
  ["text.h"] = { text = '#include "list.h"\ntext header' },
}
local settings = { flags = "-O2", name = "game" }

local function edit(name, text) files[name].text = text end

-- What a file includes, and what that includes, after the file itself.
local function with_headers(name, found)
  found = found or {}
  if found[name] then return found end
  found[name] = true
  found[#found + 1] = name
  for header in files[name].text:gmatch '#include "([^"]+)"' do
    with_headers(header, found)
  end
  return found
end

-- Targets -----------------------------------------------------------------

-- A target is stale while it has a reason.
local Target = {}
Target.__index = Target

local targets = {}

-- `parts` are names of targets, `reads` returns names of files; `option` is the
-- setting that `make` uses.
local function declare(name, option, parts, reads, make)
  targets[name] = setmetatable({ name = name, option = option, parts = parts,
    reads = reads, make = make, reason = "it was never built", watches = {},
  }, Target)
end

-- The target is stale after the next write to a field that changes the field,
-- and says so in these words. The first reason counts.
function Target:depend(t, key, words)
  local function tell(_, _, old, new)
    self.reason = self.reason or words:format(old, new)
  end
  self.watches[#self.watches + 1] = mw.watch(t, tell,
    { key = key, equal = "skip" })
end

function Target:watch_inputs()
  for _, watch in ipairs(self.watches) do watch:cancel() end
  self.watches = {}
  for _, file in ipairs(self.reads()) do
    self:depend(files[file], "text", file .. " was edited")
  end
  self:depend(settings, self.option, self.option .. " was %s and is %s")
end

-- Builds what is stale below the target, then the target. Returns whether the
-- target was built.
function Target:build()
  for _, part in ipairs(self.parts) do
    if targets[part]:build() then
      self.reason = self.reason or part .. " was built"
    end
  end
  if not self.reason then return false end
  local contents = {}
  for i, part in ipairs(self.parts) do contents[i] = targets[part].result end
  for _, file in ipairs(self.reads()) do
    contents[#contents + 1] = files[file].text
  end
  self.result = self.make(settings[self.option], contents)
  print(("%-8s because %s"):format(self.name, self.reason))
  self.reason = nil
  self:watch_inputs()
  return true
end

local function compile(flags, texts)
  return ("[%s %d]"):format(flags, #table.concat(texts))
end

local function link(name, objects)
  return name .. ": " .. table.concat(objects, " ")
end

local function program(sources)
  local objects = {}
  for i, source in ipairs(sources) do
    objects[i] = source:gsub("%.c$", ".o")
    declare(objects[i], "flags", {}, function() return with_headers(source) end,
      compile)
  end
  declare("program", "name", objects, function() return {} end, link)
end

-- A session -----------------------------------------------------------------

local function build(what)
  print("-- " .. what)
  if not targets.program:build() then print "nothing to do" end
end

program { "main.c", "list.c", "text.c" }
build "the first time"
build "again"

edit("list.c", '#include "list.h"\nbetter list code')
build "list.c was edited"

edit("list.h", "another list header")
build "list.h was edited, which text.h includes"

edit("text.c", files["text.c"].text)
build "text.c was saved without a change"

settings.name = "game2"
build "the program has another name"

edit("main.c", "int main(){}")
edit("list.h", "a third list header")
build "main.c includes nothing any more"

edit("list.h", "a fourth list header")
build "list.h was edited again"
print(targets.program.result)

-- A branch is tried in a transaction: what it edits is taken back, and the
-- guards are called for that, too.
local tx = mw.begin "branch"
settings.flags = "-O3"
edit("text.h", "no includes")
build "on a branch"
tx:rollback()
build "back from the branch"
print(targets.program.result)

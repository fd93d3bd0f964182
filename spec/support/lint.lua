-- Checks formats, layers, and lists that must agree.  Ends with one line: N
-- passed, M failed.

package.path = "./?.lua;" .. package.path

local function lines_of(command)
  local list = {}
  local pipe = assert(io.popen(command))
  for line in pipe:lines() do list[#list + 1] = line end
  pipe:close()
  return list
end

local function text_of(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

local files = lines_of "git ls-files --cached --others --exclude-standard"

local function matching(...)
  local list = {}
  for _, path in ipairs(files) do
    for _, pattern in ipairs { ... } do
      if path:find(pattern) then
        list[#list + 1] = path
        break
      end
    end
  end
  return list
end

local C = matching "%.[ch]$"
local ENGINE = matching "^engine/[^/]+%.[ch]$"
local PATHS = table.concat(C, " ")

-- A check by a command, whose output is the complaints.
local function silent(command)
  return function()
    return lines_of("{ " .. command .. "; } 2>&1")
  end
end

-- A check that no line of the files matches one of the patterns.
local function without(paths, ...)
  local patterns = { ... }
  return function()
    local list = {}
    for _, path in ipairs(paths) do
      local n = 0
      for line in (text_of(path) .. "\n"):gmatch "(.-)\n" do
        n = n + 1
        for _, pattern in ipairs(patterns) do
          if line:find(pattern) then
            list[#list + 1] = ("%s:%d: %s"):format(path, n, line)
          end
        end
      end
    end
    return list
  end
end

local WARN = " -Wall -Wextra -Wshadow -Wconversion -fsyntax-only "

-- A check that the public header, each file of the engine and all of the engine
-- as one compile alone, without a warning.
local function compiles(compiler)
  return function()
    local list = {}
    local function compile(file, before)
      local command = (before or "") .. compiler .. WARN .. file .. " 2>&1"
      for _, line in ipairs(lines_of(command)) do list[#list + 1] = line end
    end
    for _, path in ipairs(matching("^engine/[^/]+%.c$", "/moonwatch%.h$")) do
      compile(path)
    end
    compile("-I. -", "printf '#include \"%s\"\\n' engine/*.c | ")
    return list
  end
end

-- The version stands in moonwatch.h, and is asked for nowhere else.
local function one_version()
  local list, header = {}, text_of "engine/moonwatch.h"
  local numbers = {}
  for name in ("MAJOR MINOR PATCH"):gmatch "%u+" do
    numbers[#numbers + 1] =
      header:match("#define MW_VERSION_" .. name .. " (%d+)\n")
  end
  local version = table.concat(numbers, ".")
  local pipe = assert(io.popen "make -s version")
  if pipe:read "l" ~= version then list[#list + 1] = "make has another" end
  pipe:close()
  for _, path in ipairs(matching "%.rockspec$") do
    local rock = text_of(path):match 'version = "([^"]+)%-%d+"'
    if rock ~= "scm" and rock ~= version then
      list[#list + 1] = path .. " has version " .. tostring(rock)
    end
  end
  return list
end

-- The command's rockspec lists each file.
local function rockspec_lists()
  local list = {}
  local spec = text_of "rockspec/moonwatch-cli-scm-1.rockspec"
  for _, path in ipairs(matching "^command/.*%.lua$") do
    if not spec:find('"' .. path .. '"', 1, true) then
      list[#list + 1] = path .. " is not in the rockspec"
    end
  end
  return list
end

-- Each declaration follows a comment.
local function manual_is_complete()
  local list, last = {}, ""
  for line in text_of("engine/moonwatch.h"):gmatch "(.-)\n" do
    if line:find "^MW_API" and not last:find "%*/$" then
      list[#list + 1] = "not explained: " .. line
    end
    last = line
  end
  return list
end

-- The rooms of the binding: a header may include headers of its own room and of
-- those before it, and a header of the engine none of these.
local ROOMS = { "base", "traps", "watch", "journal", "readers", "snapshot",
  "names", "trace", "box" }

local function headers_are_in_order()
  local list, number = {}, {}
  for i, room in ipairs(ROOMS) do number[room] = i end
  for _, path in ipairs(matching "^engine/.*%.h$") do
    local room = number[path:match "bind/([^/]+)/" or ""]
    for name in text_of(path):gmatch '#include "([^"\n]+)"' do
      local other = number[name:match "([^/]+)/[^/]+$" or ""]
      if other and not (room and other <= room) then
        list[#list + 1] = ("%s includes %s"):format(path, name)
      end
    end
  end
  for _, path in ipairs(matching "^engine/bind/[^/]+/") do
    if not number[path:match "bind/([^/]+)/"] then
      list[#list + 1] = path .. " is in no room"
    end
  end
  return list
end

local function only_lua()
  local list = {}
  for _, path in ipairs(matching "^lua/") do
    if not path:find "%.lua$" then list[#list + 1] = path end
  end
  return list
end

local checks = {
  { "luacheck is content",
    silent "luacheck -q --no-color . | grep -v '^Total'" },
  { "clang-format is content",
    silent("clang-format --dry-run " .. PATHS) },
  { "cppcheck is content", silent("cppcheck -q --enable=warning,portability " ..
    "'-D__KHASH_IMPL(a,b,c,d,e,f,g)=' engine") },
  { "the engine is C11", compiles "gcc -std=c11 -Wstrict-prototypes -x c" },
  { "the engine is C++17", compiles "g++ -std=c++17 -x c++" },
  { "the checks are C11", compiles "gcc -std=c11 -DMW_CHECKS -x c" },
  { "the checks are C++17", compiles "g++ -std=c++17 -DMW_CHECKS -x c++" },
  { "the binding is C++17", silent("g++ -std=c++17 -x c++ " ..
    "-fvisibility=hidden -I " .. os.getenv "LUA_INCDIR" .. WARN ..
    "engine/bind/*/*.c") },
  { "the engine knows nothing of Lua",
    without(ENGINE, "include.*lua%.h", "include.*lauxlib", "lua_State") },
  { "the library does not print, exit or allocate on its own",
    without(matching "^engine/", "%f[%w_]v?f?printf", "stderr",
      "%f[%w_]exit *%(", "%f[%w_]abort *%(", "%f[%w_]malloc *%(",
      "%f[%w_]free *%(") },
  { "headers include those of earlier rooms", headers_are_in_order },
  { "no room is above its limit", require("tools.weigh").complaints },
  { "under lua/ are Lua files only", only_lua },
  { "the version is one", one_version },
  { "luarocks is content", silent(
    "for f in rockspec/*.rockspec; do " ..
    "luarocks --lua-version 5.4 lint $f; done") },
  { "the command's rockspec lists each file", rockspec_lists },
  { "the manual explains each function", manual_is_complete },
  { "comments are whole", without(C, "^%s*%*%l+[ ,.]?%l*$") },
  { "no line is longer than 80 columns", -- but in types/, which is made
    without(matching("%.[ch]$", "^[^t].*%.lua$"), "^" .. ("."):rep(81)) },
  { "nothing is left to do",
    without(matching("%.[ch]$", "%.lua$"), "TO" .. "DO", "FIX" .. "ME") },
}

local passed, failed = 0, 0
for _, check in ipairs(checks) do
  local complaints = check[2]()
  if #complaints == 0 then
    passed = passed + 1
  else
    failed = failed + 1
    print("not so: " .. check[1])
    print(table.concat(complaints, "\n"))
  end
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)

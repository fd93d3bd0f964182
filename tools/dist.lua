-- Makes dist/: the engine and the binding as moonwatch.c and moonwatch.h, and
-- the library's Lua files as moonwatch_lua.c.
--
--   lua tools/dist.lua KHASH FOLDER
--
-- KHASH is klib's khash.h, or `-`: then the Lua files only.
--
-- The C files become one unit.  Each header stands once, where the first file
-- includes it.  A name that is private to a file gets the name of the file in
-- front; a macro of a file ends with the file.

local khash, folder = arg[1], arg[2]

local function text_of(path)
  local file = assert(io.open(path, "rb"))
  local text = file:read "a"
  file:close()
  return text
end

local function write(path, ...)
  local file = assert(io.open(path, "wb"))
  file:write(...)
  file:close()
end

local function files(pattern)
  local list = {}
  local pipe = assert(io.popen("ls " .. pattern))
  for path in pipe:lines() do list[#list + 1] = path end
  pipe:close()
  return list
end

-- {======================================================
-- Names
-- =======================================================

-- The places between the braces of structs: begin -> end.
local function bodies(text)
  local list = {}
  for from, to in text:gmatch "struct[%w_ ]* ()%b{}()" do list[from] = to end
  return list
end

-- Calls `f(name)` for each name outside comments, texts and included files that
-- is no member of a struct; the result, if any, replaces the name.
local function each_name(text, f)
  local out, at, stops, stop_of = {}, 1, bodies(text), 0
  while at <= #text do
    local stop = select(2, text:find("^/%*.-%*/", at)) or
      select(2, text:find('^"[^"\\\n]*"', at))
    if not stop and text:find('^"', at) then
      stop = at + 1
      while text:sub(stop, stop) ~= '"' do
        stop = stop + (text:sub(stop, stop) == "\\" and 2 or 1)
      end
    end
    stop = stop or select(2, text:find("^'\\?.-'", at)) or
      select(2, text:find("^#include[^\n]*", at))
    if stop then
      out[#out + 1] = text:sub(at, stop)
    elseif text:find("^[%a_]", at) then
      stop = select(2, text:find("^[%w_]+", at))
      local name = text:sub(at, stop)
      local is_member = text:find("^%.", at - 1) or text:find("^%->", at - 2) or
        at < stop_of and text:find("^%s*[;,:%[)]", stop + 1)
      out[#out + 1] = not is_member and f(name) or name
    else
      stop_of = math.max(stop_of, stops[at] or 0)
      stop = select(2, text:find("^%d[%w_.]*", at)) or at
      out[#out + 1] = text:sub(at, stop)
    end
    at = stop + 1
  end
  return table.concat(out)
end

local function without_comments(text)
  return (text:gsub("/%*.-%*/", ""))
end

-- The names that a file declares outside functions, and its macros.
local function names_of(text)
  local names, macros = {}, {}
  text = "\n" .. without_comments(text):gsub("\\\n", " ")
  for name in text:gmatch "\n#define ([%w_]+)" do macros[name] = true end
  for line in text:gmatch "\n(static [^\n]*[^\n]*)" do
    local name = line:match "^[^=(]-([%w_]+)%(" or
      line:match "^[^=(;]-([%w_]+)%s*%[" or line:match "^[^=(;]-([%w_]+)%s*[=;]"
    if name then names[name] = true end
  end
  for name in text:gmatch "\nstatic [%w_ *\n]*[ *\n]([%w_]+)%(" do
    names[name] = true
  end
  for body in text:gmatch "\n[%w ]*enum[%w_ ]*(%b{})" do
    for name in (body:sub(2, -2) .. ","):gmatch "([%a_][%w_]*)[^,]*," do
      names[name] = true
    end
  end
  for name in text:gmatch "\n[%w ]*struct ([%w_]+) {" do names[name] = true end
  for name in text:gmatch "\n} ([%w_]+);" do names[name] = true end
  for name in text:gmatch "\ntypedef [^\n{]-([%w_]+);" do names[name] = true end
  for name in text:gmatch "\ntypedef [^\n{]-%(%*([%w_]+)%)" do
    names[name] = true
  end
  return names, macros
end

-- }======================================================

-- {======================================================
-- One unit
-- =======================================================

local HEAD = [[
/*
** moonwatch.c - the tracking engine, and its binding to Lua, in one file.
** SPDX-License-Identifier: MIT
**
** Made from the files of the project, see `make dist`.  With MW_ENGINE_ONLY
** defined, the engine alone, without Lua.
*/
#if defined(__APPLE__)
#ifndef _DARWIN_C_SOURCE
#define _DARWIN_C_SOURCE
#endif
#elif !defined(_XOPEN_SOURCE)
#define _XOPEN_SOURCE 700
#endif

]]

local LUA_HEADERS = [[
#if defined(__cplusplus) && !defined(MW_LUA_CPP)
extern "C" {
#endif
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#if defined(__cplusplus) && !defined(MW_LUA_CPP)
}
#endif

]]

-- Around klib's code, of which not all is used.
local UNUSED_BEGIN = [[
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-function"
#endif
]]
local UNUSED_END = [[
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
]]

-- Around all types and functions, but for system headers.
local HIDDEN_BEGIN = [[
#if defined(__GNUC__) && defined(__ELF__)
#pragma GCC visibility push(hidden)
#endif

]]
local HIDDEN_END = HIDDEN_BEGIN:gsub("push%(hidden%)", "pop")

-- klib's khash.h, with its licence; of other makers' khash.h without what needs
-- further files of theirs, but for a file that rounds numbers.
local function khash_text()
  local text = text_of(khash)
  local at = text:find "\n#include \"kroundup.h\""
  text = text:gsub("static kh_inline khint_t __ac_X31_hash_kstring%b()%s*" ..
    "%b{}\n", ""):gsub('#include "kstring.h"\n', "")
  if not at then return text end
  return (text:gsub('#include "kroundup.h"\n', function()
    return text_of((khash:gsub("khash.h$", "kroundup.h")))
  end))
end

local included = { ["engine/moonwatch.h"] = true,
  ["engine/bind/base/moonwatch_lua.h"] = true }

local function join(path, name)
  local at = path:match "^(.*)/" .. "/" .. name
  return (at:gsub("[^/]+/%.%./", ""))
end

local expand

local function include(path, name)
  local header = join(path, name)
  if included[header] then return "" end
  included[header] = true
  return expand(header, text_of(header))
end

function expand(path, text)
  local expanded = text:gsub('#include "([^"\n]+)"\n', function(name)
    return include(path, name)
  end)
  if path ~= "engine/table.c" then return expanded end
  local from = expanded:find("#if !defined(__has_include)", 1, true)
  local _, to = expanded:find("#endif\n", from, true)
  return table.concat { expanded:sub(1, from - 1), UNUSED_BEGIN, khash_text(),
    UNUSED_END, expanded:sub(to + 1) }
end

local OS = "engine/bind/base/os.c" -- all of the system's own headers
local engine = files "engine/*.c"
local binding = files "engine/bind/*/*.c"

local function part(path)
  local text = text_of(path)
  local names, macros = names_of(text)
  local base = path:match "([%w_]+)%.c$"
  if path:find "/bind/" then base = "bind_" .. base end
  text = each_name(text, function(name)
    if names[name] and not macros[name] and not name:find "^mw[ib]?_" then
      return base .. "_" .. name
    end
  end)
  local list = {}
  for name in pairs(macros) do
    if not name:find "^_" then list[#list + 1] = "#undef " .. name .. "\n" end
  end
  table.sort(list)
  return expand(path, text) .. "\n" .. table.concat(list) .. "\n"
end

local function parts(list)
  local texts = {}
  for _, path in ipairs(list) do
    if path ~= OS then texts[#texts + 1] = part(path) end
  end
  return table.concat(texts)
end

-- The system headers that the files include, for all files at once.
local function system_headers(list)
  local names, lines = {}, {}
  for _, path in ipairs(list) do
    for name in text_of(path):gmatch "\n#include (<[%w.]+>)" do
      names[name] = path ~= OS and not name:find "khash" or nil
    end
  end
  for name in pairs(names) do
    if not name:find "^<lua" and not name:find "^<laux" then
      lines[#lines + 1] = "#include " .. name .. "\n"
    end
  end
  table.sort(lines)
  return table.concat(lines) .. "\n"
end

local all = {}
for _, pattern in ipairs { "engine/*.[ch]", "engine/bind/*/*.[ch]" } do
  for _, path in ipairs(files(pattern)) do all[#all + 1] = path end
end

local function write_unit()
  write(folder .. "/moonwatch.c", HEAD, system_headers(all),
    "#include <limits.h>\n#include <stdlib.h>\n\n",
    "#ifndef MW_ENGINE_ONLY\n", LUA_HEADERS, part(OS), "#endif\n\n",
    HIDDEN_BEGIN, '#include "moonwatch.h"\n\n', parts(engine),
    "#ifndef MW_ENGINE_ONLY\n\n", parts(binding), "#endif\n\n", HIDDEN_END)
end

if khash ~= "-" then write_unit() end

local public = text_of "engine/moonwatch.h"
local of_lua = text_of "engine/bind/base/moonwatch_lua.h"
  :gsub("#ifndef MOONWATCH_LUA_H\n#define MOONWATCH_LUA_H\n", "")
  :gsub('#include "../../moonwatch.h"\n\n', ""):gsub("\n#endif\n$", "\n")
write(folder .. "/moonwatch.h", (public:gsub("\n#endif\n$", "\n")), of_lua,
  "\n#endif\n")
write(folder .. "/moonwatch_lua.h",
  "/* moonwatch_lua.h - is a part of moonwatch.h here. */\n",
  '#include "moonwatch.h"\n')

-- }======================================================

-- {======================================================
-- The Lua files
-- =======================================================

local LUA_HEAD = [[
/*
** moonwatch_lua.c - the Lua files of moonwatch, inside a program.
** SPDX-License-Identifier: MIT
**
** Made from the files of the project, see `make dist`.
*/
]] .. LUA_HEADERS .. '#include "moonwatch.h"\n\n'

local LUA_TAIL = [[

/* Loads the module of which the name is upvalue 1. */
static int load_module(lua_State *L) {
  const module *m = (const module *)lua_touserdata(L, lua_upvalueindex(1));
  if (luaL_loadbufferx(L, (const char *)m->text, m->size, m->chunk, "t") !=
      LUA_OK)
    return lua_error(L);
  lua_pushstring(L, m->name);
  lua_call(L, 1, 1);
  return 1;
}

int luaopen_moonwatch(lua_State *L) {
  const module *m;
  luaL_getsubtable(L, LUA_REGISTRYINDEX, LUA_PRELOAD_TABLE);
  lua_pushcfunction(L, luaopen_moonwatch_core);
  lua_setfield(L, -2, "moonwatch.core");
  for (m = modules; m->name != NULL; m++) {
    lua_pushlightuserdata(L, (void *)(size_t)m);
    lua_pushcclosure(L, load_module, 1);
    lua_setfield(L, -2, m->name);
  }
  lua_getfield(L, -1, "moonwatch");
  lua_call(L, 0, 1);
  return 1;
}
]]

local LUA_FILES = "lua/moonwatch/*.lua lua/moonwatch/*/*.lua " ..
  "lua/moonwatch/*/*/*.lua"

local out, rows = { LUA_HEAD }, {}
for i, path in ipairs(files(LUA_FILES)) do
  local text = text_of(path)
  local name = path:match "^lua/(.*)%.lua$":gsub("/init$", ""):gsub("/", ".")
  do
    out[#out + 1] = ("/* %s */\nstatic const unsigned char m%d[] = {")
      :format(path, i)
    for line = 1, #text, 20 do
      local bytes = { text:byte(line, line + 19) }
      out[#out + 1] = "\n" .. table.concat(bytes, ",") .. ","
    end
    out[#out + 1] = "\n};\n\n"
    rows[#rows + 1] = ('    {"%s", "@%s", m%d, sizeof(m%d)},\n')
      :format(name, path:gsub("^lua/", ""), i, i)
  end
end
out[#out + 1] = [[
typedef struct module {
  const char *name, *chunk;
  const unsigned char *text;
  size_t size;
} module;

static const module modules[] = {
]]
out[#out + 1] = table.concat(rows)
out[#out + 1] = "    {NULL, NULL, NULL, 0}};\n" .. LUA_TAIL
write(folder .. "/moonwatch_lua.c", table.concat(out))

-- }======================================================

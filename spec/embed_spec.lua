local shell = require "spec.support.shell"

local cc = os.getenv "CC" or "cc"
local include = os.getenv "LUA_INCDIR" or "/usr/include/lua5.4"
local library = os.getenv "LUA_LIB" or "-llua5.4"
local WARN = " -Wall -Wextra -Wpedantic -Werror -I dist -I " .. include .. " "

local function succeeds(command, ...)
  local output, ok = shell.run(command, ...)
  assert.is_true(ok, output)
  return output
end

describe("a program with Lua inside #slow", function()
  it("has one engine with Lua, for its structs and Lua's userdata", function()
    shell.with_directory(function(path)
      succeeds("make -s dist")
      succeeds(cc .. " -std=c11 -DMW_CHECKS" .. WARN .. "-o %s/game " ..
        "examples/host/game.c dist/moonwatch.c dist/moonwatch_lua.c " ..
        "spec/support/checks.c " .. library .. " -lm", path)
      -- in an empty folder: no file of the library is read
      assert.equal([[
Lua: weight of the crate: 0 -> 50
C: the hull of the Argo has changed to 40
C: the hull of the Argo is 100 again
Lua: weight of the crate: 50 -> 0
Lua: the mast breaks; gold 10, weight 0
Lua: weight of the crate: 0 -> 7
Lua: weight of the crate: 7 -> 0
Lua: undone: load, weight 0
C: the hull of the Argo has changed to 90
Lua: 6 events in the trace
C: without Lua: generation 1, 1 object, hull 90
C: 0 bytes in use
]], succeeds("cd %s && LUA_PATH= LUA_CPATH= ./game", path))
    end)
  end)

  for _, language in ipairs { "gcc -std=c11", "g++ -std=c++17 -x c++",
    "gcc -std=c11 -DMW_CHECKS", "g++ -std=c++17 -DMW_CHECKS -x c++",
    "g++ -std=c++17 -DMW_LUA_CPP -x c++", "gcc -std=c11 -DMW_ENGINE_ONLY" } do
    it("compiles two files without a warning (" .. language .. ")", function()
      succeeds("make -s dist")
      for _, file in ipairs { "moonwatch", "moonwatch_lua" } do
        succeeds("%s%s-c -o /dev/null dist/%s.c", language, WARN, file)
      end
    end)
  end

  it("is found by the C name where Lua is compiled as C++", function()
    succeeds("make -s dist")
    shell.with_directory(function(path)
      for _, file in ipairs { "moonwatch", "moonwatch_lua" } do
        succeeds("g++ -std=c++17 -DMW_LUA_CPP -x c++%s-c -o %s/one.o " ..
          "dist/%s.c", WARN, path, file)
        assert.matches("T luaopen_moonwatch", succeeds("nm %s/one.o", path))
      end
    end)
  end)

  it("installs, runs from any folder, and is removed", function()
    shell.with_directory(function(path)
      succeeds("make -s install DESTDIR=%s PREFIX=/opt", path)
      local root = path .. "/opt"
      local lua = "cd / && LUA_CPATH='%s/lib/lua/5.4/?.so' LUA_PATH=" ..
        "'%s/share/lua/5.4/?.lua;%s/share/lua/5.4/?/init.lua' %s -e '%s'"
      assert.equal("1\n", succeeds(lua, root, root, root,
        os.getenv "LUA" or "lua5.4", "print(require [[moonwatch]].id {})"))
      local file = assert(io.open(path .. "/host.c", "w"))
      file:write "#include <moonwatch.h>\n#include <stdio.h>\n"
      file:write "int main(void) {\n"
      file:write "  return printf(\"%d\\n\", mw_version()) < 0;\n}\n"
      file:close()
      local flags = succeeds("PKG_CONFIG_PATH=%s/lib/pkgconfig pkg-config " ..
        "--define-variable=prefix=%s --cflags --libs moonwatch", root, root)
      succeeds(cc .. " -o %s/host %s/host.c %s " .. library, path, path,
        flags:gsub("\n", ""))
      assert.equal("100\n",
        succeeds("LD_LIBRARY_PATH=%s/lib %s/host", root, path))
      succeeds("make -s uninstall DESTDIR=%s PREFIX=/opt", path)
      assert.equal("", succeeds("find %s -type f", root))
    end)
  end)

  it("adds the library by cmake, with Lua or without", function()
    shell.with_directory(function(path)
      local file = assert(io.open(path .. "/CMakeLists.txt", "w"))
      local source = os.getenv "PWD"
      file:write("cmake_minimum_required(VERSION 3.13)\nproject(ships C)\n",
        "add_subdirectory(", source, " moonwatch)\n",
        "add_executable(ships ", source, "/examples/host.c)\n",
        "target_link_libraries(ships moonwatch)\n",
        "if(MOONWATCH_LUA)\n",
        "add_executable(game ", source, "/examples/host/game.c)\n",
        "target_link_libraries(game moonwatch)\nendif()\n")
      file:close()
      succeeds("cd %s && cmake -B build -DMOONWATCH_LUA=OFF . && " ..
        "cmake --build build", path)
      assert.matches("2 ships left", succeeds("%s/build/ships", path))
      file = assert(io.open(path .. "/lua.cmake", "w"))
      file:write("add_library(our_lua INTERFACE)\n",
        "target_include_directories(our_lua INTERFACE ", include, ")\n",
        "target_link_libraries(our_lua INTERFACE ", library, " m dl)\n")
      file:close()
      succeeds("cd %s && sed -i '2iinclude(lua.cmake)' CMakeLists.txt && " ..
        "cmake -B both -DMOONWATCH_LUA=our_lua . && cmake --build both", path)
      assert.matches("C: 0 bytes in use", succeeds("%s/both/game", path))
    end)
  end)
end)

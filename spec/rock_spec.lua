local shell = require "spec.support.shell"

local luarocks = os.getenv "LUAROCKS" or "luarocks --lua-version 5.4"
local include = os.getenv "LUA_INCDIR" or "/usr/include/lua5.4"
local lua = _VERSION:lower():gsub(" ", "/") -- lua/5.4, the modules' folder

local function files_of(path)
  return (shell.run("cd %s && find . -type f | sort", path))
end

local function make(path, more)
  if (os.getenv "RUN" or "") ~= "" then
    pending "LuaRocks makes rocks for this machine only"
  end
  assert(os.execute("mkdir -p " .. path .. "/source && " ..
    "cp -R .ci LICENSE Makefile command engine lua rockspec types " .. path ..
      "/source"))
  local before = files_of(path .. "/source")
  local output, ok = shell.run(
    "cd %s/source && %s make --tree %s/tree %s CFLAGS='-O0 -fPIC' " ..
    "LUA_INCDIR=%s %s", path, luarocks, path,
    "rockspec/moonwatch-scm-1.rockspec", include, more or "")
  assert.equal(before, files_of(path .. "/source"))
  if output:find "header mismatches configured version" then
    pending("this LuaRocks cannot read the headers of " .. _VERSION)
  end
  return output, ok
end

local function files_below(path)
  return (shell.run("cd %s && find * -type f -o -type l | sort", path))
end

-- The command's modules, below `share`.
local function command_files()
  local list = shell.run("cd command && find moonwatch -type f | sort")
  return (list:gsub("[^\n]+", "share/" .. lua .. "/%0"))
end

-- argparse is where these specs find it, though Lua may not by itself.
local ELSEWHERE = ("env -u LUA_CPATH LUA_PATH=';;%s' "):format(
  (package.searchpath("argparse", package.path):gsub("argparse", "?")))

-- Runs the command that is installed below `path`, elsewhere and with nothing
-- else in its environment.
local function run_installed(path, line)
  return (shell.run("cd / && %s %s/bin/moonwatch %s", ELSEWHERE, path, line))
end

local function run_in_tree(path)
  local program = "local mw = require [[moonwatch]] " ..
    "print(mw.id {}, mw.clock():now())"
  assert.equal("1\t0\n", (shell.run("cd / && eval \"$(%s path --tree " ..
    "%s/tree)\" && %s -e '%s'", luarocks, path,
    os.getenv "LUA" or "lua5.4", program)))
end

-- The command's rock has the command beside the library, and nothing of it.
local function add_command(path)
  local install = "cd %s/source && %s make --tree %s/%s --deps-mode none " ..
    "rockspec/moonwatch-cli-scm-1.rockspec"
  for _, tree in ipairs { "other", "tree" } do
    local output, ok = shell.run(install, path, luarocks, path, tree)
    assert.is_true(ok, output)
  end
  local files = files_below(path .. "/other")
  assert.equal(command_files(), (files:gsub("[^\n]+\n", function(line)
    return line:find "^share/" and line or ""
  end)))
  assert.equal("moonwatch " .. require "moonwatch".version .. "\n",
    run_installed(path .. "/tree", "version"))
  assert.matches("Usage: moonwatch run",
    run_installed(path .. "/tree", "run --help"))
end

describe("the rock #once", function()
  it("installs what it should, runs there, and with the command", function()
    shell.with_directory(function(path)
      local output, ok = make(path)
      assert.is_true(ok, output)
      local files = shell.run("cd lua && find moonwatch -type f | sort")
      assert.equal("lib/" .. lua .. "/moonwatch/core.so\n" ..
        files:gsub("[^\n]+", "share/" .. lua .. "/%0"),
        (shell.run("cd %s/tree && find lib/lua share -type f | sort", path)))
      assert.matches("/types/moonwatch%.lua\n",
        (shell.run("find %s/tree/lib/luarocks -name moonwatch.lua", path)))
      assert.not_matches("bin/", (files_below(path .. "/tree")))
      run_in_tree(path)
      add_command(path)
    end)
  end)

  it("builds with the klib it is pointed to", function()
    shell.with_directory(function(path)
      assert(os.execute("mkdir " .. path .. "/klib"))
      local file = assert(io.open(path .. "/klib/khash.h", "w"))
      file:write "#error this is the khash.h that was asked for\n"
      file:close()
      local output, ok = make(path, "KLIB_INCDIR=" .. path .. "/klib")
      assert.is_false(ok)
      assert.matches("this is the khash.h that was asked for", output)
    end)
  end)
end)

describe("make install #once", function()
  it("installs the library and the command under any PREFIX", function()
    shell.with_directory(function(path)
      local prefix = path .. "/any/prefix"
      local output, ok = shell.run(
        "make install PREFIX=%s CFLAGS=-O0 BUILD=%s/build", prefix, path)
      assert.is_true(ok, output)
      assert.equal("moonwatch " .. require "moonwatch".version .. "\n",
        run_installed(prefix, "version"))
      shell.run("ln -s %s/bin/moonwatch %s/mw", prefix, path)
      assert.equal("[]\n", (shell.run("cd %s && echo return 5 > a.lua && " ..
        "%s ./mw diff a.lua a.lua", path, ELSEWHERE)))
    end)
  end)
end)

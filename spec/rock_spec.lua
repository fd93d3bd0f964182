local shell = require "spec.support.shell"

local luarocks = os.getenv "LUAROCKS" or "luarocks --lua-version 5.4"

local function files_of(path)
  return (shell.run("cd %s && find . -type f | sort", path))
end

local function make(path, more)
  assert(os.execute("mkdir " .. path .. "/source && " ..
    "cp -R .ci LICENSE Makefile engine lua rockspec types " .. path ..
      "/source"))
  local before = files_of(path .. "/source")
  local output, ok = shell.run(
    "cd %s/source && %s make --tree %s/tree %s %s", path, luarocks, path,
    "rockspec/moonwatch-scm-1.rockspec", more or "")
  assert.equal(before, files_of(path .. "/source"))
  return output, ok
end

describe("the rock #once", function()
  it("installs into an empty tree what it should, and runs there", function()
    shell.with_directory(function(path)
      local output, ok = make(path)
      assert.is_true(ok, output)
      local files = shell.run("cd lua && find moonwatch -type f | sort")
      assert.equal("lib/lua/5.4/moonwatch/core.so\n" ..
        files:gsub("[^\n]+", "share/lua/5.4/%0"),
        (shell.run("cd %s/tree && find lib/lua share -type f | sort", path)))
      assert.equal("moonwatch\n", (shell.run("ls %s/tree/bin", path)))
      assert.matches("/types/moonwatch%.lua\n",
        (shell.run("find %s/tree/lib/luarocks -name moonwatch.lua", path)))
      local program = "local mw = require [[moonwatch]] " ..
        "print(mw.id {}, mw.clock():now())"
      assert.equal("1\t0\n", (shell.run("cd / && eval \"$(%s path --tree " ..
        "%s/tree)\" && %s -e '%s'", luarocks, path,
        os.getenv "LUA" or "lua5.4", program)))
      assert.equal("moonwatch " .. require "moonwatch".version .. "\n",
        (shell.run("cd / && %s/tree/bin/moonwatch version", path)))
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

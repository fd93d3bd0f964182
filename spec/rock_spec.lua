local shell = require "spec.support.shell"

local luarocks = os.getenv "LUAROCKS" or "luarocks --lua-version 5.4"

-- luarocks leaves objects among the sources, so it gets a copy of them.
local function make(path, more)
  assert(os.execute("mkdir " .. path .. "/source && " ..
    "cp -R LICENSE engine lua rockspec " .. path .. "/source"))
  return shell.run("cd %s/source && %s make --tree %s/tree %s %s", path,
    luarocks, path, "rockspec/moonwatch-scm-1.rockspec", more or "")
end

describe("the rock #once", function()
  it("installs into an empty tree what it should, and runs there", function()
    shell.with_directory(function(path)
      local output, ok = make(path)
      assert.is_true(ok, output)
      assert.equal("lib/lua/5.4/moonwatch/core.so\n" ..
        "share/lua/5.4/moonwatch/bytes.lua\n" ..
        "share/lua/5.4/moonwatch/check.lua\n" ..
        "share/lua/5.4/moonwatch/class.lua\n" ..
        "share/lua/5.4/moonwatch/cleanup.lua\n" ..
        "share/lua/5.4/moonwatch/cli.lua\n" ..
        "share/lua/5.4/moonwatch/compare.lua\n" ..
        "share/lua/5.4/moonwatch/contain.lua\n" ..
        "share/lua/5.4/moonwatch/context.lua\n" ..
        "share/lua/5.4/moonwatch/counters.lua\n" ..
        "share/lua/5.4/moonwatch/default_policy.lua\n" ..
        "share/lua/5.4/moonwatch/dynamism.lua\n" ..
        "share/lua/5.4/moonwatch/effects.lua\n" ..
        "share/lua/5.4/moonwatch/guard_source.lua\n" ..
        "share/lua/5.4/moonwatch/hierarchy.lua\n" ..
        "share/lua/5.4/moonwatch/history.lua\n" ..
        "share/lua/5.4/moonwatch/hook.lua\n" ..
        "share/lua/5.4/moonwatch/infer.lua\n" ..
        "share/lua/5.4/moonwatch/init.lua\n" ..
        "share/lua/5.4/moonwatch/instrument.lua\n" ..
        "share/lua/5.4/moonwatch/json.lua\n" ..
        "share/lua/5.4/moonwatch/json_diff.lua\n" ..
        "share/lua/5.4/moonwatch/json_patch.lua\n" ..
        "share/lua/5.4/moonwatch/json_pointer.lua\n" ..
        "share/lua/5.4/moonwatch/lcs.lua\n" ..
        "share/lua/5.4/moonwatch/literal.lua\n" ..
        "share/lua/5.4/moonwatch/lua_types.lua\n" ..
        "share/lua/5.4/moonwatch/memo.lua\n" ..
        "share/lua/5.4/moonwatch/metrics.lua\n" ..
        "share/lua/5.4/moonwatch/naming.lua\n" ..
        "share/lua/5.4/moonwatch/nested.lua\n" ..
        "share/lua/5.4/moonwatch/observe.lua\n" ..
        "share/lua/5.4/moonwatch/once.lua\n" ..
        "share/lua/5.4/moonwatch/overlay.lua\n" ..
        "share/lua/5.4/moonwatch/page.lua\n" ..
        "share/lua/5.4/moonwatch/patch.lua\n" ..
        "share/lua/5.4/moonwatch/path.lua\n" ..
        "share/lua/5.4/moonwatch/pending.lua\n" ..
        "share/lua/5.4/moonwatch/plan.lua\n" ..
        "share/lua/5.4/moonwatch/policy.lua\n" ..
        "share/lua/5.4/moonwatch/reach.lua\n" ..
        "share/lua/5.4/moonwatch/reads.lua\n" ..
        "share/lua/5.4/moonwatch/reverse.lua\n" ..
        "share/lua/5.4/moonwatch/same.lua\n" ..
        "share/lua/5.4/moonwatch/sandbox.lua\n" ..
        "share/lua/5.4/moonwatch/scope.lua\n" ..
        "share/lua/5.4/moonwatch/shape.lua\n" ..
        "share/lua/5.4/moonwatch/skeleton.lua\n" ..
        "share/lua/5.4/moonwatch/times.lua\n" ..
        "share/lua/5.4/moonwatch/to_lua.lua\n" ..
        "share/lua/5.4/moonwatch/to_patch.lua\n" ..
        "share/lua/5.4/moonwatch/trace.lua\n" ..
        "share/lua/5.4/moonwatch/transaction.lua\n" ..
        "share/lua/5.4/moonwatch/values.lua\n" ..
        "share/lua/5.4/moonwatch/views.lua\n",
        (shell.run("cd %s/tree && find lib/lua share -type f | sort", path)))
      assert.equal("moonwatch\n", (shell.run("ls %s/tree/bin", path)))
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

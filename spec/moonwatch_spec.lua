-- The library's table, of which most fields are loaded when they are first
-- read.

local shell = require "spec.support.shell"

local lua = os.getenv "LUA" or "lua5.4"

-- Runs a program in a fresh process.  Returns what the program printed.
local function run_alone(program)
  local output
  shell.with_directory(function(path)
    local file = assert(io.open(path .. "/program.lua", "w"))
    file:write(program)
    file:close()
    local ok
    output, ok = shell.run("%s %s/program.lua", lua, path)
    assert.is_true(ok, output)
  end)
  return output
end

local function run(program)
  return run_alone("local mw = require 'moonwatch'\n" .. program)
end

describe("the library", function()
  it("shows all its fields to pairs, each with its value", function()
    assert.equal("mw.memo\n", run [[
      local list, memo = {}, mw.memo
      for name, value in pairs(mw) do
        assert(value ~= nil and rawequal(mw[name], value), name)
        list[#list + 1] = name
      end
      table.sort(list)
      local all = " " .. table.concat(list, " ") .. " "
      for name in ([=[id watch begin transaction plan history patch diff
        array null version is_dynamic metrics times counters once context
        cleanup cleanup_for dynamism infer skeleton to_nested hierarchy
        normalize_name patch_bytes policy load_policy]=]):gmatch "%S+" do
        assert(all:find(" " .. name .. " ", 1, true), name)
      end
      assert(not all:find " private ")
      for name, value in next, mw do
        if value == memo then print("mw." .. name) end
      end]])
  end)

  it("has nil for other names", function()
    assert.equal("nil\tnil\tnil\n", run "print(mw.nothing, mw[1], mw[mw])")
  end)

  it("keeps the fields that a program sets, nil too", function()
    assert.equal("mine nil nil mine\n", run [[
      mw.memo, mw.once, mw.own = "mine", nil, "mine"
      local former = mw.history
      assert(former)
      mw.history = nil
      for _ in pairs(mw) do end
      print(("%s %s %s %s"):format(mw.memo, mw.once, mw.history, mw.own))]])
  end)

  it("loads only what is used", function()
    local output = run [[
      local object = setmetatable({ x = 1 }, { __index = {} })
      mw.watch(object, function() end)
      local transaction = mw.begin()
      object.x = 2
      transaction:commit()
      assert(mw.transaction(function() object.x = 3 end))
      local loaded = {}
      for name in pairs(package.loaded) do
        loaded[#loaded + 1] = name:match "^moonwatch.*$"
      end
      table.sort(loaded)
      print(table.concat(loaded, " "))]]
    for _, name in ipairs { "recorded", "plan", "sandbox", "json",
      "hierarchy", "dynamism", "trace" } do
      assert.is_nil(output:find(name, 1, true), output)
    end
  end)

  it("takes at most 150 KB of Lua's memory for watches and transactions",
    function()
      local output = run_alone [[
        collectgarbage() collectgarbage()
        local before = collectgarbage "count"
        local mw = require "moonwatch"
        local object = setmetatable({ x = 1 }, { __index = {} })
        local handle = mw.watch(object, function() end)
        local ok, fx = mw.transaction(function() object.x = 2 end)
        assert(ok and #fx == 1 and handle)
        collectgarbage() collectgarbage()
        print(collectgarbage "count" - before)]]
      assert.is_true(tonumber(output) < 150, output)
    end)

  it("gives effects and traces methods when they are asked for", function()
    assert.equal("object.x = 2\n\nnil\n", run [[
      local object = mw.track { x = 1 }
      local _, fx = mw.transaction(function() object.x = 2 end)
      print(fx:to_lua { object = object })
      print(fx.nothing)
      assert(mw.trace().write and fx:len() == 1 and fx:invert():len() == 1)]])
  end)
end)

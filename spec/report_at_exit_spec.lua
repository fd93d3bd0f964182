local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local shell = require "spec.support.shell"

local PROGRAM = [[
local mw = require "moonwatch"
local path = ...
mw.report_at_exit(path .. "/report.txt")
mw.report_at_exit(path .. "/report.json")
mw.report_at_exit(path .. "/none.txt"):cancel()
mw.count("shots", "hit", 2)
for n = 1, 2 do
  local m <close> = mw.metrics()
  m:set("n", n)
  mw.timed("draw", { column = "draw_us" }):close()
end
mw.track {}
error "the end"
]]

describe("a report at the exit", function()
  it("has times, counters and metrics of a program, though it fails", function()
    shell.with_directory(function(path)
      local file = assert(io.open(path .. "/program.lua", "w"))
      file:write(PROGRAM)
      file:close()
      local output, ok = shell.run("%s %s/program.lua %s",
        os.getenv "LUA" or "lua5.4", path, path)
      assert.is_false(ok)
      assert.matches("the end", output)
      local function read(name)
        local its = assert(io.open(path .. "/" .. name))
        local text = its:read "a"
        its:close()
        return (text:gsub(" +", " "))
      end
      local text = read "report.txt"
      assert.matches("\ndraw 2 0%.", text)
      assert.matches("\nCounters\n\nshots 2\n hit 2\n", text)
      assert.matches("\nMetrics\n\ndraw_us %d+\nn 3\n$", text)
      local json = read "report.json"
      assert.matches('"counters":{"shots":{"hit":2}}', json, 1, true)
      assert.matches('"n":3', json, 1, true)
      assert.is_nil(io.open(path .. "/none.txt"))
    end)
  end)

  it("can be taken back, more than once", function()
    local handle = mw.report_at_exit "/nowhere/report.txt"
    handle:cancel()
    handle:cancel()
    misuse("bad argument #1 to 'report_at_exit' (string expected, got nil)",
      mw.report_at_exit)
    misuse("calling 'cancel' on bad self (report expected, got nil)",
      handle.cancel)
  end)
end)

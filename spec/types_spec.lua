-- The definition file for the Lua language server, and what examples call.

local calls = require "docs.make.calls"
local files = require "docs.make.files"
local luacats = require "docs.make.luacats"

local definitions = luacats.read(files.read "types/moonwatch.lua")

local function mistakes_in(code)
  return table.concat(calls('local mw = require "moonwatch"\n' .. code,
    definitions), "\n")
end

describe("the definition file", function()
  it("has no mistakes", function()
    assert.equal("", table.concat(definitions.mistakes, "\n"))
    assert.equal("moonwatch", definitions.module.name)
  end)

  it("is Lua", function()
    assert.is_function(loadfile "types/moonwatch.lua")
  end)

  for path in io.popen "ls examples/*.lua":lines() do
    it("fits the example " .. path, function()
      assert.equal("", table.concat(calls(files.read(path), definitions), "\n"))
    end)
  end

  it("fits the programs on the pages", function()
    local paths = files.pages()
    paths[#paths + 1] = "README.md"
    for _, path in ipairs(paths) do
      for code in files.read(path):gmatch "```lua\n(.-)```" do
        assert.equal("", table.concat(calls(code, definitions), "\n"), path)
      end
    end
  end)
end)

describe("the check of calls", function()
  it("finds what is not there", function()
    assert.equal("line 2: moonwatch has no 'wacth'",
      mistakes_in "mw.wacth({}, mw.guard())")
    assert.equal("line 2: moonwatch.Clock has no 'tog'",
      mistakes_in "mw.clock():tog({})")
    assert.equal("line 3: moonwatch.Guard has no 'vlaid'",
      mistakes_in "local guard = mw.guard()\nprint(guard.vlaid)")
    assert.equal("line 2: moonwatch.Entry has no 'value'", mistakes_in
      "for e in mw.begin():commit():entries() do print(e.value) end")
  end)

  it("finds arguments that are too many, too few, or of a wrong type",
    function()
      assert.equal("line 2: 'watch': 1 arguments, at least 2",
        mistakes_in "mw.watch({})")
      assert.equal("line 2: 'id': 2 arguments, at most 1",
        mistakes_in "mw.id({}, 2)")
      assert.equal("line 2: 'reap': argument 1: integer expected",
        mistakes_in "mw.reap 'all'")
      assert.equal("line 2: 'adopt': argument 1: moonwatch.Plan expected",
        mistakes_in "mw.plan():adopt(mw.history())")
    end)

  it("finds options that are unknown, or of a wrong type", function()
    assert.equal("line 2: 'watch': argument 3: moonwatch.WatchOptions has " ..
      "no field 'onse'",
      mistakes_in "mw.watch({}, mw.guard(), { onse = true })")
    assert.equal("line 2: 'watch': argument 3: field 'once': boolean expected",
      mistakes_in "mw.watch({}, mw.guard(), { once = 1 })")
    assert.equal("line 2: 'watch': argument 3: field 'phase': 'before' " ..
      "expected", mistakes_in "mw.watch({}, print, { phase = 'then' })")
    assert.equal("line 2: 'moonwatch.MakeMetrics': argument 1: " ..
      "moonwatch.MetricsOptions has no field 'scheme'",
      mistakes_in "mw.metrics { scheme = {} }")
    assert.equal("line 2: 'patch': argument 2: field 'op' of " ..
      "moonwatch.Operation is missing", mistakes_in
      "mw.patch({}, { { path = '/x' } })")
  end)

  it("tells dots from colons, and reading from setting", function()
    assert.equal("line 2: 'advance' is a method: use a colon",
      mistakes_in "mw.clock().advance()")
    assert.equal("line 2: 'id' is no method: use a dot",
      mistakes_in "mw:id({})")
    assert.equal("line 2: a field of moonwatch.Guard is set",
      mistakes_in "mw.guard().valid = true")
  end)

  it("is content with all ways of calling", function()
    assert.equal("", mistakes_in [[
      local function f(...) return mw.transaction(...) end
      mw.transaction(f)
      mw.transaction("label", f, 1, 2)
      mw.transaction({ where = true }, f)
      local batch <close> = mw.batch()
      mw.batch(f, 1)
      local seen, memo = mw.once(), mw.memo(f, {})
      print(seen "key", memo(), mw.metrics.current())
      mw.metrics(f):leave()
      mw.metrics { schema = { n = "integer" } }:increment("n", 2)
      local names = mw.weakmap()
      for key, value in pairs(names) do print(key, value) end
      local tx = mw.begin "label"
      tx = nil
      print(tx, mw.clock "frames":tag({}).field)
      mw.counters.section.name = 1
    ]])
  end)
end)

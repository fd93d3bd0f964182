-- Runs the Lua blocks of the documentation and compares what they print with
-- what they say.

local shell = require "spec.support.shell"

local function text_of(path)
  local file = assert(io.open(path))
  local text = file:read "a"
  file:close()
  return text
end

local function run_block(code)
  return shell.with_directory(function(path)
    local file = assert(io.open(path .. "/block.lua", "w"))
    file:write(code)
    file:close()
    local output, ok = shell.run("%s %s/block.lua", os.getenv "LUA" or "lua5.4",
      path)
    assert.is_true(ok, output)
    local promised = {}
    for line in code:gmatch "%-%-> ([^\n]*)" do
      promised[#promised + 1] = line .. "\n"
    end
    assert.is_true(#promised > 0)
    assert.equal(table.concat(promised), output)
  end)
end

-- The README, the pages and the recipes.
local function pages()
  local list = {}
  local output = shell.run "ls README.md docs/*.md docs/recipes/*.md"
  for path in output:gmatch "[^\n]+" do list[#list + 1] = path end
  return list
end

describe("the documentation", function()
  local all = {}

  for _, path in ipairs(pages()) do
    local text = text_of(path)
    all[#all + 1] = text
    local n = 0
    for code in text:gmatch "```lua\n(.-)```" do
      n = n + 1
      it(("has programs that do what they say: %s, %d"):format(path, n),
        function() run_block(code) end)
    end
  end

  it("has a README of one screen, whose links lead to files", function()
    local text = text_of "README.md"
    local _, lines = text:gsub("\n", "")
    local _, words = text:gsub("%S+", "")
    assert.is_true(lines >= 120 and lines <= 150, lines .. " lines")
    assert.is_true(words >= 650 and words <= 800, words .. " words")
    for path in text:gmatch "%]%(([^)#]+)" do text_of(path) end
  end)

  it("names the functions that there are, and no other", function()
    local mw = require "moonwatch"
    local text = table.concat(all)
    for name in text:gmatch "mw%.([%a_]+)" do
      assert.is_not_nil(mw[name], name)
    end
    for name, value in pairs(mw) do
      if type(value) == "function" then
        assert.is_truthy(text:find("mw." .. name, 1, true), name)
      end
    end
  end)
end)

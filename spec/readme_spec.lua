-- Runs the README's Lua blocks and compares what they print with what they say.

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

describe("the README", function()
  local readme = text_of "README.md"

  for section, body in readme:gmatch "\n## ([^\n]+)(.-)%f[\n\0]\n?%f[#\0]" do
    for code in body:gmatch "```lua\n(.-)```" do
      it("shows a program that does what it says: " .. section, function()
        run_block(code)
      end)
    end
  end

  it("names the functions that there are, and no other", function()
    local mw = require "moonwatch"
    for name in readme:gmatch "mw%.([%a_]+)" do
      assert.is_not_nil(mw[name], name)
    end
    for name, value in pairs(mw) do
      if type(value) == "function" then
        assert.is_truthy(readme:find("mw." .. name, 1, true), name)
      end
    end
  end)
end)

local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local path = require "moonwatch.path"
local with_seed = require "spec.support.with_seed"

local PIECES = {
  ".", "'", '"', "[", "]", "\\", "\0", "\n", "\r", "\t", "\127", "a", "L", "0",
  "10", "é", "漢", "\xff", "\xc3", "\\n", "\\065", "']['", " ", "",
}

local function any_string()
  local list = {}
  for i = 1, math.random(0, 6) do list[i] = PIECES[math.random(#PIECES)] end
  return table.concat(list)
end

local NUMBERS = {
  0, 1, -1, math.maxinteger, math.mininteger, 0.5, -0.1, 1e300, 1 / 3,
  math.huge, -math.huge, 5e-324, 2 ^ 53 + 0.0,
}

local function any_key()
  local choice = math.random(4)
  if choice == 1 then return math.random(2) == 1 end
  if choice == 2 then return NUMBERS[math.random(#NUMBERS)] end
  if choice == 3 then return math.random(-1000, 1000) end
  return any_string()
end

-- Lua reads a path as the keys by which it indexes `L`.
local function keys_of(text)
  local keys = {}
  local L = setmetatable({}, { __index = function(t, key)
    keys[#keys + 1] = key
    return t
  end })
  assert(load("local L = ... return " .. text))(L)
  return keys
end

describe("a path", function()
  it("is made of its keys", function()
    assert.equal("L", path.text {})
    assert.equal("L['x'][1]['y']", path.text { "x", 1, "y" })
    assert.equal("L[true][false][-5][0.5][2.0]",
      path.text { true, false, -5, 0.5, 2.0 })
    assert.equal([=[L['it\'s']['a.b']['"']['\\']['\000\n\127']]=],
      path.text { "it's", "a.b", '"', "\\", "\0\n\127" })
    assert.equal([=[L['é']['\255']['']]=], path.text { "é", "\xff", "" })
  end)

  it("leads back to its keys, whatever they hold", function()
    with_seed(function()
      for _ = 1, 5000 do
        local keys = {}
        for i = 1, math.random(0, 5) do keys[i] = any_key() end
        local text = path.text(keys)
        local parsed = keys_of(text)
        assert.equal(#keys, #parsed)
        for i, key in ipairs(keys) do
          assert.equal(key, parsed[i])
          assert.equal(math.type(key), math.type(parsed[i]))
        end
        assert.equal(text, mw.normalize_name(text))
      end
    end)
  end)

  it("is an expression of Lua", function()
    with_seed(function()
      for _ = 1, 1000 do
        local root, keys = {}, {}
        local t = root
        for i = 1, math.random(5) do
          keys[i] = any_key()
          t[keys[i]] = {}
          t = t[keys[i]]
        end
        local read = load("local L = ... return " .. path.text(keys))
        assert.equal(t, read(root))
      end
    end)
  end)
end)

describe("a normal name", function()
  it("has fields in brackets", function()
    for name, normal in pairs {
      ["L.x[1].y"] = "L['x'][1]['y']",
      ["L"] = "L",
      ["self.a_1.B2"] = "self['a_1']['B2']",
      ["L['x'].y"] = "L['x']['y']",
      ["L.x['y'].z"] = "L['x']['y']['z']",
    } do
      assert.equal(normal, mw.normalize_name(name))
    end
  end)

  it("keeps what is in quotes, and numbers", function()
    for name, normal in pairs {
      ["L['a.b'].c"] = "L['a.b']['c']",
      ['L["a.b"].c'] = [=[L["a.b"]['c']]=],
      [ [[L['it\'s.x'].y]] ] = [=[L['it\'s.x']['y']]=],
      [ [[L["'.a'"].y]] ] = [=[L["'.a'"]['y']]=],
      ["L[1.5].x"] = "L[1.5]['x']",
      ["L[1.e5].x"] = "L[1.e5]['x']",
    } do
      assert.equal(normal, mw.normalize_name(name))
    end
  end)

  it("of what is no path stays as it is", function()
    for _, name in ipairs { "", ".", "..", "L['a.b", "a b", "[", "L.1" } do
      assert.equal(name, mw.normalize_name(name))
    end
  end)

  it("is its own normal name", function()
    local pieces = { ".x", ".", "'", '"', "[", "]", "1", "\\", "é", "a", "_" }
    with_seed(function()
      for _ = 1, 5000 do
        local list = {}
        for i = 1, math.random(8) do list[i] = pieces[math.random(#pieces)] end
        local normal = mw.normalize_name(table.concat(list))
        assert.equal(normal, mw.normalize_name(normal))
      end
    end)
  end)

  it("is of a string", function()
    misuse("bad argument #1 to 'normalize_name' (string expected, got nil)",
      mw.normalize_name)
  end)
end)

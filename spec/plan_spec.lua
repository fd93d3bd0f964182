local mw = require "moonwatch"

describe("effects as Lua text", function()
  it("with many objects keep their variable from the names", function()
    local root = mw.track {}
    local _, fx = mw.transaction(function()
      for i = 1, 200 do root[i] = { i } end
    end)
    local copies = { t = {}, tt = {} }
    load(fx:to_lua { t = root, tt = {} }, "text", "t", copies)()
    assert.equal(200, #copies.t)
    assert.same({ 200 }, copies.t[200])
  end)
end)

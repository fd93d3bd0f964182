local misuse = require "spec.support.misuse"
local mw = require "moonwatch"

describe("a seen-set", function()
  it("answers true the first time", function()
    local seen = mw.once()
    assert.is_true(seen "a")
    assert.is_false(seen "a")
    assert.is_true(seen "b")
    assert.is_false(seen "a")
    assert.equal(2, #seen)
  end)

  it("forgets what it was not asked for the longest", function()
    local seen, answers = mw.once(2), {}
    for key in ("abacb"):gmatch "." do answers[#answers + 1] = seen(key) end
    assert.same({ true, true, false, true, true }, answers)
    assert.equal(2, seen:len())
    assert.is_false(seen "c")
    assert.is_false(seen "b")
    assert.is_true(seen "a")
  end)

  it("knows 4,096 keys unless it is told otherwise", function()
    local seen = mw.once()
    for i = 1, 4097 do seen(i) end
    assert.equal(4096, #seen)
    assert.is_false(seen(2))
    assert.is_true(seen(1))
  end)

  it("takes any key, and knows objects by identity", function()
    local equal = { __eq = function() return true end }
    local a, b = setmetatable({}, equal), setmetatable({}, equal)
    local seen = mw.once()
    for _, key in ipairs { a, b, print, coroutine.create(print), true, 1.5,
      mw.id(a), mw.null, io.stdout } do
      assert.is_true(seen(key))
      assert.is_false(seen(key))
    end
    assert.is_true(seen(false))
    assert.is_true(seen(-7) and not seen(-7.0))
  end)

  it("keeps no object alive", function()
    local seen, weak = mw.once(), setmetatable({}, { __mode = "v" })
    do
      local object = {}
      weak[1] = object
      seen(object)
    end
    collectgarbage()
    assert.is_nil(weak[1])
  end)

  it("forgets all when that is said", function()
    local seen = mw.once(2)
    seen "a"
    seen:clear()
    assert.equal(0, #seen)
    assert.is_true(seen "a")
  end)

  it("is used as it should be", function()
    for _, max in ipairs { 0, 1.5, "2" } do
      misuse("bad argument #1 to 'once' (positive integer expected", mw.once,
        max)
    end
    misuse("bad argument #1 to 'seen' (key expected, got nil)", mw.once())
    misuse("bad argument #1 to 'seen' (key expected", mw.once(), 0 / 0)
  end)
end)

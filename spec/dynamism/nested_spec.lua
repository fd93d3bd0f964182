local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local picture = require "spec.support.picture"

local Net = {}
Net.__index = Net

local function net(fields) return setmetatable(fields, Net) end
local function tensor(...) return { shape = { ... } } end

describe("the nested form of an object", function()
  it("has its parameters, its modules and its public numbers", function()
    local weight, bias, mean = tensor(3, 4), tensor(3), tensor(1)
    local obj = net {
      size = 3, rate = 0.5, name = "net", train = true, _hidden = 4,
      weight = weight, act = print,
      _parameters = { bias = bias }, _buffers = { mean = mean },
      inner = net { size = 1 }, _modules = { outer = net { size = 2 } },
    }
    local before = picture(obj)
    local nested = mw.to_nested(obj)
    assert.same({
      _parameters = { weight = weight, bias = bias, mean = mean },
      _modules = {
        inner = { _parameters = {}, _modules = {}, size = 1 },
        outer = { _parameters = {}, _modules = {}, size = 2 },
      },
      size = 3, rate = 0.5,
    }, nested)
    assert.equal(weight, nested._parameters.weight)
    assert.equal(before, picture(obj))
  end)

  it("has what it inherits", function()
    local Base = { base = 1, _secret = 2 }
    Base.__index = Base
    local Derived = setmetatable({ derived = 3 }, Base)
    Derived.__index = Derived
    local obj = setmetatable({ own = 5 }, Derived)
    local nested = mw.to_nested(obj)
    assert.equal(1, nested.base)
    assert.equal(3, nested.derived)
    assert.equal(5, nested.own)
    assert.is_nil(nested._secret)
  end)

  it("leaves out what raises when it is read", function()
    local obj = setmetatable({ ok = 1 }, {
      __index = function(_, key) error("no " .. key, 0) end,
      __pairs = function() return next, { ok = 1, broken = 2 } end,
    })
    assert.same({ _parameters = {}, _modules = {}, ok = 1 }, mw.to_nested(obj))
    local bad = net { _modules = setmetatable({}, {
      __pairs = function() error("not now", 0) end,
    }) }
    assert.same({ _parameters = {}, _modules = {} },
      mw.to_nested(net { a = bad })._modules.a)
  end)

  it("opens lists of objects, and no other tables", function()
    local obj = net {
      layers = { net { size = 1 }, { net { size = 2 } } },
      names = { "a", 5 }, options = { deep = { x = 1 } },
    }
    local nested = mw.to_nested(obj)
    assert.equal(1, nested._modules.layers._modules[1].size)
    assert.equal(2, nested._modules.layers._modules[2]._modules[1].size)
    assert.is_nil(nested._modules.names)
    assert.is_nil(nested._modules.options)
  end)

  it("has the sharing and the cycles of the objects", function()
    local obj, shared = net { size = 1 }, net { size = 2 }
    obj.me, obj.a, obj.b, shared.up = obj, shared, shared, obj
    local nested = mw.to_nested(obj)
    assert.equal(nested, nested._modules.me)
    assert.equal(nested._modules.a, nested._modules.b)
    assert.equal(nested, nested._modules.a._modules.up)
  end)

  it("goes by what it is told is an object, or has a shape", function()
    local obj = { a = { object = true, n = 1 }, b = { n = 2 },
      c = { dims = 3 } }
    local nested = mw.to_nested(obj, {
      objects = function(v) return v.object end,
      shape = function(v) return v.dims and { v.dims } end,
    })
    assert.same({ a = { _parameters = {}, _modules = {}, n = 1 } },
      nested._modules)
    assert.same({ c = { dims = 3 } }, nested._parameters)
  end)

  it("has the contents of watched objects", function()
    local obj = net { size = 3, inner = net { size = 1 } }
    mw.watch(obj, error, { deep = true })
    local nested = mw.to_nested(obj)
    assert.equal(3, nested.size)
    assert.equal(1, nested._modules.inner.size)
    assert.equal(0, mw.mutations(obj))
  end)

  it("is of objects only", function()
    misuse("bad argument #1 to 'to_nested' (table or userdata expected, got ",
      mw.to_nested)
    misuse("bad argument #2 to 'to_nested' (unknown option 'keep')",
      mw.to_nested, {}, { keep = 1 })
    misuse("option 'shape' is not a function", mw.to_nested, {}, { shape = 1 })
  end)
end)

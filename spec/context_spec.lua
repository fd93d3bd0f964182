local json = require "spec.support.json"
local misuse = require "spec.support.misuse"
local mw = require "moonwatch"
local shell = require "spec.support.shell"

-- The contexts that a trace of what `f` does has, one list for each write that
-- a guard heard of.
local function contexts(f)
  local trace <close> = mw.trace { sources = { "watch" } }:start()
  f()
  trace:stop()
  local list = {}
  shell.with_directory(function(path)
    assert.is_true(trace:write(path .. "/out"))
    for line in io.lines(path .. "/out") do
      local event = line:match '^{.*"guards":.*}'
      if event then
        list[#list + 1] = json.decode(event).args.context or "none"
      end
    end
  end)
  return list
end

local function watched()
  local object = { x = 1 }
  mw.watch(object, function() end, { once = false, key = "x" })
  return object
end

describe("a context", function()
  it("is asked for when guards hear of a write that is traced", function()
    local object, n = watched(), 0
    local context <close> = mw.context(function()
      n = n + 1
      return "level " .. n
    end)
    object.x = 2
    assert.equal(0, n)
    local list = contexts(function()
      object.x = 3
      object.y = 1
      object.x = 4
    end)
    assert.equal(2, n)
    assert.same({ { "level 1" }, { "level 2" } }, list)
    assert.is_not_nil(context)
  end)

  it("is one of several, in order, until it is cancelled", function()
    local object = watched()
    local first = mw.context(function() return "first" end)
    local second = mw.context(function() return "second" end)
    local list = contexts(function()
      object.x = 2
      first:cancel()
      first:cancel()
      object.x = 3
      second:cancel()
      object.x = 4
    end)
    assert.same({ { "first", "second" }, { "second" }, "none" }, list)
  end)

  it("is capped at 256 characters", function()
    local object = watched()
    local a <close> = mw.context(function() return ("x"):rep(300) end)
    local b <close> = mw.context(function() return ("\u{e9}"):rep(300) end)
    local c <close> = mw.context(function() return ("\xff"):rep(300) end)
    local list = contexts(function() object.x = 2 end)
    assert.equal(("x"):rep(256), list[1][1])
    assert.equal(("\u{e9}"):rep(256), list[1][2])
    assert.equal(("\u{fffd}"):rep(256), list[1][3])
    assert.is_true(a ~= b and b ~= c)
  end)

  it("that fails does not disturb the write, nor the others", function()
    local object, taken = watched(), nil
    local former = mw.on_error(function(err, where) taken = err .. where end)
    local a <close> = mw.context(function() error("no ", 0) end)
    local b <close> = mw.context(function() return 5 end)
    local c <close> = mw.context(function()
      object.x = 7 -- is not asked about that
      return "c"
    end)
    local list = contexts(function() object.x = 2 end)
    mw.on_error(former)
    assert.equal("no context", taken)
    assert.same({ { "c" }, "none" }, list)
    assert.equal(2, object.x)
    assert.is_true(a ~= b and b ~= c)
  end)

  it("is a function", function()
    misuse("bad argument #1 to 'context' (function expected, got string)",
      mw.context, "x")
    local context <close> = mw.context(print)
    misuse("calling 'cancel' on bad self (context expected, got nil)",
      context.cancel)
  end)
end)

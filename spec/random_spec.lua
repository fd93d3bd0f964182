local mw = require "moonwatch"
local picture = require "spec.support.picture"
local worlds = require "spec.support.worlds"

local function track_all(tables, random, how)
  if how == "deep" then return mw.track(tables[1], { deep = true }) end
  for _, t in ipairs(tables) do
    if how == "watch" then
      mw.watch(t, function() end, { once = random(2) == 1 })
    else
      mw.track(t)
    end
  end
end

-- A transaction, perhaps with others in it that fail or not.
local function nested(random, tables, depth)
  worlds.run(random, tables, random(8))
  if depth == 0 then return end
  local ok = mw.transaction(nested, random, tables, depth - 1)
  if ok and random(4) == 1 then error("after the inner one", 0) end
  worlds.run(random, tables, random(8))
end

-- At most one entry an object and key.
local function check_squashed(fx, message)
  local seen = {}
  for e in fx:entries() do
    local fields = seen[e.object] or {}
    seen[e.object] = fields
    local key = e.key == nil and seen or e.key
    assert.is_nil(fields[key], message)
    fields[key] = true
  end
end

describe("a random program in a transaction", function()
  for _, how in ipairs { "track", "watch", "deep" } do
    it("is undone exactly, and done again, when all is to " .. how .. " (SEED="
      .. worlds.seed .. ")", function()
      worlds.each(1700, function(random, message)
        local tables = worlds.new(random)
        local plain = picture(tables)
        track_all(tables, random, how)
        local before = picture(tables)
        assert.equal(plain, before)
        local tx = mw.begin()
        pcall(nested, random, tables, random(0, 2))
        local after = picture(tables)
        local fx = tx:commit()
        fx:rollback()
        assert.equal(before, picture(tables), message)
        assert.is_truthy(fx:apply())
        assert.equal(after, picture(tables), message)
        fx:rollback()
        local squashed = fx:squash()
        check_squashed(squashed, message)
        assert.is_truthy(squashed:apply())
        assert.equal(after, picture(tables), message)
        assert.is_truthy(squashed:invert():apply())
        assert.equal(before, picture(tables), message)
      end)
    end)
  end
end)

describe("the effects of a random program", function()
  -- Calls f(effects, root, twin): the twin is as the root was before.
  local function each(n, f)
    worlds.each(n, function(random, message)
      local tables = worlds.new(random)
      local root = { tables[1] }
      local twin = worlds.copy(root)
      mw.track(root, { deep = true })
      local _, fx = mw.transaction(pcall, worlds.run, random, tables, 12, true)
      f(fx, root, twin, message)
    end)
  end

  it("are performed by their source text (SEED=" .. worlds.seed .. ")",
    function()
      each(700, function(fx, root, twin, message)
        local env = { root = twin, setmetatable = setmetatable }
        local text = assert(fx:to_lua { root = root })
        assert(load(text, "text", "t", env))()
        assert.equal(picture(root), picture(twin), message)
      end)
    end)

  it("are performed by their bytes (SEED=" .. worlds.seed .. ")", function()
    each(700, function(fx, root, twin, message)
      local bytes = assert(fx:to_bytes(root))
      assert.equal(twin, mw.patch_bytes(twin, bytes))
      assert.equal(picture(root), picture(twin), message)
    end)
  end)
end)

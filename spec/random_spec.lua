local mw = require "moonwatch"
local model = require "spec.support.watch_model"
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

describe("a random program of watches", function()
  local KEYS = { "a", "b", 1, 2, 2.0, 0.5, true, false, "", "z\0", "z\0z",
    ("long"):rep(11), ("long"):rep(11) .. "z", -1, 2.0 ^ 53, mw.null }

  -- Runs it, with `its` functions.  Returns what has happened.
  local function run(its, seed)
    local state, log, objects, handles, flags = seed, {}, {}, {}, {}
    local depth, left, names = 0, 150, {}
    local act

    local function random(n)
      state = (state * 1103515245 + 12345) & 0x7fffffff
      return (state >> 8) % n + 1
    end

    local function say(...)
      local words = table.pack(...)
      for i = 1, words.n do
        words[i] = names[words[i]] or math.type(words[i]) == "float" and
          ("%.1f"):format(words[i]) or tostring(words[i])
      end
      log[#log + 1] = ("  "):rep(depth) .. table.concat(words, " ")
    end

    local function some(n, f)
      depth = depth + 1
      for _ = 1, n do f() end
      depth = depth - 1
    end

    local function key() return KEYS[random(#KEYS)] end

    local function value()
      local values = { 1, 2, 1.0, "s", true, false }
      return values[random(8)]
    end

    local function guard(number)
      return function(obj, k, old, new, kind)
        local before = depth
        say("guard", number, obj, k, old, new, kind, its.read(obj, k))
        if depth < 6 and random(2) == 1 then some(random(3), act) end
        depth = before
        if random(10) == 1 then error("of " .. number, 0) end
      end
    end

    local function options()
      local opts = { once = random(2) == 1 }
      if random(4) == 1 then opts.phase = "after" end
      if random(4) == 1 then opts.equal = "skip" end
      local n = random(6)
      if n == 1 then opts.key = key() end
      if n == 2 then opts.keys = { key(), key(), key() } end
      return opts
    end

    -- Of an error, its first line.
    local function tried(...)
      local before = depth
      local ok, err = pcall(...)
      depth = before
      say(ok and "done" or err:match "[^\n]*")
    end

    local deeds = {
      write = function()
        local obj, k, v = objects[random(3)], key(), value()
        say("write", obj, k, v)
        tried(its.write, obj, k, v)
        say("is", its.read(obj, k))
      end,
      watch = function()
        local n = #handles + 1
        local what = guard(n)
        if random(4) == 1 then
          what = its.flag()
          flags[#flags + 1] = what
        end
        local obj = objects[random(3)]
        handles[n] = its.watch(obj, what, options())
        say("watch", n, obj)
      end,
      cancel = function()
        if #handles == 0 then return end
        local n = random(#handles)
        say("cancel", n, its.is_alive(handles[n]))
        its.cancel(handles[n])
      end,
      unwatch = function()
        local obj = objects[random(3)]
        if random(3) == 1 then say("unwatch", obj, its.unwatch(obj)) end
      end,
      batch = function()
        say "batch"
        local n, fails = random(4), random(8) == 1
        tried(its.batch, function()
          some(n, act)
          if fails then error("in the batch", 0) end
        end)
      end,
      coroutine = function()
        local n = random(3)
        tried(coroutine.wrap(function() some(n, act) end))
      end,
    }
    local names_of_deeds = { "write", "write", "write", "write", "write",
      "watch", "watch", "watch", "cancel", "unwatch", "batch", "coroutine" }

    function act()
      left = left - 1
      if left > 0 then deeds[names_of_deeds[random(#names_of_deeds)]]() end
    end

    for i = 1, 3 do
      objects[i] = its.object { a = i, [i] = "s" }
      names[objects[i]] = "object " .. i
    end
    while left > 0 do
      act()
      for i, flag in ipairs(flags) do
        if not its.is_valid(flag) then
          say("flag", i)
          if random(2) == 1 then its.revalidate(flag) end
        end
      end
    end
    for i = 1, 3 do
      local obj = objects[i]
      say(obj, its.counts(obj))
      for _, k in ipairs(KEYS) do say(k, its.read(obj, k)) end
    end
    for i = 1, #handles do say(i, its.is_alive(handles[i])) end
    return table.concat(log, "\n")
  end

  for name in pairs(model.shapes) do
    it(("does what the model does (%s, SEED=%d)"):format(name, worlds.seed),
      function()
        worlds.each(60, function(random, message)
          local seed = random(1 << 30)
          local expected = run(model.new(name), seed)
          local got = run(model.real(name), seed)
          if expected ~= got then
            local n, at = 0, got:gmatch "[^\n]*"
            for line in expected:gmatch "[^\n]*" do
              n = n + 1
              assert.equal(line, at(), message .. ", line " .. n)
            end
          end
        end)
      end)
  end
end)

-- Finalisers of the program's own, which Lua runs wherever the library
-- allocates.

local mw = require "moonwatch"

-- Calls `fn` while finalisers call `finaliser`, a new one in each cycle.
local function with_finalisers(finaliser, fn)
  local on, failed = true, nil
  local function make()
    setmetatable({}, {
      __gc = function()
        if not on then return end
        local ok, err = pcall(finaliser)
        if not ok then failed = failed or err end
        make()
      end,
    })
  end
  for _ = 1, 200 do make() end
  local ok, err = pcall(fn)
  on = false
  if failed or not ok then error(failed or err, 0) end
end

-- Work of the library that allocates much, until `done()`.
local function work(done)
  local outer = mw.track { n = 0 }
  local i = 0
  while not done() and i < 500000 do
    i = i + 1
    local tx = mw.begin()
    outer.n = i
    tx:commit()
    if i % 10 == 0 then mw.snapshot(outer) end
  end
  assert.is_true(done())
end

local AT_WORK = "the library is at work: a finaliser can write, cancel, " ..
  "close and read now, and nothing else"

describe("a finaliser in the middle of the library", function()
  it("writes, and the write is told of when the library's work is over",
    function()
      local inner, told, runs = mw.track { n = 0 }, {}, 0
      mw.watch(inner, function(_, key, old, new, kind)
        assert.same({ "n", new - 1, "update" }, { key, old, kind })
        told[new] = true
      end, { once = false })
      local recorder <close> = mw.recorder()
      with_finalisers(function()
        inner.n = inner.n + 1
        runs = runs + 1
        assert.equal(runs, inner.n)
      end, function() work(function() return runs >= 400 end) end)
      mw.reap()
      assert.equal(runs, inner.n)
      assert.equal(runs, #told)
      local seen
      for entry in recorder:entries() do
        if entry.object == inner then
          assert.same({ seen or entry.old, entry.old + 1 },
            { entry.old, entry.new }) -- the first ones are forgotten
          seen = entry.new
        end
      end
      assert.equal(runs, seen)
      assert.equal(runs, mw.mutations(inner))
      assert.equal(runs, mw.why(inner, "n").new)
    end)

  it("writes without asking checks, and tables below a root", function()
    local root, runs, heard = { list = {} }, 0, 0
    mw.watch(root, function() heard = heard + 1 end,
      { deep = true, once = false })
    mw.watch(root.list, function() error "no" end, { phase = "check" })
    local refused, stored = 0, 0
    with_finalisers(function()
      runs = runs + 1
      if pcall(function() root.list[runs] = { n = runs } end) then
        stored = stored + 1
      else
        refused = refused + 1
      end
    end, function()
      work(function() return runs >= 400 and stored > 0 end)
    end)
    mw.reap()
    assert.equal(stored, heard)
    assert.equal(runs, stored + refused)
    for _, below in pairs(root.list) do
      heard = 0
      below.n = 0
      assert.equal(1, heard)
    end
  end)

  it("replaces a table below a root, and writes the field again", function()
    local root, runs = mw.track({ x = {} }, { deep = true }), 0
    local feed <close> = mw.feed { root = root }
    with_finalisers(function()
      if pcall(mw.batch, function() end) then return end
      runs = runs + 1
      root.x = runs
      root.x = { n = runs }
      if runs % 2 == 1 then root.x = "last" end
    end, function() work(function() return runs >= 200 end) end)
    mw.reap()
    local last
    for entry in feed:read() do
      if entry.object == root then last = entry.new end
    end
    assert.equal(root.x, last)
  end)

  it("writes a field that the policy ignores, and nobody is told", function()
    local class = {}
    local former = mw.policy({ classes = { [class] = { ignore = { "cache" } } },
    }):use()
    local obj = setmetatable({ cache = 0 }, class)
    local runs, told = 0, 0
    mw.watch(obj, function() told = told + 1 end, { once = false })
    local feed <close> = mw.feed()
    with_finalisers(function()
      runs = runs + 1
      obj.cache = runs
    end, function() work(function() return runs >= 400 end) end)
    mw.reap()
    for entry in feed:read() do
      if entry.object == obj then told = told + 1 end
    end
    assert.same({ runs, 0, 0 }, { obj.cache, told, mw.mutations(obj) })
    former:use()
  end)

  for _, phase in ipairs { "before", "after" } do
    it("writes the field that is written: it is written after that, " ..
      phase, function()
        local root, runs, n = mw.track({ x = 0 }, { deep = true }), 0, 0
        local told, read, tables = 0, 0, {}
        mw.watch(root, function(_, _, old, new)
          if told ~= old then assert.equal(told, old) end
          told = new
        end, { once = false, phase = phase })
        local feed <close> = mw.feed { root = root }
        local function write()
          n = n + 1
          local value = n % 3 == 0 and n or n % 3 == 1 and { n } or n % 2 == 0
          if n % 3 == 1 then tables[n % 999] = value end -- the last ones
          root.x = value
        end
        local function in_transaction()
          local tx = mw.begin()
          write()
          write()
          if n % 4 == 0 then tx:commit() else tx:rollback() end
        end
        with_finalisers(function()
          if pcall(mw.batch, function() end) then return end
          runs = runs + 1
          write()
        end, function()
          while runs < 4000 and n < 1000000 do
            write()
            in_transaction()
            mw.batch(write)
            -- Else cycles and these steps may keep pace for ever.  Asserts
            -- would allocate so much that few finalisers meet the library.
            local _ = ("garbage"):rep(n % 101)
            for entry in feed:read() do
              if entry.object == root then
                if read ~= entry.old then assert.equal(read, entry.old) end
                read = entry.new
              end
            end
          end
        end)
        mw.reap()
        for entry in feed:read() do
          if entry.object == root then read = entry.new end
        end
        assert.same({ root.x, root.x }, { told, read })
        for _, value in pairs(tables) do
          if value ~= root.x then value[1] = "below no root" end
        end
        assert.equal(root.x, told)
      end)
  end

  it("reads, and any other call raises", function()
    local obj = mw.track { n = 1 }
    local handle = mw.watch(obj, function() end, { once = false })
    local runs, refused, messages = 0, 0, {}
    with_finalisers(function()
      runs = runs + 1
      assert.equal(1, obj.n)
      assert.is_true(mw.is_watched(obj) and handle:alive())
      assert.equal(0, mw.mutations(obj))
      local ok, message = pcall(mw.transaction, function() end)
      if not ok then
        refused = refused + 1
        messages[message:match "the library is at work.*"] = true
      end
    end, function()
      work(function() return runs >= 400 and refused > 0 end)
    end)
    assert.same({ [AT_WORK] = true }, messages)
  end)

  it("cancels and closes, which waits for the end of the work", function()
    local obj, runs, calls = mw.track { n = 0 }, 0, 0
    local handles = {}
    for i = 1, 1000 do
      handles[i] = mw.watch(obj, function() calls = calls + 1 end)
    end
    local batches = 0
    with_finalisers(function()
      runs = runs + 1
      if handles[runs] then handles[runs]:cancel() end
      local ok, batch = pcall(mw.batch)
      if ok then
        batch:close()
        batches = batches + 1
      end
    end, function() work(function() return runs >= 400 end) end)
    for i = 1, #handles do
      assert.equal(i > runs, handles[i]:alive())
    end
    obj.n = 1
    assert.equal(math.max(#handles - runs, 0), calls)
  end)

  it("closes a coroutine with a transaction, which is then taken back",
    function()
      local obj, runs = mw.track { n = 0 }, 0
      with_finalisers(function()
        runs = runs + 1
        local co = coroutine.create(function()
          local ok, tx = pcall(mw.begin)
          local _ <close> = ok and tx or nil
          obj.n = runs
          coroutine.yield(ok)
        end)
        local _, has_begun = coroutine.resume(co)
        coroutine.close(co)
        if not has_begun then obj.n = 0 end
      end, function() work(function() return runs >= 400 end) end)
      mw.reap()
      assert.equal(0, obj.n)
    end)

  it("drops transactions and batches, which end with the next call", function()
    local obj, told, runs = mw.track { n = 0, b = 0 }, 0, 0
    mw.watch(obj, function(_, key)
      if key == "b" then told = told + 1 end
    end, { once = false })
    work(function()
      runs = runs + 1
      coroutine.wrap(function()
        mw.begin()
        obj.n = runs
        coroutine.yield(mw.begin())
      end)()
      coroutine.wrap(function()
        mw.batch(function()
          obj.b = runs
          coroutine.yield()
        end)
      end)()
      return runs >= 400
    end)
    collectgarbage()
    collectgarbage()
    mw.reap()
    assert.equal(0, obj.n)
    assert.equal(runs, told)
  end)
end)

describe("an error that no statement of the program made", function()
  it("is raised by the next call, or given to mw.on_error", function()
    local obj, errors = mw.track { n = 0 }, {}
    mw.watch(obj, function(_, _, _, _, kind)
      if kind == "rollback" then error("in a guard", 0) end
    end, { once = false })
    local function lose()
      pcall(function()
        local tx = mw.begin()
        obj.n = tx and 1
      end)
      collectgarbage()
      collectgarbage()
      return pcall(mw.reap)
    end
    local ok, message = lose()
    assert.is_false(ok)
    assert.matches("^in a guard\nstack traceback", message)
    assert.is_true((pcall(mw.reap)))
    local former = mw.on_error(function(err, where)
      errors[#errors + 1] = where .. ": " .. err
    end)
    assert.is_true((lose()))
    mw.on_error(former)
    assert.same({ "guard: in a guard" }, errors)
    assert.equal(0, obj.n)
  end)

  it("does not stop a write", function()
    local obj = mw.track { n = 0, other = 0 }
    mw.watch(obj, function(_, _, _, _, kind)
      if kind == "rollback" then error("in a guard", 0) end
    end, { once = false })
    pcall(function()
      local tx = mw.begin()
      obj.n = tx and 1
    end)
    collectgarbage()
    collectgarbage()
    obj.other = 1
    assert.same({ 0, 1 }, { obj.n, obj.other })
    assert.has_error(mw.reap)
  end)
end)

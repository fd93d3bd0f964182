-- What a Lua programmer writes instead of a watch: an empty table in front of
-- its contents, with a metatable of its own.  The measures compare with these
-- proxies, so each does no more than its job, as quickly as Lua can.
--
-- A listener is called as a guard is, listener(obj, key, old, new, kind),
-- under pcall and before the value is stored.

local proxies = {}

local function kind_of(old, new)
  return old == nil and "insert" or new == nil and "delete" or "update"
end

-- One listener, or nil.
function proxies.new(store, listener)
  return setmetatable({}, {
    __index = store,
    __newindex = function(self, key, new)
      local ok, err = true, nil
      if listener then
        local old = store[key]
        local kind = old == nil and "insert" or new == nil and "delete"
          or "update"
        ok, err = pcall(listener, self, key, old, new, kind)
      end
      store[key] = new
      if not ok then error(err, 0) end
    end,
  })
end

-- An array of listeners: all are called, then the first error is raised.
function proxies.with_many(store, listeners)
  return setmetatable({}, {
    __index = store,
    __newindex = function(self, key, new)
      local old = store[key]
      local kind, failed, first = kind_of(old, new), false, nil
      for i = 1, #listeners do
        local ok, err = pcall(listeners[i], self, key, old, new, kind)
        if not ok and not failed then failed, first = true, err end
      end
      store[key] = new
      if failed then error(first, 0) end
    end,
  })
end

-- Listeners of single keys: `by_key[key]` is called.
function proxies.by_key(store, by_key)
  return setmetatable({}, {
    __index = store,
    __newindex = function(self, key, new)
      local listener = by_key[key]
      local ok, err = true, nil
      if listener then
        local old = store[key]
        ok, err = pcall(listener, self, key, old, new, kind_of(old, new))
      end
      store[key] = new
      if not ok then error(err, 0) end
    end,
  })
end

-- A flag that a write takes down.
function proxies.flagged(store, flag)
  return setmetatable({}, {
    __index = store,
    __newindex = function(_, key, new)
      flag.valid = false
      store[key] = new
    end,
  })
end

-- A set of the objects that were written; `sets.dirty` may be replaced.
function proxies.marked(store, sets)
  return setmetatable({}, {
    __index = store,
    __newindex = function(self, key, new)
      sets.dirty[self] = true
      store[key] = new
    end,
  })
end

-- A list, with or without a listener.
function proxies.list(store, listener)
  local proxy = proxies.new(store, listener)
  getmetatable(proxy).__len = function() return #store end
  return proxy
end

function proxies.with_pairs(store)
  local proxy = proxies.new(store)
  getmetatable(proxy).__pairs = function() return next, store end
  return proxy
end

-- Trees -----------------------------------------------------------------

-- Calls listener(obj, path, old, new, kind, written) of each node on the way
-- up, and returns the first error as pcall does.  The path is what follows
-- `kind`.
local function tell(node, written, old, new, kind, ...)
  local listener, parent = node.listener, node.parent
  if not listener then
    if not parent then return true end
    return tell(parent, written, old, new, kind, node.key, ...)
  end
  local ok, err = pcall(listener, node.proxy, { ... }, old, new, kind, written)
  if not parent then return ok, err end
  local above, its = tell(parent, written, old, new, kind, node.key, ...)
  if ok then return above, its end
  return ok, err
end

-- Each node knows the node above, so that a write finds the listeners; a table
-- that is stored becomes a node.
local function new_node(store, parent, key, listener)
  local node = { parent = parent, key = key, listener = listener }
  for k, v in pairs(store) do
    if type(v) == "table" then store[k] = new_node(v, node, k).proxy end
  end
  node.proxy = setmetatable({}, {
    __index = store,
    __newindex = function(self, k, new)
      local old = store[k]
      local kind = old == nil and "insert" or new == nil and "delete"
        or "update"
      local ok, err = tell(node, self, old, new, kind, k)
      if type(new) == "table" then new = new_node(new, node, k).proxy end
      store[k] = new
      if not ok then error(err, 0) end
    end,
  })
  return node
end

function proxies.deep(store, listener)
  return new_node(store, nil, nil, listener).proxy
end

-- The same with a flag at the root: a write looks for the flags above.
local function new_flagged(store, parent, flag)
  local node = { parent = parent, flag = flag }
  for k, v in pairs(store) do
    if type(v) == "table" then store[k] = new_flagged(v, node) end
  end
  return setmetatable({}, {
    __index = store,
    __newindex = function(_, k, new)
      local at = node
      repeat
        if at.flag then at.flag.valid = false end
        at = at.parent
      until not at
      if type(new) == "table" then new = new_flagged(new, node) end
      store[k] = new
    end,
  })
end

function proxies.deep_flagged(store, flag)
  return new_flagged(store, nil, flag)
end

-- Batches ---------------------------------------------------------------

local ABSENT = {}
local depth, queue, size = 0, {}, 0

-- Calls the listener of each object that was written, with the last key and the
-- value from before the batch; raises the first error.
local function deliver(ok, ...)
  depth = depth - 1
  if depth > 0 then return ok, ... end
  local failed, first = not ok, (...)
  for i = 1, size do
    local entry = queue[i]
    local key, self = entry.key, entry.self
    local old, new = entry.olds[key], self[key]
    if old == ABSENT then old = nil end
    queue[i], entry.olds = nil, nil
    local told, err = pcall(entry.listener, self, key, old, new,
      kind_of(old, new))
    if not told and not failed then failed, first = true, err end
  end
  size = 0
  if failed then return false, first end
  return true, ...
end

local function results(ok, ...)
  if not ok then error((...), 0) end
  return ...
end

function proxies.batch(fn, ...)
  depth = depth + 1
  return results(deliver(pcall(fn, ...)))
end

function proxies.batched(store, listener)
  local entry = { listener = listener }
  return setmetatable({}, {
    __index = store,
    __newindex = function(self, key, new)
      local old = store[key]
      local ok, err = true, nil
      if depth > 0 then
        local olds = entry.olds
        if not olds then
          olds, size = {}, size + 1
          entry.self, entry.olds, queue[size] = self, olds, entry
        end
        if olds[key] == nil then olds[key] = old == nil and ABSENT or old end
        entry.key = key
      else
        ok, err = pcall(listener, self, key, old, new, kind_of(old, new))
      end
      store[key] = new
      if not ok then error(err, 0) end
    end,
  })
end

-- Logs ------------------------------------------------------------------

-- Writes are recorded as well, in log.entries; `false` is a log that is closed.
function proxies.logged(store, listener, log)
  return setmetatable({}, {
    __index = store,
    __newindex = function(self, key, new)
      local old = store[key]
      local kind = old == nil and "insert" or new == nil and "delete"
        or "update"
      local ok, err = pcall(listener, self, key, old, new, kind)
      local entries = log.entries
      if entries then
        entries[#entries + 1] = { object = self, key = key, old = old,
          new = new, kind = kind }
      end
      store[key] = new
      if not ok then error(err, 0) end
    end,
  })
end

-- Writes are events, too: the last `capacity` of them, and their times.
function proxies.traced(store, listener, capacity)
  local times, keys, kinds, count = {}, {}, {}, 0
  local clock = os.clock
  return setmetatable({}, {
    __index = store,
    __newindex = function(self, key, new)
      local old = store[key]
      local kind = old == nil and "insert" or new == nil and "delete"
        or "update"
      local ok, err = pcall(listener, self, key, old, new, kind)
      local at = count % capacity + 1
      times[at], keys[at], kinds[at], count = clock(), key, kind, count + 1
      store[key] = new
      if not ok then error(err, 0) end
    end,
  }), times, keys, kinds
end

return proxies

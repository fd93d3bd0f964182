--- mw.snapshot, mw.restore: the state below an object as bytes, and back;
-- mw.hash: is it the same?
-- SPDX-License-Identifier: MIT
--
-- The core writes and reads the bytes.  The functions here know classes and
-- policies, and change a live root into the state that was read: what is the
-- same by its way from the root and by its kind stays, and changes in one
-- transaction.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local json = require "moonwatch.json"
local named = require "moonwatch.policy.named"
local path = require "moonwatch.path"
local policy = require "moonwatch.policy"
local recorded = require "moonwatch.effects.recorded"
local same = require "moonwatch.same"
local state_below = require("moonwatch.state").below

local private, raw = core.private, core.raw
local metatable = private.metatable

local snapshot = {}

local MEMORY = "not enough memory"

-- {======================================================
-- Writing
-- =======================================================

-- Returns the name of an object's class, and the state of a userdata; nil if
-- the object cannot be said.  `class` is the class that the object had when its
-- state was delivered.
local function describe(object, class)
  local name = named.name(named.of(object, class or metatable(object)))
  if not name or type(object) == "table" then return name end
  if not policy.states.has(object) then return nil end
  return name, policy.states.snapshot(object)
end

-- Returns in words where something is that cannot be said: `way` has what, and
-- the keys to it, the last one first.
local function where_of(way)
  local keys = {}
  for i = #way, 2, -1 do
    local key = way[i]
    if not path.is_key(key) then key = ("(a %s)"):format(type(key)) end
    keys[#keys + 1] = key
  end
  return ("cannot say %s: %s"):format(path.text(keys), way[1])
end

-- Returns the function that says which tables are part of the state; nil if all
-- are.
local function filter(root, descend)
  if descend then
    return function(_, parent, key, child)
      return descend(parent, key, child)
    end
  end
  return private.has_rules(root) and private.enters or nil
end

local OPTIONS = { descend = "function" }

--- Returns the state below an object as bytes, and the number of the last entry
-- that was delivered; or nil and a message.
function snapshot.snapshot(root, opts)
  check.argument(type(root) == "table", 1, "snapshot", "table", root)
  opts = check.options(opts, OPTIONS, 2, "snapshot", "option")
  policy.current()
  local bytes, more, heard = private.snapshot(root, describe,
    filter(root, opts.descend), named.all())
  if not bytes then return nil, where_of(more) end
  if not heard then private.miss(root) end
  return bytes, more
end

--- Returns the hash of the state below an object as it is now; or nil and a
-- message.
function snapshot.hash(root)
  check.argument(type(root) == "table", 1, "hash", "table", root)
  policy.current()
  local hash = private.kept_hash(root)
  if hash then return hash end
  local enters, names = filter(root), named.all()
  hash = private.hash(root, describe, enters, names)
  if hash then return hash end
  local bytes, way = private.snapshot(root, describe, enters, names, true)
  if bytes then return private.hash(root, describe, enters, names) end
  return nil, where_of(way)
end

-- }======================================================

-- {======================================================
-- Reading
-- =======================================================

local function class_of(name)
  local class = named.class(name)
  if class == nil then
    error({ ("no class has the name '%s'"):format(name) }, 0)
  end
  return class
end

local function make(name, is_userdata)
  local class = class_of(name)
  local ok, object = pcall(policy.new_object, class, is_userdata)
  if ok then return object end
  if object == MEMORY then error(MEMORY, 0) end
  error({ ("class '%s' makes no object: %s"):format(name, tostring(object)) },
    0)
end

-- A rule may raise for a state that it has not made.
local function fill(userdata, state)
  local ok, err = pcall(policy.states.restore, userdata, state)
  if ok then return end
  if err == MEMORY then error(err, 0) end
  error({ "a userdata takes no such state: " .. tostring(err) }, 0)
end

local MARKS = { json.array, json.object_like }

local function mark(t, kind) MARKS[kind](t) end

-- }======================================================

-- {======================================================
-- Into a live root
-- =======================================================

-- What a state that was read has to do with a live root: `live` has the object
-- that stays in the place of a new one, `states` the states of the new
-- userdata.
local Merge = {}
Merge.__index = Merge

local function is_object(value)
  return type(value) == "table" or type(value) == "userdata"
end

-- Returns what two objects must have in common so that one can become the
-- other: the class, "" for none; nil for a class that nobody has named.
local function kind_of(object)
  local mt = metatable(object)
  if mt == nil then return "" end
  return named.name(named.of(object, mt))
end

function Merge:fits(new, live)
  return type(live) == type(new) and not self.taken[live] and
    not self.names[live] and kind_of(live) == kind_of(new)
end

-- Returns the field of a live object: nil for a class, which is no state.
function Merge:field(live, key)
  local value = live and rawget(raw(live), key)
  if type(value) == "table" and not self.below(live, key, value) then
    return nil
  end
  return value
end

-- Finds the live object for a new one, which is where `live` is.
function Merge:pair(new, live)
  if self.live[new] ~= nil then return end
  local fits = is_object(live) and self:fits(new, live)
  self.live[new] = fits and live or false
  if fits then self.taken[live] = true end
  self.queue[#self.queue + 1] = { new, live }
end

-- Returns the keys of a table in an order that all programs have; objects come
-- last.
local function keys_of(t)
  local keys = path.sorted_keys(t)
  for key in next, t do
    if not path.is_key(key) then keys[#keys + 1] = key end
  end
  return keys
end

function Merge:is_new(value)
  return is_object(value) and not self.names[value] and value ~= core.null
end

-- Finds the live objects for those in the fields of a new table, which is where
-- `live` is.  Fields with objects as keys are for later: in `ready` if the live
-- object of the key is known, else in `waiting`, by the key.
function Merge:pair_fields(new, live, ready, waiting)
  for _, key in ipairs(keys_of(raw(new))) do
    local child = rawget(raw(new), key)
    if self:is_new(child) then
      if self:is_new(key) then
        local list = ready
        if self.live[key] == nil then
          list = waiting[key] or {}
          waiting[key] = list
        end
        list[#list + 1] = { key, child, live }
      else
        self:pair(child, self:field(live, key))
      end
    end
  end
end

-- Goes on from each pair to the objects in its fields.
function Merge:find()
  local ready, waiting, i, at = {}, {}, 1, 1
  repeat
    while self.queue[i] do
      local new, live = self.queue[i][1], self.queue[i][2]
      if type(new) == "table" then
        self:pair_fields(new, type(live) == "table" and live, ready, waiting)
      end
      for _, field in ipairs(waiting[new] or {}) do
        ready[#ready + 1] = field
      end
      waiting[new] = nil
      i = i + 1
    end
    for n = at, #ready do
      local key, child, live = table.unpack(ready[n])
      key = self.live[key]
      self:pair(child, key and self:field(live, key))
    end
    at = #ready + 1
  until not self.queue[i]
end

-- Returns what stands for a value in the live root.
function Merge:translate(value)
  return is_object(value) and self.live[value] or value
end

-- The new objects that stay refer to live ones.
function Merge:adopt(new)
  local its, fields = raw(new), {}
  for key, value in next, its do fields[key] = value end
  for key, value in next, fields do
    local k, v = self:translate(key), self:translate(value)
    if k ~= key then rawset(its, key, nil) end
    if k ~= key or v ~= value then rawset(its, k, v) end
  end
end

-- Is the field part of the state, so that a state without it takes it away?
function Merge:is_state(live, key, value)
  local ignored = policy.ignored(live)
  if ignored and ignored[key] then return false end
  return not self.enters or type(value) ~= "table" or self.names[value] or
    self.enters(self.root, live, key, value)
end

-- Adds the writes that turn a live table into the new one.
function Merge:change(new, live)
  local wanted, theirs = {}, raw(live)
  for key, value in next, raw(new) do
    wanted[self:translate(key)] = self:translate(value)
  end
  local function add(key, value, kind)
    self.writes[#self.writes + 1] =
      { object = live, key = key, new = value, kind = kind }
  end
  for _, key in ipairs(keys_of(theirs)) do
    local value = rawget(theirs, key)
    if wanted[key] == nil and self:is_state(live, key, value) then
      add(key, nil, "delete")
    end
  end
  for _, key in ipairs(keys_of(wanted)) do
    local was = rawget(theirs, key)
    if not same(was, wanted[key]) then
      add(key, wanted[key], was == nil and "insert" or "update")
    end
  end
end

-- A live userdata gets a state unless it has this state.
function Merge:change_state(new, live)
  local state, names = self.states[new], self.names
  local was =
    private.snapshot({ policy.states.snapshot(live) }, describe, nil, names)
  if was and was == private.snapshot({ state }, describe, nil, names) then
    return
  end
  self.writes[#self.writes + 1] =
    { object = live, key = "restore", new = state, kind = "call" }
end

-- Finds what is to be written.  Returns true; or nil and a message.
function Merge:plan(new)
  self:pair(new, self.root)
  if not self.live[new] then return nil, "the root is of another kind" end
  self:find()
  for _, pair in ipairs(self.queue) do
    local object, live = pair[1], self.live[pair[1]]
    if type(object) == "table" then
      if live then self:change(object, live) else self:adopt(object) end
    elseif live then
      self:change_state(object, live)
    else
      fill(object, self.states[object])
    end
  end
  return true
end

-- Writes all.  Returns the root; or nil and a message.
function Merge:write()
  local fx, problem = recorded.write(function() return self.writes end, true)
  if not fx then return nil, problem end
  for _, pair in ipairs(self.queue) do
    local live = self.live[pair[1]]
    local said = live and json.mark(pair[1])
    if said and json.mark(live) ~= said then
      MARKS[said == "array" and 1 or 2](live)
    end
  end
  recorded.raise(problem)
  return self.root
end

-- }======================================================

local INTO = { into = "table" }

local SECOND = "table expected, got number: mw.snapshot returns two values; " ..
  "write mw.restore((mw.snapshot(root)))"

--- Returns the state of a snapshot: as new objects, or with `into` in a live
-- root.  Returns nil and a message if the bytes are no good.
function snapshot.restore(bytes, opts)
  check.argument(type(bytes) == "string", 1, "restore", "string", bytes)
  check.that(type(opts) ~= "number", 2, "restore", SECOND)
  opts = check.options(opts, INTO, 2, "restore", "option")
  policy.current()
  local states = {}
  local function keep(userdata, state) states[userdata] = state end
  local new, message = private.restore(bytes, make, class_of,
    opts.into and keep or fill, mark)
  if new == nil then return nil, "bad snapshot: " .. message end
  if not opts.into then return new end
  local root = opts.into
  local merge = setmetatable({
    root = root, names = named.all(), enters = filter(root), states = states,
    below = state_below(root), live = {}, taken = {}, queue = {}, writes = {},
  }, Merge)
  local ok, done, problem = pcall(merge.plan, merge, new)
  if not ok then
    if type(done) ~= "table" then error(done, 0) end
    return nil, "bad snapshot: " .. done[1]
  end
  if not done then return nil, problem end
  return merge:write()
end

return snapshot

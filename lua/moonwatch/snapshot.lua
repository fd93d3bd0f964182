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

local private = core.private
local raw = private.raw
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
  local bytes, more = private.snapshot(root, describe,
    filter(root, opts.descend), named.all())
  if not bytes then return nil, where_of(more) end
  return bytes, more
end

--- Returns the hash of the state below an object, which a snapshot would have;
-- or nil and a message.
function snapshot.hash(root)
  check.argument(type(root) == "table", 1, "hash", "table", root)
  policy.current()
  local hash, way =
    private.hash(root, describe, filter(root), named.all())
  if not hash then return nil, where_of(way) end
  return hash
end

-- }======================================================

-- {======================================================
-- Reading
-- =======================================================

-- What is wrong with bytes, in an array; other errors are the program's.
local Refusal = {}

local function refuse(message, ...)
  error(setmetatable({ message:format(...) }, Refusal), 0)
end

local function class_of(name)
  local class = named.class(name)
  if class == nil then refuse("no class has the name '%s'", name) end
  return class
end

local function make(name, is_userdata)
  local class = class_of(name)
  local ok, object = pcall(policy.new_object, class, is_userdata)
  if ok then return object end
  if object == MEMORY then error(MEMORY, 0) end
  refuse("class '%s' makes no object: %s", name, tostring(object))
end

-- A rule may raise for a state that it has not made.
local function fill(userdata, state)
  local ok, err = pcall(policy.states.restore, userdata, state)
  if ok then return end
  if err == MEMORY then error(err, 0) end
  refuse("a userdata takes no such state: %s", tostring(err))
end

local MARKS = { "array", "object" }

local function mark(t, kind) json.set_mark(t, MARKS[kind]) end

-- }======================================================

-- {======================================================
-- Into a live root
-- =======================================================

-- What a state that was read has to do with a live root: `live` has the object
-- that stays in the place of a new one, or `false`; `states` the states of the
-- new userdata; `held` the new objects that fields hold, not only states.
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
function Merge:pair(new, live, is_held)
  if is_held then self.held[new] = true end
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
  local is_held = self.held[new]
  for _, key in ipairs(keys_of(raw(new))) do
    local child = rawget(raw(new), key)
    if is_held and self:is_new(key) then self.held[key] = true end
    if self:is_new(child) then
      if self:is_new(key) then
        local list = ready
        if self.live[key] == nil then
          list = waiting[key] or {}
          waiting[key] = list
        end
        list[#list + 1] = { key, child, live, is_held }
      else
        self:pair(child, self:field(live, key), is_held)
      end
    end
  end
end

-- Finds the objects that only the states of userdata lead to.  These are new,
-- for a rule makes a state anew each time it is asked.
function Merge:pair_states()
  for i = self.states_found + 1, #self.queue do
    local state = self.states[self.queue[i][1]]
    if self:is_new(state) then self:pair(state, nil) end
    self.states_found = i
  end
end

-- Goes on from each pair to the objects in its fields; at last to those in
-- states, so that what fields lead to stays.
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
      local key, child, live, is_held = table.unpack(ready[n], 1, 4)
      key = self.live[key]
      self:pair(child, key and self:field(live, key), is_held)
    end
    at = #ready + 1
    if not self.queue[i] then self:pair_states() end
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

-- Returns a function that returns states as bytes, in which what fields hold
-- has a name, as classes have, the same for both objects of a pair.  So the
-- bytes tell whether states refer to the same objects.
function Merge:writer_of_states()
  local names = named.all()
  for i, pair in ipairs(self.queue) do
    local new, live = pair[1], self.live[pair[1]]
    if live or self.held[new] then names[new] = "\0" .. i end
    if live then names[live] = "\0" .. i end
  end
  return function(states)
    return (private.snapshot(states, describe, nil, names, true))
  end
end

-- Adds the writes that give live userdata the states that they do not have.  If
-- two states would share an object that they do not share in the bytes, or not
-- share one, all live userdata get their states.
function Merge:change_states(list)
  local bytes_of, wanted, result = self:writer_of_states(), {}, {}
  for i, new in ipairs(list) do
    local live = self.live[new]
    wanted[i] = { self:translate(self.states[new]) }
    result[i] = wanted[i]
    local was = live and { policy.states.snapshot(live) }
    local bytes = was and bytes_of(was)
    if bytes and bytes == bytes_of(wanted[i]) then result[i] = was end
  end
  local bytes = bytes_of(wanted)
  local is_right = bytes and bytes == bytes_of(result)
  for i, new in ipairs(list) do
    local live = self.live[new]
    if live and not (is_right and result[i] ~= wanted[i]) then
      self.writes[#self.writes + 1] =
        { object = live, key = "restore", new = wanted[i][1], kind = "call" }
    end
  end
end

-- Finds what is to be written.  Returns true; or nil and a message.
function Merge:plan(new)
  self:pair(new, self.root, true)
  if not self.live[new] then return nil, "the root is of another kind" end
  self:find()
  for _, pair in ipairs(self.queue) do
    local object, live = pair[1], self.live[pair[1]]
    if type(object) == "table" then
      if live then self:change(object, live) else self:adopt(object) end
    end
  end
  local list = {}
  for i = #self.queue, 1, -1 do -- a state may contain userdata
    local object = self.queue[i][1]
    if type(object) == "userdata" then
      list[#list + 1] = object
      if not self.live[object] then
        fill(object, self:translate(self.states[object]))
      end
    end
  end
  if #list > 0 then self:change_states(list) end
  return true
end

-- Marks are no writes, so a rollback is told of them.
function Merge:mark_all()
  for _, pair in ipairs(self.queue) do
    local new, live = pair[1], self.live[pair[1]]
    local said = live and json.mark(new)
    local was = live and json.mark(live)
    if said ~= was then
      private.on_rollback(function() json.set_mark(live, was) end)
      json.set_mark(live, said)
    end
  end
end

-- Writes all.  Returns the root; or nil and a message.
function Merge:write()
  local fx, problem = recorded.write(function()
    self:mark_all()
    return self.writes
  end, true)
  if not fx then return nil, problem end
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
    held = {}, states_found = 0,
  }, Merge)
  local ok, done, problem = pcall(merge.plan, merge, new)
  if not ok then
    if getmetatable(done) ~= Refusal then error(done, 0) end
    return nil, "bad snapshot: " .. done[1]
  end
  if not done then return nil, problem end
  return merge:write()
end

return snapshot

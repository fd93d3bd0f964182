--- mw.snapshot, mw.restore: the state below an object as bytes, and back.
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
local object_class = require "moonwatch.policy.object_class"
local path = require "moonwatch.path"
local policy = require "moonwatch.policy"
local recorded = require "moonwatch.effects.recorded"

local private, raw = core.private, core.raw
local metatable = private.metatable

local snapshot = {}

local MEMORY = "not enough memory"

-- {======================================================
-- Writing
-- =======================================================

-- Returns the name of an object's class, and the state of a userdata; nil if
-- the object cannot be said.
local function describe(object)
  local name = named.name(named.of(object, metatable(object)))
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
  local bytes, way = private.snapshot(root, describe,
    filter(root, opts.descend), named.all())
  if not bytes then return nil, where_of(way) end
  return bytes, 0
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

local function fill(userdata, state) policy.states.restore(userdata, state) end

local MARKS = { json.array, json.object_like }

local function mark(t, kind) MARKS[kind](t) end

-- }======================================================

local INTO = { into = "table" }

--- Returns the state of a snapshot: as new objects, or with `into` in a live
-- root.  Returns nil and a message if the bytes are no good.
function snapshot.restore(bytes, opts)
  check.argument(type(bytes) == "string", 1, "restore", "string", bytes)
  opts = check.options(opts, INTO, 2, "restore", "option")
  local root, message = private.restore(bytes, make, class_of, fill, mark)
  if root == nil then return nil, "bad snapshot: " .. message end
  return root
end

return snapshot

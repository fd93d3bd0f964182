--- mw.instrument: instances are tagged when their constructor returns.
-- SPDX-License-Identifier: MIT
--
-- Constructors are of two sorts.  Some are given the instance (`init`); others
-- make it and return it (`new`, in most classes).  A constructor may call that
-- of a base: an instance is tagged once, when the outermost constructor that is
-- given it returns, or else when the first that returns it does.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local metatable = core.private.metatable
local patch = require "moonwatch.patch"
local policy = require "moonwatch.policy"

local CONSTRUCTORS = { "new", "__call", "init", "initialize", "_init" }
local RESTORERS = { "__setstate", "from_data" }
local GIVEN = { init = true, initialize = true, _init = true,
  __setstate = true }

-- For each clock: the objects that are given to constructors right now, and a
-- clock whose generations number the calls of constructors.
local trackers = setmetatable({}, { __mode = "k" })

local function tracker_of(clock)
  local tracker = trackers[clock]
  if not tracker then
    tracker = {
      clock = clock,
      calls = core.clock("moonwatch: constructors, " .. core.id(clock)),
      building = setmetatable({}, { __mode = "k" }),
    }
    trackers[clock] = tracker
  end
  return tracker
end

local Building = {
  __close = function(scope) scope.building[scope.obj] = nil end,
}

local function is_object(value)
  return type(value) == "table" or type(value) == "userdata"
end

local function tag(tracker, obj, begun)
  if tracker.building[obj] or tracker.calls:generation(obj) >= begun then
    return
  end
  tracker.calls:tag(obj)
  tracker.clock:tag(obj)
end

local function leave(tracker, obj, begun, ...)
  tracker.building[obj] = nil
  tag(tracker, obj, begun)
  return ...
end

local function given(construct, tracker, obj, ...)
  local building = tracker.building
  if not is_object(obj) or building[obj] then return construct(obj, ...) end
  building[obj] = true
  local _ <close> = setmetatable({ obj = obj, building = building }, Building)
  return leave(tracker, obj, tracker.calls:advance(), construct(obj, ...))
end

-- What a constructor returned is the instance, or else its first argument is,
-- unless that is the class.
local function finish(tracker, class, begun, first, ...)
  local result = ...
  if is_object(result) then
    tag(tracker, result, begun)
  elseif is_object(first) and not rawequal(first, class) then
    tag(tracker, first, begun)
  end
  return ...
end

-- Makes constructors tag; only those of `class` itself if they are others' too.
local function tagging(class, name, tracker, shared)
  if GIVEN[name] then
    return function(construct)
      return function(...) return given(construct, tracker, ...) end
    end
  end
  return function(construct)
    return function(...)
      local first = ...
      if shared and not rawequal(first, class) then return construct(...) end
      return finish(tracker, class, tracker.calls:advance(), first,
        construct(...))
    end
  end
end

-- The names of a list of names and functions, as a class has them.
local function names_in(class, list)
  local names = {}
  for _, item in ipairs(list) do
    if type(item) == "string" then
      names[#names + 1] = item
    else
      for key, value in next, core.raw(class) do
        if value == item then names[#names + 1] = key end
      end
    end
  end
  return names
end

local function has_given(class, names)
  for _, name in ipairs(names) do
    if GIVEN[name] and type(class[name]) == "function" then return true end
  end
end

-- A class whose constructors are given the instance has no need of those that
-- it shares with others.
local function patch_all(class, list, tracker, layers)
  local names = names_in(class, list)
  local own_only = has_given(class, names)
  for _, name in ipairs(names) do
    local holder = class
    if name == "__call" then holder = metatable(class) end
    if type(holder) == "table" and (GIVEN[name] or not own_only or
      holder == class and rawget(core.raw(class), name) ~= nil) then
      local n = #layers + 1
      layers[n] = false -- so that there is room for it
      layers[n] = patch(holder, name,
        tagging(class, name, tracker, holder ~= class))
    end
  end
end

local Handle = {}
Handle.__index = Handle
Handle.__metatable = false

function Handle:cancel()
  for i = 1, #self do
    if self[i] then self[i]:cancel() end
  end
end

Handle.__close = Handle.cancel

local function is_clock(value)
  return metatable(value) == metatable(core.clock())
end

local known = { constructors = "table", restorers = "table", clock = "table" }

local function mistake_in(rules)
  local name = check.unknown(rules, known)
  if name then return ("unknown rule '%s'"):format(name) end
  for rule, value in pairs(rules) do
    if type(value) ~= known[rule] then
      return ("rule '%s' is not a %s"):format(rule, known[rule])
    end
  end
  if rules.clock and not is_clock(rules.clock) then
    return "rule 'clock' is not a clock"
  end
end

--- Tags each instance of a class from now on.
local function instrument(class, rules)
  check.argument(type(class) == "table", 1, "instrument", "table", class)
  check.argument(rules == nil or type(rules) == "table", 2, "instrument",
    "table", rules)
  rules = rules or {}
  local mistake = mistake_in(rules)
  check.that(not mistake, 2, "instrument", mistake)
  local clock = rules.clock or core.clock()
  local handle = setmetatable({}, Handle)
  local tracker = tracker_of(clock)
  local ok, message = pcall(function()
    patch_all(class, rules.constructors or policy.hooks(class).constructors or
      CONSTRUCTORS, tracker, handle)
    patch_all(class, rules.restorers or RESTORERS, tracker, handle)
    clock:advance()
  end)
  if not ok then
    handle:cancel()
    error(message, 0)
  end
  return handle
end

return instrument

--- mw.instrument: tags an instance when its constructor returns.
-- SPDX-License-Identifier: MIT
--
-- There are two sorts of constructors: some get the instance as an argument
-- (`init`), others create and return the instance (`new`, in most classes).  A
-- constructor may call the constructor of a base class.  The library tags an
-- instance once: when the outermost constructor returns that got the instance
-- as an argument, or, without such a constructor, when the first constructor
-- returns the instance.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local metatable = core.private.metatable
local wrap = require "moonwatch.policy.wrap"
local object_class = require "moonwatch.policy.object_class"
local policy = require "moonwatch.policy"

local CONSTRUCTORS = { "new", "__call", "init", "initialize", "_init" }
local RESTORERS = { "__setstate", "from_data" }
local GIVEN = { init = true, initialize = true, _init = true,
  __setstate = true }

-- Clock -> the objects that are arguments of running constructors, and a clock
-- whose generations number the calls of constructors.
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
  local has_failed = select("#", ...) > 1 and not (...) -- nil, message?
  if not has_failed then tag(tracker, obj, begun) end
  return ...
end

local function given(construct, tracker, obj, ...)
  local building = tracker.building
  if not is_object(obj) or building[obj] then return construct(obj, ...) end
  building[obj] = true
  local _ <close> = setmetatable({ obj = obj, building = building }, Building)
  return leave(tracker, obj, tracker.calls:advance(), construct(obj, ...))
end

-- A constructor's result is the instance; nil, with a message perhaps, says
-- that there is none.  If there is no result, or the result is no object, the
-- first argument is the instance, unless that argument is the class.
local function finish(tracker, class, begun, first, ...)
  local result = ...
  if is_object(result) then
    tag(tracker, result, begun)
  elseif not result and select("#", ...) > 0 then
    return ...
  elseif is_object(first) and not rawequal(first, class) then
    tag(tracker, first, begun)
  end
  return ...
end

-- Returns a function that wraps a constructor so that it tags instances.  If
-- other classes share the constructor, only calls for `class` itself tag.
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

-- Returns the names of the constructors in a list of names and functions.
local function names_in(class, list)
  local names = {}
  for _, item in ipairs(list) do
    if type(item) == "string" then
      names[#names + 1] = item
    else
      for key, value in next, core.private.raw(class) do
        if value == item then names[#names + 1] = key end
      end
    end
  end
  return names
end

-- If some constructors of a class get the instance as an argument, the
-- constructors that the class shares with others stay as they are.
local function patch_all(class, list, tracker, layers)
  local names, own_only = names_in(class, list), false
  for _, name in ipairs(names) do
    own_only = own_only or GIVEN[name] and type(class[name]) == "function"
  end
  for _, name in ipairs(names) do
    local holder = class
    if name == "__call" then holder = metatable(class) end
    if type(holder) == "table" and (GIVEN[name] or not own_only or
      holder == class and rawget(core.private.raw(class), name) ~= nil) then
      layers[#layers + 1] = wrap(holder, name,
        tagging(class, name, tracker, holder ~= class))
    end
  end
end

local Handle, state_of, new = check.class "handle"

local function cancel_all(layers)
  for _, layer in ipairs(layers) do layer:cancel() end
end

function Handle:cancel()
  local layers = state_of(self, "cancel")
  if not core.private.put_off(cancel_all, layers) then cancel_all(layers) end
end

Handle.__close = Handle.cancel

local RULES = { constructors = "table", restorers = "table", clock = "table" }

--- Tags each new instance of a class until the handle is cancelled.  Returns
-- the handle.
local function instrument(class, rules)
  check.argument(type(class) == "table", 1, "instrument", "table", class)
  rules = check.options(rules, RULES, 2, "instrument", "rule")
  local clock = rules.clock or core.clock()
  check.that(metatable(clock) == metatable(core.clock()), 2, "instrument",
    "rule 'clock' is not a clock")
  local layers = {}
  local handle = new(layers)
  local tracker = tracker_of(clock)
  local ok, message = pcall(function()
    local constructors = rules.constructors or
      policy.hooks(class).constructors or CONSTRUCTORS
    for form in pairs { [class] = true,
      [object_class.of_metatable(class)] = true } do
      patch_all(form, constructors, tracker, layers)
      patch_all(form, rules.restorers or RESTORERS, tracker, layers)
    end
    clock:advance()
  end)
  if not ok then
    handle:cancel()
    error(message, 0)
  end
  return handle
end

return instrument

--- Errors of misuse, raised at the line where the program called the library.
-- SPDX-License-Identifier: MIT
--
-- The functions here are called by the function that the program called, so
-- the error belongs to the caller of their caller; a `depth` is the number of
-- functions of the library between these two.

local private = require("moonwatch.core").private
local type, rawget = type, rawget

local check = {}

local function fail(n, name, what, depth)
  error(("bad argument #%d to '%s' (%s)"):format(n, name, what),
    4 + (depth or 0))
end

--- Raises if `value`, the first argument of the function `name`, is the
-- library.
function check.dot(name, value, depth)
  if value ~= nil and rawequal(value, private.whole) then
    error(("calling '%s' with a colon (use a dot: mw.%s)"):format(name, name),
      3 + (depth or 0))
  end
end

--- Raises unless `ok`; argument `n` of the function `name` is `value` instead
-- of what was expected.
function check.argument(ok, n, name, expected, value, depth)
  if n == 1 then check.dot(name, value, 1 + (depth or 0)) end
  if not ok then
    fail(n, name, ("%s expected, got %s"):format(expected, type(value)), depth)
  end
end

--- Raises if the function `name`, which takes no argument, has got one.
function check.nothing(name, value)
  check.dot(name, value, 1)
  if value ~= nil then
    fail(1, name, "no argument expected, got " .. type(value))
  end
end

--- Raises unless `ok`; `what` says in words what is wrong with argument `n`.
function check.that(ok, n, name, what, depth)
  if not ok then fail(n, name, what, depth) end
end

--- Returns the name of a field that is in `fields` but not in `known`, or nil.
function check.unknown(fields, known)
  for name in pairs(fields) do
    if known[name] == nil then
      return type(name) == "string" and name or ("(a %s)"):format(type(name))
    end
  end
end

local NONE = {}

-- What was meant by who gives an object in place of options.
local MEANT = {
  feed = "; mw.feed { root = object } is meant",
  restore = "; mw.restore(bytes, { into = object }) is meant",
}

-- Returns what an option should have been, or nil if the value is good.
local function expected_of(value, expected)
  if value == nil then return nil end
  if expected ~= "count" then
    return type(value) ~= expected and expected or nil
  elseif type(value) ~= "number" then
    return "number"
  end
  return not (math.type(value) == "integer" and value >= 0) and "count" or nil
end

--- Reads argument `n` of the function `name`, a table of options or nil.
-- `known` has the type of each option; the type "count" is an integer from 0
-- on.  `word` is what the function calls an option ("option").  Returns the
-- options, an empty table for nil; raises for anything else.
function check.options(opts, known, n, name, word, depth)
  if opts == nil then return NONE end
  if n == 1 then check.dot(name, opts, 1 + (depth or 0)) end
  if type(opts) ~= "table" then
    fail(n, name, ("table expected, got %s"):format(type(opts)), depth)
  end
  word = word or "option"
  local unknown = check.unknown(opts, known)
  if unknown then
    fail(n, name, ("unknown %s '%s'%s"):format(word, unknown,
      MEANT[name] or ""), depth)
  end
  for option, expected in pairs(known) do
    local missed = expected_of(opts[option], expected)
    if missed then
      fail(n, name, ("%s '%s' is not a %s"):format(word, option, missed),
        depth)
    end
  end
  return opts
end

--- Raises unless `ok`; the method `name` was called on `value`.  To be called
-- by a function that the method calls; or there is a `depth` between the two.
function check.self(ok, name, expected, value, depth)
  if ok then return end
  error(("calling '%s' on bad self (%s expected, got %s)"):format(name,
    expected, type(value)), 4 + (depth or 0))
end

--- Declares a class of the library's objects.  An object has one field: its
-- state, a table, is under the class.  So a program can set no field, and the
-- error says what to `use` instead, if there is something.  The program can
-- read the field `shown` of the state.  Returns
--
--     the class, which is the metatable of the objects
--     state_of(self, name), which the method `name` calls first: returns the
--       state, raises unless `self` is an object of the class; a method that
--       calls a function that calls `state_of` has a `depth` of 1
--     new(state), which returns an object
function check.class(name, use, shown)
  local class = { __name = name, __metatable = false }
  class.__index = class
  if shown then
    function class.__index(self, key)
      if key == shown then return self[class][shown] end
      return class[key]
    end
  end
  private.add_class(class, use)
  local function state_of(self, method, depth)
    local state = type(self) == "table" and rawget(self, class)
    if not state then check.self(false, method, name, self, depth) end
    return state
  end
  local function new(state) return setmetatable({ [class] = state }, class) end
  return class, state_of, new
end

return check

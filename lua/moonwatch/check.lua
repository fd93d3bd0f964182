--- Errors of misuse, raised where the library was called.
-- SPDX-License-Identifier: MIT

local check = {}

local function fail(n, name, what)
  error(("bad argument #%d to '%s' (%s)"):format(n, name, what), 4)
end

--- Raises unless `ok`: argument `n` of `name` is `value`, not as expected.
-- To be called by the function that the program called.
function check.argument(ok, n, name, expected, value)
  if not ok then
    fail(n, name, ("%s expected, got %s"):format(expected, type(value)))
  end
end

--- The same when what is wrong can be said in other words.
function check.that(ok, n, name, what)
  if not ok then fail(n, name, what) end
end

--- Raises unless a method was called on what it is for.  To be called by a
-- function of the method.
function check.self(ok, name, expected, value)
  if not ok then
    error(("calling '%s' on bad self (%s expected, got %s)"):format(name,
      expected, type(value)), 4)
  end
end

--- Raises unless each of the options is known, and of the type it should be.
function check.options(opts, known, n, name)
  local unknown = check.unknown(opts, known)
  if unknown then fail(n, name, ("unknown option '%s'"):format(unknown)) end
  for option, expected in pairs(known) do
    local value = opts[option]
    if value ~= nil and type(value) ~= expected then
      fail(n, name, ("option '%s' is not a %s"):format(option, expected))
    end
  end
end

--- The name of a field that a table has and a known one has not, or nil.
function check.unknown(fields, known)
  for name in pairs(fields) do
    if known[name] == nil then
      return type(name) == "string" and name or ("(a %s)"):format(type(name))
    end
  end
end

return check

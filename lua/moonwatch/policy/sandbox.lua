--- The environment and the budget of policy files.
-- SPDX-License-Identifier: MIT
--
-- The core counts VM instructions and bytes.  A library function can work long
-- in one instruction without asking for memory (a pattern that backtracks, a
-- move of a million elements); the functions here charge the budget before such
-- work.

local private = require "moonwatch.core".private

local charge, limited = private.charge, private.limited

-- Strings have other methods while a policy runs.
local gmatch, sub = string.gmatch, string.sub

local sandbox = {
  -- the budgets of loading a file, and of each call of one of its functions
  loading = { instructions = 1000000, bytes = 16 * 1024 * 1024 },
  calling = { instructions = 1000000, bytes = 1024 * 1024 },
}

local STEPS = 8 -- of a C function for one instruction

local function copy(library, names)
  local result = {}
  for name in gmatch(names, "%S+") do result[name] = library[name] end
  return result
end

local function number(value) return tonumber(value) or 0 end

-- {======================================================
-- Strings
-- =======================================================

-- Returns a function that charges for the length of its strings.
local function charging(f)
  return function(...)
    local length = 0
    for i = 1, select("#", ...) do
      local value = select(i, ...)
      if type(value) == "string" then length = length + #value end
    end
    charge(length / STEPS)
    return f(...)
  end
end

-- Returns the number of steps that matching may take.  Each item that can match
-- more or less (or the start, if the pattern has no anchor) divides the rest of
-- the subject; n such items can divide the subject in as many ways as n things
-- can be put between its bytes.  A set is searched at each step.
local function pattern_cost(subject, pattern)
  charge(#pattern / STEPS)
  local ways, n = 1, sub(pattern, 1, 1) == "^" and 0 or 1
  for _ in gmatch(pattern, "[%*%+%-]") do n = n + 1 end
  for _ in gmatch(pattern, "%%[b%d]") do n = n + 1 end
  for _ in gmatch(pattern, "%?") do ways = ways * 2 end
  for i = 1, n do ways = ways * (#subject + i) / i end
  return ways * (1 + #pattern / 32) / STEPS
end

local function charge_pattern(subject, pattern)
  charge(pattern_cost(tostring(subject), tostring(pattern)))
end

-- The functions that the program has added to its strings are there as well,
-- because the program's own functions may be called meanwhile.
local function new_strings()
  local strings = {}
  for name, f in pairs(string) do strings[name] = charging(f) end
  strings.dump = nil
  for _, name in ipairs { "match", "gsub" } do
    local original = string[name]
    strings[name] = function(subject, pattern, ...)
      charge_pattern(subject, pattern)
      return original(subject, pattern, ...)
    end
  end
  function strings.find(subject, pattern, start, plain)
    if plain then
      charge((#tostring(subject) + 1) * (#tostring(pattern) + 1) / STEPS)
    else
      charge_pattern(subject, pattern)
    end
    return string.find(subject, pattern, start, plain)
  end
  -- each step may cost as much as all steps
  function strings.gmatch(subject, pattern, ...)
    local step = string.gmatch(subject, pattern, ...)
    return function()
      charge_pattern(subject, pattern)
      return step()
    end
  end
  -- the empty string costs as well, if repeated a billion times
  function strings.rep(s, n, separator)
    charge(math.max(number(n), 0) *
      (#tostring(s) + #tostring(separator or "") + 1) / STEPS)
    return string.rep(s, n, separator)
  end
  for _, name in ipairs { "byte", "char", "len", "sub" } do
    strings[name] = string[name] -- no longer than their results
  end
  return strings
end

-- }======================================================

-- {======================================================
-- Tables
-- =======================================================

-- Returns the length of a table.  A computed length is refused, because the
-- next call might return another one.
local function length(t)
  if type(t) ~= "table" then return 0 end
  local mt = private.metatable(t)
  if mt and rawget(mt, "__len") ~= nil then
    error("a policy may not do this with a table that has a __len", 3)
  end
  return #t
end

-- Charges for a range of indices, which ends at the length if `last` is nil.
local function charge_range(t, first, last)
  local n = length(t)
  charge(math.max(0, number(last or n) - number(first) + 1))
end

local function new_tables()
  local tables = { pack = table.pack }
  function tables.concat(t, separator, i, j)
    charge_range(t, i or 1, j)
    return table.concat(t, separator, i, j)
  end
  function tables.unpack(t, i, j)
    charge_range(t, i or 1, j)
    return table.unpack(t, i, j)
  end
  function tables.move(a, f, e, ...)
    charge_range(a, f, e)
    return table.move(a, f, e, ...)
  end
  function tables.insert(t, ...)
    charge_range(t, select("#", ...) > 1 and ... or length(t))
    return table.insert(t, ...)
  end
  function tables.remove(t, ...)
    charge_range(t, ... or length(t))
    return table.remove(t, ...)
  end
  -- strings are compared byte by byte
  function tables.sort(t, less)
    local n, bytes = length(t), 0
    for i = 1, n do
      local value = rawget(t, i)
      if type(value) == "string" then bytes = bytes + #value end
    end
    charge((n + bytes / STEPS) * math.log(n + 2, 2))
    return table.sort(t, less)
  end
  return tables
end

-- }======================================================

-- {======================================================
-- The environment
-- =======================================================

-- Only the policy's own coroutines can be resumed or closed.  A coroutine that
-- the hook has ended runs without the hook from then on, so its pending closers
-- stay open.
local function new_coroutines()
  local coroutines = { yield = coroutine.yield }
  local own = setmetatable({}, { __mode = "k" })

  local function results(ok, ...)
    if not ok then error(..., 0) end
    return ...
  end

  function coroutines.create(f)
    local co = coroutine.create(f)
    own[co] = true
    return co
  end
  function coroutines.wrap(f)
    local co = coroutines.create(f)
    return function(...) return results(coroutine.resume(co, ...)) end
  end
  function coroutines.close(co)
    if coroutine.status(co) == "dead" then return true end
    return coroutine.close(co)
  end
  for _, name in ipairs { "resume", "status" } do
    coroutines[name] = coroutine[name]
  end
  for _, name in ipairs { "resume", "status", "close" } do
    local original = coroutines[name]
    coroutines[name] = function(co, ...)
      if not own[co] then error("not a coroutine of this policy", 2) end
      return original(co, ...)
    end
  end
  function coroutines.running()
    local co = coroutine.running()
    return own[co] and co or nil, not own[co]
  end
  function coroutines.isyieldable()
    return own[coroutine.running()] or false
  end
  return coroutines
end

local function handled(handler, ok, ...)
  if ok then return true, ... end
  return false, handler(...)
end

-- A handler would run without the hook after the hook has raised, so the
-- handler runs after pcall.
local function protected_call(f, handler, ...)
  return handled(handler, pcall(f, ...))
end

-- No budget counts while finalisers and closers run.
local function set_metatable(t, mt)
  for _, name in ipairs { "__gc", "__close", "__mode" } do
    if type(mt) == "table" and rawget(mt, name) ~= nil then
      error(("a policy may not set '%s'"):format(name), 2)
    end
  end
  return setmetatable(t, mt)
end

-- The metatable of strings belongs to the whole program.
local function get_metatable(value)
  if type(value) == "string" then return false end
  return getmetatable(value)
end

local function new_world(more)
  local world = copy(_G,
    "assert error ipairs next pairs pcall print rawequal rawget rawlen " ..
    "rawset select tostring type _VERSION")
  world.tonumber = charging(tonumber)
  world.string, world.table = new_strings(), new_tables()
  world.coroutine, world.xpcall = new_coroutines(), protected_call
  world.math = copy(math,
    "abs acos asin atan ceil cos deg exp floor fmod huge log max maxinteger " ..
    "min mininteger modf pi rad sin sqrt tan tointeger type ult")
  world.utf8 = { char = utf8.char, charpattern = utf8.charpattern }
  for _, name in ipairs { "codepoint", "codes", "len", "offset" } do
    world.utf8[name] = charging(utf8[name])
  end
  world.os = copy(os, "clock date difftime time")
  world.getmetatable, world.setmetatable = get_metatable, set_metatable
  world._G = world
  for name, value in pairs(more or {}) do world[name] = value end
  return world
end

-- }======================================================

-- Returns a copy of a value in which tables are plain, down to some depth.
local function plain(value, depth)
  if type(value) ~= "table" or depth == 0 then return value end
  local result = {}
  for key, field in next, value do result[key] = plain(field, depth - 1) end
  return result
end

local DEPTH = 4 -- of tables in a policy

--- Runs a file.  Returns its result and the methods of strings for its
-- functions; or nil and a message.
function sandbox.run(path, more)
  local world = new_world(more)
  local chunk, message = loadfile(path, "t", world)
  if not chunk then return nil, message end
  local budget = sandbox.loading
  local ok, result = limited(world.string, budget.instructions, budget.bytes,
    function() return plain(chunk(), DEPTH) end)
  if ok and result == nil then return nil, path .. ": returns nothing" end
  if ok then return result, world.string end
  if type(result) ~= "string" then
    result = ("%s: (error object is a %s value)"):format(path, type(result))
  end
  return nil, result
end

--- Calls a function of such a file.  Returns what pcall returns.
function sandbox.call(strings, ...)
  local budget = sandbox.calling
  return limited(strings, budget.instructions, budget.bytes, ...)
end

return sandbox

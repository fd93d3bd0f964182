--- The ctx of a rule: what the library tells rules about objects.
-- SPDX-License-Identifier: MIT
--
-- Rules of a program's own table get the library's objects.  Rules of a file
-- get read-only views of them, which cost such a rule little more.

local marks = require "moonwatch.marks"
local object_class = require "moonwatch.policy.object_class"
local core = require "moonwatch.core"
local private = core.private

local meant, view = private.meant, private.view
local metatable, raw = private.metatable, private.raw
local is_ours = private.is_ours
local lookup = object_class.lookup

local function metamethod(obj, name)
  local mt = metatable(obj)
  return mt and rawget(mt, name)
end

-- Is a class marked, or the metatable for which it stands?
local function is_marked(class)
  return marks.is_marked(class) or
    marks.is_marked(object_class.metatable(class))
end

-- Do both mean the same object?
local function is(a, b) return rawequal(meant(a), meant(b)) end

local of_program = {
  class = object_class.of, raw = raw, lookup = lookup, is_marked = is_marked,
  clock = core.clock(), metamethod = metamethod, is = is,
}

local clock = core.clock()

-- What stands for the default clock.
local reader = {
  now = function() return clock:now() end,
  generation = function(_, obj) return clock:generation(meant(obj)) end,
  is_current = function(_, obj) return clock:is_current(meant(obj)) end,
  since = function(_, n) return clock:since(n) end,
}

for _, name in ipairs { "advance", "tag", "reset" } do
  reader[name] = function()
    error(("'%s' would change a clock, which is read-only here"):format(name),
      2)
  end
end

local of_file = {
  class = function(obj) return view(object_class.of(meant(obj))) end,
  raw = function(t)
    if type(t) ~= "table" then return raw(t) end
    local contents = raw(meant(t))
    return rawequal(contents, t) and t or view(contents)
  end,
  lookup = function(obj, key)
    local value = lookup(meant(obj), key)
    return is_ours(obj) and view(value) or value
  end,
  is_marked = function(class) return is_marked(meant(class)) end,
  clock = view(reader, clock),
  metamethod = function(obj, name)
    return view(metamethod(meant(obj), name))
  end,
  is = is,
}

local ctx = {}

--- Tells the rules whether a hierarchy has hooks.
function ctx.set_global_hooks(on)
  of_program.global_hooks, of_file.global_hooks = on or nil, on or nil
end

local PROGRAM = { __index = of_program, __metatable = false }
local FILE = { __index = of_file, __metatable = false }

local NONE = {}

--- Returns the ctx for the rules of a program, or of a file: the fields of the
-- caller's ctx, then the library's.
function ctx.new(given, entries, is_file)
  local its = { entries = entries }
  for key, value in next, raw(given or NONE) do its[key] = value end
  if not given or not metatable(given) then
    return setmetatable(its, is_file and FILE or PROGRAM)
  end
  local base = is_file and of_file or of_program
  return setmetatable(its, { __metatable = false, __index = function(_, key)
    local value = given[key]
    if value == nil then value = base[key] end
    return value
  end })
end

--- Returns the names in a list, for rules: a copy, or a view for a file.
function ctx.entries(list, is_file)
  return is_file and view(list) or { table.unpack(list) }
end

return ctx

--- mw.sandbox: boxes that guard against mistakes, and what code in them has.
-- SPDX-License-Identifier: MIT
--
-- A box has Lua's functions but for those that reach out of it (io, load,
-- require, debug...), in tables of its own.  Functions that must know of the
-- budget, of views or of watched objects are the core's.

local check = require "moonwatch.check"
local private = require("moonwatch.core").private

local raw = private.raw

local sandbox = {}

local BASE = "assert error getmetatable ipairs next pairs pcall print " ..
  "rawequal rawget rawlen rawset select setmetatable tonumber tostring type " ..
  "xpcall _VERSION"

local LIBRARIES = {
  coroutine = "close create isyieldable resume running status wrap yield",
  math = "abs acos asin atan ceil cos deg exp floor fmod huge log max " ..
    "maxinteger min mininteger modf pi rad sin sqrt tan tointeger type ult",
  os = "clock date difftime time",
  string = "byte char find format gmatch gsub len lower match pack packsize " ..
    "rep reverse sub unpack upper",
  table = "concat insert move pack remove sort unpack",
  utf8 = "char charpattern codepoint codes len offset",
}

local ours = private.for_boxes
for name, f in pairs(private.raw_functions()) do ours[name] = f end

local OURS = { [""] = ours,
  coroutine = { resume = ours.resume, wrap = ours.wrap },
  table = { insert = private.moving(table.insert, 3),
    remove = private.moving(table.remove, 2) } }

-- Gives `its` what a box has of the table `lua` of the program; `twins` gets
-- the box's function for each of these.
local function copy(its, lua, library, names, twins)
  local replaced = OURS[library] or {}
  for name in names:gmatch "%S+" do
    local value = rawget(raw(lua), name)
    its[name] = value ~= nil and replaced[name] or value
    if value ~= nil then twins[value] = its[name] end
  end
end

-- Returns the globals of a new box: what a box has of Lua, and the fields of
-- `env`, where the box's own functions and libraries stand for Lua's.
local function globals(env)
  local its, twins = {}, {}
  copy(its, _G, "", BASE, twins)
  for library, names in pairs(LIBRARIES) do
    local lua = rawget(raw(_G), library)
    if type(lua) == "table" then
      its[library] = {}
      copy(its[library], lua, library, names, twins)
      twins[lua] = its[library]
    end
  end
  its._G = its
  for key, value in pairs(env or {}) do
    local twin = type(value) ~= "number" and twins[value]
    its[key] = twin or value
  end
  return its
end

--- What a call may use if the program does not say.
sandbox.INSTRUCTIONS = 1000000
local BYTES = 16 * 1024 * 1024

--- Returns a box for a file of a policy.
function sandbox.for_policy(env)
  return private.new_box(globals(env), sandbox.INSTRUCTIONS, BYTES, nil, true)
end

local OPTIONS = { env = "table", instructions = "count", memory = "count",
  name = "string" }

--- Returns a box: see the manual.
function sandbox.sandbox(opts)
  opts = check.options(opts, OPTIONS, 1, "sandbox")
  for _, name in ipairs { "instructions", "memory" } do
    check.that(opts[name] ~= 0, 1, "sandbox",
      ("option '%s' is not a count"):format(name))
  end
  return private.new_box(globals(opts.env),
    opts.instructions or sandbox.INSTRUCTIONS, opts.memory or BYTES, opts.name,
    false)
end

return sandbox

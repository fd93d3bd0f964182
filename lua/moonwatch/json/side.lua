--- One of two documents that are compared: how its tables are read.
-- SPDX-License-Identifier: MIT
--
-- A side has the function that returns the contents of its tables, and the
-- numbers of its tables (see numbers.lua).

local core = require "moonwatch.core"
local json = require "moonwatch.json"

local raw, mark, plain = core.private.raw, json.mark, json.plain
local type, next, getmetatable = type, next, getmetatable

local Side = {}
Side.__index = Side

--- Returns the contents of a table, as a table without a class; its kind by one
-- key, "array", "object" or "either"; and whether its mark says the same.
function Side:open(t)
  local held = t
  if getmetatable(t) ~= nil or self.of ~= raw then held = plain(self.of(t)) end
  local said, key = mark(t), next(held)
  if key == nil then return held, said or "either", true end
  local kind = type(key) == "string" and "object" or "array"
  return held, kind, said == nil or said == kind
end

--- Returns a side whose tables have the contents that `of(t)` returns.
return function(of)
  return setmetatable({ of = of, numbers = {} }, Side)
end

--- What mw.check_replay says of the first write that differs.
-- SPDX-License-Identifier: MIT

local core = require "moonwatch.core"
local label = require "moonwatch.trace.label"
local literal = require "moonwatch.literal"
local new_ways = require "moonwatch.effects.ways"
local text = require "moonwatch.recorder.text"

local raw = core.private.raw

local report = {}

-- The state as it is now, for ways.lua.
local now = { ends = {}, list = {}, changed = {} }
function now.get(_, t, key) return rawget(raw(t), key) end
function now.contents(_, t) return raw(t) end

-- Returns a function from an object to the way to it, as things are now: an
-- array of keys, or nil.
local function ways_of(root)
  local its = new_ways({ root = root }, now, true)
  return function(object)
    local way = its:of(object)
    return way and table.move(way, 1, #way, 1, {})
  end
end

-- Returns the name of an object: the way to it, or what people call it.
local function name_of(object, way)
  if not way then return label.of(object) or "a " .. type(object) end
  local parts = { "root" }
  for i, key in ipairs(way) do
    parts[i + 1] = literal.of(key) and literal.field(key) or
      "[" .. type(key) .. "]"
  end
  return table.concat(parts)
end

-- Returns the text of a write and its causes, or of nil.
local function lines_of(write, way_to)
  local chain = {}
  while write do
    chain[#chain + 1], write = write, write.because
  end
  if not chain[1] then return "no write" end
  return (text.of(chain, function(object, is_value)
    return name_of(object, way_to(object, is_value))
  end):gsub("\n", "%0          "))
end

-- Returns the cause of a write, with its own, as programs get it; or nil.
local function cause_of(write, way_to, matching)
  local its = write.because
  return its and {
    object = matching:first(its.object), key = matching:first(its.key),
    path = way_to(its.object), old = its.old, new = its.new, where = its.where,
    because = cause_of(its, way_to, matching),
  }
end

--- Returns a function that makes the report of two writes, of which one may be
-- nil.  `prepare` is called while the root is as before both passes, the
-- function while it is as after the first one.
function report.prepare(root, matching, frame, first, second)
  local before, known = ways_of(root), {}
  for _, write in pairs { a = first, b = second } do
    while write do
      for _, name in ipairs { "object", "key", "old", "new" } do
        local value = write[name]
        if value ~= nil and not literal.of(value) then
          value = matching:first(value)
          known[value] = matching:way(value, before)
        end
      end
      write = write.because
    end
  end
  return function()
    local after, write = ways_of(root), first or second
    local function way_to(object, is_value)
      object = matching:first(object)
      return is_value and known[object] or after(object) or known[object]
    end
    local said = ("frame %d: the first write that differs\n  first:  %s\n" ..
      "  second: %s"):format(frame, lines_of(first, way_to),
      lines_of(second, way_to))
    local self = {
      frame = frame, object = matching:first(write.object),
      key = matching:first(write.key), path = way_to(write.object),
      where = write.where, second_where = second and second.where,
      because = cause_of(write, way_to, matching),
    }
    if first then self.first = first.new end
    if second then self.second = second.new end
    return setmetatable(self, { __tostring = function() return said end })
  end
end

return report

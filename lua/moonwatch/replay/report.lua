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
    parts[i + 1] = literal.write[type(key)] and literal.field(key) or
      "[" .. type(key) .. "]"
  end
  return table.concat(parts)
end

-- Returns the text of a write and its causes, or of nil.
local function lines_of(write, ways)
  local chain = {}
  while write do
    chain[#chain + 1], write = write, write.because
  end
  if not chain[1] then return "no write" end
  return (text.of(chain, function(object, is_value)
    local way = is_value and ways.before(object) or ways.after(object)
    return name_of(object, way or ways.before(object))
  end):gsub("\n", "%0          "))
end

-- Returns the cause of a write, with its own, as programs get it; or nil.
local function cause_of(write, ways, matching)
  local its = write.because
  if not its then return nil end
  return {
    object = matching:first(its.object), key = matching:first(its.key),
    path = ways.after(its.object) or ways.before(its.object),
    old = its.old, new = its.new, where = its.where,
    because = cause_of(its, ways, matching),
  }
end

local function new(frame, first, second, ways, matching)
  local write = first or second
  local said = ("frame %d: the first write that differs\n  first:  %s\n" ..
    "  second: %s"):format(frame, lines_of(first, ways),
    lines_of(second, ways))
  local self = {
    frame = frame, object = matching:first(write.object),
    key = matching:first(write.key),
    path = ways.after(write.object) or ways.before(write.object),
    where = write.where, second_where = second and second.where,
    because = cause_of(write, ways, matching),
  }
  if first then self.first = first.new end
  if second then self.second = second.new end
  return setmetatable(self, { __tostring = function() return said end })
end

-- Returns object -> the way to it now, for the objects of the writes.
local function ways_before(root, matching, writes)
  local way_of, known = ways_of(root), {}
  for _, write in ipairs(writes) do
    for _, name in ipairs { "object", "key", "old", "new" } do
      local value = write[name]
      if value ~= nil and not literal.write[type(value)] then
        value = matching:first(value)
        known[value] = matching:way(value, way_of)
      end
    end
  end
  return known
end

--- Returns a function that makes the report of two writes, of which one may be
-- nil.  `prepare` is called while the root is as before both passes, the
-- function while it is as after the first one.
function report.prepare(root, matching, frame, first, second)
  local writes = {}
  for _, write in pairs { a = first, b = second } do
    while write do
      writes[#writes + 1], write = write, write.because
    end
  end
  local known = ways_before(root, matching, writes)
  return function()
    local way_of = ways_of(root)
    return new(frame, first, second, {
      before = function(object) return known[matching:first(object)] end,
      after = function(object) return way_of(matching:first(object)) end,
    }, matching)
  end
end

return report

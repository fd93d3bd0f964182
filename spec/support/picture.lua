--- Returns all that can be reached from a value as text.  Tables are numbered
-- in the order of the search, so the text shows identity and cycles.

local raw_of = require "spec.support.raw_of"
local metatable = require("moonwatch.core").private.metatable

local function before(a, b)
  return type(a) .. tostring(a) < type(b) .. tostring(b)
end

-- Returns the keys of a table in order; tables as keys come last, in no order.
local function sorted_keys(t)
  local keys = {}
  for key in next, t do keys[#keys + 1] = key end
  table.sort(keys, before)
  return keys
end

local Painter = {}
Painter.__index = Painter

-- New tables wait in `queue`, so that depth does not matter.
function Painter:name(value)
  if type(value) ~= "table" then
    return ("%s %s"):format(math.type(value) or type(value), tostring(value))
  end
  if not self.numbers[value] then
    self.queue[#self.queue + 1] = value
    self.numbers[value] = #self.queue
  end
  return "#" .. self.numbers[value]
end

function Painter:paint(t, i)
  local held = raw_of(t)
  for _, key in ipairs(sorted_keys(held)) do
    self.lines[#self.lines + 1] = ("%d[%s] = %s"):format(i, self:name(key),
      self:name(held[key]))
  end
  self.lines[#self.lines + 1] = ("%d is a %s"):format(i,
    self:name(metatable(t)))
end

return function(root)
  local self = setmetatable({ numbers = {}, queue = {}, lines = {} }, Painter)
  self.lines[1] = self:name(root)
  local i = 1
  while self.queue[i] do
    self:paint(self.queue[i], i)
    i = i + 1
  end
  return table.concat(self.lines, "\n")
end

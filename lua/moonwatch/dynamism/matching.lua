--- Does an example match the places of a specialisation (see infer.lua)?
-- SPDX-License-Identifier: MIT
--
-- The code is text, because the source that `spec:to_lua` makes contains it,
-- too: `match(places, shape, null, open)` returns a function from an example to
-- true, or false and the number of the first place that differs.  The example's
-- classes may raise when they are asked; then a field cannot be read, and is
-- like no value.

local matching = {}

--- The source of `match`.
matching.source = [==[
local getmetatable, math_type, next = getmetatable, math.type, next
local pairs, pcall, rawequal, type = pairs, pcall, rawequal, type

local function try(f, ...)
  local ok, result = pcall(f, ...)
  if not ok and result == "not enough memory" then error(result, 0) end
  return ok, result
end

local function index(t, key) return t[key] end

-- As the source of a guard compares.
local function has_length(t, low, high)
  local n = #t
  if low == high then return n == low end
  return n >= low and n <= high
end

local function gather(t)
  local held = {}
  for key, value in pairs(t) do held[key] = value end
  return held
end

-- Returns the fields of a value; no fields if they cannot be read.
local function contents(value)
  if type(value) == "table" and getmetatable(value) == nil then return value end
  local ok, held = try(gather, value)
  return ok and held or {}
end

local function read(t, key)
  if getmetatable(t) == nil then return true, t[key] end
  return try(index, t, key)
end

-- Returns the sizes in a list, or nil if the value is no such list.
local function sizes_in(list)
  if type(list) ~= "table" then return nil end
  list = contents(list)
  local n = 0
  for key, size in next, list do
    n = n + 1
    if math_type(key) ~= "integer" or not math_type(size) then return nil end
  end
  for i = 1, n do if list[i] == nil then return nil end end
  return list
end

local fits

local function has_shape(limits, sizes)
  if not limits.ranks[#sizes] then return false end
  for i = 1, #sizes do
    local size = sizes[i]
    if not fits(limits.dims[i], size, math_type(size)) then return false end
  end
  return true
end

-- Is a value of this kind within the limits of a place?
function fits(place, value, kind, sizes)
  if place.any then return true end
  local limits = place.kinds[kind]
  if not limits then return false end
  if limits.only ~= nil then
    return value == limits.only or
      value ~= value and limits.only ~= limits.only
  end
  if math_type(value) then
    if value ~= value then return limits.nan or limits.min == nil end
    return limits.min == nil or value >= limits.min and value <= limits.max
  end
  if kind == "shaped" then return has_shape(limits, sizes) end
  if limits.length then
    local ok, has = try(has_length, value, limits.length.min, limits.length.max)
    return ok and has
  end
  return true
end

local function find_other(known, value)
  for key in pairs(value) do
    if not known[key] then return true end
  end
  return false
end

-- An unknown field counts if it is found before the class raises.
local function has_others(known, value)
  local ok, found = try(find_other, known, value)
  return ok and found
end

local function match(places, shape, null, open)
  local function sizes_of(value)
    local ok, list
    if shape then
      ok, list = try(shape, value)
    elseif type(value) == "table" then
      ok, list = read(value, "shape")
    else
      ok, list = try(index, value, "shape")
    end
    return ok and sizes_in(list) or nil
  end

  local function kind_of(place, value)
    if null ~= nil and rawequal(value, null) then return "null" end
    local kind = math_type(value) or type(value)
    if place.kinds.shaped and (kind == "table" or kind == "userdata") then
      local sizes = sizes_of(value)
      if sizes then return "shaped", sizes end
    end
    return kind
  end

  return function(example)
    local found = {}
    for i = 1, #places do
      local place = places[i]
      local above, ok, value = place.above, true, example
      if above then
        above = found[above]
        if above ~= nil then ok, value = read(above, place.key) end
      end
      if above ~= nil or not place.above then
        if not ok then
          if not place.any then return false, i end
        elseif value ~= nil or not place.optional then
          if open then value = open(value) end
          local kind, sizes = kind_of(place, value)
          if not fits(place, value, kind, sizes) then return false, i end
          if kind == "table" then
            if place.known and has_others(place.known, value) then
              return false, i
            end
            found[i] = value
          end
        end
      end
    end
    return true
  end
end
]==]

--- The function `match`.
matching.match = assert(load(matching.source .. "return match",
  "=moonwatch.dynamism.matching"))()

return matching

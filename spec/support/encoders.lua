-- Printers as programs have them, each reduced to how it looks at tables.  The
-- globals are those of the environment in which the file is loaded.

local encoders = {}

-- Like json.lua: an array is told by `rawget` and `next`.
function encoders.json(value)
  if type(value) == "string" then return ("%q"):format(value) end
  if type(value) ~= "table" then return tostring(value) end
  local parts = {}
  if rawget(value, 1) ~= nil or next(value) == nil then
    local n = 0
    for key in pairs(value) do
      if type(key) ~= "number" then error("an array has the key " .. key) end
      n = n + 1
    end
    if n ~= #value then error "a sparse array" end
    for i, item in ipairs(value) do parts[i] = encoders.json(item) end
    return "[" .. table.concat(parts, ",") .. "]"
  end
  for key, item in pairs(value) do
    parts[#parts + 1] = ("%q:%s"):format(key, encoders.json(item))
  end
  table.sort(parts)
  return "{" .. table.concat(parts, ",") .. "}"
end

-- Like serpent: source text; a class may say how its objects are written.
function encoders.serpent(value, seen)
  seen = seen or {}
  local kind = type(value)
  if kind == "string" then return ("%q"):format(value) end
  if kind ~= "table" then return tostring(value) end
  local mt = getmetatable(value)
  if type(mt) == "table" and rawget(mt, "__tostring") then
    return ("%q"):format(tostring(value))
  end
  if seen[value] then return "nil --[[ref]]" end
  seen[value] = true
  local parts = {}
  for i = 1, #value do parts[i] = encoders.serpent(value[i], seen) end
  local rest = {}
  for key, item in pairs(value) do
    if not (math.type(key) == "integer" and key >= 1 and key <= #value) then
      rest[#rest + 1] = ("[%s] = %s"):format(encoders.serpent(key, seen),
        encoders.serpent(item, seen))
    end
  end
  table.sort(rest)
  table.move(rest, 1, #rest, #parts + 1, parts)
  return "{" .. table.concat(parts, ", ") .. "}"
end

-- Like inspect: never calls a metamethod, numbers tables that come twice, and
-- shows metatables.
function encoders.inspect(root)
  local ids, n = {}, 0
  local function name(value)
    if type(value) ~= "table" then return ("%q"):format(tostring(value)) end
    if ids[value] then return "<table " .. ids[value] .. ">" end
    n = n + 1
    ids[value] = n
    local length = 0
    while rawget(value, length + 1) ~= nil do length = length + 1 end
    local parts = {}
    for i = 1, length do parts[i] = name(rawget(value, i)) end
    local keys = {}
    for key in next, value do
      if not (math.type(key) == "integer" and key >= 1 and key <= length) then
        keys[#keys + 1] = key
      end
    end
    table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
    for _, key in ipairs(keys) do
      parts[#parts + 1] = name(key) .. " = " .. name(rawget(value, key))
    end
    local mt = getmetatable(value)
    if type(mt) == "table" then
      parts[#parts + 1] = "<metatable> = " .. name(mt)
    end
    return "{" .. table.concat(parts, ", ") .. "}"
  end
  return name(root)
end

return encoders

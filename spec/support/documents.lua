-- Random JSON documents, and variations of documents, for specs.

local mw = require "moonwatch"

local documents = {}

local random = math.random

local SCALARS = { true, false, mw.null, 0, 1, 1.5, "", "a", "b", "0", "-" }
local KEYS = { "a", "b", "c", "0", "1", "-", "", "a/b", "m~n" }

local function scalar() return SCALARS[random(#SCALARS)] end

local function array(depth)
  local t = {}
  for i = 1, random(0, 5) do t[i] = documents.value(depth - 1) end
  return random(3) > 1 and mw.array(t) or t
end

local function object(depth)
  local t = {}
  for _ = 1, random(0, 4) do
    t[KEYS[random(#KEYS)]] = documents.value(depth - 1)
  end
  return random(3) > 1 and mw.object_like(t) or t
end

-- Returns a random value; at most `depth` tables are around a leaf.
function documents.value(depth)
  if depth == 0 or random(4) == 1 then return scalar() end
  return random(2) == 1 and array(depth) or object(depth)
end

local function edit_array(t, depth)
  for _ = 1, random(0, 3) do
    local at = random(#t + 1)
    if random(2) == 1 then
      table.insert(t, at, documents.value(depth - 1))
    elseif t[at] ~= nil then
      table.remove(t, at)
    end
  end
  for i = 1, #t do
    if random(3) == 1 then t[i] = documents.edited(t[i], depth - 1) end
  end
end

local function edit_object(t, depth)
  for _ = 1, random(0, 3) do
    local key = KEYS[random(#KEYS)]
    t[key] = random(2) == 1 and documents.value(depth - 1) or nil
  end
  for _, key in ipairs(KEYS) do
    if t[key] ~= nil and random(3) == 1 then
      t[key] = documents.edited(t[key], depth - 1)
    end
  end
end

-- Puts tables of a document into more places of it.  Returns the document.
function documents.share(root)
  local tables, seen = { root }, { [root] = true }
  local i = 1
  while tables[i] do
    for _, value in next, tables[i] do
      if type(value) == "table" and not seen[value] then
        seen[value] = true
        tables[#tables + 1] = value
      end
    end
    i = i + 1
  end
  for _ = 1, random(3) do -- a later table is never around an earlier one
    local from = random(#tables)
    local t, key = tables[from], nil
    local other = tables[random(from, #tables)]
    for k, value in next, t do
      if type(value) ~= "table" and random(2) == 1 then key = k end
    end
    if key ~= nil and other ~= t then t[key] = other end
  end
  return root
end

-- Changes some parts of a value.  Returns the value, or another one in its
-- place.
function documents.edited(value, depth)
  if type(value) ~= "table" or depth <= 0 or random(8) == 1 then
    return documents.value(math.max(depth, 0))
  end
  if #value > 0 then
    edit_array(value, depth)
  elseif next(value) then
    edit_object(value, depth)
  end
  return value
end

return documents

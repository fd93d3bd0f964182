--- Says who wrote a field of a script: a global, or a field below globals.
-- SPDX-License-Identifier: MIT

local mw = require "moonwatch"
local path = require "moonwatch.path"
local text = require "moonwatch.recorder.text"

local G = _G -- the script may take the global away
local see = {} -- Lua's raw functions, which know watched objects
mw.see_through(see)

local why = {}

-- Returns the keys by which Lua indexes `L` in a text; nil if the text does
-- anything else.
local function keys_in(name)
  local keys, L = {}, {}
  local read = mw.normalize_name(name)
  local shape = read:gsub("\\.", ""):gsub("(['\"]).-%1", "0")
  if shape:gsub("%[[%w.+-]+%]", "") ~= "L" then return nil end
  setmetatable(L, { __index = function(_, key)
    if key == nil then error "no key" end
    keys[#keys + 1] = key
    return L
  end })
  local chunk = load("local L = ... return " .. read, "=field", "t", {})
  return chunk and pcall(chunk, L) and keys or nil
end

--- Returns the keys of a field that is written as in Lua, `game.list[1].hp`, as
-- an array; or nil and a message.
function why.keys(field)
  local name = field:gsub("^_G%f[.[]", "L")
  if name == field then name = "L." .. field end
  local keys = keys_in(name)
  if keys and keys[1] ~= nil then return keys end
  return nil, ("'%s' is no field, such as game.player.hp"):format(field)
end

-- Returns the first `n` keys as they are written in Lua.
local function text_of(keys, n)
  local parts = {}
  for i = 1, n do
    local key = keys[i]
    local is_word = type(key) == "string" and key:find "^[%a_][%w_]*$"
    parts[i] = is_word and (i > 1 and "." or "") .. key or
      (i > 1 and "" or "_G") .. path.step(key)
  end
  return table.concat(parts)
end

local function index(object, key) return object[key] end

-- Returns what a field holds, also one that the object inherits.
local function value_of(object, key)
  if type(object) == "table" then
    local value = see.rawget(object, key)
    if value ~= nil then return value end
  end
  local ok, value = pcall(index, object, key)
  if ok then return value end
end

-- Returns the objects on the way, as far as it leads, and the last value.
local function follow(keys)
  local objects, value = {}, G
  for i, key in ipairs(keys) do
    if type(value) ~= "table" and type(value) ~= "userdata" then break end
    objects[i] = value
    value = value_of(value, key)
  end
  return objects, value
end

-- Says that a field was not written, with what was last written above it.  Who
-- deleted a field is forgotten with the entry, so a full recorder knows no more
-- than its entries.
local function not_written(recorder, value, above)
  if value == nil and recorder:lost() > 0 then
    return (" was not written in the last %d writes%s"):format(recorder:len(),
      above and "; " .. above .. " was" or "")
  end
  return above and (" was not written since %s was"):format(above)
end

-- Returns what is to be said before the entry of the field with number `i`.
local function heading(recorder, keys, i, n, value)
  local name = text_of(keys, n)
  if n == #keys and i == n then return "" end
  if n < #keys then
    name = ("%s is %s"):format(name,
      value == nil and "nil" or "a " .. type(value))
  end
  if i == n then return name .. ":\n" end
  return ("%s%s%s:\n"):format(name, n < #keys and ", and" or "",
    not_written(recorder, value, text_of(keys, i)))
end

-- Returns what is to be said where no entry is.
local function nobody(recorder, keys, value)
  local name, hint = text_of(keys, #keys), "a global, or a field below globals"
  local its = not_written(recorder, value)
  if its then return ("'%s'%s (%s)"):format(name, its, hint) end
  return ("nobody wrote '%s' (%s)"):format(name, hint)
end

-- What is open is about to be taken back, with the script.
local function lose(chain)
  for _, e in ipairs(chain) do
    if e.open then e.open, e.rolled_back, e.transaction = nil, true, nil end
  end
end

--- Begins to record.  Returns a function that returns who wrote the field last,
-- or who wrote what is above it: a text, or nil and a message.  With
-- `is_lost`, what is open is about to be taken back.
function why.begin(keys)
  local recorder = mw.recorder { where = true, rolled_back = true }
  return function(is_lost)
    local objects, value = follow(keys)
    for i = #objects, 1, -1 do
      local entry = recorder:why(objects[i], keys[i])
      if entry then
        local chain = text.chain(entry)
        if is_lost then lose(chain) end
        return heading(recorder, keys, i, #objects, value) .. text.of(chain)
      end
    end
    return nil, nobody(recorder, keys, value)
  end
end

return why

-- Hostile bytes for spec/support/fuzz.c and the specs: the function raises if
-- mw.patch_bytes or mw.restore raises, or changes a world that it says is
-- unchanged.

local mw = require "moonwatch"
local picture = require "spec.support.picture"

local REMAINDERS = {}
for i = 0, 255 do
  local rest = i
  for _ = 1, 8 do rest = rest >> 1 ~ (rest & 1) * 0xEDB88320 end
  REMAINDERS[i] = rest
end

local function checksum(bytes)
  local sum = 0xFFFFFFFF
  for i = 1, #bytes do
    sum = sum >> 8 ~ REMAINDERS[(sum ~ bytes:byte(i)) & 255]
  end
  return sum ~ 0xFFFFFFFF
end

local function world()
  return {
    hero = { hp = 10, pos = { x = 1 } }, items = { "a", "b" }, list = {},
  }
end

-- The body of a snapshot, which begins with the number of objects.
local function with_header(rest)
  local body = rest:sub(2)
  rest = string.pack("<I8 I4", #body, rest:byte() or 0) .. body
  return string.pack("<c3 B I4", "MWS", 1, checksum(rest)) .. rest
end

local function restore(root, bytes)
  local anew, why = mw.restore(bytes)
  assert(anew or type(why) == "string")
  return mw.restore(bytes, { into = root })
end

--- The first byte of the input says what the rest is, and whether it needs a
-- header: 1, the body of effects; 2, that of a snapshot; 3, a snapshot; else
-- bytes of effects.
return function(input)
  local bytes, kind, call = input:sub(2), input:byte(), mw.patch_bytes
  if kind == 1 or kind == 2 then bytes = with_header(bytes) end
  if kind == 1 then bytes = "MWE\4" .. bytes end
  if kind == 2 or kind == 3 then call = restore end
  local root = world()
  local before = picture(root)
  local result, message = call(root, bytes)
  if result == nil then
    assert(type(message) == "string")
    assert(picture(root) == before)
  end
  return result
end

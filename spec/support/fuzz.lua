-- Hostile bytes for spec/support/fuzz.c and the specs: the function raises if
-- mw.patch_bytes or mw.restore raises, or changes a world that it says is
-- unchanged.

local mw = require "moonwatch"
local picture = require "spec.support.picture"

local checksum = require "moonwatch.core".private.checksum

local function world()
  return {
    hero = { hp = 10, pos = { x = 1 } }, items = { "a", "b" }, list = {},
  }
end

local function with_header(body)
  return string.pack("<c3 B I4 I4", "MWE", 2, #body, checksum(body)) .. body
end

-- The body of a snapshot, which begins with the number of objects.
local function with_snapshot_header(rest)
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
-- header: 1, bytes of effects; 2, the body of a snapshot; 3, a snapshot.
return function(input)
  local bytes, kind, call = input:sub(2), input:byte(), mw.patch_bytes
  if kind == 1 then bytes = with_header(bytes) end
  if kind == 2 then bytes = with_snapshot_header(bytes) end
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

-- Hostile bytes for spec/support/fuzz.c and the specs: the function raises if
-- mw.patch_bytes raises, or changes a world that it says is unchanged.

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

--- The first byte of the input says whether the rest needs a header.
return function(input)
  local bytes = input:sub(2)
  if input:byte() == 1 then bytes = with_header(bytes) end
  local root = world()
  local before = picture(root)
  local result, message = mw.patch_bytes(root, bytes)
  if result == nil then
    assert(type(message) == "string")
    assert(picture(root) == before)
  end
  return result
end

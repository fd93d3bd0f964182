--- Returns the name of a field, by which tables can find it, for the key and
-- the kind of an entry.  The class of an object, whose entries have no key, the
-- state of a userdata, and NaN have names, too.
-- SPDX-License-Identifier: MIT

local CLASS, STATE, NAN = {}, {}, {}

return function(key, kind)
  if kind == "call" then return STATE end
  if key == nil then return CLASS end
  return key == key and key or NAN
end

-- Checks that a call raises an error with this text, and that the error names
-- the line of the call.

local error_of = require "spec.support.error_of"

return function(text, f, ...)
  local args = table.pack(...)
  local message = error_of(function()
    f(table.unpack(args, 1, args.n))
  end)
  local line = debug.getinfo(1, "l").currentline - 2
  if not tostring(message):find("misuse.lua:" .. line .. ": ", 1, true) then
    error("not at the line of the call: " .. tostring(message), 2)
  end
  if not message:find(text, 1, true) then
    error(("'%s' is not in: %s"):format(text, message), 2)
  end
end

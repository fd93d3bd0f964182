--- Calls functions of the program whose errors must not disturb the program.
-- SPDX-License-Identifier: MIT

local handler = require("moonwatch.core").private.handler

local function tell(where, err)
  local on_error = handler()
  if on_error and pcall(on_error, err, where) then return end
  warn("error in ", where, " (", tostring(err), ")")
end

local function finish(where, ok, ...)
  if ok then return ... end
  tell(where, (...))
end

--- Calls `f(...)` and returns its results.  An error goes to `mw.on_error`, or
-- becomes a warning that names `where`; then the function returns nothing.
local function protect(where, f, ...)
  return finish(where, pcall(f, ...))
end

return protect

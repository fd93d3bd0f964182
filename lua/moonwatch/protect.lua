--- Calls what must not disturb the program that is only looked at.
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

--- Calls `f(...)` and answers its results; an error goes to `mw.on_error`, or
-- becomes a warning, and the answer is nothing.
local function protect(where, f, ...)
  return finish(where, pcall(f, ...))
end

return protect

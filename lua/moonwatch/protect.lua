--- Calls functions of the program whose errors must not disturb the program.
-- SPDX-License-Identifier: MIT

local private = require("moonwatch.core").private

local function finish(where, ok, ...)
  if ok then return ... end
  private.late_error((...), where)
end

--- Calls `f(...)` and returns its results.  An error goes to `mw.on_error`,
-- with `where`, or is raised by the library's next call; then the function
-- returns nothing.
local function protect(where, f, ...)
  return finish(where, pcall(f, ...))
end

return protect

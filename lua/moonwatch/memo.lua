--- mw.memo: results that are computed again only when they may have changed.
-- SPDX-License-Identifier: MIT

local core = require "moonwatch.core"

local Memo = {}
Memo.__index = Memo
Memo.__name = "memo"
Memo.__metatable = false

-- The guard is made valid before the function runs: if that writes to what it
-- depends on, the results are out of date at once.
function Memo:__call(...)
  if not self:valid() then
    self.guard:revalidate()
    self.results, self.stale = nil, false
    self.results = table.pack(self.fn(...))
  end
  return table.unpack(self.results, 1, self.results.n)
end

function Memo:valid()
  for _, watch in ipairs(self.watches) do
    if not watch:alive() then return false end -- nobody would tell
  end
  return self.results ~= nil and not self.stale and self.guard.valid
end

function Memo:invalidate()
  self.stale = true
end

--- Makes a callable with the results of `fn`, which are computed when they are
-- first asked for, and again after one of the other arguments was written to.
local function memo(fn, ...)
  if type(fn) ~= "function" then
    error(("bad argument #1 to 'memo' (function expected, got %s)"):format(
      type(fn)), 2)
  end
  local guard = core.guard()
  for i = 1, select("#", ...) do
    local dependency = select(i, ...)
    if type(dependency) ~= "table" then
      error(("bad argument #%d to 'memo' (table expected, got %s)"):format(
        i + 1, type(dependency)), 2)
    end
  end
  local watches = {}
  for i = 1, select("#", ...) do
    watches[i] = core.watch((select(i, ...)), guard, { once = false })
  end
  return setmetatable({ fn = fn, guard = guard, watches = watches }, Memo)
end

return memo

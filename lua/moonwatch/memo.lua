--- mw.memo: results that are computed again only when they may have changed.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local core = require "moonwatch.core"

local Memo, check_self = check.class "memo"

-- The guard becomes valid before the function runs.  If the function writes to
-- an object that it depends on, the results are out of date at once.
function Memo:__call(...)
  if not self:valid() then
    self.guard:revalidate()
    self.results, self.stale = nil, false
    self.results = table.pack(self.fn(...))
  end
  return table.unpack(self.results, 1, self.results.n)
end

function Memo:valid()
  check_self(self, "valid")
  for _, watch in ipairs(self.watches) do
    if not watch:alive() then return false end -- writes go unseen
  end
  return self.results ~= nil and not self.stale and self.guard.valid
end

function Memo:invalidate()
  check_self(self, "invalidate")
  self.stale = true
end

local function can_be_watched(obj)
  return type(obj) == "table" or
    type(obj) == "userdata" and core.private.metatable(obj) ~= nil
end

--- Returns a callable with the results of `fn`.  The callable computes the
-- results at the first call, and again after a write to one of the other
-- arguments.
local function memo(fn, ...)
  check.argument(type(fn) == "function", 1, "memo", "function", fn)
  local dependencies = table.pack(...)
  for i = 1, dependencies.n do
    check.argument(can_be_watched(dependencies[i]), i + 1, "memo",
      "table or userdata with a metatable", dependencies[i])
  end
  local guard = core.guard()
  local watches = {}
  for i, dependency in ipairs(dependencies) do
    watches[i] = core.watch(dependency, guard, { once = false })
  end
  return setmetatable({ fn = fn, guard = guard, watches = watches }, Memo)
end

return memo

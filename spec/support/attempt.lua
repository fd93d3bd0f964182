-- For the scenarios: checks, and calls that do all or nothing.

local attempt = {}

-- Raises without needing memory, for there may be none left.
function attempt.check(ok, what)
  if not ok then error(what or "the outcome is wrong", 0) end
end

local later, had_memory

local function allocate() return {} end

-- Calls f(...).  If that raises, nothing may have changed: the next run, which
-- has memory, begins with `is_unchanged(had_memory)`, which is told whether
-- there was memory again after the call: what was stored cannot be taken back
-- without.  A function that returns nil and a message fails as well.
function attempt.whole(is_unchanged, f, ...)
  later, had_memory = is_unchanged, false
  local ok, result, message = pcall(f, ...)
  if ok and (result ~= nil or message == nil) then
    later = nil
    return result
  end
  had_memory = pcall(allocate) -- raises where no function can be called
  error(ok and message or result, 0)
end

-- What every scenario with such calls begins with.
function attempt.look_back()
  local is_unchanged = later
  later = nil
  if not is_unchanged then return end
  collectgarbage() -- finds what nobody can end,
  collectgarbage()
  require "moonwatch".reap() -- and a call of the library ends it
  local line = debug.getinfo(is_unchanged, "S").linedefined
  attempt.check(is_unchanged(had_memory), "not unchanged: line " .. line)
end

return attempt

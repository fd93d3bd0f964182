-- Calls f(...) while a debug hook waits that raises once, after `n`
-- instructions: an error from outside, as that of a script which has used up
-- its time.  Returns whether the hook has raised, and what `pcall(f, ...)`
-- returns.
--
-- To interrupt a call at each of its instructions:
--
--     local n, fired = 0, nil
--     repeat
--       n = n + 1
--       local world = make()
--       fired = interrupted(n, act, world)
--       check(world)
--     until not fired

local function off(...)
  debug.sethook()
  return ...
end

return function(n, f, ...)
  local former, mask, count = debug.gethook()
  local fired = false
  local function raise()
    debug.sethook()
    fired = true
    error("interrupted", 0)
  end
  local function call(...)
    debug.sethook(raise, "", n)
    return off(f(...))
  end
  local result = table.pack(xpcall(call, off, ...))
  debug.sethook(former, mask, count)
  return fired, table.unpack(result, 1, result.n)
end

--- Tells people at a terminal how far long work is.
-- SPDX-License-Identifier: MIT

local SECONDS = 1 -- before the first line, and between two

local function is_terminal()
  return package.config:sub(1, 1) == "/" and os.execute "[ -t 2 ]" == true
end

--- Returns step(done), to be called after each of `n` parts of the work.
-- The other arguments are for tests.
return function(n, what, out, terminal, clock)
  out, terminal = out or io.stderr, terminal or is_terminal
  clock = clock or os.clock
  local last, shows = clock(), nil
  return function(done)
    local now = clock()
    if done < n and now - last >= SECONDS then
      last = now
      if shows == nil then shows = terminal() end
      if shows then out:write("\r", done, " of ", n, " ", what) end
    elseif done == n and shows then
      out:write "\r\27[K" -- clears the line
    end
  end
end

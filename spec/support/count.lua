-- An output handler for busted: prints the failures, then one line with the
-- counts.

return function(options)
  local busted = require "busted"
  local handler = require "busted.outputHandlers.base"()

  local function show(list, what)
    for _, entry in ipairs(list) do
      io.write(what, ": ", entry.name, "\n", tostring(entry.message), "\n")
      local trace = entry.trace and entry.trace.traceback
      if trace and options.verbose then io.write(trace, "\n") end
      local at = entry.trace and entry.trace.short_src
      if at then io.write("  ", at, ":", entry.trace.currentline or 0, "\n") end
    end
  end

  function handler.suiteEnd(suite)
    show(handler.failures, "failed")
    show(handler.errors, "error")
    local bad = #handler.failures + #handler.errors
    if bad > 0 and suite.randomseed then
      io.write("the order was that of --seed=", suite.randomseed, "\n")
    end
    io.write(handler.successesCount, " passed, ", bad, " failed")
    if handler.pendingsCount > 0 then
      io.write(", ", handler.pendingsCount, " skipped")
    end
    io.write "\n"
    return nil, true
  end

  busted.subscribe({ "suite", "end" }, handler.suiteEnd)
  return handler
end

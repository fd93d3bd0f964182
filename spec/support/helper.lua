-- busted loads this file before the specs.  It sets the collector's mode, and
-- turns Lua's warnings (of errors in finalisers, for example) into failures.

local busted = require "busted"

local build = os.getenv "BUILD" or "build"
package.cpath = build .. "/test/?.so;" .. package.cpath
local warnings = require("support").warnings

collectgarbage(os.getenv("MOONWATCH_GC") or "incremental")

busted.subscribe({ "test", "end" }, function(element, _, status)
  local texts = warnings()
  if #texts > 0 and status == "success" then
    busted.publish({ "failure", element.descriptor }, element, nil,
      "a warning nobody took: " .. table.concat(texts, "; "), {})
  end
  return nil, true
end)

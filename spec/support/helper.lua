-- busted loads this file before the specs.  It sets the collector's mode, and
-- turns Lua's warnings (of errors in finalisers, for example) into failures.
-- In the mode "often" a young collection runs every few instructions of a test,
-- so that a test or a function that depends on when collections happen fails
-- each time.
-- After each spec, a library that can check itself does.

local busted = require "busted"

local build = os.getenv "BUILD" or "build"
package.cpath = build .. "/test/?." .. (os.getenv "SO" or "so") .. ";" ..
  package.cpath
local warnings = require("support").warnings

local mode = os.getenv("MOONWATCH_GC") or "incremental"
local often = mode == "often"
collectgarbage(often and "generational" or mode)

local FEWEST, MOST = 10, 20
local every = FEWEST -- instructions

local function collect()
  every = every < MOST and every + 1 or FEWEST
  debug.sethook(collect, "", every)
  if collectgarbage "isrunning" then collectgarbage "step" end
end

if often then
  busted.subscribe({ "test", "start" }, function()
    debug.sethook(collect, "", every)
    return nil, true
  end)
  busted.subscribe({ "test", "end" }, function()
    debug.sethook()
    return nil, true
  end)
end

busted.subscribe({ "test", "end" }, function(element, _, status)
  local texts = warnings()
  if #texts > 0 and status == "success" then
    busted.publish({ "failure", element.descriptor }, element, nil,
      "a warning nobody took: " .. table.concat(texts, "; "), {})
  end
  return nil, true
end)

local function is_sound()
  local core = package.loaded["moonwatch.core"]
  if not core or not core.private.verify then return true end
  return pcall(core.private.verify)
end

busted.subscribe({ "test", "end" }, function(element, _, status)
  local sound, text = is_sound()
  if not sound and status == "success" then
    busted.publish({ "failure", element.descriptor }, element, nil,
      text:sub(1, 2000), {})
  end
  return nil, true
end)

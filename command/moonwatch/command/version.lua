--- moonwatch version: tells the version of the library.
-- SPDX-License-Identifier: MIT

local version = {
  summary = "Tell the version.",
  example = "   moonwatch version",
}

function version.define() end

function version.run()
  print("moonwatch " .. require "moonwatch".version)
  return 0
end

return version

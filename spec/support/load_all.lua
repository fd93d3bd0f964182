-- Loads all of the library: fields and methods are loaded when they are first
-- asked for, and `pairs` asks for all.

local mw = require "moonwatch"
local private = require("moonwatch.core").private

for _, t in ipairs { mw, private.effects_methods, (private.trace_methods()) } do
  for _ in pairs(t) do end
end
require "moonwatch.trace.label"

-- The table that `getmetatable` shows of every watched or tracked object that
-- has no metatable.

local mw = require "moonwatch"

return getmetatable(mw.track {})

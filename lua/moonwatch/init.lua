--- moonwatch: which object is this, which are new, and which have changed?
-- Most functions are those of the C core; see the README.
-- SPDX-License-Identifier: MIT

local mw = require "moonwatch.core"

mw.memo = require "moonwatch.memo"

return mw

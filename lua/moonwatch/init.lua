--- moonwatch: which object is this, and which objects are new?
-- The functions are those of the C core; see the README.
-- SPDX-License-Identifier: MIT

return require "moonwatch.core"

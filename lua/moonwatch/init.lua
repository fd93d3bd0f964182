--- moonwatch: which object is this, which are new, and which have changed?
-- Most functions are those of the C core; see the README.
-- SPDX-License-Identifier: MIT

local core = require "moonwatch.core"
local json = require "moonwatch.json"
local policy = require "moonwatch.policy"
local transaction = require "moonwatch.transaction"

-- These give effects their methods.
require "moonwatch.effects"
require "moonwatch.to_lua"
require "moonwatch.to_patch"

local mw = {}
for name, value in pairs(core) do mw[name] = value end
mw.private = nil

mw.memo = require "moonwatch.memo"
mw.array, mw.object_like = json.array, json.object_like
mw.patch = require "moonwatch.json_patch"
mw.diff = require("moonwatch.json_diff").diff
mw.instrument = require "moonwatch.instrument"
mw.begin = transaction.begin
mw.transaction = transaction.run
mw.patch_bytes = require "moonwatch.bytes"
mw.effects = require "moonwatch.pending"
mw.hierarchy = require "moonwatch.hierarchy"
mw.history = require "moonwatch.history"
mw.policy = policy.new
mw.load_policy = policy.load
mw.is_dynamic = policy.is_dynamic

return mw

--- moonwatch: which object is this, which are new, and which have changed?
-- Most functions are those of the C core; see the README.
-- SPDX-License-Identifier: MIT

local core = require "moonwatch.core"
local dynamism = require "moonwatch.dynamism"
local json = require "moonwatch.json"
local nested = require "moonwatch.nested"
local path = require "moonwatch.path"
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
mw.history = require "moonwatch.history"
mw.policy = policy.new
mw.load_policy = policy.load
mw.is_dynamic = policy.is_dynamic
mw.dynamism = dynamism.dynamism
mw.infer = require "moonwatch.infer"
mw.normalize_name = path.normalize_name
mw.skeleton = require "moonwatch.skeleton"
mw.to_nested = nested.to_nested

return mw

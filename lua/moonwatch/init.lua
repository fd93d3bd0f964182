--- moonwatch: which object is this, which are new, and which have changed?
-- Most functions are those of the C core; see the README.
-- SPDX-License-Identifier: MIT

local core = require "moonwatch.core"
local cleanup = require "moonwatch.cleanup"
local counters = require "moonwatch.counters"
local dynamism = require "moonwatch.dynamism.report"
local json = require "moonwatch.json"
local nested = require "moonwatch.dynamism.nested"
local path = require "moonwatch.path"
local policy = require "moonwatch.policy"
local times = require "moonwatch.times"
local transaction = require "moonwatch.transaction"

-- These give effects and traces their methods.
require "moonwatch.effects.recorded"
require "moonwatch.effects.to_lua"
require "moonwatch.effects.to_patch"
require "moonwatch.trace"

local mw = {}
for name, value in pairs(core) do mw[name] = value end
mw.private = nil

mw.memo = require "moonwatch.memo"
mw.array, mw.object_like = json.array, json.object_like
mw.patch = require "moonwatch.json.patch"
mw.diff = require("moonwatch.json.diff").diff
mw.instrument = require "moonwatch.instrument"
mw.begin = transaction.begin
mw.transaction = transaction.run
mw.patch_bytes = require "moonwatch.effects.bytes"
mw.effects = require "moonwatch.effects.planned"
mw.hierarchy = require "moonwatch.hierarchy"
mw.history = require "moonwatch.history"
mw.policy = policy.new
mw.load_policy = policy.load
mw.is_dynamic = policy.is_dynamic
mw.metrics = require("moonwatch.metrics").new
mw.counters, mw.count = counters.all, counters.count
mw.times, mw.time_spent = times.times, times.time_spent
mw.reset_times = times.reset_times
mw.frame, mw.advance_frame = times.frame, times.advance_frame
mw.reset_frames = times.reset_frames
mw.once = require "moonwatch.once"
mw.context = require "moonwatch.context"
mw.cleanup, mw.cleanup_for = cleanup.new, cleanup.attach
mw.dynamism = dynamism.dynamism
mw.infer = require "moonwatch.dynamism.infer"
mw.normalize_name = path.normalize_name
mw.skeleton = require "moonwatch.dynamism.skeleton"
mw.to_nested = nested.to_nested

return mw

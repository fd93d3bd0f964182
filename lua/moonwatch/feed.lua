--- mw.feed: what changed since the last look.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local policy = require "moonwatch.policy"

local feed = {}

local CAPACITY = 65536

local OPTIONS = {
  root = "table", capacity = "count", not_from = "string", since = "count",
}

--- Returns a feed, which has read nothing of what is delivered from now on, or
-- since the entry with the number `since`; or nil and a message if some entries
-- since are not kept, or something below the root was not tracked since.
function feed.feed(opts)
  opts = check.options(opts, OPTIONS, 1, "feed", "option")
  local capacity, root = opts.capacity or CAPACITY, opts.root
  check.that(capacity > 0, 1, "feed", "option 'capacity' is not positive")
  check.that(root == nil or not core.private.is_ours(root), 1, "feed",
    "option 'root' is an object of the library")
  policy.current()
  local its, kept = core.private.open_feed(capacity, root, opts.not_from,
    opts.since)
  if its then return its end
  return nil, (kept and "the root was not tracked all the time since %d" or
    "not all entries since %d are kept"):format(opts.since)
end

return feed

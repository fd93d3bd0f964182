--- mw.feed: what changed since the last look.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local policy = require "moonwatch.policy"

require "moonwatch.recorder.entry" -- what feeds read

local private = core.private

local feed = {}

local CAPACITY = 65536

local OPTIONS = {
  root = "table", capacity = "count", not_from = "string", since = "count",
  descend = "function",
}

--- Returns a feed, which has read nothing of what is delivered from now on, or
-- since the entry with the number `since`; or nil and a message if some entries
-- since are not kept, or no such feed of the root has been open since.
function feed.feed(opts)
  opts = check.options(opts, OPTIONS, 1, "feed", "option")
  local capacity, root = opts.capacity or CAPACITY, opts.root
  check.that(capacity > 0, 1, "feed", "option 'capacity' is not positive")
  check.that(root == nil or not private.is_ours(root), 1, "feed",
    "option 'root' is an object of the library")
  check.that(root ~= nil or not opts.descend, 1, "feed",
    "option 'descend' is for a feed with a root")
  policy.current()
  local its = private.open_feed(capacity, opts.not_from, opts.since)
  if not its then
    return nil, ("not all entries since %d are kept"):format(opts.since)
  end
  if not root then return its end
  local ok, had = pcall(private.open_root, root, its, opts.since, opts.descend)
  if ok and had then return its end
  its:close()
  if not ok then error(had, 0) end
  return nil, ("no feed of this root has been open since %d"):format(opts.since)
end

return feed

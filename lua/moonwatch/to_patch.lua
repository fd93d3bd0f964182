--- Effects as a JSON patch.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local effects = require "moonwatch.effects"
local json_diff = require "moonwatch.json_diff"
local views = require "moonwatch.views"

local Effects = core.private.effects_methods

--- An array of RFC 6902 operations that do to a copy of `root`, as it was
-- before, what the effects have done.  Answers nil and a message if that cannot
-- be said in JSON.
function Effects:to_patch(root)
  effects.check(self, "to_patch")
  check.argument(type(root) == "table", 1, "to_patch", "table", root)
  local before, after = views(self)
  return json_diff.operations(root, root, before.contents, after.contents)
end

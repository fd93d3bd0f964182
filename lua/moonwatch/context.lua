--- mw.context: text that the program adds to the traced writes.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local protect = require "moonwatch.protect"
local private = require("moonwatch.core").private

local MAX = 256

local Context, state_of, new = check.class "context"

-- All copies of this file share the hooks, which are in the order of their
-- calls.
private.hooks_of_context = private.hooks_of_context or {}
local hooks = private.hooks_of_context

-- Returns at most MAX characters of a text, or MAX bytes if the text is not
-- UTF-8.
local function cap(text)
  local n = utf8.len(text)
  if n and n > MAX then return text:sub(1, utf8.offset(text, MAX + 1) - 1) end
  return n and text or text:sub(1, MAX)
end

local function ask_all()
  local said = {}
  for _, hook in ipairs { table.unpack(hooks) } do
    local text = protect("context", hook.fn)
    if type(text) == "string" then said[#said + 1] = cap(text) end
  end
  return said[1] and said or nil -- no text, no context
end

local asking = false

-- While a hook runs, no hook is asked about the writes of the hook.
local function ask()
  if asking then return nil end
  asking = true
  local said = protect("context", ask_all)
  asking = false
  return said
end

local function install() private.contexts(hooks[1] and ask or nil) end

--- Ends the hook.  A second call does nothing.
function Context:cancel()
  local its = state_of(self, "cancel")
  for i, hook in ipairs(hooks) do
    if hook == its then table.remove(hooks, i) end
  end
  install()
end

Context.__close = Context.cancel

--- Asks `fn()` for a string at each write that is traced and that calls a
-- guard, until the handle is cancelled.  Returns the handle.
local function context(fn)
  check.argument(type(fn) == "function", 1, "context", "function", fn)
  local its = { fn = fn }
  local self = new(its)
  hooks[#hooks + 1] = its
  install()
  return self
end

return context

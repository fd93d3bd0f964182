--- trace:write: traces as files.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local page = require "moonwatch.trace.page"
local private = require("moonwatch.core").private

local _, Trace = private.trace_methods()

local formats = {
  chrome = {}, speedscope = { speedscope = true },
  html = { head = page.head, tail = page.tail },
}

local function check_self(self)
  check.self(private.metatable(self) == Trace, "write", "trace", self)
end

--- Writes a trace to a file as "chrome" (trace events, the default),
-- "speedscope" or "html".  Returns true; or nil and a message.
return function(trace, path, format)
  check_self(trace)
  check.argument(type(path) == "string", 1, "write", "string", path)
  local its = formats[format or "chrome"]
  check.that(its ~= nil, 2, "write",
    "'chrome', 'speedscope' or 'html' expected")
  return private.write_trace(trace, path, its.speedscope, its.head, its.tail)
end

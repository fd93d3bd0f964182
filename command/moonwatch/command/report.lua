--- moonwatch report: makes a page of a trace.
-- SPDX-License-Identifier: MIT

local page = require "moonwatch.trace.page"

local report = {
  summary = "Make a page of a trace.",
  description = "Make a page that shows a trace, for any browser.",
  example = [[
   moonwatch run --trace trace.json game.lua
   moonwatch report trace.json -o report.html]],
}

function report.define(parser)
  parser:argument("trace", "A trace in the format of Chrome.")
  parser:option("-o --output", "The page (report.html)."):argname "<file>"
    :default "report.html"
end

local function read(path)
  local file, message = io.open(path, "rb")
  if not file then return nil, message end
  local text, problem = file:read "a"
  file:close()
  if not text then return nil, path .. ": " .. problem end
  if not text:find '^%s*{.*"traceEvents"%s*:%s*%[.*%]?.*}%s*$' then
    return nil, path .. ": not a trace in the format of Chrome"
  end
  return text
end

local function write_all(path, ...)
  local file, message = io.open(path, "wb")
  if not file then return nil, message end
  local ok, problem = file:write(...)
  local closed, at_close = file:close()
  if ok and closed then return true end
  return nil, path .. ": " .. (ok and at_close or problem)
end

-- A page that is there stays until the new one is whole.
local function replace(path, ...)
  local place = path .. ".tmp"
  local ok, message = write_all(place, ...)
  if ok then ok, message = os.rename(place, path) end
  if not ok then os.remove(place) end
  return ok, message
end

function report.run(args)
  local trace, message = read(args.trace)
  local ok = false
  if trace then -- in JSON, this character stands in strings only
    trace = trace:gsub("<", "\\u003c")
    ok, message = replace(args.output, page.head, trace, page.tail)
  end
  if ok then return 0 end
  io.stderr:write("moonwatch: ", message, "\n")
  return 1
end

return report

--- mw.mark_dynamic, mw.is_marked: classes that count as dynamic.
-- SPDX-License-Identifier: MIT

local check = require "moonwatch.check"
local private = require("moonwatch.core").private

-- All copies of this file share the marks: class -> true.
private.marks = private.marks or setmetatable({}, { __mode = "k" })
local marked = private.marks

local marks = {}

--- Marks exactly that class, not its subclasses; `on = false` unmarks.
function marks.mark_dynamic(class, on)
  check.argument(private.is_object(class), 1, "mark_dynamic",
    "table, userdata, function or thread", class)
  check.argument(on == nil or type(on) == "boolean", 2, "mark_dynamic",
    "boolean", on)
  marked[class] = on ~= false or nil
end

--- Tells whether a class is marked.
function marks.is_marked(class, ...)
  if select("#", ...) > 0 then check.dot("is_marked", class) end
  return class ~= nil and marked[class] == true
end

return marks

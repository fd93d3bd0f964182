-- hear(obj, opts): watches, with the options.  Returns a function that returns
-- what the guard has heard, as one text, and keeps the object alive.

local mw = require "moonwatch"

return function(obj, opts)
  local notes, all = {}, { once = false }
  for name, value in pairs(opts or {}) do all[name] = value end
  mw.watch(obj, function(_, key, old, new, kind)
    if type(key) == "table" then key = table.concat(key, ".") end
    notes[#notes + 1] = ("%s %s %s>%s"):format(kind, key, old, new)
  end, all)
  return function() return obj and table.concat(notes, ", ") end
end

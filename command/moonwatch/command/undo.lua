--- Takes back what a script wrote: the script runs in a transaction.
-- SPDX-License-Identifier: MIT

local mw = require "moonwatch"

--- Begins.  Returns the function that ends this: done(is all to stay).
return function(label)
  local transaction = mw.begin(label)
  return function(stays)
    if stays then transaction:commit() else transaction:rollback() end
  end
end

--- Records reads for transactions that ask for reads.
-- SPDX-License-Identifier: MIT
--
-- While a transaction asks for reads, the core calls `note` for each read of a
-- table that is tracked then.

local core = require "moonwatch.core"

local private = core.private

-- The table of globals may be tracked, and noting a read must not read a
-- global.
local id_of, ipairs, remove = core.id, ipairs, table.remove

-- All copies of this file share the list of readers.
private.readers = private.readers or {}
local readers = private.readers

local reads = {}

local WHOLE = {} -- the key for a whole object

-- A set of reads has the keys by the serial of the object, and a list in order.
local function note(obj, key)
  local id = id_of(obj)
  if key == nil then key = WHOLE end
  for _, its in ipairs(readers) do
    local keys = its[id] or {}
    its[id] = keys
    if key == key and not keys[key] then
      keys[key] = true
      its.list[#its.list + 1] = { id = id, key = key }
    end
  end
end

--- Begins to note reads.  Returns the set of the reads.
function reads.begin()
  local its = { list = {} }
  private.begin_reads(note)
  readers[#readers + 1] = its
  return its
end

--- Ends a reader; the one that began last, if there is no `its`.
function reads.finish(its)
  local n = #readers
  while its and n > 0 and readers[n] ~= its do n = n - 1 end
  if n > 0 then remove(readers, n) end
  if #readers == 0 then private.end_reads() end
end

--- Returns the reads in a set as an array of { object, key }, in order; a read
-- of a whole object has no key.  Objects that have died are left out.
function reads.list(its)
  local list = {}
  for _, read in ipairs(its.list) do
    local key = read.key
    if key == WHOLE then key = nil end
    local object = core.object(read.id)
    if object ~= nil then list[#list + 1] = { object = object, key = key } end
  end
  return list
end

return reads

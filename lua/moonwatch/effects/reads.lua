--- Records reads for transactions that ask for reads.
-- SPDX-License-Identifier: MIT
--
-- A read of a tracked table does not leave the VM.  So while a transaction asks
-- for reads, the own metatable of each table that is tracked then has functions
-- as `__index`, `__pairs` and `__len` that note the read.

local core = require "moonwatch.core"

local private = core.private

-- The table of globals may be tracked, and noting a read must not read a
-- global.
local ipairs, pairs, rawset, type = ipairs, pairs, rawset, type

-- All copies of this file share the list of readers.  `spied` is own metatable
-- -> spy.
private.readers = private.readers or { spied = {} }
local readers = private.readers

local reads = {}

local WHOLE = {} -- the key for a whole object

-- A set of reads has the keys by the serial of the object, and a list in order.
local function note(obj, key)
  local id = core.id(obj)
  for _, its in ipairs(readers) do
    local keys = its[id] or {}
    its[id] = keys
    if key == key and not keys[key] then
      keys[key] = true
      its.list[#its.list + 1] = { id = id, key = key }
    end
  end
end

local FIELDS = { "__index", "__pairs", "__len" }

-- Returns what an own metatable has, and what it is to have while somebody
-- notes reads.
local function make_spy(obj, own)
  local former = {}
  for _, field in ipairs(FIELDS) do former[field] = rawget(own, field) end
  local index, walk, len = former.__index, former.__pairs, former.__len
  local telling = {
    __index = function(_, key)
      note(obj, key)
      if type(index) == "function" then return index(obj, key) end
      return index[key]
    end,
    __pairs = function(t)
      note(obj, WHOLE)
      return walk(t)
    end,
    __len = len and function(t)
      note(obj, WHOLE)
      return len(t)
    end,
  }
  return { former = former, telling = telling }
end

-- The fields are there already: needs no memory.
local function install(own, its)
  for _, field in ipairs(FIELDS) do rawset(own, field, its[field]) end
end

--- Begins to note reads.  Returns the set of the reads.
function reads.begin()
  local its, spied = { list = {} }, {}
  for own, spy in pairs(readers.spied) do spied[own] = spy end
  for _, obj in ipairs(private.intercepting()) do
    local own = private.own(obj)
    spied[own] = spied[own] or make_spy(obj, own)
  end
  readers[#readers + 1] = its
  readers.spied = spied
  for own, spy in pairs(spied) do install(own, spy.telling) end
  return its
end

--- Ends the reader that began last.
function reads.finish()
  readers[#readers] = nil
  if #readers > 0 then return end
  for own, spy in pairs(readers.spied) do
    install(own, spy.former)
    readers.spied[own] = nil
  end
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

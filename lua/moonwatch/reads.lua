--- What is read while a transaction wants to know.
-- SPDX-License-Identifier: MIT
--
-- Reads of a tracked table do not leave the VM.  So while somebody wants to
-- know of them, the own metatables of the tables that are tracked then have an
-- `__index` that is a function, and a `__pairs` and `__len` that tell too.

local core = require "moonwatch.core"

local private = core.private

-- The globals may be among what is tracked; to note a read must not be one.
local ipairs, pairs, rawset = ipairs, pairs, rawset

-- One list of those who want to know for all copies of this file.
-- `spied` is own metatable -> spy.
private.readers = private.readers or { spied = {} }
local readers = private.readers

local reads = {}

local WHOLE = {} -- the key that stands for all of an object

-- A set of reads: by object's serial, the keys; and a list of them in order.
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

-- What an own metatable has, and what it is to have while somebody wants to
-- know.
local function make_spy(obj, own)
  local former = {}
  for _, field in ipairs(FIELDS) do former[field] = rawget(own, field) end
  local shadow, walk, len = former.__index, former.__pairs, former.__len
  local telling = {
    __index = function(_, key)
      note(obj, key)
      return shadow[key]
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

--- Begins to note what is read.  Answers the set of that.
function reads.begin()
  local its, spied = { list = {} }, {}
  for own, spy in pairs(readers.spied) do spied[own] = spy end
  for _, obj in ipairs(private.reporting()) do
    local own = private.own(obj)
    spied[own] = spied[own] or make_spy(obj, own)
  end
  readers[#readers + 1] = its
  readers.spied = spied
  for own, spy in pairs(spied) do install(own, spy.telling) end
  return its
end

--- Ends what began last.
function reads.finish()
  readers[#readers] = nil
  if #readers > 0 then return end
  for own, spy in pairs(readers.spied) do
    install(own, spy.former)
    readers.spied[own] = nil
  end
end

--- The reads in a set, in order, as an array of fields: `{ object, key }`, or
-- without a key if it was all of the object.  What is gone is left out.
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

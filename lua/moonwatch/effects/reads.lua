--- What is read while a transaction wants to know.
-- SPDX-License-Identifier: MIT
--
-- Reads of a tracked table do not leave the VM.  So while somebody wants to
-- know of them, the own metatables of the tables that are tracked then have an
-- `__index` that is a function, and a `__pairs` and `__len` that tell too.

local core = require "moonwatch.core"

local private = core.private

-- The globals may be among what is tracked; to note a read must not be one.
local ipairs, rawset = ipairs, rawset

-- One list of those who want to know for all copies of this file.
private.readers = private.readers or {}
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

-- Answers what undoes it.
local function spy_on(obj)
  local own = private.own(obj)
  local former = { own = own }
  for _, field in ipairs(FIELDS) do former[field] = rawget(own, field) end
  local shadow, walk, len = former.__index, former.__pairs, former.__len
  rawset(own, "__index", function(_, key)
    note(obj, key)
    return shadow[key]
  end)
  rawset(own, "__pairs", function(t)
    note(obj, WHOLE)
    return walk(t)
  end)
  if len then
    rawset(own, "__len", function(t)
      note(obj, WHOLE)
      return len(t)
    end)
  end
  return former
end

local function forget(former)
  for _, field in ipairs(FIELDS) do
    rawset(former.own, field, former[field])
  end
end

--- Begins to note what is read.  Answers the set of that.
function reads.begin()
  if #readers == 0 then
    readers.spied = {}
    for i, obj in ipairs(private.reporting()) do
      readers.spied[i] = spy_on(obj)
    end
  end
  local its = { list = {} }
  readers[#readers + 1] = its
  return its
end

--- Ends what began last.
function reads.finish()
  readers[#readers] = nil
  if #readers > 0 then return end
  for _, former in ipairs(readers.spied) do forget(former) end
  readers.spied = nil
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

--- Effects as bytes, for a file or another program.
-- SPDX-License-Identifier: MIT
--
--     "MWE" version | length of the body | checksum of the body | body
--     1   3        4                    8                     12
--
-- The body is a script (see script.lua) in four lists.  Each list follows its
-- length:
--
--     classes  length, name
--     places   number of keys, keys: the way from the root
--     tables   mark of JSON, class, number of fields, and for each field
--              key, value
--     writes   object, kind, key, value
--
-- Objects are numbered in the order of the lists: the root is 0, then classes,
-- then places, then tables.  These numbers, all lengths and kinds are counts;
-- the core's bytes.c says how those and values are written.
--
-- Bytes name a class only by the name that the receiver gave it.  So bytes set
-- no other metatable, and they write into no class.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local recorded = require "moonwatch.effects.recorded"
local json = require "moonwatch.json"
local make_script = require "moonwatch.effects.script"
local named = require "moonwatch.policy.named"
local policy = require "moonwatch.policy"
local state = require "moonwatch.state"

local private = core.private
local raw = private.raw
local count, value_bytes = private.count_bytes, private.value_bytes

local bytes = {}

local HEADER = "<c3 B I4 I4"
local MAGIC, VERSION = "MWE", 2

local MEMORY = "not enough memory"

local KINDS = { insert = 0, update = 1, delete = 2, metatable = 3 }
local MARKS = { array = 1, object = 2 }

-- {======================================================
-- Writing
-- =======================================================

local function number_objects(script, root)
  local numbers, n = { [root] = 0 }, 0
  for _, list in ipairs { script.classes, script.places, script.tables } do
    for _, its in ipairs(list) do
      if not numbers[its.object] then
        n = n + 1
        numbers[its.object] = n
      end
    end
  end
  return numbers
end

local function body(script, root)
  local numbers, out = number_objects(script, root), {}
  local function put(s) out[#out + 1] = s end
  local function put_value(value) put(value_bytes(value, numbers)) end
  local places = {}
  for _, place in ipairs(script.places) do
    if #place > 0 then places[#places + 1] = place end
  end
  put(count(#script.classes))
  for _, its in ipairs(script.classes) do
    put(count(#its.name))
    put(its.name)
  end
  put(count(#places))
  for _, place in ipairs(places) do
    put(count(#place))
    for _, key in ipairs(place) do put_value(key) end
  end
  put(count(#script.tables))
  for _, its in ipairs(script.tables) do
    put(count(MARKS[json.mark(its.object)] or 0))
    put_value(its.class)
    put(count(#its.fields))
    for _, pair in ipairs(its.fields) do
      put_value(pair[1])
      put_value(pair[2])
    end
  end
  put(count(#script.writes))
  for _, write in ipairs(script.writes) do
    put(count(numbers[write.object]))
    put(count(KINDS[write.kind]))
    put_value(write.key)
    put_value(write.value)
  end
  return table.concat(out)
end

--- Returns the effects as a string, for a program that has a copy of what was
-- below `root` before the effects.  Returns nil and a message if there is no
-- such string.
function bytes.to_bytes(self, root)
  recorded.check(self, "to_bytes")
  check.argument(type(root) == "table", 1, "to_bytes", "table", root)
  local script, message = make_script(self, { root = root }, nil, true)
  if not script then return nil, message end
  local ok, text = pcall(body, script, root)
  if ok then
    return string.pack(HEADER, MAGIC, VERSION, #text,
      private.checksum(text)) .. text
  end
  if type(text) ~= "table" then error(text, 0) end
  return nil, text[1]
end

-- }======================================================

-- {======================================================
-- Reading: an error is a table with the message
-- =======================================================

local function fail(message) error { message } end

local Reader = {}
Reader.__index = Reader

function Reader:count()
  local n
  n, self.at = private.read_count(self.bytes, self.at)
  return n
end

-- Reads the length of a list whose elements have at least `size` bytes.
function Reader:length(size)
  local n
  n, self.at = private.read_count(self.bytes, self.at, size)
  return n
end

function Reader:take(n)
  local s = self.bytes:sub(self.at, self.at + n - 1)
  self.at = self.at + n
  return s
end

function Reader:object()
  local object = self.objects[self:count()]
  if object == nil then fail "it refers to an object that there is not" end
  return object
end

function Reader:value()
  local value
  value, self.at = private.read_value(self.bytes, self.at, self.objects)
  return value
end

function Reader:key()
  local key = self:value()
  if key == nil or key ~= key then fail "it has a key that is none" end
  return key
end

-- Returns a class, which only the list of classes has, or nil.
function Reader:class()
  local class = self:value()
  if class ~= nil and not self.classes[class] then
    fail "a class is none that has a name"
  end
  return class
end

function Reader:named_class()
  local name = self:take(self:length(1))
  local class = named.class(name)
  if not class then fail(("no class has the name '%s'"):format(name)) end
  self.classes[class] = true
  return class
end

function Reader:place()
  local object = self.objects[0]
  for _ = 1, self:length(1) do
    local key = self:key()
    local parent = object
    if type(parent) == "table" then object = rawget(raw(parent), key)
    else object = nil end
    if type(object) == "table" and
      not self.is_state(parent, key, object) then
      object = nil
    end
    if object == nil then
      fail(("the root has no such object, at key '%s'"):format(tostring(key)))
    end
  end
  return object
end

function Reader:table(t)
  local mark = self:count()
  if mark > 2 or mark < 0 then fail "a table has an unknown mark" end
  if mark > 0 then private.set_mark(t, mark) end
  local class = self:class()
  for _ = 1, self:length(2) do
    local key = self:key()
    rawset(t, key, self:value())
  end
  return class
end

local NAMES = {}
for name, kind in pairs(KINDS) do NAMES[kind] = name end

function Reader:write()
  local object, kind = self:object(), NAMES[self:count()]
  if type(object) ~= "table" then fail "it writes to what is no table" end
  if self.classes[object] then fail "it writes to a class" end
  if not kind then fail "it has a write of an unknown kind" end
  if kind == "metatable" then
    if self:value() ~= nil then fail "it has a key that is none" end
    local class = self:class()
    local metatable = class and named.metatable(class)
    if class and not metatable then
      fail "a class does not show its metatable"
    end
    return { object = object, new = metatable, kind = kind }
  end
  return { object = object, key = self:key(), new = self:value(), kind = kind }
end

-- Makes the new tables of a list.  `made` has the objects of classes, or is nil
-- when these are not made yet.
function Reader:tables(first, n, made)
  local classes, any = {}, false
  for i = 1, n do
    self.objects[first + i] = made and made[i] or {}
  end
  for i = 1, n do
    local object = self.objects[first + i]
    classes[i] = self:table(raw(object)) or false
    any = any or classes[i]
  end
  return any and classes
end

-- Reads all.  Returns the writes, and the classes of the new tables, if any.
function Reader:run(made)
  for i = 1, self:length(1) do self.objects[i] = self:named_class() end
  local first = #self.objects
  for i = 1, self:length(1) do self.objects[first + i] = self:place() end
  first = #self.objects
  local classes = self:tables(first, self:length(3), made)
  local writes = {}
  for i = 1, self:length(4) do writes[i] = self:write() end
  if self.at <= #self.bytes then fail "there is something after its end" end
  return writes, classes
end

local function open(text)
  if #text < string.packsize(HEADER) then fail "it ends too early" end
  local magic, version, length, sum, at = string.unpack(HEADER, text)
  if magic ~= MAGIC then fail "these are not effects" end
  if version ~= VERSION then
    fail(("version %d is not known here"):format(version))
  end
  if length ~= #text - at + 1 then fail "the length is not right" end
  local its = text:sub(at)
  if private.checksum(its) ~= sum then fail "the checksum is not right" end
  return its
end

local function new_reader(root, its, is_state)
  return setmetatable({ bytes = its, at = 1, objects = { [0] = root },
    classes = {}, is_state = is_state }, Reader)
end

-- Returns an object of each class in a list that has one.
local function make_objects(classes)
  local made = {}
  for i, class in ipairs(classes) do
    if class then
      local ok, object = pcall(policy.new_object, class)
      if object == MEMORY then error(MEMORY, 0) end
      if not ok then
        fail(("class '%s' makes no object: %s"):format(named.name(class),
          tostring(object)))
      end
      made[i] = object
    end
  end
  return made
end

-- Returns the writes.  Objects of classes are made by the program's functions,
-- so they are made when all has been read and found right; then all is read
-- once more.
local function read(root, text)
  local its, is_state = open(text), state.below(root)
  local writes, classes = new_reader(root, its, is_state):run()
  if not classes then return writes end
  return (new_reader(root, its, is_state):run(make_objects(classes)))
end

-- }======================================================

--- Performs effects that came as bytes.  Returns the root; or nil and a
-- message, and nothing has changed.
function bytes.patch_bytes(root, text)
  check.argument(type(root) == "table", 1, "patch_bytes", "table", root)
  check.argument(type(text) == "string", 2, "patch_bytes", "string", text)
  local ok, writes = pcall(read, root, text)
  if not ok then
    if type(writes) ~= "table" then error(writes, 0) end
    return nil, "bad effects: " .. writes[1]
  end
  local fx, problem = recorded.write(function() return writes end, true)
  if not fx then return nil, problem end
  recorded.raise(problem)
  return root
end

return bytes

--- Effects as bytes, for a file or another program.
-- SPDX-License-Identifier: MIT
--
-- The bytes are "MWE", a version, and the snapshot of a list:
--
--     { objects, object, kind, key, value, object, kind, key, value, ... }
--
-- which has the writes of a script (see script.lua).  A delete has no value, a
-- change of the class has the class, or false, in the place of key and value.
-- For each object there is a table that stands for it: `objects` itself for the
-- root, and the elements of `objects` for all others:
--
--     { PLACE, key... }                          the way from the root
--     { CLASS, name }
--     { NEW, mark, class or false, key, value... }
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
local snapshot = require "moonwatch.snapshot"
local state = require "moonwatch.state"

local private = core.private
local raw = private.raw

local bytes = {}

local HEAD = "MWE\3"
local MEMORY = "not enough memory"

local PLACE, CLASS, NEW = 0, 1, 2
local KINDS = { insert = 0, update = 1, delete = 2, metatable = 3 }
local MARKS = { array = 1, object = 2 }

local function fail(message, ...) error { message:format(...) } end

local function yes() return true end
local function no() fail "it has a class" end

-- {======================================================
-- Writing
-- =======================================================

-- Returns the list of which the bytes are a snapshot.
local function list_of(script, root)
  local objects = {}
  local stands, out = { [root] = objects }, { objects }
  local function said(value)
    local stand = value ~= nil and stands[value]
    if stand then return stand end
    return value
  end
  local function add(object, stand)
    stands[object] = stand
    objects[#objects + 1] = stand
  end
  local function put(list, value) list[#list + 1] = said(value) end
  for _, its in ipairs(script.classes) do
    add(its.object, { CLASS, its.name })
  end
  for _, place in ipairs(script.places) do
    if #place > 0 then
      add(place.object, { PLACE })
      for _, key in ipairs(place) do put(stands[place.object], key) end
    end
  end
  for _, its in ipairs(script.tables) do
    add(its.object, { NEW, MARKS[json.mark(its.object)] or 0,
      its.class ~= nil and said(its.class) })
  end
  for _, its in ipairs(script.tables) do
    for _, pair in ipairs(its.fields) do
      put(stands[its.object], pair[1])
      put(stands[its.object], pair[2])
    end
  end
  for _, write in ipairs(script.writes) do
    put(out, write.object)
    put(out, KINDS[write.kind])
    if write.kind == "metatable" then
      put(out, write.value or false)
    else
      put(out, write.key)
      if write.kind ~= "delete" then put(out, write.value) end
    end
  end
  return out
end

--- Returns the effects as a string, for a program that has a copy of what was
-- below `root` before the effects.  Returns nil and a message if there is no
-- such string.
function bytes.to_bytes(self, root)
  recorded.check(self, "to_bytes")
  check.argument(type(root) == "table", 1, "to_bytes", "table", root)
  local script, message = make_script(self, { root = root }, nil, true)
  if not script then return nil, message end
  local text, way = snapshot.write(list_of(script, root), no, yes, {})
  if not text then return nil, way[1] .. " cannot be sent" end
  return HEAD .. text
end

-- }======================================================

-- {======================================================
-- Reading: an error is a table with the message
-- =======================================================

local Reader = {}
Reader.__index = Reader

-- Returns a value, or the object for which a table stands.
function Reader:value(value)
  if type(value) ~= "table" then return value end
  local object = self.objects[value]
  if object == nil then fail "it refers to an object that there is not" end
  return object
end

function Reader:key(key)
  if key == nil or key ~= key then fail "it has a key that is none" end
  return self:value(key)
end

function Reader:class(stand)
  local class = stand and self:value(stand) or nil
  if class ~= nil and not self.classes[class] then
    fail "a class is none that has a name"
  end
  return class
end

function Reader:named_class(name)
  local class = named.class(name)
  if not class then fail("no class has the name '%s'", tostring(name)) end
  self.classes[class] = true
  return class
end

function Reader:place(stand)
  local object = self.root
  for i = 2, #stand do
    local parent, key = object, self:key(stand[i])
    object = nil
    if type(parent) == "table" then object = rawget(raw(parent), key) end
    if type(object) == "table" and
      not self.is_state(parent, key, object) then
      object = nil
    end
    if object == nil then
      fail("the root has no such object, at key '%s'", tostring(key))
    end
  end
  return object
end

-- Finds what there is, and checks what the new tables are.
function Reader:find(stand)
  local kind = type(stand) == "table" and stand[1]
  if kind == PLACE then
    self.objects[stand] = self:place(stand)
  elseif kind == CLASS then
    self.objects[stand] = self:named_class(stand[2])
  elseif kind == NEW then
    local mark = stand[2]
    if mark ~= 0 and mark ~= 1 and mark ~= 2 then
      fail "a table has an unknown mark"
    end
    self.objects[stand], self.new[#self.new + 1] = {}, stand
    self.has_classes = self:class(stand[3]) ~= nil or self.has_classes
  else
    fail "it has an object of an unknown kind"
  end
end

function Reader:write(i)
  local list = self.list
  local object, kind = self:value(list[i]), list[i + 1]
  if type(object) ~= "table" then fail "it writes to what is no table" end
  if self.classes[object] then fail "it writes to a class" end
  if kind == KINDS.metatable then
    local class = self:class(list[i + 2])
    local metatable = class and named.metatable(class)
    if class and not metatable then
      fail "a class does not show its metatable"
    end
    return { object = object, new = metatable, kind = "metatable" }, i + 3
  end
  local key = self:key(list[i + 2])
  if kind == KINDS.delete then
    return { object = object, key = key, kind = "delete" }, i + 3
  elseif kind ~= KINDS.insert and kind ~= KINDS.update then
    fail "it has a write of an unknown kind"
  end
  return { object = object, key = key, new = self:value(list[i + 3]),
    kind = kind == KINDS.insert and "insert" or "update" }, i + 4
end

-- Fills the new tables.  Returns the writes.
function Reader:run()
  for _, stand in ipairs(self.new) do
    local object = self.objects[stand]
    if stand[2] > 0 then private.set_mark(object, stand[2]) end
    for i = 4, #stand, 2 do
      rawset(raw(object), self:key(stand[i]), self:value(stand[i + 1]))
    end
  end
  local writes, at = {}, 2
  while at <= #self.list do
    writes[#writes + 1], at = self:write(at)
  end
  return writes
end

-- Makes the new tables, those with a class by the program's functions.
function Reader:make()
  for _, stand in ipairs(self.new) do
    local class, ok, object = self:class(stand[3]), true, {}
    if class then ok, object = pcall(policy.new_object, class) end
    if object == MEMORY then error(MEMORY, 0) end
    if not ok then
      fail("class '%s' makes no object: %s", named.name(class),
        tostring(object))
    end
    self.objects[stand] = object
  end
end

-- Returns the writes.  Objects of classes are made by the program's functions,
-- so they are made when all has been found right; then all is done once more.
local function read(root, text)
  if text:sub(1, 3) ~= HEAD:sub(1, 3) then fail "these are not effects" end
  if text:sub(1, 4) ~= HEAD then fail "the version is not known here" end
  local list = private.restore(text:sub(5), no, no)
  local objects = list[1]
  if type(objects) ~= "table" then fail "it has no list of objects" end
  local self = setmetatable({
    root = root, list = list, objects = { [objects] = root }, new = {},
    classes = {}, has_classes = false, is_state = state.below(root),
  }, Reader)
  for _, stand in ipairs(objects) do self:find(stand) end
  local writes = self:run()
  if not self.has_classes then return writes end
  self:make()
  return self:run()
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

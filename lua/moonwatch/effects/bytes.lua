--- Effects as bytes, for a file or another program.
-- SPDX-License-Identifier: MIT
--
-- The bytes are "MWE", a version, and the snapshot of a list:
--
--     { places, fills, object, kind, key, value, object, kind, key, ... }
--
-- which has the writes of a script (see script.lua).  A delete has no value, a
-- change of the class has the class, or false, in the place of key and value.
-- Classes and new tables, with what they hold, are those of the snapshot.
-- `places` stands for the root, and has for each other object that is there a
-- table that stands for it: the keys of the way from the root.  As snapshots
-- have no objects that are nothing but keys, and new tables are made before the
-- places are found, fields of new tables that have to do with these are in
-- `fills`: { table, key, value, ... }, or false.
--
-- Bytes name a class only by the name that the receiver gave it.  So bytes set
-- no other metatable, and they write into no class.

local check = require "moonwatch.check"
local core = require "moonwatch.core"
local recorded = require "moonwatch.effects.recorded"
local json = require "moonwatch.json"
local make_script = require "moonwatch.effects.script"
local named = require "moonwatch.policy.named"
local snapshot = require "moonwatch.snapshot"
local state = require "moonwatch.state"

local private = core.private
local raw, metatable = private.raw, private.metatable

local bytes = {}

local HEAD = "MWE\4"

local KINDS = { insert = 0, update = 1, delete = 2, metatable = 3 }

local function fail(message, ...) error { message:format(...) } end

local function yes() return true end
local function no() fail "it has a class" end

-- Returns the list of which the bytes are a snapshot, and class -> name.
local function list_of(script, root)
  local places, fills, names = {}, {}, {}
  local stands, out = { [root] = places }, { places, false }
  local function put(list, value)
    local stand = value ~= nil and stands[value]
    if not stand then stand = value end
    list[#list + 1] = stand
  end
  for _, its in ipairs(script.classes) do names[its.object] = its.name end
  for _, place in ipairs(script.places) do
    if #place > 0 then
      local keys = {}
      stands[place.object], places[#places + 1] = keys, keys
      for _, key in ipairs(place) do put(keys, key) end
    end
  end
  local is_new = {}
  for _, its in ipairs(script.tables) do
    local stand, mark = {}, json.mark(its.object)
    if its.class ~= nil then
      local class = {}
      names[class] = names[its.class]
      setmetatable(stand, class)
    end
    if mark then json.set_mark(stand, mark) end
    stands[its.object], is_new[its.object] = stand, true
  end
  for _, its in ipairs(script.tables) do
    local stand = stands[its.object]
    for _, pair in ipairs(its.fields) do
      local key, value = pair[1], pair[2]
      if stands[key] or stands[value] and not is_new[value] then
        put(fills, its.object)
        put(fills, key)
        put(fills, value)
      else
        rawset(stand, key, stands[value] or value)
      end
    end
  end
  if fills[1] then out[2] = fills end
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
  return out, names
end

--- Returns the effects as a string, for a program that has a copy of what was
-- below `root` before the effects.  Returns nil and a message if there is no
-- such string.
function bytes.to_bytes(self, root)
  recorded.check(self, "to_bytes")
  check.argument(type(root) == "table", 1, "to_bytes", "table", root)
  local script, message = make_script(self, { root = root }, nil, true)
  if not script then return nil, message end
  local list, names = list_of(script, root)
  local text, way = snapshot.write(list, no, yes, names)
  if not text then return nil, way[1] .. " cannot be sent" end
  return HEAD .. text
end

-- Reads bytes; an error is a table with the message.
local Reader = {}
Reader.__index = Reader

-- Returns a value, or the object that it stands for.
function Reader:value(value)
  local object = self.objects[value]
  if object == nil then return value end
  return object
end

function Reader:key(key)
  if key == nil or key ~= key then fail "it has a key that is none" end
  return self:value(key)
end

-- Returns the object at a place.
function Reader:find(keys)
  local object = self.root
  for _, key in ipairs(keys) do
    local parent = object
    key = self:key(key)
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

function Reader:write(i)
  local list = self.list
  local object, kind = self:value(list[i]), list[i + 1]
  if type(object) ~= "table" then fail "it writes to what is no table" end
  if self.classes[object] then fail "it writes to a class" end
  if kind == KINDS.metatable then
    local class = self:value(list[i + 2]) or nil
    if class ~= nil and not self.classes[class] then
      fail "a class is none that has a name"
    end
    local new = class and named.metatable(class)
    if class and not new then fail "a class does not show its metatable" end
    return { object = object, new = new, kind = "metatable" }, i + 3
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

-- Fills the new tables.
function Reader:fill(fills)
  for i = 1, #fills, 3 do
    local object = fills[i]
    if type(object) ~= "table" or self.objects[object] or
      self.classes[object] then
      fail "it fills what is no new table"
    end
    rawset(raw(object), self:key(fills[i + 1]), self:value(fills[i + 2]))
  end
end

local function check_list(list)
  if type(list) ~= "table" or metatable(list) ~= nil then
    fail "it has no such list"
  end
end

-- Returns the writes; `make(name, is_userdata)` makes the objects of classes.
local function read(root, text, make)
  if text:sub(1, 3) ~= HEAD:sub(1, 3) then fail "these are not effects" end
  if text:sub(1, 4) ~= HEAD then fail "the version is not known here" end
  local classes = {}
  local list, userdata, _, _, _, _, marks = private.restore(text:sub(5), make,
    function(name)
      local class = snapshot.class_of(name)
      classes[class] = true
      return class
    end)
  if userdata[1] then fail "it has a userdata" end
  check_list(list)
  local places, fills = list[1], list[2] or {}
  check_list(places)
  check_list(fills)
  local self = setmetatable({
    root = root, list = list, objects = { [places] = root },
    classes = classes, is_state = state.below(root),
  }, Reader)
  for _, keys in ipairs(places) do
    check_list(keys)
    self.objects[keys] = self:find(keys)
  end
  snapshot.mark_all(marks, {})
  self:fill(fills)
  local writes, at = {}, 3
  while at <= #list do writes[#writes + 1], at = self:write(at) end
  return writes
end

-- Objects of classes are made by the program's functions, so they are made when
-- all has been found right; then all is done once more.
local function read_twice(root, text)
  local has_classes = false
  local writes = read(root, text, function(name)
    has_classes = snapshot.class_of(name) ~= nil
    return {}
  end)
  return has_classes and read(root, text, snapshot.make) or writes
end

--- Performs effects that came as bytes.  Returns the root; or nil and a
-- message, and nothing has changed.
function bytes.patch_bytes(root, text)
  check.argument(type(root) == "table", 1, "patch_bytes", "table", root)
  check.argument(type(text) == "string", 2, "patch_bytes", "string", text)
  local ok, writes = pcall(read_twice, root, text)
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

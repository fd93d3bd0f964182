--- Classes by name: how bytes and other programs refer to a class.
-- SPDX-License-Identifier: MIT
--
-- The registry holds the classes weakly.  A class is the metatable of its
-- objects, or the table that stands for the metatable; either has the name.

local core = require "moonwatch.core"
local object_class = require "moonwatch.policy.object_class"

local raw = core.private.raw

local named = {}

local classes = setmetatable({}, { __mode = "v" }) -- name -> class
local entries = setmetatable({}, { __mode = "k" }) -- class -> name and rules
local meant = setmetatable({}, { __mode = "k" })   -- metatable -> its entry
local owners = setmetatable({}, { __mode = "kv" }) -- entry -> class

local function is_metatable(t) return rawget(t, "__index") ~= nil end

local function is_meta(key)
  return type(key) == "string" and key:sub(1, 2) == "__"
end

--- Returns the metatable of the objects of a class: the class itself, or the
-- table in the class that has an `__index`.  Returns nil if the class does not
-- show the metatable: it has methods, and nothing says whose they are.
function named.metatable(class)
  if is_metatable(class) then return class end
  local its = rawget(raw(class), "__instanceDict") -- of middleclass
  if type(its) == "table" then return its end
  local n, meta, methods = 0, false, false
  for key, value in next, raw(class) do
    if type(value) == "table" and is_metatable(value) then
      its, n = value, n + 1
    end
    meta = meta or is_meta(key)
    methods = methods or type(value) == "function"
  end
  if n == 0 and (meta or not methods) then return class end
  return n == 1 and its or nil
end

local function entry_of(class)
  return entries[class] or meant[class] or
    entries[object_class.of_metatable(class)]
end

--- Returns the class of an object, whose metatable is given (of now, or of
-- before), as the class was named; nil if the class has no name.
function named.of(object, metatable)
  for _, class in ipairs { metatable, object_class.of(object, metatable) } do
    local entry = entry_of(class)
    if entry then return owners[entry] end
  end
end

--- Returns the name of a class, or nil.
function named.name(class)
  local entry = type(class) == "table" and entry_of(class)
  return entry and entry.name or nil
end

--- Returns a table with the names of all classes, by the class and by the
-- metatable of its objects.
function named.all()
  local names = {}
  for mt, entry in next, meant do names[mt] = entry.name end
  for class, entry in next, entries do names[class] = entry.name end
  return names
end

--- Returns the class of a name, or nil.
function named.class(name) return classes[name] end

--- Tells whether a class may have a name: no other class has it that the
-- collector has not taken.
function named.is_free(name, class)
  return classes[name] == nil or rawequal(classes[name], class)
end

local NONE = {}

--- Returns the rules that came with the name of a class.
function named.rules(class)
  local entry = type(class) == "table" and entry_of(class)
  return entry and entry.rules or NONE
end

--- Tells whether the rules of a class have a field.
function named.has(field)
  for _, entry in next, entries do
    if entry.rules[field] ~= nil then return true end
  end
  return false
end

-- Needs no memory for what was there before.
local function put(was)
  if was.dictionary then meant[was.dictionary] = was.meant end
  entries[was.class], classes[was.name] = was.entry, was.holder
  if was.former then classes[was.former] = was.class end
end

--- Returns what the registry has of a class and a name, for `restore`.
function named.remember(name, class)
  local dictionary, entry = named.metatable(class), entries[class]
  local former = entry and entry.name
  return {
    name = name, class = class, entry = entry, holder = classes[name],
    dictionary = dictionary, meant = dictionary and meant[dictionary],
    former = former and classes[former] == class and former or nil,
  }
end

named.restore = put

--- Gives a class a name, and rules.
function named.set(name, class, rules)
  local was, its = named.remember(name, class), {}
  for field, rule in pairs(rules) do
    if field ~= "replace" then its[field] = rule end
  end
  local entry = { name = name, rules = its }
  owners[entry] = class
  core.private.note_class(class)
  core.private.note_class(was.dictionary)
  entries[class] = entry
  if was.dictionary then meant[was.dictionary] = entry end
  if was.former and was.former ~= name then classes[was.former] = nil end
  classes[name] = class
end

--- Raises unless a class's new object is a table, or a userdata where that is
-- wanted.  Returns the object.
function named.check_object(object, is_userdata)
  if type(object) == (is_userdata and "userdata" or "table") then
    return object
  end
  error(("its new object is a %s"):format(type(object)), 0)
end

--- Makes an empty object of a class: by `rules.new`, by the method `allocate`,
-- or with the metatable alone.  Raises if the class can do none of these.
function named.make(class, is_userdata)
  local new = named.rules(class).new
  if new then return named.check_object(new(), is_userdata) end
  if type(class.allocate) == "function" then
    return named.check_object(class:allocate(), is_userdata)
  end
  if is_userdata then error("it has no rule 'new'", 0) end
  local metatable = named.metatable(class)
  if not metatable then error("it does not show its metatable", 0) end
  return setmetatable({}, metatable)
end

return named

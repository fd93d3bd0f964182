-- Class libraries as programs have them, each reduced to its characteristics.
-- A style is make(name, base, constructor) -> class, construct(class, ...) ->
-- object, and the name of the constructor.

local styles = {}

-- Plain metatables.
styles.plain = { constructor = "new" }

function styles.plain.make(name, base, constructor)
  local class = setmetatable({ __name = name }, base and { __index = base })
  class.__index = class
  function class.new(...)
    local self = base and base.new(...) or {}
    setmetatable(self, class)
    if constructor then constructor(self, ...) end
    return self
  end
  return class
end

function styles.plain.construct(class, ...) return class.new(...) end

-- Like middleclass: the class is an object of its own.  Its instances inherit
-- from a dictionary, of which each subclass has a copy.
local function declare(class, key, value)
  rawset(class.dictionary, key, value)
  for subclass in pairs(class.subclasses) do
    if rawget(subclass.declared, key) == nil then
      declare(subclass, key, value)
    end
  end
end

local Middle = {
  __tostring = function(class) return "class " .. class.name end,
  __call = function(class, ...) return class:new(...) end,
  __newindex = function(class, key, value)
    class.declared[key] = value
    declare(class, key, value)
  end,
}

function Middle.__index(class, key)
  local value = rawget(class.dictionary, key)
  if value ~= nil then return value end
  return rawget(class.static, key)
end

local function allocate(class)
  return setmetatable({ class = class }, class.dictionary)
end

local function new(class, ...)
  local self = class:allocate()
  self:initialize(...)
  return self
end

styles.middleclass = { constructor = "initialize" }

function styles.middleclass.make(name, base, constructor)
  local class = {
    name = name, declared = {}, dictionary = {},
    static = { new = new, allocate = allocate },
    subclasses = setmetatable({}, { __mode = "k" }),
  }
  class.dictionary.__index = class.dictionary
  function class.dictionary.__tostring(self)
    return "instance of " .. self.class.name
  end
  if base then
    for key, value in pairs(base.dictionary) do
      if key ~= "__index" then class.dictionary[key] = value end
    end
    base.subclasses[class] = true
  end
  setmetatable(class, Middle)
  function class:initialize(...)
    if base then base.initialize(self, ...) end
    if constructor then constructor(self, ...) end
  end
  return class
end

function styles.middleclass.construct(class, ...) return class(...) end

-- Like classic: a class is the metatable of its instances and of its
-- subclasses.
local Object = {}
Object.__index = Object
Object.__tostring = function() return "Object" end
Object.__call = function(class, ...)
  local self = setmetatable({}, class)
  self:new(...)
  return self
end
function Object.new() end

styles.classic = { constructor = "new" }

function styles.classic.make(name, base, constructor)
  local class = { super = base or Object, __name = name }
  for key, value in pairs(class.super) do
    if key:find "^__" and class[key] == nil then class[key] = value end
  end
  class.__index = class
  setmetatable(class, class.super)
  function class:new(...)
    class.super.new(self, ...)
    if constructor then constructor(self, ...) end
  end
  return class
end

function styles.classic.construct(class, ...) return class(...) end

-- Like 30log: instances have the class in a field, and copies of the tables in
-- the class's attributes.
styles.log30 = { constructor = "init" }

local function attributes(from, to)
  for key, value in pairs(from) do
    if type(value) == "table" and key ~= "super" and not key:find "^__" then
      to[key] = attributes(value, {})
    elseif not key:find "^__" then
      to[key] = value
    end
  end
  return to
end

function styles.log30.make(name, base, constructor)
  local class = base and attributes(base, {}) or {}
  class.name, class.super = name, base
  class.__index = class
  class.__tostring = function(self)
    return "instance of '" .. self.class.name .. "'"
  end
  function class.init(self, ...)
    if base then base.init(self, ...) end
    if constructor then constructor(self, ...) end
  end
  return setmetatable(class, {
    __index = base, __tostring = function() return "class '" .. name .. "'" end,
    __call = function(its, ...)
      local self = setmetatable({ class = its }, its)
      self:init(...)
      return self
    end,
  })
end

function styles.log30.construct(class, ...) return class(...) end

-- Penlight itself.
styles.penlight = { constructor = "_init" }

function styles.penlight.make(name, base, constructor)
  local class = require "pl.class"(base)
  class._name = name
  function class:_init(...)
    if base then self:super(...) end
    if constructor then constructor(self, ...) end
  end
  return class
end

function styles.penlight.construct(class, ...) return class(...) end

return styles

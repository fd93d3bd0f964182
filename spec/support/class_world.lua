-- A world of objects of many classes, and steps that use them.  The same steps,
-- run on plain objects and on objects that the library watches, are to say the
-- same: `run(functions, steps)` returns what they say, line by line.
--
-- A step is a number, the seed of all that the step chooses.

local mw = require "moonwatch"
local private = require("moonwatch.core").private
local raw_of = require "spec.support.raw_of"
local styles = require "spec.support.styles"
local support = require "support"

local class_world = {}

-- Classes ----------------------------------------------------------------

-- Each makes classes of one kind anew, so that a world can change its classes.
-- A maker returns
--
--   new       makes an object
--   class     what stands for the class
--   clone     makes an object with the same fields, without calling the class
--   fields    the table with the fields of an object, if they are elsewhere
--   keys      further keys
--   deep      false: deep watches stay out
local makers = {}

function makers.none()
  return { new = function() return { a = 1, 5, 6 } end }
end

-- Methods that write in the ways that methods do.
local function add_methods(class)
  class.limit = 10
  function class:put(key, value)
    self[key] = value
    return self
  end
  function class:push(value)
    self[#self + 1] = value
    return #self
  end
  function class:count(key)
    local n = self[key]
    self[key] = (type(n) == "number" and n or 0) + 1
    return self[key]
  end
  function class:swap()
    self.a, self.b = self.b, self.a
  end
end

local function set_fields(self)
  self.a, self.name = 1, "object"
  self[1], self[2] = 5, 6
end

for name, style in pairs(styles) do
  makers[name] = function()
    local base = style.make("Base", nil, set_fields)
    add_methods(base)
    local class = style.make("Class", base)
    function class:name_of() return self.name end
    if name == "penlight" then -- its own one takes the metatable away
      function class.__tostring() return "penlight" end
    end
    return { class = class, base = base,
      new = function() return style.construct(class) end }
  end
end

-- All operators.
function makers.operators()
  local class = { __name = "Operators", limit = 1 }
  class.__index = class
  add_methods(class)
  local function text(value)
    return type(value) == "table" and tostring(rawlen(value) >= 0) or
      tostring(value)
  end
  function class.__concat(a, b) return text(a) .. text(b) end
  function class:__call(...) return self.a, ... end
  function class:__unm() return self.a end
  function class:__len()
    local n = 0
    while self[n + 1] ~= nil do n = n + 1 end
    return n
  end
  function class:__tostring() return "<" .. tostring(self.name) .. ">" end
  function class.__eq(a, b) return a.name == b.name end
  function class.__lt(a, b) return type(a.a) < type(b.a) end
  function class.__le(a, b) return type(a.a) <= type(b.a) end
  function class:__close() self.closed = true end
  function class:__pairs() return next, self, nil end
  return { class = class, new = function()
    local self = setmetatable({}, class)
    set_fields(self)
    return self
  end }
end

-- Fields that are kept elsewhere: for tables, and for userdata.
local function elsewhere(create)
  local fields = setmetatable({}, { __mode = "k" })
  local class = { __name = "Elsewhere" }
  local methods = {}
  add_methods(methods)
  function class.__index(self, key)
    local value = fields[self][key]
    if value == nil then return methods[key] end
    return value
  end
  function class.__newindex(self, key, value)
    if key == "forbidden" then error("it is forbidden", 2) end
    fields[self][key] = value
  end
  function class.__len(self) return #fields[self] end
  function class.__pairs(self) return next, fields[self], nil end
  function class.__tostring(self) return "E" .. tostring(fields[self].a) end
  return {
    class = class, deep = false,
    new = function()
      local self = create(class)
      fields[self] = { a = 1, 5, 6 }
      return self
    end,
    fields = function(self) return fields[self] end,
    clone = function(self)
      local clone = create(class)
      fields[clone] = {}
      for key, value in next, fields[self] do fields[clone][key] = value end
      return clone
    end,
  }
end

function makers.proxy()
  return elsewhere(function(class) return setmetatable({}, class) end)
end

function makers.userdata() return elsewhere(support.userdata) end

-- No new fields, and no unknown ones.
function makers.sealed()
  local class = { __name = "Sealed" }
  add_methods(class)
  function class.__index(_, key)
    if class[key] ~= nil then return class[key] end
    error("there is no field " .. tostring(key), 2)
  end
  function class.__newindex(_, key)
    error("no new field " .. tostring(key), 2)
  end
  return { class = class, sealed = true, new = function()
    return setmetatable({ a = 1, b = 2, name = "sealed", 5, 6 }, class)
  end }
end

-- Fields that are made when they are first read.
function makers.lazy()
  local class = { __name = "Lazy" }
  add_methods(class)
  function class.__index(self, key)
    if class[key] ~= nil then return class[key] end
    if key ~= "b" and key ~= "d" then return nil end
    rawset(self, key, "made " .. key)
    if key == "d" then rawset(self, "also", "made with d") end
    return rawget(self, key)
  end
  return { class = class, lazy = true, new = function()
    return setmetatable({ a = 1, 5, 6 }, class)
  end }
end

-- The same by an assignment.
function makers.lazy_assigned()
  local class = { __name = "LazyAssigned" }
  add_methods(class)
  function class.__index(self, key)
    if class[key] ~= nil then return class[key] end
    if key ~= "b" then return nil end
    self.b = "made"
    return self.b
  end
  return { class = class, lazy = true, new = function()
    return setmetatable({ a = 1, 5, 6 }, class)
  end }
end

-- Values by default.
function makers.defaults()
  local class = { __name = "Defaults" }
  add_methods(class)
  function class.__index(self, key)
    if type(key) == "string" and #key == 1 and key ~= "a" then
      return "default " .. key .. tostring(self.a)
    end
    return class[key]
  end
  return { class = class, new = function()
    return setmetatable({ a = 1, 5, 6 }, class)
  end }
end

-- A `__newindex` that stores something else, elsewhere, twice, or not at all.
function makers.setter()
  local class = { __name = "Setter" }
  class.__index = class
  add_methods(class)
  function class.__newindex(self, key, value)
    if key == "b" then
      self.a = value
    elseif key == "c" then
      if value ~= nil then rawset(self, "_c", value) end
    elseif key == "d" then
      rawset(self, "d", tostring(value))
      if value ~= nil then rawset(self, "__d", value) end
    elseif key == "e" then
      rawset(self, "e", value)
      error("e was set", 0)
    elseif key ~= "none" then
      rawset(self, key, value)
    end
  end
  local keys = { "_c", "__d", "none" }
  return { class = class, keys = keys, puts_raw = true, new = function()
    return setmetatable({ a = 1, 5, 6 }, class)
  end }
end

-- A `__newindex` that is a table.
function makers.store()
  local store = {}
  local class = { __name = "Store", __index = store, __newindex = store }
  add_methods(class)
  return { class = class, stored = store, new = function()
    return setmetatable({ a = 1, 5, 6 }, class)
  end }
end

-- An object that is its own metatable.
function makers.itself()
  return { keys = { "__note" }, new = function()
    local self = { a = 1, 5, 6, __index = { limit = 3 } }
    return setmetatable(self, self)
  end }
end

class_world.makers = makers

-- The steps --------------------------------------------------------------

local NAMES = {}
for name in pairs(makers) do NAMES[#NAMES + 1] = name end
table.sort(NAMES)

local KEYS = { "a", "b", "c", "d", "e", "name", "__note", "forbidden", 0.5,
  true }

local World = {}
World.__index = World

local function new_random(state)
  return function(n)
    state = (state * 6364136223846793005 + 1442695040888963407)
    return (state >> 33) % n + 1
  end
end

local ADDRESS = "0[0x]%x%x%x%x+" -- on Windows with zeros instead of 0x

function World:say(...)
  local words = table.pack(...)
  for i = 1, words.n do words[i] = self:word(words[i]) end
  self.log[#self.log + 1] = table.concat(words, " ")
end

-- Objects are named by their numbers, functions are all the same.
function World:word(value)
  if self.numbers[value] then return "#" .. self.numbers[value] end
  local kind = math.type(value) or type(value)
  if kind == "string" then return (value:gsub(ADDRESS, "address")) end
  if kind == "table" or kind == "function" or kind == "userdata" then
    return kind
  end
  return kind .. ":" .. tostring(value)
end

function World:add(object, style)
  self.objects[#self.objects + 1] = object
  self.numbers[object] = #self.objects
  self.styles[object] = style
  return object
end

function World:style_of(object) return self.styles[object] end

-- The message of an error, without positions and tracebacks.
function World:message(err)
  if type(err) ~= "string" then return self:word(err) end
  err = err:match "^(.-)\nstack traceback:" or err
  return (err:gsub("^[%w_./\\]+:%d+: ", ""):gsub(ADDRESS, "address"))
end

-- Says what f(...) returns or raises.
function World:try(what, f, ...)
  local results = table.pack(pcall(f, ...))
  if results[1] then
    self:say(what, table.unpack(results, 2, results.n))
  else
    self:say(what, "error", self:message(results[2]))
  end
end

function World:object()
  return self.objects[self.random(#self.objects)]
end

-- The fields of an object, as a plain table.
function World:fields(object)
  local style = self.styles[object]
  if style.fields then return style.fields(object) end
  return self.its.contents(object)
end

function World:length(object)
  local fields, n = self:fields(object), 0
  while rawget(fields, n + 1) ~= nil do n = n + 1 end
  return n
end

-- Returns a key to write to, and whether it may be deleted.  Integers have no
-- holes, so `#` has one value.
function World:key(object)
  local random, more = self.random, self.styles[object].keys or {}
  local i = random(#KEYS + #more + 4)
  if i <= #KEYS then return KEYS[i], true end
  i = i - #KEYS
  if i <= #more then return more[i], true end
  i = i - #more
  local n = self:length(object)
  if i == 1 then return n + 1, false end
  if i == 2 and n > 0 then return n, true end
  if i == 3 and n > 0 then return random(n), false end
  return self:object(), true
end

function World:value()
  local random = self.random
  local i = random(10)
  if i <= 3 then return random(5) end
  if i == 4 then return "text " .. random(3) end
  if i == 5 then return random(2) == 1 end
  if i == 6 then return random(3) + 0.5 end
  if i == 7 and #self.objects < self.most then
    return self:add({ random(5), inner = { x = 1 } }, self.plain_style)
  end
  if i <= 8 then return self:object() end
  return nil
end

-- Sets a field as the program does, perhaps of an integer key.
function World:key_and_value(object)
  local key, deletes = self:key(object)
  local value = self:value()
  if value == nil and not deletes then value = 0 end
  return key, value
end

local function get(object, key) return object[key] end
local function set(object, key, value) object[key] = value end

local function sorted_pairs(world, object)
  local list = {}
  for key, value in pairs(object) do
    list[#list + 1] = world:word(key) .. "=" .. world:word(value)
  end
  table.sort(list)
  return table.concat(list, ", ")
end

-- What the program does.
local deeds = {}

function deeds:read(object)
  local key = self:key(object)
  self:try("read", get, object, key)
end

function deeds:write(object)
  local key, value = self:key_and_value(object)
  self:say("key", key, value)
  self:try("write", set, object, key, value)
  self:try("then", get, object, key)
  -- What a class puts in raw hides what was there: see `raw_write`.
  if self.styles[object].puts_raw then self.its.sync(object) end
end

function deeds:bad_key(object)
  self:try("bad key", set, object, self.random(2) == 1 and 0 / 0 or nil, 1)
end

function deeds:walk(object) self:try("pairs", sorted_pairs, self, object) end

function deeds:walk_array(object)
  self:try("ipairs", function()
    local list = {}
    for i, value in ipairs(object) do list[i] = self:word(value) end
    return table.concat(list, ", ")
  end)
end

function deeds:delete_in_walk(object)
  self:try("delete all", function()
    for key in pairs(object) do
      if type(key) == "string" and #key == 1 then object[key] = nil end
    end
  end)
end

function deeds:length_of(object)
  self:try("#", function() return #object end)
end

function deeds:method(object)
  local random = self.random
  local name = ({ "put", "push", "count", "swap", "name_of" })[random(5)]
  local key, value = self:key_and_value(object)
  if name == "push" or name == "count" or value == nil then
    key, value = "a", random(9)
  end
  if name == "push" then key = value end
  if name == "put" then self:say("key", key, value) end
  self:try(name, function() return object[name](object, key, value) end)
end

function deeds:inherited(object)
  self:try("limit", get, object, "limit")
end

function deeds:list(object)
  local random = self.random
  local i = random(5)
  self:try("list " .. i, function()
    if i == 1 then table.insert(object, random(9)) end
    if i == 2 then table.insert(object, 1, random(9)) end
    if i == 3 then return table.remove(object) end
    if i == 4 then return table.remove(object, 1) end
    return table.unpack(object)
  end)
end

function deeds:operators(object)
  local other = self:object()
  local operations = {
    function() return object .. "text" end, function() return -object end,
    function() return object(1, nil, 2) end, tostring,
    function() return object == other end,
    function() return object < other end,
    function() return object <= other end,
    function() return ({ [object] = 1 })[object] end,
    function() local _ <close> = object end,
  }
  local i = self.random(#operations)
  self:try("operator " .. i, operations[i], object)
end

function deeds:class(object)
  self:say("class", self.its.metatable(object))
end

-- A copy as programs make one.
function deeds:copy(object)
  if #self.objects >= self.most or self.styles[object].fields then return end
  self:try("copy", function()
    local copy = {}
    for key, value in pairs(object) do copy[key] = value end
    return self:add(setmetatable(copy, getmetatable(object)),
      self.styles[object])
  end)
end

-- In a coroutine; while it waits, others go on.
function deeds:coroutine(object)
  local key, value = self:key_and_value(object)
  local co = coroutine.create(function()
    object[key] = value
    return object[key]
  end)
  local ok, result
  repeat
    ok, result = coroutine.resume(co)
    self:say("coroutine", ok, ok and result or self:message(result))
    if key ~= "a" and self.random(3) == 1 then
      self:try("meanwhile", set, object, "a", self.random(9))
    end
  until coroutine.status(co) == "dead"
end

-- What goes around the class.
function deeds:raw_write(object)
  if self.styles[object].fields then return end
  local key, value = self:key_and_value(object)
  if value == nil or type(key) == "string" and key:find "^__" then return end
  local replaces = rawget(self:fields(object), key) ~= nil
  rawset(object, key, value)
  self:say("raw", key, value)
  self:try("then", get, object, key)
  -- Lua lets nobody see that a raw field is deleted: the former one is back.
  if replaces then self.its.sync(object) end
end

function deeds:seen_write(object)
  if type(object) ~= "table" or self.styles[object].fields then return end
  local key, value = self:key_and_value(object)
  if type(key) == "string" and key:find "^__" then return end
  self.its.set_seen(object, key, value)
  self:say("seen", key, value)
  self:try("then", get, object, key)
end

-- Several writes whose guards are called later.
function deeds:batch(object)
  local other = self:object()
  self.its.batch(function()
    for _ = 1, 4 do
      local chosen = self.random(2) == 1 and object or other
      local key, value = self:key_and_value(chosen)
      self:say("key", key, value)
      self:try("write", set, chosen, key, value)
    end
  end)
end

-- What happens to classes.
function deeds:class_field(object)
  local class = self.styles[object].class
  if not class then return end
  class.limit = self.random(99)
  self:try("limit", get, object, "limit")
end

function deeds:class_index(object)
  local class = self.styles[object].class
  local mt = self.its.metatable(object)
  if not class or self.styles[object].fields or mt == object then return end
  local former = self.former[mt] or { mt.__index }
  self.former[mt] = former
  local i = self.random(3)
  mt.__index = former[1]
  if i == 2 then
    mt.__index = function(_, key)
      local index = former[1]
      if type(index) == "table" then return index[key] end
      return type(key) == "string" and #key == 1 and "later " .. key or nil
    end
  elseif i == 3 then
    mt.__index = { limit = "later" }
  end
  self.its.refresh(mt)
  self:say("__index", i)
  self:try("limit", get, object, "limit")
end

function deeds:class_newindex(object)
  local class = self.styles[object].class
  local mt = self.its.metatable(object)
  if not class or self.styles[object].fields or mt == object then return end
  local former = self.former_newindex[mt] or { mt.__newindex }
  self.former_newindex[mt] = former
  local i = self.random(4)
  mt.__newindex = former[1]
  if i == 2 then mt.__newindex = nil end
  if i == 3 then
    mt.__newindex = function() error("sealed later", 2) end
  elseif i == 4 then
    mt.__newindex = function(its, key, value)
      rawset(its, key, type(value) == "number" and value + 1 or value)
    end
  end
  self.its.refresh(mt)
  self:say("__newindex", i)
end

function deeds:class_operator(object)
  local mt = self.its.metatable(object)
  if not mt or mt == object then return end
  local n = self.random(9)
  mt.__unm = function() return n end
  self.its.refresh(mt)
  self:try("unary minus", function() return -object end)
end

function deeds:set_metatable(object)
  if type(object) ~= "table" or self.styles[object].fields then return end
  local other = self:object()
  if type(other) ~= "table" or self.styles[other].fields then return end
  local mt = self.its.metatable(other)
  if mt == other or self.its.metatable(object) == object then return end
  self.its.setmetatable(object, mt)
  self.styles[object] = self.styles[other]
  self:say("metatable of", other)
end

-- What only the library knows.
function deeds:watch(object)
  self.its.watch(object, self.random(9), self:key(object))
end

function deeds:deep(object)
  local i = self.random(3)
  if type(object) == "table" then
    self.its.deep(object, i)
  end
end

function deeds:track(object) self.its.track(object) end
function deeds:untrack(object) self.its.untrack(object) end
function deeds:cancel() self.its.cancel(self.random(1000)) end
function deeds:sync(object) self.its.sync(object) end
function deeds:touch(object) self.its.touch(object, self:key(object)) end

function deeds:unwatch(object)
  if self.random(2) == 1 then self.its.unwatch(object) end
end

function deeds:watch_class(object)
  local style, random = self.styles[object], self.random
  local class = random(2) == 1 and style.base or style.class
  local way = random(9)
  if class then
    self.its.watch(class, way, "limit")
  end
end

function deeds:collect()
  if self.random(8) == 1 then collectgarbage() end
end

-- The guard's log begins anew, or is compared with the object.
function deeds:log_of(object)
  self:say("log", self.its.compare(self, object))
  self.its.record(self, object)
end

-- How often each is done.
local WEIGHTS = { read = 8, write = 14, bad_key = 1, walk = 4, walk_array = 1,
  delete_in_walk = 1, length_of = 2, method = 5, inherited = 2, list = 3,
  operators = 5, class = 1, copy = 1, coroutine = 4, raw_write = 2,
  seen_write = 1, class_field = 1, class_index = 1, class_newindex = 1,
  class_operator = 1, set_metatable = 1, watch = 4, deep = 1, track = 2,
  untrack = 1, cancel = 2, sync = 1, touch = 1, batch = 1, unwatch = 2,
  watch_class = 1, collect = 1, log_of = 3 }

local CHOICE = {}
for name, n in pairs(WEIGHTS) do
  for _ = 1, n do CHOICE[#CHOICE + 1] = name end
end
table.sort(CHOICE)

-- The contents of all objects, whatever the classes say.
function World:show()
  for i, object in ipairs(self.objects) do
    local list = {}
    self.its.sync(object)
    for key, value in next, self:fields(object) do
      list[#list + 1] = self:word(key) .. "=" .. self:word(value)
    end
    table.sort(list)
    self:say("#" .. i, "is", table.concat(list, ", "))
  end
end

local MOST = 30

--- Runs the steps with `functions`: those of `class_world.plain` or
-- `class_world.real`.  Returns the lines that the steps have said.
function class_world.run(functions, steps)
  local world = setmetatable({ log = {}, objects = {}, numbers = {},
    styles = {}, former = {}, former_newindex = {}, most = MOST,
    its = functions(), plain_style = makers.none() }, World)
  for _, name in ipairs(NAMES) do
    local style = makers[name]()
    world:add(style.new(), style)
    world:add(style.new(), style)
    if style.class then world.numbers[style.class] = name end
  end
  for n, step in ipairs(steps) do
    world.random = new_random(step)
    local deed = CHOICE[world.random(#CHOICE)]
    local object = world:object()
    world:say(n .. ":", deed, object)
    deeds[deed](world, object)
    if n % 50 == 0 then world:show() end
  end
  for _, object in ipairs(world.objects) do
    world.random = new_random(1)
    deeds.log_of(world, object)
    world:try("#", function() return #object end)
    world:try("pairs", sorted_pairs, world, object)
    world.its.untrack(object)
    world.its.unwatch(object)
    world:try("pairs", sorted_pairs, world, object)
  end
  for _, object in ipairs(world.objects) do world.its.unwatch(object) end
  for i, object in ipairs(world.objects) do
    world:say(i, type(object) == "table" and rawlen(object),
      debug.getmetatable(object))
  end
  world:show()
  return world.log
end

-- The functions ----------------------------------------------------------

local function nothing() end

local function class_of(object) return private.metatable(object) end

--- Those of plain objects.
function class_world.plain()
  return {
    contents = function(object) return object end,
    metatable = class_of, setmetatable = setmetatable, set_seen = rawset,
    compare = function() return "holds" end, record = nothing,
    refresh = nothing, watch = nothing, deep = nothing, track = nothing,
    untrack = nothing, cancel = nothing, sync = nothing, unwatch = nothing,
    touch = nothing, batch = function(f) f() end,
  }
end

local seeing = {}
mw.see_through(seeing)

local Real = {}

-- With what was put into the object raw.
function Real.contents(object)
  local fields = {}
  for key, value in next, raw_of(object) do fields[key] = value end
  for key, value in next, object do fields[key] = value end
  return fields
end

Real.metatable, Real.setmetatable = class_of, mw.setmetatable
Real.track, Real.untrack, Real.sync = mw.track, mw.untrack, mw.sync
Real.refresh, Real.touch = mw.refresh, mw.touch

local WATCHES = {
  { once = true }, { once = false }, { once = false, key = true },
  { keys = true }, { phase = "after", once = false },
  { equal = "skip", once = false }, { guard = mw.guard },
  { guard = function() return { invalidate = nothing } end, once = false },
  { equal = "skip", phase = "after", key = true, once = false },
}

local MANY = 40

-- The functions of one run, which has handles, guards and logs.
--- Those of objects that are watched.
function class_world.real()
  local handles, guards, logs = {}, {}, {}
  local its = {}

  local function keep(handle)
    if #handles > MANY then table.remove(handles, 1):cancel() end
    handles[#handles + 1] = handle
  end

  function its.watch(object, way, key)
    local kind, opts = WATCHES[way], {}
    for name, value in pairs(kind) do opts[name] = value end
    opts.guard = nil
    if kind.key then opts.key = key end
    if kind.keys then opts.keys = { key, "a" } end
    local guard = kind.guard and kind.guard() or nothing
    guards[#guards + 1] = guard
    keep(mw.watch(object, guard, opts))
  end

  function its.deep(object, way)
    if way == 1 then
      mw.track(object, { deep = true })
    else
      keep(mw.watch(object, nothing, { deep = true, once = way == 2 }))
    end
  end

  function its.cancel(n)
    if #handles > 0 then
      table.remove(handles, n % #handles + 1):cancel()
    end
  end

  local function drop_log(object)
    if logs[object] then logs[object].handle:cancel() end
    logs[object] = nil
  end

  function its.unwatch(object)
    drop_log(object)
    mw.unwatch(object)
  end

  -- Guards hear of one write only.
  function its.batch(f)
    for object in pairs(logs) do drop_log(object) end
    mw.batch(f)
  end

  -- Guards hear nothing of that.
  function its.set_seen(object, key, value)
    drop_log(object)
    seeing.rawset(object, key, value)
  end

  local function clone_of(world, object)
    local style = world.styles[object]
    if style.clone then return style.clone(object) end
    local clone, mt = Real.contents(object), class_of(object)
    return setmetatable(clone, rawequal(mt, object) and clone or mt)
  end

  -- The log is replayed at once, on a clone.  Lua lets nobody see that a field
  -- that was put in raw is deleted: the log begins when none is left.
  function its.record(world, object)
    mw.sync(object)
    local clone = clone_of(world, object)
    local function replay(_, key, _, new, kind)
      if kind == "raw" then
        rawset(clone, key, new)
      elseif kind == "metatable" then
        setmetatable(clone, new)
      elseif kind ~= "touch" then
        pcall(set, clone, key, new)
      end
    end
    drop_log(object)
    logs[object] = { clone = clone,
      handle = mw.watch(object, replay, { once = false }) }
  end

  local function text_of(world, fields)
    local list = {}
    for key, value in next, fields do
      list[#list + 1] = world:word(key) .. "=" .. world:word(value)
    end
    table.sort(list)
    return table.concat(list, ", ")
  end

  function its.compare(world, object)
    local log = logs[object]
    if not log then return "holds" end
    mw.sync(object)
    world.styles[log.clone] = world.styles[object]
    local fields = world:fields(log.clone)
    world.styles[log.clone] = nil
    local got, expected = text_of(world, fields),
      text_of(world, world:fields(object))
    return got == expected and "holds" or got .. " instead of " .. expected
  end

  return setmetatable(its, { __index = Real })
end

-- Comparing --------------------------------------------------------------

--- Runs the steps on plain and on watched objects.  Returns the number of the
-- first line in which they differ, with the lines of both; or nil.
function class_world.compare(steps)
  local plain = class_world.run(class_world.plain, steps)
  local ok, real = xpcall(class_world.run, debug.traceback, class_world.real,
    steps)
  if not ok then return #plain, plain, { [#plain] = real } end
  for i = 1, math.max(#plain, #real) do
    if plain[i] ~= real[i] then return i, plain, real end
  end
end

local function without(steps, first, n)
  local rest = table.move(steps, 1, first - 1, 1, {})
  return table.move(steps, first + n, #steps, first, rest)
end

--- Returns as few of the steps as make a difference.
function class_world.shrink(steps)
  local n = #steps // 2
  while n > 0 do
    local i = 1
    while i <= #steps do
      local rest = without(steps, i, n)
      if class_world.compare(rest) then
        steps = rest
      else
        i = i + n
      end
    end
    n = n // 2
  end
  return steps
end

return class_world

--- A reader of definition files for the Lua language server (LuaCATS).
-- SPDX-License-Identifier: MIT
--
--     definitions  { module = class, classes = { name -> class },
--                    aliases = { name -> type }, mistakes = { text } }
--     class        { name, parent, members = { name -> member }, call,
--                    is_table }
--     member       { type } for a field, { forms = { type }, is_method } for a
--                  function; a form is the type of a function
--     type         { tag = "name", name, args }    { tag = "literal", value }
--                  { tag = "union", list }    { tag = "array", of }
--                  { tag = "fun", params, returns }    { tag = "struct" }
--     parameter    { name, type, optional }
--
-- `is_table` classes are those without a variable: programs write such tables.

local luacats = {}

-- {======================================================
-- Types
-- =======================================================

local Reader = {}
Reader.__index = Reader

function Reader:take(pattern)
  local from, to, found = self.text:find("^%s*(" .. pattern .. ")", self.at)
  if not from then return nil end
  self.at = to + 1
  return found
end

function Reader:need(pattern, what)
  return self:take(pattern) or
    error(("%s expected in '%s'"):format(what, self.text), 0)
end

-- Reads a list of parameters up to the closing bracket.
function Reader:parameters()
  local list = {}
  while not self:take "%)" do
    local name = self:take "%.%.%." or self:need("[%a_][%w_]*", "name")
    local mark = self:take "%?"
    local its_type = self:take ":" and self:type() or { tag = "name",
      name = "any" }
    list[#list + 1] = { name = name, type = its_type, optional = mark ~= nil }
    self:take ","
  end
  return list
end

function Reader:fun()
  self:need("%(", "'('")
  local its = { tag = "fun", params = self:parameters(), returns = {} }
  if self:take ":" then
    repeat its.returns[#its.returns + 1] = self:type() until not self:take ","
  end
  return its
end

function Reader:single()
  local literal = self:take '"[^"]*"'
  if literal then return { tag = "literal", value = literal:sub(2, -2) } end
  if self:take "%.%.%." then return { tag = "name", name = "any" } end
  if self:take "%(" then
    local list = { self:type() }
    while self:take "," do list[#list + 1] = self:type() end
    self:need("%)", "')'")
    list[1].more = list
    return list[1]
  end
  if self:take "%b{}" then return { tag = "struct" } end
  local name = self:need("[%a_][%w_.*]*", "type")
  if name == "fun" then return self:fun() end
  local its = { tag = "name", name = name }
  if self:take "<" then
    its.args = {}
    repeat its.args[#its.args + 1] = self:type() until not self:take ","
    self:need(">", "'>'")
  end
  return its
end

local NIL = { tag = "name", name = "nil" }

function Reader:type()
  local list = {}
  repeat
    local its = self:single()
    while true do
      if self:take "%[%]" then
        its = { tag = "array", of = its }
      elseif self:take "%?" then
        list[#list + 1] = NIL
      else
        break
      end
    end
    list[#list + 1] = its
  until not self:take "|"
  return #list == 1 and list[1] or { tag = "union", list = list }
end

-- Reads a type at the begin of a text.  Returns the rest of the text, too.
local function read_type(text)
  local reader = setmetatable({ text = text, at = 1 }, Reader)
  local its = reader:type()
  return its, text:sub(reader.at)
end

-- }======================================================

-- {======================================================
-- Annotations
-- =======================================================

local File = {}
File.__index = File

function File:class(rest)
  local name, parent = rest:match "^([%w_.]+) ?:? ?([%w_.]*)"
  local class = { name = name, parent = parent ~= "" and parent or nil,
    members = {}, is_table = true }
  if self.classes[name] then self:mistake("two classes " .. name) end
  self.classes[name], self.current = class, class
end

function File:field(rest)
  local name, mark, text = rest:match "^(%S-)(%??) (.*)$"
  self.current.members[name] = { type = read_type(text),
    optional = mark == "?" }
end

function File:alias(rest)
  local name, text = rest:match "^(%S+) ?(.*)$"
  if text ~= "" then
    self.aliases[name] = read_type(text)
  else
    self.values = { tag = "union", list = {} }
    self.aliases[name] = self.values
  end
end

function File:overload(rest)
  if self.current and not next(self.block) then
    self.current.call = read_type(rest)
  else
    self.block.overloads = self.block.overloads or {}
    table.insert(self.block.overloads, (read_type(rest)))
  end
end

function File:param(rest)
  local name, mark, text = rest:match "^(%S-)(%??) (.*)$"
  self.block.params = self.block.params or {}
  table.insert(self.block.params, { name = name, type = read_type(text),
    optional = mark == "?" })
end

File["return"] = function(self, rest)
  self.block.returns = self.block.returns or {}
  table.insert(self.block.returns, (read_type(rest)))
end

function File:generic(rest)
  self.block.generics = self.block.generics or {}
  for name in (rest .. ","):gmatch "(%w+)%s*:?[^,]*," do
    self.block.generics[name] = true
  end
end

function File:meta(rest) self.module = rest end

function File:mistake(text)
  self.mistakes[#self.mistakes + 1] = ("line %d: %s"):format(self.line, text)
end

-- Adds a function with the annotations above the function.
function File:func(variable, separator, name, list)
  local class, block = self.variables[variable], self.block
  if not class then
    return self:mistake("no variable " .. variable)
  end
  local names = {}
  for i, p in ipairs(block.params or {}) do names[i] = p.name end
  if table.concat(names, ", ") ~= list then
    self:mistake("the parameters of " .. name .. " are others")
  end
  if class.members[name] then self:mistake("two members " .. name) end
  local forms = { { tag = "fun", params = block.params or {},
    returns = block.returns or {}, generics = block.generics } }
  table.move(block.overloads or {}, 1, #(block.overloads or {}), 2, forms)
  class.members[name] = { forms = forms, is_method = separator == ":" }
end

function File:read_line(line)
  local tag, rest = line:match "^%-%-%-@(%a+) ?(.*)$"
  local value = line:match '^%-%-%-| "([^"]*)"'
  local variable = line:match "^local ([%w_]+) = {}$"
  local object, separator, name, list = line:match(
    "^function ([%w_]+)([.:])([%w_]+)%((.-)%) end$")
  if tag then
    if not self[tag] then return self:mistake("unknown @" .. tag) end
    self[tag](self, rest)
  elseif value then
    table.insert(self.values.list, { tag = "literal", value = value })
  elseif variable then
    self.variables[variable], self.current.is_table = self.current, nil
    self.current = nil
  elseif name then
    self:func(object, separator, name, list)
    self.block = {}
  elseif not line:find "^%-%-" and line ~= "" and not line:find "^return " then
    self:mistake("what is '" .. line .. "'?")
  end
end

-- }======================================================

-- {======================================================
-- Names of types
-- =======================================================

local KNOWN = {}
for name in ([[any nil boolean integer number string table function userdata
  thread lightuserdata unknown]]):gmatch "%a+" do
  KNOWN[name] = true
end

-- Calls `f(name)` for each name in a type.
local function each_name(its, f)
  if its.tag == "name" then f(its.name) end
  if its.of then each_name(its.of, f) end
  for _, list in ipairs { its.list or {}, its.args or {},
    its.returns or {} } do
    for _, part in ipairs(list) do each_name(part, f) end
  end
  for _, p in ipairs(its.params or {}) do each_name(p.type, f) end
end

-- Adds a mistake for each name of a type that nothing defines.
local function check_names(self)
  local function check(its, where, generics)
    each_name(its, function(name)
      if not (KNOWN[name] or self.classes[name] or self.aliases[name] or
        generics and generics[name]) then
        self.mistakes[#self.mistakes + 1] = where .. ": no type " .. name
      end
    end)
  end
  for name, its in pairs(self.aliases) do check(its, name) end
  for class_name, class in pairs(self.classes) do
    if class.parent and not self.classes[class.parent] then
      self.mistakes[#self.mistakes + 1] = "no class " .. class.parent
    end
    for name, member in pairs(class.members) do
      local where = class_name .. "." .. name
      if member.type then check(member.type, where) end
      for _, form in ipairs(member.forms or {}) do
        check(form, where, form.generics)
      end
    end
  end
end

-- }======================================================

--- Reads a definition file.
function luacats.read(text)
  local self = setmetatable({ classes = {}, aliases = {}, variables = {},
    mistakes = {}, block = {}, line = 0 }, File)
  for line in text:gmatch "([^\n]*)\n" do
    self.line = self.line + 1
    local ok, message = pcall(self.read_line, self, line)
    if not ok then self:mistake(message) end
  end
  check_names(self)
  return { module = self.classes[self.module], classes = self.classes,
    aliases = self.aliases, mistakes = self.mistakes }
end

--- Returns the member of a class or of the classes above it, or nil.
function luacats.member(definitions, class, name)
  while class do
    if class.members[name] then return class.members[name] end
    class = definitions.classes[class.parent]
  end
end

return luacats

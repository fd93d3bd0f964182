--- The check of examples: do calls of the library fit the definition file?
-- SPDX-License-Identifier: MIT
--
-- The check follows the library from `require` through local variables and the
-- results of calls.  Each value has a type (see luacats.lua), or none where the
-- check does not know; then everything is right.  A class and the definitions
-- are looked up by name.

local luacats = require "docs.make.luacats"
local parse = require "docs.make.parser"

local Check = {}
Check.__index = Check

function Check:complain(node, ...)
  self.mistakes[#self.mistakes + 1] = ("line %d: %s"):format(node.line,
    (...):format(select(2, ...)))
end

-- {======================================================
-- Scopes
-- =======================================================

-- A scope has the variables of a block; `false` is a variable of no known type.
function Check:open()
  self.scope = setmetatable({}, { __index = self.scope })
end

function Check:close() self.scope = getmetatable(self.scope).__index end

function Check:declare(name, its) rawset(self.scope, name, its or false) end

-- A variable that gets another value has no known type any more.
function Check:forget(name)
  local scope = self.scope
  while scope and rawget(scope, name) == nil do
    local meta = getmetatable(scope)
    scope = meta and meta.__index
  end
  if scope then scope[name] = false end
end

-- }======================================================

-- {======================================================
-- Types
-- =======================================================

local function named(name) return { tag = "name", name = name } end

function Check:class_of(its)
  if not its or its.tag ~= "name" then return nil end
  return self.definitions.classes[its.name]
end

local BASE = {
  string = { string = true }, number = { number = true, integer = true },
  ["true"] = { boolean = true }, ["false"] = { boolean = true },
  ["nil"] = { ["nil"] = true }, table = { table = true },
  ["function"] = { ["function"] = true },
}

-- The types of Lua, as definitions call them.
local LUA = { ["nil"] = true, boolean = true, integer = true, number = true,
  string = true, table = true, ["function"] = true, userdata = true,
  lightuserdata = true, thread = true }

-- Returns what is wrong with the items of a table that a class describes, or
-- nil.
function Check:mistake_in_items(node, class)
  local given = {}
  for i, item in ipairs(node.items) do
    local name = item.key and item.key.tag == "string" and item.key.value or
      not item.key and ("[%d]"):format(i)
    if name then
      given[name] = true
      local member = luacats.member(self.definitions, class, name)
      if not member then
        return ("%s has no field '%s'"):format(class.name, name)
      end
      local mistake = self:mistake(item.value, member.type)
      if mistake then return ("field '%s': %s"):format(name, mistake) end
    end
  end
  for name, member in pairs(class.members) do
    if not (given[name] or member.optional) then
      return ("field '%s' of %s is missing"):format(name, class.name)
    end
  end
end

function Check:mistake_of_union(node, its)
  local first
  for _, part in ipairs(its.list) do
    local mistake = self:mistake(node, part)
    if not mistake then return nil end
    if not first or mistake:find "field" then first = mistake end
  end
  return first
end

function Check:mistake_of_name(node, its, value)
  local alias = self.definitions.aliases[its.name]
  if alias then return self:mistake(node, alias) end
  local class = self.definitions.classes[its.name]
  if its.name == "any" or not class and not LUA[its.name] then
    return nil -- or the name of a generic type
  end
  if class and class.is_table and node.tag == "table" then
    return self:mistake_in_items(node, class)
  elseif BASE[node.tag] then
    if BASE[node.tag][its.name] then return nil end
  elseif not value or value.tag ~= "name" or not self:class_of(value) then
    return nil
  elseif value.name == its.name or its.name == "table" or
    its.name == "userdata" then
    return nil
  elseif self:class_of(value).parent == its.name then
    return nil
  end
  return ("%s expected"):format(its.name)
end

-- Returns what is wrong with an expression as a value of a type, or nil.
function Check:mistake(node, its)
  if not its then return nil end
  local value = self:type_of(node)
  if its.tag == "union" then
    return self:mistake_of_union(node, its)
  elseif its.tag == "literal" then
    if node.tag == "string" and node.value == its.value or
      not BASE[node.tag] then return nil end
    return ("'%s' expected"):format(its.value)
  elseif its.tag == "name" then
    return self:mistake_of_name(node, its, value)
  elseif its.tag == "fun" then
    if not BASE[node.tag] or node.tag == "function" then return nil end
    return "function expected"
  elseif its.tag == "array" and node.tag == "table" then
    for _, item in ipairs(node.items) do
      local mistake = not item.key and self:mistake(item.value, its.of)
      if mistake then return mistake end
    end
  elseif (its.tag == "array" or its.tag == "struct") and BASE[node.tag] and
    node.tag ~= "table" then
    return "table expected"
  end
end

-- }======================================================

-- {======================================================
-- Calls
-- =======================================================

local OPEN = { call = true, method = true, vararg = true }

-- Can a parameter of this type be left out?
local function takes_nil(its)
  return its.tag == "name" and its.name == "any"
end

-- Returns what is wrong with the arguments for one form of a function, or nil.
function Check:mistake_in_call(form, args)
  local least, most = 0, #form.params
  for i, p in ipairs(form.params) do
    if p.name == "..." then
      most = math.huge
    elseif not p.optional and not takes_nil(p.type) then
      least = i
    end
  end
  local is_open = args[1] and OPEN[args[#args].tag]
  if #args > most and not (is_open and #args - 1 <= most) then
    return ("%d arguments, at most %d"):format(#args, most)
  elseif #args < least and not is_open then
    return ("%d arguments, at least %d"):format(#args, least)
  end
  for i, arg in ipairs(args) do
    local p = form.params[math.min(i, #form.params)]
    local is_nil = arg.tag == "nil" and p and p.optional
    local mistake = p and not is_nil and self:mistake(arg, p.type)
    if mistake then return ("argument %d: %s"):format(i, mistake) end
  end
end

-- Checks the arguments for all forms of a function.  Returns the form that
-- fits.
function Check:call(node, name, forms, args)
  local first
  for _, form in ipairs(forms) do
    local mistake = self:mistake_in_call(form, args)
    if not mistake then return form end
    first = first or mistake
  end
  self:complain(node, "'%s': %s", name, first)
end

-- Returns the type of a result; a generic type is that of an argument.
local function result(check, form, args, i)
  local its = form and form.returns[i]
  if not its then return nil end
  if its.tag == "name" and form.generics and form.generics[its.name] then
    for at, p in ipairs(form.params) do
      if p.type.tag == "name" and p.type.name == its.name and args[at] then
        return check:type_of(args[at])
      end
    end
    return nil
  end
  for _, part in ipairs(its.list or {}) do -- what may be nil
    if part.name ~= "nil" then return part end
  end
  return its
end

-- Returns the types of all results of a call.
function Check:results(node)
  if node.results then return node.results end
  node.results = {}
  local form = self:form_of(node)
  for i = 1, form and #form.returns or 0 do
    node.results[i] = result(self, form, node.args, i) or false
  end
  return node.results
end

local function global(node, name)
  return node.tag == "name" and node.name == name
end

-- Returns the member of a library's object that an expression reads, and the
-- name of the class; complains if there is none.
function Check:member_of(node, obj, name)
  local class = self:class_of(self:type_of(obj))
  if not class then return nil end
  local member = luacats.member(self.definitions, class, name)
  if not member then
    self:complain(node, "%s has no '%s'", class.name, name)
  end
  return member, class
end

-- Checks a call.  Returns the form of the function, or nil.
function Check:form_of(node)
  if node.tag == "method" then
    local member = self:member_of(node, node.obj, node.name)
    if not member then return nil end
    if member.forms and not member.is_method then
      return self:complain(node, "'%s' is no method: use a dot", node.name)
    end
    return member.forms and self:call(node, node.name, member.forms, node.args)
  end
  local fn = node.fn
  if fn.tag == "index" and fn.key.tag == "string" then
    local member = self:member_of(node, fn.obj, fn.key.value)
    if not member then return nil end
    if member.is_method then
      return self:complain(node, "'%s' is a method: use a colon", fn.key.value)
    elseif member.forms then
      return self:call(node, fn.key.value, member.forms, node.args)
    end
  end
  local class = self:class_of(self:type_of(fn))
  if not class then return nil end
  if not class.call then
    return self:complain(node, "%s cannot be called", class.name)
  end
  return self:call(node, class.name, { class.call }, node.args)
end

-- }======================================================

-- {======================================================
-- Expressions
-- =======================================================

local types = {}

function types:name(node) return self.scope[node.name] or nil end

function types:paren(node) return self:type_of(node.a) end

function types:index(node)
  self:type_of(node.key)
  if node.key.tag ~= "string" then
    self:type_of(node.obj)
    return nil
  end
  local member = self:member_of(node, node.obj, node.key.value)
  return member and member.type
end

function types:call(node)
  for _, arg in ipairs(node.args) do self:type_of(arg) end
  local first = node.args[1]
  if global(node.fn, "require") and first and
    first.value == self.definitions.module.name then
    return named(self.definitions.module.name)
  elseif global(node.fn, "assert") and first then
    node.results = OPEN[first.tag] and first.args and self:results(first) or
      { self:type_of(first) }
  elseif node.fn.tag ~= "index" then
    self:type_of(node.fn)
  end
  return self:results(node)[1] or nil
end

function types:method(node)
  for _, arg in ipairs(node.args) do self:type_of(arg) end
  return self:results(node)[1] or nil
end

types["function"] = function(self, node)
  self:open()
  for _, name in ipairs(node.params) do self:declare(name) end
  self:block(node.body)
  self:close()
end

function types:table(node)
  for _, item in ipairs(node.items) do
    if item.key then self:type_of(item.key) end
    self:type_of(item.value)
  end
end

function types:operation(node)
  self:type_of(node.a)
  if node.b then self:type_of(node.b) end
end

-- Returns the type of an expression, or nil; checks what is in it once.
function Check:type_of(node)
  if node.type == nil then
    node.type = false
    node.type = types[node.tag] and types[node.tag](self, node) or false
  end
  return node.type or nil
end

-- Returns the types of a list of expressions, of which the last may be a call
-- with several results.
function Check:types_of(values)
  local list = {}
  for i, value in ipairs(values) do
    list[i] = self:type_of(value) or false
    if i == #values and value.args then
      for k, its in ipairs(self:results(value)) do
        if k > 1 then list[i + k - 1] = its end
      end
    end
  end
  return list
end

-- }======================================================

-- {======================================================
-- Statements
-- =======================================================

local statements = {}

statements["local"] = function(self, node)
  local list = self:types_of(node.values)
  for i, name in ipairs(node.names) do self:declare(name, list[i]) end
end

function statements:localfunction(node)
  self:declare(node.name)
  self:type_of(node.fn)
end

-- A program sets no field of an object of the library.
function Check:check_target(target)
  if target.tag ~= "index" then return end
  local class = self:class_of(self:type_of(target.obj))
  if class and not class.is_table then
    self:complain(target, "a field of %s is set", class.name)
  end
end

function statements:assign(node)
  self:types_of(node.values)
  for _, target in ipairs(node.targets) do
    if target.tag == "name" then
      self:forget(target.name)
    else
      self:type_of(target.obj)
      self:type_of(target.key)
      self:check_target(target)
    end
  end
end

statements["call statement"] = function(self, node) self:type_of(node.call) end

statements["return"] = function(self, node) self:types_of(node.values) end

function statements:block(node)
  for _, value in ipairs(node.values) do self:type_of(value) end
  for _, body in ipairs(node.bodies) do
    self:open()
    self:block(body)
    self:close()
  end
end

function statements:fornum(node)
  self:types_of(node.values)
  self:open()
  self:declare(node.name)
  self:block(node.body)
  self:close()
end

function statements:forin(node)
  local first = self:types_of(node.values)[1]
  local results = first and first.tag == "fun" and first.returns or {}
  results = results[1] and results[1].more or results
  self:open()
  for i, name in ipairs(node.names) do self:declare(name, results[i]) end
  self:block(node.body)
  self:close()
end

function Check:block(list)
  for _, node in ipairs(list) do statements[node.tag](self, node) end
end

-- }======================================================

--- Returns the mistakes in a program as an array of texts.
return function(text, definitions)
  local self = setmetatable({ definitions = definitions, mistakes = {},
    scope = {} }, Check)
  local ok, list = pcall(parse, (text:gsub("^#![^\n]*", "")))
  if not ok then return { list } end
  self:block(list)
  return self.mistakes
end

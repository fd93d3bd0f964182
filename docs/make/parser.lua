--- A parser of Lua 5.4, for the check of examples.
-- SPDX-License-Identifier: MIT
--
-- A program is a list of statements.  Statements and expressions are tables
-- with a `tag` and a `line`:
--
--     expressions  name { name }    index { obj, key }    call { fn, args }
--                  method { obj, name, args }    function { params, body }
--                  table { items = { { key, value } } }    string { value }
--                  number { value }  true  false  nil  vararg
--                  operation { a, b }    paren { a }
--     statements   local { names, values }    assign { targets, values }
--                  call { call }    block { bodies, values }
--                  fornum { name, values, body }    forin { names, values,
--                  body }    localfunction { name, fn }    return { values }
--
-- `block` is each other statement with expressions and bodies: do, while,
-- repeat, if.

local tokens = require "docs.make.tokens"

local Parser = {}
Parser.__index = Parser

-- {======================================================
-- Tokens
-- =======================================================

function Parser:next()
  self.at = self.at + 1
  self.token = self.list[self.at]
end

-- Is the next token this name or symbol?
function Parser:sees(text)
  return self.token.text == text and self.token.kind ~= "string"
end

function Parser:accept(text)
  if not self:sees(text) then return false end
  self:next()
  return true
end

function Parser:fail(expected)
  error(("line %d: %s expected near '%s'"):format(self.token.line, expected,
    self.token.text), 0)
end

function Parser:expect(text)
  if not self:accept(text) then self:fail("'" .. text .. "'") end
end

function Parser:name()
  local token = self.token
  if token.kind ~= "name" then self:fail "name" end
  self:next()
  return token.text
end

function Parser:node(tag, node)
  node = node or {}
  node.tag, node.line = tag, node.line or self.token.line
  return node
end

-- }======================================================

-- {======================================================
-- Expressions
-- =======================================================

local LEFT = {
  ["or"] = 1, ["and"] = 2, ["<"] = 3, [">"] = 3, ["<="] = 3, [">="] = 3,
  ["~="] = 3, ["=="] = 3, ["|"] = 4, ["~"] = 5, ["&"] = 6, ["<<"] = 7,
  [">>"] = 7, [".."] = 9, ["+"] = 10, ["-"] = 10, ["*"] = 11, ["/"] = 11,
  ["//"] = 11, ["%"] = 11, ["^"] = 14,
}
local RIGHT = { [".."] = 8, ["^"] = 13 }
local UNARY = { ["not"] = true, ["#"] = true, ["-"] = true, ["~"] = true }
local PRIORITY_OF_UNARY = 12

function Parser:expressions()
  local list = { self:expression() }
  while self:accept "," do list[#list + 1] = self:expression() end
  return list
end

function Parser:item()
  if self:accept "[" then
    local key = self:expression()
    self:expect "]"
    self:expect "="
    return { key = key, value = self:expression() }
  end
  local after = self.list[self.at + 1]
  if self.token.kind == "name" and after.text == "=" and
    after.kind == "symbol" then
    local key = self:node("string", { value = self:name() })
    self:expect "="
    return { key = key, value = self:expression() }
  end
  return { value = self:expression() }
end

function Parser:constructor()
  local node = self:node("table", { items = {} })
  self:expect "{"
  while not self:sees "}" do
    node.items[#node.items + 1] = self:item()
    if not (self:accept "," or self:accept ";") then break end
  end
  self:expect "}"
  return node
end

function Parser:body()
  local node = self:node("function", { params = {} })
  self:expect "("
  while not self:accept ")" do
    if self:accept "..." then
      node.is_vararg = true
    else
      node.params[#node.params + 1] = self:name()
    end
    if not self:sees ")" then self:expect "," end
  end
  node.body = self:block()
  self:expect "end"
  return node
end

function Parser:arguments()
  if self.token.kind == "string" then
    local node = self:node("string", { value = self.token.text })
    self:next()
    return { node }
  elseif self:sees "{" then
    return { self:constructor() }
  end
  self:expect "("
  if self:accept ")" then return {} end
  local list = self:expressions()
  self:expect ")"
  return list
end

function Parser:primary()
  local node
  if self:sees "(" then
    node = self:node "paren"
    self:next()
    node.a = self:expression()
    self:expect ")"
  else
    node = self:node "name"
    node.name = self:name()
  end
  while true do
    local line = self.token.line
    if self:accept "." then
      local key = self:node("string", { value = self:name() })
      node = self:node("index", { obj = node, key = key, line = line })
    elseif self:accept "[" then
      node = self:node("index", { obj = node, key = self:expression(),
        line = line })
      self:expect "]"
    elseif self:accept ":" then
      local name = self:name()
      node = self:node("method", { obj = node, name = name, line = line,
        args = self:arguments() })
    elseif self:sees "(" or self:sees "{" or self.token.kind == "string" then
      node = self:node("call", { fn = node, line = line,
        args = self:arguments() })
    else
      return node
    end
  end
end

local CONSTANTS = { ["nil"] = "nil", ["true"] = "true", ["false"] = "false",
  ["..."] = "vararg" }

function Parser:simple()
  local token = self.token
  local node = self:node(CONSTANTS[token.text] or token.kind)
  if token.kind == "string" or token.kind == "number" then
    node.tag, node.value = token.kind, token.text
    self:next()
    return node
  elseif CONSTANTS[token.text] then
    self:next()
    return node
  elseif self:sees "{" then
    return self:constructor()
  elseif self:accept "function" then
    return self:body()
  end
  return self:primary()
end

function Parser:expression(limit)
  local a
  if UNARY[self.token.text] and self.token.kind ~= "string" then
    a = self:node("operation", { operator = self.token.text })
    self:next()
    a.a = self:expression(PRIORITY_OF_UNARY)
  else
    a = self:simple()
  end
  while self.token.kind ~= "string" do
    local operator = self.token.text
    local left = LEFT[operator]
    if not left or left <= (limit or 0) then break end
    local node = self:node("operation", { a = a, operator = operator })
    self:next()
    node.b = self:expression(RIGHT[operator] or left)
    a = node
  end
  return a
end

-- }======================================================

-- {======================================================
-- Statements
-- =======================================================

local statements = {}

function statements:local_(node)
  if self:accept "function" then
    node.name = self:name()
    node.fn = self:body()
    return self:node("localfunction", node)
  end
  node.names, node.values = {}, {}
  repeat
    node.names[#node.names + 1] = self:name()
    if self:accept "<" then
      self:name()
      self:expect ">"
    end
  until not self:accept ","
  if self:accept "=" then node.values = self:expressions() end
  return self:node("local", node)
end

function statements:function_(node)
  local target = self:node("name", { name = self:name() })
  while self:sees "." or self:sees ":" do
    local is_method = self:sees ":"
    self:next()
    target = self:node("index", { obj = target,
      key = self:node("string", { value = self:name() }) })
    node.is_method = is_method
  end
  local fn = self:body()
  if node.is_method then table.insert(fn.params, 1, "self") end
  node.targets, node.values = { target }, { fn }
  return self:node("assign", node)
end

function statements:for_(node)
  local names = { self:name() }
  if self:accept "=" then
    node.name, node.values = names[1], self:expressions()
  else
    while self:accept "," do names[#names + 1] = self:name() end
    self:expect "in"
    node.names, node.values = names, self:expressions()
  end
  self:expect "do"
  node.body = self:block()
  self:expect "end"
  return self:node(node.name and "fornum" or "forin", node)
end

function statements:if_(node)
  node.bodies, node.values = {}, {}
  repeat
    node.values[#node.values + 1] = self:expression()
    self:expect "then"
    node.bodies[#node.bodies + 1] = self:block()
  until not self:accept "elseif"
  if self:accept "else" then node.bodies[#node.bodies + 1] = self:block() end
  self:expect "end"
  return self:node("block", node)
end

function statements:while_(node)
  node.values = { self:expression() }
  self:expect "do"
  node.bodies = { self:block() }
  self:expect "end"
  return self:node("block", node)
end

function statements:do_(node)
  node.values, node.bodies = {}, { self:block() }
  self:expect "end"
  return self:node("block", node)
end

function statements:repeat_(node)
  node.bodies = { self:block() }
  self:expect "until"
  node.values = { self:expression() }
  return self:node("block", node)
end

function statements:return_(node)
  node.values = {}
  if not (self:ends() or self:sees ";") then
    node.values = self:expressions()
  end
  self:accept ";"
  return self:node("return", node)
end

function statements:goto_(node)
  self:name()
  return self:node("block", node)
end

function statements:break_(node) return self:node("block", node) end

function Parser:statement()
  local node = { line = self.token.line, values = {}, bodies = {} }
  local rule = self.token.kind == "keyword" and
    statements[self.token.text .. "_"]
  if rule then
    self:next()
    return rule(self, node)
  elseif self:accept "::" then
    self:name()
    self:expect "::"
    return self:node("block", node)
  end
  local first = self:primary()
  if self:sees "=" or self:sees "," then
    node.targets = { first }
    while self:accept "," do
      node.targets[#node.targets + 1] = self:primary()
    end
    self:expect "="
    node.values = self:expressions()
    return self:node("assign", node)
  end
  node.call = first
  return self:node("call statement", node)
end

local ENDS = { ["end"] = true, ["else"] = true, ["elseif"] = true,
  ["until"] = true, [""] = true }

function Parser:ends()
  return self.token.kind ~= "string" and ENDS[self.token.text]
end

function Parser:block()
  local list = {}
  while not self:ends() do
    if not self:accept ";" then list[#list + 1] = self:statement() end
  end
  return list
end

-- }======================================================

--- Returns the statements of a program; raises if there is a mistake.
return function(text)
  local self = setmetatable({ list = tokens.list(text), at = 0 }, Parser)
  self:next()
  local list = self:block()
  if self.token.text ~= "" then self:fail "end of the program" end
  return list
end

-- Random programs of all that code in a box can call, with data that take long.

local mw = require "moonwatch"
local policy_file = require "spec.support.policy_file"

local random = math.random

local VALUES = {
  "nil", "true", "0", "1", "-1", "3", "1e9", "math.huge", "math.maxinteger",
  "2.5", "''", "'a'", "'^a'", "'%a*'", "'.-b'", "('a*'):rep(9)", "'(.)(.)'",
  "'%f[%w]%w+'", "'[' .. a:sub(1, 500) .. ']x'", "'%s'", "'>s4i8z'", "'1000'",
  "a", "b", "zeros", "digits", "tail", "carets", "{}", "list", "sparse",
  "strings", "chain", "writes", "calls", "endless", "object", "object.sparse",
  "object.text", "object.watched", "object.digits", "f", "g", "print", "co",
  "pcall", "next", "string", "table.concat", "setmetatable({}, meta)",
  "utf8.charpattern", "math.pi", "_VERSION", "_G", "getmetatable(endless)",
  "ctx", "ctx.entries", "ctx.clock", "ctx.class", "class", "class.entries",
}

-- The functions of the program around the programs, and those that they make.
local FUNCTIONS = {
  "f", "g", "calls", "endless", "object.call", "object.add",
  "object.watched.add", "string.shout", "step", "codes", "walk", "ctx.class",
  "ctx.raw", "ctx.lookup", "ctx.is_marked", "ctx.metamethod", "ctx.is",
  "ctx.clock.now", "ctx.clock.generation", "ctx.clock.is_current",
  "ctx.clock.since", "ctx.clock.advance",
}

-- And all that a box has of Lua.
local function add_functions(prefix, t)
  for name, value in pairs(t) do
    if type(value) == "function" then
      FUNCTIONS[#FUNCTIONS + 1] = prefix .. name
    elseif type(value) == "table" and name ~= "_G" then
      add_functions(name .. ".", value)
    end
  end
end

local box = mw.sandbox()
add_functions("", select(2, assert(box:call(assert(box:load "return _G")))))
table.sort(FUNCTIONS)

local OPERATORS = {
  "+", "-", "*", "/", "//", "%", "^", "..", "==", "~=", "<", "<=", ">", ">=",
  "&", "|", "~", "<<", ">>", "and", "or",
}

local UNARY = { "-", "~", "#", "not " }

local PRELUDE = [[
local a, zeros = ("a"):rep(%d), ("\0"):rep(%d)
local b, tail = a .. "b", "a" .. ("\128"):rep(%d)
local digits, carets = ("0"):rep(%d) .. "1", ("^"):rep(%d)
local list, sparse, strings = {}, {}, {}
for i = 1, %d do list[i] = i sparse[i] = i end
for i = 1, #sparse do sparse[i] = nil end
for i = 1, 50 do strings[i] = a .. i end
local chain, writes, kept = {}, {}, {}
local class = ctx.class(object)
local function calls() end
for _ = 1, %d do
  chain = setmetatable({}, { __index = chain })
  writes = setmetatable({}, { __newindex = writes })
  calls = setmetatable({}, { __call = calls })
end
local endless = setmetatable({}, {})
getmetatable(endless).__call = endless
local meta = {
  __index = function(_, k) return k end, __newindex = function() end,
  __len = function() return 1e6 end, __lt = function() return true end,
  __concat = function() return b end, __eq = function() return true end,
  __tostring = function() return a end, __le = function() return a end,
  __unm = function() return digits end, __bnot = function() return b end,
  __sub = function(x) return -x end, __pairs = function() return next, list end,
  __name = a,
  __call = function(_, ...) return ... end,
}
local function f(...) return ... end
local function g() return g() end
local co = coroutine.create(function() while true do coroutine.yield(a) end end)
local codes, walk = utf8.codes "ab", string.gmatch(a, "a-b")
local step = coroutine.wrap(function() while true do coroutine.yield() end end)
]]

local function one_of(list) return list[random(#list)] end

local function arguments()
  local list = {}
  for i = 1, random(0, 4) do list[i] = one_of(VALUES) end
  return table.concat(list, ", ")
end

local STATEMENTS = {
  function() return ("local _ = %s(%s)"):format(one_of(FUNCTIONS),
    arguments()) end,
  function() return ("local _ = (%s) %s (%s)"):format(one_of(VALUES),
    one_of(OPERATORS), one_of(VALUES)) end,
  function() return ("local _ = (%s)[%s]"):format(one_of(VALUES),
    one_of(VALUES)) end,
  function() return ("local t = %s t[%s] = %s"):format(one_of(VALUES),
    one_of(VALUES), one_of(VALUES)) end,
  function() return ("for _ = %s, %s, %s do end"):format(one_of(VALUES),
    one_of(VALUES), one_of(VALUES)) end,
  function() return ("for _ in pairs(%s) do end"):format(one_of(VALUES)) end,
  function() return ("for _ in %s(%s) do end"):format(one_of(FUNCTIONS),
    arguments()) end,
  function() return ("local _ = %s(%s)"):format(one_of(UNARY),
    one_of(VALUES)) end,
  function() return ("local _ = (%s)(%s)"):format(one_of(VALUES),
    arguments()) end,
  function() return ("local _ = a .. (%s) .. b .. (%s)"):format(
    one_of(VALUES), one_of(VALUES)) end,
  function() return ("local _ <close> = %s"):format(one_of(VALUES)) end,
  function() return ("kept[#kept %% 99 + 1] = { %s }"):format(arguments()) end,
  function() return ("xpcall(%s, %s, %s)"):format(one_of(FUNCTIONS),
    one_of(FUNCTIONS), one_of(VALUES)) end,
  function() return ("local _ = { f(%s) }"):format(arguments()) end,
  function() return ("local _ = (%s):%s(%s)"):format(one_of(VALUES),
    one_of { "find", "rep", "gsub", "match", "shout", "call", "upper" },
    arguments()) end,
  function() return ("pcall(%s, %s)"):format(one_of(FUNCTIONS),
    one_of(VALUES)) end,
  function() return ("coroutine.wrap(function() pcall(%s, %s) end)()"):format(
    one_of(FUNCTIONS), one_of(VALUES)) end,
}

-- A statement is written many times, so that no loop costs more than it does.
local function block()
  local statement = "do " .. one_of(STATEMENTS)() .. " end "
  return ("pcall(function() for _ = 1, %d do %s end end)\n"):format(
    one_of { 1, 10, 1000 }, statement:rep(one_of { 1, 100 }))
end

local box_programs = {}

--- Returns a program that does not end by itself.
function box_programs.new()
  local long = one_of { 10, 300, 6000, 60000 }
  local program = { PRELUDE:format(long, long, long, long, long,
    one_of { 10, 1000, 4000 }, one_of { 10, 150, 1500 }), "while true do\n" }
  for i = 3, 2 + random(4) do program[i] = block() end
  program[#program + 1] = "end"
  return table.concat(program)
end

-- What the library tells the rules of a policy's file.
local function file_ctx(obj)
  local given
  policy_file.with([[return { rules = { { "shows", function(obj, ctx)
    given(ctx)
  end } } }]], function(policy)
    local former = policy:use()
    mw.is_dynamic(obj)
    former:use()
  end, { given = function(ctx) given = ctx end })
  return given
end

--- Returns what the programs are given by the program around them.
function box_programs.env()
  local sparse = {}
  for i = 1, 20000 do sparse[i] = i end
  for i = 1, 20000 do sparse[i] = nil end
  local watched = { n = 0, add = function() end }
  mw.watch(watched, function() end, { once = false })
  local object = setmetatable({
    text = ("x"):rep(100000), digits = ("0"):rep(100000), sparse = sparse,
    watched = watched, call = function(...) return ... end,
    add = function(self) self.n = (self.n or 0) + 1 end,
  }, { __index = { entries = { "update" } } })
  return { print = function() end, object = object, ctx = file_ctx(object) }
end

return box_programs

-- Random programs of all that code in a box can call, with data that take long.

local random = math.random

local VALUES = {
  "nil", "true", "0", "1", "-1", "3", "1e9", "math.huge", "math.maxinteger",
  "2.5", "''", "'a'", "'^a'", "'%a*'", "'.-b'", "('a*'):rep(9)", "'(.)(.)'",
  "'%f[%w]%w+'", "'[' .. a:sub(1, 500) .. ']x'", "'%s'", "'>s4i8z'", "'1000'",
  "a", "b", "zeros", "digits", "tail", "carets", "{}", "list", "sparse",
  "strings", "chain", "writes", "calls", "endless", "object", "object.sparse",
  "object.text", "object.watched", "object.digits", "f", "g", "print", "co",
  "pcall", "next", "string", "table.concat", "setmetatable({}, meta)",
}

local FUNCTIONS = {
  "assert", "error", "getmetatable", "ipairs", "next", "pairs", "pcall",
  "rawequal", "rawget", "rawlen", "rawset", "select", "tonumber", "tostring",
  "type", "xpcall", "print", "string.byte", "string.char", "string.find",
  "string.format", "string.gmatch", "string.gsub", "string.len",
  "string.lower", "string.match", "string.pack", "string.packsize",
  "string.rep", "string.reverse", "string.sub", "string.unpack",
  "string.upper", "table.concat", "table.insert", "table.move", "table.pack",
  "table.remove", "table.sort", "table.unpack", "utf8.char", "utf8.codepoint",
  "utf8.codes", "utf8.len", "utf8.offset", "math.abs", "math.floor",
  "math.fmod", "math.max", "math.tointeger", "os.date", "os.time",
  "coroutine.create", "coroutine.wrap", "coroutine.resume",
  "coroutine.status", "coroutine.close", "coroutine.running", "f", "g",
  "calls", "endless", "object.call", "object.add", "object.watched.add",
  "string.shout", "step", "codes", "walk",
}

local OPERATORS = {
  "+", "-", "*", "/", "//", "%", "^", "..", "==", "~=", "<", "<=", "&", "<<",
}

local PRELUDE = [[
local a, zeros = ("a"):rep(%d), ("\0"):rep(%d)
local b, tail = a .. "b", "a" .. ("\128"):rep(%d)
local digits, carets = ("0"):rep(%d) .. "1", ("^"):rep(%d)
local list, sparse, strings = {}, {}, {}
for i = 1, %d do list[i] = i sparse[i] = i end
for i = 1, #sparse do sparse[i] = nil end
for i = 1, 50 do strings[i] = a .. i end
local chain, writes = {}, {}
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
  __tostring = function() return a end,
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
  function() return ("for _ = %s, %s do end"):format(one_of(VALUES),
    one_of(VALUES)) end,
  function() return ("for _ in pairs(%s) do end"):format(one_of(VALUES)) end,
  function() return ("for _ in %s(%s) do end"):format(one_of(FUNCTIONS),
    arguments()) end,
  function() return ("local _ = #(%s)"):format(one_of(VALUES)) end,
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

--- Returns what the programs are given by the program around them.
function box_programs.env(mw)
  local sparse = {}
  for i = 1, 20000 do sparse[i] = i end
  for i = 1, 20000 do sparse[i] = nil end
  local watched = { n = 0, add = function() end }
  mw.watch(watched, function() end, { once = false })
  return { print = function() end, object = {
    text = ("x"):rep(100000), digits = ("0"):rep(100000), sparse = sparse,
    watched = watched, call = function(...) return ... end,
    add = function(self) self.n = (self.n or 0) + 1 end,
  } }
end

return box_programs

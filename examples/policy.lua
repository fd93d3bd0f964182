-- A policy that is edited while the program runs: decisions and their reasons
-- change with the file, and a bad edit changes nothing.

local mw = require "moonwatch"

local path = os.tmpname()

local edits = 0

local function edit(text)
  edits = edits + 1
  local file = assert(io.open(path, "w"))
  file:write(text, ("\n"):rep(edits)) -- each edit has a size of its own
  file:close()
end

local Enemy = { __name = "Enemy" }
Enemy.__index = Enemy

local cast = {
  { "a tree", { rooted = true } },
  { "an orc", setmetatable({ hp = 10 }, Enemy) },
  { "a boss", setmetatable({ hp = 500 }, Enemy) },
}

local function show(title)
  print(title)
  for _, member in ipairs(cast) do
    local dynamic, reason = mw.is_dynamic(member[2])
    print(("  %s: %s, by rule %q"):format(member[1],
      dynamic and "dynamic" or "static", reason))
  end
end

show "The policy that comes with the library:"

edit [[
return {
  rules = {
    { "enemies", function(obj, ctx)
      return ctx.lookup(obj, "hp") ~= nil or nil
    end },
  },
}]]
local policy = assert(mw.load_policy(path))
local former = policy:use()
show "Enemies are dynamic:"

edit [[
return {
  rules = {
    { "bosses", function(obj) return obj.hp and obj.hp > 100 or nil end },
    { "minions", function(obj) if obj.hp then return false end end },
  },
}]]
assert(policy:poll()) -- as a game does once a second
show "Only bosses are:"

edit "return { rules = { { 'endless', while true do end } } }"
local ok, message = policy:poll()
print(("A mistake: %s, %s"):format(ok,
  (tostring(message):gsub("^.-:%d+: ", ""))))
show "So all stays as it was:"

edit [[
return {
  rules = {
    { "endless", function() while true do end end },
    { "default", function() return false end },
  },
}]]
assert(policy:poll())
show "A rule that never ends is passed over:"
for text, count in pairs(policy.errors) do
  print(("  %d times: %s"):format(count, text))
end

former:use()
os.remove(path)

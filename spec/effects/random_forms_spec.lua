-- Random transactions in a graph of tables with shared ones, cycles and
-- temporary tables: what they are made into does the same for a copy.

local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local worlds = require "spec.support.worlds"

-- Copies with the same sharing.
local function copy(t, seen)
  if type(t) ~= "table" then return t end
  seen = seen or {}
  if seen[t] then return seen[t] end
  local its = {}
  seen[t] = its
  for key, value in next, raw_of(t) do its[key] = copy(value, seen) end
  return its
end

-- Tells whether two graphs are the same, with the same sharing.
local function same(a, b, known)
  known = known or {}
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  if known[a] then return known[a] == b end
  known[a] = b
  for key, value in next, a do
    if not same(value, b[key], known) then return false end
  end
  for key in next, b do
    if a[key] == nil then return false end
  end
  return true
end

local DEEP = 20

-- Tells whether two graphs are the same as trees: JSON knows no sharing.
local function same_tree(a, b, depth)
  depth = depth or 0
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  if depth > DEEP then return true end
  for key, value in next, a do
    if not same_tree(value, b[key], depth + 1) then return false end
  end
  for key in next, b do
    if a[key] == nil then return false end
  end
  return true
end

local KEYS = {
  { "name", "x", "y", "c2", "c3", "c4", "extra" },
  { "name", "x", "c2", "c3", "extra", 1, 2 },
}

local function graph(random)
  local nodes = {}
  for i = 1, 6 do nodes[i] = { name = "table " .. i } end
  for i = 2, 6 do nodes[random(i - 1)]["c" .. i] = nodes[i] end
  if random(2) == 1 then nodes[random(6)].extra = nodes[random(2, 6)] end
  return nodes
end

local function change(random, nodes, keys)
  local new = {}
  for _ = 1, random(8) do
    local t = random(3) == 1 and new[random(#new + 1)] or nodes[random(6)]
    local key, how, value = keys[random(#keys)], random(6), nil
    if how == 2 then value = random(10)
    elseif how == 3 then
      value = { new = random(5) }
      new[#new + 1] = value
    elseif how == 4 then value = nodes[random(6)]
    elseif how == 5 then value = new[random(#new + 1)]
    elseif how == 6 then value = "text " .. random(5) end
    t[key] = value
  end
end

local function by_text(root, text)
  local run = assert(load(text, "text", "t",
    setmetatable({ root = root }, { __index = _G })))
  run()
  return root
end

describe("what random effects are made into", function()
  it(("does the same (SEED=%d)"):format(worlds.seed), function()
    worlds.each(400, function(random, message)
      local nodes = graph(random)
      local root = nodes[1]
      local old = copy(root)
      mw.track(root, { deep = true })
      local _, fx = mw.transaction(change, random, nodes,
        KEYS[random(#KEYS)])
      local now = copy(root)
      local function check(name, made, apply, equal)
        if made == nil then return end
        local target = copy(old)
        assert.is_truthy(apply(target, made), message .. ", " .. name)
        assert.is_true(equal(target, now), message .. ", " .. name)
      end
      check("to_bytes", assert(fx:to_bytes(root)), mw.patch_bytes, same)
      check("to_lua", assert(fx:to_lua { root = root }), by_text, same)
      check("to_patch", fx:to_patch(root), mw.patch, same_tree)
      check("diff", mw.diff(old, now), mw.patch, same_tree)
    end)
  end)
end)

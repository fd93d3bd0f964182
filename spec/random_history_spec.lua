-- Random programs that use a history, in the library and in a simulation: each
-- step is the fields that it has written, with the values before and after.

local mw = require "moonwatch"
local raw_of = require "spec.support.raw_of"
local worlds = require "spec.support.worlds"

local LONG = ("long "):rep(20)
local TABLES = { {}, {} }
local KEYS = { "a", "b", 1, 2, 0.5, true, LONG }
local LABELS = { "one", "two", LONG }

local function is_same(a, b)
  return rawequal(a, b) and math.type(a) == math.type(b) and
    (a ~= 0 or 1 / a == 1 / b) or a ~= a and b ~= b
end

local function value(random)
  local n = random(10)
  if n <= 4 then return random(3) end
  if n == 5 then return random(2) / 2 end
  if n == 6 then return ({ 0.0, -0.0, 0 / 0 })[random(3)] end
  if n == 7 then return LONG .. random(2) end
  if n == 8 then return TABLES[random(2)] end
  if n == 9 then return random(2) == 1 end
  return nil
end

local World = {}
World.__index = World

local function new(random)
  local limit = ({ false, 1, 2, 5 })[random(4)] or nil
  local self = setmetatable({
    random = random, limit = limit or math.huge,
    history = mw.history { limit = limit }, objects = {}, fields = {},
    steps = {}, at = 0, n = 0, base = 0, last = 0, saved = 0,
  }, World)
  for i = 1, 3 do
    self.objects[i] = mw.track({ a = i }, { deep = i == 3 })
    self.fields[i] = { a = i }
  end
  return self
end

local function key_of(random, simple)
  return KEYS[random(simple and 2 or #KEYS)]
end

-- Returns a list of writes: an object's number, a key, a value.
function World:writes()
  local random, list = self.random, {}
  local simple = random(2) == 1
  for i = 1, ({ 1, 1, 1, 2, 3, random(10) - 1 })[random(6)] do
    local v = value(random)
    list[i] = { simple and 1 or random(3), key_of(random, simple), v }
  end
  return list
end

function World:write(list)
  for _, w in ipairs(list) do self.objects[w[1]][w[2]] = w[3] end
end

-- Returns of each object whose length, as a list, the step has changed: the
-- first position that it wrote, the length before and after it, and the values
-- from that position on that it did not write.
function World:lists(written, step)
  local lists = {}
  for i, fields in ipairs(self.fields) do
    local first, net, low, high = math.huge, 0, math.huge, 0
    for key in pairs(written[i]) do
      if math.type(key) == "integer" then first = math.min(first, key) end
    end
    for _, e in ipairs(step) do
      if e.i == i and math.type(e.key) == "integer" and
        (e.old == nil) ~= (e.new == nil) then
        net = net + (e.old == nil and 1 or -1)
        low, high = math.min(low, e.key), math.max(high, e.key)
      end
    end
    local is_list = fields[high + 1] == nil and
      (low == 1 or fields[low - 1] ~= nil)
    if net ~= 0 and is_list and high - low + 1 == math.abs(net) then
      local border, rest = net > 0 and high or low - 1, {}
      for key = first, border do
        if not written[i][key] then rest[key] = fields[key] end
      end
      lists[i] = { old = border - net, new = border, rest = rest }
    end
  end
  return lists
end

-- Are the lists other ones than before the step, or ("new") after it?
function World:has_other_lists(step, from)
  for i, list in pairs(step.lists) do
    local fields = self.fields[i]
    local border = list[from]
    if fields[border + 1] ~= nil then return true end
    if border > 0 and fields[border] == nil then return true end
    for key, v in pairs(list.rest) do
      if not is_same(fields[key], v) then return true end
    end
  end
  return false
end

-- Puts the step of these writes, if it changes anything.
function World:note(label, list)
  local step, by_name, changes = { label = label }, {}, false
  local written = { {}, {}, {} }
  for _, w in ipairs(list) do
    local fields = self.fields[w[1]]
    local name = w[1] .. tostring(w[2])
    local entry = by_name[name]
    local old = fields[w[2]]
    if entry then
      entry.new = w[3]
    elseif old ~= nil or w[3] ~= nil then
      entry = { i = w[1], key = w[2], old = old, new = w[3] }
      by_name[name] = entry
      step[#step + 1] = entry
    end
    fields[w[2]] = w[3]
    if entry then written[w[1]][w[2]] = true end
  end
  step.lists = self:lists(written, step)
  for _, e in ipairs(step) do
    changes = changes or not is_same(e.old, e.new)
  end
  if not changes then return end
  self.last = self.last + 1
  step.id = self.last
  for i = self.at + 1, self.n do self.steps[i] = nil end
  self.at = self.at + 1
  self.n = self.at
  self.steps[self.at] = step
  if self.n > self.limit then
    self.base = table.remove(self.steps, 1).id
    self.at, self.n = self.at - 1, self.n - 1
  end
end

function World:id()
  return self.at == 0 and self.base or self.steps[self.at].id
end

local acts = {}

function acts.run(self)
  local label, list = LABELS[self.random(#LABELS)], self:writes()
  self.history:run(label, self.write, self, list)
  self:note(label, list)
end

acts.again, acts.once_more = acts.run, acts.run

function acts.in_transaction(self)
  assert(mw.transaction(acts.run, self))
end

function acts.in_coroutine(self)
  local label, list = LABELS[self.random(#LABELS)], self:writes()
  local run = coroutine.wrap(function()
    self.history:run(label, function()
      coroutine.yield()
      self:write(list)
    end)
  end)
  run()
  run()
  self:note(label, list)
end

function acts.fail(self)
  local list = self:writes()
  local ok = pcall(self.history.run, self.history, "fails", function()
    self:write(list)
    error "fails"
  end)
  assert.is_false(ok)
end

-- Undoes or does again, unless somebody else has written.
local function travel(self, step, from, to, name)
  local expected = step and step.label
  for _, e in ipairs(step or {}) do
    if not is_same(self.fields[e.i][e.key], e[from]) then expected = nil end
  end
  if step and self:has_other_lists(step, from) then expected = nil end
  local label, message = self.history[name](self.history)
  if label ~= expected then
    error(("%s: %s, not %s: %s"):format(name, label, expected, message))
  end
  if not expected then return false end
  for _, e in ipairs(step) do self.fields[e.i][e.key] = e[to] end
  return true
end

function acts.undo(self)
  local step = self.steps[self.at]
  if travel(self, step, "new", "old", "undo") then self.at = self.at - 1 end
end

function acts.redo(self)
  local step = self.steps[self.at + 1]
  if travel(self, step, "old", "new", "redo") then self.at = self.at + 1 end
end

acts.undo_more, acts.redo_more = acts.undo, acts.redo

function acts.all(self)
  for _ = 1, self.n + 1 do acts.undo(self) end
  for _ = 1, self.random(self.n + 1) do acts.redo(self) end
end

function acts.outside(self)
  local i, key, v = self.random(3), key_of(self.random), value(self.random)
  self.objects[i][key], self.fields[i][key] = v, v
end

function acts.save(self)
  self.history:mark_saved()
  self.saved = self:id()
end

function acts.watch(self)
  mw.watch(self.objects[self.random(3)], function() end)
end

function acts.class(self)
  local class = self.random(2) == 1 and { __index = {} } or nil
  mw.setmetatable(self.objects[self.random(3)], class)
end

function acts.seal(self) self.history:seal() end

function acts.collect() collectgarbage() end

local NAMES = {}
for name in pairs(acts) do NAMES[#NAMES + 1] = name end
table.sort(NAMES)

function World:check()
  local labels = {}
  for i = 1, self.at do labels[i] = self.steps[i].label end
  assert.same(labels, self.history:labels())
  assert.equal(self.at > 0, self.history:can_undo())
  assert.equal(self.at < self.n, self.history:can_redo())
  assert.equal(self.saved == self:id(), self.history:is_saved())
  for i, obj in ipairs(self.objects) do
    for _, key in ipairs(KEYS) do
      local real, its = rawget(raw_of(obj), key), self.fields[i][key]
      if not is_same(real, its) then
        error(("%s of %d is %s, not %s"):format(key, i, real, its))
      end
    end
  end
end

describe("a random program with a history", function()
  it(("has what the steps say (SEED=%d)"):format(worlds.seed), function()
    worlds.each(150, function(random, message)
      local self, done = new(random), {}
      local ok, err = xpcall(function()
        for i = 1, random(100) do
          done[i] = NAMES[random(#NAMES)]
          acts[done[i]](self)
          self:check()
        end
      end, function(e)
        return debug.traceback(type(e) == "table" and e.message or tostring(e))
      end)
      if not ok then
        error(message .. ": " .. table.concat(done, " ") .. "\n" ..
          tostring(err), 0)
      end
    end)
  end)
end)

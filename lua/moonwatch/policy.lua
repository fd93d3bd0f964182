--- Policies: what people decide about their objects, in a table or a file.
-- SPDX-License-Identifier: MIT
--
-- One policy is the current one.  What it says of a class is looked up once and
-- cached, until another one takes its place or it is read again.

local check = require "moonwatch.check"
local class = require "moonwatch.class"
local core = require "moonwatch.core"
local patch = require "moonwatch.patch"
local sandbox = require "moonwatch.sandbox"

local private = core.private
local decide, metatable = private.decide, private.metatable

local policy = {}

local Policy = {}
Policy.__index = Policy
Policy.__name = "policy"
Policy.__metatable = false

local current -- set at the end of this file, to the default one when needed

-- {======================================================
-- What a policy may say
-- =======================================================

local FIELDS = {
  rules = "table", classes = "table", entries = "table",
  descend = "function", name = "function", class_name = "function",
  register = "function",
}

local HOOKS = {
  mutators = "table", ignore = "table", constructors = "table",
  deep = "boolean",
}

-- What is wrong with the fields of a table, of which it may have those in
-- `known`; nil if nothing is.
local function mistake_in_fields(t, known, what)
  local unknown = check.unknown(t, known)
  if unknown then
    return ("%s has an unknown field '%s'"):format(what, unknown)
  end
  for name, expected in pairs(known) do
    if t[name] ~= nil and type(t[name]) ~= expected then
      return ("field '%s' of %s is not a %s"):format(name, what, expected)
    end
  end
end

local RULE = { "string", "function", cache = "string" }

local function mistake_in_rule(rule, i)
  local what = "rule " .. i
  if type(rule) ~= "table" then return what .. " is not a table" end
  if type(rule[1]) ~= "string" or type(rule[2]) ~= "function" then
    return what .. " is not { name, function }"
  end
  if rule.cache ~= nil and rule.cache ~= "class" then
    return ("field 'cache' of %s is not 'class'"):format(what)
  end
  return mistake_in_fields(rule, RULE, what)
end

local function mistake_in(definition)
  if type(definition) ~= "table" then
    return "the policy is not a table, but a " .. type(definition)
  end
  local mistake = mistake_in_fields(definition, FIELDS, "the policy")
  if mistake then return mistake end
  for i, rule in ipairs(definition.rules or {}) do
    mistake = mistake_in_rule(rule, i)
    if mistake then return mistake end
  end
  for name, hooks in pairs(definition.classes or {}) do
    local what = ("class '%s'"):format(type(name) == "string" and name or
      class.name(name) or "?")
    if type(hooks) ~= "table" then return what .. " is not a table" end
    mistake = mistake_in_fields(hooks, HOOKS, what)
    if mistake then return mistake end
  end
end

-- }======================================================

-- {======================================================
-- Policies
-- =======================================================

local KEPT = 100 -- different errors

-- The error of a function of the policy: counted, and told of once.
local function report(self, message)
  local errors = self.errors
  local text = type(message) == "string" and message or
    ("(error object is a %s value)"):format(type(message))
  if errors[text] == nil then
    if self.reported >= KEPT then return end
    self.reported = self.reported + 1
    local handler = private.handler()
    if handler then pcall(handler, message, "policy") end
  end
  errors[text] = (errors[text] or 0) + 1
end

-- Calls a function of the policy.  Answers true and its result, or false.
local function call(self, f, ...)
  local ok, result
  if self.strings then
    ok, result = sandbox.call(self.strings, f, ...)
  else
    ok, result = pcall(f, ...)
  end
  if not ok then report(self, result) end
  return ok, result
end

local function new_policy(definition, strings)
  return setmetatable(
    { definition = definition, strings = strings, errors = {}, reported = 0 },
    Policy)
end

--- Makes a policy of a table.
function policy.new(definition)
  check.argument(type(definition) == "table", 1, "policy", "table", definition)
  local mistake = mistake_in(definition)
  check.that(not mistake, 1, "policy", mistake)
  return new_policy(definition)
end

local function load(path, env)
  local definition, strings = sandbox.run(path, env)
  if definition == nil then return nil, strings end
  local mistake = mistake_in(definition)
  if mistake then return nil, path .. ": " .. mistake end
  return definition, strings
end

--- Makes a policy of a file; answers nil and a message if it is not a good one.
function policy.load(path, env)
  check.argument(type(path) == "string", 1, "load_policy", "string", path)
  check.argument(env == nil or type(env) == "table", 2, "load_policy", "table",
    env)
  local time, size = private.stat(path)
  local definition, strings = load(path, env)
  if not definition then return nil, strings end
  local self = new_policy(definition, strings)
  self.path, self.env, self.time, self.size = path, env, time, size
  return self
end

local function its_own(self, name)
  if metatable(self) ~= Policy then
    error(("calling '%s' on bad self (policy expected, got %s)"):format(name,
      type(self)), 3)
  end
end

local refresh -- makes what the current policy says be in force

--- Makes it the current one; answers the former.
function Policy:use()
  its_own(self, "use")
  local former = policy.current()
  current = self
  local ok, err = pcall(refresh)
  if ok then return former end
  current = former
  pcall(refresh)
  error(err, 0)
end

--- Reads the file again.  The former contents stay in force if that fails.
function Policy:reload()
  its_own(self, "reload")
  if not self.path then return nil, "the policy is not from a file" end
  local time, size = private.stat(self.path)
  local definition, strings = load(self.path, self.env)
  self.time, self.size = time, size
  if not definition then return nil, strings end
  local former, former_strings = self.definition, self.strings
  self.definition, self.strings = definition, strings
  local ok, err = pcall(self == current and refresh or type, self)
  if ok then return true end
  self.definition, self.strings = former, former_strings
  pcall(refresh)
  error(err, 0)
end

--- Reads the file again if its time or size is another one.
function Policy:poll()
  its_own(self, "poll")
  if not self.path then return false end
  local time, size = private.stat(self.path)
  if time == self.time and size == self.size then return false end
  return self:reload()
end

-- The one that comes with the library, loaded when it is needed.
local function default_policy()
  if not policy.default then
    local path = assert(package.searchpath("moonwatch.default_policy",
      package.path))
    local loaded, message = policy.load(path)
    if not loaded then error(message, 0) end
    policy.default = loaded
  end
  return policy.default
end

--- The policy in force.
function policy.current()
  current = current or default_policy()
  return current
end

--- A field of the current policy, or of the default one when it has none; and
-- that policy.
local function field(name)
  local value = policy.current().definition[name]
  if value ~= nil then return value, current end
  return default_policy().definition[name], policy.default
end

--- Has the policy such a function?
function policy.has(name)
  return (field(name)) and true or false
end

--- Calls a function that the policy has.  Answers true and its result; false if
-- there is none, or if it fails.
function policy.ask(name, ...)
  local f, self = field(name)
  if not f then return false end
  return call(self, f, ...)
end

--- Names of methods by which one knows what runs.
function policy.entries() return (field "entries") end

-- }======================================================

-- {======================================================
-- Hook rules
-- =======================================================

local NONE = {}

local hooks_of -- class -> its hook rules

--- The hook rules of a class.
function policy.hooks(c)
  if c == nil then return NONE end
  local hooks = hooks_of[c]
  if not hooks then
    local classes = current and current.definition.classes or NONE
    hooks = classes[c] or classes[class.name(c)] or NONE
    hooks_of[c] = hooks
  end
  return hooks
end

local ignored -- class -> set of keys, or false

local function ignored_by(obj)
  local c = class.of(obj)
  if c == nil then return nil end
  local set = ignored[c]
  if set == nil then
    local list = policy.hooks(c).ignore
    set = list and {} or false
    for _, key in ipairs(list or NONE) do
      if key == key then set[key] = true end -- NaN is no key
    end
    ignored[c] = set
  end
  return set
end

local function descend(parent, key, child)
  if policy.hooks(class.of(child)).deep == false then return false end
  local f = current.definition.descend
  if not f then return true end
  local ok, result = call(current, f, parent, key, child)
  return not ok or result
end

-- }======================================================

-- {======================================================
-- Mutators: methods that change an object without writing to it
-- =======================================================

local MEMORY = "not enough memory"

-- Classes with watched objects, and what of them is patched.
local watched = setmetatable({}, { __mode = "k" })

-- Classes that are being patched or given back.  Either calls functions of the
-- library, which may see to deaths and find the same class deserted.
local busy = setmetatable({}, { __mode = "k" })

local function finish(self, name, moment, ...)
  private.end_call(self, name, moment)
  return ...
end

local function telling(name)
  return function(method)
    return function(self, ...)
      local moment = private.begin_call(self, name)
      if not moment then return method(self, ...) end
      return finish(self, name, moment, method(self, ...))
    end
  end
end

local function unpatch(layers)
  while #layers > 0 do
    if layers[#layers] then layers[#layers]:cancel() end
    layers[#layers] = nil
  end
end

local function alone(f, c)
  if busy[c] then return end
  busy[c] = true
  local ok, err = pcall(f, c, watched[c])
  busy[c] = nil
  if not ok then error(err, 0) end
end

local function patch_mutators(c, layers)
  local seen = {}
  unpatch(layers)
  for _, name in ipairs(policy.hooks(c).mutators or NONE) do
    if not seen[name] then
      local n = #layers + 1
      layers[n] = false -- so that there is room for it
      layers[n] = patch(c, name, telling(name), true)
    end
    seen[name] = true
  end
end

local function is_watched(c)
  watched[c] = watched[c] or {}
  alone(patch_mutators, c)
end

local function give_back(c, layers)
  if layers then unpatch(layers) end
  watched[c] = nil
end

local function is_unwatched(c) alone(give_back, c) end

-- A class that raises must not keep those that follow from being seen to.
local function see_to_deserted()
  local deserted = {}
  for c in pairs(watched) do
    if private.instances(c) == 0 then deserted[#deserted + 1] = c end
  end
  local short
  for _, c in ipairs(deserted) do
    local ok, err = pcall(is_unwatched, c)
    if not ok and err == MEMORY then short = err end
  end
  if short then error(short, 0) end -- so it is done again
end

-- }======================================================

-- {======================================================
-- Decisions
-- =======================================================

-- By metatable, or type: what is left to ask, and if that is nothing, the
-- answer and its reason.
local plans = setmetatable({}, { __mode = "k" })
local answers = setmetatable({}, { __mode = "k" })

local base = {
  class = class.of, raw = core.raw, lookup = class.lookup,
  is_marked = core.is_marked, clock = core.clock(),
  metamethod = function(obj, name)
    local mt = metatable(obj)
    return mt and rawget(core.raw(mt), name)
  end,
}

--- Says if some hierarchy has hooks that are called for all that executes.
function policy.set_global_hooks(on) base.global_hooks = on or nil end

local View = { __index = base, __metatable = false }

-- What a rule is given as ctx: the caller's, then the library's.
local function view(ctx)
  local its = { entries = field "entries" }
  for key, value in next, core.raw(ctx or NONE) do its[key] = value end
  if not ctx or not metatable(ctx) then return setmetatable(its, View) end
  return setmetatable(its, { __metatable = false, __index = function(_, key)
    local value = ctx[key]
    if value == nil then value = base[key] end
    return value
  end })
end

-- Asks the rules in the list; answers as `decide`.
local function ask(self, rules, obj, ctx)
  local budget = sandbox.calling
  local value, i, errors = decide(rules, self.strings,
    self.strings and budget.instructions or 0, budget.bytes, obj, ctx)
  for _, message in pairs(errors or NONE) do report(self, message) end
  return value, i
end

-- What is left of the rules for a class, when those are asked that go by the
-- class alone.
local function make_plan(obj, ctx)
  local rules, self = field "rules"
  local plan = { policy = self, names = {}, value = false, reason = "default" }
  for _, rule in ipairs(rules or NONE) do
    if rule.cache then
      local value, i = ask(self, { rule[2] }, obj, ctx)
      if i > 0 then
        plan.value, plan.reason = value, rule[1]
        break
      end
    else
      plan[#plan + 1] = rule[2]
      plan.names[#plan] = rule[1]
    end
  end
  return plan
end

local version = 0 -- of what is cached

local function plan_for(obj, ctx)
  local mt = metatable(obj) or type(obj)
  local plan = plans[mt]
  if not plan then
    local before = version
    plan = make_plan(obj, ctx)
    if version ~= before then return plan end -- a rule used another policy
    plans[mt] = plan
    if not plan[1] then answers[mt] = { plan.value, plan.reason } end
  end
  return plan
end

local function is_dynamic(obj, ctx)
  ctx = view(ctx)
  local plan = plan_for(obj, ctx)
  if plan[1] then
    local value, i = ask(plan.policy, plan, obj, ctx)
    if i > 0 then return value, plan.names[i] end
  end
  return plan.value, plan.reason
end

--- Does an object count as dynamic?  Answers a value and the name of the rule
-- that decided.
policy.is_dynamic = private.recalling(answers, is_dynamic)

-- }======================================================

local function has(name)
  for _, hooks in pairs(current.definition.classes or NONE) do
    if hooks[name] ~= nil then return true end
  end
  return false
end

local function forget()
  version = version + 1
  hooks_of = setmetatable({}, { __mode = "k" })
  ignored = setmetatable({}, { __mode = "k" })
  for mt in pairs(plans) do plans[mt], answers[mt] = nil, nil end
end

function refresh()
  forget()
  private.hooks {
    (current.definition.descend or has "deep") and descend or false,
    has "ignore" and ignored_by or false,
    class.of, is_watched, is_unwatched, see_to_deserted,
  }
  see_to_deserted()
  for c in pairs(watched) do alone(patch_mutators, c) end
end

forget()
private.hooks { false, false, class.of, is_watched, is_unwatched,
  see_to_deserted }

return policy

--- mw.policy: decisions of people about objects, in a table or a file.
-- SPDX-License-Identifier: MIT
--
-- One policy is in force.  What the policy says of a class is looked up once
-- and cached, until another policy comes into force or the file is read again.

local check = require "moonwatch.check"
local object_class = require "moonwatch.policy.object_class"
local core = require "moonwatch.core"
local ctx = require "moonwatch.policy.ctx"
local default = require "moonwatch.policy.default"
local file = require "moonwatch.policy.file"
local mutators = require "moonwatch.policy.mutators"
local named = require "moonwatch.policy.named"

local private = core.private
local metatable = private.metatable

local policy = {}

local Policy, state_of, handle = check.class("policy", nil, "errors")

local current -- the state of a policy, nil until a policy is asked for

-- {======================================================
-- The fields of a policy
-- =======================================================

local FIELDS = {
  rules = "table", classes = "table", entries = "table",
  descend = "function", name = "function", class_name = "function",
  register = "function",
}

local HOOKS = {
  mutators = "table", ignore = "table", constructors = "table",
  events = "table", deep = "boolean", new = "function",
  snapshot = "function", restore = "function",
}

-- Returns what is wrong with the fields of a table, or nil; `known` has the
-- type of each field.
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

local RULE = { "string", "function" }

local function mistake_in_rule(rule, i)
  local what = "rule " .. i
  if type(rule) ~= "table" then return what .. " is not a table" end
  if type(rule[1]) ~= "string" or type(rule[2]) ~= "function" then
    return what .. " is not { name, function }"
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
      object_class.name(name) or "?")
    if type(hooks) ~= "table" then return what .. " is not a table" end
    mistake = mistake_in_fields(hooks, HOOKS, what)
    if mistake then return mistake end
  end
end

-- }======================================================

-- {======================================================
-- Policies
-- =======================================================

local KEPT = 100 -- different errors of a policy
local LONG = 1000 -- bytes of an error's text

-- Counts an error of a function of the policy, and reports the first of its
-- kind.
local function report(self, message)
  local errors = self.errors
  local text = type(message) == "string" and message or
    ("(error object is a %s value)"):format(type(message))
  if #text > LONG then text = text:sub(1, LONG) .. "..." end
  if errors[text] == nil then
    if self.reported >= KEPT then return end
    self.reported = self.reported + 1
    local handler = private.handler()
    if handler then pcall(handler, message, "policy") end
  end
  errors[text] = (errors[text] or 0) + 1
end

local MEMORY = "not enough memory"

-- Returns true and the result of a call, or false.  That memory was short is no
-- error of the policy's.
local function answer(self, ok, result)
  if ok then return true, result end
  if result == MEMORY then error(result, 0) end
  report(self, result)
  return false
end

-- Calls a function of the policy for a question of a scan, 0 for none: all
-- questions of a scan to a file have one budget.  Returns true and its result,
-- or false.
local function call(self, scan, f, ...)
  local box = self.box
  if not box then return answer(self, pcall(f, ...)) end
  if scan == 0 then return answer(self, box:call(f, ...)) end
  return answer(self, private.call_in_scan(box, scan, f, ...))
end

-- Returns the state of a policy; the policy is in the field `policy`.  `box` is
-- where the functions of a file run; nil for a table of the program's.
local function new_policy(definition, box)
  local self = { definition = definition, box = box, errors = {}, reported = 0 }
  self.policy = handle(self)
  return self
end

--- Returns a policy made of a table.
function policy.policy(definition)
  check.argument(type(definition) == "table", 1, "policy", "table", definition)
  local mistake = mistake_in(definition)
  check.that(not mistake, 1, "policy", mistake)
  return new_policy(definition).policy
end

local refresh -- puts the current policy into force

-- Makes a change and puts what follows from it into force, or undoes the
-- change: a class may refuse that its mutators are wrapped.  A rollback that
-- waits for memory restores states as the policy in force says.
local function apply(change, undo)
  private.catch_up()
  change()
  local ok, err = pcall(refresh)
  if ok then return end
  undo()
  pcall(refresh)
  error(err, 0)
end

--- Puts the policy into force, or does not if a class refuses that.  Returns
-- the former policy.
function Policy:use()
  self = state_of(self, "use")
  local former = policy.current()
  apply(function() current = self end, function() current = former end)
  return former.policy
end

-- Reads the file, and puts the policy into force if it was.  Returns true; or
-- nil and a message, and all is as it was.
local function reload(self)
  if not self.path then return nil, "the policy is not from a file" end
  self.time, self.size = private.stat(self.path)
  local definition, box = file.run(self.path, self.env)
  if definition == nil then return nil, box end
  local mistake = mistake_in(definition)
  if mistake then return nil, self.path .. ": " .. mistake end
  local former, former_box = self.definition, self.box
  local function set() self.definition, self.box = definition, box end
  local function undo() self.definition, self.box = former, former_box end
  if self == current then apply(set, undo) else set() end
  return true
end

--- Returns a policy made of a file; nil and a message if the file is not good.
function policy.load_policy(path, env)
  check.argument(type(path) == "string", 1, "load_policy", "string", path)
  check.argument(env == nil or type(env) == "table", 2, "load_policy", "table",
    env)
  local self = new_policy()
  self.path, self.env = path, env
  local ok, message = reload(self)
  return ok and self.policy or nil, message
end

--- Reads the file again.  If that fails, the former contents stay in force.
function Policy:reload(...)
  self = state_of(self, "reload")
  check.nothing("reload", ...)
  return reload(self)
end

--- Reads the file again if its time or size has changed.
function Policy:poll()
  self = state_of(self, "poll")
  if not self.path then return false end
  local time, size = private.stat(self.path)
  if time == self.time and size == self.size then return false end
  return reload(self)
end

-- Returns the state of the library's policy, which is the library's own and
-- needs no box.
local function default_policy()
  policy.default = policy.default or new_policy(default)
  return policy.default
end

--- Returns the state of the policy in force.
function policy.current()
  current = current or default_policy()
  return current
end

-- Returns a field of the policy in force, or of the default policy if the field
-- is nil; and the policy that has the field.
local function field(name)
  local value = policy.current().definition[name]
  if value ~= nil then return value, current end
  return default_policy().definition[name], policy.default
end

--- Tells whether the policy has a function of that name.
function policy.has(name)
  return (field(name)) and true or false
end

--- Calls a function of the policy.  Returns true and its result; false if there
-- is no such function, or if the function fails.
function policy.ask(name, ...)
  local f, self = field(name)
  if not f then return false end
  return call(self, 0, f, ...)
end

--- Returns the names of methods that make an object one that runs.
function policy.entries() return (field "entries") end

-- }======================================================

-- {======================================================
-- Rules for classes
-- =======================================================

local NONE = {}

local hooks_of -- class -> its hook rules

-- Returns the rules that came with the name of a class, and over them those of
-- the policy.
local function merge(rules, hooks)
  if next(rules) == nil then return hooks end
  local both = {}
  for name, value in pairs(rules) do both[name] = value end
  for name, value in pairs(hooks) do both[name] = value end
  return both
end

-- Returns the rules that came with the name of a class, which may have been
-- given to the metatable for which the class stands.
local function named_rules(c)
  local rules = named.rules(c)
  if next(rules) ~= nil then return rules end
  return named.rules(object_class.metatable(c))
end

--- Returns the rules for a class.
function policy.hooks(c)
  if c == nil then return NONE end
  local hooks = hooks_of[c]
  if not hooks then
    local classes = current and current.definition.classes or NONE
    local mt = object_class.metatable(c)
    local name = named.name(c) or named.name(mt)
    hooks = merge(named_rules(c), classes[c] or classes[mt] or
      name and classes[name] or classes[object_class.name(c)] or
      classes[object_class.name(mt)] or NONE)
    hooks_of[c] = hooks
  end
  return hooks
end

local function made_by(new, is_userdata)
  local ok, object = call(current, 0, new)
  if not ok then error("the policy's rule 'new' has failed", 0) end
  return named.check_object(object, is_userdata)
end

--- Makes an empty object of a class, as the class's rules say: a table, or a
-- userdata.  Raises if the class can make none.
function policy.new_object(class, is_userdata)
  local new = policy.hooks(class).new
  if not new or new == named.rules(class).new then
    return named.make(class, is_userdata)
  end
  return made_by(new, is_userdata)
end

--- Returns the name of a userdata's class: its own, or that by which the
-- policy's `classes` know it; or nil.
function policy.userdata_name(obj)
  local c = object_class.of(obj)
  local name = named.name(named.of(obj, metatable(obj)))
  if name or c == nil then return name end
  local classes = policy.current().definition.classes or NONE
  for _, its in ipairs { c, object_class.metatable(c) } do
    name = object_class.name(its)
    if name and (classes[its] or classes[name]) then return name end
  end
end

--- Makes a userdata of a class that the policy knows by a name.  Returns nil if
-- there is no such class; raises if the class can make none.
function policy.new_userdata(name)
  local classes = policy.current().definition.classes or NONE
  local hooks = classes[name]
  for c, its in next, classes do
    hooks = hooks or object_class.name(c) == name and its or nil
  end
  if not hooks then return nil end
  if not hooks.new then error("it has no rule 'new'", 0) end
  return made_by(hooks.new, true)
end

local ignored -- class -> set of keys, or false

local function ignored_by(obj, mt)
  local c = object_class.of(obj, mt)
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

--- Returns the set of the fields of an object that the policy ignores, or nil.
function policy.ignored(obj) return ignored_by(obj) or nil end

local function descend(parent, key, child, scan)
  if policy.hooks(object_class.of(child)).deep == false then return false end
  local f = current.definition.descend
  if not f then return true end
  local ok, result = call(current, scan, f, parent, key, child)
  return not ok or result
end

-- }======================================================

-- {======================================================
-- Decisions
-- =======================================================

--- Tells the rules whether a hierarchy has hooks.
policy.set_global_hooks = ctx.set_global_hooks

local entries = {} -- policy that is asked -> the entries that its rules see

-- Returns the ctx of the rules that are asked.
local function ctx_for(given)
  local _, asked = field "rules"
  local list = entries[asked]
  if not list then
    list = ctx.entries(policy.entries(), asked.box)
    entries[asked] = list
  end
  return ctx.new(given, list, asked.box)
end

--- Tells whether an object counts as dynamic.  Returns the decision and the
-- name of the rule that decided.
function policy.is_dynamic(obj, given)
  if given ~= nil then check.dot("is_dynamic", obj) end
  check.argument(given == nil or type(given) == "table", 2, "is_dynamic",
    "table", given)
  local rules, self = field "rules"
  local its_ctx = ctx_for(given)
  for _, rule in ipairs(rules or NONE) do
    local ok, value = call(self, 0, rule[2], obj, its_ctx)
    if ok and value ~= nil then return value, rule[1] end
  end
  return false, "default"
end

-- }======================================================

local function has(name)
  for _, hooks in pairs(current.definition.classes or NONE) do
    if hooks[name] ~= nil then return true end
  end
  return named.has(name)
end

local function weak() return setmetatable({}, { __mode = "k" }) end

local function forget()
  hooks_of, ignored, entries = weak(), weak(), {}
end

local NO_NAMES = {}

local function mutators_of(c)
  return policy.hooks(c).mutators or NO_NAMES
end

-- {======================================================
-- The state of userdata
-- =======================================================

-- Calls a rule for the class of an object; raises the rule's error.
local function call_rule(name, obj, ...)
  local class = object_class.of(obj)
  local rule = policy.hooks(class)[name]
  if not rule then
    error(("the policy has no rule '%s' for the class"):format(name), 0)
  end
  local box = rule ~= named_rules(class)[name] and current.box
  if not box then return (rule(obj, ...)) end
  local ok, result = box:call(rule, obj, ...)
  if not ok then error(result, 0) end
  return result
end

local states = {}

function states.has(obj)
  local hooks = policy.hooks(object_class.of(obj))
  return hooks.snapshot and hooks.restore and true or false
end

function states.snapshot(obj) return call_rule("snapshot", obj) end

function states.restore(obj, state) call_rule("restore", obj, state) end

-- An error of the policy's does not break the program: the call has no entry.
function states.read(obj)
  local ok, state = pcall(private.state, obj)
  if ok then return true, state end
  if state == MEMORY then error(state, 0) end
  report(current, state)
  return false
end

-- }======================================================

policy.states = states

function refresh()
  forget()
  mutators.use(has "mutators" and mutators_of or nil,
    (current.definition.descend or has "deep") and descend or false,
    has "ignore" and ignored_by or false, has "restore" and states or nil)
end

forget()

-- {======================================================
-- Classes by name
-- =======================================================

local NAMED = { replace = "boolean" }
for name, kind in pairs(HOOKS) do NAMED[name] = kind end

--- Gives a class the name by which bytes and hierarchies know the class, and
-- the rules that a policy may give it.  Returns the class.
function policy.name_class(name, class, rules)
  check.argument(type(name) == "string", 1, "name_class", "string", name)
  check.argument(type(class) == "table", 2, "name_class", "table", class)
  rules = check.options(rules, NAMED, 3, "name_class", "rule")
  check.that(rules.replace or named.is_free(name, class), 1, "name_class",
    ("another class has the name '%s'; { replace = true } hands it over")
      :format(name))
  policy.current()
  local was = named.remember(name, class)
  apply(function() named.set(name, class, rules) end,
    function() named.restore(was) end)
  return class
end

-- }======================================================

return policy

-- The policy that is in force until a program uses another one.  To change the
-- policy, copy this file, edit the copy, and say `mw.load_policy(path):use()`.
--
-- A rule is { name, function(obj, ctx) }.  The first rule that returns a value
-- other than nil decides.  ctx has the fields that the caller of
-- `mw.is_dynamic` gave (config, export, ...), and
--   clock              the default clock
--   entries            the entries of the policy in force
--   class(obj)         the object's class
--   raw(t)             the table with the contents of a watched table
--   lookup(obj, key)   a field of the object or of a table that the object
--                      inherits from, found without calling a function
--   metamethod(obj, name)  a metamethod, found in the same way
--   global_hooks       whether a hierarchy has hooks
--   is_marked(class)   whether the class was given to mw.mark_dynamic

local policy = {
  entries = { "forward", "update", "run" },
}

-- The object runs by itself, or is a mapping.
local function entry(obj, ctx)
  if ctx.metamethod(obj, "__pairs") ~= nil then return true end
  if type(obj) ~= "table" then return nil end
  for _, name in ipairs(ctx.entries) do
    if rawget(ctx.raw(obj), name) ~= nil then return true end
  end
end

local function force(obj, ctx)
  return ctx.lookup(obj, "force_dynamic")
end

local function inline(_, ctx)
  local config = ctx.config
  if config and config.inline and
    (not ctx.export or config.install_free) then return true end
end

local function global_hooks(_, ctx)
  return ctx.global_hooks or nil
end

local function class(obj, ctx)
  local its = ctx.class(obj)
  return its ~= nil and ctx.is_marked(its) or nil
end

local function generation(obj, ctx)
  return ctx.clock:is_current(obj) or nil
end

policy.rules = {
  { "entry", entry },
  { "force", force },
  { "inline", inline },
  { "global_hooks", global_hooks },
  { "class", class },
  { "generation", generation },
}

return policy

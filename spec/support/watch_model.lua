-- Watches of objects without a class, in plain Lua: what a random program of
-- them is to do.  `model.new(shape)` and `model.real(shape)` have the
-- same functions.

local mw = require "moonwatch"
local styles = require "spec.support.styles"
local support = require "support"

local model = {}

-- The library itself --------------------------------------------------------

-- What objects there are: functions that make one of a table of fields.
model.shapes = {
  plain = function(fields) return fields end,
  tracked = function(fields) return mw.track(fields) end,
  root = function(fields) return mw.track(fields, { deep = true }) end,
}

-- Those that tell of their writes for another reason, too.
model.stays = { tracked = true, root = true, below = true,
  below_a_fired_watch = true }

local roots = setmetatable({}, { __mode = "k" })

function model.shapes.below(fields)
  roots[fields] = mw.track({ { fields } }, { deep = true })
  return fields
end

function model.shapes.below_a_fired_watch(fields)
  local root = { { fields } }
  roots[fields] = root
  mw.watch(root, function() end, { deep = true })
  root[2] = true
  return fields
end

local inherits = { __index = { inherited = true } }

function model.shapes.class(fields) return setmetatable(fields, inherits) end

local keeps = { __newindex = function(t, k, v) rawset(t, k, v) end }

function model.shapes.newindex(fields) return setmetatable(fields, keeps) end

local contents = setmetatable({}, { __mode = "k" })
local elsewhere = {
  __index = function(self, key) return contents[self][key] end,
  __newindex = function(self, key, value) contents[self][key] = value end,
}

function model.shapes.userdata(fields)
  local object = support.userdata(elsewhere)
  contents[object] = fields
  return object
end

for name, style in pairs(styles) do
  local class
  model.shapes[name] = function(fields)
    class = class or style.make("Shape", nil, function(self, its)
      for key, value in pairs(its) do self[key] = value end
    end)
    return style.construct(class, fields)
  end
end

--- Returns the functions, for objects of a shape.
function model.real(name)
  local its, stays = { batch = mw.batch }, model.stays[name] or false
  its.object = model.shapes[name]
  function its.unwatch(obj) return mw.unwatch(obj) == not stays end
  function its.counts(obj)
    if not stays then return mw.mutations(obj), mw.is_watched(obj) end
  end
  function its.flag() return mw.guard() end
  function its.is_valid(flag) return flag.valid end
  function its.revalidate(flag) flag:revalidate() end
  function its.watch(obj, guard, opts) return mw.watch(obj, guard, opts) end
  function its.cancel(handle) handle:cancel() end
  function its.is_alive(handle) return handle:alive() end
  function its.read(obj, key) return obj[key] end
  function its.write(obj, key, value) obj[key] = value end
  return its
end

-- The model -----------------------------------------------------------------

local function normal(key) return math.tointeger(key) or key end

local function kind_of(old, new)
  if new == nil then return "delete" end
  return old == nil and "insert" or "update"
end

local same = require "moonwatch.same"

local function is_flag(guard) return type(guard) == "table" end

function model.new(name)
  local its, stays = {}, model.stays[name]
  local seq, rows = 0, nil -- of the open batch

  function its.object(fields)
    return { fields = fields, watches = {}, n = 0, watched = false }
  end

  function its.flag() return { valid = true } end
  function its.is_valid(flag) return flag.valid end
  function its.revalidate(flag) flag.valid = true end
  function its.counts(obj)
    if not stays then return obj.n, obj.watched end
  end
  function its.cancel(watch) watch.ended = true end
  function its.is_alive(watch) return not watch.ended end
  function its.read(obj, key) return obj.fields[normal(key)] end

  function its.watch(obj, guard, opts)
    seq = seq + 1
    local watch = { obj = obj, guard = guard, seq = seq, once = true,
      after = opts.phase == "after", skip = opts.equal == "skip" }
    if opts.once == false then watch.once = false end
    local keys = opts.keys or (opts.key ~= nil and { opts.key })
    if keys then
      watch.keys = {}
      for _, key in ipairs(keys) do watch.keys[normal(key)] = true end
    end
    obj.watches[#obj.watches + 1] = watch
    obj.watched = true
    return watch
  end

  function its.unwatch(obj)
    for _, watch in ipairs(obj.watches) do watch.ended = true end
    obj.watches, obj.watched = {}, false
    return true
  end

  local function concerns(watch, change)
    if watch.ended or watch.keys and not watch.keys[change.key] then
      return false
    end
    return not (watch.skip and change.same)
  end

  -- Calls the guard; keeps the first error in `failure`.
  local function call(watch, change, failure)
    if watch.once then watch.ended = true end
    if is_flag(watch.guard) then
      watch.guard.valid = false
      return
    end
    local ok, err = pcall(watch.guard, watch.obj, change.key, change.old,
      change.new, change.kind)
    if not ok and not failure.failed then
      failure.failed, failure.err = true, err
    end
  end

  local function raise(failure)
    if failure.failed then error(failure.err, 0) end
  end

  -- Watches that are there when the write begins hear it; who is called once
  -- is taken by one write.
  local function tell(obj, change, after, last, failure)
    local list = {}
    for _, watch in ipairs(obj.watches) do
      if watch.seq <= last and watch.after == after and not watch.claim and
        concerns(watch, change) then
        if watch.once then watch.claim = list end
        list[#list + 1] = watch
      end
    end
    for _, watch in ipairs(list) do
      if not watch.ended then call(watch, change, failure) end
    end
  end

  -- Notes a write in the open batch; flags hear at once.
  local function note(obj, change)
    local row
    for _, known in ipairs(rows) do
      if known.obj == obj and rawequal(known.key, change.key) then
        row = known
      end
    end
    if not row then
      row = { obj = obj, key = change.key, old = change.old }
      rows[#rows + 1] = row
    end
    rows.n = rows.n + 1
    row.last, row.seq = rows.n, seq
    for _, watch in ipairs(obj.watches) do
      if is_flag(watch.guard) and not watch.skip and not watch.claim and
        concerns(watch, change) then
        call(watch, change, {})
      end
    end
  end

  function its.write(obj, key, value)
    key = normal(key)
    if not obj.watched and not stays then
      obj.fields[key] = value
      return
    end
    obj.n = obj.n + 1
    local old = obj.fields[key]
    local change = { key = key, old = old, new = value,
      kind = kind_of(old, value), same = same(old, value) }
    if rows then
      note(obj, change)
      obj.fields[key] = value
      return
    end
    local last, failure = seq, {}
    tell(obj, change, false, last, failure)
    old = obj.fields[key] -- a guard may have written
    change.old, change.kind = old, kind_of(old, value)
    change.same = same(old, value)
    obj.fields[key] = value
    tell(obj, change, true, last, failure)
    raise(failure)
  end

  -- The watches that hear of a batch, each with the last row that concerns it.
  local function calls_of(batch)
    local list, found = {}, {}
    for _, row in ipairs(batch) do
      local change = { key = row.key,
        same = same(row.old, row.obj.fields[row.key]) }
      for _, watch in ipairs(row.obj.watches) do
        if watch.seq <= row.seq and not watch.claim and
          not (is_flag(watch.guard) and not watch.skip) and
          concerns(watch, change) then
          local known = found[watch]
          if not known then
            known = { watch = watch, row = row }
            found[watch], list[#list + 1] = known, known
          elseif known.row.last < row.last then
            known.row = row
          end
        end
      end
    end
    return list
  end

  local function deliver(batch, failure)
    for _, it in ipairs(calls_of(batch)) do
      local watch, row = it.watch, it.row
      local new = row.obj.fields[row.key]
      if not watch.ended and not (watch.skip and same(row.old, new)) then
        call(watch, { key = row.key, old = row.old, new = new,
          kind = kind_of(row.old, new) }, failure)
      end
    end
  end

  function its.batch(fn)
    local is_outermost = not rows
    if is_outermost then rows = { n = 0 } end
    local batch = rows
    local ok, err = pcall(fn)
    local failure = {}
    if is_outermost then
      rows = nil
      deliver(batch, failure)
    end
    if not ok then error(err, 0) end
    raise(failure)
  end

  return its
end

return model

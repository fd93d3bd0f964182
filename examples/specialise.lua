-- A handler of messages that learns what its messages look like.  It begins
-- with a function for any message; when it has seen enough, it puts one in its
-- place that is written for these, with a guard that finds the others.

local mw = require "moonwatch"

-- Any message as text: sorted keys, nested tables, all checks --------------

local function encode(value)
  if type(value) ~= "table" then return tostring(value) end
  local keys, parts = {}, {}
  for key in pairs(value) do keys[#keys + 1] = key end
  table.sort(keys)
  for i, key in ipairs(keys) do parts[i] = key .. "=" .. encode(value[key]) end
  return "{" .. table.concat(parts, ",") .. "}"
end

-- The text of messages that are like the examples: what is constant is in the
-- source already.
local function specialised(spec)
  local constants, varying = spec:constants(), {}
  for path in pairs(spec:varying()) do varying[path] = true end
  local pieces = {}

  -- The same walk as above, through one example, but it writes the program.
  local function write(value, path)
    if varying[path] then
      pieces[#pieces + 1] = ("tostring(%s)"):format(path)
    elseif type(value) ~= "table" then
      pieces[#pieces + 1] = ("%q"):format(tostring(constants[path]))
    else
      local keys = {}
      for key in pairs(value) do keys[#keys + 1] = key end
      table.sort(keys)
      for i, key in ipairs(keys) do
        pieces[#pieces + 1] = ("%q"):format((i == 1 and "{" or ",") .. key ..
          "=")
        write(value[key], mw.normalize_name(path .. "." .. key))
      end
      pieces[#pieces + 1] = '"}"'
    end
  end

  return function(example)
    write(example, "L")
    local source = "return function(L) return " ..
      table.concat(pieces, " .. ") .. " end"
    source = source:gsub('" %.%. "', "") -- neighbours that are constant
    return assert(load(source))()
  end
end

-- The handler ---------------------------------------------------------------

local ENOUGH = 200

local handler = { fast = 0, slow = 0 }
---@type moonwatch.Report?
local learned = mw.dynamism(nil, { confidence = ENOUGH })

function handler.handle(message)
  handler.slow = handler.slow + 1
  if learned and learned:add(message):examples() == ENOUGH then
    local spec = mw.infer(learned, { exact = true })
    local guard = assert(load(assert(spec:to_lua())))()
    local fast, generic = specialised(spec)(message), handler.handle
    learned = nil
    io.write("After ", ENOUGH, " messages, this guards the fast way:\n",
      (spec:to_lua():match("test%[1%].-\nend\n"):gsub("%f[^\n%z]", "  ")))
    handler.handle = function(any)
      local ok, where = guard(any)
      if not ok then
        print("other: " .. where)
        return generic(any)
      end
      handler.fast = handler.fast + 1
      return fast(any)
    end
  end
  return encode(message)
end

-- What comes in -----------------------------------------------------------

local function message(i)
  return { kind = "move", version = 2, id = 1 + i % 100,
    to = { x = (i * 7 % 100) / 2, y = (i * 3 % 100) / 4 } }
end

for i = 1, 1000 do
  local m = message(i)
  assert(handler.handle(m) == encode(m))
end
local CHANGES = { { version = 3 }, { id = "x" }, { to = "home" }, { more = 1 } }
for _, change in ipairs(CHANGES) do
  local m = message(1)
  for key, value in pairs(change) do m[key] = value end
  assert(handler.handle(m) == encode(m))
end
print(("%d messages went the fast way, %d the slow one"):format(handler.fast,
  handler.slow))

-- What it brings ----------------------------------------------------------

local function seconds(f)
  local messages = {}
  for i = 1, 20000 do messages[i] = message(i) end
  local start = os.clock()
  for _, m in ipairs(messages) do f(m) end
  return os.clock() - start
end

print(("The fast way is %.1f times as fast."):format(seconds(encode) /
  seconds(handler.handle)))

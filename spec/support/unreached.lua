-- For spec/support/faults.c: runs the scenarios once, with memory, and returns
-- the names of the public functions that none of them called.
--
-- Public are the functions in `mw` and what the library's classes have: methods
-- and metamethods.  A class is a locked metatable with a name, or with methods
-- in Lua.  Methods that C puts into each object are told by their upvalues and
-- named when an object with them is seen.

local function is_in_c(f) return debug.getinfo(f, "S").what == "C" end

local function is_class(t)
  if type(t) ~= "table" or rawget(t, "__metatable") ~= false then return end
  if rawget(t, "__name") then return true end
  for key, method in next, t do -- an own metatable has guards under integers
    if type(key) == "string" and type(method) == "function" and
      not is_in_c(method) then
      return true
    end
  end
end

-- Calls found(value) for what `value` refers to.
local function visit(value, found)
  found(debug.getmetatable(value))
  if type(value) == "table" then
    for k, v in next, value do
      found(k)
      found(v)
    end
  elseif type(value) == "function" then
    local i, name, v = 1, debug.getupvalue(value, 1)
    while name do
      found(v)
      i = i + 1
      name, v = debug.getupvalue(value, i)
    end
  elseif type(value) == "userdata" then
    for i = 1, 100 do found((debug.getuservalue(value, i))) end
  end
end

-- All that can be reached from the registry.
local function reachable()
  local seen, list = {}, { debug.getregistry() }
  local function found(value)
    local kind = type(value)
    if (kind == "table" or kind == "function" or kind == "userdata") and
      not seen[value] then
      seen[value] = true
      list[#list + 1] = value
    end
  end
  local i = 0
  while i < #list do
    i = i + 1
    visit(list[i], found)
  end
  return list
end

-- A name that tells classes of one name apart by the file of their methods.
local function name_of(class, key, method)
  local name = (rawget(class, "__name") or "object") .. ":" .. key
  if is_in_c(method) then return name end
  local info = debug.getinfo(method, "S")
  return ("%s (%s:%d)"):format(name, info.short_src, info.linedefined)
end

local function is_hot(method)
  if type(method) ~= "function" then return false end
  local _, data = debug.getupvalue(method, 3)
  return is_in_c(method) and type(data) == "userdata"
end

local function add_class(names, class)
  local index = rawget(class, "__index")
  for _, methods in ipairs { class, type(index) == "table" and index or nil } do
    for key, method in next, methods do
      if type(method) == "function" and key ~= "__gc" then -- no hook sees it
        names[method] = name_of(class, key, method)
      end
    end
  end
end

return function(scenarios)
  local called, hot = {}, {} -- by function, by name
  local function note()
    local f = debug.getinfo(2, "f").func
    local _, self = debug.getlocal(2, 1)
    local class = debug.getmetatable(self)
    called[f] = true
    if type(self) ~= "table" or not is_class(class) then return end
    for key, method in next, self do
      if is_hot(method) then
        local name = name_of(class, key, method)
        hot[name] = hot[name] or method == f
      end
    end
  end

  for _, scenario in pairs(scenarios) do
    debug.sethook(note, "c")
    scenario()
    debug.sethook()
  end

  local names = {}
  for name, value in pairs(require "moonwatch") do
    if type(value) == "function" then names[value] = "mw." .. name end
  end
  for _, value in ipairs(reachable()) do
    if is_class(value) then add_class(names, value) end
  end
  local missing = {}
  for method, name in pairs(names) do
    if not called[method] then missing[#missing + 1] = name end
  end
  for name, is_called in pairs(hot) do
    if not is_called then missing[#missing + 1] = name end
  end
  table.sort(missing)
  return missing
end

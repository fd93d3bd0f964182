-- Runs busted with the Lua that runs this file, also with a Lua for which
-- busted's C modules are not built (another version, another machine):
-- stand-ins for lfs, system and term do what busted asks of these.

-- Returns a field of the real module, if this Lua can load the module.
local function stand_in(name, module)
  package.preload[name] = function()
    package.preload[name] = nil
    local ok, real = pcall(require, name)
    package.loaded[name] = nil
    return ok and real or module
  end
end

local function output_of(command)
  local ok, pipe = pcall(io.popen, command)
  if not ok or not pipe then return function() end end
  return pipe:lines()
end

local function mode_of(path)
  local file = io.open(path)
  if not file then return nil, "no such file" end
  local is_file = file:read(0) or file:seek "end" == 0
  file:close()
  return is_file and "file" or "directory"
end

local lfs = {}

function lfs.attributes(path, what)
  local mode, message = mode_of(path)
  if not mode then return nil, message end
  return what == "mode" and mode or not what and { mode = mode } or 0
end
lfs.symlinkattributes = lfs.attributes

function lfs.currentdir() return os.getenv "PWD" or "." end
function lfs.chdir() return true end
function lfs.mkdir(path) return os.execute('mkdir "' .. path .. '"') end
function lfs.rmdir(path) return os.execute('rmdir "' .. path .. '"') end
function lfs.dir(path) return output_of('ls -a "' .. path .. '"') end

stand_in("lfs", lfs)
stand_in("system",
  { gettime = os.time, monotime = os.clock, sleep = function() end })
stand_in("term", { isatty = function() return false end })

-- In Lua 5.5 no loop assigns to its variable.  Gives loops of older modules a
-- variable of their own.
local function repaired(text, path)
  local chunk, message = load(text, "@" .. path)
  while not chunk do
    local line, name =
      message:match ":(%d+): attempt to assign to const variable '([%w_]+)'"
    if not line then error(message, 0) end
    local at, from = 1, nil
    for _ = 1, tonumber(line) do
      local loop = text:match("^[^\n]-()%f[%w]for [^\n]-%f[%w]" .. name ..
        "%f[^%w_][^\n]-%f[%w]do%f[%W]", at)
      from = loop or from
      at = text:find("\n", at, true) + 1
    end
    local stop = select(2, text:find("%f[%w]do%f[%W]", from))
    text = text:sub(1, stop) .. " local " .. name .. " = " .. name .. " " ..
      text:sub(stop + 1)
    chunk, message = load(text, "@" .. path)
  end
  return chunk
end

table.insert(package.searchers, 2, function(name)
  local path = _VERSION > "Lua 5.4" and
    package.searchpath(name, os.getenv "LUA_PATH")
  local file = path and io.open(path)
  if not file then return nil end
  local text = file:read "a"
  file:close()
  return repaired(text, path), path
end)

require "busted.runner" { standalone = false }

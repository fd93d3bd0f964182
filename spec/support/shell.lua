-- Runs commands, for specs.

local shell = {}

local is_unix = package.config:sub(1, 1) == "/"
local LIST = is_unix and "ls -A " or "dir /b "
local REMOVE = is_unix and "rm -rf " or "rmdir /s /q "

-- Returns the output of a command, whether its status was 0, and the status.
function shell.run(command, ...)
  local pipe = assert(io.popen(command:format(...) .. " 2>&1"))
  local output = pipe:read "a"
  local ok, _, status = pipe:close()
  return output, ok or false, status
end

-- Returns the names of the files in a directory, each on a line; or nil on a
-- platform that runs no commands.
function shell.files(path)
  if not pcall(io.popen, "") then return nil end
  return (shell.run("%s%s", LIST, path):gsub("\r", ""))
end

-- Calls `f` with the path of a new empty directory, and removes the directory.
function shell.with_directory(f)
  local path = os.tmpname()
  os.remove(path)
  assert(os.execute("mkdir " .. path))
  local ok, message = xpcall(f, debug.traceback, path)
  os.execute(REMOVE .. path)
  if not ok then error(message, 0) end
end

return shell

-- Policy files, for specs.

local mw = require "moonwatch"
local shell = require "spec.support.shell"

local policy_file = {}

function policy_file.write(path, text)
  local file = assert(io.open(path, "w"))
  assert(file:write(text))
  assert(file:close())
end

-- Writes the text to a file and calls `f` with the policy of the file, or with
-- nil and a message, and with the path.
function policy_file.with(text, f, env)
  shell.with_directory(function(directory)
    local path = directory .. "/policy.lua"
    policy_file.write(path, text)
    local policy, message = mw.load_policy(path, env)
    f(policy, message, path)
  end)
end

return policy_file

#!/usr/bin/env lua5.4
--- The command `moonwatch`: reads the arguments and calls one of the commands.
-- SPDX-License-Identifier: MIT
--
-- A command is a module with `summary`, `example`, `define(parser)`, which
-- says what the command is called with, and `run(args)`, which returns the exit
-- status: 0, 1 when something failed.  Wrong arguments end with 2.

-- The root below which the modules are: `make install` writes its own here.
local PREFIX = nil

-- LuaRocks puts the modules below the same root as this file.
local root = PREFIX or arg[0]:match "^(.*)/lib/luarocks/rocks"
if root then
  local share = ("%s/share/lua/%s/"):format(root, _VERSION:match "%d%.%d")
  package.path = share .. "?.lua;" .. share .. "?/init.lua;" .. package.path
  package.cpath = ("%s/lib/lua/%s/?.so;"):format(root,
    _VERSION:match "%d%.%d") .. package.cpath
end

local function stop(status, ...)
  io.stderr:write(...)
  os.exit(status, true)
end

local found, argparse = pcall(require, "argparse")
if not found then
  stop(2, "moonwatch: the command needs argparse, which is not installed ",
    "(luarocks install argparse, or the package lua-argparse)\n")
end

local NAMES = { "run", "dynamism", "diff", "report", "version" }

local parser = argparse("moonwatch", "Watch what a Lua program does.",
  "Learn more by an example: moonwatch run --help")
parser:command_target "command"

function parser.error(its, message) -- its: that of the command
  stop(2, its:get_usage(), "\nmoonwatch: ", message, "\n")
end

local commands = {}
for _, name in ipairs(NAMES) do
  local command = require("moonwatch.command." .. name)
  commands[name] = command
  command.define(parser:command(name):summary(command.summary)
    :description(command.description or command.summary)
    :epilog("Example:\n" .. command.example))
end

-- What follows the name of a script belongs to the script, also what looks like
-- an option.
local function split(list)
  local options = commands[list[1]] and commands[list[1]].options
  if not options then return list end
  local at = 2
  while list[at] and list[at]:find "^%-." and list[at] ~= "--" do
    at = at + (options[list[at]] and 2 or 1)
  end
  if list[at] and list[at] ~= "--" then table.insert(list, at, "--") end
  return list
end

local args = parser:parse(split { table.unpack(arg) })
os.exit(commands[args.command].run(args), true)

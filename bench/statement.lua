-- Does a statement of ways.lua so many times, for valgrind to count the
-- processor's instructions meanwhile.
--
--   statement.lua <way> <count>

package.path = "bench/?.lua;" .. package.path
package.cpath = (os.getenv "BUILD" or "build") .. "/bench/?.so;" ..
  package.cpath

local floor = require "floor"
local mw = require "moonwatch"

assert(floor.collect, "valgrind's header was not there to build with")
local run, start = require "ways".statements[arg[1]]()
collectgarbage()
mw.reap()
collectgarbage "stop" -- a cycle more or less would hide the rest
start()
run(1) -- the first write may have more to do
floor.collect()
run(tonumber(arg[2]))
floor.collect()
os.exit(true)

-- Compiles and runs the engine's tests by each compiler that is installed, for
-- its platform.  Ends with one line for all of them: N passed, M failed.

local platforms = {
  { "clang", "clang" },
  { "32 bit", "gcc -m32 -idirafter /usr/include/x86_64-linux-gnu" },
  { "tcc", "tcc" },
  { "musl", "musl-gcc" },
  { "s390x", "s390x-linux-gnu-gcc", "qemu-s390x -L /usr/s390x-linux-gnu" },
  { "aarch64", "aarch64-linux-gnu-gcc",
    "qemu-aarch64 -L /usr/aarch64-linux-gnu" },
  { "Windows", "x86_64-w64-mingw32-gcc",
    "env WINEDEBUG=-all WINEPREFIX=$(realpath " .. os.getenv "BUILD" ..
    ")/platform/wine wine" },
}

-- Other compilers do not look in the system's folders for khash.h.
local COMPILE = "%s -std=c11 -g -DMW_CHECKS " .. os.getenv "TINY" ..
  " -I /usr/include/htslib -o %s spec/engine/*.c spec/support/heap.c " ..
  "spec/support/checks.c engine/*.c"

local FOLDER = os.getenv "BUILD" .. "/platform"

-- A program that does not end is killed.  What it prints goes into a file: wine
-- leaves servers behind, which would keep a pipe open.
local LIMIT = "timeout -k 5 120 "
local OUTPUT = FOLDER .. "/output"

local function run(command)
  local ok = os.execute("{ " .. command .. "; } </dev/null >" .. OUTPUT ..
    " 2>&1")
  local file = assert(io.open(OUTPUT))
  local output = file:read "a"
  file:close()
  return output, ok or false
end

-- Can this compiler make programs, and can they run here?
local function is_here(cc, how, program)
  local source = program .. ".c"
  local _, ok = run(("printf '#include <errno.h>\\nint main(void) " ..
    "{ return errno; }\\n' > %s && %s -o %s %s && %s %s %s"):format(source, cc,
      program, source, LIMIT, how, program))
  return ok
end

local function count(name, cc, how)
  local program = ("%s/%s.exe"):format(FOLDER, (name:gsub(" ", "")))
  if not is_here(cc, how, program) then
    print(("%-24s is not here"):format(name))
    return 0, 0
  end
  local output, ok = run(LIMIT .. COMPILE:format(cc, program) .. " && " ..
    LIMIT .. how .. " " .. program)
  local p, f = output:match "(%d+) passed, (%d+) failed%s*$"
  p, f = tonumber(p or 0), tonumber(f or 1)
  if not ok and f == 0 then f = 1 end
  if f > 0 then print(output) end
  print(("%-24s %4d passed, %d failed"):format(name, p, f))
  return p, f
end

os.execute("mkdir -p " .. FOLDER)
local passed, failed = 0, 0
for _, platform in ipairs(platforms) do
  local p, f = count(platform[1], platform[2], platform[3] or "")
  passed, failed = passed + p, failed + f
end
print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)

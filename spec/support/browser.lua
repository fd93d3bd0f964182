-- Opens the page of a trace in a browser without a window, and tests that its
-- tables are filled.  Leaves a picture in build/page.png.  Ends with one line:
-- N passed, M failed.

local mw = require "moonwatch"
local shell = require "spec.support.shell"

local BROWSER = "timeout 60 chromium --headless --no-sandbox --disable-gpu " ..
  "--window-size=1200,1000 --virtual-time-budget=2000 "
local HOSTILE = "</script><script>document.title='hit'</script>"

local function make_page(path)
  local trace = mw.trace { sources = { "watch" } }:start()
  local object = mw.track { x = 1 }
  for i = 1, 20 do
    local frame <close> = mw.timed("frame", { args = { i = i } })
    object.x = i
    mw.timed(HOSTILE):close()
    frame:add("text", HOSTILE)
  end
  object[HOSTILE] = true
  assert(trace:stop():write(path, "html"))
end

local passed, failed = 0, 0

local function check(what, ok)
  if ok then
    passed = passed + 1
  else
    failed = failed + 1
    print("failed: " .. what)
  end
end

local escaped = HOSTILE:gsub("<", "&lt;"):gsub(">", "&gt;")

shell.with_directory(function(path)
  make_page(path .. "/page.html")
  local dom = shell.run(BROWSER .. "--dump-dom file://%s/page.html", path)
  check("the totals have a row a name",
    dom:find '<tr><td>frame</td><td class="n">20</td>')
  check("the writes have a row a write",
    select(2, dom:gsub("<td>update</td>", "")) == 20)
  check("names are text", dom:find("<td>" .. escaped .. "</td>", 1, true))
  check("no name is run", dom:find("<title>moonwatch trace</title>", 1, true))
  check("it says what it has",
    dom:find("40 scopes, 21 writes, 0 events lost", 1, true))
  local picture = os.getenv "BUILD" .. "/page.png"
  os.remove(picture)
  shell.run(BROWSER .. "--screenshot=%s file://%s/page.html", picture, path)
  check("there is a picture", io.open(picture))
end)

print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)

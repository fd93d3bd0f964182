-- Opens the pages of traces in a browser without a window, and does there what
-- a person does.  Leaves pictures in build/.  Ends with one line: N passed, M
-- failed.

local chromium = require "spec.support.chromium"
local mw = require "moonwatch"
local shell = require "spec.support.shell"

local HOSTILE = "</script><script>document.title='hit'</script>"
local BUILD = os.getenv "BUILD"

local passed, failed = 0, 0

local function check(what, ok)
  if ok then
    passed = passed + 1
  else
    failed = failed + 1
    print("failed: " .. what)
  end
end

local function busy(us)
  local start = os.clock()
  while os.clock() - start < us / 1e6 do mw.frame() end
end

local function class(name)
  local its = { __name = name }
  its.__index = its
  return its
end

local function track(its, fields) return mw.track(setmetatable(fields, its)) end

-- Worlds -----------------------------------------------------------------

-- What a game does in 30 frames.
local function play()
  local hero = track(class "Hero", { hp = 100, gold = 0 })
  local Enemy, enemies, live = class "Enemy", {}, {}
  for i = 1, 20 do enemies[i] = track(Enemy, { x = i, y = 0 }) end
  mw.watch(hero, function() end, { once = false })
  local function think(enemy, i)
    for step = 1, 8 do
      local scope <close> = mw.timed("npc.think",
        { args = { npc = i, step = step } })
      busy(20)
      enemy.x = enemy.x + step
      coroutine.yield()
      mw.timed "npc.path":close()
      assert(scope)
    end
  end
  for f = 1, 30 do
    local frame <close> = mw.timed("frame", { args = { n = f } })
    if f % 2 == 1 then
      local co = coroutine.create(think)
      coroutine.resume(co, enemies[(f + 1) // 2], f)
      live[#live + 1] = co
    end
    for i = 1, 20 do
      local body <close> = mw.timed "body"
      enemies[i].y = f / 10
      assert(body)
    end
    for i = #live, 1, -1 do
      coroutine.resume(live[i])
      if coroutine.status(live[i]) == "dead" then table.remove(live, i) end
    end
    local draw <close> = mw.timed "draw"
    busy(f == 17 and 20000 or 300)
    mw.transaction(function() hero.hp = hero.hp - f % 3 end)
    mw.counter("hp", hero.hp)
    if f % 10 == 0 then mw.instant("checkpoint", { frame = f }) end
    assert(frame and draw)
  end
  hero.gold = 9007199254740993
  hero.title = HOSTILE
  mw.timed(HOSTILE):close()
end

-- A million events, of main and of 2,500 coroutines that are there at the same
-- time.
local function play_long()
  local object, all = track(class "Object", { x = 0 }), {}
  for i = 1, 2500 do
    all[i] = coroutine.wrap(function()
      local scope <close> = mw.timed "npc"
      for _ = 1, 20 do
        local inner <close> = mw.timed("step " .. i % 50)
        coroutine.yield(inner)
      end
      return scope
    end)
  end
  for f = 1, 50000 do
    local frame <close> = mw.timed "frame"
    for _ = 1, 4 do
      local step <close> = mw.timed "step"
      object.x = f
      assert(step)
    end
    all[f % 2500 + 1]()
    mw.counter("f", f % 100)
    mw.timed("rest " .. f % 7):close()
    assert(frame)
  end
end

local function write_page(path, f, opts)
  local trace = mw.trace(opts):start()
  f()
  assert(trace:stop():write(path, "html"))
  return trace
end

-- Tests ------------------------------------------------------------------

local function test_game(browser, path)
  write_page(path, play,
    { sources = { "watch", "transaction" }, where = true })
  browser:open("file://" .. path)
  local function text(id)
    return browser:eval(("document.getElementById('%s').innerText"):format(id))
  end
  local function has(id, part) return text(id):find(part, 1, true) ~= nil end
  local function value(expression) return browser:eval(expression) end
  local function cell(table, row, column)
    return value(("[...document.querySelectorAll('#%s .row:not(.head)')]" ..
      ".find(r => r.index === %d).children[%d].textContent"):format(table, row,
      column))
  end
  local function place(selector)
    local x = value(("(() => { const r = document.querySelector('%s')" ..
      ".getBoundingClientRect(); return r.left + r.width / 2 })()")
      :format(selector))
    local y = value(("(() => { const r = document.querySelector('%s')" ..
      ".getBoundingClientRect(); return r.top + r.height / 2 })()")
      :format(selector))
    return x, y
  end
  local function click(selector) browser:click(place(selector)) end
  local function length() return value "view.to - view.from" end
  -- The middle of a span on the screen.
  local function span_place(name)
    local s = value(("[...model.start.keys()].find(s => spanName(s) === " ..
      "'%s')"):format(name))
    value(("showSpan(%d); choose(null); draw()"):format(s))
    return value(("canvas.getBoundingClientRect().left + " ..
      "((model.start[%d] + model.stop[%d]) / 2 - view.from) * scale()")
      :format(s, s)),
      value(("canvas.getBoundingClientRect().top - $('tracks').scrollTop + " ..
      "model.thread[%d].track.y + HEAD + model.depth[%d] * LINE + 8")
      :format(s, s))
  end

  check("it says what it has", has("summary", " writes, 16 coroutines, 0 ev"))
  check("names are not run", value "document.title" == "moonwatch trace")
  check("names are text", has("totals", HOSTILE))
  check("main is the first track", value "model.tracks[0].title" == "main")
  check("a counter is a track", value "model.tracks[1].title" == "hp")
  check("dead coroutines share a track", value(
    "model.tracks.some(t => t.threads.length > 1)"))
  check("own times are no more than the whole", value(
    "model.own.reduce((a, b) => a + b) <= model.end + 1"))
  check("what is suspended has no time of its own", value(
    "totalsOf(0, model.end).filter(t => isWait(t.name))" ..
    ".every(t => t.own === 0)"))
  check("totals are sorted", value(
    "totals.rows.every((t, i) => !i || " ..
    "worked(t) <= worked(totals.rows[i - 1]))"))
  check("those that wait are last", value(
    "totals.rows.findIndex(t => isWait(t.name)) === totals.rows.length - 1"))
  browser:picture(BUILD .. "/page.png")
  -- The colours at the middles of the wide spans are the spans' own.
  check("each wide span is drawn", value [[(() => {
    const shot = $("tracks").scrollTop, ratio = window.devicePixelRatio || 1;
    for (let s = 0; s < model.n; s++) {
      const w = (model.stop[s] - model.start[s]) * scale();
      const x = (model.stop[s] - view.from) * scale() - 3;
      const y = model.thread[s].track.y + HEAD + model.depth[s] * LINE - shot;
      if (w < 8 || y > canvas.clientHeight - LINE) continue;
      const its = pen.getImageData(x * ratio, (y + 1) * ratio, 1, 1).data;
      if (its[3] < 200) return false;
    }
    return true;
  })()]])

  local x, y = place "#totals .head > span:nth-child(3)"
  browser:click(x, y)
  check("a click sorts by another column", value(
    "totals.rows.every((t, i) => !i || t.count <= totals.rows[i - 1].count)"))
  browser:click(x, y)
  check("and the other way round", value(
    "totals.rows.every((t, i) => !i || t.count >= totals.rows[i - 1].count)"))
  browser:move(x, y)
  check("a title has a tip", has("tip", "How many there are."))

  local all = length()
  browser:wheel(600, 150, -120, 2)
  check("Ctrl and wheel zoom in", length() < all)
  browser:wheel(600, 150, 120, 2)
  browser:wheel(600, 150, 120, 2)
  check("and out, not further than all", math.abs(length() - all) < 1e-6)
  browser:move(600, 150)
  browser:key "w"
  local zoomed = length()
  check("W zooms in", zoomed < all)
  local from = value "view.from"
  browser:key "d"
  check("D goes on", value "view.from" > from and
    math.abs(length() - zoomed) < 0.01)
  browser:key "ArrowLeft"
  check("an arrow goes back", math.abs(value "view.from" - from) < 0.01)
  browser:key "s"
  check("S zooms out", length() > zoomed)
  browser:key "0"
  check("0 shows all", math.abs(length() - all) < 1e-6)
  browser:drag(600, 150, 400, 150)
  check("all cannot be moved", math.abs(value "view.from") < 1e-6)
  browser:key "?"
  check("? shows the keys", value "$('help').offsetHeight" > 100)
  browser:picture(BUILD .. "/page-help.png")
  browser:key "Escape"
  check("Escape ends that", value "$('help').offsetHeight" == 0)

  browser:drag(300, 40, 600, 40)
  check("a drag on the ruler selects", has("selection", "selected: "))
  check("totals are those of the selection", value(
    "totals.rows.reduce((sum, t) => sum + t.own, 0) <= " ..
    "view.selected[1] - view.selected[0] + 1"))
  browser:key "Escape"
  check("Escape ends the selection", text "selection" == "")

  local span_x, span_y = span_place "npc.think"
  browser:move(span_x, span_y)
  check("a span has a tip at the mouse", has("tip", "npc.think") and
    math.abs(value "$('tip').getBoundingClientRect().left" - span_x) < 500)
  browser:click(span_x, span_y)
  check("a click tells all", has("details", "npc: ") and
    has("details", "suspended"))

  click "#to-longest"
  check("the longest is the longest", value(
    "longest.rows.every((s, i) => !i || active(s) <= " ..
    "active(longest.rows[i - 1]))"))
  check("it is the slow frame", cell("longest", 0, 1) == "frame" and
    cell("longest", 0, 6) == "n: 17")
  click "#longest .row:not(.head)"
  check("a click leads there", value "view.here.span === longest.rows[0]" and
    value "view.from <= view.here.from && view.to >= view.here.to")

  click "#to-writes"
  browser:eval "writes.sort(writes.columns[0]); writes.sort(writes.columns[0])"
  check("a row a write", value "writes.rows.length" == 600 +
    value "writes.rows.filter(m => said(m).key !== 'y').length")
  browser:key "/"
  browser:type "hp"
  browser:settle()
  check("/ and a word search", value "writes.rows.length" == 30 and
    has("to-writes", "30 of "))
  check("a row says who wrote what",
    cell("writes", 0, 2):find "^Hero #%d+$" and cell("writes", 0, 3) == "hp" and
    cell("writes", 0, 4) == "100" and cell("writes", 0, 5) == "99" and
    cell("writes", 0, 6) == "1" and
    cell("writes", 0, 7):find "browser.lua:%d+" and
    cell("writes", 0, 8) == "draw" and cell("writes", 0, 9):find "^at ")
  click "#writes .row:not(.head)"
  check("a click leads to the timeline", value "view.here.mark" ~= nil and
    has("details", "hp: 100"))
  check("a text is another key than the number that it reads as",
    value "showKey('1')" == '"1"' and value "showKey(1)" == "1" and
    value "showKey('hp')" == "hp")
  check("what is searched for is drawn apart", value "view.wanted !== null")
  browser:picture(BUILD .. "/page-writes.png")
  browser:key "/"
  browser:key "Escape"
  check("Escape ends the search", value "view.wanted === null")
  browser:eval "look(0, whole()); draw()"
  local m = value "model.writes[5]"
  browser:eval(("showMark(%d); choose(null); open('totals'); look(" ..
    "model.time[%d] - 20, model.time[%d] + 20); draw()"):format(m, m, m))
  browser:click(value(("canvas.getBoundingClientRect().left + " ..
    "(model.time[%d] - view.from) * scale()"):format(m)),
    value(("canvas.getBoundingClientRect().top - $('tracks').scrollTop + " ..
    "model.place[%d].track.y + HEAD - 4"):format(m)))
  check("a click on a write leads to its row", value(
    ("writes.here === %d && $('writes').clientHeight > 0"):format(m)))
  check("numbers are exact", value(
    "writes.rows.some(m => show(said(m).new) === '9007199254740993')"))

  browser:key "0"
  browser:key "Escape"
  browser:scheme "dark"
  check("it can be dark", value "view.style.page" == "#16191d")
  click "#to-totals"
  browser:move(span_x, span_y)
  browser:picture(BUILD .. "/page-dark.png")
  browser:scheme "light"
end

-- The least of some times, in milliseconds, that a piece of the script takes.
local function least(browser, script)
  return browser:eval(([[(() => {
    let least = Infinity;
    for (let i = 0; i < 15; i++) {
      const from = performance.now();
      %s;
      least = Math.min(least, performance.now() - from);
    }
    return least;
  })()]]):format(script))
end

local function test_long(browser, path)
  local trace = write_page(path, play_long,
    { capacity = 1100000, sources = { "watch" } })
  browser:open("file://" .. path)
  print(("%d events, %d lost"):format(trace:len(), trace:lost()))
  check("a million events are read", trace:len() >= 1e6 and
    browser:eval "model.n + model.marks" > 500000)
  check("there are 2,500 coroutines", browser:eval "model.threads.size" > 2500)
  check("the canvas is as large as what is seen",
    browser:eval "canvas.height" < 2000 and browser:eval "view.height" > 100000)
  browser:picture(BUILD .. "/page-long.png")
  browser:wheel(600, 150, 100)
  check("the wheel scrolls", browser:eval "$('tracks').scrollTop" > 0)
  browser:key "ArrowUp"
  local zoom = least(browser,
    "zoom(i % 2 ? 0.8 : 1.25, 0.3); draw()")
  local scrolled = least(browser,
    "$('tracks').scrollTop = i * 1000; draw()")
  local moved = least(browser, "canvas.dispatchEvent(new PointerEvent(" ..
    "'pointermove', { clientX: 300 + i, clientY: 120 + i, bubbles: true }))")
  print(("a zoom step %.1f ms, a scroll step %.1f ms, a mouse move %.1f ms")
    :format(zoom, scrolled, moved))
  check("a zoom step takes less than 16 ms", zoom < 16)
  check("a scroll step takes less than 16 ms", scrolled < 16)
  check("a mouse move takes less than 16 ms", moved < 16)
  browser:eval "$('to-writes').click()"
  browser:eval "writes.box.scrollTop = 1e6"
  browser:settle()
  check("of 200,000 rows those that are seen are in the page", browser:eval(
    "writes.rows.length") == 200000 and browser:eval(
    "document.querySelectorAll('#writes .row').length") < 60)
  browser:wheel(600, 150, -120, 2)
  browser:eval "writes.box.scrollTop = 1e9"
  browser:settle()
  check("the last row can be reached", browser:eval(
    "Math.max(...writes.shown.filter(r => r.style.display === '')" ..
    ".map(r => r.index)) === writes.rows.length - 1"))
end

local function test_small(browser, path)
  write_page(path, function() end)
  browser:open("file://" .. path)
  check("an empty page says so", browser:eval "$('summary').textContent"
    == "0 scopes, 0 writes, 1 coroutine, 0 events lost")
  write_page(path, function()
    for i = 1, 5 do mw.counter("n", i % 2 == 0 and math.huge or i) end
  end)
  browser:open("file://" .. path)
  browser:move(600, 80)
  check("a counter alone is shown", browser:eval "model.tracks.length" == 1)
end

shell.with_directory(function(path)
  local browser = chromium(path)
  local ok, message = xpcall(function()
    test_game(browser, path .. "/game.html")
    test_small(browser, path .. "/small.html")
    test_long(browser, path .. "/long.html")
    for _, problem in ipairs(browser.errors) do check(problem, false) end
  end, debug.traceback)
  browser:close()
  if not ok then error(message, 0) end
end)

print(("%d passed, %d failed"):format(passed, failed))
os.exit(failed == 0)

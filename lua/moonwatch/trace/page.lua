--- The page that trace:write puts around a trace.
-- SPDX-License-Identifier: MIT
--
-- The trace is data in the page, and the page shows its strings as text.  The
-- page may load nothing, and may run only the one script whose hash the page
-- has: a spec compares the hashes, and shows what they should be.  The parts of
-- the script are files of Lua, which the rock installs, with one string each.

local parts = {}
for i, name in ipairs { "model", "timeline", "tables", "controls" } do
  parts[i] = require("moonwatch.trace.page." .. name)
end
local SCRIPT = table.concat(parts)

-- Light and dark.
local STYLE = [==[
:root { --page: #fff; --text: #1f2328; --soft: #6a737d; --line: #d5dae0;
  --bar: #f4f6f8; --odd: #f8f9fb; --mark: #fff1c2; --write: #c2255c;
  --instant: #1971c2; --counter: #2b8a3e; --select: rgba(25, 113, 194, 0.15);
  --rest: #e4e7eb; --light: 74%; --sat: 62%; --ink: #1f2328;
  color-scheme: light; }
@media (prefers-color-scheme: dark) {
  :root { --page: #16191d; --text: #dfe3e8; --soft: #98a2ad; --line: #343b44;
    --bar: #1e2329; --odd: #1a1e23; --mark: #4a3f17; --write: #ff7eb0;
    --instant: #74c0fc; --counter: #69db7c;
    --select: rgba(116, 192, 252, 0.2); --rest: #2b3138; --light: 40%;
    --sat: 45%; --ink: #f1f3f5; color-scheme: dark; }
}
* { box-sizing: border-box; }
html, body { height: 100%; margin: 0; }
body { display: flex; flex-direction: column; font: 13px system-ui, sans-serif;
  color: var(--text); background: var(--page); }
header, nav { display: flex; gap: 0.8em; align-items: center; flex: none;
  padding: 0.4em 0.8em; background: var(--bar);
  border-bottom: 1px solid var(--line); flex-wrap: wrap; }
h1 { font-size: 14px; margin: 0; }
input { font: inherit; width: 20em; padding: 0.15em 0.5em; color: inherit;
  background: var(--page); border: 1px solid var(--line); border-radius: 4px; }
button { font: inherit; color: inherit; background: none; cursor: pointer;
  border: 1px solid transparent; border-radius: 4px; padding: 0.15em 0.6em; }
button:hover, button.on { background: var(--page);
  border-color: var(--line); }
.soft { color: var(--soft); }
.fill { flex: 1; }
#ruler { flex: none; display: block; width: 100%; height: 26px;
  cursor: col-resize; border-bottom: 1px solid var(--line); }
#tracks { flex: 1 1 50%; overflow-x: hidden; overflow-y: scroll;
  position: relative; min-height: 80px; }
#timeline { position: sticky; top: 0; display: block; cursor: grab; }
#cursor { position: fixed; width: 1px; background: var(--soft);
  pointer-events: none; display: none; }
#panes { flex: 1 1 45%; min-height: 120px; display: flex;
  flex-direction: column; border-top: 1px solid var(--line); }
.table { flex: 1; overflow: auto; display: none; position: relative;
  outline: none; }
.table.on { display: block; }
.row { display: grid; position: absolute; left: 0; right: 0; height: 22px;
  line-height: 22px; min-width: 88em; cursor: pointer; }
.row.odd { background: var(--odd); }
.row.here { background: var(--mark); }
.row:hover { background: var(--rest); }
.row > span { overflow: hidden; text-overflow: ellipsis; white-space: pre;
  padding: 0 0.6em; }
.row > span.n { text-align: right; font-variant-numeric: tabular-nums; }
.row > .end { direction: rtl; text-align: left; } /* its end is seen */
.row > .end::before { content: "\200e"; }
.head { position: sticky; top: 0; z-index: 1; font-weight: 600;
  background: var(--bar); border-bottom: 1px solid var(--line); }
.head > span:hover { text-decoration: underline; }
#details { flex: none; max-height: 9em; overflow: auto; padding: 0.4em 0.8em;
  margin: 0; white-space: pre-wrap; overflow-wrap: anywhere; display: none;
  border-top: 1px solid var(--line); background: var(--bar);
  font: 12px ui-monospace, monospace; }
#tip { position: fixed; z-index: 9; max-width: 40em; padding: 0.4em 0.7em;
  pointer-events: none; white-space: pre-wrap; overflow-wrap: anywhere;
  background: var(--page); border: 1px solid var(--soft); border-radius: 4px;
  box-shadow: 0 2px 8px rgba(0, 0, 0, 0.3); display: none; font-size: 12px; }
#help { position: fixed; inset: 10% 15% auto; max-height: 75%; overflow: auto;
  z-index: 8;
  padding: 1em 2em; background: var(--page); border: 1px solid var(--soft);
  border-radius: 6px; display: none; }
#help.on { display: block; }
#help td { padding: 0.15em 1.5em 0.15em 0; vertical-align: top; }
kbd { border: 1px solid var(--line); border-radius: 3px; padding: 0 0.4em;
  background: var(--bar); }
.key { display: inline-block; width: 12px; height: 12px; margin-right: 0.4em;
  vertical-align: -1px; border-radius: 2px; }
.legend { display: inline-flex; gap: 1em; }
.scope { background: hsl(210 var(--sat) var(--light)); }
.dense { background: hsl(210 var(--sat) var(--light)); opacity: 0.5; }
.waits { background: var(--rest); }
.write { background: var(--write); }
.instant { background: var(--instant); }
.counter { background: var(--counter); }
]==]

local STYLE_HASH =
  "V1Z/Poy+P2byz20oCbQdWorYwPOYu/mRpoYnCiBoe0I="
local SCRIPT_HASH =
  "ukeAZYnjCnTaOpFTFXTa3/kvz2gbbqf1OB12wPMaU/4="

local HEAD = [[
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none';
 style-src 'sha256-%s'; script-src 'sha256-%s'; base-uri 'none';
 form-action 'none'">
<title>moonwatch trace</title>
<style>%s</style>
</head>
<body>
<header>
<h1>Trace</h1>
<span id="summary" class="soft"></span>
<span class="fill"></span>
<input id="search" type="search" placeholder="Search ( / )" data-tip="Names,
categories, and of writes object, key, values, place and scope. Enter: the next
one; with Shift: the one before.">
<button id="all" data-tip="Shows the whole trace ( 0 ).">all</button>
<button id="to-help" data-tip="Shows keys and mouse ( ? ).">?</button>
</header>
<canvas id="ruler"></canvas>
<div id="tracks"><div id="space"><canvas id="timeline"></canvas></div></div>
<pre id="details"></pre>
<section id="panes">
<nav>
<button id="to-totals" data-tip="What each name took, in the selection or in
all.">Totals</button>
<button id="to-longest" data-tip="The longest scopes: the outermost ones, or of
all those that are searched for.">Longest</button>
<button id="to-writes" data-tip="Who wrote what.">Writes</button>
<span id="selection"></span>
<span class="fill"></span>
<span class="legend soft">
<span data-tip="A scope; one colour a name."><i class="key scope"></i>scope
</span>
<span data-tip="Several scopes in one pixel: the more they fill, the
stronger."><i class="key dense"></i>dense</span>
<span data-tip="The coroutine waits, and others run."><i class="key waits"></i>
suspended</span>
<span data-tip="A write to a watched or tracked object."><i class="key write">
</i>write</span>
<span data-tip="Another event without a length."><i class="key instant"></i>
instant</span>
<span data-tip="A counter: the least and the greatest value of a pixel."><i
class="key counter"></i>counter</span>
</span>
<span id="range" class="soft" data-tip="What the timeline shows."></span>
</nav>
<div id="totals" class="table" tabindex="0"></div>
<div id="longest" class="table" tabindex="0"></div>
<div id="writes" class="table" tabindex="0"></div>
</section>
<div id="cursor"></div>
<div id="help">
<h2>Keys and mouse</h2>
<table>
<tr><td><kbd>W</kbd> <kbd>S</kbd><td>zoom in and out, where the mouse is
<tr><td><kbd>A</kbd> <kbd>D</kbd> <kbd>&larr;</kbd> <kbd>&rarr;</kbd>
<td>go back and forth
<tr><td><kbd>&uarr;</kbd> <kbd>&darr;</kbd><td>scroll
<tr><td><kbd>0</kbd><td>show the whole trace
<tr><td><kbd>/</kbd><td>search; <kbd>Enter</kbd> or <kbd>N</kbd> goes to the
next one, <kbd>P</kbd> to the one before
<tr><td><kbd>Esc</kbd><td>end the search, the selection
<tr><td>wheel<td>scroll; with <kbd>Ctrl</kbd> zoom, with <kbd>Shift</kbd> go
back and forth
<tr><td>drag<td>move; on the ruler, or with <kbd>Shift</kbd>, select a range:
the tables show what is in the range
<tr><td>click<td>on a scope or a write: details, and its row; on a row: its
place on the timeline
<tr><td>double click<td>on a scope: all of it; beside: the whole trace
</table>
</div>
<div id="tip"></div>
<script type="application/json" id="trace">
]]

local TAIL = [[
</script>
<script>%s</script>
</body>
</html>
]]

return {
  style = STYLE, script = SCRIPT,
  style_hash = STYLE_HASH, script_hash = SCRIPT_HASH,
  head = HEAD:format(STYLE_HASH, SCRIPT_HASH, STYLE),
  tail = TAIL:format(SCRIPT),
}

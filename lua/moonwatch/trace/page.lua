--- The page that trace:write puts around a trace.
-- SPDX-License-Identifier: MIT
--
-- The trace is data in the page, and the page shows its strings as text.  The
-- page may load nothing, and may run only the one script whose hash the page
-- has: a spec compares the hashes, and shows what they should be.  The parts of
-- the script are files of Lua, which the rock installs, with one string each.

local STYLE = require "moonwatch.trace.page.style"

local parts = {}
for i, name in ipairs { "model", "words", "timeline", "tables", "controls" } do
  parts[i] = require("moonwatch.trace.page." .. name)
end
local SCRIPT = table.concat(parts)

local STYLE_HASH =
  "V1Z/Poy+P2byz20oCbQdWorYwPOYu/mRpoYnCiBoe0I="
local SCRIPT_HASH =
  "Rm+sLItiSSm8tSob5qB67qbV/VADyoJp980umgdrUxE="

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

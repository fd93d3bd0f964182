--- The page that trace:write puts around a trace.
-- SPDX-License-Identifier: MIT
--
-- The trace is data in the page, and the page shows its strings as text.  The
-- page may load nothing, and may run only the one script whose hash the page
-- has: a spec compares the hashes, and shows what they should be.

local STYLE = [[
body { font: 14px sans-serif; margin: 1em 2em; color: #222; }
canvas { width: 100%; border: 1px solid #ccc; cursor: grab; display: block; }
table { border-collapse: collapse; margin: 0.5em 0 1.5em; }
th, td { padding: 0.15em 0.8em; text-align: left; max-width: 40em;
  overflow-wrap: anywhere; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
tr:nth-child(even) { background: #f3f3f3; }
]]

local SCRIPT = [[
"use strict";
const $ = id => document.getElementById(id);
const trace = JSON.parse($("trace").textContent);
const events = trace.traceEvents, threads = new Map(), totals = new Map();
const spans = [], marks = [], writes = [], LINE = 18, MOST = 1000;
let rows = 0, end = 0;

function lane(tid) {
  if (!threads.has(tid)) {
    threads.set(tid, { name: "thread " + tid, open: [], depth: 0 });
  }
  return threads.get(tid);
}

function close(its, begun, ts) {
  const length = ts - begun.ts, name = String(begun.name);
  const total = totals.get(name) || { n: 0, sum: 0, own: 0, max: 0 };
  total.n++;
  total.sum += length;
  total.own += length - begun.inner;
  total.max = Math.max(total.max, length);
  totals.set(name, total);
  if (its.open.length) its.open[its.open.length - 1].inner += length;
  spans.push({ name, its, from: begun.ts, to: ts, depth: begun.depth,
    args: begun.args });
}

function take(e) {
  const its = lane(e.tid);
  if (e.ts !== undefined) end = Math.max(end, e.ts + (e.dur || 0));
  if (e.ph === "M" && e.name === "thread_name") its.name = e.args.name;
  if (e.ph === "B") {
    its.open.push({ name: e.name, ts: e.ts, args: e.args, inner: 0,
      depth: its.open.length });
    its.depth = Math.max(its.depth, its.open.length);
  }
  if (e.ph === "E" && its.open.length) {
    const begun = its.open.pop();
    begun.args = Object.assign({}, begun.args, e.args);
    close(its, begun, e.ts);
  }
  if (e.ph === "i") {
    marks.push({ name: String(e.name), its, from: e.ts, to: e.ts, depth: 0,
      args: e.args });
    its.depth = Math.max(its.depth, 1);
    if (e.cat === "watch") writes.push(e);
  }
}

function fill(id, list) {
  for (const cells of list) {
    const row = $(id).insertRow();
    for (const cell of cells) {
      const td = row.insertCell(), number = typeof cell === "number";
      td.textContent = number ? cell.toLocaleString() : cell;
      if (number) td.className = "n";
    }
  }
}

function key(args) {
  const k = args && args.key;
  return k === undefined ? "" : typeof k === "string" ? k : JSON.stringify(k);
}

events.forEach(take);
for (const its of threads.values()) {
  if (!its.depth) continue;
  its.top = rows;
  rows += its.depth + 1;
}
fill("totals", [...totals].sort((a, b) => b[1].sum - a[1].sum).slice(0, MOST)
  .map(([name, t]) => [name, t.n, t.sum, t.own, t.max]));
writes.sort((a, b) => a.ts - b.ts);
fill("writes", writes.slice(0, MOST).map(e => [e.ts, e.name,
  e.args && e.args.object || "", key(e.args),
  e.args && e.args.context ? e.args.context.join("; ") : ""]));
$("summary").textContent = spans.length + " scopes, " + writes.length +
  " writes, " + (trace.otherData ? trace.otherData.lost : 0) +
  " events lost";

const canvas = $("timeline"), pen = canvas.getContext("2d");
let from = 0, to = end || 1, drag = null;

function hue(name) {
  let h = 0;
  for (let i = 0; i < name.length; i++) h = (h * 31 + name.charCodeAt(i)) % 360;
  return h;
}

function box(span) {
  const scale = canvas.clientWidth / (to - from);
  return [(span.from - from) * scale, (span.its.top + 1 + span.depth) * LINE,
    Math.max((span.to - span.from) * scale, 1)];
}

function draw() {
  const width = canvas.clientWidth, height = (rows + 1) * LINE;
  const ratio = window.devicePixelRatio || 1, drawn = new Map();
  canvas.style.height = height + "px";
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  pen.scale(ratio, ratio);
  pen.font = "12px sans-serif";
  for (const span of spans) {
    const [x, y, w] = box(span);
    if (x + w < 0 || x > width) continue;
    if (w < 2 && drawn.get(y) === Math.floor(x)) continue;
    drawn.set(y, Math.floor(x));
    pen.fillStyle = "hsl(" + hue(span.name) + " 60% 75%)";
    pen.fillRect(x, y, Math.max(w - 0.5, 0.5), LINE - 2);
    if (w < 30) continue;
    pen.save();
    pen.beginPath();
    pen.rect(x, y, w - 2, LINE);
    pen.clip();
    pen.fillStyle = "#222";
    pen.fillText(span.name.slice(0, 200), Math.max(x, 0) + 3, y + 12);
    pen.restore();
  }
  pen.fillStyle = "#a00";
  for (const mark of marks) {
    const [x, y] = box(mark);
    if (x >= 0 && x <= width) pen.fillRect(x, y - 3, 1, 5);
  }
  pen.fillStyle = "#666";
  for (const its of threads.values()) {
    if (its.depth) pen.fillText(its.name, 3, its.top * LINE + 13);
  }
  $("range").textContent = from.toFixed(3) + " to " + to.toFixed(3) + " us";
}

canvas.addEventListener("wheel", e => {
  const at = from + (to - from) * e.offsetX / canvas.clientWidth;
  const k = e.deltaY > 0 ? 1.25 : 0.8;
  e.preventDefault();
  from = Math.max(0, at - (at - from) * k);
  to = Math.min(end || 1, at + (to - at) * k);
  draw();
}, { passive: false });
canvas.addEventListener("pointerdown", e => {
  drag = e.clientX;
  canvas.setPointerCapture(e.pointerId);
});
canvas.addEventListener("pointerup", () => { drag = null; });
canvas.addEventListener("dblclick", () => { from = 0; to = end || 1; draw(); });
canvas.addEventListener("pointermove", e => {
  if (drag !== null) {
    let by = (drag - e.clientX) * (to - from) / canvas.clientWidth;
    by = Math.min(Math.max(by, -from), (end || 1) - to);
    drag = e.clientX;
    from += by;
    to += by;
    draw();
    return;
  }
  const hit = spans.concat(marks).find(span => {
    const [x, y, w] = box(span);
    return e.offsetX >= x - 1 && e.offsetX <= x + w + 1 && e.offsetY >= y &&
      e.offsetY < y + LINE;
  });
  $("what").textContent = hit ? hit.name.slice(0, 200) + ": " +
    (hit.to - hit.from).toFixed(3) + " us " +
    JSON.stringify(hit.args || {}).slice(0, 1000) : "";
});
window.addEventListener("resize", draw);
draw();
]]

local STYLE_HASH =
  "irZF9Sy5y5/xd+a4O7h9CKw7kEmyWMXq49x4TODah3M="
local SCRIPT_HASH =
  "5MQCjdYlcJc9Js64vxBBPWIpTYBsPzPMGuV/oJwUMtE="

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
<h1>Trace</h1>
<p id="summary"></p>
<canvas id="timeline"></canvas>
<p><span id="range"></span> (wheel: zoom, drag: move, double click: all)
<br><span id="what"></span></p>
<h2>Totals</h2>
<table><thead><tr><th>name<th>count<th>total us<th>own us<th>longest us
</thead><tbody id="totals"></tbody></table>
<h2>Writes</h2>
<table><thead><tr><th>us<th>kind<th>object<th>key<th>context
</thead><tbody id="writes"></tbody></table>
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

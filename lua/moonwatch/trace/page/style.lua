--- The style of the page, light and dark.
-- SPDX-License-Identifier: MIT

return [==[
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

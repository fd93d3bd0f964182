--- The timeline: tracks on a canvas as large as what is seen of them.
-- SPDX-License-Identifier: MIT
--
-- Spans that share a pixel are drawn as one, as dense as they cover the pixel;
-- the next one is found by halving, so that a row costs as many steps as it has
-- pixels, however many spans it has.

return [==[
const $ = id => document.getElementById(id);
const LINE = 18, HEAD = 25, COUNTER = 46, GAP = 5, NEAR = 3, NARROW = 2;
const canvas = $("timeline"), pen = canvas.getContext("2d");
const ruler = $("ruler"), rulerPen = ruler.getContext("2d");
const view = { from: 0, to: 1, least: 0.001, selected: null, here: null,
  wanted: null, colors: [], style: {}, waiting: false, height: 0, at: 0.5 };

function width() { return canvas.clientWidth || 1; }
function scale() { return width() / (view.to - view.from); }
function timeAt(x) { return view.from + x / scale(); }
function whole() { return model.end || 1; }

function placeTracks() {
  let y = 0;
  for (const track of model.tracks) {
    track.y = y;
    track.height = track.counter ? COUNTER : HEAD + track.depth * LINE + GAP;
    y += track.height;
  }
  view.height = y;
  $("space").style.height = Math.max(y, 40) + "px";
}

// Colours ---------------------------------------------------------------

function hue(name) {
  let h = 7;
  for (let i = 0; i < name.length; i++) {
    h = (h * 31 + name.charCodeAt(i)) % 3600;
  }
  return h / 10;
}

function readStyle() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["page", "text", "soft", "line", "bar", "write",
    "instant", "counter", "select", "rest", "ink", "mark", "light", "sat"]) {
    view.style[name] = style.getPropertyValue("--" + name).trim();
  }
  view.colors = model.names.map((name, i) => isWait(i) ? view.style.rest :
    "hsl(" + hue(name) + " " + view.style.sat + " " + view.style.light + ")");
}

// Drawing ---------------------------------------------------------------

function fit(target, its, w, h) {
  const ratio = window.devicePixelRatio || 1;
  if (target.width !== Math.round(w * ratio) ||
    target.height !== Math.round(h * ratio)) {
    target.width = Math.round(w * ratio);
    target.height = Math.round(h * ratio);
    target.style.width = w + "px";
    target.style.height = h + "px";
  }
  its.setTransform(ratio, 0, 0, ratio, 0, 0);
  its.clearRect(0, 0, w, h);
}

function label(text, x, y, room) {
  const most = Math.floor(room / 6.9);
  if (most < 2) return;
  pen.fillText(text.length > most ? text.slice(0, most - 1) + "\u2026" : text,
    x, y);
}

// The number of the first span of a row that ends after a time.
function firstAfter(row, time) {
  return search(row.spans.length, i => model.stop[row.spans[i]] > time);
}

function drawSpan(s, x, y, w, plain) {
  pen.fillStyle = plain || view.colors[model.name[s]];
  pen.fillRect(x, y, w > 3 ? w - 0.5 : w, LINE - 2);
  if (w < 24) return;
  pen.fillStyle = plain ? view.style.soft : view.style.ink;
  label(model.names[model.name[s]], Math.max(x, 0) + 4, y + 12,
    Math.min(x + w, width()) - Math.max(x, 0) - 6);
}

// Draws the narrow spans from number i on that begin in one pixel, and returns
// the number of the next span.  The last one of the pixel may be wide.
function drawPixel(row, i, x, y, k, plain) {
  const n = row.spans.length, pixel = Math.max(Math.floor(x), 0);
  const limit = view.from + (pixel + 1) / k;
  let j = i + 1;
  if (j < n && model.start[row.spans[j]] < limit) {
    j += search(n - j, m => model.start[row.spans[j + m]] >= limit);
    const last = row.spans[j - 1];
    if ((model.stop[last] - model.start[last]) * k >= NARROW) j--;
  }
  const covered = Math.min((row.sums[j] - row.sums[i]) * k, 1);
  pen.globalAlpha = 0.3 + 0.7 * covered;
  pen.fillStyle = plain || view.colors[model.name[row.spans[i]]];
  pen.fillRect(pixel, y, 1, LINE - 2);
  pen.globalAlpha = 1;
  return j;
}

function drawRow(row, y, plain) {
  const n = row.spans.length, k = scale();
  for (let i = firstAfter(row, view.from); i < n;) {
    const s = row.spans[i], x = (model.start[s] - view.from) * k;
    if (model.start[s] > view.to) break;
    const w = (model.stop[s] - model.start[s]) * k;
    if (w >= NARROW) {
      const left = Math.max(x, -2), right = Math.min(x + w, width() + 2);
      drawSpan(s, left, y, right - left, plain);
      i++;
    } else {
      i = drawPixel(row, i, x, y, k, plain);
    }
  }
}

// One tick a pixel for marks, and for writes, which go before the others.
function drawMarks(track, y) {
  const marks = track.marks, k = scale();
  let i = search(marks.length, n => model.time[marks[n]] >= view.from);
  while (i < marks.length && model.time[marks[i]] <= view.to) {
    const m = marks[i], pixel = Math.floor((model.time[m] - view.from) * k);
    const limit = view.from + (pixel + 1) / k;
    const dim = view.wanted && !view.wanted[model.kind[m]] &&
      !(view.objects && view.objects.has(m));
    pen.fillStyle = dim ? view.style.rest :
      model.categories[model.kind[m]] === "watch" ? view.style.write :
      view.style.instant;
    pen.fillRect(pixel, y + HEAD - 8, 1.5, 7);
    i++;
    if (i < marks.length && model.time[marks[i]] < limit) {
      i += search(marks.length - i, n => model.time[marks[i + n]] >= limit);
    }
  }
}

function drawCounter(counter, y) {
  const n = counter.times.length, k = scale(), high = COUNTER - 22;
  const size = counter.most - counter.least || 1;
  const heightOf = v => (Math.min(Math.max(v, counter.least), counter.most) -
    counter.least) / size * high;
  const bottom = y + COUNTER - 3;
  let i = Math.max(search(n, m => counter.times[m] > view.from) - 1, 0);
  pen.fillStyle = view.style.counter;
  while (i < n && counter.times[i] <= view.to) {
    const x = Math.max((counter.times[i] - view.from) * k, 0);
    const limit = view.from + (Math.floor(x) + 1) / k;
    const j = Math.max(i + 1,
      search(n, m => counter.times[m] >= limit));
    const [low, most] = range(counter, i, j);
    const end = j < n ? (counter.times[j] - view.from) * k : width();
    const w = Math.max(Math.min(end, width()) - x, 1), h = heightOf(most);
    pen.globalAlpha = 0.35;
    pen.fillRect(x, bottom - h, w, Math.max(h, 1));
    pen.globalAlpha = 1;
    pen.fillRect(x, bottom - h, w, Math.max(h - heightOf(low), 1));
    i = j;
  }
}

function drawTrack(track, y) {
  const h = canvas.clientHeight;
  pen.fillStyle = view.style.line;
  pen.fillRect(0, y, width(), 1);
  pen.fillStyle = view.style.soft;
  if (track.counter) {
    label(track.title + "  " + number(track.counter.least, 3) + " to " +
      number(track.counter.most, 3), 4, y + 13, width() - 8);
    drawCounter(track.counter, y);
    return;
  }
  label(track.title, 4, y + 13, width() - 8);
  if (track.marks.length) drawMarks(track, y);
  track.rows.forEach((row, d) => {
    const at = y + HEAD + d * LINE;
    if (at > h || at + LINE < 0) return;
    drawRow(row, at, view.wanted && view.style.rest);
    if (view.wanted) drawRow(track.found[d], at);
  });
}

function drawSelected(its, h) {
  if (!view.selected) return;
  const [a, b] = view.selected, k = scale();
  its.fillStyle = view.style.select;
  its.fillRect((a - view.from) * k, 0, (b - a) * k, h);
}

function drawHere() {
  if (!view.here) return;
  const k = scale(), x = (view.here.from - view.from) * k;
  pen.strokeStyle = view.style.text;
  pen.lineWidth = 2;
  pen.strokeRect(x - 1, view.here.y - $("tracks").scrollTop,
    Math.max((view.here.to - view.here.from) * k, 2) + 2, LINE - 1);
}

// Steps of 1, 2 and 5 in a unit of which the labels have few digits.
function step() {
  const rough = 90 / scale(), power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map(x => x * power).find(x => x >= rough);
}

function drawRuler() {
  const by = step(), k = scale(), [name, size] = unitOf(Math.max(by * 5,
    view.to / 1e4));
  fit(ruler, rulerPen, width(), 26);
  drawSelected(rulerPen, 26);
  rulerPen.font = "11px system-ui, sans-serif";
  rulerPen.fillStyle = view.style.soft;
  const digits = Math.max(0, Math.ceil(-Math.log10(by / size)));
  for (let n = Math.ceil(view.from / by); n * by <= view.to; n++) {
    const x = (n * by - view.from) * k;
    rulerPen.fillRect(x, 16, 1, 10);
    rulerPen.fillText(number(n * by / size, digits) + " " + name, x + 3, 13);
    for (let part = 1; part < 5; part++) {
      rulerPen.fillRect(x + part * by * k / 5, 21, 1, 5);
    }
  }
}

function draw() {
  const top = $("tracks").scrollTop, area = $("tracks");
  view.waiting = false;
  fit(canvas, pen, area.clientWidth,
    Math.min(area.clientHeight, Math.max(view.height, 40)));
  pen.font = "12px system-ui, sans-serif";
  drawRuler();
  for (let i = firstTrack(top); i < model.tracks.length; i++) {
    const track = model.tracks[i];
    if (track.y > top + area.clientHeight) break;
    drawTrack(track, track.y - top);
  }
  drawSelected(pen, canvas.clientHeight);
  drawHere();
  $("range").textContent = moment(round(view.from)) + " to " +
    moment(round(view.to)) + " (" + duration(view.to - view.from) + ")";
}

function round(us) { return Math.round(us * 1000) / 1000; }

function firstTrack(y) {
  return search(model.tracks.length,
    i => model.tracks[i].y + model.tracks[i].height > y);
}

function drawSoon() {
  if (view.waiting) return;
  view.waiting = true;
  requestAnimationFrame(draw);
}

// Moving ----------------------------------------------------------------

function look(from, to) {
  const length = Math.min(Math.max(to - from, view.least), whole());
  view.from = Math.min(Math.max(from, 0), whole() - length);
  view.to = view.from + length;
  drawSoon();
}

function zoom(by, part) {
  const at = view.from + (view.to - view.from) * part;
  const length = Math.min((view.to - view.from) * by, whole());
  look(at - length * part, at + length * (1 - part));
}

function pan(part) {
  const by = (view.to - view.from) * part;
  look(view.from + by, view.to + by);
}

function reveal(track, y, from, to) {
  const area = $("tracks"), room = Math.max((to - from) * 3,
    Math.min(view.to - view.from, whole()));
  const length = to > from ? Math.max((to - from) * 2, view.least) : room;
  if (from < view.from || to > view.to ||
    (to - from) * scale() < 20 && to > from) {
    look((from + to - length) / 2, (from + to + length) / 2);
  }
  if (track.y < area.scrollTop ||
    y + LINE > area.scrollTop + area.clientHeight) {
    area.scrollTop = Math.max(y - area.clientHeight / 2, 0);
  }
  drawSoon();
}

function showSpan(s) {
  const track = model.thread[s].track;
  const y = track.y + HEAD + model.depth[s] * LINE;
  view.here = { span: s, from: model.start[s], to: model.stop[s], y };
  reveal(track, y, model.start[s], model.stop[s]);
  tell(spanText(s));
}

function showMark(m) {
  const track = model.place[m].track;
  view.here = { mark: m, from: model.time[m], to: model.time[m],
    y: track.y + 1 };
  reveal(track, track.y, model.time[m], model.time[m]);
  tell(markText(m));
}

function tell(text) {
  $("details").textContent = cut(text);
  $("details").style.display = text ? "block" : "none";
}

// What is there ---------------------------------------------------------

function markAt(track, x) {
  const marks = track.marks, time = timeAt(x), near = NEAR / scale();
  const first = search(marks.length, n => model.time[marks[n]] >= time - near);
  const last = search(marks.length, n => model.time[marks[n]] > time + near);
  if (first === last) return null;
  let i = first;
  while (i + 1 < last && Math.abs(model.time[marks[i + 1]] - time) <
    Math.abs(model.time[marks[i]] - time)) i++;
  return { mark: marks[i], n: last - first };
}

function spanAt(row, x) {
  const a = timeAt(x - 1), b = timeAt(x + 1), n = row.spans.length;
  const i = firstAfter(row, a);
  if (i === n || model.start[row.spans[i]] > b) return null;
  return { span: row.spans[i],
    n: search(n - i, m => model.start[row.spans[i + m]] > b) };
}

function counterAt(track, x) {
  const i = search(track.counter.times.length,
    n => track.counter.times[n] > timeAt(x)) - 1;
  return i < 0 ? null : { counter: track.counter, i };
}

// Finds what is at a place of the canvas: a span, a mark, a counter's value or
// the title of a track; null if nothing is.
function find(x, y) {
  const at = y + $("tracks").scrollTop, i = firstTrack(at);
  const track = model.tracks[i];
  if (!track) return null;
  if (track.counter) return counterAt(track, x);
  const d = Math.floor((at - track.y - HEAD) / LINE);
  if (d < 0) return markAt(track, x) || { track };
  return track.rows[d] ? spanAt(track.rows[d], x) : null;
}

function textOf(its) {
  const more = its.n > 1 ? "\n\u2026 and " + number(its.n - 1, 0) +
    " more within a pixel or two: zoom in" : "";
  if (its.span !== undefined) return spanText(its.span) + more;
  if (its.mark !== undefined) return markText(its.mark) + more;
  if (its.track) return its.track.title;
  const value = its.counter.shown[its.i];
  return its.counter.name + " = " + (typeof value === "string" ? value :
    show(value)) + "\nat " + moment(its.counter.times[its.i]);
}
]==]

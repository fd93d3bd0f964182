--- The trace as the page has it: spans, marks, counters, tracks.
-- SPDX-License-Identifier: MIT
--
-- Spans and marks are numbers, places in arrays.  The events are read in the
-- order of time, so that it is known which coroutine runs: the one whose event
-- came last, or the one that resumed it, once it waits.  The time between two
-- events, a piece, is the innermost span's own, of the coroutine that runs.

return [==[
"use strict";

// The text's integers that a float does not hold become {integer: digits}.
function parse(text) {
  const parts =
    /"[^"\\]*(?:\\.[^"\\]*)*"|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?/g;
  if (/\d{16}/.test(text)) {
    text = text.replace(parts, part => part.length < 16 ||
      !/^-?\d+$/.test(part) || Number.isSafeInteger(Number(part)) ? part :
      '{"integer":"' + part + '"}');
  }
  return JSON.parse(text);
}

const model = { names: [], categories: [], threads: new Map(), tracks: [],
  counters: new Map(), end: 0, lost: 0,
  n: 0, start: [], stop: [], name: [], parent: [], depth: [], outer: [],
  thread: [], args: [], own: [], waited: [], // spans
  marks: 0, time: [], kind: [], scope: [], place: [], said: [], writes: [],
  change: [], // marks, with the transaction that each was in
  pieces: 0, pieceTime: [], pieceSpan: [] };

function intern(ids, name, category) {
  const key = category + "\0" + name;
  let id = ids.get(key);
  if (id === undefined) {
    id = model.names.length;
    ids.set(key, id);
    model.names.push(String(name));
    model.categories.push(String(category));
  }
  return id;
}

function threadOf(tid) {
  let thread = model.threads.get(tid);
  if (!thread) {
    thread = { tid, name: "thread " + tid, stack: [], depth: 0, first: Infinity,
      last: 0, open: new Map(), spans: [], marks: [] };
    model.threads.set(tid, thread);
  }
  return thread;
}

// The events in the order of time; those of one time stay in their order.
function inOrder(events) {
  const order = [];
  let sorted = true, last = 0;
  for (let i = 0; i < events.length; i++) {
    const e = events[i];
    if (e.ph === "M") {
      if (e.name === "thread_name") threadOf(e.tid).name = e.args.name;
      continue;
    }
    sorted = sorted && e.ts >= last;
    last = e.ts;
    order.push(i);
  }
  if (!sorted) order.sort((a, b) => events[a].ts - events[b].ts || a - b);
  return order;
}

const WAITS = "suspended";

function innermost(thread, test) {
  for (let i = thread.stack.length - 1; i >= 0; i--) {
    if (test(model.categories[model.name[thread.stack[i]]])) {
      return thread.stack[i];
    }
  }
  return -1;
}

function begin(thread, e, name) {
  const s = model.n++, stack = thread.stack, nested = thread.open.get(name);
  model.start[s] = model.stop[s] = e.ts;
  model.name[s] = name;
  model.parent[s] = stack.length ? stack[stack.length - 1] : -1;
  model.depth[s] = stack.length;
  model.thread[s] = thread;
  model.args[s] = e.args;
  model.outer[s] = nested ? 0 : 1;
  thread.open.set(name, (nested || 0) + 1);
  stack.push(s);
  thread.spans.push(s);
  thread.depth = Math.max(thread.depth, stack.length);
}

function finish(thread, e) {
  const s = thread.stack.pop();
  if (s === undefined) return;
  model.stop[s] = e.ts;
  if (e.args) model.args[s] = Object.assign({}, model.args[s], e.args);
  thread.open.set(model.name[s], thread.open.get(model.name[s]) - 1);
}

function mark(thread, e, name) {
  const m = model.marks++;
  model.time[m] = e.ts;
  model.kind[m] = name;
  model.place[m] = thread;
  model.said[m] = e.args;
  model.scope[m] = innermost(thread,
    c => c !== "transaction" && c !== "coroutine");
  model.change[m] = innermost(thread, c => c === "transaction");
  thread.marks.push(m);
  if (e.cat === "watch" && e.args && "object" in e.args) model.writes.push(m);
}

const said = m => model.said[m];

function count(e) {
  let value = e.args ? e.args.value : 0, counter = model.counters.get(e.name);
  if (!counter) {
    counter = { name: e.name, times: [], values: [], shown: [] };
    model.counters.set(e.name, counter);
  }
  counter.shown.push(value);
  if (value && value.integer) value = value.integer;
  if (value === "inf") value = Infinity;
  if (value === "-inf") value = -Infinity;
  counter.times.push(e.ts);
  counter.values.push(Number(value));
}

function readEvents(events) {
  const ids = new Map(), running = [];
  let last = 0;
  for (const i of inOrder(events)) {
    const e = events[i], thread = threadOf(e.tid);
    let inner = -1;
    for (let k = running.length - 1; k >= 0 && inner < 0; k--) {
      const stack = running[k].stack;
      if (stack.length) inner = stack[stack.length - 1];
    }
    if (e.ts > last) {
      model.pieceTime[model.pieces] = last;
      model.pieceSpan[model.pieces++] = inner;
      last = e.ts;
    }
    const at = running.indexOf(thread);
    if (at >= 0) running.length = at + 1;
    else running.push(thread);
    thread.first = Math.min(thread.first, e.ts);
    thread.last = Math.max(thread.last, e.ts);
    const waits = e.name === WAITS && e.cat === "coroutine";
    if (e.ph === "B") {
      begin(thread, e, intern(ids, e.name, e.cat));
      if (waits) running.pop();
    } else if (e.ph === "E") {
      finish(thread, e);
    } else if (e.ph === "i") {
      mark(thread, e, intern(ids, e.name, e.cat));
    } else if (e.ph === "C") {
      count(e);
    }
    model.end = Math.max(model.end, e.ts);
  }
  model.pieceTime[model.pieces] = model.end;
  for (const thread of model.threads.values()) {
    while (thread.stack.length) finish(thread, { ts: model.end });
  }
  [model.own, model.waited] = timesOf(0, model.end);
}

// A row of spans that do not overlap: numbers, and the sum of their lengths up
// to each.
function makeRow(spans) {
  const sums = new Float64Array(spans.length + 1);
  for (let i = 0; i < spans.length; i++) {
    sums[i + 1] = sums[i] + model.stop[spans[i]] - model.start[spans[i]];
  }
  return { spans: Int32Array.from(spans), sums };
}

// The rows of a track, one a depth, with the spans that `wanted` chooses.
function makeRows(track, wanted) {
  const lists = [];
  for (let d = 0; d < track.depth; d++) lists.push([]);
  for (const thread of track.threads) {
    for (const s of thread.spans) {
      if (!wanted || wanted(s)) lists[model.depth[s]].push(s);
    }
  }
  return lists.map(makeRow);
}

function makeTrack(threads) {
  const track = { threads, depth: 1 };
  for (const thread of threads) {
    track.depth = Math.max(track.depth, thread.depth);
    thread.track = track;
  }
  return track;
}

function title(threads) {
  if (threads.length === 1) return threads[0].name;
  return threads.length + " coroutines, one after the other: " +
    threads.map(thread => thread.name).join(", ");
}

// Coroutines share a track if one has ended before the next begins.
function shareTracks(threads) {
  const begun = threads.slice().sort((a, b) => a.first - b.first);
  const ended = threads.slice().sort((a, b) => a.last - b.last);
  const groups = [], free = [], group = new Map();
  let j = 0;
  for (const thread of begun) {
    for (; ended[j].last < thread.first; j++) free.push(group.get(ended[j]));
    const its = free.pop() || [];
    if (!its.length) groups.push(its);
    its.push(thread);
    group.set(thread, its);
  }
  return groups.map(makeTrack);
}

function makeTracks() {
  const all = [...model.threads.values()].filter(t => t.first <= t.last &&
    (t.spans.length || t.marks.length));
  const main = all.filter(thread => thread.name === "main");
  model.tracks = main.map(thread => makeTrack([thread]));
  for (const counter of model.counters.values()) {
    model.tracks.push({ counter, threads: [], depth: 0 });
  }
  model.tracks.push(...shareTracks(all.filter(t => t.name !== "main")));
  for (const track of model.tracks) {
    track.rows = makeRows(track);
    track.title = track.counter ? track.counter.name : title(track.threads);
    track.marks = [].concat(...track.threads.map(thread => thread.marks));
    if (track.counter) bound(track.counter);
  }
}

// The least and the greatest of all values, and 0.
function bound(counter) {
  const finite = counter.values.filter(Number.isFinite);
  counter.least = finite.reduce((a, b) => Math.min(a, b), 0);
  counter.most = finite.reduce((a, b) => Math.max(a, b), 0);
}

// The least and the greatest of the values from number i up to, not with, j.
function range(counter, i, j) {
  let low = Infinity, high = -Infinity;
  for (; i < j; i++) {
    low = Math.min(low, counter.values[i]);
    high = Math.max(high, counter.values[i]);
  }
  return [low, high];
}

// The first of the numbers 0 to n - 1 for which the test holds, or n.
function search(n, test) {
  let low = 0, high = n;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (test(middle)) high = middle;
    else low = middle + 1;
  }
  return low;
}

// How long a span took, without the time in which its coroutine waited.
function active(s) { return model.stop[s] - model.start[s] - model.waited[s]; }

// Of each span the time of its own between two times, and how long its
// coroutine waited then.
function timesOf(from, to) {
  const own = new Float64Array(model.n), waits = new Float64Array(model.n);
  const first = search(model.pieces, i => model.pieceTime[i + 1] > from);
  for (let i = first; i < model.pieces && model.pieceTime[i] < to; i++) {
    if (model.pieceSpan[i] < 0) continue;
    own[model.pieceSpan[i]] += Math.min(to, model.pieceTime[i + 1]) -
      Math.max(from, model.pieceTime[i]);
  }
  for (let s = 0; s < model.n; s++) {
    if (!isWait(model.name[s])) continue;
    const length = Math.min(to, model.stop[s]) - Math.max(from, model.start[s]);
    for (let p = model.parent[s]; length > 0 && p >= 0; p = model.parent[p]) {
      waits[p] += length;
    }
  }
  return [own, waits];
}

// What each name took between two times.
function totalsOf(from, to) {
  const [own, waits] = from <= 0 && to >= model.end ?
    [model.own, model.waited] : timesOf(from, to);
  const totals = model.names.map((_, name) => ({ name, count: 0, sum: 0,
    own: 0, waited: 0, most: 0, longest: -1 }));
  for (let s = 0; s < model.n; s++) {
    const a = Math.max(from, model.start[s]), b = Math.min(to, model.stop[s]);
    if (b < a || (b === a && model.stop[s] > model.start[s])) continue;
    const total = totals[model.name[s]];
    total.count++;
    total.own += own[s];
    if (model.outer[s]) {
      total.sum += b - a - waits[s];
      total.waited += waits[s];
    }
    if (b - a - waits[s] >= total.most) {
      total.most = b - a - waits[s];
      total.longest = s;
    }
  }
  return totals.filter(total => total.count > 0);
}

function isWait(name) {
  return model.categories[name] === "coroutine" && model.names[name] === WAITS;
}

function readTrace(text) {
  const trace = parse(text);
  model.lost = trace.otherData ? trace.otherData.lost : 0;
  readEvents(trace.traceEvents);
  makeTracks();
}

// Times and values as the page says them.

const UNITS = [["s", 1e6], ["ms", 1e3], ["\u00b5s", 1], ["ns", 1e-3]];
const MOST = 10000; // characters of one text that are shown

function unitOf(us) {
  return UNITS.find(unit => Math.abs(us) >= unit[1]) || UNITS[3];
}

function number(x, digits) {
  return x.toLocaleString("en", { maximumFractionDigits: digits });
}

// A length of time with three or four digits.
function duration(us) {
  if (us === 0) return "0";
  const [name, size] = unitOf(us), x = us / size;
  return number(x, x >= 100 ? 0 : x >= 10 ? 1 : 2) + " " + name;
}

// A time of the trace, exact.
function moment(us) {
  const [name, size] = unitOf(us || 1);
  return number(us / size, 9) + " " + name;
}

function cut(text) {
  return text.length <= MOST ? text : text.slice(0, MOST) + "\u2026 (" +
    number(text.length - MOST, 0) + " more characters)";
}

function objectName(value) {
  return (value.name === undefined ? "object" : value.name) + " #" +
    value.object;
}

function show(value) {
  if (value === undefined || value === null) return "nil";
  if (typeof value !== "object") return JSON.stringify(value);
  if (typeof value.integer === "string") return value.integer;
  if (typeof value.object === "number") return objectName(value);
  if (typeof value.type === "string" && Object.keys(value).length === 1) {
    return value.type;
  }
  if (Array.isArray(value)) return "{ " + value.map(show).join(", ") + " }";
  return "{ " + Object.keys(value).map(key => key + " = " + show(value[key]))
    .join(", ") + " }";
}

// A text that reads as a number or a boolean is another key than these.
function showKey(key) {
  const reads = /^(-?[.\d]|-?inf$|-?nan$|true$|false$)/;
  return typeof key === "string" && !reads.test(key) ? key : show(key);
}

function showArgs(args, skipped) {
  if (!args) return "";
  return Object.keys(args).filter(key => !(skipped && skipped.has(key)))
    .map(key => "\n" + key + ": " + show(args[key])).join("");
}

function spanText(s) {
  const name = model.name[s], length = model.stop[s] - model.start[s];
  const waited = model.waited[s];
  return model.names[name] + "  [" + model.categories[name] + "]\n" +
    duration(active(s)) + (isWait(name) ? "" : ", own " +
    duration(model.own[s])) + (waited ? ", and suspended " + duration(waited) +
    ": together " + duration(length) : "") + "\nat " +
    moment(model.start[s]) + ", " + model.thread[s].name +
    showArgs(model.args[s]);
}

const OF_WRITE = new Set(["object", "name", "key", "old", "new"]);

function spanName(s) { return s < 0 ? "" : model.names[model.name[s]]; }

// Transactions are told apart by the time of their begin.
function changeName(m) {
  const s = model.change[m];
  return s < 0 ? "" : "at " + moment(model.start[s]);
}

function markText(m) {
  const args = model.said[m], name = model.names[model.kind[m]];
  const inside = (model.scope[m] < 0 ? "" : ", in " +
    spanName(model.scope[m])) + (model.change[m] < 0 ? "" :
    ", transaction " + changeName(m));
  const what = args && "object" in args ? objectName(args) + "  " +
    showKey(args.key) + ": " + show(args.old) + " \u2192 " + show(args.new) +
    "\n" : "";
  return what + name + " at " + moment(model.time[m]) + ", " +
    model.place[m].name + inside + showArgs(args, what ? OF_WRITE : null);
}
]==]

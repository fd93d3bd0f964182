--- What a person does with the page: search, choose, move.
-- SPDX-License-Identifier: MIT

return [==[
// Tips ------------------------------------------------------------------

function showTip(e, text) {
  const tip = $("tip");
  tip.textContent = cut(text);
  tip.style.display = "block";
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(Math.min(e.clientX + 14, innerWidth - w - 4), 0) +
    "px";
  tip.style.top = Math.max(e.clientY + 18 + h > innerHeight ?
    e.clientY - h - 8 : e.clientY + 18, 0) + "px";
}

function hideTip() { $("tip").style.display = "none"; }

for (const its of document.querySelectorAll("[data-tip]")) {
  its.addEventListener("pointermove", e => showTip(e, its.dataset.tip));
  its.addEventListener("pointerleave", hideTip);
}

// Tables ----------------------------------------------------------------

// A column has a title, a width, what it is about, and the value of a row; and
// perhaps how that is shown, and a tip of its own.
function words(title, width, about, value, more) {
  return Object.assign({ title, width, about, value, text: value }, more);
}

function numbers(title, width, about, value, text) {
  return { title, width, about, value, text, number: true };
}

const nameOf = t => model.names[t.name];
const categoryOf = t => model.categories[t.name];

// To wait is not what takes time.
const worked = t => isWait(t.name) ? 0 : t.sum;
const waits = t => isWait(t.name) ? t.sum : t.waited;

const totals = new Table("totals", [
  words("name", "minmax(16em, 3fr)", "The name of the scope.", nameOf, { tip:
    t => nameOf(t) + "\n[" + categoryOf(t) + "]\nClick: the longest one." }),
  words("category", "8em", "The category of the scope.", categoryOf),
  numbers("count", "7em", "How many there are.", t => t.count,
    t => number(t.count, 0)),
  numbers("total", "8em", "From begin to end, without the time suspended; of " +
    "nested ones of one name the outermost counts.", worked,
    t => isWait(t.name) ? "" : duration(t.sum)),
  numbers("own", "8em", "The time in no other scope, while its coroutine runs.",
    t => t.own, t => isWait(t.name) ? "" : duration(t.own)),
  numbers("suspended", "8em", "The time in which its coroutine waits: no " +
    "part of the total.", waits, t => waits(t) ? duration(waits(t)) : ""),
  numbers("mean", "8em", "The length of one, on average.", t => t.sum / t.count,
    t => duration(t.sum / t.count)),
  numbers("longest", "8em", "The longest one.", t => t.most,
    t => duration(t.most)),
], t => showSpan(t.longest));

const longest = new Table("longest", [
  numbers("time", "8em", "From begin to end, without the time suspended.",
    active, s => duration(active(s))),
  words("name", "minmax(16em, 2fr)", "The name of the scope.", spanName,
    { tip: spanText }),
  numbers("own", "8em", "The time in no other scope.", s => model.own[s],
    s => duration(model.own[s])),
  numbers("suspended", "8em", "The time in which its coroutine waits.",
    s => model.waited[s],
    s => model.waited[s] ? duration(model.waited[s]) : ""),
  numbers("begins at", "10em", "The begin.", s => model.start[s],
    s => moment(model.start[s])),
  words("in", "minmax(8em, 1fr)", "The coroutine.", s => model.thread[s].name),
  words("args", "minmax(12em, 3fr)", "The args.",
    s => showArgs(model.args[s]).trim().replace(/\n/g, ", "),
    { tip: spanText }),
], showSpan);

const writes = new Table("writes", [
  numbers("time", "11em", "When it happened.", m => model.time[m],
    m => moment(model.time[m])),
  words("kind", "6em", "What kind of write it is.",
    m => model.names[model.kind[m]]),
  words("object", "minmax(10em, 2fr)", "The object's name in a hierarchy, or " +
    "its class, and its number.", m => objectName(said(m)), { tip: markText }),
  words("key", "minmax(7em, 1fr)", "The key.", m => showKey(said(m).key),
    { tip: markText }),
  words("old", "minmax(7em, 1fr)", "The value before.", m => said(m).old,
    { text: m => show(said(m).old), tip: markText }),
  words("new", "minmax(7em, 1fr)", "The value after.", m => said(m).new,
    { text: m => show(said(m).new), tip: markText }),
  numbers("guards", "6em", "How many heard of it.", m => said(m).guards || 0,
    m => String(said(m).guards || 0)),
  words("place", "minmax(12em, 2fr)", "The line of the program, if the trace " +
    "was asked for it: where.", m => said(m).where || "", { end: true }),
  words("scope", "minmax(7em, 1fr)", "The innermost scope that was open.",
    m => spanName(model.scope[m])),
  words("transaction", "11em", "The transaction, if these are a source of " +
    "the trace.", changeName),
  words("context", "minmax(6em, 1fr)", "mw.context's texts.",
    m => said(m).context ? said(m).context.join("; ") : ""),
], showMark);

const tables = { totals, longest, writes };

function open(id) {
  for (const name of Object.keys(tables)) {
    $(name).classList.toggle("on", name === id);
    $("to-" + name).classList.toggle("on", name === id);
  }
  tables[id].draw();
}

// Search ----------------------------------------------------------------

// The text as a pattern that finds it, in any case; null for none.
function patternOf(text) {
  return text ? new RegExp(text.replace(/[^\w\s]/g, "\\$&"), "i") : null;
}

function writeHas(m, word) {
  const args = said(m);
  return view.wanted[model.kind[m]] || [objectName(args), showKey(args.key),
    show(args.old), show(args.new), args.where || "",
    spanName(model.scope[m])].some(text => word.test(text));
}

function inRange(from, to) {
  return !view.selected || to >= view.selected[0] && from <= view.selected[1];
}

// Fills the tables with what is searched for, in the selection.
function fill() {
  const word = patternOf($("search").value);
  const [from, to] = view.selected || [0, whole()];
  view.wanted = word && model.names.map((name, i) => word.test(name) ||
    word.test(model.categories[i]));
  const isWanted = s => !view.wanted || view.wanted[model.name[s]];
  const rows = totalsOf(from, to);
  totals.set(rows.filter(t => !view.wanted || view.wanted[t.name]));
  const spans = [];
  for (let s = 0; s < model.n; s++) {
    if (!isWait(model.name[s]) && inRange(model.start[s], model.stop[s]) &&
      (view.wanted ? isWanted(s) : model.depth[s] === 0)) spans.push(s);
  }
  longest.set(spans);
  const found = model.writes.filter(m => inRange(model.time[m],
    model.time[m]) && (!word || writeHas(m, word)));
  view.objects = word ? new Set(found) : null;
  writes.set(found);
  for (const track of model.tracks) {
    track.found = view.wanted ? makeRows(track, isWanted) : null;
  }
  const of = (n, all) => n === all ? number(n, 0) : number(n, 0) + " of " +
    number(all, 0);
  $("to-totals").textContent = "Totals: " + of(totals.rows.length,
    new Set(model.name).size);
  $("to-longest").textContent = "Longest " + (word ? "scopes: " :
    "outermost scopes: ") + of(spans.length, model.n - model.waits);
  $("to-writes").textContent = "Writes: " + of(found.length,
    model.writes.length);
  $("selection").textContent = view.selected ? "selected: " +
    moment(round(from)) + " to " + moment(round(to)) + " (" +
    duration(to - from) + ")" : "";
  drawSoon();
}

let later = null;
$("search").addEventListener("input", () => {
  clearTimeout(later);
  later = setTimeout(fill, model.n + model.marks > 1e5 ? 250 : 0);
});

// Goes to the next span, or else write, that is searched for.
function next(back) {
  const list = longest.rows.length ? longest.rows.slice().sort((a, b) =>
    model.start[a] - model.start[b]) : writes.rows;
  if (!list.length) return;
  const time = its => longest.rows.length ? model.start[its] : model.time[its];
  const now = view.here ? view.here.from : -1;
  let i = search(list.length, n => back ? time(list[n]) >= now :
    time(list[n]) > now) - (back ? 1 : 0);
  i = (i + list.length) % list.length;
  (longest.rows.length ? showSpan : showMark)(list[i]);
}

// The mouse -------------------------------------------------------------

function choose(its) {
  if (!its) {
    view.here = null;
    tell("");
    drawSoon();
  } else if (its.span !== undefined) {
    showSpan(its.span);
    if (longest.rows.includes(its.span)) longest.reveal(its.span);
  } else if (its.mark !== undefined) {
    showMark(its.mark);
    if (model.categories[model.kind[its.mark]] === "watch") {
      open("writes");
      writes.reveal(its.mark);
    }
  }
}

let drag = null;

function select(from, to) {
  view.selected = Math.abs(to - from) * scale() < NEAR ? null :
    [Math.max(Math.min(from, to), 0), Math.min(Math.max(from, to), whole())];
}

function onDown(e, selects) {
  drag = { x: e.clientX, y: e.clientY, from: view.from, moved: false,
    selects: selects || e.shiftKey, time: timeAt(e.offsetX) };
  e.currentTarget.setPointerCapture(e.pointerId);
}

function onMove(e) {
  const left = canvas.getBoundingClientRect().left;
  $("cursor").style.left = e.clientX + "px";
  view.at = (e.clientX - left) / width();
  if (!drag) return;
  drag.moved = drag.moved || Math.abs(e.clientX - drag.x) +
    Math.abs(e.clientY - drag.y) > NEAR;
  if (drag.selects) {
    select(drag.time, timeAt(e.clientX - left));
    drawSoon();
  } else if (drag.moved) {
    const by = (drag.x - e.clientX) / scale();
    look(drag.from + by, drag.from + by + view.to - view.from);
  }
}

function onUp(e) {
  const its = drag;
  drag = null;
  if (!its) return;
  if (its.selects) fill();
  else if (!its.moved) choose(find(e.offsetX, e.offsetY));
}

ruler.addEventListener("pointerdown", e => onDown(e, true));
canvas.addEventListener("pointerdown", e => onDown(e, false));
for (const its of [ruler, canvas]) {
  its.addEventListener("pointermove", onMove);
  its.addEventListener("pointerup", onUp);
  its.addEventListener("pointerleave", () => {
    hideTip();
    $("cursor").style.display = "none";
  });
}
canvas.addEventListener("pointermove", e => {
  const box = $("tracks").getBoundingClientRect();
  const cursor = $("cursor");
  cursor.style.top = box.top + "px";
  cursor.style.height = box.height + "px";
  cursor.style.display = "block";
  const its = drag && drag.moved ? null : find(e.offsetX, e.offsetY);
  if (its) showTip(e, textOf(its));
  else hideTip();
});
ruler.addEventListener("pointermove", e => showTip(e,
  moment(round(timeAt(e.offsetX))) + "\nDrag to select a range."));
canvas.addEventListener("dblclick", e => {
  const its = find(e.offsetX, e.offsetY);
  if (its && its.span !== undefined) {
    look(model.start[its.span], model.stop[its.span]);
  } else {
    look(0, whole());
  }
});
for (const its of [$("tracks"), ruler]) {
  its.addEventListener("wheel", e => {
    if (e.ctrlKey) {
      e.preventDefault();
      const left = canvas.getBoundingClientRect().left;
      zoom(e.deltaY > 0 ? 1.25 : 0.8, (e.clientX - left) / width());
    } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
      e.preventDefault();
      pan((e.deltaX || e.deltaY) / width());
    }
  }, { passive: false });
}
$("tracks").addEventListener("scroll", drawSoon);

// The keyboard ----------------------------------------------------------

function scrollBy(rows) { $("tracks").scrollTop += rows * LINE; }

const keys = {
  w: () => zoom(0.8, view.at), s: () => zoom(1.25, view.at),
  a: () => pan(-0.1), d: () => pan(0.1),
  ArrowLeft: () => pan(-0.1), ArrowRight: () => pan(0.1),
  ArrowUp: () => scrollBy(-3), ArrowDown: () => scrollBy(3),
  "0": () => look(0, whole()), n: () => next(false), p: () => next(true),
  "/": () => $("search").select(),
  "?": () => $("help").classList.toggle("on"),
  Escape: () => {
    $("help").classList.remove("on");
    view.selected = null;
    choose(null);
    fill();
  },
};

addEventListener("keydown", e => {
  if (e.ctrlKey || e.altKey || e.metaKey) return;
  if (e.target === $("search")) {
    if (e.key === "Enter") next(e.shiftKey);
    if (e.key === "Escape") {
      $("search").value = "";
      $("search").blur();
      fill();
    }
    return;
  }
  const act = keys[e.key.length === 1 ? e.key.toLowerCase() : e.key];
  if (!act) return;
  e.preventDefault();
  act();
});

// The begin -------------------------------------------------------------

for (const name of Object.keys(tables)) {
  $("to-" + name).addEventListener("click", () => open(name));
}
$("to-help").addEventListener("click", keys["?"]);
$("help").addEventListener("click", keys["?"]);
$("all").addEventListener("click", keys["0"]);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  readStyle();
  drawSoon();
});
addEventListener("resize", () => {
  for (const table of Object.values(tables)) table.layout();
  drawSoon();
});

readTrace($("trace").textContent);
$("trace").remove();
model.waits = model.name.reduce((n, name) => n + (isWait(name) ? 1 : 0), 0);
placeTracks();
readStyle();
$("summary").textContent = number(model.n - model.waits, 0) + " scopes, " +
  number(model.writes.length, 0) + " writes, " + number(model.threads.size, 0) +
  (model.threads.size === 1 ? " coroutine, " : " coroutines, ") +
  number(model.lost, 0) + " events lost";
totals.sort(totals.columns[3]);
longest.sort(longest.columns[0]);
look(0, whole());
open(model.n || !model.writes.length ? "totals" : "writes");
fill();
draw();
]==]

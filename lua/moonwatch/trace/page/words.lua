--- Times and values as the page says them.
-- SPDX-License-Identifier: MIT

return [==[
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

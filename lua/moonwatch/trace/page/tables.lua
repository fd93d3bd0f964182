--- Tables of any length, of which the rows that are seen are in the page.
-- SPDX-License-Identifier: MIT

return [==[
const ROW = 22; // pixels

class Table {
  constructor(id, columns, pick) {
    this.box = $(id);
    this.columns = columns;
    this.pick = pick;
    this.rows = [];
    this.sorted = null;
    this.descends = true;
    this.here = null;
    this.space = document.createElement("div");
    this.head = this.makeRow(columns.map(column => column.title));
    this.head.className = "row head";
    this.box.append(this.head, this.space);
    this.shown = [];
    this.box.addEventListener("scroll", () => this.draw());
    this.head.addEventListener("click", e => {
      const i = [...this.head.children].indexOf(e.target);
      if (i >= 0) this.sort(columns[i]);
    });
    this.box.addEventListener("click", e => {
      const row = e.target.closest(".row");
      if (row && row !== this.head) this.choose(this.rows[row.index]);
    });
    this.box.addEventListener("pointermove", e => this.tip(e));
    this.box.addEventListener("pointerleave", hideTip);
  }

  makeRow(texts) {
    const row = document.createElement("div");
    row.className = "row";
    row.style.gridTemplateColumns =
      this.columns.map(column => column.width).join(" ");
    for (const [i, text] of texts.entries()) {
      const cell = document.createElement("span");
      cell.textContent = text;
      if (this.columns[i].number) cell.className = "n";
      if (this.columns[i].end) cell.className = "end";
      row.append(cell);
    }
    return row;
  }

  set(rows) {
    this.rows = rows;
    if (this.sorted) this.order();
    this.layout();
  }

  order() {
    const value = this.sorted.value, way = this.descends ? -1 : 1;
    const keys = new Map(this.rows.map(row => [row, value(row)]));
    this.rows.sort((a, b) => {
      const x = keys.get(a), y = keys.get(b);
      return x === y ? 0 : way * (typeof x === "number" &&
        typeof y === "number" ? x - y : String(x) < String(y) ? -1 : 1);
    });
  }

  sort(column) {
    this.descends = this.sorted === column ? !this.descends :
      Boolean(column.number);
    this.sorted = column;
    this.columns.forEach((its, i) => {
      this.head.children[i].textContent = its.title +
        (its === column ? this.descends ? " \u25bc" : " \u25b2" : "");
    });
    this.order();
    this.layout();
  }

  layout() {
    this.space.style.height = this.rows.length * ROW + "px";
    this.shown.forEach(row => row.remove());
    this.shown = [];
    this.draw();
  }

  draw() {
    if (!this.box.clientHeight) return;
    const n = Math.ceil(this.box.clientHeight / ROW) + 1;
    const first = Math.floor(Math.max(this.box.scrollTop, 0) / ROW);
    while (this.shown.length < n) {
      const row = this.makeRow(this.columns.map(() => ""));
      this.shown.push(row);
      this.box.append(row);
    }
    this.shown.forEach((row, k) => {
      const i = first + k;
      row.style.display = i < this.rows.length ? "" : "none";
      if (i >= this.rows.length) return;
      row.index = i;
      row.className = "row" + (i % 2 ? " odd" : "") +
        (this.rows[i] === this.here ? " here" : "");
      row.style.top = (i + 1) * ROW + "px";
      this.columns.forEach((column, c) => {
        row.children[c].textContent = cut(column.text(this.rows[i]));
      });
    });
  }

  choose(row) {
    this.here = row;
    this.draw();
    this.pick(row);
  }

  // Shows a row that was chosen elsewhere.
  reveal(row) {
    const i = this.rows.indexOf(row);
    this.here = row;
    if (i >= 0) {
      const y = i * ROW;
      if (y < this.box.scrollTop ||
        y + 2 * ROW > this.box.scrollTop + this.box.clientHeight) {
        this.box.scrollTop = y - this.box.clientHeight / 2;
      }
    }
    this.draw();
  }

  tip(e) {
    const row = e.target.closest(".row");
    const cell = e.target.closest(".row > span");
    if (!cell) return hideTip();
    const column = this.columns[[...row.children].indexOf(cell)];
    showTip(e, row === this.head ? column.about + "\nClick to sort." :
      column.tip ? column.tip(this.rows[row.index]) :
      column.title + ": " + column.text(this.rows[row.index]));
  }
}
]==]

// The rows of the table in the page: only those in view are elements, since all have one height.

import { clean } from "../../charts/text.js";
import { percent, threeDigits } from "../../format.js";

/** Rows above and below the view. */
const AHEAD = 4;
const LONGEST_TEXT = 200;
const SVG = "http://www.w3.org/2000/svg";

export class RowsView {
  /**
   * scroller: the element that scrolls; body: the one as high as all rows
   * rowHeight: px
   */
  constructor(scroller, body, rowHeight) {
    this.scroller = scroller;
    this.body = body;
    this.rowHeight = rowHeight;
    this.entries = [];
    this.elements = new Map();
    this.frame = 0;
    /** number of rows that are elements whatever is in view; null on the screen */
    this.whole = null;
    scroller.addEventListener("scroll", () => this.#soon(), { passive: true });
    new ResizeObserver(() => this.#soon()).observe(scroller);
  }

  /** Show other entries. `draw(entry, place)` makes the element of one. */
  show(entries, draw) {
    this.entries = entries;
    this.draw = draw;
    // read before the page changes, so that it is laid out once
    const view = this.#view();
    this.elements.clear();
    this.body.replaceChildren();
    this.body.style.height = `${entries.length * this.rowHeight}px`;
    this.#paint(view);
  }

  /** Bring a place into view, unless it is. */
  reveal(place) {
    const top = place * this.rowHeight;
    const room = this.scroller.clientHeight - this.body.offsetTop;
    const { scrollTop } = this.scroller;
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + this.rowHeight > scrollTop + room) this.scroller.scrollTop = top + this.rowHeight - room;
    this.#paint();
  }

  /** Rows that fit into the view. */
  get pageRows() {
    return Math.max(1, Math.floor((this.scroller.clientHeight - this.body.offsetTop) / this.rowHeight));
  }

  elementAt(place) {
    return this.elements.get(place);
  }

  /** Until the page is printed, have the first `limit` rows as elements: on paper nothing scrolls. */
  showAll(limit) {
    this.whole = Math.min(limit, this.entries.length);
    this.#paint();
    addEventListener("afterprint", () => {
      this.whole = null;
      this.#paint();
    }, { once: true });
  }

  #soon() {
    if (!this.frame) {
      this.frame = requestAnimationFrame(() => {
        this.frame = 0;
        this.#paint();
      });
    }
  }

  /** The first row in view, and how many fit. */
  #view() {
    return { first: Math.floor(this.scroller.scrollTop / this.rowHeight), rows: this.pageRows };
  }

  #paint({ first, rows } = this.#view()) {
    const from = this.whole ? 0 : Math.max(0, first - AHEAD);
    const to = this.whole ?? Math.min(this.entries.length, first + rows + AHEAD + 1);
    for (const [place, element] of this.elements) {
      if (place < from || place >= to) {
        element.remove();
        this.elements.delete(place);
      }
    }
    const made = document.createDocumentFragment();
    for (let place = from; place < to; place += 1) {
      if (this.elements.has(place)) continue;
      const element = this.draw(this.entries[place], place);
      element.style.transform = `translateY(${place * this.rowHeight}px)`;
      this.elements.set(place, element);
      made.append(element);
    }
    this.body.append(made);
  }
}

/** A cell of the grid. */
function cell(column, role, ...content) {
  const made = document.createElement("div");
  made.setAttribute("role", role);
  made.className = `grid__cell grid__cell--${column.isText ? "text" : "number"}${column.isCode ? " grid__cell--code" : ""}`;
  made.dataset.column = column.key;
  made.append(...content);
  return made;
}

function isolated(text, className) {
  const made = document.createElement("bdi");
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

function bar(part) {
  const made = document.createElement("i");
  made.className = "grid__bar";
  made.style.width = `${Math.max(0, Math.min(1, part)) * 100}%`;
  return made;
}

/** The passes of one operator as points between its fastest and its slowest. */
function passes(values) {
  const known = values.filter((value) => value !== null);
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", "grid__passes");
  svg.setAttribute("viewBox", "0 0 64 16");
  svg.setAttribute("aria-hidden", "true");
  const most = Math.max(...known, 0);
  known.forEach((value, number) => {
    const point = document.createElementNS(SVG, "rect");
    const height = most > 0 ? Math.max(1, (value / most) * 14) : 1;
    const width = Math.min(8, 60 / known.length - 1);
    for (const [name, size] of Object.entries({ x: 2 + number * (width + 1), y: 15 - height, width, height })) {
      point.setAttribute(name, size.toFixed(1));
    }
    svg.append(point);
  });
  return svg;
}

/** Make the element of one row: an operator. */
export function operatorRow({ row, depth, place, columns, operators, longest, share, url }) {
  const made = rowElement(place);
  made.dataset.row = row;
  made.append(cell({ key: "rank" }, "gridcell", String(place + 1)));
  for (const column of columns) {
    if (column.key === "op") {
      const link = document.createElement("a");
      link.className = "grid__name";
      link.href = url(row);
      link.tabIndex = -1;
      link.title = clean(operators.names[row], LONGEST_TEXT);
      link.append(isolated(clean(column.textOf(row), LONGEST_TEXT) || "–"));
      const head = cell(column, "rowheader", link);
      head.style.paddingInlineStart = `${8 + 14 * Math.max(0, depth)}px`;
      made.append(head);
    } else if (column.key === "cum") {
      made.append(cell(column, "gridcell", shareText(share)));
    } else if (column.hasPasses) {
      made.append(cell(column, "gridcell", passes(operators[operators.side].passes.map((pass) => pass[row]))));
    } else {
      const text = column.textOf(row);
      const content = column.isText ? isolated(clean(text, LONGEST_TEXT)) : text;
      const made_ = cell(column, "gridcell", content);
      if (column.isText && text.length > 16) made_.title = clean(text, 1_000);
      const verdict = column.verdictOf?.(row);
      if (verdict) made_.classList.add(verdict > 0 ? "grid__cell--slower" : "grid__cell--faster");
      if (column.hasBar && longest > 0 && operators.us[row] > 0) made_.prepend(bar(operators.us[row] / longest));
      made.append(made_);
    }
  }
  return made;
}

/** Make the element of one group, which opens and closes. */
export function groupRow({ group, depth, place, columns, operators, longest, share, isOpen, label }) {
  const made = rowElement(place);
  made.classList.add("grid__row--group");
  made.dataset.group = group.key;
  made.setAttribute("aria-expanded", String(isOpen));
  made.append(cell({ key: "rank" }, "gridcell", String(place + 1)));
  const texts = {
    share: shareText(operators.total ? group.us / operators.total : NaN),
    cum: shareText(share),
  };
  for (const column of columns) {
    if (column.key === "op") {
      const head = cell(column, "rowheader", isOpen ? "▾ " : "▸ ", isolated(clean(group.label, LONGEST_TEXT) || label), ` ×${group.size}`);
      head.style.paddingInlineStart = `${8 + 14 * Math.max(0, depth)}px`;
      made.append(head);
    } else if (column.key === "device" || column.key === "host") {
      const us = column.key === "device" ? group.us : group.hostUs;
      const made_ = cell(column, "gridcell", threeDigits(us / column.scale.length, column.scale.decimals));
      if (column.hasBar && longest > 0) made_.prepend(bar(us / longest));
      made.append(made_);
    } else {
      made.append(cell(column, "gridcell", texts[column.key] ?? column.textOfSum?.(group.diffUs) ?? ""));
    }
  }
  return made;
}

function shareText(share) {
  return Number.isFinite(share) ? percent(share).replace(" %", "") : "";
}

function rowElement(place) {
  const made = document.createElement("div");
  made.className = "grid__row";
  made.id = `operator-row-${place}`;
  made.setAttribute("role", "row");
  made.setAttribute("aria-rowindex", String(place + 2));
  return made;
}

// Which rows of a long table are in the page: pieces near the view are fetched, far ones released.
//
// Each piece is a tbody of its own, in its place from the start; one that is not loaded is empty and as
// high as its rows would be. So the height never changes and nothing jumps.

import { withParameters } from "./fetching.js";

/** Pieces kept on either side of those in view. */
const KEPT = 2;
/** Rows beyond the view that are fetched before they are seen. */
const AHEAD = 60;
/** Requests at a time: those that follow are for where the reader is by then. */
const AT_ONCE = 2;

export class RowWindow {
  /**
   * scroller: the element that scrolls, with `data-rows-url`, `data-total`, `data-piece`
   * keep(piece): whether a piece must stay, since the focus is in it
   */
  constructor(scroller, { fetchFragment, onRows, keep }) {
    this.scroller = scroller;
    this.table = scroller.querySelector("table");
    this.total = Number(scroller.dataset.total);
    this.piece = Number(scroller.dataset.piece);
    this.hooks = { fetchFragment, onRows, keep };
    this.bodies = new Map();
    this.loading = new Map();
    /** the piece that somebody waits for: no other is asked for beside it */
    this.wanted = null;
    this.ended = new AbortController();
    this.frame = 0;
    /** on paper nothing is out of view */
    this.isWhole = false;
    this.#fillUp();
    const listening = { passive: true, signal: this.ended.signal };
    scroller.addEventListener("scroll", () => this.#soon(), listening);
    addEventListener("resize", () => this.#measure(), listening);
  }

  /** Stop listening; answers that still come are dropped. */
  end() {
    this.ended.abort();
    cancelAnimationFrame(this.frame);
  }

  /** The row at a place of the order, fetched if need be; null if there is none or no answer. */
  async row(place) {
    if (place < 0 || place >= this.total) return null;
    const number = Math.floor(place / this.piece);
    this.wanted = number;
    await this.#load(number);
    if (this.wanted === number) this.wanted = null;
    return this.loaded(place);
  }

  /** The row at a place if it is in the page. */
  loaded(place) {
    const number = Math.floor(place / this.piece);
    const body = this.bodies.get(number);
    if (!body || "gap" in body.dataset) return null;
    return body.rows[place - number * this.piece] ?? null;
  }

  /** Have the row that `make` makes stand at a place until its piece comes. */
  expect(place, make) {
    const number = Math.floor(place / this.piece);
    const gap = this.bodies.get(number);
    if (!("gap" in gap.dataset)) return;
    const row = make();
    row.style.top = `${(place - number * this.piece) * this.rowHeight}px`;
    gap.removeAttribute("aria-hidden");
    gap.setAttribute("role", "rowgroup");
    gap.replaceChildren(row);
  }

  /** Scroll by as little as needed to have a place in view; to the middle if it was far. */
  show(place) {
    const { scroller } = this;
    const head = this.#headHeight();
    const top = place * this.rowHeight;
    const view = scroller.clientHeight - head;
    const above = scroller.scrollTop - top;
    const below = top + this.rowHeight - scroller.scrollTop - view;
    if (above <= 0 && below <= 0) return;
    const isFar = Math.max(above, below) > view / 2;
    if (isFar) scroller.scrollTop = top - (view - this.rowHeight) / 2;
    else scroller.scrollTop = above > 0 ? top : top + this.rowHeight - view;
  }

  /** Fetch and keep every piece, up to so many rows; false if there are more. */
  async loadAll(most) {
    if (this.total > most) return false;
    this.isWhole = true;
    for (const number of [...this.bodies.keys()].sort((a, b) => a - b)) await this.#load(number);
    return true;
  }

  /** How many whole rows the view has. */
  get pageRows() {
    return Math.max(1, Math.floor((this.scroller.clientHeight - this.#headHeight()) / this.rowHeight) - 1);
  }

  #headHeight() {
    return this.table.tHead.offsetHeight;
  }

  /** Make a body for each piece that is not there, in order. */
  #fillUp() {
    for (const body of this.table.tBodies) {
      this.bodies.set(Math.floor(Number(body.dataset.start) / this.piece), body);
    }
    const first = this.table.tBodies[0];
    this.rowHeight = heightOf(first);
    const pieces = Math.ceil(this.total / this.piece);
    const made = document.createDocumentFragment();
    const before = document.createDocumentFragment();
    for (let number = 0; number < pieces; number += 1) {
      if (this.bodies.has(number)) continue;
      const gap = this.#gap(number);
      (number < Number(first.dataset.start) / this.piece ? before : made).append(gap);
      this.bodies.set(number, gap);
    }
    first.before(before);
    this.table.append(made);
  }

  #gap(number) {
    const body = document.createElement("tbody");
    body.dataset.gap = "";
    body.className = "operators__gap";
    body.setAttribute("aria-hidden", "true");
    this.#stretch(body, number);
    return body;
  }

  #stretch(body, number) {
    const rows = Math.min(this.piece, this.total - number * this.piece);
    body.style.height = `${rows * this.rowHeight}px`;
  }

  /** Text may have become larger: gaps follow the rows. */
  #measure() {
    const body = [...this.bodies.values()].find((each) => !("gap" in each.dataset));
    if (!body?.rows.length) return;
    const height = heightOf(body);
    if (Math.abs(height - this.rowHeight) < 0.01) return;
    this.rowHeight = height;
    for (const [number, each] of this.bodies) if ("gap" in each.dataset) this.#stretch(each, number);
  }

  #soon() {
    if (!this.frame) this.frame = requestAnimationFrame(() => this.#follow());
  }

  #follow() {
    this.frame = 0;
    const top = this.scroller.scrollTop / this.rowHeight;
    const rows = this.scroller.clientHeight / this.rowHeight;
    const last = Math.ceil(this.total / this.piece) - 1;
    const from = Math.max(0, Math.floor((top - AHEAD) / this.piece));
    const to = Math.min(last, Math.floor((top + rows + AHEAD) / this.piece));
    const middle = Math.floor((top + rows / 2) / this.piece);
    this.#release(from, to);
    const wanted = [];
    for (let number = from; number <= to; number += 1) wanted.push(number);
    wanted.sort((a, b) => Math.abs(a - middle) - Math.abs(b - middle));
    for (const number of wanted) {
      if (this.loading.size >= (this.wanted === null ? AT_ONCE : 1)) break;
      this.#load(number);
    }
  }

  #release(from, to) {
    if (this.isWhole) return;
    for (const [number, body] of this.bodies) {
      if ("gap" in body.dataset || (number >= from - KEPT && number <= to + KEPT)) continue;
      if (this.hooks.keep(number)) continue;
      const gap = this.#gap(number);
      body.replaceWith(gap);
      this.bodies.set(number, gap);
    }
  }

  #load(number) {
    const body = this.bodies.get(number);
    if (!body || !("gap" in body.dataset)) return Promise.resolve();
    if (!this.loading.has(number)) {
      this.loading.set(number, this.#fetch(number).finally(() => this.#loaded(number)));
    }
    return this.loading.get(number);
  }

  #loaded(number) {
    this.loading.delete(number);
    if (!this.ended.signal.aborted) this.#soon();
  }

  async #fetch(number) {
    const url = withParameters(this.scroller.dataset.rowsUrl, { offset: number * this.piece });
    let fragment;
    try {
      fragment = await this.hooks.fetchFragment(url);
    } catch {
      await this.#failed(number);
      return;
    }
    this.adopt(fragment.querySelector("tbody"));
  }

  /** Put a piece that came from the server into its place, unless it is there. */
  adopt(body) {
    if (this.ended.signal.aborted || !body) return;
    const number = Math.floor(Number(body.dataset.start) / this.piece);
    const gap = this.bodies.get(number);
    if (!gap || !("gap" in gap.dataset)) return;
    this.hooks.onRows(body);
    gap.replaceWith(body);
    this.bodies.set(number, body);
  }

  /** Say so where the rows would be, and wait a moment before the next try. */
  async #failed(number) {
    const gap = this.bodies.get(number);
    gap.textContent = this.scroller.dataset.failed;
    gap.classList.add("operators__gap--failed");
    await new Promise((resolve) => { setTimeout(resolve, 2_000); });
    if (!gap.isConnected) return;
    gap.textContent = "";
    gap.classList.remove("operators__gap--failed");
  }
}

/** Of one row; all are alike. */
function heightOf(body) {
  return body.getBoundingClientRect().height / Math.max(1, body.rows.length);
}

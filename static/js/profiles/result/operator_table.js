// One table of operators: its window of rows, the row that has the focus, the selected one.

import { expectedRow } from "./expected_row.js";
import { withParameters } from "./fetching.js";
import { RowWindow } from "./row_window.js";
import { onSelect, select, selected } from "./selection.js";
import { TableOrder } from "./table_order.js";

const SOURCE = "table";

export class OperatorTable {
  constructor(scroller, { fetchFragment, fetchJson, announce }) {
    this.scroller = scroller;
    this.table = scroller.querySelector("table");
    this.fetchFragment = fetchFragment;
    this.announce = announce;
    /** place in the order of the row that Tab reaches */
    this.active = Number(this.table.tBodies[0].dataset.start);
    this.isGrid = "selectable" in scroller.dataset;
    this.window = new RowWindow(scroller, {
      fetchFragment,
      onRows: (body) => this.#dress(body),
      keep: (piece) => piece === Math.floor(this.active / Number(scroller.dataset.piece)),
    });
    this.order = new TableOrder(scroller, fetchJson);
    this.table.setAttribute("role", "grid");
    scroller.removeAttribute("tabindex");
    for (const body of this.table.tBodies) if (!("gap" in body.dataset)) this.#dress(body);
    this.#listen();
    if (selected() !== null) this.reveal(selected());
  }

  end() {
    this.window.end();
    this.order.end();
    this.stopListening();
  }

  /** Let all rows go, because others come at once. */
  empty() {
    this.end();
    for (const body of this.table.tBodies) body.replaceChildren();
  }

  /** Mark the row of an operator and bring it into view, wherever in the order it is. */
  async reveal(operator) {
    this.#mark(operator);
    if (operator === null || !this.isGrid) return;
    const known = this.#knownPlaceOf(operator);
    const place = known === undefined ? await this.#askedPlaceOf(operator) : known;
    if (selected() !== operator) return;
    if (place === null) {
      this.announce(this.scroller.dataset.absent);
      return;
    }
    if (place === undefined) return;
    // asked for first: it is on the way while the rest is done
    const coming = this.window.row(place);
    this.window.show(place);
    if (known !== undefined) this.window.expect(place, () => this.#expected(operator, place));
    const row = await coming;
    if (!row || selected() !== operator) return;
    this.#activate(place);
    this.#mark(operator);
  }

  /** The place if the row is in the page or the order is known, as `TableOrder.placeOf`. */
  #knownPlaceOf(operator) {
    const row = this.#rowOf(operator);
    return row ? placeOf(row) : this.order.placeOf(operator);
  }

  /** The place as the server says, null if there is none, undefined without an answer. */
  async #askedPlaceOf(operator) {
    const url = withParameters(this.scroller.dataset.rowsUrl, { around: operator });
    try {
      const body = (await this.fetchFragment(url)).querySelector("tbody");
      if (body?.dataset.place === undefined) return null;
      this.window.adopt(body);
      return Number(body.dataset.place);
    } catch {
      return undefined;
    }
  }

  #expected(operator, place) {
    const url = new URL(this.scroller.dataset.rowsUrl, location.href);
    const href = `${url.pathname}${operator}/${url.search}`;
    return expectedRow(this.table, { place, operator, href, ...this.order.named(operator) });
  }

  #rowOf(operator) {
    return this.table.querySelector(`tr[data-row="${operator}"]`);
  }

  #mark(operator) {
    for (const row of this.table.querySelectorAll("tr[aria-selected=true]")) {
      row.setAttribute("aria-selected", "false");
    }
    if (operator !== null) this.#rowOf(operator)?.setAttribute("aria-selected", "true");
  }

  /** What rows need to be part of a grid; without JavaScript their links are in the order of Tab. */
  #dress(body) {
    const chosen = String(selected());
    for (const row of body.rows) {
      row.tabIndex = placeOf(row) === this.active ? 0 : -1;
      if (this.isGrid) row.setAttribute("aria-selected", String(row.dataset.row === chosen));
      const link = row.querySelector("a");
      if (link) link.tabIndex = -1;
      for (const cell of row.querySelectorAll("[role=cell]")) cell.setAttribute("role", "gridcell");
    }
  }

  #listen() {
    const { table } = this;
    table.addEventListener("click", (event) => this.#onClick(event));
    table.addEventListener("keydown", (event) => this.#onKey(event));
    table.addEventListener("focusin", (event) => {
      const row = event.target.closest("tbody tr[aria-rowindex]");
      if (row) this.#activate(placeOf(row));
    });
    this.stopListening = onSelect((operator, source) => {
      if (source === SOURCE && this.table.contains(document.activeElement)) this.#mark(operator);
      else this.reveal(operator);
    });
  }

  #onClick(event) {
    const row = event.target.closest("tbody tr[data-row]");
    if (!row || !this.isGrid || event.ctrlKey || event.metaKey || event.shiftKey) return;
    // a reader who marks text to copy it does not mean the row
    if (String(getSelection()) && !event.target.closest("a")) return;
    event.preventDefault();
    this.#activate(placeOf(row));
    row.focus({ preventScroll: true });
    select(Number(row.dataset.row), SOURCE);
  }

  #onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !event.target.closest("tbody")) return;
    const last = this.window.total - 1;
    const places = {
      ArrowDown: this.active + 1,
      ArrowUp: this.active - 1,
      PageDown: this.active + this.window.pageRows,
      PageUp: this.active - this.window.pageRows,
      Home: 0,
      End: last,
    };
    if (event.key in places) {
      event.preventDefault();
      this.#moveTo(Math.min(Math.max(places[event.key], 0), last));
    } else if (event.key === "Enter") {
      this.#enter(event);
    }
  }

  #enter(event) {
    const row = this.window.loaded(this.active);
    if (!row) return;
    if (this.isGrid) {
      event.preventDefault();
      select(Number(row.dataset.row), SOURCE);
    } else if (event.target === row) {
      row.querySelector("a")?.click();
    }
  }

  async #moveTo(place) {
    this.#activate(place);
    this.window.show(place);
    const row = await this.window.row(place);
    if (row && place === this.active) {
      row.tabIndex = 0;
      row.focus({ preventScroll: true });
    }
  }

  #activate(place) {
    if (place === this.active) return;
    const before = this.window.loaded(this.active);
    if (before) before.tabIndex = -1;
    this.active = place;
    const now = this.window.loaded(place);
    if (now) now.tabIndex = 0;
  }
}

/** The place in the order, from 0; the head is line 1 of the grid. */
function placeOf(row) {
  return Number(row.getAttribute("aria-rowindex")) - 2;
}

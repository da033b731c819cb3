// The table of operators: the browser filters, sorts and groups what the server sent once.

import { fill, percent, sentences, threeDigits, wordsOf } from "../../format.js";
import { Refusal, getJson } from "../../requests.js";
import { bindShortcuts } from "../../shortcuts.js";
import { loadOperators } from "../operators.js";
import { MOST_PRINTED, onWhole } from "../result/printing.js";
import { onSelect, select, selected } from "../result/selection.js";
import { makeColumns } from "./columns.js";
import { parseFilter } from "./filter.js";
import { GROUPS, asTsv, groupRows, runningShares, selectRows, sortRows } from "./model.js";
import { readColumns, readState, withUnknown, writeColumns, writeState } from "./state.js";
import { RowsView, groupRow, operatorRow } from "./view.js";

const SOURCE = "table";
const ROW_PX = 22;
const PHONE = "(max-width: 43.75rem)";
const PHONE_NAME_PX = 180;
const RANK_PX = 44;

class OperatorTable {
  /** root: `#operator-table`; announce(text): tells screen readers */
  constructor(root, operators, announce) {
    this.root = root;
    this.operators = operators;
    this.announce = announce;
    const { content } = root.querySelector("template");
    this.words = wordsOf(content);
    this.heads = Object.fromEntries([...content.querySelectorAll("[data-column]")].map((each) => [each.dataset.column, { title: each.textContent, help: each.title }]));
    // without times on the device, the column of self times has those on the host
    this.heads.device = this.heads[operators.side];
    this.part = Object.fromEntries([...root.querySelectorAll("[data-table]")].map((each) => [each.dataset.table, each]));
    this.columns = makeColumns(operators, this.words);
    this.state = readState();
    this.open = new Set();
    /** rows that the user marked; their sum is shown below the table */
    this.picked = new Set();
    this.within = null;
    /** the only operators that are listed, a Set, or null for all */
    this.only = null;
    this.active = 0;
    /** why there are no differences to the baseline, or "" */
    this.failure = "";
    /** the applied widths of the columns */
    this.layout = "";
    /** the stored choice of columns, `{keys, widths}` */
    this.stored = readColumns();
    this.chosen = this.#known(this.stored.keys) ?? this.usual;
    this.view = new RowsView(this.part.scroll, this.part.body, ROW_PX);
    this.chooser = null;
    this.part.columns.addEventListener("beforetoggle", async () => {
      const { Chooser } = await import("./chooser.js");
      this.chooser ??= new Chooser(this.part.columns, this);
    });
    this.#listen();
    this.refresh();
    this.reveal(selected());
    onWhole(() => this.view.showAll(MOST_PRINTED));
  }

  /** Show the differences to the baseline: `us` and `clear` by row; null and why, if there are none. */
  compareWith(baseline, failure = "") {
    this.operators.baseline = baseline;
    this.failure = failure;
    this.columns = makeColumns(this.operators, this.words);
    this.chosen = this.#known(this.stored.keys) ?? this.usual;
    // the heading gets the unit of the differences
    this.part.head.dataset.keys = "";
    this.refresh();
  }

  get usual() {
    const keys = this.columns.filter((column) => !column.isExtra).map(({ key }) => key);
    // a phone has room for the operator and its time
    if (!matchMedia(PHONE).matches) return keys;
    return ["op", "device", ...keys.filter((key) => key !== "op" && key !== "device")];
  }

  titleOf(column) {
    const title = this.heads[column.key]?.title ?? column.key;
    // the unit says what a rate is
    return [column.isRate ? "" : title, column.unit].filter(Boolean).join(" ");
  }

  #known(keys) {
    const known = keys?.filter((key) => this.columns.some((column) => column.key === key));
    return known?.length ? known : null;
  }

  /** The columns in the page, in order. */
  get shown() {
    return this.chosen.map((key) => this.columns.find((column) => column.key === key));
  }

  /** Choose other columns; null for the usual ones. */
  choose(keys) {
    const { keys: before, widths } = this.stored;
    this.stored = keys ? { keys: withUnknown(keys, before ?? [], this.columns), widths } : { keys: null, widths: {} };
    this.chosen = this.#known(keys) ?? this.usual;
    writeColumns(this.stored);
    this.refresh();
  }

  /** List only operators of a range of time; `within(row)`, or null for all. */
  restrict(within) {
    this.within = within;
    this.refresh();
  }

  /** List only these operators, constants among them, until the filter is cleared. */
  list(rows) {
    this.#listAll();
    this.only = new Set(rows);
    this.part.filter.value = "";
    this.change({ q: "" });
  }

  /** End the restriction to a range of time or to some operators, of which the address tells nothing. */
  #listAll() {
    this.within = null;
    this.only = null;
    document.dispatchEvent(new CustomEvent("operators:range-cleared"));
  }

  /** Change the state and tell the address. */
  change(part, isNew = true) {
    Object.assign(this.state, part);
    // up to 20 ms in Chromium, for which the rows need not wait
    setTimeout(writeState, 0, { ...this.state }, isNew);
    this.part.scroll.scrollTop = 0;
    this.active = 0;
    this.refresh();
    this.announce(this.part.count.textContent);
  }

  refresh() {
    const { operators, state } = this;
    const { terms, unknown } = parseFilter(state.q);
    const { rows, hidden } = selectRows(operators, { terms, constants: state.constants, within: this.within, only: this.only });
    const column = this.columns.find(({ key, isDerived }) => key === state.sort && !isDerived) ?? this.columns.find(({ key }) => key === "device");
    this.rows = sortRows(rows, column, state.isAscending);
    if (this.picked.size) this.picked = new Set(rows.filter((row) => this.picked.has(row)));
    const grouped = GROUPS.includes(state.group) ? state.group : "";
    this.entries = grouped ? groupRows(operators, this.rows, grouped, this.open) : this.rows.map((row) => ({ row, depth: 0 }));
    this.active = Math.min(this.active, Math.max(0, this.entries.length - 1));
    this.shares = runningShares(operators, this.entries);
    this.longest = this.entries.reduce((most, { row, group }) => Math.max(most, group ? group.us : (operators.us[row] ?? 0)), 0);
    this.hidden = hidden;
    this.#showHead(column);
    this.view.show(this.entries, (entry, place) => this.#element(entry, place));
    this.#showCounts(unknown);
  }

  /** Bring an operator into view, wherever in the order it is. */
  reveal(row) {
    if (row === null) {
      this.#mark();
      return;
    }
    const place = this.entries.findIndex((entry) => entry.row === row);
    if (place < 0) {
      this.#mark();
      if (this.rows.includes(row)) return; // in a closed group
      this.announce(this.words.hidden);
      return;
    }
    this.active = place;
    this.view.reveal(place);
    this.#mark();
  }

  #element(entry, place) {
    const about = {
      ...entry,
      place,
      columns: this.shown,
      operators: this.operators,
      longest: this.longest,
      share: this.shares[place],
      url: (row) => `${this.root.dataset.operator}${row}/`,
      isOpen: entry.group && this.open.has(entry.group.key),
      label: this.words.none,
    };
    const made = entry.group ? groupRow(about) : operatorRow(about);
    if (!entry.group) this.#dress(made, entry.row, place);
    return made;
  }

  #dress(element, row, place) {
    element.setAttribute("aria-selected", String(row === selected() || this.picked.has(row)));
    element.classList.toggle("grid__row--selected", row === selected());
    element.classList.toggle("grid__row--picked", this.picked.has(row));
    element.classList.toggle("grid__row--active", place === this.active);
  }

  /** Mark the selected, the picked and the active row, without making rows again. */
  #mark() {
    for (const [place, element] of this.view.elements) {
      if (element.dataset.row) this.#dress(element, Number(element.dataset.row), place);
      else element.classList.toggle("grid__row--active", place === this.active);
    }
    this.part.scroll.setAttribute("aria-activedescendant", this.entries.length ? `operator-row-${this.active}` : "");
    this.#showSum();
  }

  /** Make the headings; those that are there keep the focus unless the columns are others. */
  #showHead(sorted) {
    const { head, scroll } = this.part;
    const columns = this.shown;
    const sizes = this.#layoutOf(columns);
    if (sizes.layout !== this.layout) {
      this.layout = sizes.layout;
      this.#applyLayout(sizes);
      scroll.setAttribute("aria-colcount", String(columns.length + 1));
    }
    const keys = columns.map(({ key }) => key).join();
    if (keys !== head.dataset.keys) {
      head.dataset.keys = keys;
      head.replaceChildren(headCell({ key: "rank" }, "#"), ...columns.map((column) => this.#headOf(column)));
    }
    for (const button of head.querySelectorAll("[data-sort]")) {
      const isSorted = button.dataset.sort === sorted?.key;
      if (isSorted) button.parentElement.setAttribute("aria-sort", this.state.isAscending ? "ascending" : "descending");
      else button.parentElement.removeAttribute("aria-sort");
      button.lastElementChild.textContent = isSorted ? (this.state.isAscending ? " ↑" : " ↓") : "";
    }
    scroll.setAttribute("aria-rowcount", String(this.entries.length + 1));
  }

  /**
   * The value of `grid-template-columns`, where the last column takes the rest unless it was
   * resized, and the least width of a row in pixels.
   */
  #layoutOf(columns) {
    const isPhone = matchMedia(PHONE).matches;
    const widths = columns.map(({ key, width }) => this.stored.widths[key] ?? (isPhone && key === "op" ? PHONE_NAME_PX : width));
    const sizes = widths.map((width) => `${width}px`);
    const last = columns.at(-1);
    if (last && !this.stored.widths[last.key]) sizes[sizes.length - 1] = `minmax(${sizes.at(-1)}, 1fr)`;
    return { layout: `${RANK_PX}px ${sizes.join(" ")}`, width: widths.reduce((all, width) => all + width, RANK_PX) };
  }

  /** Rows have a width of their own: measuring their content would take longer than drawing it. */
  #applyLayout({ layout, width }) {
    this.part.scroll.style.setProperty("--columns", layout);
    this.part.scroll.style.setProperty("--row-width", `${width}px`);
  }

  #headOf(column) {
    const made = headCell(column);
    const help = this.heads[column.key]?.help ?? "";
    if (column.isDerived || column.hasPasses) {
      made.append(this.titleOf(column));
      made.title = help;
    } else {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "grid__sort";
      button.dataset.sort = column.key;
      button.title = help;
      button.append(this.titleOf(column), document.createElement("span"));
      made.append(button);
    }
    const handle = document.createElement("i");
    handle.className = "grid__handle";
    handle.dataset.resize = column.key;
    handle.setAttribute("aria-hidden", "true");
    made.append(handle);
    return made;
  }

  #showCounts(unknown) {
    const { words, part, hidden, state, operators } = this;
    const number = this.rows.length;
    const us = sum(this.rows, operators.us);
    part.count.textContent = `${fill(words.rows, { number })} · ${this.#time(us)} · ${operators.total ? percent(us / operators.total) : "–"}`;
    part.constants.hidden = !hidden && !state.constants;
    part.constants.setAttribute("aria-pressed", String(state.constants));
    part.constants.textContent = state.constants ? words.without_constants : fill(words.constants, { number: hidden });
    part.problem.textContent = sentences([unknown.length && fill(words.unknown, { word: unknown.join(", ") }), this.failure]);
    part.empty.hidden = number > 0;
    part.clear.hidden = !state.q && !this.within && !this.only;
    if (document.activeElement !== part.filter) part.filter.value = state.q;
    part.group.value = state.group;
    this.#mark();
  }

  #showSum() {
    const { part, picked, operators, words } = this;
    part.foot.hidden = picked.size < 2;
    if (picked.size < 2) return;
    const rows = [...picked];
    const us = sum(rows, operators.us);
    part.sum.textContent = fill(words.sum, { number: rows.length, time: this.#time(us), share: operators.total ? percent(us / operators.total) : "–" });
  }

  #time(us) {
    const { scale } = this.columns.find(({ key }) => key === "device");
    return `${threeDigits(us / scale.length, scale.decimals)} ${scale.name}`;
  }

  #listen() {
    const { part } = this;
    let typing = 0;
    part.filter.addEventListener("input", () => {
      clearTimeout(typing);
      const isNew = !this.state.q;
      typing = setTimeout(() => this.change({ q: part.filter.value.trim() }, isNew));
    });
    part.constants.addEventListener("click", () => this.change({ constants: !this.state.constants }));
    part.group.addEventListener("change", () => this.change({ group: part.group.value }));
    for (const button of this.root.querySelectorAll("[data-clear-filter]")) {
      button.addEventListener("click", () => {
        this.#listAll();
        part.filter.value = "";
        this.change({ q: "" });
      });
    }
    part.head.addEventListener("click", (event) => this.#onHead(event));
    part.head.addEventListener("pointerdown", (event) => this.#onHandle(event));
    part.body.addEventListener("click", (event) => this.#onClick(event));
    part.scroll.addEventListener("keydown", (event) => this.#onKey(event));
    bindShortcuts({
      next: () => this.#moveTo(this.active + 1),
      previous: () => this.#moveTo(this.active - 1),
      copy: () => {
        // selected text is copied by the browser
        if (String(getSelection())) return false;
        this.#copy();
        return true;
      },
    }, part.scroll);
    part.copy.addEventListener("click", () => this.#copy());
    onSelect((row, source) => {
      if (source === SOURCE) this.#mark();
      else this.reveal(row);
    });
    addEventListener("popstate", () => {
      const state = readState();
      // the entry of another view has the same state
      if (JSON.stringify(state) === JSON.stringify(this.state)) return;
      this.state = state;
      this.#listAll();
      part.filter.value = state.q;
      this.refresh();
    });
  }

  #onHead(event) {
    const key = event.target.closest("[data-sort]")?.dataset.sort;
    if (!key) return;
    const column = this.columns.find((each) => each.key === key);
    const isAscending = this.state.sort === key ? !this.state.isAscending : Boolean(column.isText);
    this.change({ sort: key, isAscending });
  }

  /** Drag the right edge of a heading. */
  #onHandle(event) {
    const key = event.target.dataset?.resize;
    if (!key || event.button !== 0) return;
    event.preventDefault();
    const start = event.clientX;
    const before = event.target.parentElement.offsetWidth;
    const stop = new AbortController();
    addEventListener("pointermove", (move) => {
      this.stored.widths[key] = Math.max(40, Math.round(before + move.clientX - start));
      this.#applyLayout(this.#layoutOf(this.shown));
    }, { signal: stop.signal });
    for (const name of ["pointerup", "pointercancel"]) {
      addEventListener(name, () => {
        stop.abort();
        writeColumns(this.stored);
      }, { signal: stop.signal });
    }
  }

  #onClick(event) {
    const element = event.target.closest("[role=row]");
    if (!element) return;
    // a reader who marks text to copy it does not mean the row
    if (String(getSelection()) && !event.target.closest("a") && !event.shiftKey) return;
    if (event.target.closest("a") && (event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    const place = Number(element.getAttribute("aria-rowindex")) - 2;
    this.part.scroll.focus({ preventScroll: true });
    this.#act(place, event);
  }

  /** What a click or Enter at a place does: open a group, pick several rows, or select one. */
  #act(place, { shiftKey = false, ctrlKey = false, metaKey = false } = {}) {
    const before = this.active;
    const { row, group } = this.entries[place] ?? {};
    this.active = place;
    if (group) {
      if (!this.open.delete(group.key)) this.open.add(group.key);
      this.refresh();
      return;
    }
    if (row === undefined) return;
    if (shiftKey || ctrlKey || metaKey) {
      getSelection()?.removeAllRanges();
      if (!this.picked.size && selected() !== null) this.picked.add(selected());
      if (shiftKey) {
        for (const entry of this.entries.slice(Math.min(before, place), Math.max(before, place) + 1)) if (entry.row !== undefined) this.picked.add(entry.row);
      } else if (!this.picked.delete(row)) this.picked.add(row);
      this.#mark();
      this.announce(this.part.foot.hidden ? "" : this.part.sum.textContent);
      return;
    }
    this.picked.clear();
    if (row === selected()) this.#mark();
    select(row, SOURCE);
  }

  #onKey(event) {
    if (event.altKey || event.target.closest("button, a, input, select")) return;
    if (event.ctrlKey || event.metaKey) return;
    const last = this.entries.length - 1;
    const places = {
      ArrowDown: this.active + 1,
      ArrowUp: this.active - 1,
      PageDown: this.active + this.view.pageRows,
      PageUp: this.active - this.view.pageRows,
      Home: 0,
      End: last,
    };
    if (event.key in places && last >= 0) {
      event.preventDefault();
      this.#moveTo(places[event.key]);
    } else if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      this.#act(this.active, event);
    } else if (event.key === "Escape" && this.picked.size) {
      event.stopPropagation();
      this.picked.clear();
      this.#mark();
    }
  }

  #moveTo(place) {
    this.active = Math.max(0, Math.min(place, this.entries.length - 1));
    this.view.reveal(this.active);
    this.#mark();
  }

  async #copy() {
    const rows = this.picked.size ? this.rows.filter((row) => this.picked.has(row)) : selected() === null ? this.rows : [selected()];
    const columns = this.shown.filter((column) => !column.isDerived && !column.hasPasses);
    await copyText(asTsv(rows, columns, (column) => this.titleOf(column)));
    this.announce(fill(this.words.copied, { number: rows.length }));
    this.part.copied.textContent = fill(this.words.copied, { number: rows.length });
    setTimeout(() => { this.part.copied.textContent = ""; }, 3_000);
  }
}

/** Browsers offer `navigator.clipboard` only on https pages and on this machine. */
async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    document.execCommand("copy");
    field.remove();
  }
}

function sum(rows, values) {
  let total = 0;
  for (const row of rows) total += values[row] ?? 0;
  return total;
}

function headCell(column, ...content) {
  const made = document.createElement("div");
  made.setAttribute("role", "columnheader");
  made.className = `grid__cell grid__cell--${column.isText ? "text" : "number"}`;
  made.dataset.column = column.key;
  made.append(...content);
  return made;
}

/** Start the table of the page when its data are there. */
export async function startTable(root, announce) {
  const state = root.querySelector("[data-table=state]");
  try {
    const operators = await loadOperators(root);
    const { baseline, login } = root.dataset;
    // the column keeps its place while the server compares
    if (baseline) operators.baseline = { us: [], clear: [] };
    const table = new OperatorTable(root, operators, announce);
    root.dataset.state = "ready";
    if (baseline) {
      const reason = (error) => sentences([table.words.no_differences, error instanceof Refusal && error.message]);
      getJson(baseline, { login }).then((answer) => table.compareWith(answer), (error) => table.compareWith(null, reason(error)));
    }
    return table;
  } catch (error) {
    root.dataset.state = "failed";
    state.textContent = root.dataset.failed;
    console.warn("The table could not be shown:", error);
    return null;
  }
}

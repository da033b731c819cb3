// The page of a comparison: filters, pages and selection without loading the whole page again.
//
// The address holds everything. A link or form marked so is fetched as the page it leads to, and
// the parts that change are taken from it; without JavaScript it is simply followed.

import { whenOpened } from "../../fold.js";
import { localizeTimes } from "../../format.js";
import { bindShortcuts, isPlainClick } from "../../shortcuts.js";
import { swap } from "../../swap.js";
import { onSelect, select } from "../result/selection.js";
import { startAdding } from "./adding.js";
import { showWaterfall } from "./waterfall.js";

/** What a page is made of that may change; of the waterfall only what changed, if its steps stay. */
const PARTS = ["runs", "compare-part", "compare-waterfall", "graph-choices"];
const LINKS = ["runs", "compare-part", "waterfall-choices", "waterfall", "graph-choices"];
/** What the graph keeps in the address; the server's links do not know it. */
const GRAPH = ["view", "scope", "op"];
const PAUSE_MS = 250;
/** The selected row, for the timelines. */
const ROW = {
  selected: selectedRow,
  select: (row) => open(addressOfRow(row)),
  onSelect: (listener) => {
    const tell = () => listener(selectedRow(), "compare");
    document.addEventListener("compare:selected", tell);
    return () => document.removeEventListener("compare:selected", tell);
  },
};
let running = null;
let waiting = 0;
/** Ends the timelines of the page. */
let endTimelines = () => {};
/** Renews the results that can be added, whose links have the filters of the page. */
let renewResults = () => {};

function start() {
  localizeTimes(document);
  showWaterfall(open);
  const adding = document.getElementById("add");
  if (adding) renewResults = startAdding(adding);
  awaitTimelines();
  document.addEventListener("click", onClick);
  document.addEventListener("submit", onSubmit);
  document.addEventListener("change", (event) => askSoon(event, 0));
  document.addEventListener("input", (event) => askSoon(event, PAUSE_MS));
  bindShortcuts({
    filter: () => document.getElementById("compare-text")?.focus(),
    clear: () => {
      const close = document.querySelector("#compare-selected [data-close]");
      close?.click();
      return Boolean(close);
    },
  });
  addEventListener("popstate", async () => {
    if (!(await load(location.href))) return;
    tellGraph();
    renewResults();
  });
  // an operator of the graph is known by its row in the table of its own profile
  onSelect((row, source) => {
    if (source === "graph") open(withParameter(row === null ? "" : String(row)));
  });
  tellGraph();
}

/** The address with the row that holds an operator of the graph, or with none. */
function withParameter(at) {
  const url = new URL(location.href);
  url.searchParams.delete("row");
  url.searchParams.delete("page");
  if (at) url.searchParams.set("at", at);
  else url.searchParams.delete("at");
  return url.href;
}

function selectedRow() {
  const { row } = document.getElementById("compare-selected").dataset;
  return row === undefined ? null : Number(row);
}

/** The address with another selected row, or with none. */
function addressOfRow(row) {
  const url = new URL(location.href);
  url.searchParams.delete("at");
  if (row === null) url.searchParams.delete("row");
  else url.searchParams.set("row", String(row));
  return url.href;
}

/** Select in the graph and in the timelines what is selected in the table. */
function tellGraph() {
  const { graphRow } = document.getElementById("compare-selected").dataset;
  document.dispatchEvent(new Event("compare:selected"));
  select(graphRow === undefined ? null : Number(graphRow), "compare");
}

/** Draw the timelines when their section is opened, and only then load what that needs. */
function awaitTimelines() {
  const section = document.getElementById("timelines");
  let isStarted = false;
  whenOpened(section, async () => {
    if (isStarted) return;
    isStarted = true;
    const { startTimelines } = await import("./timelines.js");
    if (section.isConnected) endTimelines = startTimelines(section.querySelector(".charts"), ROW);
  });
}

/** Take over the timelines of another result or side. */
function takeOverTimelines(page) {
  const [next, now] = [page, document].map((each) => each.getElementById("timelines"));
  const [nextUrl, url] = [next, now].map((each) => each?.querySelector("[data-url]").dataset.url);
  if (nextUrl === undefined || nextUrl === url) return;
  next.open = now.open;
  endTimelines();
  endTimelines = () => {};
  now.replaceWith(next);
  awaitTimelines();
}

/** Have the graph draw another result or side, so that its operators are those of the address. */
function takeOverGraph(page) {
  const [next, now] = [page, document].map((each) => each.getElementById("graph").dataset);
  if (next.document === now.document) return;
  now.document = next.document;
  now.model = next.model ?? "";
  document.dispatchEvent(new Event("graph:document"));
}

async function onClick(event) {
  const link = event.target.closest("a[data-swap], #share");
  if (!link || !isPlainClick(event)) return;
  event.preventDefault();
  if (link.id !== "share") {
    open(link.href);
    return;
  }
  const { openShareDialog } = await import("../share.js");
  openShareDialog(link);
}

function onSubmit(event) {
  if (event.target.id !== "compare-filter") return;
  event.preventDefault();
  open(addressOf(event.target));
}

function askSoon(event, pause) {
  if (!event.target.closest("#compare-filter") || (event.type === "input" && event.target.type !== "search" && event.target.type !== "text")) return;
  clearTimeout(waiting);
  // a response that is on its way would replace the field in which the user types
  running?.abort();
  waiting = setTimeout(() => open(addressOf(document.getElementById("compare-filter")), { keepFocus: true }), pause);
}

/** The address of a filter, without what was left empty. */
function addressOf(form) {
  const url = new URL(location.pathname, location.href);
  for (const [name, value] of new FormData(form)) {
    if (value !== "") url.searchParams.append(name, String(value));
  }
  return url.href;
}

/** Go to an address of this page. */
async function open(address, { keepFocus = false } = {}) {
  const url = new URL(address, location.href);
  if (!(await load(url.href))) return;
  for (const name of GRAPH) {
    const value = new URLSearchParams(location.search).get(name);
    if (value !== null) url.searchParams.set(name, value);
  }
  history.pushState(null, "", url.pathname + url.search);
  tellGraph();
  renewResults();
  const selected = document.querySelector("#compare-selected:not([hidden]) h3");
  if (!keepFocus && url.hash === "#compare-selected" && selected) {
    selected.focus({ preventScroll: true });
    selected.scrollIntoView({ block: "nearest" });
  }
}

/** Fetch the page of an address and take over its parts; false if a later one came first. */
async function load(address) {
  running?.abort();
  const mine = new AbortController();
  running = mine;
  const parts = PARTS.map((id) => document.getElementById(id));
  for (const part of parts) part?.setAttribute("aria-busy", "true");
  try {
    const answer = await fetch(address, { signal: mine.signal, credentials: "same-origin" });
    if (!answer.ok || answer.redirected) throw new Error(String(answer.status));
    takeOver(new DOMParser().parseFromString(await answer.text(), "text/html"));
    return true;
  } catch (error) {
    if (error.name !== "AbortError") location.assign(address);
    return false;
  } finally {
    if (running === mine) for (const part of parts) part?.removeAttribute("aria-busy");
  }
}

function takeOver(page) {
  const [steps, now] = [page, document].map((each) => each.getElementById("waterfall-data")?.textContent);
  for (const id of steps && steps === now ? LINKS : PARTS) {
    const fragment = document.createDocumentFragment();
    fragment.append(...(page.getElementById(id)?.childNodes ?? []));
    const part = document.getElementById(id);
    if (part) swap(part, fragment);
  }
  for (const link of document.querySelectorAll("a[data-follows]")) {
    const other = page.getElementById(link.id);
    if (other) link.setAttribute("href", other.getAttribute("href"));
  }
  if (steps !== now) showWaterfall(open);
  takeOverTimelines(page);
  takeOverGraph(page);
}

start();

// The part of the page with the form and the tables: htmx swaps it, the address follows.

import { OperatorTable } from "./operator_table.js";
import { MOST_PRINTED, onWhole } from "./printing.js";

/** Parameters of the address that are not the table's. */
const OTHERS = ["op"];

/** Start with the tables that the server rendered; go on with those that htmx swaps in. */
export function startTables({ fetchFragment, fetchJson, announce }) {
  let tables = [];
  let state = tableState();
  /** the field in which the reader goes on typing: its changes are one entry of the history */
  let typingIn = null;

  function begin() {
    for (const table of tables) table.end();
    tables = [...document.querySelectorAll("#tables [data-rows-url]")].map(
      (scroller) => new OperatorTable(scroller, { fetchFragment, fetchJson, announce }),
    );
  }

  function follow(field) {
    const wanted = document.querySelector("#tables").dataset.address;
    if (wanted === tableState()) return;
    const address = new URL(location.href);
    const kept = OTHERS.filter((name) => address.searchParams.has(name));
    const search = new URLSearchParams(wanted);
    for (const name of kept) search.set(name, address.searchParams.get(name));
    address.search = search.toString();
    if (field !== null && field === typingIn) history.replaceState(history.state, "", address);
    else history.pushState(null, "", address);
    typingIn = field;
    state = tableState();
  }

  document.addEventListener("htmx:beforeSwap", (event) => {
    const { target, xhr, shouldSwap } = event.detail;
    if (!isOurs(target) || !shouldSwap || xhr.getResponseHeader("HX-Reswap") === "none") return;
    // htmx tells each element of its end: 40 ms for the rows, which nobody listens to
    for (const table of tables) table.empty();
  });

  document.addEventListener("htmx:afterSettle", (event) => {
    // htmx tells it of each element that came, also of those that came for other places
    if (!isOurs(event.detail.target) || !isOurs(event.target)) return;
    const source = event.detail.requestConfig?.triggeringEvent?.target;
    if (!event.detail.requestConfig?.headers["X-Restore"]) {
      follow(source?.matches?.("input:not([type=checkbox])") ? source.id : null);
    }
    begin();
    announce(document.querySelector("#tables [data-said]")?.dataset.said ?? "");
  });

  addEventListener("popstate", () => {
    if (tableState() === state) return;
    state = tableState();
    typingIn = null;
    htmx.ajax("GET", location.pathname + location.search, {
      target: "#table-part",
      swap: "outerHTML",
      headers: { "X-Restore": "1" },
    });
  });

  begin();
  onWhole(() => Promise.all(tables.map((table) => table.window.loadAll(MOST_PRINTED))));
}

function isOurs(target) {
  return ["tables", "table-part"].includes(target.id);
}

/** The table's part of the address. */
function tableState() {
  const search = new URLSearchParams(location.search);
  for (const name of OTHERS) search.delete(name);
  return search.size ? `?${search}` : "";
}

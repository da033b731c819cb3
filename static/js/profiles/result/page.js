// The result page: one selection, heard by all views; shortcuts that work everywhere on it.

import { getFragment } from "../../requests.js";
import { bindShortcuts, isPlainClick } from "../../shortcuts.js";
import { startTable } from "../table/index.js";
import { passQuery } from "./chosen_pass.js";
import { startPanel } from "./operator_panel.js";
import { startPrinting } from "./printing.js";
import { select, selected } from "./selection.js";
import { startViews } from "./views.js";

const root = document.querySelector("#workspace");
const announcer = document.querySelector("#announcer");
const panel = document.querySelector("#operator-panel");
const query = window.location.search;
const fetchFragment = (url) => getFragment(url, { login: root.dataset.login });

function announce(text) {
  if (text) announcer.textContent = text;
}

const views = startViews(root, { fetchFragment, announce, onOpen: startIn });

/** Promise of the table; null before its view is opened, or if the server renders the table. */
let opening = null;

/** Start the table when its view is there, and the timeline below it once the table stands. */
async function startIn(view) {
  const root = view.querySelector("#operator-table[data-state=loading]");
  if (!root) return;
  opening = startTable(root, announce);
  const table = await opening;
  const strip = view.querySelector("#strip");
  if (table && strip) {
    const { startStrip } = await import("./strip.js");
    startStrip(strip, (within) => table.restrict(within));
  }
}

startIn(document);

/** Open the view of the operators if another is shown, and go to the field that filters them. */
async function focusFilter() {
  if (root.dataset.view !== "operators") await views.open("operators");
  const field = document.querySelector("#operator-filter, #filter-text");
  field?.focus();
  field?.select();
}

bindShortcuts({
  clear: () => {
    if (selected() === null) return false;
    select(null, "keyboard");
    announce(panel?.dataset.cleared);
    return true;
  },
  filter: () => {
    if (!root.querySelector("#tabs [data-view=operators]")) return false;
    focusFilter();
    return true;
  },
});

// rows of the table that the server rendered, and operators that a recommendation or a memory plan names
document.addEventListener("click", async (event) => {
  if (!isPlainClick(event)) return;
  const share = event.target.closest("#share");
  if (share) {
    event.preventDefault();
    const { openShareDialog } = await import("../share.js");
    openShareDialog(share);
    return;
  }
  const operator = event.target.closest("#tables tr[data-row], :is(#advice, #static-memory) a[data-row]");
  const view = event.target.closest("[data-open-view]");
  const some = event.target.closest("[data-rows]");
  if (!operator && !view && !some) return;
  event.preventDefault();
  if (some) {
    const rows = some.dataset.rows.split(",").map(Number);
    document.dispatchEvent(new CustomEvent("operators:filter", { detail: { rows } }));
  }
  if (view) {
    const place = view.hash?.slice(1);
    views.open(view.dataset.openView).then(() => document.getElementById(place)?.scrollIntoView());
  }
  if (operator) select(Number(operator.dataset.row), "page");
});

// a finding or a chart asks for some operators, perhaps before the table was opened
document.addEventListener("operators:filter", async ({ detail }) => {
  // the table that the server rendered cannot list them
  const isServerTable = Boolean(document.querySelector("#to-table"));
  if (isServerTable) {
    views.dropTable();
    const note = document.querySelector("#export [data-all]");
    if (note) note.textContent = note.dataset.all;
  }
  if (isServerTable || root.dataset.view !== "operators") await views.open("operators");
  const table = await opening;
  table?.list(detail.rows);
});

// exported tables hold what the address of the table that the server rendered asks for, also in another view, and
// timelines are of the pass that the page draws; also after a click with the middle button, or "copy the address"
for (const name of ["pointerdown", "focusin", "click"]) {
  document.addEventListener(name, ({ target }) => {
    const link = target.closest?.("a[data-asks], a[data-with-pass]");
    if (!link) return;
    const tableQuery = document.querySelector("#to-table") ? query : "";
    link.search = "asks" in link.dataset ? tableQuery : passQuery();
  }, { capture: true });
}

const print = document.querySelector("#print");
if (print) startPrinting(print);
if (panel) startPanel(panel, { fetchFragment, announce });

// The result page: one selection, heard by all parts; keys that work everywhere on it.

import { getJson } from "../../requests.js";
import { makeFetcher } from "./fetching.js";
import { startPanel } from "./operator_panel.js";
import { startPrinting } from "./printing.js";
import { select, selected } from "./selection.js";
import { startForm } from "./table_form.js";
import { startTables } from "./table_part.js";

const announcer = document.querySelector("#announcer");
const panel = document.querySelector("#operator-panel");

function announce(text) {
  if (text) announcer.textContent = text;
}

/** Whether a key belongs to what the reader is in: text that is typed, a list, an open dialog. */
function isTaken(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return true;
  // Escape closes an open explanation first
  if (document.querySelector(":popover-open")) return true;
  return Boolean(event.target.closest?.("input, textarea, select, dialog[open], [contenteditable]"));
}

document.addEventListener("keydown", (event) => {
  if (isTaken(event)) return;
  if (event.key === "Escape" && selected() !== null) {
    select(null, "keyboard");
    announce(panel.dataset.cleared);
  } else if (event.key === "/") {
    const field = document.querySelector("#filter-text");
    if (!field) return;
    event.preventDefault();
    field.focus();
    field.select();
  }
});

const print = document.querySelector("#print");
if (print) startPrinting(print);

if (panel) {
  const { login } = panel.dataset;
  const fetchFragment = makeFetcher(login);
  // "no-cache" asks whether what the browser has still holds
  const fetchJson = (url) => getJson(url, { login, cache: "no-cache" });
  startPanel(panel, { fetchFragment, announce });
  startForm();
  startTables({ fetchFragment, fetchJson, announce });
}

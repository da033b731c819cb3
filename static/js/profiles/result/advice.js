// The advice's links to operators: they select without a new page, and show what is selected.

import { onSelect, select, selected } from "./selection.js";

const SOURCE = "advice";
const links = [...document.querySelectorAll("#advice [data-row]")];

function show(row) {
  for (const link of links) {
    if (Number(link.dataset.row) === row) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

document.querySelector("#advice")?.addEventListener("click", (event) => {
  const link = event.target.closest("[data-row]");
  // with a key held down the browser opens the link elsewhere, as anyone expects
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  select(Number(link.dataset.row), SOURCE);
});
onSelect(show);
show(selected());

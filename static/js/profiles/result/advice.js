// The advice's links to operators show what is selected. A click on one selects (`page.js`).

import { onSelect, selected } from "./selection.js";

const links = [...document.querySelectorAll("#advice [data-row]")];

function show(row) {
  for (const link of links) {
    if (Number(link.dataset.row) === row) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}

onSelect(show);
show(selected());

// The part of the result page about a static memory plan: its chart, and links that select operators.

import { startCharts } from "../charts/show.js";
import { select } from "../profiles/result/selection.js";
import { staticMemoryChart } from "./chart.js";

const section = document.querySelector("#static-memory");

startCharts(section, { "static-memory": staticMemoryChart });

section.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-row]");
  // with a modifier key the browser opens the link in a new tab or window
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  select(Number(link.dataset.row), "static-memory");
});

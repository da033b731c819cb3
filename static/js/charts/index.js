// Start the charts of a result's operators.

import { loadOperators } from "../profiles/operators.js";
import { getJson } from "../requests.js";
import { cumulativeChart } from "./cumulative.js";
import { memoryChart } from "./memory.js";
import { rooflineChart } from "./roofline.js";
import { scopesChart } from "./scopes.js";
import { startCharts } from "./show.js";
import { timelineChart } from "./timeline.js";
import { typesChart } from "./types.js";

const KINDS = {
  timeline: timelineChart,
  types: typesChart,
  scopes: scopesChart,
  roofline: rooflineChart,
  memory: memoryChart,
  cumulative: cumulativeChart,
};

/** Load the operators; of a paired comparison also `changes`, how arm B differs: `us` and `clear` by row. */
async function loadWithChanges(section) {
  const operators = await loadOperators(section);
  const { changes, login } = section.dataset;
  if (changes) operators.changes ??= await getJson(changes, { login }).catch(() => null);
  return operators;
}

/** Start the charts below `root`, each section once. */
export function start(root) {
  for (const section of root.querySelectorAll(".charts[data-operators]:not([data-started])")) {
    section.dataset.started = "";
    startCharts(section, KINDS, { fetchOperators: () => loadWithChanges(section) });
  }
}

start(document);

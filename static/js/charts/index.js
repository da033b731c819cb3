// Start the charts of a result's operators.

import { loadOperators } from "../profiles/operators.js";
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

/** Start the charts below `root`, each section once. */
export function start(root) {
  for (const section of root.querySelectorAll(".charts[data-operators]:not([data-started])")) {
    section.dataset.started = "";
    startCharts(section, KINDS, () => loadOperators(section));
  }
}

start(document);

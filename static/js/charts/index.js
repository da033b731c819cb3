// Start the charts of a result's operators.

import { getJson } from "../requests.js";
import { cumulativeChart } from "./cumulative.js";
import { memoryChart } from "./memory.js";
import { withTypes } from "./operators.js";
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

const section = document.querySelector("#charts");
let operators = null;

/** Fetch names and times of all operators, once for all charts. */
function fetchOperators() {
  operators ??= getJson(section.dataset.operators, { login: section.dataset.login, cache: "no-cache" }).then(withTypes);
  operators.catch(() => {
    operators = null;
  });
  return operators;
}

startCharts(section, KINDS, fetchOperators);

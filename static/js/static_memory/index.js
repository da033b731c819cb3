// The chart of a static memory plan on the result page.

import { startCharts } from "../charts/show.js";
import { staticMemoryChart } from "./chart.js";

startCharts(document.querySelector("#static-memory"), { "static-memory": staticMemoryChart });

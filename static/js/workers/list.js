// The list of devices: fetched again every 10 s while somebody looks at it.

import { makeRefresher } from "../refresher.js";

const INTERVAL_MS = 10_000;

const rows = document.getElementById("worker-rows");
const refresh = makeRefresher(rows, () => rows.dataset.url + window.location.search, { delayMs: 0 });

function refreshIfSeen() {
  if (document.visibilityState === "visible") refresh();
}

window.setInterval(refreshIfSeen, INTERVAL_MS);
document.addEventListener("visibilitychange", refreshIfSeen);

// The list of devices, refreshed every 10 s while the page is visible.

import { makeRefresher } from "../refresher.js";

const INTERVAL_MS = 10_000;

const rows = document.getElementById("worker-rows");
const refresh = makeRefresher(rows, () => rows.dataset.url + window.location.search, { delayMs: 0 });

function refreshIfVisible() {
  if (document.visibilityState === "visible") refresh();
}

window.setInterval(refreshIfVisible, INTERVAL_MS);
document.addEventListener("visibilitychange", refreshIfVisible);

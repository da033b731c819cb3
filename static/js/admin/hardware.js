// The admin's list of devices: cells are refreshed every 10 s while the page is visible. Rows keep their
// place and their checkboxes; devices that were added or removed appear after a reload.

const INTERVAL_MS = 10_000;
const TIMEOUT_MS = 15_000;
const stale = document.getElementById("heartbeats-stale");
let running = false;

async function refresh() {
  if (running || document.visibilityState !== "visible") return;
  running = true;
  try {
    const response = await fetch(location.href, { signal: AbortSignal.timeout(TIMEOUT_MS), redirect: "error" });
    if (!response.ok) throw new Error(`status ${response.status}`);
    show(new DOMParser().parseFromString(await response.text(), "text/html"));
    stale.hidden = true;
  } catch {
    stale.hidden = false;
  } finally {
    running = false;
  }
}

function show(page) {
  replace(document.getElementById("heartbeats"), page.getElementById("heartbeats"));
  const rows = new Map([...page.querySelectorAll(".action-select")].map((box) => [box.value, box.closest("tr")]));
  for (const box of document.querySelectorAll(".action-select")) {
    const row = rows.get(box.value);
    if (!row) continue;
    const cells = box.closest("tr").cells;
    for (const [column, cell] of [...row.cells].entries()) {
      if (!cell.querySelector(".action-select")) replace(cells[column], cell);
    }
  }
}

/** Replace an element's content only if it changed: focus, selection and screen readers keep their place. */
function replace(current, next) {
  if (!current || !next || current.innerHTML === next.innerHTML) return;
  current.replaceChildren(...[...next.childNodes].map((node) => document.importNode(node, true)));
}

window.setInterval(refresh, INTERVAL_MS);
document.addEventListener("visibilitychange", refresh);

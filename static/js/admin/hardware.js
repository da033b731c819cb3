// The list of devices for administrators: cells are fetched again every 10 s while somebody looks.
// Rows stay where they are and marks stay set; what appears or goes is there after a reload.

const INTERVAL_MS = 10_000;
const TIMEOUT_MS = 15_000;
const stale = document.getElementById("beats-stale");
let running = false;

async function refresh() {
  if (running || document.visibilityState !== "visible") return;
  running = true;
  try {
    const answer = await fetch(location.href, { signal: AbortSignal.timeout(TIMEOUT_MS), redirect: "error" });
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    show(new DOMParser().parseFromString(await answer.text(), "text/html"));
    stale.hidden = true;
  } catch {
    stale.hidden = false;
  } finally {
    running = false;
  }
}

function show(page) {
  replace(document.getElementById("beats"), page.getElementById("beats"));
  const fresh = new Map([...page.querySelectorAll(".action-select")].map((box) => [box.value, box.closest("tr")]));
  for (const box of document.querySelectorAll(".action-select")) {
    const row = fresh.get(box.value);
    if (!row) continue;
    const cells = box.closest("tr").cells;
    for (const [place, cell] of [...row.cells].entries()) {
      if (!cell.querySelector(".action-select")) replace(cells[place], cell);
    }
  }
}

/** Only what changed, so that focus, selection and what a screen reader says stay. */
function replace(old, fresh) {
  if (!old || !fresh || old.innerHTML === fresh.innerHTML) return;
  old.replaceChildren(...[...fresh.childNodes].map((node) => document.importNode(node, true)));
}

window.setInterval(refresh, INTERVAL_MS);
document.addEventListener("visibilitychange", refresh);

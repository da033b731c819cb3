// The list of tasks: a wake-up on the socket means that the rows are to be fetched again.

import { fill } from "../format.js";
import { hideNotice, showNotice } from "../notice.js";
import { makeRefresher } from "../refresher.js";
import { toLogin } from "../requests.js";
import { CLOSED_NOT_LOGGED_IN, keepSocket } from "../socket.js";

const rows = document.getElementById("task-rows");
const bulk = document.getElementById("bulk");
const count = document.getElementById("bulk-count");
const acts = bulk.querySelectorAll("[data-bulk]");
/** Numbers of the tasks that are ticked: rows are replaced, and a tick is not to be lost. */
const ticked = new Set();

const refresh = makeRefresher(rows, () => rows.dataset.url + window.location.search, {
  onSwap: showTicks,
});

function boxes() {
  return [...rows.querySelectorAll("input[name=task]")];
}

/** Bring the boxes, their number and the buttons in line with what is ticked. */
function showTicks() {
  const here = boxes();
  const numbers = new Set(here.map((box) => box.value));
  for (const number of ticked) if (!numbers.has(number)) ticked.delete(number);
  for (const box of here) box.checked = ticked.has(box.value);
  const all = document.getElementById("tick-all");
  if (all) {
    all.hidden = false;
    all.checked = ticked.size > 0 && ticked.size === here.length;
    all.indeterminate = ticked.size > 0 && !all.checked;
  }
  const { none, some } = count.dataset;
  const text = ticked.size ? fill(some, { count: ticked.size }) : none;
  if (count.textContent !== text) count.textContent = text;
  for (const button of acts) button.disabled = !canAct(button.dataset);
  bulk.hidden = here.length === 0;
}

/** Whether a button can do something with what is ticked: so many tasks, in a status of its own. */
function canAct({ fewest = 1, most = Infinity, status = "" }) {
  const statusOf = (number) => rows.querySelector(`[data-task="${number}"]`).dataset.status;
  const count = [...ticked].filter((number) => !status || statusOf(number) === status).length;
  return count >= Number(fewest) && count <= Number(most);
}

rows.addEventListener("change", ({ target }) => {
  const changed = target.id === "tick-all" ? boxes() : [target];
  for (const box of changed) {
    if (target.checked) ticked.add(box.value);
    else ticked.delete(box.value);
  }
  showTicks();
});

// a browser that comes back to the page keeps boxes ticked
for (const box of boxes()) if (box.checked) ticked.add(box.value);
showTicks();

keepSocket("/ws/tasks/", {
  hello: () => null,
  onUp: hideNotice,
  onDown: () => showNotice("lost"),
  // the server says "changed" after each connect too, so nothing is missed in between
  onMessage: (message) => {
    if (message.type === "changed") refresh();
  },
  onEnd: (code) => {
    if (code === CLOSED_NOT_LOGGED_IN) toLogin(rows.dataset.login);
  },
});

// The list of tasks: a message on the socket or a changed filter triggers a refresh of rows and tabs.

import { updateElapsedTimes } from "../ago.js";
import { fill } from "../format.js";
import { hideNotice, showNotice } from "../notice.js";
import { makeRefresher } from "../refresher.js";
import { Refusal, goToLogin, postJson } from "../requests.js";
import { CLOSED_NOT_LOGGED_IN, keepSocket } from "../socket.js";

const FILTER_DELAY_MS = 300;
const TICK_MS = 1_000;

const rows = document.getElementById("task-rows");
const filters = document.getElementById("filters");
const bulk = document.getElementById("bulk");
const count = document.getElementById("bulk-count");
const pinProblem = document.getElementById("pin-problem");
const actionButtons = bulk.querySelectorAll("[data-bulk]");
/** Numbers of the selected tasks, kept here because refreshes replace the rows. */
const selectedTasks = new Set();

const refresh = makeRefresher(rows, () => rows.dataset.url + window.location.search, {
  onSwap: showSelection,
  others: [document.getElementById("task-tabs")],
});

function boxes() {
  return [...rows.querySelectorAll("input[name=task]")];
}

/** Update checkboxes, count and buttons from the selection; drop tasks that left the list. */
function showSelection() {
  const listed = boxes();
  const numbers = new Set(listed.map((box) => box.value));
  for (const number of selectedTasks) if (!numbers.has(number)) selectedTasks.delete(number);
  for (const box of listed) box.checked = selectedTasks.has(box.value);
  const all = document.getElementById("select-all");
  if (all) {
    all.checked = selectedTasks.size > 0 && selectedTasks.size === listed.length;
    all.indeterminate = selectedTasks.size > 0 && !all.checked;
  }
  const { none, some } = count.dataset;
  const text = selectedTasks.size ? fill(some, { count: selectedTasks.size }) : none;
  if (count.textContent !== text) count.textContent = text;
  for (const button of actionButtons) button.disabled = !canAct(button.dataset);
  bulk.hidden = listed.length === 0;
}

/** Whether a button's action fits the selection: from `fewest` to `most` tasks, counting those in `status` if it has one. */
function canAct({ fewest = 1, most = Infinity, status = "" }) {
  const statusOf = (number) => rows.querySelector(`[data-task="${number}"]`).dataset.status;
  const count = [...selectedTasks].filter((number) => !status || statusOf(number) === status).length;
  return count >= Number(fewest) && count <= Number(most);
}

rows.addEventListener("change", ({ target }) => {
  const changed = target.id === "select-all" ? boxes() : [target];
  for (const box of changed) {
    if (target.checked) selectedTasks.add(box.value);
    else selectedTasks.delete(box.value);
  }
  showSelection();
});

// pins are submitted without leaving the page
document.getElementById("pins").addEventListener("submit", async (event) => {
  event.preventDefault();
  const { dataset, value } = event.submitter;
  pinProblem.hidden = true;
  try {
    await postJson(dataset.pin, { pin: value === "yes" }, { login: rows.dataset.login });
  } catch (error) {
    pinProblem.textContent = error instanceof Refusal ? error.message : pinProblem.dataset.failed;
    pinProblem.hidden = false;
  }
  refresh();
});

// filters apply while they are changed
let filterTimer = 0;
filters.addEventListener("input", () => {
  window.clearTimeout(filterTimer);
  filterTimer = window.setTimeout(applyFilters, FILTER_DELAY_MS);
});
filters.addEventListener("submit", (event) => {
  event.preventDefault();
  window.clearTimeout(filterTimer);
  applyFilters();
});

function applyFilters() {
  const used = new URLSearchParams();
  for (const [name, value] of new FormData(filters)) if (value) used.append(name, String(value));
  const query = used.toString();
  window.history.replaceState(null, "", query ? `?${query}` : window.location.pathname);
  for (const field of document.querySelectorAll("input[name=query]")) field.value = query;
  document.getElementById("clear-filters").hidden = !query;
  document.getElementById("save-view").hidden = !query;
  refresh();
}

showSelection();
updateElapsedTimes(rows);
window.setInterval(() => updateElapsedTimes(rows), TICK_MS);

// a connection may break unnoticed while the computer sleeps
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") refresh();
});
keepSocket("/ws/tasks/", {
  hello: () => null,
  onUp: () => hideNotice("lost"),
  onDown: () => showNotice("lost"),
  // the server also sends "changed" after each connect, so no change is missed while disconnected
  onMessage: (message) => {
    if (message.type === "changed") refresh();
  },
  onEnd: (code) => {
    if (code === CLOSED_NOT_LOGGED_IN) goToLogin(rows.dataset.login);
  },
});

// A task's page: events bring a fresh status, log lines come as they are written.

import { updateElapsedTimes } from "../../ago.js";
import { keepLive } from "../../live_page.js";
import { makeRefresher } from "../../refresher.js";
import { LogPane } from "./log_pane.js";
import { followRun } from "./run_end.js";

const task = document.getElementById("task");
const log = new LogPane(document.getElementById("log"), {
  empty: document.getElementById("log-empty"),
  cut: document.getElementById("log-cut"),
});
let lastEvent = Number(task.dataset.after);

const refresh = makeRefresher(task, () => task.dataset.statusUrl, {
  onSwap: () => {
    const { state, status } = document.getElementById("task-status").dataset;
    hideResume(state);
    if (state === "finished") log.empty.textContent = log.empty.dataset.ended;
    follow(status);
  },
});
const follow = followRun(document.getElementById("task-status").dataset.status, task.dataset);

const TICK_MS = 1_000;
updateElapsedTimes(task);
window.setInterval(() => updateElapsedTimes(task), TICK_MS);

/** The form for the rest of an upload makes sense only while the task waits for its files. */
function hideResume(state) {
  const resume = document.getElementById("resume");
  if (resume && state !== "initiated") resume.hidden = true;
}

keepLive({
  path: `/ws/tasks/${task.dataset.task}/`,
  login: task.dataset.login,
  refresh,
  isOver: () => document.getElementById("task-status").dataset.state === "finished",
  hello: () => ({ after: lastEvent, log_after: log.lastId }),
  onMessage: (message) => {
    if (message.type === "log") {
      log.add(message);
      return;
    }
    if (message.type === "event") lastEvent = Math.max(lastEvent, message.seq);
    refresh();
  },
});

// A task's page: events bring a fresh status, log lines come as they are written.

import { tellElapsed } from "./ago.js";
import { LogPane } from "./log_pane.js";
import { hideNotice, showNotice } from "./notice.js";
import { followRun } from "./run_end.js";
import { makeRefresher } from "./refresher.js";
import { toLogin } from "./requests.js";
import { CLOSED_NOT_FOUND, CLOSED_NOT_LOGGED_IN, keepSocket } from "./socket.js";

const task = document.getElementById("task");
const log = new LogPane(document.getElementById("log"), {
  empty: document.getElementById("log-empty"),
  cut: document.getElementById("log-cut"),
});
let lastEvent = Number(task.dataset.after);

const refresh = makeRefresher(task, () => task.dataset.statusUrl, {
  onSwap: () => {
    hideResume();
    follow(document.getElementById("task-status").dataset.status);
  },
});
const follow = followRun(document.getElementById("task-status").dataset.status, task.dataset);

// no event tells that the queue grew shorter, or that the device went away
const INTERVAL_MS = 15_000;
window.setInterval(() => {
  const { state } = document.getElementById("task-status").dataset;
  if (state !== "finished" && document.visibilityState === "visible") refresh();
}, INTERVAL_MS);

const TICK_MS = 1_000;
tellElapsed(task);
window.setInterval(() => tellElapsed(task), TICK_MS);

/** The form for the rest of an upload makes sense only while the task waits for its files. */
function hideResume() {
  const resume = document.getElementById("resume");
  const state = document.getElementById("task-status").dataset.state;
  if (resume && state !== "initiated") resume.hidden = true;
}

keepSocket(`/ws/tasks/${task.dataset.task}/`, {
  hello: () => ({
    after: lastEvent,
    log_after: log.lastId,
    language: document.documentElement.lang,
  }),
  onUp: hideNotice,
  onDown: () => showNotice("lost"),
  onMessage: (message) => {
    if (message.type === "log") {
      log.add(message);
    } else if (message.type === "progress") {
      const progress = document.getElementById("progress");
      if (progress) progress.textContent = message.text;
    } else if (message.type === "event") {
      lastEvent = Math.max(lastEvent, message.seq);
      refresh();
    }
  },
  onEnd: (code) => {
    if (code === CLOSED_NOT_LOGGED_IN) toLogin(task.dataset.login);
    if (code === CLOSED_NOT_FOUND) showNotice("gone");
  },
});

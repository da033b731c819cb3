// A task's page: events bring a fresh status, log lines come as they are written.

import { updateElapsedTimes } from "../../ago.js";
import { keepLive } from "../../live_page.js";
import { startViews } from "../../profiles/result/views.js";
import { makeRefresher } from "../../refresher.js";
import { getFragment } from "../../requests.js";
import { LogPane } from "./log_pane.js";
import { followRun } from "./run_end.js";

const task = document.getElementById("task");
const log = new LogPane(document.getElementById("log"), {
  empty: document.getElementById("log-empty"),
  cut: document.getElementById("log-cut"),
});
let lastEvent = Number(task.dataset.after);
let step = document.querySelector("#steps [aria-current=step] .steps__title")?.textContent ?? "";
let { title } = document.getElementById("task-status").dataset;
/** Pause between refreshes for ended passes: in a browser on the device that runs the task, each disturbs a pass. */
const PROGRESS_MS = 5_000;

const refresh = makeRefresher(task, () => task.dataset.statusUrl, {
  others: ["task-operators", "task-files", "task-about"].map((id) => document.getElementById(id)).filter(Boolean),
  onSwap: () => {
    const { state, status, title: newTitle } = document.getElementById("task-status").dataset;
    // the rest names the view, the task and the site; in a result the title is another one
    document.title = document.title.replace(title, () => newTitle);
    title = newTitle;
    announceStep();
    hideResume(state);
    const shortened = document.getElementById("log-shortened");
    if (shortened) shortened.hidden = state !== "running";
    if (state === "finished") log.empty.textContent = log.empty.dataset.ended;
    follow(status);
  },
});
const follow = followRun(document.getElementById("task-status").dataset.status, task.dataset);

// in a result, the script of its page opens the views
const page = document.querySelector(".page--state #workspace");
if (page) {
  const announce = (text) => { document.getElementById("task-announcement").textContent = text; };
  startViews(page, { fetchFragment: (url) => getFragment(url, page.dataset), announce, onOpen: () => {} });
}

const TICK_MS = 1_000;
updateElapsedTimes(task);
window.setInterval(() => updateElapsedTimes(task), TICK_MS);

/** Tell screen readers about a new step, from an element that stays in the page. */
function announceStep() {
  const current = document.querySelector("#steps [aria-current=step] .steps__title")?.textContent ?? "";
  if (current !== step) document.getElementById("task-announcement").textContent = current;
  step = current;
}

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
    refresh(message.type === "progress" ? PROGRESS_MS : 0);
  },
});

// While an opened profile is being read: ask how far it is, then show what became of it.

import { getJson } from "./requests.js";

const FIRST_MS = 500;
const LONGEST_MS = 4_000;
/** while the server says how far it is */
const MOVING_MS = 1_000;

const wait = document.getElementById("opened-wait");
const bar = document.getElementById("opened-bar");
const words = document.getElementById("opened-progress");
let pauseMs = FIRST_MS;

async function look() {
  try {
    const { state, progress } = await getJson(wait.dataset.status, { login: wait.dataset.login });
    if (state !== "processing") {
      window.location.reload();
      return;
    }
    show(progress);
    pauseMs = progress ? MOVING_MS : Math.min(pauseMs * 1.5, LONGEST_MS);
  } catch {
    // the server is away for a moment: the next look tells
    pauseMs = Math.min(pauseMs * 1.5, LONGEST_MS);
  }
  window.setTimeout(look, pauseMs);
}

function show(progress) {
  words.hidden = !progress;
  if (!progress) return;
  bar.value = progress.percent;
  bar.setAttribute("aria-valuetext", progress.text);
  words.textContent = progress.text;
}

window.setTimeout(look, pauseMs);

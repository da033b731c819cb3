// While an opened profile is being read: ask how far it is, then show what became of it.

import { getJson } from "./requests.js";

const FIRST_MS = 500;
const LONGEST_MS = 4_000;

const wait = document.getElementById("opened-wait");
let pauseMs = FIRST_MS;

async function look() {
  try {
    const { state } = await getJson(wait.dataset.status, { login: wait.dataset.login });
    if (state !== "processing") {
      window.location.reload();
      return;
    }
  } catch {
    // the server is away for a moment: the next look tells
  }
  pauseMs = Math.min(pauseMs * 1.5, LONGEST_MS);
  window.setTimeout(look, pauseMs);
}

window.setTimeout(look, pauseMs);

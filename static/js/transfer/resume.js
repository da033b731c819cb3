// Resume an interrupted upload on the page of its task or import: the user chooses the same files again.

import { bytesize, fill } from "../format.js";
import { postJson } from "../requests.js";
import { Transfer } from "./transfer.js";

const box = document.getElementById("resume");
const chooser = document.getElementById("resume-files");
const button = document.getElementById("resume-start");
const problem = document.getElementById("resume-error");
/** List items, one for each file that the upload still needs. */
const items = [...document.querySelectorAll(".file-list__item")];
/** List item -> the chosen File that matches it. */
const matches = new Map();

const isMatch = (item, file) => item.dataset.name === file.name && Number(item.dataset.size) === file.size;

chooser.addEventListener("change", () => {
  for (const file of chooser.files) {
    const item = items.find((candidate) => !matches.has(candidate) && isMatch(candidate, file));
    if (!item) continue;
    matches.set(item, file);
    item.classList.add("file-list__item--matched");
    const state = item.querySelector(".file-list__state");
    state.textContent = state.dataset.found;
  }
  const missing = items.filter((item) => !matches.has(item)).map((item) => item.dataset.name);
  problem.hidden = missing.length === 0;
  problem.textContent = problem.dataset.mismatch + missing.join(", ");
  button.disabled = missing.length > 0;
});

/** Show for each large file how much of it is already in storage. */
async function showStoredParts() {
  const { uploads } = await postJson(box.dataset.uploads, {}, { login: box.dataset.login });
  for (const { file, parts } of uploads) {
    const item = items.find(({ dataset }) => Number(dataset.file) === file);
    const done = parts ? Object.keys(parts.done).length : 0;
    if (!item || !done) continue;
    const size = Number(item.dataset.size);
    const note = item.querySelector(".file-list__progress");
    const bytes = Math.min(size, done * parts.part_bytes);
    note.textContent = fill(note.dataset.here, { done: bytesize(bytes), size: bytesize(size) });
  }
}

async function send() {
  const transfer = new Transfer(
    items.map((item) => matches.get(item)),
    box.dataset.login,
    items.map((item) => Number(item.dataset.file)),
  );
  chooser.disabled = button.disabled = true;
  if (!(await transfer.run(null, box.dataset))) window.location.assign(box.dataset.left);
}

if (items.some((item) => Number(item.dataset.parts))) {
  // a failure is ignored: the upload itself reports the same problem
  showStoredParts().catch(() => {});
}
document.getElementById("resume-form").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});

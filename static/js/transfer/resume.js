// On the page of a task whose upload broke off: choose the same files again and go on.

import { bytesize, fill } from "../format.js";
import { postJson } from "../requests.js";
import { Transfer } from "./transfer.js";

const box = document.getElementById("resume");
const chooser = document.getElementById("resume-files");
const button = document.getElementById("resume-start");
const problem = document.getElementById("resume-error");
const wanted = [...document.querySelectorAll(".wanted__file")];
/** wanted file -> the File that fits it */
const found = new Map();

const fits = (item, file) => item.dataset.name === file.name && Number(item.dataset.size) === file.size;

chooser.addEventListener("change", () => {
  for (const file of chooser.files) {
    const item = wanted.find((candidate) => !found.has(candidate) && fits(candidate, file));
    if (!item) continue;
    found.set(item, file);
    item.classList.add("wanted__file--found");
    const state = item.querySelector(".wanted__state");
    state.textContent = state.dataset.found;
  }
  const missing = wanted.filter((item) => !found.has(item)).map((item) => item.dataset.name);
  problem.hidden = missing.length === 0;
  problem.textContent = problem.dataset.mismatch + missing.join(", ");
  button.disabled = missing.length > 0;
});

/** Say of each large file how much of it storage has already. */
async function tellWhatIsHere() {
  const { uploads } = await postJson(box.dataset.uploads, {}, { login: box.dataset.login });
  for (const { file, parts } of uploads) {
    const item = wanted.find((each) => Number(each.dataset.file) === file);
    const done = parts ? Object.keys(parts.done).length : 0;
    if (!item || !done) continue;
    const size = Number(item.dataset.size);
    const place = item.querySelector(".wanted__here");
    const bytes = Math.min(size, done * parts.part_bytes);
    place.textContent = fill(place.dataset.here, { done: bytesize(bytes), size: bytesize(size) });
  }
}

async function send() {
  const transfer = new Transfer(
    wanted.map((item) => found.get(item)),
    box.dataset.login,
    wanted.map((item) => Number(item.dataset.file)),
  );
  chooser.disabled = button.disabled = true;
  if (!(await transfer.run(null, box.dataset))) window.location.assign(box.dataset.left);
}

if (wanted.some((item) => Number(item.dataset.parts))) {
  // what cannot be told now is told by the upload itself
  tellWhatIsHere().catch(() => {});
}
document.getElementById("resume-form").addEventListener("submit", (event) => {
  event.preventDefault();
  send();
});

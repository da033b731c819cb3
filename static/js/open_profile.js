// Opening a profile that was made elsewhere: look, sum up, send to storage, have it read.
//
// Without this script the form posts the files by itself.

import { acceptDrops } from "./drops.js";
import { bytesize, fill } from "./format.js";
import { inOrderOfPasses } from "./pass_order.js";
import { NoAnswer, Refusal, postJson } from "./requests.js";
import { Transfer } from "./transfer.js";

const form = document.getElementById("open-profile");
const texts = form.dataset;
const chooser = form.elements.files;
const place = document.getElementById("open-error");

function show(message) {
  place.textContent = message;
  place.hidden = !message;
  chooser.setAttribute("aria-invalid", String(Boolean(message)));
  if (message) place.focus();
}

/** What is wrong before anything is read, or "". */
function problemOf(files) {
  if (!files.length) return texts.none;
  if (files.length > Number(texts.filesLimit)) return texts.many;
  const empty = files.find((file) => file.size === 0);
  if (empty) return fill(texts.empty, { name: empty.name });
  const limit = Number(texts.limit);
  const large = files.find((file) => file.size > limit);
  if (!large) return "";
  return fill(texts.large, { name: large.name, size: bytesize(large.size), limit: bytesize(limit) });
}

/** The first bytes in base64: the server tells from them what a file is. */
async function headOf(file) {
  const bytes = new Uint8Array(await file.slice(0, Number(texts.headBytes)).arrayBuffer());
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
}

async function describe(transfer, files) {
  const heads = await Promise.all(files.map(headOf));
  const sums = await transfer.hashAll();
  return files.map((file, i) => ({ name: file.name, size_bytes: file.size, md5: sums[i], head: heads[i] }));
}

function freeze(frozen) {
  for (const control of form.elements) control.disabled = frozen;
}

function back(transfer, message) {
  transfer.hide();
  freeze(false);
  show(message);
}

async function send(transfer, made) {
  const urls = {
    files: `${made.url}files/`,
    uploads: `${made.url}uploads/`,
    submit: `${made.url}submit/`,
    cancel: `${made.url}delete/`,
  };
  if (!(await transfer.run(made.uploads, urls))) back(transfer, "");
}

async function start(files) {
  const transfer = new Transfer(files, texts.login);
  const name = form.elements.name.value;
  freeze(true);
  transfer.panel.scrollIntoView({ block: "nearest" });
  let made;
  try {
    const described = await describe(transfer, files);
    made = await postJson(form.action, { name, files: described }, { login: texts.login });
  } catch (error) {
    if (error instanceof Refusal || error instanceof NoAnswer || error.kind) return back(transfer, transfer.cause(error));
    // a file that vanished while its first bytes were read
    return back(transfer, transfer.texts.unreadable);
  }
  return send(transfer, made);
}

chooser.addEventListener("change", () => {
  const files = inOrderOfPasses(chooser.files);
  show(files.length ? problemOf(files) : "");
  const chosen = document.getElementById("open-chosen");
  const names = files.map((file) => file.name).join(", ");
  chosen.textContent = files.length > 1 ? fill(texts.chosen, { names }) : "";
});
acceptDrops(form.querySelector("[data-drop=files]"), (files) => {
  const given = new DataTransfer();
  for (const file of files) given.items.add(file);
  chooser.files = given.files;
  chooser.dispatchEvent(new Event("change"));
});
// a file dropped beside the mark would replace the page
for (const name of ["dragover", "drop"]) document.addEventListener(name, (event) => event.preventDefault());
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const files = inOrderOfPasses(chooser.files);
  const problem = problemOf(files);
  show(problem);
  if (!problem) start(files);
});

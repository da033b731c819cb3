// Opening a profile that was made elsewhere: look, sum up, send to storage, have it read.
//
// Without this script the form posts the files by itself.

import { acceptDrops } from "../../drops.js";
import { bytesize, fill } from "../../format.js";
import { NoAnswer, Refusal, postJson } from "../../requests.js";
import { Transfer } from "../../transfer/transfer.js";
import { inOrderOfPasses, nameIn, ofChosenFolder, ofDroppedFolder } from "./run_files.js";

const form = document.getElementById("open-profile");
const texts = form.dataset;
const chooser = form.elements.files;
const folderChooser = document.getElementById("open-folder");
const place = document.getElementById("open-error");

/** of the folder that the chosen files lay in, or "" */
let folder = "";

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
  const place = `${texts.api}${made.id}/`;
  const urls = {
    files: `${place}files/`,
    uploads: `${place}uploads/`,
    submit: `${place}submit/`,
    remove: place,
    page: `${form.action}${made.id}/`,
  };
  if (!(await transfer.run(made.uploads, urls))) back(transfer, "");
}

async function start(files) {
  const transfer = new Transfer(files, texts.login);
  const name = form.elements.name.value.trim() || nameIn(folder, files[0]);
  freeze(true);
  transfer.panel.scrollIntoView({ block: "nearest" });
  let made;
  try {
    const described = await describe(transfer, files);
    made = await postJson(texts.api, { name, files: described }, { login: texts.login });
  } catch (error) {
    if (error instanceof Refusal || error instanceof NoAnswer || error.kind) return back(transfer, transfer.cause(error));
    // a file that vanished while its first bytes were read
    return back(transfer, transfer.texts.unreadable);
  }
  return send(transfer, made);
}

/** Take over files that came from elsewhere than the chooser. */
function take(files, from = "") {
  const given = new DataTransfer();
  for (const file of files) given.items.add(file);
  chooser.files = given.files;
  chooser.dispatchEvent(new Event("change"));
  folder = from;
  form.elements.name.placeholder = nameIn(folder, inOrderOfPasses(files)[0]);
  if (from && !files.length) show(fill(texts.noneInFolder, { folder: from }));
}

folderChooser.closest("[hidden]").hidden = false;
folderChooser.addEventListener("change", () => {
  const found = ofChosenFolder(folderChooser.files);
  if (found.folder) take(found.files, found.folder);
  // the same folder may be chosen again; its files stand in the chooser of files
  folderChooser.value = "";
});
chooser.addEventListener("change", () => {
  folder = form.elements.name.placeholder = "";
  const files = inOrderOfPasses(chooser.files);
  show(files.length ? problemOf(files) : "");
  const chosen = document.getElementById("open-chosen");
  const names = files.map((file) => file.name).join(", ");
  chosen.textContent = files.length > 1 ? fill(texts.chosen, { names }) : "";
});
acceptDrops(form.querySelector("[data-drop=files]"), (files) => take(files), (transfer) => {
  const found = ofDroppedFolder(transfer);
  found?.then((each) => take(each.files, each.folder), () => show(texts.unreadableFolder));
  return found !== null;
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

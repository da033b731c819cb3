// Import a profile: check the chosen files, hash them, upload them to storage and submit the import.
//
// Without this script the form posts the files to the server.

import { acceptDrops } from "../../drops.js";
import { bytesize, fill } from "../../format.js";
import { postJson } from "../../requests.js";
import { Transfer } from "../../transfer/transfer.js";
import { UploadError } from "../../transfer/upload.js";
import { nameIn, readChosenFolder, readDroppedFolder, sortByPass } from "./run_files.js";

const form = document.getElementById("open-profile");
const texts = form.dataset;
const chooser = form.elements.files;
const folderChooser = document.getElementById("open-folder");
const errorMessage = document.getElementById("open-error");

/** The name of the folder that contains the chosen files, or "". */
let folder = "";

function showError(message) {
  errorMessage.textContent = message;
  errorMessage.hidden = !message;
  chooser.setAttribute("aria-invalid", String(Boolean(message)));
  if (message) errorMessage.focus();
}

/** The message about the number and sizes of the files, or "". */
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

/** The first bytes in base64, from which the server detects the format. Throws UploadError. */
async function headOf(file) {
  const head = await file.slice(0, Number(texts.headBytes)).arrayBuffer().catch(() => null);
  if (!head) throw new UploadError("unreadable", 0, file.name);
  const bytes = new Uint8Array(head);
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

function returnToForm(transfer, message) {
  transfer.hide();
  freeze(false);
  showError(message);
}

async function upload(transfer, created) {
  const url = `${texts.api}${created.id}/`;
  const urls = {
    files: `${url}files/`,
    uploads: `${url}uploads/`,
    submit: `${url}submit/`,
    remove: url,
    page: `${form.action}${created.id}/`,
  };
  if (!(await transfer.run(created.uploads, urls))) returnToForm(transfer, "");
}

async function start(files) {
  const transfer = new Transfer(files, texts.login);
  const name = form.elements.name.value.trim() || nameIn(folder, files[0]);
  freeze(true);
  transfer.panel.scrollIntoView({ block: "nearest" });
  let created;
  try {
    const descriptions = await describe(transfer, files);
    created = await postJson(texts.api, { name, files: descriptions }, { login: texts.login });
  } catch (error) {
    return returnToForm(transfer, transfer.cause(error));
  }
  return upload(transfer, created);
}

/** Set the chooser's files to dropped files, or to the files of a folder with the name `from`. */
function setFiles(files, from = "") {
  const transfer = new DataTransfer();
  for (const file of files) transfer.items.add(file);
  chooser.files = transfer.files;
  chooser.dispatchEvent(new Event("change"));
  folder = from;
  form.elements.name.placeholder = nameIn(folder, sortByPass(files)[0]);
  if (from && !files.length) showError(fill(texts.noneInFolder, { folder: from }));
}

folderChooser.closest("[hidden]").hidden = false;
folderChooser.addEventListener("change", () => {
  const contents = readChosenFolder(folderChooser.files);
  if (contents.folder) setFiles(contents.files, contents.folder);
  // reset, so that the same folder can be chosen again; the other chooser has its files
  folderChooser.value = "";
});
chooser.addEventListener("change", () => {
  folder = form.elements.name.placeholder = "";
  const files = sortByPass(chooser.files);
  showError(files.length ? problemOf(files) : "");
  const list = document.getElementById("open-chosen");
  const names = files.map((file) => file.name).join(", ");
  list.textContent = files.length > 1 ? fill(texts.chosen, { names }) : "";
});
acceptDrops(form.querySelector("[data-drop=files]"), (files) => setFiles(files), (transfer) => {
  const reading = readDroppedFolder(transfer);
  reading?.then((contents) => setFiles(contents.files, contents.folder), () => showError(texts.unreadableFolder));
  return reading !== null;
});
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const files = sortByPass(chooser.files);
  const problem = problemOf(files);
  showError(problem);
  if (!problem) start(files);
});

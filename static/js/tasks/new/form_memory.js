// Save the new-task form in the tab's session storage, and restore it when the user returns or logs in.
//
// Browsers restore neither rows that a script added nor chosen files; the user must choose these again.

import { fill } from "../../format.js";
import { addRow, readRows, setStored, setStoredFile } from "./file_rows.js";
import { offerStored } from "./option_form.js";
import { addStoredExtraFile, listExtraFiles } from "./script_form.js";

const form = document.getElementById("new-task");
const key = () => `new-task ${window.location.search}`;
/** Types of controls that have no value to save. */
const NO_VALUE = ["file", "hidden", "submit", "button", "fieldset", "output"];
/** Controls that determine the choices of others; they are restored first, in this order. */
const FIRST = ["kind", "where", "worker", "runtime"];
const ROW_FIELDS = ["mode", "input", "numbers", "shape", "dtype"];

let restoreOnNextVisit = false;
let draft = "";

/** Save the form and restore it on the next visit, even by a link: after a login, or in another language. */
export function saveForNextVisit() {
  restoreOnNextVisit = true;
  saveForm();
}

/** Set the URL of the page of the task whose files are being uploaded; empty without an upload. */
export function setDraft(url) {
  draft = url;
}

export function saveForm() {
  const { user, copiedFrom } = form.dataset;
  const saved = { reader: user, isWanted: restoreOnNextVisit, draft, copiedFrom, ...readForm() };
  try {
    window.sessionStorage.setItem(key(), JSON.stringify(saved));
  } catch {
    // session storage is full or blocked: the form works without it
  }
}

function removeSavedForm() {
  window.sessionStorage.removeItem(key());
}

/** The saved form to restore on this visit, or null: a form opened by a link starts empty. */
export function loadSavedForm() {
  let saved;
  try {
    saved = JSON.parse(window.sessionStorage.getItem(key()));
  } catch {
    return null;
  }
  const [visit] = /** @type {PerformanceNavigationTiming[]} */ (performance.getEntriesByType("navigation"));
  const isBack = ["back_forward", "reload"].includes(visit?.type);
  if (saved && saved.reader === form.dataset.user && (isBack || saved.isWanted)) return saved;
  removeSavedForm();
  return null;
}

function readForm() {
  const { model, program } = form.elements;
  const fileOf = (chooser) => chooser.files[0]?.name ?? chooser.dataset.missingFile ?? "";
  return {
    values: controls().map((control) => [nameOf(control), isBox(control) ? control.checked : control.value]),
    rows: readRows().map(({ row, storedId, storedArrays, name }) => ({
      ...Object.fromEntries(ROW_FIELDS.map((field) => [field, row.querySelector(`[name=data-${field}]`).value])),
      file: fileOf(row.querySelector("[name=data-file]")),
      taken: storedId ? { id: storedId, name, arrays: storedArrays } : null,
    })),
    model: fileOf(model),
    takenModel: storedFileOf(model),
    otherModel: fileOf(form.elements["other-model"]),
    program: fileOf(program),
    takenProgram: storedFileOf(program),
    beside: listExtraFiles(),
    optionFiles: optionChoosers().map(fileOf),
    takenOptions: [...form.querySelectorAll("[data-source][data-stored-id]")].map(({ dataset }) => [dataset.source, dataset.storedId]),
  };
}

const optionChoosers = () => [...form.querySelectorAll("[data-option] [type=file]")];
const storedFileOf = ({ dataset: { storedId, storedName, storedAddress, storedSize } }) => (
  storedId ? { id: Number(storedId), name: storedName, address: storedAddress, size: Number(storedSize) } : null
);
const isBox = ({ type }) => type === "checkbox" || type === "radio";
const nameOf = (control) => (isBox(control) ? `${control.name}=${control.value}` : control.name || control.id);

function controls() {
  const isSaved = (control) => (control.name || control.id) && !NO_VALUE.includes(control.type) && !control.closest(".data-row");
  return [...form.elements].filter((control) => isSaved(control) && control.id !== "option-search");
}

/** Fill the form with its saved content, and list the files that must be chosen again. */
export function restoreForm(saved) {
  if (saved.copiedFrom) form.dataset.copiedFrom = saved.copiedFrom;
  for (const [option, fileId] of saved.takenOptions) offerStored(option, fileId);
  const values = new Map(saved.values);
  for (const name of FIRST) controls().filter((control) => control.name === name).forEach((control) => setValue(control, values));
  for (const control of controls()) if (!FIRST.includes(control.name)) setValue(control, values);
  if (saved.takenModel) setStoredFile(form.elements.model, saved.takenModel);
  if (saved.takenProgram) setStoredFile(form.elements.program, saved.takenProgram);
  for (const { name, taken: stored } of saved.beside) addStoredExtraFile(stored ?? { id: null, name });
  for (const row of saved.rows) addSavedRow(row);
  const { model, program, "other-model": otherModel } = form.elements;
  const optionFiles = optionChoosers().map((chooser, place) => [chooser, saved.optionFiles[place]]);
  for (const [chooser, name] of [[model, saved.model], [program, saved.program], [otherModel, saved.otherModel], ...optionFiles]) {
    if (name && !chooser.files.length) chooser.dataset.missingFile = name;
  }
  if (otherModel.dataset.missingFile || form.querySelector("#origin-arms [name=arm]:checked")) document.querySelector("#pairing").open = true;
  showRestored(saved, lostFiles(saved));
  form.dispatchEvent(new Event("change"));
}

function setValue(control, values) {
  const value = values.get(nameOf(control));
  if (value === undefined) return;
  if (isBox(control)) {
    if (control.checked === value) return;
    control.checked = value;
  } else {
    const option = control.options && [...control.options].find((candidate) => candidate.value === value);
    // libraries are offered only after the server's first response
    if (control.dataset.kind === "library" && !option) control.add(new Option(value, value));
    else if (control.options && (!option || option.disabled)) return;
    control.value = value;
  }
  control.dispatchEvent(new Event("change"));
}

function addSavedRow(saved) {
  const row = addRow();
  const control = (field) => row.querySelector(`[name=data-${field}]`);
  control("mode").value = saved.mode;
  if (saved.taken) setStored(row, saved.taken, saved.input);
  else if (saved.file) control("file").dataset.missingFile = saved.file;
  for (const field of ROW_FIELDS) control(field).value = saved[field];
  control("mode").dispatchEvent(new Event("change"));
}

/** The names of files that the browser could not restore. */
function lostFiles(saved) {
  const { model, program, "other-model": otherModel } = form.elements;
  const isScript = form.elements.kind.value === "script";
  const ofModel = [model.dataset.missingFile, otherModel.dataset.missingFile, ...saved.rows.filter(({ taken, mode }) => mode === "file" && !taken).map(({ file }) => file)];
  const ofScript = [program.dataset.missingFile, ...saved.beside.filter(({ taken }) => !taken).map(({ name }) => name)];
  const ofOptions = optionChoosers().map(({ hidden, dataset }) => (hidden ? "" : dataset.missingFile));
  return (isScript ? ofScript : [...ofModel, ...ofOptions]).filter(Boolean);
}

/** Show the notice about the restored form, with the names of lost files and a link to an unfinished upload. */
function showRestored(saved, lost) {
  const notice = document.getElementById("restored-form");
  notice.hidden = false;
  document.getElementById("restored-form-files").textContent = lost.length ? fill(notice.dataset.files, { names: lost.join(", ") }) : "";
  const link = document.getElementById("restored-form-upload");
  link.hidden = !saved.draft;
  if (saved.draft) link.href = saved.draft;
  document.getElementById("discard-form").addEventListener("click", () => {
    window.removeEventListener("pagehide", saveForm);
    removeSavedForm();
    window.location.assign(window.location.href);
  });
}

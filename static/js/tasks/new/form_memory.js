// What the new-task form holds, kept in this tab: for who comes back to it, and after a login.
//
// A browser keeps no rows that a script made, and no files: these are asked for again.

import { fill } from "../../format.js";
import { addRow, readRows, take, takeModel } from "./file_rows.js";
import { besideFiles, takeBeside, takeProgram } from "./script_form.js";

const form = document.getElementById("new-task");
const key = () => `new-task ${window.location.search}`;
const NO_TEXT = ["file", "hidden", "submit", "button", "fieldset", "output"];
/** these decide what others can hold, in this order */
const FIRST = ["kind", "where", "worker", "runtime"];
const TEXTS = ["mode", "input", "numbers", "shape", "dtype"];

let isWanted = false;
let draft = "";

/** Restore the form when this page is opened the next time, also by a link: after a login, in another language. */
export function bringBack() {
  isWanted = true;
  remember();
}

/** Note the page of the task whose files are being uploaded; empty if none is. */
export function noteDraft(address) {
  draft = address;
}

export function remember() {
  const kept = { reader: form.dataset.reader, isWanted, draft, copiedFrom: form.dataset.copiedFrom, ...readForm() };
  try {
    window.sessionStorage.setItem(key(), JSON.stringify(kept));
  } catch {
    // storage is full or shut: the form works without
  }
}

export function forget() {
  window.sessionStorage.removeItem(key());
}

/** What was kept for this visit, or null: a form that a link opened begins empty. */
export function recall() {
  let kept = null;
  try {
    kept = JSON.parse(window.sessionStorage.getItem(key()));
  } catch {
    return null;
  }
  const [visit] = /** @type {PerformanceNavigationTiming[]} */ (performance.getEntriesByType("navigation"));
  const isBack = ["back_forward", "reload"].includes(visit?.type);
  if (kept && kept.reader === form.dataset.reader && (isBack || kept.isWanted)) return kept;
  forget();
  return null;
}

function readForm() {
  const { model, program } = form.elements;
  const fileOf = (chooser) => chooser.files[0]?.name ?? chooser.dataset.again ?? "";
  return {
    values: controls().map((control) => [nameOf(control), isBox(control) ? control.checked : control.value]),
    rows: readRows().map(({ row, taken, name }) => ({
      ...Object.fromEntries(TEXTS.map((text) => [text, row.querySelector(`[name=data-${text}]`).value])),
      file: fileOf(row.querySelector("[name=data-file]")),
      taken: taken ? { id: taken, name } : null,
    })),
    model: fileOf(model),
    takenModel: takenOf(model),
    program: fileOf(program),
    takenProgram: takenOf(program),
    beside: besideFiles(),
    optionFiles: optionChoosers()
      .map((chooser) => chooser.files[0]?.name)
      .filter(Boolean),
    takenOptions: [...form.querySelectorAll("[data-source][data-taken]")].map(({ dataset }) => [dataset.source, dataset.taken]),
  };
}

const optionChoosers = () => [...form.querySelectorAll("[data-option] [type=file]")];
const takenOf = ({ dataset }) => (dataset.taken ? { id: Number(dataset.taken), name: dataset.takenName } : null);
const isBox = ({ type }) => type === "checkbox" || type === "radio";
const nameOf = (control) => (isBox(control) ? `${control.name}=${control.value}` : control.name || control.id);

function controls() {
  const isOurs = (control) => (control.name || control.id) && !NO_TEXT.includes(control.type) && !control.closest(".data-row");
  return [...form.elements].filter((control) => isOurs(control) && control.id !== "option-search");
}

/** Fill the form with what was kept. Tells which files are to be chosen again. */
export function restore(kept) {
  if (kept.copiedFrom) form.dataset.copiedFrom = kept.copiedFrom;
  for (const [option, taken] of kept.takenOptions) takeSource(option, taken);
  const values = new Map(kept.values);
  for (const name of FIRST) controls().filter((control) => control.name === name).forEach((control) => put(control, values));
  for (const control of controls()) if (!FIRST.includes(control.name)) put(control, values);
  if (kept.takenModel) takeModel(kept.takenModel);
  if (kept.takenProgram) takeProgram(kept.takenProgram);
  for (const { taken } of kept.beside) if (taken) takeBeside(taken);
  for (const row of kept.rows) addKeptRow(row);
  const { model, program } = form.elements;
  if (!model.files.length && kept.model) model.dataset.again = kept.model;
  if (!program.files.length && kept.program) program.dataset.again = kept.program;
  tell(kept, lostFiles(kept));
  form.dispatchEvent(new Event("change"));
}

function put(control, values) {
  const value = values.get(nameOf(control));
  if (value === undefined) return;
  if (isBox(control)) {
    if (control.checked === value) return;
    control.checked = value;
  } else {
    const option = control.options && [...control.options].find((each) => each.value === value);
    // a library is offered only once the server has told of it
    if (control.dataset.kind === "library" && !option) control.add(new Option(value, value));
    else if (control.options && (!option || option.disabled)) return;
    control.value = value;
  }
  control.dispatchEvent(new Event("change"));
}

function takeSource(option, taken) {
  const source = form.querySelector(`[data-source="${CSS.escape(option)}"]`);
  const choice = source?.querySelector("[value=taken]");
  if (!choice) return;
  choice.hidden = choice.disabled = false;
  source.dataset.taken = taken;
}

function addKeptRow(kept) {
  const row = addRow();
  const at = (text) => row.querySelector(`[name=data-${text}]`);
  at("mode").value = kept.mode;
  if (kept.taken) take(row, kept.taken, kept.input);
  else if (kept.file) at("file").dataset.again = kept.file;
  for (const text of TEXTS) at(text).value = kept[text];
  at("mode").dispatchEvent(new Event("change"));
}

function lostFiles(kept) {
  const { model, program } = form.elements;
  const isScript = form.elements.kind.value === "script";
  const ofModel = [model.dataset.again, ...kept.rows.filter(({ taken, mode }) => mode === "file" && !taken).map(({ file }) => file)];
  const ofScript = [program.dataset.again, ...kept.beside.filter(({ taken }) => !taken).map(({ name }) => name)];
  const here = optionChoosers().some((chooser) => chooser.files.length);
  return (isScript ? ofScript : [...ofModel, ...(here ? [] : kept.optionFiles)]).filter(Boolean);
}

function tell(kept, lost) {
  const place = document.getElementById("remembered");
  place.hidden = false;
  document.getElementById("remembered-files").textContent = lost.length ? fill(place.dataset.files, { names: lost.join(", ") }) : "";
  const link = document.getElementById("remembered-upload");
  link.hidden = !kept.draft;
  if (kept.draft) link.href = kept.draft;
  document.getElementById("forget-form").addEventListener("click", () => {
    window.removeEventListener("pagehide", remember);
    forget();
    window.location.assign(window.location.href);
  });
}

// The form's rows for inputs: a file, numbers or random values, and the name of the input variable.

import { fill } from "../../format.js";

/** The proposed name of the variable: the file's name without its suffix. */
function stemOf(name) {
  return name.replace(/\.(npy|json|ppm|pgm)$/i, "");
}

const list = document.getElementById("data-rows");
const template = document.getElementById("data-row");
/** The number of rows ever added, for unique ids. */
let rowNumber = 0;

/** Add a row, optionally with a File, and return its element. */
export function addRow(file = null) {
  rowNumber += 1;
  const row = template.content.cloneNode(true).firstElementChild;
  const chooser = row.querySelector("[name=data-file]");
  const error = row.querySelector(".data-row__error");
  error.id = `data-error-${rowNumber}`;
  for (const control of row.querySelectorAll("input, select, textarea")) {
    const label = control.parentElement.querySelector("label");
    control.id = label.htmlFor = `${control.name}-${rowNumber}`;
    control.setAttribute("aria-describedby", error.id);
  }
  chooser.addEventListener("change", () => {
    clearStored(row);
    proposeName(chooser, row.querySelector("[name=data-input]"));
    showMode(row);
  });
  row.querySelector("[name=data-mode]").addEventListener("change", () => showMode(row));
  row.querySelector(".data-row__remove").addEventListener("click", () => {
    row.remove();
    list.dispatchEvent(new Event("input", { bubbles: true }));
    document.getElementById("add-data").focus();
  });
  list.append(row);
  if (file) setFile(chooser, file);
  return row;
}

/** Use what a row gives for the input variable `name`, as if the user had typed it. */
export function setInput(row, name) {
  const input = row.querySelector("[name=data-input]");
  input.value = name;
  input.dispatchEvent(new Event("input", { bubbles: true }));
  row.querySelector("[data-for]:not([hidden]) :is(input, textarea)").focus();
}

/** Use a stored file, {id, name, arrays}, in a row. */
export function setStored(row, stored, input) {
  row.dataset.storedId = stored.id;
  row.dataset.storedName = stored.name;
  row.dataset.storedArrays = JSON.stringify(stored.arrays);
  row.querySelector(".stored-file").textContent = stored.name;
  row.querySelector("[name=data-input]").value = input;
  showMode(row);
}

/** Remove the stored file from a row, because the user chose another file. */
function clearStored(row) {
  delete row.dataset.storedId;
  delete row.dataset.storedName;
  delete row.dataset.storedArrays;
  row.querySelector(".stored-file").textContent = "";
}

/** Add a row for each file; rows without a file are used first. */
export function addFiles(files) {
  const isEmpty = (row) => row.querySelector("[name=data-mode]").value === "file" && !fileName(row);
  const choosers = [...list.querySelectorAll(".data-row")].filter(isEmpty).map((row) => row.querySelector("[name=data-file]"));
  for (const file of files) {
    // a file that has to be chosen again belongs to the row with its name
    const chooser =
      choosers.find(({ dataset }) => dataset.missingFile === file.name) ?? choosers.find(({ dataset }) => !dataset.missingFile);
    if (chooser) setFile(chooser, file);
    else addRow(file);
    choosers.splice(choosers.indexOf(chooser), chooser ? 1 : 0);
  }
}

/** Use a stored file, {id, name, address, size}, in a file input, until the user chooses another one. */
export function setStoredFile(chooser, { id, name, address, size }) {
  const note = document.getElementById(`${chooser.id}-stored`);
  Object.assign(chooser.dataset, { storedId: id, storedName: name, storedAddress: address, storedSize: size });
  note.textContent = fill(note.dataset.text, { name, task: chooser.form.dataset.copiedFrom });
  chooser.addEventListener("change", () => {
    for (const key of ["storedId", "storedName", "storedAddress", "storedSize"]) delete chooser.dataset[key];
    note.textContent = "";
  });
}

/** Set the file of a file input, as if the user had chosen it. */
export function setFile(chooser, file) {
  const transfer = new DataTransfer();
  transfer.items.add(file);
  chooser.files = transfer.files;
  chooser.dispatchEvent(new Event("change", { bubbles: true }));
}

/**
 * Read the rows: [{row, mode, file, storedId, storedArrays, name, input, inFile, numbers, shape, dtype}].
 *
 * `file`: the chosen File, or null; `storedId`: the id of a stored file, or null; `name`: of either.
 * `storedArrays`: [{name, dtype, shape}] of a stored file.
 * `inFile`: the file itself contains the names of the variables.
 */
export function readRows() {
  return [...list.querySelectorAll(".data-row")].map((row) => {
    const text = (name) => row.querySelector(`[name=data-${name}]`).value.trim();
    return {
      row,
      mode: text("mode"),
      file: row.querySelector("[name=data-file]").files[0] ?? null,
      storedId: row.dataset.storedId ? Number(row.dataset.storedId) : null,
      storedArrays: JSON.parse(row.dataset.storedArrays ?? "[]"),
      name: fileName(row),
      input: containsNames(row) ? "" : text("input"),
      inFile: containsNames(row),
      numbers: text("numbers"),
      shape: text("shape"),
      dtype: text("dtype"),
    };
  });
}

function fileName(row) {
  return row.querySelector("[name=data-file]").files[0]?.name ?? row.dataset.storedName ?? "";
}

function containsNames(row) {
  return row.querySelector("[name=data-mode]").value === "file" && /\.json$/i.test(fileName(row));
}

function showMode(row) {
  const mode = row.querySelector("[name=data-mode]").value;
  for (const part of row.querySelectorAll("[data-for]")) part.hidden = part.dataset.for !== mode;
  const input = row.querySelector("[name=data-input]");
  input.disabled = containsNames(row);
  input.placeholder = input.disabled ? input.dataset.inFile : "";
  if (input.disabled) input.value = "";
}

/** Set the proposed name of the variable unless the user typed another one. */
function proposeName(chooser, input) {
  const file = chooser.files[0];
  if (!file) return;
  if (!input.value || input.value === input.dataset.proposed) input.value = stemOf(file.name);
  input.dataset.proposed = stemOf(file.name);
}

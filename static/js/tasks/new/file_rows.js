// The rows for inputs in the form: a file, numbers or random values, and the variable that they feed.

import { fill } from "../../format.js";

/** What the variable is probably called: the file's name without its suffix. */
export function stemOf(name) {
  return name.replace(/\.(npy|json|ppm|pgm)$/i, "");
}

const list = document.getElementById("data-rows");
const template = document.getElementById("data-row");
let made = 0;

/** Add a row, with a File if there is one already. Returns the row. */
export function addRow(file = null) {
  made += 1;
  const row = template.content.cloneNode(true).firstElementChild;
  const chooser = row.querySelector("[name=data-file]");
  const error = row.querySelector(".data-row__error");
  error.id = `data-error-${made}`;
  for (const control of row.querySelectorAll("input, select, textarea")) {
    const label = control.parentElement.querySelector("label");
    control.id = label.htmlFor = `${control.name}-${made}`;
    control.setAttribute("aria-describedby", error.id);
  }
  chooser.addEventListener("change", () => {
    forget(row);
    propose(chooser, row.querySelector("[name=data-input]"));
    showMode(row);
  });
  row.querySelector("[name=data-mode]").addEventListener("change", () => showMode(row));
  row.querySelector(".data-row__remove").addEventListener("click", () => {
    row.remove();
    list.dispatchEvent(new Event("input", { bubbles: true }));
    document.getElementById("add-data").focus();
  });
  list.append(row);
  if (file) give(chooser, file);
  return row;
}

/** Let a row stand for a file that storage holds already: {id, name}. */
export function take(row, stored, input) {
  row.dataset.taken = stored.id;
  row.dataset.takenName = stored.name;
  row.querySelector(".taken").textContent = stored.name;
  row.querySelector("[name=data-input]").value = input;
  showMode(row);
}

/** A file that was chosen takes the place of a stored one. */
function forget(row) {
  delete row.dataset.taken;
  delete row.dataset.takenName;
  row.querySelector(".taken").textContent = "";
}

/** Add a row for each file; rows that wait for their file get the first of them. */
export function addFiles(files) {
  const isEmpty = (row) => row.querySelector("[name=data-mode]").value === "file" && !fileName(row);
  const choosers = [...list.querySelectorAll(".data-row")].filter(isEmpty).map((row) => row.querySelector("[name=data-file]"));
  for (const file of files) {
    // one that is asked for again knows its row
    const chooser =
      choosers.find(({ dataset }) => dataset.again === file.name) ?? choosers.find(({ dataset }) => !dataset.again);
    if (chooser) give(chooser, file);
    else addRow(file);
    choosers.splice(choosers.indexOf(chooser), chooser ? 1 : 0);
  }
}

/** Let a stored file {id, name} be the model, until another one is chosen. */
export function takeModel({ id, name }) {
  const { model } = document.getElementById("new-task").elements;
  const place = document.getElementById("model-taken");
  model.dataset.taken = id;
  model.dataset.takenName = name;
  place.textContent = fill(place.dataset.text, { name });
  model.addEventListener("change", () => {
    delete model.dataset.taken;
    delete model.dataset.takenName;
    place.textContent = "";
  });
}

/** Put a file that was dropped into a chooser. */
export function give(chooser, file) {
  const carrier = new DataTransfer();
  carrier.items.add(file);
  chooser.files = carrier.files;
  chooser.dispatchEvent(new Event("change", { bubbles: true }));
}

/**
 * What the rows hold: [{row, mode, file, taken, name, input, inFile, numbers, shape, dtype}].
 *
 * `file`: chosen here, or null; `taken`: the id of a stored one, or null; `name`: of either.
 * `inFile`: the file itself names the variables that it feeds.
 */
export function readRows() {
  return [...list.querySelectorAll(".data-row")].map((row) => {
    const text = (name) => row.querySelector(`[name=data-${name}]`).value.trim();
    return {
      row,
      mode: text("mode"),
      file: row.querySelector("[name=data-file]").files[0] ?? null,
      taken: row.dataset.taken ? Number(row.dataset.taken) : null,
      name: fileName(row),
      input: namesItself(row) ? "" : text("input"),
      inFile: namesItself(row),
      numbers: text("numbers"),
      shape: text("shape"),
      dtype: text("dtype"),
    };
  });
}

function fileName(row) {
  return row.querySelector("[name=data-file]").files[0]?.name ?? row.dataset.takenName ?? "";
}

function namesItself(row) {
  return row.querySelector("[name=data-mode]").value === "file" && /\.json$/i.test(fileName(row));
}

function showMode(row) {
  const mode = row.querySelector("[name=data-mode]").value;
  for (const part of row.querySelectorAll("[data-for]")) part.hidden = part.dataset.for !== mode;
  const input = row.querySelector("[name=data-input]");
  input.disabled = namesItself(row);
  input.placeholder = input.disabled ? input.dataset.inFile : "";
  if (input.disabled) input.value = "";
}

/** Fill in the stem unless the reader typed something else. */
function propose(chooser, input) {
  const file = chooser.files[0];
  if (!file) return;
  if (!input.value || input.value === input.dataset.proposed) input.value = stemOf(file.name);
  input.dataset.proposed = stemOf(file.name);
}

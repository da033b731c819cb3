// Error messages at the fields of the new-task form.

import { fill, sentences } from "../../format.js";
import { runtimeKind } from "./where.js";

const form = document.getElementById("new-task");

/** The fields that the server validates at every change; all others are validated at submission. */
const LIVE_FIELDS =
  "#options, #target, #measuring, #advanced, #data-rows, [data-field=worker], [data-field=runtime], " +
  "#script [data-field=entry], #script [data-field=arguments], #script [data-field=formats], #script [data-field=sample_rate]";

/** Show `message` at a field, or at the end of the form if the form has no such field. */
export function showError(field, message) {
  const box = field ? boxOf(field) : null;
  const error = box ? [...box.querySelectorAll(":scope > .field__error")].at(-1) : document.getElementById("form-error");
  error.textContent = message;
  error.hidden = false;
  reveal(box);
  // in a row for an input: the control with the values, not the select of their mode
  const control =
    box?.querySelector("[data-for]:not([hidden]) :is(input, textarea)") ??
    box?.querySelector("input:not([type=hidden]), select, textarea");
  if (control && field !== "data" && field !== "plan") control.setAttribute("aria-invalid", "true");
}

/** The visible part of the form for a field path such as script.entry or inputs.0.shape; null if there is none. */
function boxOf(field) {
  const parts = field.split(".");
  for (let end = parts.length; end > 0; end -= 1) {
    // an option of an arm is no field of the form
    const last = parts[0] === "pairing" ? [] : [parts[end - 1]];
    for (const name of [parts.slice(0, end).join("."), ...last]) {
      // the files of models and of scripts have the same names: use the visible part
      const boxes = [...form.querySelectorAll(`[data-field="${CSS.escape(name)}"]`)];
      const box = boxes.find((candidate) => !candidate.closest("[data-task-kind][hidden]"));
      if (box) return box;
    }
  }
  return null;
}

/** Show an option that is in a closed group or filtered out by the search. */
function reveal(box) {
  if (box) box.hidden = false;
  for (let fold = box?.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    fold.hidden = false;
    fold.open = true;
  }
}

/** Show each problem, {field, detail}, at its field. */
export function showProblems(problems) {
  const texts = new Map();
  for (const { field, detail } of problems) {
    const [, place, name] = field.match(/^(pairing\.arms\.\d)\.(.+)$/) ?? [null, field, ""];
    texts.set(place, [...(texts.get(place) ?? []), name ? `${name}: ${detail}` : detail]);
  }
  for (const [field, details] of texts) showError(field, sentences(details));
}

/** List the set options that the runtime does not support, beside the submit button. */
export function showImpossible(names) {
  const note = document.getElementById("form-impossible");
  note.hidden = names.length === 0;
  note.textContent = fill(note.dataset.text, { number: names.length, names: names.join(", ") });
}

function showRowError(row, message) {
  const error = row.querySelector(".data-row__error");
  error.textContent = message;
  error.hidden = false;
  for (const control of row.querySelectorAll("input, textarea")) control.setAttribute("aria-invalid", "true");
}

/** Clear all messages; scope "live": only those of fields that the server validates at every change. */
export function clearErrors(scope = "all") {
  clearParts(scope === "live" ? form.querySelectorAll(LIVE_FIELDS) : [form]);
}

/** Clear the messages in these parts of the form. */
export function clearParts(parts) {
  for (const part of parts) {
    // messages about a chosen file ([data-file-status]) stay as long as the file is chosen
    for (const error of part.querySelectorAll(".field__error:not([data-file-status]), #form-error")) {
      error.hidden = true;
      error.textContent = "";
    }
    for (const control of part.querySelectorAll("[aria-invalid]:not([data-refused])")) control.removeAttribute("aria-invalid");
  }
}

/** Focus the first error and scroll to it. Returns whether there is one. */
export function focusFirstError() {
  const isVisible = (element) => element.checkVisibility?.() ?? !element.closest("[hidden]");
  const control = [...form.querySelectorAll("[aria-invalid]")].find(isVisible);
  const error = [...form.querySelectorAll(".field__error:not([hidden]), #form-error:not([hidden])")].find(isVisible);
  (control ?? error)?.focus({ preventScroll: true });
  error?.scrollIntoView({ block: "center" });
  return Boolean(error);
}

/**
 * Show why the server rejected the request: at the row of the file that the message names, otherwise
 * at its field.
 */
export function showRefusal({ field, message, errors }, rows) {
  if (errors.length) {
    showProblems(errors);
    return;
  }
  const row = field === "data" && rows.find(({ name, mode }) => mode === "file" && name && message.includes(`“${name}”`));
  if (row) showRowError(row.row, message);
  else showError(field, message);
}

/** Validate the model, the number of inputs and their rows, and show the errors. */
export function checkFiles(model, rows) {
  const texts = document.getElementById("files").dataset;
  if (!model && !form.elements.model.dataset.storedId) showError("model", texts.noModel);
  if (rows.length > Number(texts.filesLimit)) {
    showError("data", fill(texts.many, { limit: texts.filesLimit }));
  }
  const inputs = new Set();
  for (const row of rows) {
    const text = rowError(row, inputs, texts);
    if (text) showRowError(row.row, text);
    if (row.input) inputs.add(row.input);
  }
}

/** The error of a row, or null. inputs: the names of the variables in the rows before it. */
function rowError({ mode, name, input, inFile, numbers }, inputs, texts) {
  if (mode === "file") {
    if (!name) return texts.noFile;
    if (inFile) return null;
  }
  if (mode === "numbers" && !numbers) return texts.noNumbers;
  if (!input) return texts.noInput;
  if (runtimeKind() === "binary" && /[:;]/.test(input)) return texts.badInput;
  return inputs.has(input) ? texts.twice : null;
}

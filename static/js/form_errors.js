// Messages at the fields of the new-task form.

import { bytesize, fill } from "./format.js";

const form = document.getElementById("new-task");

/** Show `message` at the field of that name; at the form's end if there is none. */
export function showError(field, message) {
  const box = field && form.querySelector(`[data-field="${CSS.escape(field)}"]`);
  const place = box ? [...box.querySelectorAll(":scope > .field__error")].at(-1) : document.getElementById("form-error");
  place.textContent = message;
  place.hidden = false;
  const control = box?.querySelector("input:not([type=hidden]), select");
  if (control && field !== "data") control.setAttribute("aria-invalid", "true");
}

export function showRowError(row, message) {
  const place = row.querySelector(".data-row__error");
  place.textContent = message;
  place.hidden = false;
  for (const control of row.querySelectorAll("input")) control.setAttribute("aria-invalid", "true");
}

export function clearErrors() {
  for (const place of form.querySelectorAll(".field__error, #form-error")) {
    place.hidden = true;
    place.textContent = "";
  }
  for (const control of form.querySelectorAll("[aria-invalid]")) control.removeAttribute("aria-invalid");
}

/** Take the reader to the first message. Returns whether there is one. */
export function focusFirstError() {
  const control = form.querySelector("[aria-invalid]");
  const place = form.querySelector(".field__error:not([hidden]), #form-error:not([hidden])");
  (control ?? place)?.focus();
  place?.scrollIntoView({ block: "center" });
  return Boolean(place);
}

/** What is wrong with the files before the server is asked; shows it. */
export function checkFiles(model, rows) {
  const texts = document.getElementById("files").dataset;
  if (model) sizeError(model, Number(texts.modelLimit), texts, (text) => showError("model", text));
  else showError("model", texts.noModel);
  if (rows.length > Number(texts.filesLimit)) {
    showError("data", fill(texts.many, { limit: texts.filesLimit }));
  }
  const seen = new Set();
  for (const { row, file, input } of rows) {
    const text = rowError(file, input, seen, texts);
    if (text) showRowError(row, text);
    else sizeError(file, Number(texts.dataLimit), texts, (found) => showRowError(row, found));
    seen.add(input);
  }
}

function rowError(file, input, seen, texts) {
  if (!file) return texts.noFile;
  if (!/\.(npy|json)$/i.test(file.name)) return fill(texts.suffix, { name: file.name });
  if (!input) return texts.noInput;
  if (/[:;]/.test(input)) return texts.badInput;
  return seen.has(input) ? texts.twice : null;
}

function sizeError(file, limit, texts, show) {
  if (file.size === 0) show(fill(texts.empty, { name: file.name }));
  else if (file.size > limit) {
    show(fill(texts.large, { name: file.name, size: bytesize(file.size), limit: bytesize(limit) }));
  }
}

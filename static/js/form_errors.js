// Messages at the fields of the new-task form.

import { bytesize, fill } from "./format.js";

const form = document.getElementById("new-task");

/** What the server is asked about at every change; the rest is looked at when the form is sent. */
const LIVE =
  "#options, #target, #measuring, #data-rows, [data-field=seed], [data-field=priority], [data-field=worker], " +
  "[data-field=runtime], #script [data-field=entry], #script [data-field=arguments], #script [data-field=formats], " +
  "#script [data-field=sample_rate], #script [data-field=time_limit_s]";

/** Show `message` at the field of that name; at the form's end if there is none. */
export function showError(field, message) {
  // a model's and a script's files have the same names: the part that is shown counts
  const boxes = field ? [...form.querySelectorAll(`[data-field="${CSS.escape(field)}"]`)] : [];
  const box = boxes.find((each) => !each.closest("[data-of][hidden]")) ?? null;
  const place = box ? [...box.querySelectorAll(":scope > .field__error")].at(-1) : document.getElementById("form-error");
  place.textContent = message;
  place.hidden = false;
  reveal(box);
  // in a row for an input: what gives its values, not how they are given
  const control =
    box?.querySelector("[data-for]:not([hidden]) :is(input, textarea)") ??
    box?.querySelector("input:not([type=hidden]), select, textarea");
  if (control && field !== "data" && field !== "plan") control.setAttribute("aria-invalid", "true");
}

/** Bring an option into sight whose group is closed, or which a search left out. */
function reveal(box) {
  const group = box?.closest("details");
  if (box) box.hidden = false;
  if (!group) return;
  group.hidden = false;
  group.open = true;
}

/** Show each problem, {field, text}, at its field. */
export function showProblems(problems) {
  const texts = new Map();
  for (const { field, text } of problems) texts.set(field, [...(texts.get(field) ?? []), text]);
  for (const [field, found] of texts) showError(field, found.join(" "));
}

/** Say beside the button which options are set that the runtime cannot do. */
export function showImpossible(names) {
  const place = document.getElementById("form-impossible");
  place.hidden = names.length === 0;
  place.textContent = fill(place.dataset.text, { number: names.length, names: names.join(", ") });
}

export function showRowError(row, message) {
  const place = row.querySelector(".data-row__error");
  place.textContent = message;
  place.hidden = false;
  for (const control of row.querySelectorAll("input, textarea")) control.setAttribute("aria-invalid", "true");
}

/** Take all messages away; `scope` "live": only those that the server gives at every change. */
export function clearErrors(scope = "all") {
  const parts = scope === "live" ? [...form.querySelectorAll(LIVE)] : [form];
  for (const part of parts) {
    for (const place of part.querySelectorAll(".field__error, #form-error")) {
      place.hidden = true;
      place.textContent = "";
    }
    for (const control of part.querySelectorAll("[aria-invalid]")) control.removeAttribute("aria-invalid");
  }
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
  else if (!form.elements.model.dataset.taken) showError("model", texts.noModel);
  if (rows.length > Number(texts.filesLimit)) {
    showError("data", fill(texts.many, { limit: texts.filesLimit }));
  }
  const seen = new Set();
  for (const row of rows) {
    const text = rowError(row, seen, texts);
    if (text) showRowError(row.row, text);
    else if (row.mode === "file" && row.file) {
      sizeError(row.file, Number(texts.dataLimit), texts, (found) => showRowError(row.row, found));
    }
    if (row.input) seen.add(row.input);
  }
}

function rowError({ mode, name, input, inFile, numbers }, seen, texts) {
  if (mode === "file") {
    if (!name) return texts.noFile;
    if (!/\.(npy|json|ppm|pgm)$/i.test(name)) return fill(texts.suffix, { name });
    if (inFile) return null;
  }
  if (mode === "numbers" && !numbers) return texts.noNumbers;
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
